"""Operators on the order of loops: interchange, tiling, strip-mining, reversal, fusion, fission."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tuner.spaces.source.kinds import is_unsigned, types_of
from tuner.spaces.source.operators.base import (
    Args,
    Keys,
    Refused,
    Site,
    analyse,
    argument_list,
    body_of,
    counter_type,
    define,
    for_each_loop,
    fresh_name,
    keep_promises,
    knowing_members,
    loop_of,
    loops_where,
    nest_below,
    parameters,
    perfect_nest,
    replace_statement,
    require_known,
    require_rectangular,
    sibling_after,
)
from tuner.spaces.source.operators.bounds import add, minimum, subtract, upper_end
from tuner.spaces.source.operators.simple_loops import (
    require_own_counter,
    require_simple_loop,
    simple_loop,
    simple_nest,
    split_of,
)
from tuner.spaces.source.operators.teams.teams import directives_of
from tuner.spaces.source.scan import Leaf
from tuner.spaces.source.syntax import Decl, For, Function, Name, Number, Stmt
from tuner.spaces.source.walks import names_in, substitute, written_names
from tuner.spaces.source.widths import holds, width

__all__ = ["OPERATORS"]

_SIZES = (8, 16, 32, 64, 128, 256)


def interchange(function: Function, args: Args) -> Function:
    """Swaps two loops of a perfect nest that lie directly in each other.

    Takes ``loops``, outer and inner.
    """
    keys = argument_list(args, "loops")
    if len(keys) != 2:
        raise Refused("it takes two loops")
    outer, inner = nest_below(function, keys)
    require_known(outer, f"loop {outer.key}")
    for loop in (outer, inner):
        require_own_counter(function, loop)
    require_rectangular([outer, inner])
    if outer.var in names_in((inner.start, inner.limit)) or inner.var in names_in((outer.start, outer.limit)):
        raise Refused(f"the bounds of {inner.key} and {outer.key} depend on each other")
    found = analyse(function, [outer], args)
    other: dict[int | str, int | str] = {outer.key: inner.key, inner.key: outer.key}
    found.check(lambda leaf: tuple(other.get(p, p) for p in leaf.position))
    made = replace(inner, body=(replace(outer, body=inner.body),))
    return keep_promises(function, replace_statement(function, outer, [made]), "the loops in another order")


@for_each_loop
def _interchange_sites(_: Function, loop: For) -> Iterator[Site]:
    nest = perfect_nest(loop)
    if len(nest) > 1:
        yield {"loops": [nest[0].key, nest[1].key]}


def tile(function: Function, args: Args) -> Function:
    """Cuts one to three loops of a perfect nest into tiles; the loops over tiles go outside.

    Takes ``loops`` from the outermost, as many ``parameters``.
    """
    keys = argument_list(args, "loops")
    nest = simple_nest(function, keys)
    if len(nest) > 1:
        analyse(function, [nest[0]], args).check_band(keys)
    made, sizes = define(function, args, len(nest))
    body = nest[-1].body
    taken: set[str] = set()
    tiles: list[For] = []
    for loop, size in reversed(list(zip(nest, sizes, strict=True))):
        kind = counter_type(function, loop)
        var = fresh_name(made, f"{loop.var}_tile", taken)
        taken.add(var)
        end = upper_end(loop)
        limit = minimum(add(Name(var), size), end)
        shared = directives_of(loop) if loop is nest[0] else ()
        left = tuple(p for p in loop.pragmas if p not in shared)
        point = replace(loop, type=kind, start=Name(var), op="<", limit=limit, body=body, pragmas=left)
        body = (point,)
        tiles.append(For(Keys(made).new(var), kind, var, loop.start, "<", end, size, (), shared))
    for loop in tiles:
        body = (replace(loop, body=body),)
    return replace_statement(made, nest[0], body)


@for_each_loop
def _tile_sites(function: Function, loop: For) -> Iterator[Site]:
    nest = perfect_nest(loop)
    for count in (2, 3):
        if len(nest) >= count:
            yield _tiling(function, nest[:count])


def _tiling(function: Function, loops: list[For]) -> Site:
    sizes = parameters(function, *((f"TILE_{loop.var}", _SIZES, 64) for loop in loops))
    return {"loops": [f.key for f in loops], "parameters": sizes}


def reverse(function: Function, args: Args) -> Function:
    """Runs a loop from its last value to its first.

    Takes ``loop``.
    """
    loop = simple_loop(function, args)
    kind = counter_type(function, loop)
    if is_unsigned(kind):
        raise Refused(f"loop {loop.key} counts in an unsigned type, which does not get below its start")
    types = types_of(function)
    if width(loop.limit, types) == "s64" and not holds(kind, loop.limit, types):
        # Far below zero such a loop does nothing, and its counter would begin somewhere else.
        raise Refused(f"the counter of loop {loop.key} may not hold where the loop ends")
    found = analyse(function, [loop], args)
    found.check(lambda leaf: tuple(f"-{p}" if p == loop.key else p for p in leaf.position))
    last = subtract(loop.limit, Number("1")) if loop.op == "<" else loop.limit
    last = add(last, Number("0")) if isinstance(last, Number) else last
    made = replace(loop, start=last, op=">=", limit=loop.start)
    return replace_statement(function, loop, [made])


def fuse(function: Function, args: Args) -> Function:
    """Joins a loop with the one that follows it and has the same bounds.

    Takes ``loop``, the first of the two.
    """
    first = loop_of(function, args)
    second = sibling_after(function, first)
    if not isinstance(second, For):
        raise Refused(f"no loop follows {first.key}")
    for loop in (first, second):
        require_simple_loop(function, loop)
    if (first.start, upper_end(first)) != (second.start, upper_end(second)):
        raise Refused(f"{first.key} and {second.key} do not run over the same range")
    if counter_type(function, first) != counter_type(function, second):
        raise Refused(f"{first.key} and {second.key} count in different types")
    declared = {s.name for s in second.body if isinstance(s, Decl)}
    mine = {s.name for s in first.body if isinstance(s, Decl)}
    outside = names_in(second.body) | written_names(second.body)
    if not mine.isdisjoint(outside) or not declared.isdisjoint(names_in(first.body) | mine):
        raise Refused(f"{first.key} and {second.key} declare variables of the same name")
    if first.var in names_in(second.body) and first.var != second.var:
        raise Refused(f"{first.var} is another variable in {second.key}")

    def order(leaf: Leaf) -> tuple[int | str, ...]:
        part = 0 if leaf.position[1] == first.key else 1
        # Both counters are one: the loops' times are compared with each other.
        return (0, leaf.position[1], part, *leaf.position[2:])

    analyse(function, [first, second], args).check(order)
    body = second.body if second.var == first.var else substitute(second.body, second.var, Name(first.var))
    made = replace_statement(function, first, [replace(first, body=(*first.body, *body))], also=[second])
    return keep_promises(function, made, "both together")


def fission(function: Function, args: Args) -> Function:
    """Splits a loop in two: one for its first statements, one for the rest.

    Takes ``loop``; ``at``, how many statements the first keeps.
    """
    loop, split, order = split_of(function, args)
    head, tail = loop.body[:split], loop.body[split:]
    values = _values_needed(loop, head, tail)
    part, within = loop, function
    if values:
        part = replace(loop, body=(*head, *_renamed(function, values, tail)))
        within = replace_statement(function, loop, [part])
    analyse(within, [part], args).check(order)
    second = replace(loop, key=Keys(function).new(loop.key), body=(*values, *tail))
    return replace_statement(function, loop, [replace(loop, body=_without_idle(head, values)), second])


def _values_needed(loop: For, head: tuple[Stmt, ...], tail: tuple[Stmt, ...]) -> tuple[Decl, ...]:
    """What a loop's first part declares and its second uses, where each has the same value at the second's beginning.

    Raises:
        Refused: one of them is no value that can be computed again.
    """
    found: list[Decl] = []
    needed, written = names_in(tail) | written_names(tail), set[str]()
    for stmt in reversed(head):
        if isinstance(stmt, Decl) and stmt.name in needed:
            init = stmt.init
            if init is None or stmt.dims or stmt.name in written | written_names(tail):
                raise Refused(
                    f"the second part of {loop.key} uses {stmt.name}, which the first declares and changes"
                )
            if not written.isdisjoint(names_in(init)):
                raise Refused(
                    f"the first part of {loop.key} changes what {stmt.name} of the second is computed from"
                )
            needed |= names_in(init)
            found.append(stmt)
        else:
            written |= written_names(stmt)
    return tuple(reversed(found))


def _renamed(function: Function, values: tuple[Decl, ...], tail: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Values under names of their own, and the statements that use them."""
    made: tuple[Stmt, ...] = (*values, *tail)
    taken: set[str] = set()
    for at, value in enumerate(values):
        name = fresh_name(function, value.name, taken)
        taken.add(name)
        made = substitute(made, value.name, Name(name))
        declared = made[at]
        assert isinstance(declared, Decl)
        made = (*made[:at], replace(declared, name=name), *made[at + 1 :])
    return made


def _without_idle(head: tuple[Stmt, ...], values: tuple[Decl, ...]) -> tuple[Stmt, ...]:
    """Statements without the values that only others need."""
    for value in reversed(values):
        if value.name not in names_in(tuple(s for s in head if s is not value)):
            head = tuple(s for s in head if s is not value)
    return head


@for_each_loop
def _fission_sites(_: Function, loop: For) -> Iterator[Site]:
    for at in range(1, len(body_of(loop))):
        yield {"loop": loop.key, "at": at}


OPERATORS = (
    knowing_members(interchange, _interchange_sites, "swaps two nested loops"),
    knowing_members(tile, _tile_sites, "cuts nested loops into tiles", blocks=True),
    knowing_members(
        tile,
        for_each_loop(lambda function, loop: [_tiling(function, [loop])] if loop.by_one else []),
        "cuts one loop into strips",
        name="strip_mine",
        blocks=True,
    ),
    knowing_members(reverse, loops_where(lambda *_: True), "runs a loop backwards"),
    knowing_members(
        fuse,
        loops_where(lambda function, loop: isinstance(sibling_after(function, loop), For)),
        "joins two neighbouring loops",
    ),
    knowing_members(fission, _fission_sites, "splits a loop in two"),
)
