"""Winners as an application's process meets them: what is loaded before its own libraries, and what that reads.

May not open a run's record or run the application.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tuner.core.protocols import LoadedImage, Substitute
from tuner.core.types import Task
from tuner.driver.applications.functions import function_library, function_of
from tuner.driver.applications.recording import interposer
from tuner.evaluators.host.shared import link_object
from tuner.recorders.recordings.c_text import bound_sizes
from tuner.recorders.recordings.format import Recording
from tuner.recorders.recordings.points import AXIS, SIGNED, Key, Point, rows
from tuner.recorders.recordings.substitute import Standing, Verified, points_of, substituting_library
from tuner.spec.recorded.workload import AXES

__all__ = [
    "FunctionWinner",
    "ImageWinner",
    "LaunchPlan",
    "Origin",
    "Winner",
    "WinnerInPlace",
    "program_files",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The run that a winner comes from.

    Attributes:
        run: its record.
        claim: what the run claims, as its result has it.
        speedup: over the kernel as given, with its 95% interval; 1 where nothing is claimed.
    """

    run: Path
    claim: str
    speedup: tuple[float, float, float]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        value, low, high = self.speedup
        return {
            "run": str(self.run),
            "claim": self.claim,
            "speedup": {"value": value, "ci95": [low, high]},
        }


class WinnerInPlace(Protocol):
    """What :mod:`tuner.driver.applications.applying` needs of a winner."""

    @property
    def kernel(self) -> str:
        """The name of what is replaced."""
        ...

    @property
    def replaces(self) -> Hashable:
        """What is replaced: equal for two winners that want the same place."""
        ...

    @property
    def absent(self) -> str:
        """Why it may never have been called, where nothing else is known."""
        ...

    @property
    def points(self) -> tuple[Point, ...]:
        """The sizes that it was timed at."""
        ...

    @property
    def names(self) -> Mapping[Key, str]:
        """What the points' numbers are called."""
        ...

    @property
    def device(self) -> str:
        """Of several winners for one kernel, for different devices: its own; else empty."""
        ...

    @property
    def sizes(self) -> Mapping[str, tuple[int, ...]]:
        """Of several winners for one kernel: what tells its sizes from those of the others; else empty."""
        ...

    @property
    def origin(self) -> Origin | None:
        """The run that it comes from; ``None`` where it was made without one."""
        ...

    @property
    def needed(self) -> tuple[Path, ...]:
        """Libraries that have to come before the application's own as well."""
        ...

    def library(self, command: Sequence[str]) -> Path:
        """What is loaded before the application's own libraries.

        Raises:
            UsageError: the application is such that nothing can be put in place.
            MachineError: it cannot be made.
        """
        ...

    def write(self, folder: Path, number: int) -> str:
        """Writes what the library reads, for the winner of that number among the device's; the name of its counters."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeviceWinner:
    """What winners on a device have in common.

    Attributes:
        kernel: its name, as the recording has it.
        recording: of the kernel that it replaces.
        keys: by which of the points' numbers the nearest is looked for, where several take any.
        device: it takes launches on this one alone; empty for all.
        sizes: see :class:`WinnerInPlace`.
        origin: see :class:`WinnerInPlace`.
    """

    kernel: str
    recording: Recording
    keys: tuple[Key, ...] = ()
    device: str = ""
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    origin: Origin | None = None

    @property
    def replaces(self) -> Hashable:
        """The kernel of the recorded program or module."""
        return _recorded(self.recording)

    @property
    def needed(self) -> tuple[Path, ...]:
        """None."""
        return ()

    def library(self, command: Sequence[str]) -> Path:
        """The library that stands before the device's driver, whatever the application."""
        return interposer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner(_DeviceWinner):
    """A kernel of a program that the device's compiler makes; it has to be the application's to the last byte.

    Attributes:
        source, options: of the winner.
        il: what its program is made of in the place of the source, where it is not empty.
        local: its work-group along each axis; empty where it stays as the application has it.
        points: see :class:`WinnerInPlace`.
        names: see :class:`WinnerInPlace`.
    """

    source: str
    options: str
    local: tuple[int, ...]
    il: bytes = b""
    absent: str = "the application launches no kernel of the recorded program"
    points: tuple[Point, ...] = ()
    names: Mapping[Key, str] = field(default_factory=dict)

    def write(self, folder: Path, number: int) -> str:
        """Writes what the library reads."""
        local = " ".join(map(str, (*self.local, 1, 1, 1)[:3] if self.local else (0, 0, 0)))
        files = {
            **program_files(self.recording, self.kernel),
            "winner": self.il or self.source.encode(),
            "winner.form": b"il" if self.il else b"source",
            "winner.options": self.options.encode(),
            "winner.local": local.encode(),
            "winner.points": point_lines(self.points, self.keys),
            "winner.device": self.device.encode(),
        }
        return _write(folder, number, files)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """A launch that an application makes, and the winner's in its place.

    Attributes:
        own: grid, block and dynamic shared memory in bytes, seven numbers.
        other: the winner's.
        taken: whether the winner takes it: it was not slower there.
    """

    own: tuple[int, ...]
    other: tuple[int, ...]
    taken: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageWinner(_DeviceWinner):
    """A kernel of machine code, loaded beside the application's own module, which has to be made as the recorded one.

    Attributes:
        image: the winner's.
        launches: those that it was verified on.
        any_launch: whether it takes all others, too, as they are.
    """

    image: LoadedImage
    launches: tuple[LaunchPlan, ...]
    any_launch: bool = False
    absent: str = "the application launches no kernel of the recorded module"

    @property
    def points(self) -> tuple[Point, ...]:
        """The work-items of its launches."""
        return tuple(
            Point(sizes={(AXIS, i): one.own[i] * one.own[3 + i] for i in range(3)}, taken=one.taken)
            for one in self.launches
        )

    @property
    def names(self) -> Mapping[Key, str]:
        """Of the axes."""
        return {(AXIS, i): name for i, name in enumerate(AXES)}

    def write(self, folder: Path, number: int) -> str:
        """Writes what the library reads."""
        launches = [(*one.own, *one.other, int(one.taken)) for one in self.launches]
        files = {
            **program_files(self.recording, self.kernel),
            "winner": self.image.code,
            "winner.options": b"",
            "winner.symbol": self.image.symbol.encode(),
            "winner.variables": "".join(f"{name}\n" for name in self.image.constants).encode(),
            "winner.launches": _numbers([(int(self.any_launch),), *launches]),
            "winner.points": point_lines(self.points, self.keys),
        }
        return _write(folder, number, files)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionWinner:
    """A function of the processor's own code.

    Attributes:
        task: that was tuned.
        verified: the calls that the winner takes.
        found: the winner.
        number: its place among the winners for this function.
        beside: all of those, where there are several: they share one library.
        sizes: see :class:`WinnerInPlace`.
        origin: see :class:`WinnerInPlace`.
    """

    task: Task
    verified: Verified
    found: Substitute
    number: int = 0
    beside: tuple[FunctionWinner, ...] = ()
    device: str = ""
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    origin: Origin | None = None

    @property
    def kernel(self) -> str:
        """Its name in the spec."""
        return self.task.kernel.function

    @property
    def replaces(self) -> Hashable:
        """The symbol."""
        return self.found.symbol

    @property
    def file(self) -> str:
        """What the library loads."""
        return f"winner-{self.task.kernel.name}{f'-{self.number}' if self.number else ''}.so"

    @property
    def absent(self) -> str:
        """Why it was never called."""
        nearest = ", with sizes nearest to these" if self.sizes else ""
        return f"the application never called {self.kernel}{nearest}"

    @property
    def points(self) -> tuple[Point, ...]:
        """The sizes that it was timed at."""
        return points_of(self.task.own_arguments, self.task.problems, self.verified.slower)

    @property
    def names(self) -> Mapping[Key, str]:
        """Of the sizes, as the spec names them."""
        return {(SIGNED, number): name for name, number in bound_sizes(self.task.own_arguments).items()}

    @property
    def needed(self) -> tuple[Path, ...]:
        """OpenMP's library, so that the application and the winner have one and the same."""
        return tuple(map(Path, self.found.before))

    def library(self, command: Sequence[str]) -> Path:
        """The library that stands before the function, for all winners for it."""
        symbol = self.found.symbol
        standing = [
            Standing(
                # The executable's own is looked for once: the first says how the function is stood before.
                function=function_of(one.task, symbol, one.found.layout, () if number else command),
                verified=one.verified,
                points=one.points,
                file=one.file,
                exported=one.found.exported,
                libraries=one.found.libraries,
            )
            for number, one in enumerate(self.beside or (self,))
        ]
        return function_library(
            substituting_library(standing), f"apply-{self.kernel}", standing[0].function.symbol
        )

    def write(self, folder: Path, number: int) -> str:
        """Writes the winner as a library."""
        link_object(self.found.code, folder / self.file)
        return self.file


def program_files(recording: Recording, kernel: str) -> dict[str, bytes]:
    """What the library knows a recorded program by."""
    coded = recording.form in ("il", "image")
    return {
        "api": recording.api.encode(),
        "kernel": kernel.encode(),
        "form": recording.form.encode(),
        "original": bytes.fromhex(recording.text) if coded else recording.text.encode(),
        "original.options": recording.options.encode(),
    }


def _recorded(recording: Recording) -> Hashable:
    return recording.api, recording.entry, recording.text, recording.options


def point_lines(points: Sequence[Point], keys: Sequence[Key]) -> bytes:
    """For the device's library: how many keys there are, the keys, and the points."""
    return _numbers([(len(keys), *(number for key in keys for number in key)), *rows(points, keys)])


def _numbers(lines: Sequence[Sequence[int]]) -> bytes:
    return "\n".join(" ".join(map(str, line)) for line in lines).encode()


def _write(folder: Path, number: int, files: dict[str, bytes]) -> str:
    own = folder / str(number)
    own.mkdir()
    for name, data in files.items():
        (own / name).write_bytes(data)
    return str(number)
