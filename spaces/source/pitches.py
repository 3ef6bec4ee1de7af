"""Rows whose length is a sum: ``a[(k - low) * (nx + 5) + j]`` taken apart as if ``nx + 5`` had a name of its own.

May not know loops or dependences.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tuner.spaces.source.affine import Monomial, Poly, constant, minus, split_by_strides, strides_of

__all__ = ["Rows", "rows_of"]

_MOST = 3
"""Dimensions with a length of their own name."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One way to see flat subscripts as those of rows.

    Attributes:
        parts: of each subscript, that of the widest stride first.
        widths: of the rows, the innermost first.
    """

    parts: tuple[tuple[Poly, ...], ...]
    widths: tuple[Poly, ...]


def rows_of(polys: Sequence[Poly], moving: Collection[str]) -> list[Rows] | None:
    """The ways to take flat subscripts apart, none where there are no rows.

    Args:
        polys: the subscripts.
        moving: names that change in the part that is looked at.

    Returns:
        ``None`` where strides do not divide one another.
    """
    named, lengths = _with_names(polys, moving)
    strides = strides_of(named, moving)
    if strides is None:
        return None
    ways: list[Rows] = []
    widths = tuple(_plain({_over(large, small): 1}, lengths) for small, large in pairwise(strides))
    for keep_low in (False, True) if widths else ():
        parts = (split_by_strides(p, strides, keep_low=keep_low) for p in named)
        ways.append(Rows(tuple(tuple(_plain(p, lengths) for p in own) for own in parts), widths))
    return ways


def _over(large: Monomial, small: Monomial) -> Monomial:
    rest = list(large)
    for symbol in small:
        rest.remove(symbol)
    return tuple(rest)


def _with_names(polys: Sequence[Poly], moving: Collection[str]) -> tuple[list[Poly], dict[str, Poly]]:
    """Subscripts with a name for each length that is a sum, and what the names stand for."""
    made, lengths = list(polys), dict[str, Poly]()
    for number in range(_MOST):
        sums = [s for p in made for v in moving if len(s := _factor(p, v)) > 1]
        found = next(
            ((s, m[0], s[m]) for s in sorted(sums, key=len) for m in s if _tells(s, m, moving)), None
        )
        if found is None:
            break
        length, symbol, sign = found
        name = f"@{number}"
        lengths[name] = length
        # The symbol is the new name less what the sum has beside it.
        rest = minus(length, {(symbol,): sign})
        value = {m: sign * c for m, c in minus({(name,): 1}, rest).items()}
        made = [_with(p, symbol, value) for p in made]
    return made, lengths


def _factor(poly: Poly, var: str) -> Poly:
    """What a counter is multiplied with, without the lengths that all of it has in common."""
    found = {tuple(s for s in m if s != var): c for m, c in poly.items() if m.count(var) == 1}
    common = [s for s in {s for m in found for s in m} if s[0] == "@" and all(s in m for m in found)]
    for symbol in common:
        found = {_over(m, (symbol,)): c for m, c in found.items()}
    return found


def _tells(length: Poly, monomial: Monomial, moving: Collection[str]) -> bool:
    """Whether a sum says what one of its symbols is."""
    alone = len(monomial) == 1 and abs(length[monomial]) == 1 and monomial[0][0] != "@"
    within = {s for m in length if m != monomial for s in m}
    return alone and monomial[0] not in within and within.isdisjoint(moving) and monomial[0] not in moving


def _with(poly: Poly, symbol: str, value: Poly) -> Poly:
    """A polynomial with another in the place of a symbol."""
    made: Poly = {}
    for monomial, factor in poly.items():
        term: Poly = {tuple(s for s in monomial if s != symbol): factor}
        for _ in range(monomial.count(symbol)):
            term = _product(term, value)
        made = minus(made, {m: -c for m, c in term.items()})
    return made


def _product(left: Poly, right: Poly) -> Poly:
    made = constant(0)
    for m, c in left.items():
        for n, d in right.items():
            made = minus(made, {tuple(sorted(m + n)): -c * d})
    return made


def _plain(poly: Poly, lengths: dict[str, Poly]) -> Poly:
    """A polynomial without the names of lengths."""
    for name in reversed(lengths):
        poly = _with(poly, name, lengths[name])
    return poly
