"""What a person sees on stderr while a run goes on."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

__all__ = ["LiveProgress", "PlainProgress"]

REDRAW_S = 0.25
PLAIN_S = 10.0


class _Figures:
    """What both displays show, folded from committed events."""

    def __init__(self) -> None:
        self.name = ""
        self.phase = "starting"
        self.statuses: Counter[str] = Counter()
        self.total = 0
        self.evaluations = 0
        self.evaluations_limit: int | None = None
        self.minutes: float | None = None
        self.clock_s = 0.0
        self.best_score = 0.0
        self.best_trial = 0
        self.baseline_s: float | None = None
        self.finals = 0
        self.variants = 0
        self.calls = 0
        self.failed_calls = 0
        self.last_failure = ""

    def take(self, kind: str, body: Mapping[str, Any]) -> None:
        self.clock_s = max(self.clock_s, float(body.get("clock_s") or 0.0))
        if kind == "start":
            self.name = body["name"]
            self.evaluations_limit = body["settings"]["evaluations"]
            self.minutes = body["settings"]["minutes"]
        elif kind == "ask" and self.phase != "taking the winner apart":
            self.phase = "searching"
        elif kind == "variant" and body["purpose"] == "propose":
            self.variants += body["made"] is not None
        elif kind == "consult":
            self.calls += body["over"] is None
        elif kind == "reply" and body["status"] != "ok":
            self.failed_calls += 1
            self.last_failure = body["message"]
        elif kind == "minimise":
            self.phase = "taking the winner apart"
        elif kind == "trial" and not body["again"]:
            self._trial(body)
        elif kind == "stop":
            self.phase = "choosing" if body["finalists"] else "ending"
        elif kind == "choice":
            self.phase = "confirming"
        elif kind == "final":
            self.finals += 1
        elif kind == "end":
            self.phase = "done"

    def _trial(self, body: Mapping[str, Any]) -> None:
        self.total += 1
        self.statuses[body["status"]] += 1
        if body["status"] not in ("duplicate", "pruned"):
            self.evaluations += 1
        if body["trial"] == 0 and body["medians_s"]:
            logs = [math.log(m) for m in body["medians_s"]]
            self.baseline_s = math.exp(sum(logs) / len(logs))
        if body["status"] == "ok" and not body["raced"] and (body["score"] or 0.0) < self.best_score:
            self.best_score, self.best_trial = body["score"], body["trial"]

    def done(self) -> float:
        """Share of the budget that is spent, 0 to 1, by whichever limit is nearer."""
        shares = [0.0]
        if self.evaluations_limit:
            shares.append(self.evaluations / self.evaluations_limit)
        if self.minutes:
            shares.append(self.clock_s / (60 * self.minutes))
        return min(1.0, max(shares))

    def left(self) -> str:
        """Rough time left, by what was spent so far."""
        share = self.done()
        if share <= 0.02 or self.phase == "done":
            return "-"
        return f"{self.clock_s * (1 - share) / share:.0f} s"

    def best(self) -> str:
        if self.best_trial == 0:
            return "the baseline"
        # The result, which follows the last line, says what was confirmed.
        doubt = "in the search" if self.phase == "done" else "not confirmed yet"
        return f"{math.exp(-self.best_score):.2f}x (trial {self.best_trial}, {doubt})"

    def trials(self) -> str:
        parts = [f"{count} {status}" for status, count in sorted(self.statuses.items())]
        of = f" of {self.variants + 1} variants" if self.variants else ""
        return f"{self.total}{of}: " + ", ".join(parts) + self._asked()

    def _asked(self) -> str:
        """Calls to models, and why the last one that failed did."""
        if not self.calls:
            return ""
        failed = f", {self.failed_calls} failed ({self.last_failure})" if self.failed_calls else ""
        return f"; {self.calls} calls{failed}"


class LiveProgress:
    """A small table that redraws itself on a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self._figures = _Figures()
        self._live = Live(console=console or Console(stderr=True), auto_refresh=False, transient=True)
        self._drawn_s = 0.0

    def __enter__(self) -> LiveProgress:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Redraws at most four times a second: drawing costs time that the run needs."""
        self._figures.take(kind, body)
        now = time.monotonic()
        if now - self._drawn_s >= REDRAW_S:
            self._drawn_s = now
            self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        figures = self._figures
        table = Table.grid(padding=(0, 2))
        share = figures.done()
        bar = Text("#" * round(30 * share) + "." * (30 - round(30 * share)), style="cyan")
        table.add_row(figures.name, bar, f"{figures.phase}, {figures.clock_s:.0f} s, left {figures.left()}")
        if figures.baseline_s is not None:
            table.add_row("", f"baseline {figures.baseline_s * 1e3:.3g} ms", f"best {figures.best()}")
        table.add_row("", "trials", figures.trials())
        return table


class PlainProgress:
    """A line now and then, where stderr is not a terminal."""

    def __init__(self) -> None:
        self._figures = _Figures()
        self._printed_s = time.monotonic()

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Prints on a change of phase and every ten seconds."""
        before = self._figures.phase
        self._figures.take(kind, body)
        now = time.monotonic()
        if self._figures.phase != before or now - self._printed_s >= PLAIN_S:
            self._printed_s = now
            figures = self._figures
            print(
                f"{figures.name}: {figures.phase}, {figures.clock_s:.0f} s, trials {figures.trials()}, "
                f"best {figures.best()}",
                file=sys.stderr,
            )
