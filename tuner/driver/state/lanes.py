"""What is known of one of several devices. Part of the state of a run: only what events said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Lane"]

HOPELESS = 3
"""Control measurements that fail in a row after which a device is not used."""


@dataclass(slots=True, kw_only=True)
class Lane:
    """One device.

    Attributes:
        number: of the run; none is given twice.
        device: its name; devices of one name are taken for equal but for what the baseline says.
        alive: whether it is still there.
        trial: what is being evaluated on it.
        controls: the baseline's times on it by problem, in order: what its trials are normalised by.
        since_control: trials measured since the last of them.
        failed: control measurements in a row that failed.
    """

    number: int
    device: str
    alive: bool = True
    trial: int | None = None
    controls: list[tuple[float, ...]] = field(default_factory=list)
    since_control: int = 0
    failed: int = 0

    @property
    def usable(self) -> bool:
        """Whether it is there and runs the baseline."""
        return self.alive and self.failed < HOPELESS

    @property
    def calibrated(self) -> bool:
        """Whether the baseline was timed on it."""
        return bool(self.controls)

    def controlled(self, medians_s: Sequence[float] | None) -> None:
        """Takes in a control measurement; ``None`` where it failed."""
        self.since_control = 0
        if medians_s is None:
            self.failed += 1
            return
        self.failed = 0
        self.controls.append(tuple(medians_s))
