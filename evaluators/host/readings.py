"""The parent's own readings of a candidate's process: its clocks, what it waited for, and who may time at once.

Everything that a measurement takes from the machine comes through one object, so that tests can put another in its
place (``tests/README.md``). Judges nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from tuner.evaluators.disturbance import Watch, Watcher
from tuner.evaluators.host.counters import counted
from tuner.evaluators.host.process import Child
from tuner.evaluators.lane import TimingLane

__all__ = ["Lane", "MachineReadings", "Readings"]


class Lane(Protocol):
    """The right to time something on a device; a context manager that may be entered again by its own thread."""

    waited_s: float
    """Seconds that the last entry waited."""

    def __enter__(self) -> Lane:
        """Waits for it."""

    def __exit__(self, *exception: object) -> None:
        """Lets go of it."""


class Readings(Protocol):
    """What a session reads while a candidate is timed; all times in seconds.

    Attributes:
        virtual: whether the harness's clock is a counter that kernels advance, not the processor's.
        least_limit_s: the shortest time after which a call may count as hanging.
        least_call_s: what a call may really take, whatever the clock says of it.
    """

    virtual: bool
    least_limit_s: float
    least_call_s: float

    def lane(self, device: str) -> Lane:
        """The right to time on a device."""

    def cpu_s(self, child: Child) -> float:
        """Processor time of a process with all its threads; raises ``Ended`` where it is gone."""

    def wall_s(self, child: Child) -> float:
        """A clock of this process's own."""

    def waited_s(self, child: Child) -> float:
        """How long the process and this thread were ready to run and had no processor."""

    def others_s(self, child: Child) -> float:
        """Processor time of its threads but the first; raises ``Ended`` where it is gone."""

    def watch(self, child: Child, *, settles: bool, threads: int) -> Watcher:
        """Begins to look for disturbances."""

    def counted(self, child: Child) -> AbstractContextManager[Mapping[str, float | None]]:
        """Hardware counters around a block."""

    def device_times(self, times_s: Sequence[float], child: Child) -> Sequence[float]:
        """What a device's clock said of calls, in the place of what it says."""


class MachineReadings:
    """The machine's own: a :class:`Readings`."""

    virtual = False
    least_limit_s = 1.0
    least_call_s = 0.0

    def lane(self, device: str) -> Lane:
        """The machine's lane for the device, which all tuners share."""
        return TimingLane(device)

    def cpu_s(self, child: Child) -> float:
        """By the kernel's scheduler."""
        return child.cpu_s()

    def wall_s(self, child: Child) -> float:
        """By the monotonic clock."""
        return time.perf_counter()

    def waited_s(self, child: Child) -> float:
        """By the kernel's scheduler."""
        return child.waited_s()

    def others_s(self, child: Child) -> float:
        """By the kernel's scheduler."""
        return child.others_s()

    def watch(self, child: Child, *, settles: bool, threads: int) -> Watcher:
        """By ``/proc`` and ``/sys``."""
        return Watch(child.pid, settles=settles, threads=threads)

    def counted(self, child: Child) -> AbstractContextManager[Mapping[str, float | None]]:
        """By ``perf_event_open``, where the machine allows it."""
        return counted(child.pid)

    def device_times(self, times_s: Sequence[float], child: Child) -> Sequence[float]:
        """As the device says."""
        return times_s
