"""Whether a process was disturbed while it was timed: moved between processors, made to wait, or slowed down.

Says so by name, and has a batch that was disturbed measured once more (:func:`undisturbed`). Only reads ``/proc`` and
``/sys``; knows nothing of candidates.

Source: the Linux kernel's documentation of ``proc`` and of scheduler statistics.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tuner.evaluators.lane import load_notes, text_of

__all__ = ["Unwatched", "Watch", "Watcher", "undisturbed", "waited_s"]

Timed = TypeVar("Timed")

SWITCHES = 3
"""Involuntary switches that any batch may have."""

SWITCHES_PER_S = 150.0
"""And so many for each second: the tick and what the kernel itself does."""

WAITED = 0.05
"""Share of its time that a batch may wait for a processor, ready to run."""

WAITED_S = 1e-3
"""And so long that any batch may: the turn of something short."""

MOVES = 2
"""Times that any batch may be moved there and back."""

MOVES_PER_S = 20.0
"""And so many for each second."""

SLOWER = 0.93
"""Share of the processor's frequency at the start below which it counts as throttled."""

_PROCESSOR_FIELD = 36
"""In ``/proc/PID/stat`` behind the closing bracket of the name: the processor that it last ran on."""

_MOVED = re.compile(r"^se\.nr_migrations\s*:\s*(\d+)", re.MULTILINE)
_SWITCHED = re.compile(r"^nonvoluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)


class Watcher(Protocol):
    """Looks twice: when it is made, and when it is asked."""

    def disturbances(self, wall_s: float) -> list[str]:
        """What has happened in between, one line each; empty for nothing.

        Args:
            wall_s: how long it took.
        """


class Unwatched:
    """A :class:`Watcher` where nothing can be told."""

    def disturbances(self, wall_s: float) -> list[str]:
        """Nothing."""
        return []


def undisturbed(measure: Callable[[], Timed], watch: Callable[[], Watcher]) -> tuple[Timed, dict[str, Any]]:
    """A measurement, made once more where the machine got in its way.

    Args:
        measure: makes one.
        watch: begins to watch.

    Returns:
        The less disturbed of both, and the marks for its notes: ``measured_again`` where there were two,
        ``disturbed`` with what happened where even the better one met something.
    """
    best, least = _watched(measure, watch)
    if not least:
        return best, {}
    again, found = _watched(measure, watch)
    marks: dict[str, Any] = {"measured_again": True}
    if len(found) < len(least):
        best, least = again, found
    if least:
        marks["disturbed"] = least
    return best, marks


def _watched(measure: Callable[[], Timed], watch: Callable[[], Watcher]) -> tuple[Timed, list[str]]:
    begin, watcher = time.monotonic(), watch()
    made = measure()
    return made, watcher.disturbances(time.monotonic() - begin)


def waited_s(*threads: int, root: Path = Path("/")) -> float:
    """Seconds so far that these threads were ready to run and had no processor; 0 where nothing tells.

    Others of their processes are not asked: they may wait at the same time, for long, and nobody for them.

    Args:
        threads: their numbers. A process's number is that of its first thread.
        root: where ``proc`` is.

    Raises nothing where one has ended: what it has waited is not known then.
    """
    found = [
        _waited_s(root / "proc" / str(thread) / "task" / str(thread) / "schedstat") for thread in threads
    ]
    return sum(value for value in found if value is not None)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Of all threads that live together; ``None`` where the kernel does not say."""

    processor: int | None
    switches: int | None
    moves: int | None
    waited_s: float | None
    mhz: float | None


class Watch:
    """Two looks at a process with all its threads, before and after: a :class:`Watcher`.

    Args:
        pid: of the process that is timed.
        root: where ``proc`` and ``sys`` are.
        settles: it has one thread that works, which stays where it is. Threads that sleep between the calls of a
            batch are put wherever there is room when they are woken, which disturbs nothing.
        threads: that work at once: each has the interruptions that one has.
    """

    def __init__(self, pid: int, *, root: Path = Path("/"), settles: bool = True, threads: int = 1) -> None:
        self._pid, self._root, self._settles, self._running = pid, root, settles, threads
        self._before = self._read()

    def disturbances(self, wall_s: float) -> list[str]:
        """See :class:`Watcher`."""
        before, after = self._before, self._read()
        found = []
        if self._settles:
            if None not in (before.processor, after.processor) and before.processor != after.processor:
                found.append(f"moved from processor {before.processor} to {after.processor}")
            elif before.moves is not None and after.moves is not None:
                moves = after.moves - before.moves
                if moves > MOVES + MOVES_PER_S * wall_s:
                    found.append(f"moved {moves} times between processors")
        if before.switches is not None and after.switches is not None:
            switches = after.switches - before.switches
            if switches > (SWITCHES + SWITCHES_PER_S * wall_s) * self._running:
                found.append(f"pushed aside {switches} times in {wall_s:.3f} s")
        if before.waited_s is not None and after.waited_s is not None:
            waited_s = after.waited_s - before.waited_s
            if waited_s > WAITED_S + WAITED * wall_s:
                found.append(f"waited {waited_s:.3f} s for a processor in {wall_s:.3f} s")
        if before.mhz and after.mhz and after.mhz < SLOWER * before.mhz:
            found.append(f"the processor went from {before.mhz:.0f} to {after.mhz:.0f} MHz")
        return found

    def _read(self) -> _Reading:
        threads = self._threads()
        return _Reading(
            processor=self._processor(),
            switches=_sum(self._found(path / "status", _SWITCHED) for path in threads),
            moves=_sum(self._found(path / "sched", _MOVED) for path in threads),
            waited_s=_sum(_waited_s(path / "schedstat") for path in threads),
            mhz=load_notes(self._pid, root=self._root).get("cpu_mhz"),
        )

    def _threads(self) -> list[Path]:
        """The folders of its threads; its own where there is no list of them."""
        own = self._root / "proc" / str(self._pid)
        try:
            return [own / "task" / name.name for name in sorted((own / "task").iterdir())]
        except OSError:
            return [own]

    def _processor(self) -> int | None:
        fields = text_of(self._root / "proc" / str(self._pid) / "stat").rpartition(")")[2].split()
        return int(fields[_PROCESSOR_FIELD]) if len(fields) > _PROCESSOR_FIELD else None

    def _found(self, path: Path, pattern: re.Pattern[str]) -> int | None:
        found = pattern.search(text_of(path))
        return None if found is None else int(found[1])


def _waited_s(path: Path) -> float | None:
    words = text_of(path).split()
    return int(words[1]) * 1e-9 if len(words) > 1 else None


def _sum(values: Iterable[float | None]) -> Any:
    """Of what is known; ``None`` where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
