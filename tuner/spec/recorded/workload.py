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

import numpy as np

from tuner.core.canonical import canonical_json
from tuner.core.dtypes import numpy_dtype
from tuner.core.errors import BaselineError, SpecError, UsageError
from tuner.core.expressions import parse
from tuner.core.types import Argument, ArgumentRole, Initial, Launch, Problem
from tuner.recorders.recordings.format import RecordedArgument, Recording, RecordingFile, parse_header
from tuner.spec.arguments import pointed_to
from tuner.spec.models import SpecModel
from tuner.spec.reading.cuda_kernels import base_name
from tuner.spec.reading.signature import Function
from tuner.spec.recorded.by_recording import INDEX, by_recording
from tuner.spec.recorded.cuda import check_cuda, cuda_arguments
from tuner.spec.recorded.opencl import check_alike, dtype_of_parameter, opencl_arguments
from tuner.spec.recorded.replayable import check_number, check_replayable, group_of, the_function, told_apart
from tuner.spec.structured import parts
from tuner.spec.yaml_places import View

__all__ = [
    "AXES",
    "DERIVED",
    "FUNCTIONS",
    "INDEX",
    "Workload",
    "bind",
    "call_problems",
    "from_text",
    "hold_out",
    "read_calls",
    "read_workload",
    "recorded_launch",
]

FUNCTIONS = ("c", "c++")
"""The languages whose recordings are of functions: the spec lists their arguments itself."""

DERIVED = "recordings.json"
"""Name, among the files of a loaded spec, of what was derived from its recordings."""

AXES = ("global_x", "global_y", "global_z")
"""The sizes that hold a launch's work-items along each axis."""

_PATH = ("workload",)


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
    names = _names(model.workload, folder, view)
    recordings, digests = _open(names, folder, view)
    _agree(names, recordings, model, view)
    try:
        function = the_function(functions(model.kernel.entry), model.kernel.entry, view)
    except BaselineError as error:
        raise error.at(view.place(("kernel", "source"))) from None
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
    return _workload(names, digests, recordings, parameters, view)


def read_calls(model: SpecModel, view: View, folder: Path) -> Workload:
    """Reads the recordings of a C function, whose arguments the spec lists itself; see :func:`bind`.

    Raises:
        SpecError: as :func:`read_workload`.
    """
    assert model.workload is not None
    if model.problems is not None:
        raise view.error(("problems",), "both workload and problems are given", "remove problems", key=True)
    names = _names(model.workload, folder, view)
    recordings, digests = _open(names, folder, view)
    _agree(names, recordings, model, view)
    for name, recording in zip(names, recordings, strict=True):
        if recording.api != "c":
            raise view.error(
                _PATH, f"{name}: a recording of a {recording.api} kernel", "name one of a function"
            )
    return _workload(names, digests, recordings, [], view)


def call_problems(workload: Workload, model: SpecModel, view: View) -> tuple[Problem, ...]:
    """The sizes of each recorded call: from the scalar arguments that carry them, else from the spec's ``problem``.

    Raises:
        SpecError: another number of arguments than the spec lists, or a size that is no whole number.
    """
    given = [part.given for part in parts(model.arguments or [], view)]
    problems = []
    for name, recording, problem in zip(workload.names, workload.recordings, workload.problems, strict=True):
        if len(recording.arguments) != len(given):
            raise view.error(
                _PATH,
                f"{name} has {len(recording.arguments)} arguments, the spec lists {len(given)}",
                "record it again",
            )
        sizes = dict(model.problem or {})
        for argument, recorded in zip(given, recording.arguments, strict=True):
            size = argument.value.text.strip() if argument.value is not None else ""
            if size in sizes and recorded.kind == "scalar":
                dtype = argument.dtype or ""
                sizes[size] = int(_scalar(recorded.value, dtype, f"{name}: {argument.name}", view))
        problems.append(replace(problem, sizes={INDEX: problem.sizes[INDEX], **sizes}))
    return tuple(problems)


def bind(arguments: Sequence[Argument], workload: Workload, view: View) -> tuple[Argument, ...]:
    """The spec's arguments with the values that were recorded.

    Raises:
        SpecError: what was recorded does not have the spec's types and shapes, or shares memory that is written to.
    """
    made = []
    own = [argument for argument in arguments if argument.passing != "wrapper"]
    for argument in arguments:
        if argument not in own:
            made.append(argument)
            continue
        number = own.index(argument)
        recorded = [r.arguments[number] for r in workload.recordings]
        if argument.is_array and not (argument.by_pointer and argument.role is ArgumentRole.INPUT):
            argument = _as_recorded(argument, recorded, workload, view)
            initial = Initial(kind="recording", options={"paths": tuple(workload.names), "argument": number})
            made.append(replace(argument, initial=initial, fixed=False))
            continue
        values = [_scalar(a.value, argument.dtype, argument.name, view) for a in recorded]
        size = argument.value.text.strip() if argument.value is not None else ""
        if any(p.sizes.get(size) != v for p, v in zip(workload.problems, values, strict=True)):
            recorded_value = replace(argument, value=by_recording(values))
            argument = pointed_to(recorded_value) if argument.by_pointer else recorded_value
        made.append(argument)
    for name, recording in zip(workload.names, workload.recordings, strict=True):
        _check_shared(name, recording, own, view)
    return tuple(made)


def _as_recorded(
    argument: Argument, recorded: Sequence[RecordedArgument], workload: Workload, view: View
) -> Argument:
    """An array with as many elements as were recorded; they lie in one row where that is not what the spec says."""
    item, counts, same = numpy_dtype(argument.dtype).itemsize, [], True
    for one, problem, name in zip(recorded, workload.problems, workload.names, strict=True):
        size = item * math.prod(extent.integer(problem.sizes) for extent in argument.shape or ())
        same = same and one.size_bytes == size
        if one.kind != "buffer" or one.size_bytes % item or (argument.by_pointer and one.size_bytes != size):
            raise view.error(
                _PATH,
                f"{name}: {argument.name} has {one.size_bytes} bytes, the spec says {size}",
                "record it again with this spec",
            )
        counts.append(one.size_bytes // item)
    return argument if same else replace(argument, shape=(by_recording(counts),))


def _check_shared(name: str, recording: Recording, arguments: Sequence[Argument], view: View) -> None:
    for i, one in enumerate(recording.arguments):
        for j in range(i):
            written = any(arguments[k].role is not ArgumentRole.INPUT for k in (i, j))
            if one.overlaps(recording.arguments[j]) and written:
                names = f"{arguments[j].name} and {arguments[i].name}"
                raise view.error(
                    _PATH, f"{name}: arguments {names} share memory", "such calls cannot be replayed yet"
                )


def _scalar(value: bytes, dtype: str, label: str, view: View) -> int | float:
    if len(value) != np.dtype(dtype).itemsize:
        raise view.error(
            _PATH, f"{label} was recorded with {len(value)} bytes, not as {dtype}", "record it again"
        )
    check_number(value, dtype, label, lambda what, hint: view.error(_PATH, what, hint))
    number: int | float = np.frombuffer(value, dtype)[0].item()
    return number


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


def _open(names: Sequence[str], folder: Path, view: View) -> tuple[list[Recording], list[str]]:
    recordings, digests = [], []
    for name in names:
        try:
            with RecordingFile(folder / name) as file:
                recordings.append(file.recording)
                digests.append(file.digest)
        except UsageError as error:
            raise view.error(_PATH, error.message, error.hint) from None
    return recordings, digests


def _workload(
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
    return from_text(canonical_json(plain), origin=view.place(_PATH).file)


def from_text(text: str, *, origin: str) -> Workload:
    """The inverse of :attr:`Workload.text`.

    Raises:
        SpecError: it is damaged.
    """
    try:
        data = json.loads(text)
        recordings = tuple(parse_header(r, origin) for r in data["recordings"])
        names = tuple(str(name) for name in data["names"])
        arguments = _arguments(data["parameters"], names, recordings)
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
        raise view.error(_PATH, "the recordings give local memory of different sizes", "name one of them")
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


def _names(pattern: str, folder: Path, view: View) -> tuple[str, ...]:
    path = Path(pattern)
    if path.is_absolute():
        raise view.error(_PATH, f"{pattern!r} is absolute", "paths are relative to the spec")
    try:
        found = sorted(p for p in folder.glob(pattern) if p.is_file())
    except (ValueError, NotImplementedError) as error:
        raise view.error(_PATH, f"{pattern!r} is no pattern of files: {error}", "recordings/*.rec") from None
    if not found:
        beside = sorted({str(p.parent.relative_to(folder)) for p in folder.glob("**/*.rec")})
        hint = f"there are some in {beside[0]}" if beside else "tuner record makes them"
        raise view.error(_PATH, f"no recording fits {pattern!r}", hint)
    return tuple(str(p.relative_to(folder)) for p in found)


def _agree(names: Sequence[str], recordings: Sequence[Recording], model: SpecModel, view: View) -> None:
    for name, recording in zip(names, recordings, strict=True):
        if base_name(recording.entry) != base_name(model.kernel.entry):
            hint = f"name the recordings of {model.kernel.entry}, for example {fnmatch_hint(name, model.kernel.entry)}"
            raise view.error(_PATH, f"{name} holds {recording.entry!r}, not {model.kernel.entry!r}", hint)
        if recording.api != recordings[0].api:
            raise view.error(
                _PATH, f"{name} is of {recording.api}, {names[0]} of another API", "tune them apart"
            )
        if len(recording.global_size) != len(recordings[0].global_size):
            raise view.error(_PATH, f"{name} has another number of axes than {names[0]}", "tune them apart")


def fnmatch_hint(name: str, entry: str) -> str:
    """A pattern for the recordings of one kernel in the folder of another's."""
    pattern = str(Path(name).parent / f"{entry}-*.rec")
    return pattern if not fnmatch.fnmatch(name, pattern) else f"{entry}.rec"


def _arguments(
    parameters: Sequence[Sequence[Any]], names: Sequence[str], recordings: Sequence[Recording]
) -> tuple[Argument, ...]:
    derive = cuda_arguments if recordings[0].api == "cuda" else opencl_arguments
    return derive(parameters, names, recordings)


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
