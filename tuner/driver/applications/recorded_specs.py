"""Specs of what was recorded: one for each kernel of each program, and an index of several with their shares.

Joins recordings and the writers of specs. May not run an application.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tuner.core.errors import SpecError, TunerError, UsageError
from tuner.core.files import write_atomically
from tuner.evaluators.opencl.module import SPIRV, SUFFIX, module_bytes
from tuner.recorders.recordings.capture import Ran
from tuner.recorders.recordings.format import Recording
from tuner.spec.load import LoadedSpec, load_spec
from tuner.spec.machine import passes_missing
from tuner.spec.recorded.first import target_of, write_module_spec, write_spec
from tuner.spec.recorded.first_cuda import write_cuda_spec
from tuner.spec.recorded.workload import FUNCTIONS

__all__ = [
    "FOLDER",
    "INDEX_FILE",
    "RecordReport",
    "Taken",
    "check_output",
    "file_name",
    "notes_of",
    "recordings_of",
    "report_for",
    "write_specs",
]

FOLDER = "recordings"
INDEX_FILE = "kernels.json"
EVALUATIONS = 60
"""The budget that a spec of one kernel gets; twice as many are shared by several, in proportion to their time."""
LEAST_EVALUATIONS = 10
_CALLS = 5
"""Of a candidate that is as fast as the best: two to verify it, three to time it."""
_BUILD_S = 0.5
"""About what building a candidate and starting its process take (benchmarks/results)."""
_WORTH = 5.0
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_WRITERS = MappingProxyType(
    {
        ("opencl", "source"): (write_spec, ".cl"),
        ("cuda", "source"): (write_cuda_spec, ".cu"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A recording that was written.

    Attributes:
        kernel: as it was asked for, which may be another name than the recording's own.
        path: of the file.
        recording: what it says.
    """

    kernel: str
    path: Path
    recording: Recording


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

    @property
    def saving(self) -> str:
        """A line where replay saves little against running the application again; else empty."""
        launches = [use.seconds / use.launches for use in self.ran.kernels if use.launches]
        candidate_s = _BUILD_S + _CALLS * max(launches, default=0.0)
        if not self.recordings or self.ran.wall_s >= _WORTH * candidate_s:
            return ""
        return (
            f"the run took {self.ran.wall_s:.1f} s, and a candidate by replay takes about {candidate_s:.1f} s"
            f" (a build and {_CALLS} launches): this saves little; a longer run gains more"
        )

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


def write_specs(
    ran: Ran, found: Sequence[Taken], kernels: Sequence[str], folder: Path, *, command: Sequence[str]
) -> RecordReport:
    """Writes a spec for each kernel of each program among recordings that lie in the folder's own.

    Args:
        ran: the application.
        found: its recordings.
        kernels: what was asked for.
        folder: for specs, sources and index.
        command: the application, for the index.
    """
    groups: dict[tuple[str, str, str], list[Taken]] = {}
    for taken in found:
        key = (taken.kernel, taken.recording.text, taken.recording.options)
        groups.setdefault(key, []).append(taken)
    seconds = [_seconds(ran, group) for group in groups.values()]
    written: list[_Written] = []
    for number, (group, own) in enumerate(zip(groups.values(), seconds, strict=True)):
        kernel = group[0].kernel
        same = [i for i, (other, _, _) in enumerate(groups) if other == kernel]
        name = file_name(kernel) + (f"-{same.index(number) + 1}" if same.index(number) else "")
        share = own / sum(seconds) if sum(seconds) else 1 / len(seconds)
        one = _Written(name=name, kernel=kernel, seconds=own, share=share)
        written.append(_write_kernel(one, group, folder, apart=len(same) > 1, alone=len(groups) == 1))
    if len(groups) > 1:
        write_atomically(folder / INDEX_FILE, _index(command, ran, written).encode())
    missing = [name for name in kernels if not any(t.kernel == name for t in found)]
    return RecordReport(
        ran=ran,
        recordings=tuple(sorted(path for one in written for path in one.recordings)),
        specs=tuple(one.spec for one in written if one.spec is not None),
        notes=(
            *notes_of(ran),
            *(f"nothing of {name} was recorded" for name in missing),
            *(note for one in written for note in one.notes),
        ),
        index=folder / INDEX_FILE if len(groups) > 1 else None,
    )


def _seconds(ran: Ran, group: Sequence[Taken]) -> float:
    """What the application spent in a kernel: in all its launches, however many of each kind were kept."""
    recordings = [taken.recording for taken in group]
    signs = {(r.entry, r.signature) for r in recordings}
    uses = [use for use in ran.kernels if any((use.name, sign) in signs for sign in use.signatures)]
    if uses:
        return sum(use.seconds for use in uses)
    return sum({r.signature: r.count * r.seconds for r in recordings}.values())


def notes_of(ran: Ran) -> list[str]:
    """What a person should know of a recorded application."""
    notes = [f"some launches were not recorded: {why}" for why in dict.fromkeys(ran.lost)]
    if ran.ended_badly:
        notes.append(f"the application {ran.ended_badly}; what it had launched until then is recorded")
    for use in ran.kernels:
        notes += [
            f"{count} launch{'es' if count > 1 else ''} of {use.name} cannot be recorded: {why}"
            for why, count in use.refused.items()
        ]
    return notes


def recordings_of(spec: LoadedSpec) -> Path:
    """The folder for recordings of a spec's kernel."""
    return Path(spec.path).resolve().parent / FOLDER


def report_for(
    spec: LoadedSpec, ran: Ran, found: Sequence[Taken], *, unsaid: str, output: Path | None
) -> RecordReport:
    """What was recorded for a spec.

    Args:
        spec: of the kernel.
        ran: the application.
        found: the recordings.
        unsaid: the type that the function returns where the spec does not say it; empty where it does.
        output: for a copy of the spec that takes the recordings; ``None`` for none.
    """
    kernel, folder = spec.task.kernel, recordings_of(spec)
    notes = notes_of(ran)
    if unsaid:
        notes.append(
            f"{kernel.function} returns `{unsaid}`, which is passed on and not verified: say kernel: {{returns: ...}}"
        )
    if len({(taken.recording.text, taken.recording.options) for taken in found}) > 1:
        notes.append(
            f"several programs have a kernel {kernel.function}; tuner record --kernel keeps them apart"
        )
    pattern = f"{FOLDER}/{file_name(kernel.function)}-*.rec"
    earlier = sorted(set(folder.parent.glob(pattern)) - {taken.path for taken in found})
    if earlier:
        notes.append(f"{pattern} also takes {len(earlier)} earlier recordings such as {earlier[0].name}")
    recordings = tuple(taken.path for taken in found)
    if output is not None:
        write_atomically(output, f"workload: {pattern}\n{spec.text}".encode())
        return RecordReport(ran=ran, recordings=recordings, specs=(output,), notes=tuple(notes))
    instead = "beside arguments" if kernel.language in FUNCTIONS else "in the place of arguments and problem"
    notes.append(f"write workload: {pattern} {instead} to tune on them")
    return RecordReport(ran=ran, recordings=recordings, notes=tuple(notes))


def check_output(spec: LoadedSpec, output: Path | None) -> None:
    """Refuses a place for a copy of a spec that takes its recordings, before anything is run.

    Raises:
        UsageError: it cannot be written there, or the spec has recordings or another form.
    """
    if output is None:
        return
    plain = re.search(r"^kernel\s*:", spec.text, re.MULTILINE)
    if (
        spec.task.kernel.language not in FUNCTIONS
        or not plain
        or re.search(r"^workload\s*:", spec.text, re.MULTILINE)
    ):
        raise UsageError(
            f"{spec.path} cannot get recordings by a line before its own",
            "leave out -o, and write workload: into it as record says",
        )
    if output.resolve().parent != Path(spec.path).resolve().parent:
        raise UsageError(
            f"{output} lies in another folder than {spec.path}", "paths in it would lead elsewhere"
        )


def file_name(kernel: str) -> str:
    """A kernel's name as part of a file's."""
    return _NAME.sub("_", kernel).strip("_.-") or "kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What was written of one kernel of one program; ``share`` is of the time of all that were recorded."""

    name: str
    kernel: str
    seconds: float
    share: float
    recordings: tuple[Path, ...] = ()
    spec: Path | None = None
    notes: tuple[str, ...] = ()


def _write_kernel(
    one: _Written, group: Sequence[Taken], folder: Path, *, apart: bool, alone: bool
) -> _Written:
    """Writes its source and spec; recordings of one of several programs are moved ``apart``."""
    name, pattern = one.name, f"{FOLDER}/{one.name}-*.rec"
    if apart:
        moved = folder / FOLDER / name
        moved.mkdir(parents=True, exist_ok=True)
        for taken in group:
            os.replace(taken.path, moved / taken.path.name)
        group = [replace(taken, path=moved / taken.path.name) for taken in group]
        pattern = f"{FOLDER}/{name}/*.rec"
    paths = tuple(taken.path for taken in group)
    first = group[0].recording
    one = replace(one, recordings=paths)
    is_module = (first.api, first.form) == ("opencl", "il")
    if not is_module and (first.api, first.form) not in _WRITERS:
        image = "write a spec that names the source, with these recordings as its workload"
        cure = image if first.form == "image" else "it cannot be tuned"
        return replace(
            one,
            notes=(f"{name} was captured without its source ({first.form}): {cure}",),
        )
    evaluations = EVALUATIONS if alone else max(LEAST_EVALUATIONS, round(2 * EVALUATIONS * one.share))
    write: Callable[..., tuple[str, str]]
    if is_module:
        passes = not passes_missing(first.api, target_of(first), SPIRV)
        write, suffix = partial(write_module_spec, passes=passes), SUFFIX
    else:
        write, suffix = _WRITERS[first.api, first.form]
    try:
        source, spec = write(
            [taken.recording for taken in group],
            name=name,
            pattern=pattern,
            base=Path.cwd(),
            evaluations=evaluations,
        )
    except SpecError as error:
        # What was recorded is there, and may be tuned with a spec that a person writes.
        return replace(one, notes=(f"{name} gets no spec: {error}",))
    path = folder / f"{name}.yaml"
    data = module_bytes(source) if is_module else source.encode()
    write_atomically(folder / f"{name}{suffix}", data)
    write_atomically(path, spec.encode())
    notes = []
    try:
        load_spec(path)
    except TunerError as error:
        notes.append(f"{path.name} does not tune as it is: {error}")
    earlier = sorted(set(folder.glob(pattern)) - set(paths))
    if earlier:
        notes.append(f"{path.name} also takes {len(earlier)} earlier recordings such as {earlier[0].name}")
    return replace(one, spec=path, notes=tuple(notes))


def _index(command: Sequence[str], ran: Ran, written: Sequence[_Written]) -> str:
    """Which kernels there are and what each takes; seconds with everything before and after a launch finished."""
    kernels = [
        {
            "name": one.kernel,
            "spec": one.spec.name if one.spec is not None else None,
            "recordings": [str(path.relative_to(path.parents[1])) for path in one.recordings],
            "seconds": one.seconds,
            "share": one.share,
        }
        for one in sorted(written, key=lambda one: -one.share)
    ]
    index = {"schema_version": 1, "command": list(command), "wall_s": ran.wall_s, "kernels": kernels}
    return json.dumps(index, indent=2) + "\n"
