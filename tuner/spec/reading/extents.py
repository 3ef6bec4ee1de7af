"""The row-major shape that an index into flat memory speaks of, from how far its counters go.

Pure arithmetic on polynomials; knows no source. Names that begin with ``@`` are counters, all others are sizes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from tuner.core.polynomials import Polynomial, constant, variable

__all__ = ["counters", "extents", "least", "moves", "reach", "symbol"]

_LARGE = 1000
"""A size by which polynomials are compared."""


def symbol(identity: str) -> str:
    """The name of a variable that may change, told apart from sizes."""
    return f"@{identity}"


def counters(value: Polynomial) -> list[str]:
    """The counters that are part of it."""
    return [name for name in value.names if name.startswith("@")]


def moves(value: Polynomial) -> bool:
    """Whether a counter is part of it."""
    return bool(counters(value))


def extents(index: Polynomial, bounds: Mapping[str, Polynomial]) -> tuple[Polynomial, ...] | None:
    """Extents, outermost first; ``None`` where they cannot be told.

    Args:
        index: in elements.
        bounds: of counters by their identity: one more than the largest value.
    """
    index = _without_offsets(_at_first(_of_rows(index, bounds)), bounds)
    found = counters(index)
    if not found:
        # No counter: one place, for example the last.
        return ((index + constant(1)).rounded_up(),)
    strides: list[tuple[Polynomial, Polynomial]] = []
    rest = index
    for counter in found:
        stride = index.factor_of(counter)
        bound = bounds.get(counter[1:])
        if stride is None or bound is None or moves(stride):
            return None
        strides.append((stride, bound))
        rest = rest - stride * variable(counter)
    strides.sort(key=lambda s: (-s[0].degree, -(s[0].value or 0)))
    if len({s for s, _ in strides}) != len(strides):
        return None
    shape = [strides[0][1]]
    for (outer, _), (inner, _) in itertools.pairwise(strides):
        extent = outer.divided_by(inner)
        if extent is None:
            return None
        shape.append(extent)
    last = strides[-1][0]
    if last != constant(1):
        shape.append(last)
    # What is added to the counters counts too: `start[r + 1]`, or a row below of `(y + 1) * width + x`.
    alone = len(strides) == 1
    shape[0] = shape[0] + (rest if len(shape) == 1 else _times(rest, strides[0][0], alone=alone))
    return tuple(extent.rounded_up() for extent in shape)


def reach(index: Polynomial, bounds: Mapping[str, Polynomial]) -> Polynomial | None:
    """One more than the largest value of an index into one dimension; ``None`` where it cannot be told.

    Args:
        index: in elements, or rows.
        bounds: of counters by their identity: one more than the largest value.
    """
    index = _at_first(index)
    for counter in counters(index):
        stride, bound = index.factor_of(counter), bounds.get(counter[1:])
        if stride is None or bound is None or moves(stride):
            return None
        index = index + stride * (bound - constant(1) - variable(counter))
    return (index + constant(1)).rounded_up()


def least(
    index: Polynomial, bounds: Mapping[str, Polynomial], starts: Mapping[str, Polynomial]
) -> Polynomial | None:
    """The smallest value of an index; ``None`` where it cannot be told.

    Args:
        index: in elements, or rows.
        bounds: of counters by their identity: one more than the largest value.
        starts: their smallest values.
    """
    for counter in counters(index):
        stride, bound, start = index.factor_of(counter), bounds.get(counter[1:]), starts.get(counter[1:])
        if stride is None or bound is None or start is None or moves(stride):
            return None
        if stride.rounded_up() not in (stride, constant(0)):
            return None
        value = bound - constant(1) if stride.rounded_up() == constant(0) else start
        index = index + stride * (value - variable(counter))
    return None if moves(index) else index


def _of_rows(index: Polynomial, bounds: Mapping[str, Polynomial]) -> Polynomial:
    """The index without what nothing is known of and that is added to the beginning of a row, which it stays in."""
    found = counters(index)
    unknown = [name for name in found if name[1:] not in bounds and index.factor_of(name) == constant(1)]
    begun = [
        factor for name in found if name not in unknown and (factor := index.factor_of(name)) is not None
    ]
    if unknown and begun and all(factor.names for factor in begun):
        for name in unknown:
            index = index - variable(name)
    return index


def _at_first(index: Polynomial) -> Polynomial:
    """The index with zero for counters that it goes down with, as `i` in `n - 1 - i`: there it is largest."""
    for counter in counters(index):
        stride = index.factor_of(counter)
        if stride is not None and all(coefficient < 0 for _, coefficient in stride.items()):
            index = index - stride * variable(counter)
    return index


def _without_offsets(index: Polynomial, bounds: Mapping[str, Polynomial]) -> Polynomial:
    """The index with the largest value for counters of a fixed length that go the way of another counter.

    Of `(y + dy) * width + x + dx` with `dy` and `dx` from -1 to 1 both lie inside what `y` and `x` go over.
    """
    by_stride: dict[Polynomial, list[str]] = {}
    for counter in counters(index):
        stride = index.factor_of(counter)
        if stride is not None:
            by_stride.setdefault(stride, []).append(counter)
    for stride, group in by_stride.items():
        fixed = [c for c in group if (b := bounds.get(c[1:])) is not None and b.value is not None]
        # Where all are of fixed length the one that goes furthest stays.
        fixed.sort(key=lambda c: bounds[c[1:]].value or 0)
        for counter in fixed[: len(group) - 1]:
            largest = bounds[counter[1:]] - constant(1)
            index = index - stride * variable(counter) + stride * largest
    return index


def _times(rest: Polynomial, stride: Polynomial, *, alone: bool) -> Polynomial:
    """How often a stride is part of what is added to it, as a whole number that is not negative.

    Where a counter is ``alone`` what falls short of a stride stays in its row: `y * width + width - 1` ends it.
    """
    leading, step = max(sorted(stride.items()), key=lambda term: len(term[0]))
    if step <= 0:
        return constant(0)
    times = rest.get(leading, 0) // step
    if alone and (rest - constant(times) * stride).at(_LARGE) < 0:
        times -= 1
    return constant(max(0, times))
