"""How many candidates devices are given ahead, and how many are kept ready for them. Only what events said.

A device that is given the next candidate before the one before it has ended does not wait for the driver, as long as
an answer and the next candidate are not under way for longer than an evaluation takes. Where they are, because devices
are many, evaluations short or processors shared, devices say that they stood idle, and all are given more. What is
given ahead was proposed knowing less, so there is a bound, and nobody is given more where that would not help: where
the searcher takes too long to keep so many devices at work.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tuner.driver.state.lanes import Lane

__all__ = ["Stock"]

MOST = 1
"""Levels above the first. Further ones were no faster with 64 devices on two cores, and know less of each result."""

SPARE = 4
"""On the first level one candidate for so many devices is kept ready, proposed and built; twice as many on the next."""

WAITED = 0.04
"""Part of their time that devices stand idle, from which on they are given more."""

RARELY = 0.01
"""Part below which they are given less again."""

WINDOW = 2
"""Evaluations of each device between two looks."""

LEAST = 32
"""And at least so many of all."""

CALM = 12
"""Looks in a row that find them hardly waiting before they are given less."""

LATE_S = 0.3
"""How long a build may take to come back for more to be under way: beyond it is the compiling that takes the time."""

MOST_BUILDING = 2
"""And at most so many for each device."""

SEARCHER = 0.5
"""Part of the driver's time that proposals may take where more candidates ahead are to help."""


@dataclass(slots=True, kw_only=True)
class Stock:
    """The stock of all devices together.

    Attributes:
        grows: whether devices that wait are given more; else all stays on the first level.
        follows: whether as many more are kept ready for devices that wait as are evaluated while a build is under way.
        level: how much more, from 0 on.
        room: candidates that the devices can hold, running and ahead.
        spare: candidates that are to be ready beside them, or on their way to it.
        low: with so many nothing is proposed yet, so that proposals come several at a time.
        building: of both, those that are being built at any time.
    """

    grows: bool = False
    follows: bool = False
    level: int = 0
    room: int = 0
    spare: int = 0
    low: int = 0
    building: float = 0.0
    _usable: int = 0
    _seen: int = 0
    _idle_s: float = 0.0
    _busy_s: float = 0.0
    _asked_s: float = 0.0
    _built: int = 0
    _coming_s: float = 0.0
    _looked_s: float = 0.0
    _calm: int = 0

    def count(self, lanes: Collection[Lane]) -> None:
        """Looks through the devices: some came or went, or can be used no longer."""
        usable = [lane for lane in lanes if lane.usable]
        for lane in usable:
            lane.ahead = (1 + self.level) * lane.quick
        self._usable = len(usable)
        self.room = sum(1 + lane.ahead for lane in usable)
        ready, building = -(-self._usable * (1 + self.level) // SPARE), round(self.building)
        self.spare = ready + building
        self.low = ready // 2 + building

    def built(self, coming_s: float) -> None:
        """Takes in that a build has come, so many seconds after its proposal."""
        self._built += 1
        self._coming_s += coming_s

    def evaluated(
        self,
        lane: Lane,
        lanes: Collection[Lane],
        *,
        idle_s: float,
        busy_s: float,
        asked_s: float,
        clock_s: float,
    ) -> None:
        """Takes in that an evaluation has ended.

        Args:
            lane: its device.
            lanes: all.
            idle_s, busy_s: what the device says it waited before it, and took for it.
            asked_s: what proposing it took.
            clock_s: the run's clock.
        """
        ahead = (1 + self.level) * lane.quick
        if ahead != lane.ahead:
            self.room += (ahead - lane.ahead) * lane.usable
            lane.ahead = ahead
        # After a control measurement a device has nothing ahead, which is no sign of anything.
        if not self.grows or not lane.quick or not lane.since_control or not busy_s:
            return
        self._seen += 1
        self._idle_s += idle_s
        self._busy_s += busy_s
        self._asked_s += asked_s
        if self._seen >= max(LEAST, WINDOW * self._usable):
            self._look(lanes, clock_s)

    def _look(self, lanes: Collection[Lane], clock_s: float) -> None:
        waited = self._idle_s / (self._idle_s + self._busy_s)
        # What the searcher took while each device could have made its part of these evaluations.
        searcher = self._asked_s * self._usable / self._busy_s
        before, built_before = self.level, self.building
        self._calm = self._calm + 1 if waited < RARELY else 0
        if waited > WAITED and searcher < SEARCHER:
            self.level = min(MOST, self.level + 1)
        elif self._calm >= CALM:
            self.level = max(0, self.level - 1)
        self.building = self._to_build(clock_s)
        if self.level != before:
            self._calm = 0
        if self.level != before or self.building != built_before:
            self.count(lanes)
        self._seen = self._built = 0
        self._idle_s = self._busy_s = self._asked_s = self._coming_s = 0.0
        self._looked_s = clock_s

    def _to_build(self, clock_s: float) -> float:
        """How many are evaluated while a build is under way, half by the last look: so many are never ready."""
        passed_s = clock_s - self._looked_s
        if not self.follows or not self.level or passed_s <= 0:
            return 0.0
        if not self._built:
            return self.building
        now = self._seen / passed_s * min(self._coming_s / self._built, LATE_S)
        return min((self.building + now) / 2, float(MOST_BUILDING * self._usable))
