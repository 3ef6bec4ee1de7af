"""What a person sees on stderr while a run goes on: a panel on a terminal, else a line now and then."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.segment import ControlType, Segment
from rich.table import Table
from rich.text import Text

from tuner.cli.figures import FREE, Figures, beside, clock, sparkline
from tuner.cli.waiting import FIRST_S, Heartbeat
from tuner.core.types import MeasurePolicy

__all__ = ["LiveProgress", "PlainProgress", "progress"]

REDRAW_S = 0.25
REDRAW_AGAIN_S = 1.0
"""Between two frames while there are no events."""
PLAIN_S = 10.0
WIDEST = 100
"""Columns of the panel."""

LABEL = 10
SHORTEST_BAR = 10
STYLES = {
    "ok": "green",
    "build_error": "red",
    "wrong_result": "red",
    "crashed": "red",
}


LIMIT_S = MeasurePolicy().limit_s


def progress(limit_s: float = LIMIT_S, role: str = "") -> LiveProgress | PlainProgress:
    """What stderr can show: a panel needs a terminal that can move its cursor.

    Args:
        limit_s: what a call of the kernel as given may take.
        role: what the run is for, where it is not the one that was asked for.
    """
    console = Console(stderr=True)
    if console.is_terminal and not console.is_dumb_terminal:
        return LiveProgress(console, limit_s=limit_s, role=role)
    return PlainProgress(limit_s=limit_s, role=role)


class LiveProgress:
    """A panel that redraws itself on a terminal, at any width it is given, and goes away when the run is over."""

    def __init__(self, console: Console | None = None, *, limit_s: float = LIMIT_S, role: str = "") -> None:
        self._figures = Figures(limit_s, role)
        self._heartbeat: Heartbeat | None = None
        # Held while one of the two threads draws; the handler of a signal may come to the one that has it.
        self._lock = threading.RLock()
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._frame = _Frame()
        self._drawn_s = 0.0
        self._drawing = False
        self._wanted = False
        self._former: Any = None

    def __enter__(self) -> LiveProgress:
        self._live.start()
        if threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGWINCH, self._on_resize)
        self._heartbeat = Heartbeat(self._beat, REDRAW_AGAIN_S).__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._heartbeat is not None:
            self._heartbeat.__exit__()
        if self._former is not None:
            signal.signal(signal.SIGWINCH, self._former)
            self._former = None
        # An empty frame first: the last one may be taller than the terminal, and rich would show all of it.
        self._show(_Frame())
        self._live.stop()

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Redraws at most four times a second: drawing costs time that the run needs."""
        self._figures.take(kind, body)
        if self._heartbeat is not None and not self._figures.waits():
            self._heartbeat.slow_down(PLAIN_S / 2)
        now = time.monotonic()
        if now - self._drawn_s >= REDRAW_S:
            self._drawn_s = now
            self._draw()

    def step(self, text: str) -> None:
        """See :class:`tuner.core.abilities.HearsSteps`; the next beat draws it."""
        self._figures.step(text)

    def _beat(self) -> None:
        """While nothing is timed yet the clock goes on, and a step that is short of events is seen."""
        if self._figures.waits() or self._figures.quiet_s() >= PLAIN_S:
            self._draw()

    def _draw(self) -> None:
        """Draws until the terminal was not resized meanwhile: a signal's handler may come at any point of it."""
        self._wanted = True
        with self._lock:
            while self._wanted and not self._drawing:
                self._drawing = True
                try:
                    self._wanted = False
                    columns = self._console.width
                    self._show(_Frame(panel(self._figures, columns), columns))
                finally:
                    self._drawing = False

    def _show(self, frame: _Frame) -> None:
        """Takes away what a narrower terminal has wrapped of the frame that stands, then draws."""
        wrapped = self._frame.wrapped(self._console.width)
        if wrapped:
            up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * wrapped
            self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *up))
        self._frame = frame
        self._live.update(frame, refresh=True)

    def _on_resize(self, number: int, stack: Any) -> None:
        self._draw()


class _Frame:
    """What stands on the terminal: a drawing that knows how many rows of how many columns it became."""

    def __init__(self, drawing: RenderableType = "", columns: int = 0) -> None:
        self._drawing = drawing
        self._columns = min(WIDEST, columns)
        self._rows = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(self._drawing, options)
        # rich cuts off what does not fit.
        self._rows = min(len(lines), console.height)
        for line in lines:
            yield from line
            yield Segment.line()

    def wrapped(self, columns: int) -> int:
        """Rows more than were drawn, on a terminal that has so many columns now and wraps lines anew.

        Terminals that cut lines off instead keep the rows that there were.
        """
        return 0 if _cuts_lines() else self._rows * (max(1, -(-self._columns // max(1, columns))) - 1)


def _cuts_lines() -> bool:
    """Whether the terminal, once narrowed, cuts lines off: xterm and GNU screen do, others wrap them anew."""
    return "TMUX" not in os.environ and bool({"XTERM_VERSION", "STY"} & os.environ.keys())


class PlainProgress:
    """A line now and then, where stderr is not a terminal."""

    def __init__(self, *, limit_s: float = LIMIT_S, role: str = "") -> None:
        self._figures = Figures(limit_s, role)
        self._printed_s = time.monotonic()
        self._said = False
        self._heartbeat: Heartbeat | None = None

    def __enter__(self) -> PlainProgress:
        self._printed_s = time.monotonic()
        self._heartbeat = Heartbeat(self._beat, FIRST_S / 10).__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._heartbeat is not None:
            self._heartbeat.__exit__()

    def _beat(self) -> None:
        """While nothing is timed yet there are no events to print at."""
        waits, now = self._figures.waits(), time.monotonic()
        again_s = PLAIN_S if self._said else 0.0
        if waits and self._figures.waited_s() >= FIRST_S and now - self._printed_s >= again_s:
            self._printed_s, self._said = now, True
            print(
                f"{self._figures.name}: {waits}, {self._figures.waited_s():.0f} s so far",
                file=sys.stderr,
                flush=True,
            )
        elif not waits and self._figures.quiet_s() >= PLAIN_S and now - self._printed_s >= PLAIN_S:
            # A trial on large arrays: as long as that by itself, and there is no event before its end.
            self._printed_s = now
            self._say(f"{self._figures.quiet_s():.0f} s without news")

    def step(self, text: str) -> None:
        """See :class:`tuner.core.abilities.HearsSteps`; the next beat prints it where it lasts."""
        self._figures.step(text)

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Prints on a change of phase and every ten seconds."""
        before = self._figures.phase
        self._figures.take(kind, body)
        if self._heartbeat is not None and not self._figures.waits():
            self._heartbeat.slow_down(PLAIN_S / 2)
        now = time.monotonic()
        if self._figures.phase != before or now - self._printed_s >= PLAIN_S:
            self._printed_s = now
            self._say("")

    def _say(self, quiet: str) -> None:
        figures = self._figures
        at_work = figures.at_work() if quiet else ""
        more = [part for part in (figures.devices(), at_work, quiet) if part]
        print(
            f"{figures.name}: {figures.phase}, {figures.clock_s:.0f} s, {figures.candidates()}, "
            f"best {figures.best()}" + "".join(f", {part}" for part in more),
            file=sys.stderr,
            flush=True,
        )


def panel(figures: Figures, columns: int) -> RenderableType:
    """The whole display for a terminal of so many columns."""
    width = min(WIDEST, columns)
    inner = width - LABEL - 6
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(width=LABEL, style="bold")
    grid.add_column(ratio=1, overflow="fold")
    grid.add_row("budget", _budget(figures, inner))
    grid.add_row("best", _best(figures))
    if len(figures.curve) > 1:
        grid.add_row("so far", _curve(figures, inner))
    grid.add_row("codes", _statuses(figures))
    grid.add_row("now", _now(figures))
    if figures.devices():
        grid.add_row("devices", figures.devices())
    if figures.calls:
        grid.add_row("LLM", f"{figures.calls} calls, {figures.tokens:,} tokens, ${figures.usd:.4f} spent")
    device = f" on {figures.device}" if figures.device else ""
    left = figures.left_s()
    time_left = "" if left is None else f", about {clock(left)} of searching left"
    return Panel(
        grid,
        title=Text(f"{figures.name} · {figures.backend}{device}"),
        title_align="left",
        subtitle=Text(f"{clock(figures.clock_s)}{time_left}"),
        subtitle_align="right",
        border_style="cyan",
        width=width,
    )


def _budget(figures: Figures, inner: int) -> RenderableType:
    parts = []
    if figures.evaluations_limit:
        parts.append(f"{figures.evaluations} of {figures.evaluations_limit} evaluations")
    if figures.minutes:
        parts.append(f"{clock(figures.clock_s)} of {clock(60 * figures.minutes)}")
    said = ", ".join(parts)
    if len(said) + SHORTEST_BAR + 1 > inner:
        said = said.replace(" evaluations", "").replace(" of ", "/")
    row = Table.grid(padding=(0, 1))
    row.add_row(
        ProgressBar(total=1.0, completed=figures.done(), width=max(SHORTEST_BAR, inner - len(said) - 1)), said
    )
    return row


def _best(figures: Figures) -> Text:
    text = Text()
    if figures.claimed is not None:
        value, low, high = figures.claimed
        text.append(f"{value:.2f}x", style="bold green")
        text.append(f" [{low:.2f}, {high:.2f}], confirmed")
    elif figures.best_trial:
        text.append(f"{figures.curve[-1]:.2f}x", style="bold green")
        text.append(f" (trial {figures.best_trial}), not confirmed yet")
    else:
        text.append("the baseline")
    if figures.baseline_s is not None:
        text.append(f"; baseline {_time(figures.baseline_s)}", style="dim")
    return text


def _curve(figures: Figures, inner: int) -> Text:
    ends = f"{figures.curve[0]:.2f}x to {figures.curve[-1]:.2f}x"
    text = Text(sparkline(figures.curve, max(10, inner - len(ends) - 2)), style="cyan")
    return text.append(f"  {ends}", style="dim")


def _statuses(figures: Figures) -> Text:
    tried = [(status, count) for status, count in figures.statuses.most_common() if status not in FREE]
    text = Text(f"{sum(count for _, count in tried)}{figures.of_variants()}")
    for status, count in tried:
        text.append(" · ").append(f"{count} {status}", style=STYLES.get(status, "yellow"))
    other = beside(figures.statuses)
    return text.append(f" · {other}", style="dim") if other else text


def _now(figures: Figures) -> Text:
    """What goes on: which trials are at which stage, or how far choosing and confirming are."""
    if figures.phase in ("choosing", "confirming"):
        quiet = f", {figures.quiet_s():.0f} s without news" if figures.quiet_s() >= PLAIN_S else ""
        return Text(
            f"{figures.phase}: fresh process {figures.finals} of about {figures.finals_wanted}{quiet}"
        )
    workers = "1 compile worker" if figures.workers == 1 else f"{figures.workers} compile workers"
    waits = figures.waits()
    if waits:
        return Text(f"{waits}, {figures.waited_s():.0f} s so far")
    text = Text(f"{figures.phase}, {workers}")
    at_work = figures.at_work()
    if at_work:
        text.append(f" · {at_work.replace(', ', ' · ')}")
    if figures.quiet_s() >= PLAIN_S:
        text.append(f" · {figures.quiet_s():.0f} s without news")
    return text


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"
