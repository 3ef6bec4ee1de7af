"""``workload:`` in a spec: arguments, problems and geometry from recordings in the place of those written by hand.

Refuses by name what a recording holds and a replay could not make again as it was. What is derived is kept as text
among the spec's files, so that a run record needs neither the recordings nor a compiler. May not run anything.
"""

from __future__ import annotations

import fnmatch
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuner.core.canonical import canonical_json
from tuner.core.errors import SpecError, UsageError
from tuner.core.expressions import parse
from tuner.core.types import Argument, Launch, Problem
from tuner.recorders.recordings.format import Recording, RecordingFile, parse_header
from tuner.spec.models import SpecModel
from tuner.spec.reading.cuda_kernels import base_name
from tuner.spec.reading.signature import Function
from tuner.spec.recorded.by_recording import INDEX, by_recording
from tuner.spec.recorded.cuda import check_cuda, cuda_arguments
from tuner.spec.recorded.opencl import check_alike, dtype_of_parameter, opencl_arguments
from tuner.spec.recorded.replayable import check_replayable, group_of, the_function, told_apart
from tuner.spec.yaml_places import View

__all__ = [
    "AXES",
    "DERIVED",
    "FUNCTIONS",
    "INDEX",
    "PATH",
    "Workload",
    "from_text",
    "hold_out",
    "open_recordings",
    "read_workload",
    "recorded_launch",
    "recording_names",
    "require_one_entry",
    "workload_of",
]

FUNCTIONS = ("c", "c++")
"""The languages whose recordings are of functions: the spec lists their arguments itself."""

DERIVED = "recordings.json"
"""Name, among the files of a loaded spec, of what was derived from its recordings."""

AXES = ("global_x", "global_y", "global_z")
"""The sizes that hold a launch's work-items along each axis."""

PATH = ("workload",)
"""Where a spec names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What recordings say of one kernel.

    Attributes:
        names: of the files, relative to the spec.
        recordings: one for each.
        arguments: in call order, without those in local memory.
        problems: one for each recording, weighed by its share of the application's time.
        text: all of this as text; :func:`from_text` reads it.
        notices: what a person should know.
    """

    names: tuple[str, ...]
    recordings: tuple[Recording, ...]
    arguments: tuple[Argument, ...]
    problems: tuple[Problem, ...]
    text: str
    notices: tuple[str, ...] = ()


def read_workload(
    model: SpecModel, view: View, folder: Path, functions: Callable[[str], list[Function]]
) -> Workload:
    """Reads the recordings that a spec names.

    Args:
        model: the spec.
        view: for places in messages.
        folder: that paths are relative to.
        functions: the functions of a name that the kernel's source defines.

    Raises:
        SpecError: no recordings, damaged ones, or some that cannot be replayed as they were.
        BaselineError: the source does not compile.
    """
    assert model.workload is not None
    _only_recorded(model, view)
    names = recording_names(model.workload, folder, view)
    recordings, digests = open_recordings(names, folder, view)
    require_one_entry(names, recordings, model, view)
    with view.at(("kernel", "source")):
        function = the_function(functions(model.kernel.entry), model.kernel.entry, view)
    recordings = [told_apart(recording, function) for recording in recordings]
    parameters = [
        [name or f"argument{i}", dtype_of_parameter(kind, i, recordings), kind.constant]
        for i, (name, kind) in enumerate(function.parameters)
    ]
    for name, recording in zip(names, recordings, strict=True):
        check = check_cuda if recording.api == "cuda" else check_replayable
        check(name, recording, function, view)
    if recordings[0].api == "opencl":
        check_alike(names, recordings, function, view)
    return workload_of(names, digests, recordings, parameters, view)


def _only_recorded(model: SpecModel, view: View) -> None:
    for key, given in (
        ("arguments", model.arguments),
        ("problem", model.problem),
        ("problems", model.problems),
    ):
        if given is not None:
            raise view.error((key,), f"both workload and {key} are given", f"remove {key}", key=True)
    others = [key for key in ("problems", "assume") if getattr(model.verify, key)]
    if others:
        what = "recordings have the sizes that they have"
        raise view.error(("verify", others[0]), what, f"remove {' and '.join(others)}")


def open_recordings(names: Sequence[str], folder: Path, view: View) -> tuple[list[Recording], list[str]]:
    recordings, digests = [], []
    for name in names:
        try:
            with RecordingFile(folder / name) as file:
                recordings.append(file.recording)
                digests.append(file.digest)
        except UsageError as error:
            raise view.error(PATH, error.message, error.hint) from None
    return recordings, digests


def workload_of(
    names: Sequence[str],
    digests: Sequence[str],
    recordings: Sequence[Recording],
    parameters: Sequence[Sequence[Any]],
    view: View,
) -> Workload:
    plain = {
        "names": list(names),
        "digests": list(digests),
        "parameters": list(parameters),
        "recordings": [r.to_json() for r in recordings],
    }
    return from_text(canonical_json(plain), origin=view.place(PATH).file)


def from_text(text: str, *, origin: str) -> Workload:
    """The inverse of :attr:`Workload.text`.

    Raises:
        SpecError: it is damaged.
    """
    try:
        data = json.loads(text)
        recordings = tuple(parse_header(r, origin) for r in data["recordings"])
        names = tuple(str(name) for name in data["names"])
        derive = cuda_arguments if recordings[0].api == "cuda" else opencl_arguments
        arguments = derive(data["parameters"], names, recordings)
        problems = _problems(recordings)
    except (ValueError, KeyError, TypeError, UsageError) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(f"{origin}: what was derived from the recordings is damaged", "tune again") from None
    return Workload(
        names=names,
        recordings=recordings,
        arguments=arguments,
        problems=problems,
        text=text,
        notices=_notices(names, recordings),
    )


def recorded_launch(workload: Workload, launch: Launch | None, view: View) -> Launch | None:
    """The spec's launch, or the recorded one where the spec has none; offset and local memory as recorded.

    Raises:
        SpecError: recordings with different numbers of axes or sizes of local memory.
    """
    local = {a.size_bytes for r in workload.recordings for a in r.arguments if a.kind == "local"}
    if len(local) > 1:
        raise view.error(PATH, "the recordings give local memory of different sizes", "name one of them")
    shared = parse(str(local.pop())) if local else None
    if any(r.shared_bytes for r in workload.recordings):
        shared = by_recording([r.shared_bytes for r in workload.recordings])
    axes = len(workload.recordings[0].global_size)
    offsets = [r.offset or (0,) * axes for r in workload.recordings]
    offset = tuple(by_recording([o[i] for o in offsets]) for i in range(axes))
    if not any(any(o) for o in offsets):
        offset = ()
    if launch is not None:
        return replace(launch, shared_bytes=launch.shared_bytes or shared, offset=offset)
    blocks = [group_of(r) for r in workload.recordings]
    grids = [
        [g // b for g, b in zip(r.global_size, block, strict=True)]
        for r, block in zip(workload.recordings, blocks, strict=True)
    ]
    return Launch(
        grid=tuple(by_recording([g[i] for g in grids]) for i in range(axes)),
        block=tuple(by_recording([b[i] for b in blocks]) for i in range(axes)),
        shared_bytes=shared,
        offset=offset,
    )


def recording_names(pattern: str, folder: Path, view: View) -> tuple[str, ...]:
    path = Path(pattern)
    if path.is_absolute():
        raise view.error(PATH, f"{pattern!r} is absolute", "paths are relative to the spec")
    try:
        found = sorted(p for p in folder.glob(pattern) if p.is_file())
    except (ValueError, NotImplementedError) as error:
        raise view.error(PATH, f"{pattern!r} is no pattern of files: {error}", "recordings/*.rec") from None
    if not found:
        beside = sorted({str(p.parent.relative_to(folder)) for p in folder.glob("**/*.rec")})
        hint = f"there are some in {beside[0]}" if beside else "tuner record makes them"
        raise view.error(PATH, f"no recording fits {pattern!r}", hint)
    return tuple(str(p.relative_to(folder)) for p in found)


def require_one_entry(
    names: Sequence[str], recordings: Sequence[Recording], model: SpecModel, view: View
) -> None:
    for name, recording in zip(names, recordings, strict=True):
        if base_name(recording.entry) != base_name(model.kernel.entry):
            hint = f"name the recordings of {model.kernel.entry}, for example {fnmatch_hint(name, model.kernel.entry)}"
            raise view.error(PATH, f"{name} holds {recording.entry!r}, not {model.kernel.entry!r}", hint)
        if recording.api != recordings[0].api:
            raise view.error(
                PATH, f"{name} is of {recording.api}, {names[0]} of another API", "tune them apart"
            )
        if len(recording.global_size) != len(recordings[0].global_size):
            raise view.error(PATH, f"{name} has another number of axes than {names[0]}", "tune them apart")


def fnmatch_hint(name: str, entry: str) -> str:
    """A pattern for the recordings of one kernel in the folder of another's."""
    pattern = str(Path(name).parent / f"{entry}-*.rec")
    return pattern if not fnmatch.fnmatch(name, pattern) else f"{entry}.rec"


def _problems(recordings: Sequence[Recording]) -> tuple[Problem, ...]:
    shares = [max(r.count * r.seconds, 1e-9) for r in recordings]
    total = math.fsum(shares)
    return tuple(
        Problem(
            sizes={INDEX: i + 1, **dict(zip(AXES, r.global_size, strict=False))},
            weight=round(share / total, 6) or 1e-6,
        )
        for i, (r, share) in enumerate(zip(recordings, shares, strict=True))
    )


def hold_out(problems: Sequence[Problem], recordings: Sequence[Recording]) -> tuple[Problem, ...]:
    """One problem for each kind of launch; further recordings of a kind are held out from the search.

    Args:
        problems: one for each recording.
        recordings: the same, told apart by their signatures (geometry and scalars) and by the sizes of their buffers.
    """
    kinds: dict[tuple[str | int, ...], list[Problem]] = {}
    for number, (problem, recording) in enumerate(zip(problems, recordings, strict=True)):
        sizes = (one.size_bytes for one in recording.arguments)
        kinds.setdefault((recording.signature or number, *sizes), []).append(problem)
    return tuple(
        replace(first, held_out=tuple(problem.sizes for problem in rest)) for first, *rest in kinds.values()
    )


def _notices(names: Sequence[str], recordings: Sequence[Recording]) -> tuple[str, ...]:
    left = [n for n, r in zip(names, recordings, strict=True) if r.global_size and not r.block]
    if not left:
        return ()
    return (
        f"{left[0]}: the application leaves the work-group's size to the driver, which does not tell it: "
        f"the baseline takes {' x '.join(map(str, group_of(recordings[names.index(left[0])])))}; "
        "tuner ab compares with the application as it is",
    )
