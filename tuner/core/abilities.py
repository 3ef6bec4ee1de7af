"""What some backends can do beside building, verifying and timing; the driver asks whether one can.

A backend needs none of these: it has a method of such a name or it has not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from tuner.core.passing import Layout
from tuner.core.types import Resolved, Task

__all__ = [
    "HearsSteps",
    "KnowsNeeds",
    "KnowsPeaks",
    "LoadedImage",
    "NamesFunctions",
    "Peaks",
    "Replacement",
    "Replaces",
    "Substitute",
    "TellsSteps",
    "WorksApart",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What takes the place of an application's own program.

    Attributes:
        source, options: that the device's compiler is given.
        il: an intermediate language that it is given in the place of the source; empty where it is not.
        geometries: of a launch on each of the task's problems: ``grid``, ``block`` and ``shared_bytes`` of
            :class:`tuner.spaces.launch.Geometry`.
    """

    source: str
    options: str
    geometries: tuple[Any, ...]
    il: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedImage:
    """Machine code that a device's driver loads beside an application's own.

    Attributes:
        code: the image.
        symbol: of the kernel in it.
        constants: names of the variables in it that only the host writes; they take the application's values.
        geometries: of a launch on each of the task's problems, as :attr:`Replacement.geometries`.
    """

    code: bytes
    symbol: str
    constants: tuple[str, ...]
    geometries: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitute:
    """A function that takes the place of one of an application's own.

    Attributes:
        code: a relocatable object.
        symbol: what the function is called in the application's object code.
        libraries: shared libraries that the code may need.
        before: those that have to be loaded before the application's own.
        threads: how many OpenMP threads it was timed with; 0 where it uses none.
        exported: the function's name in the object.
        layout: of the structures that it takes.
    """

    code: bytes
    symbol: str
    exported: str
    libraries: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    threads: int = 0
    layout: Layout = field(default_factory=Layout)


@runtime_checkable
class Replaces(Protocol):
    """A backend whose winners can be put into an application's process from outside."""

    def replacement(
        self, task: Task, code: bytes, resolved: Resolved
    ) -> Replacement | LoadedImage | Substitute:
        """What takes the place of the recorded program, or of a function.

        Raises:
            UsageError: the winner cannot be put in place.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """The most that a device was seen to do, measured once.

    Attributes:
        bandwidths: bytes a second by the bytes that were walked over again and again, smallest first.
        operations: floating-point operations a second, by dtype.
        clock_hz: cycles a second of one processor at work; ``None`` where that is not known.
    """

    bandwidths: tuple[tuple[int, float], ...]
    operations: Mapping[str, float]
    clock_hz: float | None = None


@runtime_checkable
class KnowsPeaks(Protocol):
    """A backend that can say how fast its device is at best."""

    def peaks(self, target: str, threads: int, *, measure: bool) -> Peaks | None:
        """Measured once for each machine and kept; ``None`` where it is not known yet and may not be measured.

        Raises:
            MachineError: it cannot be measured.
        """
        ...


@runtime_checkable
class KnowsNeeds(Protocol):
    """A backend of which some tasks need more of the machine than others."""

    def environment_of(self, task: Task) -> Mapping[str, Any]:
        """What this task needs beside the backend's environment, as plain JSON; where it is missing, why."""
        ...


@runtime_checkable
class NamesFunctions(Protocol):
    """A backend whose kernels are functions that an application may have in its own code."""

    def symbol(self, task: Task, resolved: Resolved) -> str:
        """What the kernel's entry is called in object code.

        Args:
            task: whose kernel.
            resolved: a configuration that the source as given builds with.

        Raises:
            UsageError: the source does not build here, or has no such function.
        """
        ...

    def layout(self, task: Task, resolved: Resolved) -> Layout:
        """Where members lie in the structures that the kernel takes, in the source as given.

        Raises:
            BaselineError: the source does not build here.
        """
        ...


@runtime_checkable
class WorksApart(Protocol):
    """A backend whose device may work beside the host's processors, so that builds need not wait for timing."""

    def works_apart(self, target: str) -> bool:
        """Whether this machine's device for the target is one of these; ``False`` where there is none in reach."""
        ...


@runtime_checkable
class TellsSteps(Protocol):
    """An :class:`tuner.core.protocols.Evaluation` that says what it is doing where a step takes long."""

    def tell(self, step: Callable[[str], None]) -> None:
        """From now on ``step`` is told, in a few words, of each part of a baseline's verification as it begins."""
        ...


@runtime_checkable
class HearsSteps(Protocol):
    """An observer that shows what is done where a step takes long, before there is an event of it."""

    def step(self, text: str) -> None:
        """The part that begins, in a few words; empty when the step is over. Comes from the driver's thread."""
        ...
