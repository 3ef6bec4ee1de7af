"""First values for scalars of which nothing is known. Guesses for a first spec only."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tuner.spec.reading.c_types import CType

__all__ = ["first_value", "floating_scalars", "holds"]


def first_value(dtype: str, before: int = 0) -> str:
    """A number for a scalar of which nothing is known.

    With a factor of one, or ``1 - x`` of one, wrong code gives right results; with two that are alike, code that
    takes one for the other, or that clamps everything between them.

    Args:
        dtype: its type.
        before: how many floating scalars come before it.
    """
    return str(0.75 + 0.5 * before) if dtype.startswith("float") else "1"


def floating_scalars(parameters: Iterable[tuple[str, CType]]) -> int:
    """How many of some parameters are floating numbers."""
    return sum(not t.pointer and any(d.startswith("float") for d in t.dtypes) for _, t in parameters)


def holds(dtype: str, value: str) -> bool:
    """Whether a number can be of a type; what is no number by itself is not judged.

    >>> holds("int32", "3735928559"), holds("uint32", "3735928559"), holds("int8", "n * n")
    (False, True, True)
    """
    bits = re.fullmatch(r"(u?)int(\d+)", dtype)
    if bits is None or not re.fullmatch(r"-?\d+", value):
        return True
    size = int(bits[2])
    low, high = (0, 1 << size) if bits[1] else (-(1 << (size - 1)), 1 << (size - 1))
    return low <= int(value) < high
