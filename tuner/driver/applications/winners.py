"""What a run's record puts in the place of an application's own kernel or function.

May not run the application.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tuner.core.errors import UsageError
from tuner.core.protocols import Replacement, Replaces, Substitute
from tuner.core.types import Problem, Task
from tuner.driver.applications.functions import function_library, function_of
from tuner.driver.applications.recording import interposer
from tuner.driver.opening import open_lineup
from tuner.driver.outcome.by_problem import gains
from tuner.driver.outcome.export import best_object
from tuner.driver.outcome.outcome import outcome
from tuner.driver.state.run import RunState
from tuner.evaluators import registry as backends
from tuner.evaluators.host.shared import link_object
from tuner.recorders.record import RunRecord
from tuner.recorders.recordings.format import Recording
from tuner.recorders.recordings.substitute import Verified, substituting_library
from tuner.spec.load import LoadedSpec
from tuner.spec.workload import DERIVED, INDEX, from_text

__all__ = ["FunctionWinner", "Winner", "WinnerInPlace", "winner_of"]


class WinnerInPlace(Protocol):
    """What :mod:`tuner.driver.applications.applying` needs of a winner."""

    @property
    def kernel(self) -> str:
        """The name of what is replaced."""
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

    def write(self, folder: Path) -> None:
        """Writes what the library reads into a folder of its own."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """A kernel of a program that the device's compiler makes.

    Attributes:
        kernel: its name.
        recording: of the kernel that it replaces; its program has to be the application's to the last byte.
        source, options: of the winner.
        local: its work-group along each axis; empty where it stays as the application has it.
    """

    kernel: str
    recording: Recording
    source: str
    options: str
    local: tuple[int, ...]
    absent: str = "the application launches no kernel of the recorded program"

    def library(self, command: Sequence[str]) -> Path:
        """The library that stands before the device's driver, whatever the application."""
        return interposer()

    def write(self, folder: Path) -> None:
        """Writes what the library reads."""
        texts = {
            "kernel": self.kernel,
            "original.cl": self.recording.text,
            "original.options": self.recording.options,
            "winner.cl": self.source,
            "winner.options": self.options,
            "winner.local": " ".join(map(str, (*self.local, 1, 1, 1)[:3] if self.local else (0, 0, 0))),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")


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

    def write(self, folder: Path) -> None:
        """Writes the winner as a library."""
        link_object(self.found.code, folder / self.file)


def winner_of(path: Path) -> WinnerInPlace:
    """What a run's record puts in place.

    Raises:
        UsageError: nothing better was found, or what won cannot be put in place.
        RecordError: the record cannot be read.
    """
    with RunRecord.read(path) as record:
        state, spec, lineup = open_lineup(record)
        result = outcome(path, state)
        if not result.summary.improved:
            raise UsageError(
                f"{path} claims nothing better than the kernel as given", "there is nothing to apply"
            )
        code = best_object(record, state, result)
        _, resolved = lineup.of_trial(result.summary.best.number)
    backend = backends.create(spec.task.backend)
    if not isinstance(backend, Replaces):
        raise UsageError(
            f"winners of the {backend.name} backend cannot be put in place yet", "use tuner export"
        )
    found = backend.replacement(spec.task, code, resolved)
    if isinstance(found, Substitute):
        return _function(found, state, spec)
    return _kernel(found, spec, path)


def _function(found: Substitute, state: RunState, spec: LoadedSpec) -> FunctionWinner:
    task = spec.task
    slower = [p for p, gain in zip(task.problems, gains(state), strict=False) if not gain.faster]
    verified = Verified(
        sizes=(*task.problems, *task.verify.problems), assumed=task.verify.assume, slower=tuple(slower)
    )
    return FunctionWinner(task=task, verified=verified, found=found)


def _kernel(found: Replacement, spec: LoadedSpec, path: Path) -> Winner:
    recordings = _recordings(spec, path)
    return Winner(
        kernel=spec.task.kernel.entry,
        recording=recordings[0],
        source=found.source,
        options=found.options,
        local=_local(found, spec.task.problems, recordings, path),
    )


def _recordings(spec: LoadedSpec, path: Path) -> tuple[Recording, ...]:
    if DERIVED not in spec.files:
        raise UsageError(
            f"{path} was not tuned on recordings, so nothing says what it replaces",
            "record the application first",
        )
    recordings = from_text(spec.files[DERIVED], origin=str(path)).recordings
    if len({(r.text, r.options) for r in recordings}) > 1:
        raise UsageError(f"{path} was tuned on recordings of several programs", "tune each by itself")
    return recordings


def _local(
    found: Replacement, problems: Sequence[Problem], recordings: Sequence[Recording], path: Path
) -> tuple[int, ...]:
    """The winner's work-group, which has to make the same grid of work-items as the application."""
    blocks = set()
    for geometry, problem in zip(found.geometries, problems, strict=True):
        recording = recordings[problem.sizes[INDEX] - 1]
        items = tuple(g * b for g, b in zip(geometry.grid, geometry.block, strict=True))
        if items != (*recording.global_size, 1, 1)[:3]:
            raise UsageError(
                f"the winner of {path} launches {' x '.join(map(str, items))} work-items, the application "
                f"{' x '.join(map(str, recording.global_size))}",
                "only work-groups of another size can be put in place, not another grid",
            )
        local = sum(a.size_bytes for a in recording.arguments if a.kind == "local")
        if geometry.shared_bytes != local:
            raise UsageError(
                f"the winner of {path} takes {geometry.shared_bytes} bytes of local memory, the application gives "
                f"{local}",
                "such a winner cannot be put in place yet",
            )
        kept = (*recording.local_size, 1, 1)[:3] if recording.local_size else ()
        blocks.add(() if geometry.block == kept else geometry.block)
    if len(blocks) > 1:
        raise UsageError(
            f"the winner of {path} has several work-group sizes", "tune each recording by itself"
        )
    return blocks.pop()
