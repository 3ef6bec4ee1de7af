"""What the displays of a running tuner show, folded from committed events. Prints nothing."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.cli.waiting import baseline_runs
from tuner.core.types import MeasurePolicy

__all__ = ["FREE", "Figures", "beside", "clock", "sparkline"]

BARS = "▁▂▃▄▅▆▇█"
FREE = ("duplicate", "pruned")
"""Statuses that the budget of evaluations does not count."""


class Figures:
    """Feed it every event of a run; read the attributes.

    Args:
        limit_s: what a call of the kernel as given may take.
        role: what the run is for, beside the kernel's name; empty for the one that was asked for.
    """

    def __init__(self, limit_s: float = MeasurePolicy().limit_s, role: str = "") -> None:
        self._limit_s = limit_s
        self._role = role
        self._begun_s = self._heard_s = time.monotonic()
        self._step = ""
        self.name = ""
        self.backend = ""
        self.device = ""
        self.phase = "starting"
        self.statuses: Counter[str] = Counter()
        self.total = 0
        self.evaluations = 0
        self.evaluations_limit: int | None = None
        self.minutes: float | None = None
        self.workers = 0
        self.clock_s = 0.0
        self.best_score = 0.0
        self.best_trial = 0
        self.curve: list[float] = []
        self.baseline_s: float | None = None
        self.finals = 0
        self.finals_wanted = 0
        self.variants = 0
        self.calls = 0
        self.tokens = 0
        self.usd = 0.0
        self.claimed: tuple[float, float, float] | None = None
        self.in_flight: dict[int, str] = {}
        self.requests: set[int] = set()
        self.lanes: set[int] = set()
        self.lanes_lost = self.lanes_seen = 0
        self.lost_because = ""
        self._before = self.phase
        self._settings: Mapping[str, Any] = {}

    def take(self, kind: str, body: Mapping[str, Any]) -> None:
        """One event."""
        self._heard_s = time.monotonic()
        self.clock_s = max(self.clock_s, float(body.get("clock_s") or 0.0))
        if "prompt_tokens" in body:
            self.calls += 1
            self.tokens += int(body.get("prompt_tokens") or 0) + int(body.get("completion_tokens") or 0)
            self.usd += float(body.get("usd") or 0.0)
        step = getattr(self, f"_on_{kind}", None)
        if step is not None:
            step(body)

    def _on_start(self, body: Mapping[str, Any]) -> None:
        self.name, self.backend = body["name"] + (f" ({self._role})" if self._role else ""), body["backend"]
        self.device = str(body["environment"]["backend"].get("device", ""))
        self._settings = body["settings"]
        self.evaluations_limit = self._settings["evaluations"]
        self.minutes = self._settings["minutes"]
        self.workers = self._settings["batch"]
        self.in_flight = {0: "compiling"}
        self._begun_s = time.monotonic()

    def _on_ask(self, body: Mapping[str, Any]) -> None:
        if self.phase != "taking the winner apart":
            self.phase = "searching"
        self._take_up(body)

    def _on_consult(self, body: Mapping[str, Any]) -> None:
        self.phase = "searching" if self.phase == "starting" else self.phase
        if body["over"] is None:
            self.requests.add(body["number"])

    def _on_reply(self, body: Mapping[str, Any]) -> None:
        self.requests.discard(body["call"])

    def _on_recall(self, _: Mapping[str, Any]) -> None:
        self.phase = "searching"

    def _on_simplify(self, body: Mapping[str, Any]) -> None:
        self.phase = "trying less"
        self._take_up(body)

    def _take_up(self, body: Mapping[str, Any]) -> None:
        first = body["first"]
        self.in_flight |= dict.fromkeys(range(first, first + len(body["proposals"])), "compiling")

    def _on_build(self, body: Mapping[str, Any]) -> None:
        self._stage(body, "built")

    def _on_verify(self, body: Mapping[str, Any]) -> None:
        self._stage(body, "timing")

    def _stage(self, body: Mapping[str, Any], stage: str) -> None:
        self._begun_s = time.monotonic()
        if body.get("trial") in self.in_flight:
            self.in_flight[body["trial"]] = stage

    def _on_lane(self, body: Mapping[str, Any]) -> None:
        self.lanes.add(body["lane"])
        self.lanes_seen += 1

    def _on_lane_lost(self, body: Mapping[str, Any]) -> None:
        if body["lane"] in self.lanes:
            self.lanes.remove(body["lane"])
            self.lanes_lost += 1
            self.lost_because = str(body.get("reason", ""))

    def _on_resume(self, body: Mapping[str, Any]) -> None:
        # A driver that ended let go of its devices: none of them was lost.
        self.lanes = set()
        self.phase = self._before if self.phase == "interrupted" else self.phase

    def _on_extend(self, body: Mapping[str, Any]) -> None:
        self.evaluations_limit, self.minutes = body["evaluations"], body["minutes"]
        self.phase = "searching" if body["searches"] else "choosing"

    def _on_variant(self, body: Mapping[str, Any]) -> None:
        self.variants += body["purpose"] == "propose" and body["made"] is not None

    def _on_minimise(self, body: Mapping[str, Any]) -> None:
        self.phase = "taking the winner apart"

    def _on_trial(self, body: Mapping[str, Any]) -> None:
        if body["again"]:
            return
        self.in_flight.pop(body["trial"], None)
        self.total += 1
        self.statuses[body["status"]] += 1
        self.evaluations += body["status"] not in FREE
        if body["trial"] == 0 and body["medians_s"]:
            weights = self._settings["weights"]
            logs = [w * math.log(m) for w, m in zip(weights, body["medians_s"], strict=True)]
            self.baseline_s = math.exp(sum(logs))
        if body["status"] == "ok" and not body["raced"] and (body["score"] or 0.0) < self.best_score:
            self.best_score, self.best_trial = body["score"], body["trial"]
        self.curve.append(math.exp(-self.best_score))

    def _on_stop(self, body: Mapping[str, Any]) -> None:
        self.in_flight = {}
        self.phase = "choosing" if body["finalists"] else "ending"
        self.finals = 0
        self.finals_wanted = (len(body["finalists"]) + 1) * self._settings["choose_processes"]

    def _on_choice(self, body: Mapping[str, Any]) -> None:
        self.phase = "confirming"
        self.finals, self.finals_wanted = 0, 2 * body.get("pairs", self._settings["confirm_processes"])

    def _on_final(self, body: Mapping[str, Any]) -> None:
        self.finals += 1

    def _on_verdict(self, body: Mapping[str, Any]) -> None:
        if body["claim"] == "extend":
            self.finals_wanted *= 2
        elif body["claim"] == "improved":
            value, low, high = body["speedup"]
            self.claimed = (value, low, high)

    def _on_interrupt(self, body: Mapping[str, Any]) -> None:
        self._before, self.phase = self.phase, "interrupted"

    def _on_end(self, body: Mapping[str, Any]) -> None:
        self.phase = "done"

    def step(self, text: str) -> None:
        """What is done now in words, where it takes long and no event says so; empty when that is over."""
        if not self._step or not text:
            self._begun_s = time.monotonic()
        self._step = text

    def waits(self) -> str:
        """What is waited for before anything is timed; empty from then on, and before the run has begun."""
        if self._step:
            return self._step
        if self.total or not self.name or self.phase != "starting":
            return ""
        return (
            "compiling the kernel as given"
            if self.in_flight.get(0) == "compiling"
            else baseline_runs(self._limit_s)
        )

    def waited_s(self) -> float:
        """Seconds since the display, or the step that is waited for, has begun."""
        return time.monotonic() - self._begun_s

    def quiet_s(self) -> float:
        """Seconds since the last event: on large arrays a trial takes long by itself."""
        return time.monotonic() - max(self._heard_s, self._begun_s)

    def at_work(self) -> str:
        """Trials and requests to models that are in flight; empty where there are none."""
        # A copy: the events come in another thread than a display's clock.
        in_flight = dict(self.in_flight)
        stages = Counter(in_flight.values())
        first = {stage: n for n, stage in reversed(in_flight.items())}
        parts = [
            f"trial {first[stage]} {stage}" if count == 1 else f"{count} trials {stage}"
            for stage, count in stages.items()
        ]
        asked = len(self.requests)
        if asked:
            parts.append(f"{asked} request{'s' * (asked > 1)} to models")
        return ", ".join(parts)

    def done(self) -> float:
        """Share of the budget that is spent, 0 to 1, by whichever limit is nearer."""
        shares = [0.0]
        if self.evaluations_limit:
            shares.append(self.evaluations / self.evaluations_limit)
        if self.minutes:
            shares.append(self.clock_s / (60 * self.minutes))
        return min(1.0, max(shares))

    def left_s(self) -> float | None:
        """Rough seconds until the search is over, by what was spent so far; ``None`` where that says nothing yet."""
        share = self.done()
        if share <= 0.02 or self.phase not in ("searching", "taking the winner apart"):
            return None
        return self.clock_s * (1 - share) / share

    def best(self) -> str:
        """The best so far in a few words; what is confirmed is said by the result."""
        if self.best_trial == 0:
            return "the baseline"
        doubt = "in the search" if self.phase == "done" else "not confirmed yet"
        return f"{math.exp(-self.best_score):.2f}x (trial {self.best_trial}, {doubt})"

    def candidates(self) -> str:
        """How many of different code there were, by status, and what else was proposed."""
        tried = {status: count for status, count in sorted(self.statuses.items()) if status not in FREE}
        parts = ", ".join(f"{count} {status}" for status, count in tried.items())
        other = f"; {beside(self.statuses)}" if beside(self.statuses) else ""
        shown = f": {parts}" if parts else ""
        return f"{sum(tried.values())} codes{self.of_variants()}{shown}{other}"

    def devices(self) -> str:
        """How many there are and why one is gone; empty for a run that never had more than one."""
        if self.lanes_seen < 2:
            return ""
        lost = f" ({self.lanes_lost} lost, the last because {self.lost_because})" if self.lanes_lost else ""
        return f"{len(self.lanes)} device{'' if len(self.lanes) == 1 else 's'}{lost}"

    def of_variants(self) -> str:
        """Of how many variants, where the source is searched."""
        return f" of {self.variants + 1} variants" if self.variants else ""


def beside(statuses: Mapping[str, int], known_s: float | None = None) -> str:
    """What was proposed and is no code of its own; empty where there was none.

    Args:
        statuses: how many trials had each.
        known_s: worker seconds of compiling what came to known code.
    """
    known, pruned = (statuses.get(status, 0) for status in FREE)
    cost = "" if known_s is None else f" ({known_s:.3g} s of compiling)"
    parts = [f"{known} came to known code{cost}"] if known else []
    return ", ".join([*parts, *([f"{pruned} not tried"] if pruned else [])])


def sparkline(values: Sequence[float], width: int) -> str:
    """Values above 0 as bars on a log scale, thinned to ``width`` characters, the last of each stretch shown.

    >>> sparkline([1.0, 1.0, 2.0, 4.0], 4)
    '▁▁▅█'
    """
    if not values or width < 1:
        return ""
    count = min(width, len(values))
    picked = [math.log(values[(i + 1) * len(values) // count - 1]) for i in range(count)]
    low, high = min(picked), max(picked)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((v - low) * scale)] for v in picked)


def clock(seconds: float) -> str:
    """Minutes and seconds, and hours where there are any.

    >>> clock(75), clock(3675)
    ('1:15', '1:01:15')
    """
    whole = max(0, int(seconds))
    hours, minutes = divmod(whole // 60, 60)
    start = f"{hours}:{minutes:02}" if hours else f"{minutes}"
    return f"{start}:{whole % 60:02}"
