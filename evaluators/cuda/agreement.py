"""What a compiled kernel takes against the spec's arguments: parameters, and variables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.core.types import Argument, Parcel, Resolved, Status, Task
from tuner.evaluators.cuda.parcels import Layout, in_call_order, members_of
from tuner.evaluators.distributions import dtype_of

__all__ = ["disagreement", "variable_trouble"]

_POINTER_BYTES = 8
_FLOAT_BYTES = 4


def disagreement(
    task: Task, found: Sequence[Sequence[Any]], layouts: Mapping[str, Layout], *, wide: bool
) -> str:
    """How the kernel's parameters differ from the spec's arguments, one line; empty where they do not."""
    passed = in_call_order(task)
    if len(found) != len(passed):
        return f"the kernel takes {len(found)} arguments, the spec lists {len(passed)}"
    for argument, (kind, size) in zip(passed, found, strict=True):
        if isinstance(argument, Parcel):
            wrong = _of_parcel(task, argument, layouts[argument.name], kind, size, wide=wide)
        else:
            wrong = _of_argument(argument, kind, size, wide=wide)
        if wrong:
            return wrong
    return ""


def _of_argument(argument: Argument, kind: str, size: int, *, wide: bool) -> str:
    if argument.passing == "value":
        # Bytes as they were recorded; their number differs by recording only where the kernel does.
        return ""
    if argument.is_array:
        if (kind, size) != ("u", _POINTER_BYTES):
            return f"argument {argument.name!r} has a shape in the spec, in the source it is no pointer"
        return ""
    dtype = dtype_of(argument)
    wanted = _width(argument, wide=wide)
    # Half and complex numbers are structs of their own size.
    floating = dtype.kind == "f" and wanted >= _FLOAT_BYTES
    if size != wanted or (kind == "f") != floating:
        what = {"f": "a floating number", "b": "a struct"}.get(kind, "a whole number")
        return f"argument {argument.name!r} is {what} of {size} bytes in the source, {dtype} in the spec"
    return ""


def _of_parcel(task: Task, parcel: Parcel, layout: Layout, kind: str, size: int, *, wide: bool) -> str:
    if (kind, size) != ("b", layout.size):
        what = f"{parcel.kind} of {layout.size} bytes"
        return f"argument {parcel.name!r} is no {what} in the source, it takes {size}"
    for argument in members_of(task, parcel):
        wanted = _POINTER_BYTES
        if not argument.is_array or argument.passing == "inside":
            elements = math.prod(extent.integer({}) for extent in argument.shape or ())
            wanted = elements * _width(argument, wide=wide)
        if layout.leaves[argument.name].size != wanted:
            has = layout.leaves[argument.name].size
            return f"member {argument.name!r} takes {has} bytes in the source, {wanted} by the spec"
    return ""


def _width(argument: Argument, *, wide: bool) -> int:
    """Bytes of one element."""
    dtype = dtype_of(argument)
    return 2 * dtype.itemsize if wide and dtype.name in ("float32", "complex64") else dtype.itemsize


def variable_trouble(
    task: Task, resolved: Resolved, found: Mapping[str, int], *, wide: bool
) -> tuple[Status, str]:
    """Why arguments do not fit the variables that they are copied into, one line; empty where they do.

    Args:
        task: whose arguments.
        resolved: the configuration, of which sizes may depend.
        found: bytes of the variables that the code has, by their names in the source.
        wide: they hold float64 where the task says float32.
    """
    wrong = _missing_variable(task, found) or _other_variable(task, resolved, found, wide=wide)
    if wrong:
        return Status.BUILD_ERROR, wrong
    return Status.OUT_OF_RESOURCES, _small_variable(task, resolved, found, wide=wide)


def _missing_variable(task: Task, found: Mapping[str, int]) -> str:
    """Which argument has no variable to be copied into, one line; empty where all have."""
    for argument in task.arguments:
        if argument.in_variable and argument.name not in found:
            kind = "__constant__" if argument.constant else "__device__ or __constant__"
            return (
                f"the kernel uses no {kind} variable {argument.name!r}, which the spec's argument is to fill"
            )
    return ""


def _other_variable(task: Task, resolved: Resolved, found: Mapping[str, int], *, wide: bool) -> str:
    """Which global is of another size than its variable, one line; empty where none is."""
    for argument in task.arguments:
        if argument.in_variable and not argument.constant:
            (size,) = set(_sizes(task, argument, resolved, wide=wide))
            if size != (room := found[argument.name]):
                return f"the global {argument.name} has {room} bytes in the source, and {size} in the spec"
    return ""


def _small_variable(task: Task, resolved: Resolved, found: Mapping[str, int], *, wide: bool) -> str:
    """Which constant argument does not fit into its variable on some problem, one line; empty where all do."""
    for argument in task.arguments:
        if argument.constant:
            size, room = max(_sizes(task, argument, resolved, wide=wide)), found[argument.name]
            if size > room:
                return f"{argument.name} takes {size} bytes, its __constant__ variable has {room}"
    return ""


def _sizes(task: Task, argument: Argument, resolved: Resolved, *, wide: bool) -> Iterator[int]:
    """Bytes of an array on each problem."""
    for problem in (*task.problems, *task.verify.problems):
        env = {**resolved.macros, **resolved.scalars, **problem.sizes}
        yield _width(argument, wide=wide) * math.prod(extent.integer(env) for extent in argument.shape or ())
