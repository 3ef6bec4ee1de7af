"""Whether a recorded launch can be made again as it was, and refusals by name where it cannot.

May not read recordings or run anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tuner.core.errors import BaselineError, SpecError
from tuner.evaluators.opencl.module import entry_point, module_bytes
from tuner.recorders.recordings.format import RecordedArgument, Recording
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.signature import Function
from tuner.spec.yaml_places import View

__all__ = [
    "NULL_DTYPE",
    "check_number",
    "check_replayable",
    "group_of",
    "is_null",
    "is_opaque",
    "the_function",
    "told_apart",
]

_USUAL_GROUP = 64
_POINTER_BYTES = 8
NULL_DTYPE = f"bytes{_POINTER_BYTES}"
"""How a null buffer is passed again."""


def the_function(found: list[Function], entry: str, view: View) -> Function:
    """The one function of a name that the source defines.

    Raises:
        SpecError: none or several.
    """
    defined = [f for f in found if f.defined]
    if len(defined) != 1:
        raise view.error(("kernel", "entry"), f"the source has no kernel {entry!r}", "name one that it has")
    return defined[0]


def told_apart(recording: Recording, function: Function) -> Recording:
    """What was passed without a value is local memory or a null pointer: the source says which."""
    kinds = [kind.local for _, kind in function.parameters]
    if len(kinds) != len(recording.arguments):
        return recording
    arguments = tuple(
        replace(a, kind="local" if local else "null") if a.kind == "empty" else a
        for a, local in zip(recording.arguments, kinds, strict=True)
    )
    return replace(recording, arguments=arguments)


def check_replayable(name: str, recording: Recording, function: Function, view: View) -> None:
    """The recording can be replayed as it was by the machinery that candidates run on.

    Raises:
        SpecError: it cannot, with the reason.
    """

    def refuse(what: str, hint: str) -> SpecError:
        return view.error(("workload",), f"{name}: {what}", hint)

    if recording.api != "opencl":
        raise refuse(f"a recording of a {recording.api} function", "tune it with its arguments in the spec")
    if recording.form not in ("source", "il"):
        raise refuse("its program was captured without source", "only OpenCL C and SPIR-V can be tuned")
    if len(recording.arguments) != len(function.parameters):
        taken = len(function.parameters)
        raise refuse(
            f"{len(recording.arguments)} arguments, {function.name} takes {taken}", "record it again"
        )
    if any(g % b for g, b in zip(recording.global_size, group_of(recording), strict=True)):
        raise refuse("its work-groups do not divide its grid", "such launches cannot be replayed yet")
    if len(recording.global_size) < 3 and _asks_axes(recording):
        raise refuse("the kernel asks for the number of axes", "such launches cannot be replayed yet")
    for i, (argument, (given, kind)) in enumerate(zip(recording.arguments, function.parameters, strict=True)):
        label = f"argument {given or i}"
        if kind.pointer and not kind.local and is_null(argument):
            continue
        if argument.kind == "null" or (kind.pointer and argument.kind == "scalar"):
            raise refuse(f"{label} is a null buffer", "such launches cannot be replayed yet")
        if kind.local != (argument.kind == "local"):
            raise refuse(f"{label} is `{kind.text}`, but a {argument.kind} was passed", "record it again")
        if kind.local:
            continue
        if kind.pointer != (argument.kind == "buffer"):
            raise refuse(f"{label} is `{kind.text}`, but a {argument.kind} was passed", "record it again")
        if is_opaque(kind):
            continue
        if kind.odd:
            raise refuse(f"{label} is `{kind.text}`, {kind.odd}", "such launches cannot be replayed yet")
        item = np.dtype(kind.dtypes[0] if kind.dtypes else "uint8").itemsize
        if argument.size_bytes % item or (not kind.pointer and argument.size_bytes != item):
            raise refuse(
                f"{label} has {argument.size_bytes} bytes, which are no {kind.base}", "record it again"
            )
        if not kind.pointer:
            check_number(argument.value, kind.dtypes[0], label, refuse)
    _check_overlaps(recording, function, refuse)


def _asks_axes(recording: Recording) -> bool:
    if recording.form == "il":
        try:
            return entry_point(module_bytes(recording.text), recording.entry).asks_axes
        except BaselineError:
            # Its own source may still be there: what that gives has to equal what was recorded.
            return False
    return "get_work_dim" in recording.text


def is_opaque(kind: CType) -> bool:
    """Whether a parameter is passed by value and is no number: a structure or a vector, replayed byte by byte."""
    return not kind.pointer and not kind.local and (not kind.dtypes or kind.width > 1)


def is_null(argument: RecordedArgument) -> bool:
    """Whether the application passed no buffer where one may be."""
    return argument.kind == "null" or (argument.kind == "scalar" and argument.value == bytes(_POINTER_BYTES))


def check_number(value: bytes, dtype: str, label: str, refuse: Callable[[str, str], SpecError]) -> None:
    """A number that an expression can hold: finite, and no negative zero."""
    number = np.frombuffer(value, dtype)[0]
    if np.dtype(dtype).kind == "f" and (not np.isfinite(number) or (number == 0 and np.signbit(number))):
        raise refuse(f"{label} is {number}", "such values cannot be replayed yet")


def _check_overlaps(
    recording: Recording, function: Function, refuse: Callable[[str, str], SpecError]
) -> None:
    """Buffers are laid out apart for a replay, which is the same only where nothing is written to what is shared."""
    for i, one in enumerate(recording.arguments):
        for j in range(i):
            other = recording.arguments[j]
            constant = function.parameters[i][1].constant and function.parameters[j][1].constant
            if one.overlaps(other) and not constant:
                names = f"{function.parameters[j][0]} and {function.parameters[i][0]}"
                raise refuse(f"arguments {names} share memory", "such launches cannot be replayed yet")


def group_of(recording: Recording) -> tuple[int, ...]:
    """The work-group of the baseline: the recorded one, else the driver's, else the largest usual one that divides."""
    if recording.block:
        return recording.block
    first = max(n for n in range(1, _USUAL_GROUP + 1) if recording.global_size[0] % n == 0)
    return (first, *(1 for _ in recording.global_size[1:]))
