"""Whether a process was disturbed while it was timed: moved to another processor, pushed aside, or slowed down.

Says so by name; who measures decides what to do about it. Only reads ``/proc`` and ``/sys``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner.evaluators.lane import load_notes

__all__ = ["Watch"]

SWITCHES = 3
"""Involuntary switches that any batch may have."""

SWITCHES_PER_S = 150.0
"""And so many for each second: the tick and what the kernel itself does."""

SLOWER = 0.93
"""Share of the processor's frequency at the start below which it counts as throttled."""

_PROCESSOR_FIELD = 36
"""In ``/proc/PID/stat`` behind the closing bracket of the name: the processor that it last ran on."""


@dataclass(frozen=True, slots=True)
class _Reading:
    processor: int | None
    switches: int | None
    mhz: float | None


class Watch:
    """Two looks at a process, before and after.

    Args:
        pid: of the process that is timed.
        root: where ``proc`` and ``sys`` are.
    """

    def __init__(self, pid: int, *, root: Path = Path("/")) -> None:
        self._pid, self._root = pid, root
        self._before = self._read()

    def disturbances(self, wall_s: float) -> list[str]:
        """What has happened since this object was made; empty for nothing.

        Args:
            wall_s: how long it took.
        """
        before, after = self._before, self._read()
        found = []
        if None not in (before.processor, after.processor) and before.processor != after.processor:
            found.append(f"moved from processor {before.processor} to {after.processor}")
        if before.switches is not None and after.switches is not None:
            switches = after.switches - before.switches
            if switches > SWITCHES + SWITCHES_PER_S * wall_s:
                found.append(f"pushed aside {switches} times in {wall_s:.3f} s")
        if before.mhz and after.mhz and after.mhz < SLOWER * before.mhz:
            found.append(f"the processor went from {before.mhz:.0f} to {after.mhz:.0f} MHz")
        return found

    def _read(self) -> _Reading:
        notes = load_notes(self._pid, root=self._root)
        switches = notes.get("involuntary_switches")
        return _Reading(self._processor(), switches, notes.get("cpu_mhz"))

    def _processor(self) -> int | None:
        try:
            text = (self._root / "proc" / str(self._pid) / "stat").read_text(errors="replace")
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()
        return int(fields[_PROCESSOR_FIELD]) if len(fields) > _PROCESSOR_FIELD else None
