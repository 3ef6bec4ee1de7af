"""Winners as an application's process meets them: what is loaded before its own libraries, and what that reads.

May not open a run's record or run the application.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tuner.core.protocols import LoadedImage, Substitute
from tuner.core.types import Task
from tuner.driver.applications.functions import function_library, function_of
from tuner.driver.applications.recording import interposer
from tuner.evaluators.host.shared import link_object
from tuner.recorders.recordings.format import Recording
from tuner.recorders.recordings.substitute import Verified, substituting_library

__all__ = ["FunctionWinner", "ImageWinner", "LaunchPlan", "Winner", "WinnerInPlace", "program_files"]


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
class Winner:
    """A kernel of a program that the device's compiler makes.

    Attributes:
        kernel: its name.
        recording: of the kernel that it replaces; its program has to be the application's to the last byte.
        source, options: of the winner.
        il: what its program is made of in the place of the source, where it is not empty.
        local: its work-group along each axis; empty where it stays as the application has it.
    """

    kernel: str
    recording: Recording
    source: str
    options: str
    local: tuple[int, ...]
    il: bytes = b""
    absent: str = "the application launches no kernel of the recorded program"

    @property
    def replaces(self) -> Hashable:
        """The kernel of the recorded program."""
        return _recorded(self.recording)

    def library(self, command: Sequence[str]) -> Path:
        """The library that stands before the device's driver, whatever the application."""
        return interposer()

    def write(self, folder: Path, number: int) -> str:
        """Writes what the library reads."""
        local = " ".join(map(str, (*self.local, 1, 1, 1)[:3] if self.local else (0, 0, 0)))
        files = {
            **program_files(self.recording, self.kernel),
            "winner": self.il or self.source.encode(),
            "winner.form": b"il" if self.il else b"source",
            "winner.options": self.options.encode(),
            "winner.local": local.encode(),
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
class ImageWinner:
    """A kernel of machine code, loaded beside the application's own module.

    Attributes:
        kernel: its name, as the recording has it.
        recording: of the kernel that it replaces; its module has to have the same source and options, or be that image.
        image: the winner's.
        launches: those that it was verified on.
        any_launch: whether it takes all others, too, as they are.
    """

    kernel: str
    recording: Recording
    image: LoadedImage
    launches: tuple[LaunchPlan, ...]
    any_launch: bool = False
    absent: str = "the application launches no kernel of the recorded module"

    @property
    def replaces(self) -> Hashable:
        """The kernel of the recorded module."""
        return _recorded(self.recording)

    def library(self, command: Sequence[str]) -> Path:
        """The library that stands before the device's driver, whatever the application."""
        return interposer()

    def write(self, folder: Path, number: int) -> str:
        """Writes what the library reads."""
        rows = [(*one.own, *one.other, int(one.taken)) for one in self.launches]
        numbers = "\n".join(" ".join(map(str, row)) for row in ((int(self.any_launch),), *rows))
        files = {
            **program_files(self.recording, self.kernel),
            "winner": self.image.code,
            "winner.options": b"",
            "winner.symbol": self.image.symbol.encode(),
            "winner.variables": "".join(f"{name}\n" for name in self.image.constants).encode(),
            "winner.launches": numbers.encode(),
        }
        return _write(folder, number, files)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionWinner:
    """A function of the processor's own code.

    Attributes:
        task: that was tuned.
        verified: the calls that the winner takes.
        found: the winner.
    """

    task: Task
    verified: Verified
    found: Substitute

    @property
    def kernel(self) -> str:
        """Its name in the spec."""
        return self.task.kernel.entry

    @property
    def replaces(self) -> Hashable:
        """The symbol."""
        return self.found.symbol

    @property
    def file(self) -> str:
        """What the library loads."""
        return f"winner-{self.task.kernel.name}.so"

    @property
    def absent(self) -> str:
        """Why it was never called."""
        return f"the application never called {self.kernel}"

    def library(self, command: Sequence[str]) -> Path:
        """The library that stands before the function."""
        function = function_of(self.task, self.found.symbol, command)
        libraries = self.found.libraries
        text = substituting_library(function, self.verified, winner=self.file, libraries=libraries)
        return function_library(text, f"apply-{self.kernel}")

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


def _write(folder: Path, number: int, files: dict[str, bytes]) -> str:
    own = folder / str(number)
    own.mkdir()
    for name, data in files.items():
        (own / name).write_bytes(data)
    return str(number)
