"""Loops cut into neighbouring ranges, so that one of them is simpler than the whole.

Every iteration stays where it was in the order, so both operators are legal wherever their ranges cover the loop; they
pay through what other operators can do with a part afterwards. May not move statements.

Source: Griebl, Feautrier, Lengauer, "Index set splitting" (2000).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tuner.core.polynomials import variable
from tuner.spaces.source.affine import polynomial
from tuner.spaces.source.operators.base import (
    Args,
    Keys,
    Refused,
    Site,
    counter_type,
    for_each_loop,
    knowing_members,
    loop_of,
    loops_of,
    replace_statement,
    require_short,
)
from tuner.spaces.source.operators.bounds import add, maximum, minimum, upper_end
from tuner.spaces.source.operators.simple_loops import require_simple_loop
from tuner.spaces.source.syntax import Binary, Block, Decl, Expr, For, Function, Index, Name, Number
from tuner.spaces.source.walks import index_chain, names_in, substitute, subtrees, written_names

__all__ = ["OPERATORS"]


def split_around(function: Function, args: Args) -> Function:
    """Cuts a loop where it meets the counter of a loop around it: what is below, the meeting, what is above.

    In the parts below and above no iteration touches what belongs to the meeting, which often unties them.

    Takes ``loop``; ``around``, the key of a loop around it over the same range.
    """
    loop, outer = (loop_of(function, args, name) for name in ("loop", "around"))
    _require_inside(outer, loop)
    require_simple_loop(function, loop)
    if not (outer.upward and outer.by_one) or outer.var == loop.var:
        raise Refused(f"loop {outer.key} does not count upwards by one with a name of its own")
    if (outer.start, upper_end(outer)) != (loop.start, upper_end(loop)):
        raise Refused(f"{outer.key} and {loop.key} do not run over the same range")
    if counter_type(function, outer) != counter_type(function, loop):
        raise Refused(f"{outer.key} and {loop.key} count in different types")
    changed = written_names(outer.body)
    if not changed.isdisjoint(names_in((loop.start, loop.limit))) or outer.var in changed:
        raise Refused(f"the range of {loop.key} changes inside loop {outer.key}")
    meeting = Name(outer.var)
    above: Expr = add(meeting, Number("1"))
    keys = Keys(function)
    middle = keys.again(substitute(loop.body, loop.var, meeting))
    if any(isinstance(s, Decl) for s in middle):
        middle = (Block(middle),)
    low = replace(loop, op="<", limit=meeting)
    high = keys.over(loop, above, upper_end(loop))
    require_short(loop)
    return replace_statement(function, loop, (low, *middle, high))


def square(function: Function, args: Args) -> Function:
    """Cuts off the part of a triangular loop that all rows of a tile have in common: a rectangle.

    Takes ``loop``, whose start or end grows with the counter of ``row``; ``row``, over the rows of a tile; ``tile``,
    over the tiles.
    """
    loop, row, tile = (loop_of(function, args, name) for name in ("loop", "row", "tile"))
    _require_inside(tile, row)
    _require_inside(row, loop)
    require_simple_loop(function, loop)
    require_simple_loop(function, row)
    if row.start != Name(tile.var) or not isinstance(tile.step, Name):
        raise Refused(f"loop {row.key} does not run over a tile of {tile.key}")
    if not {row.var, tile.var}.isdisjoint(written_names(loop.body)):
        raise Refused(f"{row.var} or {tile.var} changes inside loop {loop.key}")
    end = upper_end(loop)
    by_start, by_end = _growth(loop.start, row), _growth(end, row)
    keys = Keys(function)
    if by_end and not by_start:
        # The first row of a tile is the shortest.
        common = substitute(end, row.var, Name(tile.var))
        first = replace(loop, op="<", limit=common)
        rest = keys.over(loop, _latest(common, loop.start, tile), end)
    elif by_start and not by_end:
        # The last row of a tile begins last.
        behind = Binary("+", Name(tile.var), tile.step)
        common = _shifted(loop.start, row, behind)
        first = replace(loop, op="<", limit=minimum(common, end))
        rest = keys.over(loop, common, end)
    else:
        raise Refused(f"the range of {loop.key} does not grow at one end with {row.var}")
    require_short(loop)
    return replace_statement(function, loop, (first, rest))


def _require_inside(outer: For, inner: For) -> None:
    if not any(f is inner for f in loops_of(outer.body)):
        raise Refused(f"loop {inner.key} is not inside loop {outer.key}")


def _growth(bound: Expr, row: For) -> bool:
    """Whether a bound grows by one with each row; refuses what moves with it in another way."""
    if row.var not in names_in(bound):
        return False
    poly = polynomial(bound, {row.var})
    if poly is None or {m: c for m, c in poly.items() if row.var in m} != variable(row.var):
        raise Refused(f"a bound does not grow by one with {row.var}")
    return True


def _shifted(start: Expr, row: For, behind: Expr) -> Expr:
    """Where the last row of a full tile starts; ``behind`` is the first row of the next tile."""
    if start == add(Name(row.var), Number("1")):
        return behind
    made: Expr = substitute(start, row.var, Binary("-", behind, Number("1")))
    return made


def _latest(common: Expr, start: Expr, tile: For) -> Expr:
    """The larger of both; ``common`` where the loop starts at 0 and tiles are counted from there."""
    grown = common in (Name(tile.var), add(Name(tile.var), Number("1")))
    if start == Number("0") and tile.start == Number("0") and grown:
        return common
    return maximum(common, start)


@for_each_loop
def _around_sites(_: Function, outer: For) -> Iterator[Site]:
    for loop in loops_of(outer.body):
        same = (outer.start, upper_end(outer)) == (loop.start, upper_end(loop))
        if same and _meets(outer, loop):
            yield {"loop": loop.key, "around": outer.key}


def _meets(outer: For, loop: For) -> bool:
    """Whether a written array is used with each of both counters where it is used with the other elsewhere."""
    written = written_names(loop.body)
    uses: dict[str, set[tuple[bool, bool]]] = {}
    for node in subtrees(loop.body):
        if isinstance(node, Index):
            base, subscripts = index_chain(node)
            if isinstance(base, Name) and base.id in written:
                names = names_in(tuple(subscripts))
                uses.setdefault(base.id, set()).add((outer.var in names, loop.var in names))
    return any(len(u) > 1 for u in uses.values())


@for_each_loop
def _square_sites(_: Function, tile: For) -> Iterator[Site]:
    rows = (f for f in loops_of(tile.body) if isinstance(tile.step, Name) and f.start == Name(tile.var))
    for row in rows:
        for loop in loops_of(row.body):
            bounds = names_in((loop.start, loop.limit))
            # What is left of a loop that was cut before begins or ends with the tile.
            if row.var in bounds and tile.var not in bounds:
                yield {"loop": loop.key, "row": row.key, "tile": tile.key}


OPERATORS = (
    knowing_members(split_around, _around_sites, "cuts a loop where it meets the counter of one around it"),
    knowing_members(square, _square_sites, "cuts the rectangle of a tile off a triangular loop"),
)
