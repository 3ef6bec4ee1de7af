"""A clock that kernels advance, in the place of the machine's: what is decided by times is the same on any machine.

Each call of a kernel takes 25 us, and what it says by ``void tuner_work(long long ns)`` beside; a launch on an OpenCL
device takes 1 ms, a call of a recorded loop of an application 25 us. Everything else of a run is real: compilers,
processes, the sandbox, what is compared.

Every test has it that is not marked ``measured`` (:func:`clock_of`). The commands that a test starts find it as the
backends ``host`` and ``opencl`` of an installed package, which ``tests/virtual_clock`` is when ``PYTHONPATH`` names it.
The stand-in for CUDA's driver has a clock of its own (``cuda_stand_in.py``).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import pytest

from tuner.evaluators.disturbance import Unwatched, Watcher
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.harness import VIRTUAL_NS
from tuner.evaluators.host.process import Child
from tuner.evaluators.opencl.backend import OpenClBackend

if TYPE_CHECKING:
    from tuner.recorders.recordings.capture import Ran

__all__ = [
    "ADVANCES",
    "ALONE",
    "CALL_S",
    "LAUNCH_S",
    "FreeLane",
    "VirtualReadings",
    "clock_of",
    "declared",
    "either_clock",
    "host",
    "opencl",
    "without_oclgrind",
]

ADVANCES = "void tuner_work(long long ns);"
"""What a kernel's source begins with that says what it takes. The baseline has to, or no candidate may."""

CALL_S = 25e-6
LAUNCH_S = 1e-3
"""So long that a batch of the milliseconds that runs ask for is a few launches: each costs PoCL a tenth of one."""

_IGNORES = "#define tuner_work(ns) ((void)(ns))"

either_clock = pytest.mark.parametrize(
    "clock",
    [
        pytest.param(ADVANCES, id="virtual"),
        pytest.param(_IGNORES, id="measured", marks=pytest.mark.measured),
    ],
)
"""For tests whose kernels take what they say that they take: ``clock`` is what their source begins with."""

ALONE = "TUNER_TESTS_ALONE"
"""A variable with which commands that a test starts have no Oclgrind."""

_FOLDERS = [str(Path(__file__).parents[1] / "virtual_clock"), str(Path(__file__).parent)]
_NO_LANES = "/nonexistent/only tests that are marked as measured may time"


class FreeLane:
    """The right to time, which needs nobody's leave: others do not change what a virtual clock says."""

    waited_s = 0.0

    def __enter__(self) -> FreeLane:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


@dataclass
class VirtualReadings:
    """A :class:`tuner.evaluators.host.readings.Readings`.

    Attributes:
        least_limit_s: as there, of real time: a process that is kept from a processor is waited for four times as long.
        hidden_s: seconds by which the kernel's account of each window is longer than the child's own.
        waited: seconds that each window's process was kept from a processor, by the kernel's account.
        ahead_s: processor time that a team's members use while they should sleep, before each window.
        disturbances: what the machine did to one batch after the other; nothing after the last.
        launches_s: seconds of each launch of one window after the other; :data:`LAUNCH_S` after the last.
    """

    virtual: bool = True
    least_limit_s: float = 2.0
    least_call_s: float = 0.01
    hidden_s: float = 0.0
    waited: float = 0.0
    ahead_s: float = 0.0
    disturbances: list[list[str]] = field(default_factory=list)
    launches_s: list[float] = field(default_factory=list)
    _launched_s: float = 0.0
    _looks: Counter[str] = field(default_factory=Counter)

    def lane(self, device: str) -> FreeLane:
        return FreeLane()

    def cpu_s(self, child: Child) -> float:
        return self._account_s(child) + self.hidden_s * self._look("processor")

    def wall_s(self, child: Child) -> float:
        return self._account_s(child) + self.hidden_s * self._look("wall")

    def waited_s(self, child: Child) -> float:
        return self.waited * self._look("waited")

    def others_s(self, child: Child) -> float:
        return self.ahead_s * self._look("others")

    def watch(self, child: Child, *, settles: bool, threads: int) -> Watcher:
        return _Disturbed(self.disturbances.pop(0)) if self.disturbances else Unwatched()

    def counted(self, child: Child) -> AbstractContextManager[Mapping[str, float | None]]:
        return nullcontext({})

    def device_times(self, times_s: Sequence[float], child: Child) -> Sequence[float]:
        launch_s = self.launches_s.pop(0) if self.launches_s else LAUNCH_S
        self._launched_s += launch_s * len(times_s)
        return [launch_s] * len(times_s)

    def _account_s(self, child: Child) -> float:
        return child.noted(VIRTUAL_NS) * 1e-9 + self._launched_s

    def _look(self, clock: str) -> int:
        """How often it was read: what a test asks for is between any two readings, so once in each window."""
        self._looks[clock] += 1
        return self._looks[clock]


@dataclass
class _Disturbed:
    found: list[str]

    def disturbances(self, wall_s: float) -> list[str]:
        return self.found


def declared() -> str:
    """What the source of a kernel begins with that says what it takes, by the clock that the running test has."""
    return ADVANCES if HostBackend.readings.virtual else _IGNORES


def host() -> HostBackend:
    """The host by a virtual clock."""
    backend = HostBackend()
    backend.readings = VirtualReadings()
    return backend


def opencl() -> OpenClBackend:
    """An OpenCL device by a virtual clock."""
    if ALONE in os.environ:
        without_oclgrind(pytest.MonkeyPatch())
    backend = OpenClBackend()
    backend.readings = VirtualReadings()
    return backend


def without_oclgrind(patch: pytest.MonkeyPatch) -> None:
    """Has OpenCL kernels run on their device alone until it is undone."""
    patch.setattr("tuner.evaluators.opencl.simulation.oclgrind_version", lambda: None)


def _as_sampled(ran: Ran, sampled: float, run_s: float) -> tuple[float, float, float]:
    """In place of :func:`tuner.driver.applications.region_specs.share_of`, which goes by how long real calls take."""
    return sampled, CALL_S, 1.0


@contextmanager
def clock_of(*, measured: bool) -> Iterator[None]:
    """The clock that a test has, in this process and in those that it starts.

    Args:
        measured: the machine's; else the virtual one, and whoever waits for a timing lane fails.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not measured:
            patch.setattr(HostBackend, "readings", VirtualReadings())
            patch.setattr(OpenClBackend, "readings", VirtualReadings())
            patch.setattr("tuner.driver.applications.region_specs.share_of", _as_sampled)
            patch.setenv(
                "PYTHONPATH", os.pathsep.join([*_FOLDERS, *os.environ.get("PYTHONPATH", "").split()])
            )
            patch.setenv("TUNER_LANE_FOLDER", _NO_LANES)
        yield
