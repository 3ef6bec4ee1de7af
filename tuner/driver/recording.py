"""``tuner record``: runs an application with the recording library before its own, and writes what comes of it.

Joins the compiler, the recorders and the specs. May not judge candidates.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from tuner.core.errors import MachineError, TunerError, UsageError
from tuner.core.protocols import NamesFunctions
from tuner.driver.export import write_atomically
from tuner.driver.functions import function_library, function_of
from tuner.evaluators import registry as backends
from tuner.evaluators.host.shared import shared_library
from tuner.recorders.recordings.capture import Application, KernelUse, Ran, read_raw
from tuner.recorders.recordings.format import Recording
from tuner.recorders.recordings.function import recording_library
from tuner.spec.load import LoadedSpec, load_spec
from tuner.spec.record import write_spec

__all__ = ["Listing", "RecordReport", "interposer", "list_launches", "record_kernel", "record_spec"]

FOLDER = "recordings"
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What an application launches; ``to_json`` is the object behind ``--json``."""

    ran: Ran

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        total = sum(use.seconds for use in self.ran.kernels)
        return {
            "schema_version": 1,
            "status": self.ran.status,
            "wall_s": self.ran.wall_s,
            "kernels": [
                {
                    "name": use.name,
                    "program": use.program,
                    "launches": use.launches,
                    "seconds": use.seconds,
                    "share": use.seconds / total if total else 0.0,
                    "geometries": len(use.signatures),
                    "recordable": use.launches - sum(use.refused.values()),
                    "refused": dict(use.refused),
                }
                for use in self.ran.kernels
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordReport:
    """What was recorded.

    Attributes:
        ran: the application.
        recordings: the files written.
        specs: written beside them.
        notes: what a person should know.
    """

    ran: Ran
    recordings: tuple[Path, ...]
    specs: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The object behind ``--json``."""
        return {
            "schema_version": 1,
            "status": self.ran.status,
            "recordings": [str(p) for p in self.recordings],
            "specs": [str(p) for p in self.specs],
            "notes": list(self.notes),
        }


def interposer() -> Path:
    """The library that stands before OpenCL, made where it is missing.

    Raises:
        MachineError: it cannot be made.
    """
    return _library(_packaged("interposer.c"), "opencl-interposer")


def _packaged(name: str) -> str:
    return package_files("tuner.recorders.recordings").joinpath(name).read_text(encoding="utf-8")


def _library(text: str, name: str) -> Path:
    return shared_library(f"{_packaged('common.c')}\n{text}", name)


def list_launches(command: Sequence[str], *, aside: bool = False) -> Listing:
    """Runs a command and lists its launches.

    Raises:
        UsageError: there is no such command, or it never called OpenCL.
        MachineError: the library cannot be made.
    """
    with tempfile.TemporaryDirectory(prefix="tuner-record-") as scratch:
        ran = _application(command, aside=aside).run(Path(scratch), {"TUNER_RECORD_MODE": "list"})
    _must_have_run(ran, command)
    return Listing(ran=ran)


def record_kernel(
    command: Sequence[str], kernel: str, folder: Path, *, instances: int, aside: bool = False
) -> RecordReport:
    """Captures launches of a kernel, and writes a spec that tunes them.

    Programs that hold a kernel of the same name get a spec each.

    Args:
        command: the application.
        kernel: its name.
        folder: for spec, source and recordings.
        instances: the most recordings; launches that differ in geometry, scalars or sizes come first.
        aside: whether the application's standard output goes to standard error.

    Raises:
        UsageError: no such command or kernel, or nothing that can be recorded.
        MachineError: the library cannot be made, or a recording not be written.
    """
    ran, found = _capture(command, kernel, folder / FOLDER, instances=instances, aside=aside)
    by_program: dict[tuple[str, str], list[tuple[Path, Recording]]] = {}
    for path, recording in found:
        by_program.setdefault((recording.text, recording.options), []).append((path, recording))
    specs: list[Path] = []
    paths: list[Path] = []
    notes: list[str] = _notes(ran)
    for number, entries in enumerate(by_program.values()):
        name = _file_name(kernel) + (f"-{number + 1}" if number else "")
        # One program's recordings are told from another's by a name of their own.
        pattern = f"{FOLDER}/{name}-*.rec" if len(by_program) == 1 else ""
        if not pattern:
            moved = folder / FOLDER / name
            moved.mkdir(parents=True, exist_ok=True)
            for path, _ in entries:
                os.replace(path, moved / path.name)
            entries = [(moved / path.name, recording) for path, recording in entries]
            pattern = f"{FOLDER}/{name}/*.rec"
        paths += [path for path, _ in entries]
        if entries[0][1].form != "source":
            notes.append(f"{name} was captured without its source: it cannot be tuned")
            continue
        source, spec = write_spec([r for _, r in entries], name=name, pattern=pattern)
        write_atomically(folder / f"{name}.cl", source.encode())
        write_atomically(folder / f"{name}.yaml", spec.encode())
        specs.append(folder / f"{name}.yaml")
        try:
            load_spec(specs[-1])
        except TunerError as error:
            notes.append(f"{specs[-1].name} does not tune as it is: {error.message}")
        earlier = sorted(set(folder.glob(pattern)) - set(paths))
        if earlier:
            notes.append(
                f"{specs[-1].name} also takes {len(earlier)} earlier recordings such as {earlier[0].name}"
            )
    return RecordReport(ran=ran, recordings=tuple(sorted(paths)), specs=tuple(specs), notes=tuple(notes))


def record_spec(
    command: Sequence[str], spec: LoadedSpec, *, instances: int, aside: bool = False
) -> RecordReport:
    """Captures launches of a spec's kernel beside it; arguments as :func:`record_kernel`."""
    kernel = spec.task.kernel
    folder = Path(spec.path).resolve().parent / FOLDER
    library = None
    backend = backends.create(spec.task.backend)
    if isinstance(backend, NamesFunctions):
        space = spec.space(backend.pass_catalogue())
        symbol = backend.symbol(spec.task, space.resolve(space.default()))
        text = recording_library(function_of(spec.task, symbol))
        library = function_library(text, f"record-{kernel.entry}")
    elif kernel.language != "opencl":
        raise UsageError(f"kernels of {kernel.language} cannot be recorded yet", "record OpenCL, C or C++")
    ran, found = _capture(command, kernel.entry, folder, instances=instances, aside=aside, library=library)
    notes = _notes(ran)
    if len({(r.text, r.options) for _, r in found}) > 1:
        notes.append(f"several programs have a kernel {kernel.entry}; tuner record --kernel keeps them apart")
    pattern = f"{FOLDER}/{_file_name(kernel.entry)}-*.rec"
    instead = "beside arguments" if library else "in the place of arguments and problem"
    notes.append(f"write workload: {pattern} {instead} to tune on them")
    return RecordReport(ran=ran, recordings=tuple(path for path, _ in found), notes=tuple(notes))


def _application(command: Sequence[str], *, aside: bool, library: Path | None = None) -> Application:
    if not command:
        raise UsageError("no command is given", "write it after --, for example -- ./app --size 10")
    return Application(command=tuple(command), library=library or interposer(), aside=aside)


def _must_have_run(ran: Ran, command: Sequence[str]) -> None:
    shown = shlex.join(command)
    if not ran.seen:
        raise UsageError(
            f"{shown!r} did not load the recording library",
            "it has to be a dynamically linked program without set-user-id",
        )
    if not ran.kernels:
        ended = f" ({ran.ended_badly})" if ran.ended_badly else ""
        raise UsageError(
            f"{shown!r} launched no OpenCL kernel{ended}",
            "a program with the OpenCL loader linked in statically cannot be recorded",
        )


def _capture(
    command: Sequence[str],
    kernel: str,
    folder: Path,
    *,
    instances: int,
    aside: bool,
    library: Path | None = None,
) -> tuple[Ran, list[tuple[Path, Recording]]]:
    variables = {
        "TUNER_RECORD_MODE": "record",
        "TUNER_RECORD_KERNEL": kernel,
        "TUNER_RECORD_INSTANCES": str(instances),
    }
    with _scratch(folder) as name:
        scratch = Path(name)
        ran = _application(command, aside=aside, library=library).run(scratch, variables)
        raws = sorted(scratch.glob("*.raw"))
        if not raws:
            raise _nothing(ran, command, kernel)
        uses = {use.program: use for use in ran.kernels if use.name == kernel}
        found = [_write(raw, folder, kernel, uses) for raw in raws]
    return ran, list(dict(found).items())


def _scratch(folder: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder on the file system of the recordings: the machine's own for temporary files may be small."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=".capture-", dir=folder)
    except OSError as error:
        raise MachineError(f"{folder} cannot be written: {error.strerror}", "name another with -o") from None


def _write(raw: Path, folder: Path, kernel: str, uses: Mapping[str, KernelUse]) -> tuple[Path, Recording]:
    with read_raw(raw) as capture:
        sign = capture.recording.signature
        use = next((u for u in uses.values() if sign in u.signatures), None)
        path = capture.write(folder, name=_file_name(kernel), use=use)
        count, seconds = use.signatures[sign] if use else (1, capture.recording.seconds)
        return path, replace(capture.recording, count=count, seconds=seconds / count)


def _nothing(ran: Ran, command: Sequence[str], kernel: str) -> UsageError:
    if ran.lost:
        return UsageError(
            f"nothing could be recorded: {ran.lost[0]}", "make room on the disk, or name another with -o"
        )
    uses = [use for use in ran.kernels if use.name == kernel]
    reasons = [why for use in uses for why in use.refused]
    if reasons:
        return UsageError(
            f"{kernel} cannot be recorded: {reasons[0]}", "tuner record --list shows what can be"
        )
    ended = f" before it {ran.ended_badly}" if ran.ended_badly else ""
    if not ran.seen:
        _must_have_run(ran, command)
    return UsageError(
        f"{shlex.join(command)!r} never called {kernel!r}{ended}",
        "tuner record --list names its kernels; a C function has to be called in a shared library",
    )


def _notes(ran: Ran) -> list[str]:
    notes = [f"some launches were not recorded: {why}" for why in dict.fromkeys(ran.lost)]
    if ran.ended_badly:
        notes.append(f"the application {ran.ended_badly}; what it had launched until then is recorded")
    for use in ran.kernels:
        notes += [
            f"{count} launches of {use.name} cannot be recorded: {why}" for why, count in use.refused.items()
        ]
    return notes


def _file_name(kernel: str) -> str:
    return _NAME.sub("_", kernel).strip("_.-") or "kernel"
