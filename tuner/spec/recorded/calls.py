"""Recorded calls of C functions: the spec lists the arguments itself, and takes their values from the recordings.

May not run anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tuner.core.dtypes import numpy_dtype
from tuner.core.errors import SpecError
from tuner.core.types import Argument, ArgumentRole, Initial, Problem
from tuner.recorders.recordings.format import RecordedArgument, Recording, RecordingFile
from tuner.spec.arguments import pointed_to
from tuner.spec.models import SpecModel
from tuner.spec.recorded.by_recording import INDEX, by_recording
from tuner.spec.recorded.replayable import check_number
from tuner.spec.recorded.workload import (
    PATH,
    Workload,
    open_recordings,
    recording_names,
    require_one_entry,
    workload_of,
)
from tuner.spec.structured import parts
from tuner.spec.wrapping import start_of
from tuner.spec.yaml_places import View

__all__ = ["bind", "call_problems", "read_calls"]

WRITTEN_MEMORY = ("heap", "stack")
"""Parts of an application's memory that any function may write."""
_VARIABLES = "variables"
"""The part that it may write, too, where the spec names none as written: what it names lies elsewhere in a replay."""


def read_calls(model: SpecModel, view: View, folder: Path) -> Workload:
    """Reads the recordings of a C function, whose arguments the spec lists itself; see :func:`bind`.

    Raises:
        SpecError: as :func:`read_workload`.
    """
    assert model.workload is not None
    if model.problems is not None:
        raise view.error(("problems",), "both workload and problems are given", "remove problems", key=True)
    names = recording_names(model.workload, folder, view)
    recordings, digests = open_recordings(names, folder, view)
    require_one_entry(names, recordings, model, view)
    for name, recording in zip(names, recordings, strict=True):
        if recording.api != "c":
            raise view.error(
                PATH, f"{name}: a recording of a {recording.api} kernel", "name one of a function"
            )
    return _with_elements(workload_of(names, digests, recordings, [], view), digests, model, view, folder)


def _with_elements(
    made: Workload, digests: Sequence[str], model: SpecModel, view: View, folder: Path
) -> Workload:
    """Without calls that have nothing to work on, where others have: their sizes are 0, and they changed nothing.

    Sizes may be guessed of numbers that are none; the arrays have as many elements as were recorded.
    """
    problems = call_problems(made, model, view)
    kept = [
        i
        for i, problem in enumerate(problems)
        if not (_is_empty(problem, model) and _is_idle(folder / made.names[i]))
    ]
    if not kept or len(kept) == len(problems):
        return made
    left = next(name for i, name in enumerate(made.names) if i not in kept)
    made = workload_of(
        [made.names[i] for i in kept],
        [digests[i] for i in kept],
        [made.recordings[i] for i in kept],
        [],
        view,
    )
    return replace(
        made, notices=(*made.notices, f"{left}: left out, as a call of size 0 that changes nothing")
    )


def _is_empty(problem: Problem, model: SpecModel) -> bool:
    for argument in model.arguments or []:
        try:
            if any(extent.integer(problem.sizes) < 1 for extent in argument.shape or ()):
                return True
        except SpecError:
            # It is said where arguments are made.
            return False
    return False


def _is_idle(path: Path) -> bool:
    """Whether the call left all arrays as they were."""
    with RecordingFile(path) as file:
        return not any(file.changed(i) for i, a in enumerate(file.recording.arguments) if a.kind == "buffer")


def call_problems(workload: Workload, model: SpecModel, view: View) -> tuple[Problem, ...]:
    """The sizes of each recorded call: from the scalar arguments that carry them, else from the spec's ``problem``.

    Raises:
        SpecError: another number of arguments than the spec lists, or a size that is no whole number.
    """
    given = [part.given for part in parts(model.arguments or [], view)]
    problems = []
    for name, recording, problem in zip(workload.names, workload.recordings, workload.problems, strict=True):
        passed = [one for one in recording.arguments if not one.place]
        if len(passed) != len(given):
            raise view.error(
                PATH,
                f"{name} has {len(passed)} arguments, the spec lists {len(given)}",
                "record it again",
            )
        sizes = dict(model.problem or {})
        for argument, recorded in zip(given, passed, strict=True):
            size = argument.value.text.strip() if argument.value is not None else ""
            if size in sizes and recorded.kind == "scalar":
                dtype = argument.dtype or ""
                sizes[size] = int(_scalar(recorded.value, dtype, f"{name}: {argument.name}", view))
        problems.append(replace(problem, sizes={INDEX: problem.sizes[INDEX], **sizes}))
    return tuple(problems)


def bind(
    arguments: Sequence[Argument], workload: Workload, model: SpecModel, view: View
) -> tuple[Argument, ...]:
    """The spec's arguments with the values that were recorded.

    Raises:
        SpecError: what was recorded does not have the spec's types and shapes, or shares memory that is written to.
    """
    dtypes = {a.dtype for a in model.arguments or [] if a.by == "address" and not a.variable}
    dtype = (dtypes.pop() if len(dtypes) == 1 else None) or "uint8"
    made: list[Argument] = []
    starts: list[Argument] = []
    own = [argument for argument in arguments if argument.passing != "wrapper"]
    for argument in arguments:
        if argument not in own:
            made.append(argument)
            continue
        number = own.index(argument)
        recorded = [r.arguments[number] for r in workload.recordings]
        if not argument.is_array and recorded[0].kind == "pointer":
            made.append(replace(argument, value=by_recording([_address(one) for one in recorded])))
            continue
        if argument.is_array and not (argument.by_pointer and argument.role is ArgumentRole.INPUT):
            argument = _as_recorded(argument, recorded, workload, view)
            initial = Initial(kind="recording", options={"paths": tuple(workload.names), "argument": number})
            made.append(replace(argument, initial=initial, fixed=False))
            if any(one.before for one in recorded):
                item = numpy_dtype(argument.dtype).itemsize
                starts.append(start_of(argument, by_recording([one.before // item for one in recorded])))
            continue
        values = [_scalar(a.value, argument.dtype, argument.name, view) for a in recorded]
        size = argument.value.text.strip() if argument.value is not None else ""
        if any(p.sizes.get(size) != v for p, v in zip(workload.problems, values, strict=True)):
            recorded_value = replace(argument, value=by_recording(values))
            argument = pointed_to(recorded_value) if argument.by_pointer else recorded_value
        made.append(argument)
    for name, recording in zip(workload.names, workload.recordings, strict=True):
        _check_shared(name, recording, own, view)
    named = any(a.passing == "global" and a.role is not ArgumentRole.INPUT for a in own)
    may_write = WRITTEN_MEMORY if named else (*WRITTEN_MEMORY, _VARIABLES)
    return (*made, *starts, *_memory(workload, len(own), dtype, may_write, view))


def _memory(
    workload: Workload, arguments: int, dtype: str, may_write: Sequence[str], view: View
) -> Iterator[Argument]:
    """The application's memory: what is only read as bytes, what may be written as numbers of a dtype."""
    pieces = [recording.arguments[arguments:] for recording in workload.recordings]
    names = [one.name for one in pieces[0]]
    if any([one.name for one in other] != names for other in pieces):
        raise view.error(
            PATH, "the recordings hold other parts of the application's memory", "record it again"
        )
    for i, name in enumerate(names):
        written = name in may_write
        sizes = [piece[i].size_bytes for piece in pieces]
        whole = all(size % numpy_dtype(dtype).itemsize == 0 for size in sizes)
        kind = dtype if written and whole else "uint8"
        item = numpy_dtype(kind).itemsize
        yield Argument(
            name=f"recorded {name}" + f" {names[:i].count(name) + 1}" * (names.count(name) > 1),
            dtype=kind,
            shape=(by_recording([size // item for size in sizes]),),
            role=ArgumentRole.INOUT if written else ArgumentRole.INPUT,
            initial=Initial(
                kind="recording", options={"paths": tuple(workload.names), "argument": arguments + i}
            ),
            passing="memory",
            address=by_recording([piece[i].place for piece in pieces]),
        )


def _address(recorded: RecordedArgument) -> int:
    return int.from_bytes(recorded.value, "little", signed=True)


def _as_recorded(
    argument: Argument, recorded: Sequence[RecordedArgument], workload: Workload, view: View
) -> Argument:
    """An array with as many elements as were recorded; they lie in one row where that is not what the spec says."""
    item, counts, same = numpy_dtype(argument.dtype).itemsize, [], True
    for one, problem, name in zip(recorded, workload.problems, workload.names, strict=True):
        size = _bytes_by_spec(argument, problem, item)
        same = same and one.size_bytes == size
        if one.kind != "buffer" or one.size_bytes % item or (argument.by_pointer and one.size_bytes != size):
            raise view.error(
                PATH,
                f"{name}: {argument.name} has {one.size_bytes} bytes, the spec says {'none' if size is None else size}",
                "record it again with this spec",
            )
        counts.append(one.size_bytes // item)
    return argument if same else replace(argument, shape=(by_recording(counts),))


def _bytes_by_spec(argument: Argument, problem: Problem, item: int) -> int | None:
    """``None`` where its extents are none for these sizes."""
    try:
        extents = [extent.integer(problem.sizes) for extent in argument.shape or ()]
    except SpecError:
        return None
    return item * math.prod(extents) if min(extents, default=1) > 0 else None


def _check_shared(name: str, recording: Recording, arguments: Sequence[Argument], view: View) -> None:
    for i, one in enumerate(recording.arguments[: len(arguments)]):
        for j in range(i):
            written = any(arguments[k].role is not ArgumentRole.INPUT for k in (i, j))
            if one.overlaps(recording.arguments[j]) and written:
                names = f"{arguments[j].name} and {arguments[i].name}"
                raise view.error(
                    PATH, f"{name}: arguments {names} share memory", "such calls cannot be replayed yet"
                )


def _scalar(value: bytes, dtype: str, label: str, view: View) -> int | float:
    if len(value) != np.dtype(dtype).itemsize:
        raise view.error(
            PATH, f"{label} was recorded with {len(value)} bytes, not as {dtype}", "record it again"
        )
    check_number(value, dtype, label, lambda what, hint: view.error(PATH, what, hint))
    number: int | float = np.frombuffer(value, dtype)[0].item()
    return number
