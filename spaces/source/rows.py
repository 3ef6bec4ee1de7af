"""What has to hold for the flat arrays of a part to have rows: any two columns less than a row apart.

``a[(k + off) * pitch + j]`` with ``j`` from ``lo`` to ``hi`` has rows of ``pitch`` where ``hi - lo < pitch``. What is
found are polynomials that must not be negative, over numbers that are known before the part runs. May not change a
tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd

from tuner.core.polynomials import Polynomial, constant, variable
from tuner.spaces.source.accesses import Access
from tuner.spaces.source.affine import never, rows_of
from tuner.spaces.source.conditions import polynomial_of, uses_of_written
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.scan import Leaf, Scan
from tuner.spaces.source.syntax import Expr, For, Name
from tuner.spaces.source.walks import subtrees
from tuner.spaces.source.widths import is_signless, is_without_sign, width

__all__ = ["needed_rows", "short_lengths"]

_MOST = 12
"""Conditions that are worth asking for before a nest."""

_MOST_FACTOR = 1 << 20

_MOST_LENGTH = 1 << 24
"""Rows up to this length go around 2^32 only in arrays of about as many elements."""


def needed_rows(found: Scan, facts: Sequence[Polynomial], types: Mapping[str, str]) -> tuple[Polynomial, ...]:
    """Conditions under which the arrays that a part writes have rows; none where they have them anyway.

    Args:
        found: the part.
        facts: what holds where it runs.
        types: of names.

    Raises:
        Refused: no such conditions can be said, or none could hold.
    """
    needed: list[Polynomial] = []
    for written, uses in uses_of_written(found).items():
        needed += _of_array(found, written.split("@")[0], uses, [*facts, *needed])
    if needed:
        needed += _without_wrapping(found, types)
    lengths = short_lengths(found, types)
    unknown = [p for p in lengths if not never([*facts, constant(-1) - p])]
    kept = (*_simplest(needed, facts), *unknown)
    if len(kept) > _MOST:
        raise Refused(f"{len(kept)} conditions are too many to ask for before a loop")
    return kept


def _of_array(
    found: Scan, name: str, uses: Sequence[tuple[Access, Leaf]], facts: Sequence[Polynomial]
) -> list[Polynomial]:
    accesses = [(a, leaf) for a, leaf in uses if len(a.subscripts) == 1]
    if len(accesses) < len(uses):
        return []
    polys = [polynomial_of(a.subscripts[0], found, f"a subscript of {name}") for a, _ in accesses]
    counters = {f.var for _, leaf in accesses for f in leaf.loops} | {f.var for f in found.outer}
    ways = rows_of(polys, counters | found.moving)
    if ways is None:
        raise Refused(f"a subscript of {name} is not affine")
    for rows in ways:
        used = [(p, leaf) for p, (_, leaf) in zip(rows.parts, accesses, strict=True)]
        needed = list(_apart(used, rows.widths, found))
        if not never([*facts, *needed]):
            return needed
    if ways:
        raise Refused(f"the rows of {name} overlap")
    return []


def _apart(
    used: Sequence[tuple[Sequence[Polynomial], Leaf]], widths: Sequence[Polynomial], found: Scan
) -> Iterator[Polynomial]:
    """For each length of a row, that the largest column of any access is less than one from the smallest of any."""
    for level, length in enumerate(widths):
        ends = {}
        for parts, leaf in used:
            column = parts[-1 - level]
            for largest in (False, True):
                made = _end(column, leaf.loops, found, largest=largest)
                ends[largest, tuple(sorted(made.items()))] = made
        for (top, _), high in ends.items():
            for (other, _), low in ends.items():
                if top and not other:
                    yield length - (high - low) - constant(1)


def _end(poly: Polynomial, loops: Sequence[For], found: Scan, *, largest: bool) -> Polynomial:
    """A polynomial at the first or last iterations of all loops, whichever makes it largest (smallest)."""
    for loop in reversed(loops):
        factor = poly.get((loop.var,), 0)
        if any(loop.var in m and m != (loop.var,) for m in poly):
            raise Refused(f"{loop.var} is not affine")
        if factor:
            low, high = _range(loop, found)
            end = high if (factor > 0) == largest else low
            poly -= constant(factor) * (variable(loop.var) - end)
    return poly


def _range(loop: For, found: Scan) -> tuple[Polynomial, Polynomial]:
    start, limit = (polynomial_of(e, found, f"a bound of loop {loop.key}") for e in (loop.start, loop.limit))
    if loop.op in ("<", ">"):
        limit = limit - constant(1 if loop.upward else -1)
    return (start, limit) if loop.upward else (limit, start)


def _without_wrapping(found: Scan, types: Mapping[str, str]) -> Iterator[Polynomial]:
    """That bounds which are computed or compared without sign are not below zero."""
    loops = {f.key: (f, leaf.loops[:at]) for leaf in found.leaves for at, f in enumerate(leaf.loops)}
    for loop, around in loops.values():
        parts = (loop.start, loop.limit, Name(loop.var))
        if not is_signless(loop.type) and not any(is_without_sign(e, types) for e in parts):
            continue
        for bound in (loop.start, loop.limit):
            poly = polynomial_of(bound, found, f"a bound of loop {loop.key}")
            if any(len(m) > 1 for m in poly):
                raise Refused(f"a bound of loop {loop.key} may wrap around")
            yield _end(poly, around, found, largest=False)


def short_lengths(found: Scan, types: Mapping[str, str]) -> list[Polynomial]:
    """That rows are not so long that what is multiplied without sign in 32 bits wraps around.

    Args:
        found: the part.
        types: of names.
    """
    counters = {f.var for f in found.outer} | {f.var for leaf in found.leaves for f in leaf.loops}
    names: dict[str, None] = {}
    for written, uses in uses_of_written(found).items():
        for subscript in (s for access, _ in uses for s in access.subscripts):
            if not any(width(part, types) == "u32" for part in subtrees(subscript) if isinstance(part, Expr)):
                continue
            poly = polynomial_of(subscript, found, f"a subscript of {written.split('@')[0]}")
            factors = {s for m in poly if len(m) > 1 for s in m} - counters
            names |= dict.fromkeys(sorted(s for s in factors if width(Name(s), types) in ("s32", "u32")))
    return [constant(_MOST_LENGTH) - variable(name) for name in names]


def _simplest(needed: Sequence[Polynomial], facts: Sequence[Polynomial]) -> tuple[Polynomial, ...]:
    """Those that do not follow from the others and what is known."""
    made = []
    for poly in needed:
        factor = gcd(*(c for m, c in poly.items() if m)) or 1
        made.append(Polynomial.of({m: c // factor for m, c in poly.items()}))
    kept = list(dict.fromkeys(made))
    if never([*facts, *kept]):
        raise Refused("the rows overlap whatever the sizes are")
    for poly in list(kept):
        others = [p for p in kept if p is not poly]
        if never([*facts, *others, constant(-1) - poly]):
            kept = others
    if any(abs(c) > _MOST_FACTOR for p in kept for c in p.values()):
        raise Refused("the numbers in subscripts are too large")
    return tuple(kept)
