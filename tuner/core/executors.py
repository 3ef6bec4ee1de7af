"""What a driver with many devices hands out and gets back: jobs, their results, and devices that come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tuner.core.places import by_place
from tuner.core.protocols import BaselineReport
from tuner.core.racing import Race
from tuner.core.types import Build, BuildRequest, Measurement, Resolved, Status, Task, Verdict

__all__ = [
    "BaselineJob",
    "BuildJob",
    "EvaluateJob",
    "Evaluated",
    "Executor",
    "Fresh",
    "FreshJob",
    "Happening",
    "Job",
    "JobDone",
    "JobLost",
    "LaneJob",
    "LaneJoined",
    "LaneLost",
    "MakeExecutor",
]


@by_place
@dataclass(frozen=True, slots=True, kw_only=True)
class BuildJob:
    """Compile candidates, on whatever machine; gives a ``list[Build]`` in order."""

    requests: tuple[BuildRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneJob:
    """Something for one device.

    Attributes:
        lane: its number.
    """

    lane: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineJob(LaneJob):
    """Run baseline and reference; gives a :class:`~tuner.core.protocols.BaselineReport`."""


@by_place
@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateJob(LaneJob):
    """Verify a candidate and time it in rounds until all are done or it is dropped; gives :class:`Evaluated`."""

    trial: int
    build: Build
    resolved: Resolved
    race: Race


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshJob(LaneJob):
    """Verify and time a candidate in a process of its own; gives :class:`Fresh`.

    Attributes:
        label: tells the driver what it was for.
        build: ``None`` for the baseline's.
        purpose, number: of :meth:`tuner.core.protocols.Evaluation.open`.
        calls: for each problem.
        retries: how often a machine's fault is tried again.
    """

    label: tuple[object, ...]
    build: Build | None
    resolved: Resolved
    purpose: str
    number: int
    calls: tuple[int, ...]
    retries: int


Job = BuildJob | BaselineJob | EvaluateJob | FreshJob


@by_place
@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What one evaluation gave.

    Attributes:
        verdict: of the verification.
        rounds: the measurements of each round by problem; a failure is the last of them.
        idle_s: between the job before it and this one, by the device's own clock; 0 for its first.
        busy_s: that it took, by the same clock.
    """

    verdict: Verdict
    rounds: tuple[tuple[Measurement, ...], ...] = ()
    idle_s: float = 0.0
    busy_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """What one process gave, with the seconds that it took."""

    status: Status
    measurements: tuple[Measurement, ...]
    message: str
    cost_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDone:
    """A job with its result."""

    job: Job
    result: Sequence[Build] | BaselineReport | Evaluated | Fresh


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLost:
    """A job that has to be done again: its worker is gone, and no device with it."""

    job: Job
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneJoined:
    """A device that can be used from now on.

    Attributes:
        lane: a number that no device of this executor had before.
        device: its name; devices of one name are taken for equal.
        node: the machine, for people.
    """

    lane: int
    device: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneLost:
    """A device that is gone, with whatever it was doing."""

    lane: int
    reason: str


Happening = JobDone | JobLost | LaneJoined | LaneLost


class Executor(Protocol):
    """Compile workers and devices, near or far. Used by one thread."""

    def set_baseline(self, build: Build, resolved: Resolved) -> None:
        """What every device has to run before it can do more than :class:`BaselineJob`."""
        ...

    def submit(self, job: Job) -> None:
        """Starts a job; a device does what it gets one after the other, in order."""
        ...

    def wait(self, timeout_s: float) -> list[Happening]:
        """What has happened since the last call; waits until there is something or the time is over."""
        ...

    def close(self) -> None:
        """Ends all workers; safe to call twice."""
        ...


MakeExecutor = Callable[[Task], Executor]
"""Makes what runs a task on several devices of one kind; closed by who asked for it."""
