"""``tuner record``: runs an application with the recording library before its own, and writes what comes of it.

Joins the compiler, the recorders and the specs. May not judge candidates.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from tuner.core.errors import MachineError, SpecError, TunerError, UsageError
from tuner.core.files import write_atomically
from tuner.core.protocols import NamesFunctions
from tuner.driver.functions import function_library, function_of
from tuner.evaluators import registry as backends
from tuner.evaluators.host.shared import shared_library
from tuner.recorders.recordings.capture import Application, KernelUse, Ran, read_raw
from tuner.recorders.recordings.format import Recording
from tuner.recorders.recordings.function import recording_library
from tuner.spec.load import LoadedSpec, load_spec
from tuner.spec.record import write_spec

__all__ = [
    "Listing",
    "RecordReport",
    "interposer",
    "list_launches",
    "record_kernel",
    "record_kernels",
    "record_spec",
]

FOLDER = "recordings"
INDEX_FILE = "kernels.json"
EVALUATIONS = 60
"""The budget that a spec of one kernel gets; twice as many are shared by several, in proportion to their time."""
LEAST_EVALUATIONS = 10
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
        index: of several kernels, with their shares.
    """

    ran: Ran
    recordings: tuple[Path, ...]
    specs: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    index: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """The object behind ``--json``."""
        return {
            "schema_version": 1,
            "status": self.ran.status,
            "recordings": [str(p) for p in self.recordings],
            "specs": [str(p) for p in self.specs],
            "notes": list(self.notes),
            "index": None if self.index is None else str(self.index),
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
    """:func:`record_kernels` of one."""
    return record_kernels(command, [kernel], folder, instances=instances, aside=aside)


def record_kernels(
    command: Sequence[str], kernels: Sequence[str], folder: Path, *, instances: int, aside: bool = False
) -> RecordReport:
    """Captures launches of kernels in one run of the application, and writes a spec for each that tunes them.

    Programs that hold a kernel of the same name get a spec each. With several specs, an index
    (:data:`INDEX_FILE`) says what each kernel's share of their time is, and the budgets are in proportion to it.

    Args:
        command: the application.
        kernels: their names.
        folder: for specs, sources, recordings and index.
        instances: the most recordings of each; launches that differ in geometry, scalars or sizes come first.
        aside: whether the application's standard output goes to standard error.

    Raises:
        UsageError: no such command, none of the kernels, or nothing that can be recorded.
        SpecError: the one kernel's program can be written as no spec.
        MachineError: the library cannot be made, or a recording not be written.
    """
    names = list(dict.fromkeys(kernels))
    ran, found = _capture(command, names, folder / FOLDER, instances=instances, aside=aside)
    notes: list[str] = _notes(ran)
    groups: dict[tuple[str, str, str], list[tuple[Path, Recording]]] = {}
    for path, recording in found:
        groups.setdefault((recording.entry, recording.text, recording.options), []).append((path, recording))
    missing = [name for name in names if not any(r.entry == name for _, r in found)]
    notes += [f"nothing of {name} was recorded" for name in missing]
    seconds = [sum(r.count * r.seconds for _, r in entries) for entries in groups.values()]
    written: list[_Written] = []
    for number, (entries, own) in enumerate(zip(groups.values(), seconds, strict=True)):
        entry = entries[0][1].entry
        same = [i for i, key in enumerate(groups) if key[0] == entry]
        name = _file_name(entry) + (f"-{same.index(number) + 1}" if same.index(number) else "")
        share = own / sum(seconds) if sum(seconds) else 1 / len(seconds)
        one = _Written(name=name, entry=entry, seconds=own, share=share)
        written.append(_write_kernel(one, entries, folder, apart=len(same) > 1, alone=len(groups) == 1))
    if len(groups) > 1:
        write_atomically(folder / INDEX_FILE, _index(command, ran, written).encode())
    return RecordReport(
        ran=ran,
        recordings=tuple(sorted(path for one in written for path in one.recordings)),
        specs=tuple(one.spec for one in written if one.spec is not None),
        notes=(*notes, *(note for one in written for note in one.notes)),
        index=folder / INDEX_FILE if len(groups) > 1 else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What was written of one kernel of one program; ``share`` is of the time of all that were recorded."""

    name: str
    entry: str
    seconds: float
    share: float
    recordings: tuple[Path, ...] = ()
    spec: Path | None = None
    notes: tuple[str, ...] = ()


def _write_kernel(
    one: _Written, entries: Sequence[tuple[Path, Recording]], folder: Path, *, apart: bool, alone: bool
) -> _Written:
    """Writes its source and spec; recordings of one of several programs are moved ``apart``."""
    name, pattern = one.name, f"{FOLDER}/{one.name}-*.rec"
    if apart:
        moved = folder / FOLDER / name
        moved.mkdir(parents=True, exist_ok=True)
        for path, _ in entries:
            os.replace(path, moved / path.name)
        entries = [(moved / path.name, recording) for path, recording in entries]
        pattern = f"{FOLDER}/{name}/*.rec"
    paths = tuple(path for path, _ in entries)
    one = replace(one, recordings=paths)
    if entries[0][1].form != "source":
        return replace(one, notes=(f"{name} was captured without its source: it cannot be tuned",))
    evaluations = EVALUATIONS if alone else max(LEAST_EVALUATIONS, round(2 * EVALUATIONS * one.share))
    try:
        source, spec = write_spec(
            [r for _, r in entries], name=name, pattern=pattern, evaluations=evaluations
        )
    except SpecError as error:
        if alone:
            raise
        return replace(one, notes=(f"{name} is recorded and has no spec: {error.message}",))
    path = folder / f"{name}.yaml"
    write_atomically(folder / f"{name}.cl", source.encode())
    write_atomically(path, spec.encode())
    notes = []
    try:
        load_spec(path)
    except TunerError as error:
        notes.append(f"{path.name} does not tune as it is: {error.message}")
    earlier = sorted(set(folder.glob(pattern)) - set(paths))
    if earlier:
        notes.append(f"{path.name} also takes {len(earlier)} earlier recordings such as {earlier[0].name}")
    return replace(one, spec=path, notes=tuple(notes))


def _index(command: Sequence[str], ran: Ran, written: Sequence[_Written]) -> str:
    """Which kernels there are and what each takes; seconds with everything before and after a launch finished."""
    kernels = [
        {
            "name": one.entry,
            "spec": one.spec.name if one.spec is not None else None,
            "recordings": [str(path.relative_to(path.parents[1])) for path in one.recordings],
            "seconds": one.seconds,
            "share": one.share,
        }
        for one in sorted(written, key=lambda one: -one.share)
    ]
    index = {"schema_version": 1, "command": list(command), "wall_s": ran.wall_s, "kernels": kernels}
    return json.dumps(index, indent=2) + "\n"


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
        text = recording_library(function_of(spec.task, symbol, command))
        library = function_library(text, f"record-{kernel.entry}")
    elif kernel.language != "opencl":
        raise UsageError(f"kernels of {kernel.language} cannot be recorded yet", "record OpenCL, C or C++")
    ran, found = _capture(command, [kernel.entry], folder, instances=instances, aside=aside, library=library)
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
    kernels: Sequence[str],
    folder: Path,
    *,
    instances: int,
    aside: bool,
    library: Path | None = None,
) -> tuple[Ran, list[tuple[Path, Recording]]]:
    variables = {
        "TUNER_RECORD_MODE": "record",
        "TUNER_RECORD_KERNEL": "\n".join(kernels),
        "TUNER_RECORD_INSTANCES": str(instances),
    }
    with _scratch(folder) as name:
        scratch = Path(name)
        ran = _application(command, aside=aside, library=library).run(scratch, variables)
        raws = sorted(scratch.glob("*.raw"))
        if not raws:
            raise _nothing(ran, command, kernels)
        found = [_write(raw, folder, ran.kernels) for raw in raws]
    return ran, list(dict(found).items())


def _scratch(folder: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder on the file system of the recordings: the machine's own for temporary files may be small."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=".capture-", dir=folder)
    except OSError as error:
        raise MachineError(f"{folder} cannot be written: {error.strerror}", "name another with -o") from None


def _write(raw: Path, folder: Path, uses: Sequence[KernelUse]) -> tuple[Path, Recording]:
    with read_raw(raw) as capture:
        entry, sign = capture.recording.entry, capture.recording.signature
        use = next((u for u in uses if u.name == entry and sign in u.signatures), None)
        path = capture.write(folder, name=_file_name(entry), use=use)
        count, seconds = use.signatures[sign] if use else (1, capture.recording.seconds)
        return path, replace(capture.recording, count=count, seconds=seconds / count)


def _nothing(ran: Ran, command: Sequence[str], kernels: Sequence[str]) -> UsageError:
    if ran.lost:
        return UsageError(
            f"nothing could be recorded: {ran.lost[0]}", "make room on the disk, or name another with -o"
        )
    reasons = [(use.name, why) for use in ran.kernels if use.name in kernels for why in use.refused]
    if reasons:
        return UsageError(
            f"{reasons[0][0]} cannot be recorded: {reasons[0][1]}", "tuner record --list shows what can be"
        )
    ended = f" before it {ran.ended_badly}" if ran.ended_badly else ""
    if not ran.seen:
        _must_have_run(ran, command)
    return UsageError(
        f"{shlex.join(command)!r} never called {' or '.join(map(repr, kernels))}{ended}",
        "tuner record --list names kernels; a C function has to be in a library, or in the executable named first",
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
