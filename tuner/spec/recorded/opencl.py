"""A recorded OpenCL launch as arguments: buffers, numbers, and by their bytes what is neither.

May not read recordings' contents or run anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tuner.core.types import Argument, ArgumentRole, Initial, opaque_bytes
from tuner.recorders.recordings.format import Recording
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.signature import Function
from tuner.spec.recorded.by_recording import by_recording
from tuner.spec.recorded.replayable import NULL_DTYPE, is_null, is_opaque
from tuner.spec.yaml_places import View

__all__ = ["check_alike", "dtype_of_parameter", "opencl_arguments"]


def dtype_of_parameter(kind: CType, number: int, recordings: Sequence[Recording]) -> str:
    """How a parameter's values are held: ``bytesN`` for structures, vectors and null buffers, else a number's dtype."""
    first = recordings[0]
    if first.api == "opencl" and number < len(first.arguments):
        given = first.arguments[number]
        if is_opaque(kind):
            return f"bytes{given.size_bytes}"
        if kind.pointer and not kind.local and is_null(given):
            return NULL_DTYPE
    return kind.dtypes[0] if kind.dtypes else "uint8"


def check_alike(
    names: Sequence[str], recordings: Sequence[Recording], function: Function, view: View
) -> None:
    """What is no buffer in one recording is none in all.

    Raises:
        SpecError: it is one in some, or the bytes of a structure differ in number.
    """
    for name, recording in zip(names, recordings, strict=True):
        for one, first, (given, kind) in zip(
            recording.arguments, recordings[0].arguments, function.parameters, strict=True
        ):
            if kind.pointer and not kind.local and is_null(one) != is_null(first):
                what = f"{name}: {given} is a null buffer in some recordings only"
                hint = "name recordings in which it is one, or in which it is not"
                raise view.error(("workload",), what, hint)
            if is_opaque(kind) and one.size_bytes != first.size_bytes:
                what = f"{name}: {given} has {one.size_bytes} bytes, and {first.size_bytes} in {names[0]}"
                raise view.error(("workload",), what, "tune them apart")


def opencl_arguments(
    parameters: Sequence[Sequence[Any]], names: Sequence[str], recordings: Sequence[Recording]
) -> tuple[Argument, ...]:
    """Arguments in call order, without those in local memory.

    Args:
        parameters: name, dtype (:func:`dtype_of_parameter`) and whether it points to constants.
        names: of the recordings' files.
        recordings: one for each.
    """
    made = []
    for number, (name, dtype, constant) in enumerate(parameters):
        given = [r.arguments[number] for r in recordings]
        if given[0].kind == "local":
            continue
        if given[0].kind in ("scalar", "null"):
            values: list[int | float] = [int.from_bytes(a.value, "little") for a in given]
            if not opaque_bytes(dtype):
                values = [np.frombuffer(a.value, dtype)[0].item() for a in given]
            made.append(Argument(name=name, dtype=dtype, value=by_recording(values)))
            continue
        item = np.dtype(dtype).itemsize
        made.append(
            Argument(
                name=name,
                dtype=dtype,
                shape=(by_recording([a.size_bytes // item for a in given]),),
                role=ArgumentRole.INPUT if constant else ArgumentRole.INOUT,
                initial=Initial(kind="recording", options={"paths": tuple(names), "argument": number}),
            )
        )
    return tuple(made)
