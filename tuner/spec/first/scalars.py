"""First values for scalars of which nothing is known. Guesses for a first spec only."""

from __future__ import annotations

from collections.abc import Iterable

from tuner.spec.reading.c_types import CType

__all__ = ["first_value", "floating_scalars"]


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
