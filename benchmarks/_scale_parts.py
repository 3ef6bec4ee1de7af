"""Whose processor time a trial takes, and what the machine has left of it meanwhile: from /proc.

The parts are driver, relays, devices, and Ray's own processes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["Parts"]

MARK = "TUNER_SCALE_RUN"
"""Set in the environment of all that a measurement starts; it tells them from other processes of the machine."""

_STATES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Columns of the first line of /proc/stat."""

_ROLES = {"ray::Relay": "relays", "ray::_Remote": "devices"}


class Parts:
    """Processor seconds by part between two verifications of a run; an observer of it.

    Made before the cluster is started.

    Args:
        first, last: the verifications' numbers.
    """

    def __init__(self, first: int, last: int) -> None:
        self._mark = f"{MARK}={os.getpid()}"
        os.environ[MARK] = str(os.getpid())
        self._wanted = (first, last)
        self._seen = 0
        self._taken: list[Counter[str]] = []
        self._machine: list[list[int]] = []

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Told of every event."""
        if kind == "verify":
            self._seen += 1
            if self._seen in self._wanted:
                self._taken.append(self._now())
                self._machine.append(_ticks())

    @property
    def ms_per_trial(self) -> dict[str, float]:
        """Milliseconds by part; of time that passes anyway (Ray looks around) the more the fewer trials a second."""
        before, after = self._taken
        count = self._wanted[1] - self._wanted[0]
        return {part: 1e3 * (after[part] - before[part]) / count for part in sorted(after)}

    @property
    def machine(self) -> dict[str, float]:
        """Parts of the time of all processors of the machine, whoever had them."""
        before, after = self._machine
        spent = [b - a for a, b in zip(before, after, strict=True)]
        return {name: ticks / sum(spent) for name, ticks in zip(_STATES, spent, strict=True)}

    def _now(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            own = int(folder.name) == os.getpid()
            try:
                if not own and self._mark.encode() not in (folder / "environ").read_bytes().split(b"\0"):
                    continue
                title = (folder / "cmdline").read_bytes().decode(errors="replace")
                ticks = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
            except OSError:
                continue
            part = "driver" if own else next((r for t, r in _ROLES.items() if title.startswith(t)), "ray")
            found[part] += sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return found


def _ticks() -> list[int]:
    with Path("/proc/stat").open() as lines:
        return [int(word) for word in next(lines).split()[1 : 1 + len(_STATES)]]
