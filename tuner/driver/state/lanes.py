"""What is known of one of several devices. Part of the state of a run: only what events said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.core import statistics

__all__ = ["Lane"]

HOPELESS = 3
"""Control measurements that fail in a row after which a device is not used."""

QUICK_S = 0.3
"""A device whose evaluations take less than this is given the next one ahead, so that it never waits for the driver."""

_WINDOW = 8
"""How many of the last evaluations say how long one takes."""


@dataclass(slots=True, kw_only=True)
class Lane:
    """One device.

    Attributes:
        number: of the run; none is given twice.
        device: its name; devices of one name are taken for equal but for what the baseline says.
        node: the machine that it is in, for people.
        alive: whether it is still there.
        lost: why it is not.
        trials: what it was given: the first is being evaluated, the others wait for it.
        controls: the baseline's times on it by problem, in order: what its trials are normalised by.
        since_control: trials measured since the last of them.
        failed: control measurements in a row that failed.
        took_s: of the last evaluations, from when it could begin to when its result was taken in.
        quick: whether it is given the next trial ahead.
        ahead: how many it may hold beside the one that is being evaluated (:mod:`tuner.driver.state.stock`).
        ended_s: when the last of them ended.
    """

    number: int
    device: str
    node: str = ""
    alive: bool = True
    lost: str = ""
    trials: list[int] = field(default_factory=list)
    controls: list[tuple[float, ...]] = field(default_factory=list)
    since_control: int = 0
    failed: int = 0
    took_s: list[float] = field(default_factory=list)
    quick: bool = False
    ahead: int = 0
    ended_s: float = 0.0

    @property
    def usable(self) -> bool:
        """Whether it is there and runs the baseline."""
        return self.alive and self.failed < HOPELESS

    @property
    def calibrated(self) -> bool:
        """Whether the baseline was timed on it."""
        return bool(self.controls)

    @property
    def room(self) -> int:
        """How many more trials it can be given now."""
        return max(0, 1 + self.ahead - len(self.trials))

    def ended(self, trial: int, placed_s: float, clock_s: float) -> None:
        """Takes in that a trial which was placed on it has ended."""
        self.trials.remove(trial)
        self.took_s = [*self.took_s, clock_s - max(placed_s, self.ended_s)][-_WINDOW:]
        self.quick = statistics.median(self.took_s) < QUICK_S
        self.ended_s = clock_s

    def controlled(self, medians_s: Sequence[float] | None) -> None:
        """Takes in a control measurement; ``None`` where it failed."""
        self.since_control = 0
        if medians_s is None:
            self.failed += 1
            return
        self.failed = 0
        self.controls.append(tuple(medians_s))
