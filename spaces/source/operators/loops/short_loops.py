"""Short loops written out, and local arrays of a few elements as scalars: what is left has no loop and no subscript.

Compilers do both by themselves, but later than other operators and mostly after they make vectors. May not move
statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tuner.spaces.source.affine import distance
from tuner.spaces.source.changes import exposed_names
from tuner.spaces.source.kinds import Refused, is_number, keeps_value, plain_type
from tuner.spaces.source.operators.base import (
    Args,
    Keys,
    fresh_name,
    knowing_members,
    loops_where,
    opener,
    replace_statement,
    where_it_applies,
)
from tuner.spaces.source.operators.bounds import rounds_of
from tuner.spaces.source.operators.simple_loops import simple_loop
from tuner.spaces.source.syntax import Block, Decl, Expr, For, Function, Index, Name, Number, Stmt
from tuner.spaces.source.walks import (
    declared_names,
    index_chain,
    map_expressions,
    opaque_words,
    statements,
    substitute,
    subtrees,
    transform,
    with_bodies,
)

__all__ = ["OPERATORS"]

_MOST_ROUNDS = 16
_MOST_NODES = 2000
"""Of a loop's body, times its rounds."""
_MOST_ELEMENTS = 64

_SUFFIX = {
    "int": "",
    **dict.fromkeys(("long", "long int", "ptrdiff_t", "ssize_t", "int64_t"), "L"),
    **dict.fromkeys(("unsigned", "unsigned int", "uint32_t"), "U"),
    **dict.fromkeys(("unsigned long", "size_t", "uint64_t"), "UL"),
}
"""What a number of a counter's type ends with: beside others it means what the counter meant."""


def write_out(function: Function, args: Args) -> Function:
    """Writes a loop of a few rounds out: its body once for each, with the number in the place of the counter.

    Takes ``loop``.
    """
    loop = simple_loop(function, args)
    rounds = rounds_of(loop)
    if not rounds or len(rounds) > _MOST_ROUNDS:
        raise Refused(f"loop {loop.key} has no small number of rounds")
    if len(list(subtrees(loop.body))) * len(rounds) > _MOST_NODES:
        raise Refused(f"loop {loop.key} is too long to be written out")
    if not loop.type:
        raise Refused(f"loop {loop.key} does not declare its counter")
    if loop.var in declared_names(loop.body, all_counters=True):
        raise Refused(f"{loop.var} is declared again inside loop {loop.key}")
    suffix = _SUFFIX.get(plain_type(loop.type))
    if suffix is None:
        raise Refused(f"loop {loop.key} counts in {loop.type}, of which no number is written")
    keys = Keys(function)
    scoped = any(isinstance(s, Decl) for s in loop.body)
    made: list[Stmt] = []
    for number in rounds:
        part = _with_subscripts(loop, number)
        part = substitute(part, loop.var, Number(f"{number}{suffix}"))
        part = part if number == rounds[0] else keys.again(part)
        made += [Block(part)] if scoped else part
    return replace_statement(function, loop, made)


def _with_subscripts(loop: For, number: int) -> tuple[Stmt, ...]:
    """A loop's body with a number for each subscript that is the counter and nothing more."""

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Index) and expr.index == Name(loop.var):
            return Index(expr.base, Number(str(number)))
        return expr

    return map_expressions(loop.body, change)


_short = loops_where(lambda _, loop: loop.type and 0 < len(rounds_of(loop) or ()) <= _MOST_ROUNDS)


def scalar_elements(function: Function, _: Args) -> Function:
    """Makes scalars of the elements of local arrays that are only used by numbers as subscripts."""
    found = {d.name: d for d in _arrays(function)}
    if not found:
        raise Refused("no local array has numbers alone for subscripts")
    names: dict[tuple[str, tuple[int, ...]], str] = {}
    for node in subtrees(function.body):
        if (element := _element(node, found)) is not None:
            names.setdefault(element, "")
    for array, at in names:
        stem = "_".join((array, *map(str, at)))
        names[array, at] = fresh_name(function, stem, names.values())

    def change(node: Any) -> Any:
        element = _element(node, found)
        return Name(names[element]) if element is not None else node

    def scalars(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, Decl) and stmt.name in found:
                made += [Decl(stmt.type, name) for (array, _), name in names.items() if array == stmt.name]
            else:
                made.append(with_bodies(stmt, scalars))
        return tuple(made)

    return replace(function, body=scalars(transform(function.body, change)))


def _arrays(function: Function) -> Iterator[Decl]:
    """Local arrays that are no more than the elements that numbers name, each declared once and without values."""
    within = [s for s in statements(function.body) if isinstance(s, Decl)]
    outside = {p.name for p in function.params} | {d.name for d in function.outer}
    exposed = exposed_names(function) | opaque_words(function.body) | function.read_after
    for decl in within:
        once = sum(d.name == decl.name for d in within) == 1 and decl.name not in outside
        if not decl.dims or decl.init is not None or decl.suffix or keeps_value(decl) or not once:
            continue
        if decl.name in exposed or not is_number(decl.type) or "volatile" in decl.type.split():
            continue
        uses = [n for n in subtrees(function.body) if isinstance(n, Name) and n.id == decl.name]
        known = [e for n in subtrees(function.body) if (e := _element(n, {decl.name: decl})) is not None]
        if uses and len(known) == len(uses) and len(set(known)) <= _MOST_ELEMENTS:
            yield decl


def _element(node: Any, arrays: dict[str, Decl]) -> tuple[str, tuple[int, ...]] | None:
    """The array and the place of an element that numbers within its bounds name."""
    if not isinstance(node, Index):
        return None
    base, subscripts = index_chain(node)
    if not isinstance(base, Name) or base.id not in arrays:
        return None
    dims = [distance(d, Number("0")) for d in arrays[base.id].dims]
    at = [distance(s, Number("0")) for s in subscripts]
    if len(at) != len(dims) or any(
        a is None or d is None or not 0 <= a < d for a, d in zip(at, dims, strict=True)
    ):
        return None
    return base.id, tuple(a for a in at if a is not None)


OPERATORS = (
    knowing_members(write_out, _short, "writes a loop of a few rounds out"),
    opener(
        scalar_elements,
        where_it_applies(scalar_elements),
        "local arrays with numbers for subscripts, as scalars",
    ),
)
