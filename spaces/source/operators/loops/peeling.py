"""The first and the last iterations of a loop cut off, where what differs there is asked for in every iteration.

Boundaries that wrap around, that hold, or that are left out: ``(x + 1) % n``, ``x > 0 ? x - 1 : 0``,
``if (x > 0 && x < n - 1)``. Between the ends such questions have one answer. Every iteration stays where it was in the
order. May not move statements.

Source: Allen, Kennedy, "Optimizing Compilers for Modern Architectures" (2001), 5.7 (loop peeling) and 7.2 (index-set
splitting).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tuner.core.polynomials import constant
from tuner.spaces.source.affine import distance
from tuner.spaces.source.deciding import decided, known_in, within
from tuner.spaces.source.integers import Known
from tuner.spaces.source.kinds import element_types_of
from tuner.spaces.source.operators.base import (
    Args,
    Keys,
    Refused,
    Site,
    argument,
    for_each_loop,
    knowing_members,
    loop_of,
    replace_statement,
    require_short,
)
from tuner.spaces.source.operators.bounds import add, maximum, minimum, subtract, upper_end
from tuner.spaces.source.operators.simple_loops import require_simple_loop
from tuner.spaces.source.syntax import Binary, For, Function, Name, Number, Stmt, Ternary
from tuner.spaces.source.walks import written_names

__all__ = ["OPERATORS"]

_MOST = 4
"""Iterations that are cut off at one end."""

_SHORT = 16
"""A loop of so many iterations is unrolled by the compiler, which then knows them all."""


def peel_ends(function: Function, args: Args) -> Function:
    """Cuts iterations off both ends of a loop and decides what the rest of it asks for in vain.

    Takes ``loop``; ``first`` and ``last``, how many iterations are cut off at each end.
    """
    loop = loop_of(function, args)
    first, last = (argument(args, name, int) for name in ("first", "last"))
    if not (0 <= first <= _MOST and 0 <= last <= _MOST and first + last):
        raise Refused(f"{first} and {last} iterations cannot be cut off")
    known = _known(function, loop)
    rest = _between(function, loop, known, first, last)
    if rest == loop.body:
        raise Refused(f"no question in loop {loop.key} is decided between its ends")
    require_short(loop)
    begin, end = loop.start, upper_end(loop)
    cut = add(begin, Number(str(first)))
    stop = subtract(end, Number(str(last)))
    if last and _unsigned(loop, known):
        stop = Ternary(Binary(">", end, add(cut, Number(str(last)))), stop, cut)
    bare, keys = replace(loop, pragmas=()), Keys(function)
    parts: list[Stmt] = [replace(loop, start=cut, op="<", limit=stop, body=rest)]
    if first:
        parts.insert(0, keys.over(bare, begin, minimum(cut, end)))
    if last:
        at_least = stop if _unsigned(loop, known) else maximum(stop, cut)
        parts.append(keys.over(bare, at_least, end))
    return replace_statement(function, loop, parts)


def _known(function: Function, loop: For) -> Known:
    """What is known in a loop's body; refuses a loop that cannot be cut."""
    require_simple_loop(function, loop)
    if loop.var in written_names(loop.body):
        raise Refused(f"the counter of loop {loop.key} changes inside it")
    return within(known_in(function, loop), loop, declared=False)


def _between(function: Function, loop: For, known: Known, first: int, last: int) -> tuple[Stmt, ...]:
    """The body as it is between the ends."""
    begin, end, counter = (known.integer(e) for e in (loop.start, upper_end(loop), Name(loop.var)))
    if begin is None or end is None or counter is None:
        raise Refused(f"the bounds of loop {loop.key} are no plain integers")
    if _unsigned(loop, known) and not (known.implies(begin[0]) and known.implies(end[0])):
        raise Refused(f"a bound of loop {loop.key} without sign may be below zero")
    inside = known.holding(
        counter[0] - begin[0] - constant(first),
        end[0] - counter[0] - constant(last + 1),
    )
    if inside.impossible:
        raise Refused(f"loop {loop.key} has no iterations between its ends")
    return decided(loop.body, inside, element_types_of(function))


def _unsigned(loop: For, known: Known) -> bool:
    found = [known.integer(e) for e in (loop.start, upper_end(loop), Name(loop.var))]
    return any(f is not None and f[1] == "size_t" for f in found)


@for_each_loop
def _sites(function: Function, loop: For) -> Iterator[Site]:
    """The fewest iterations at each end without which all is decided that can be."""
    trip = distance(upper_end(loop), loop.start)
    if trip is not None and trip <= _SHORT:
        return
    known = _known(function, loop)
    best = _between(function, loop, known, _MOST, _MOST)
    if best == _between(function, loop, known, 0, 0):
        return
    first = next(n for n in range(_MOST + 1) if _between(function, loop, known, n, _MOST) == best)
    last = next(n for n in range(_MOST + 1) if _between(function, loop, known, first, n) == best)
    yield {"loop": loop.key, "first": first, "last": last}


OPERATORS = (
    knowing_members(
        peel_ends, _sites, "cuts off the ends of a loop, where boundaries are asked for in every iteration"
    ),
)
