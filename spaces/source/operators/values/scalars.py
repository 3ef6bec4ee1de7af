"""Operators on values: scalar replacement, accumulation in place, hoisting.

A load that moves in front of a loop also happens where the loop has no iteration; that the element exists then is an
assumption, which the edit states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tuner.spaces.source.kinds import is_floating, is_integer, is_pure, plain_type, types_of
from tuner.spaces.source.operators.base import (
    Args,
    Refused,
    Site,
    all_loops,
    analyse,
    argument,
    for_each_loop,
    fresh_name,
    knowing_members,
    known_loop,
    loops_of,
    replace_statement,
)
from tuner.spaces.source.operators.values.vectors import LANES
from tuner.spaces.source.places import member_paths, place_of, places_in
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Decl,
    Expr,
    ExprStmt,
    Field,
    For,
    Function,
    Index,
    Name,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import exchanged, index_chain, names_in, root_of, subtrees, written_names
from tuner.spaces.source.widths import type_of

__all__ = ["OPERATORS", "references"]


def references(part: Any, array: str) -> list[Index]:
    """Complete references to an array's elements."""
    inner = {id(n.base) for n in subtrees(part) if isinstance(n, Index)}
    chains = (n for n in subtrees(part) if isinstance(n, Index) and id(n) not in inner)
    return [n for n in chains if index_chain(n)[0] == Name(array)]


def scalar_replace(function: Function, args: Args) -> Function:
    """Keeps an element that a loop updates in a local variable while the loop runs.

    Takes ``loop`` and ``array``; ``member``, the text of the member of an element that is kept.
    """
    loop, _ = known_loop(function, args)
    array = argument(args, "array")
    if "member" in args:
        return _member_replaced(function, loop, array, argument(args, "member"))
    if array in member_paths(function):
        raise Refused(f"{array} is used by members")
    element = _written_element(loop, array)
    if element is None:
        raise Refused(f"loop {loop.key} does not write one element of {array}")
    if any(isinstance(n, Decl) and n.name == array for n in subtrees(loop.body)):
        raise Refused(f"{array} is declared inside loop {loop.key}")
    if not names_in(element).isdisjoint(written_names(loop) - {array}):
        raise Refused(f"the element of {array} changes inside loop {loop.key}")
    _require_no_other(function, loop, array, args)
    kind = plain_type(types_of(function).get(array, ""))
    if not kind:
        raise Refused(f"the type of {array} is not known")
    return _in_variable(function, loop, element, kind, Name(fresh_name(function, f"{array}_value")))


def _written_element(loop: For, array: str) -> Index | None:
    """The one element of an array that a loop assigns."""
    found = references(loop.body, array)
    targets = {id(n.target) for n in subtrees(loop.body) if isinstance(n, Assign)}
    written = list(dict.fromkeys(r for r in found if id(r) in targets))
    return written[0] if len(written) == 1 else None


def _require_no_other(function: Function, loop: For, array: str, args: Args) -> None:
    """Refuses a loop that may use the element that it writes by other subscripts, too."""
    others = len(set(references(loop.body, array)))
    if others == 1:
        return
    around = [f for f in all_loops(function) if any(g is loop for g in loops_of(f.body))]
    # What bounds of loops around say of subscripts may be needed, or be too much to analyse.
    for part in (loop, *reversed(around)):
        try:
            if analyse(function, [part], args).only_written(loop.key, array, others):
                return
        except Refused:
            break
    raise Refused(f"loop {loop.key} may use the element of {array} by other subscripts, too")


def _member_replaced(function: Function, loop: For, array: str, text: str) -> Function:
    """Keeps one member in a variable, where the loop uses no other place that could be the same."""
    uses = [(e, p) for e, p in places_in(loop.body) if p.base == Name(array)]
    mine = next(((e, p) for e, p in uses if p.path and expression_text(e) == text), None)
    if mine is None:
        raise Refused(f"loop {loop.key} does not use {text!r}")
    place, at = mine
    for other, use in uses:
        if other != place and all(a == b for a, b in zip(use.path, at.path, strict=False)):
            raise Refused(f"loop {loop.key} uses {expression_text(other)} as well")
    if not any(isinstance(n, Assign) and n.target == place for n in subtrees(loop.body)):
        raise Refused(f"loop {loop.key} does not write {text}")
    subscripts = names_in((at.outer, at.inner))
    if not subscripts.isdisjoint(written_names(loop) | {array}):
        raise Refused(f"the element of {array} changes inside loop {loop.key}")
    if any(isinstance(n, Decl) and n.name == array for n in subtrees(loop.body)):
        raise Refused(f"{array} is declared inside loop {loop.key}")
    base = index_chain(place)[0]
    kind = plain_type(base.type) if isinstance(base, Field) else ""
    if not (is_floating(kind) or is_integer(kind)):
        raise Refused(f"{text} is no number")
    name = Name(fresh_name(function, "_".join((array, *at.path, "value"))))
    return _in_variable(function, loop, place, kind, name)


def _in_variable(function: Function, loop: For, place: Expr, kind: str, name: Name) -> Function:
    """A place in a variable while a loop runs."""
    before, after = Decl(kind, name.id, (), place), ExprStmt(Assign("=", place, name))
    changed = replace(loop, body=exchanged(loop.body, place, name))
    return replace_statement(function, loop, [before, changed, after])


@for_each_loop
def _member_sites(_: Function, loop: For) -> Iterator[Site]:
    targets = [n.target for n in subtrees(loop.body) if isinstance(n, Assign)]
    for place in dict.fromkeys(t for t in targets if place_of(t).path):
        base = root_of(place)
        if isinstance(base, Name) and names_in(place).isdisjoint(written_names(loop) - {base.id}):
            text = expression_text(place)
            yield {"loop": loop.key, "array": base.id, "member": text, "assumes": ["elements exist"]}


@for_each_loop
def _element_sites(function: Function, loop: For) -> Iterator[Site]:
    for array in sorted(written_names(loop.body) - member_paths(function).keys()):
        element = _written_element(loop, array)
        if element is not None and names_in(element).isdisjoint(written_names(loop) - {array}):
            yield {"loop": loop.key, "array": array, "assumes": ["elements exist"]}


def _replace_sites(function: Function, _: bool) -> Iterator[Site]:
    if member_paths(function):
        yield from _member_sites(function, False)
    yield from _element_sites(function, False)


def accumulate_in_place(function: Function, args: Args) -> Function:
    """Lets a sum grow in the element that it is stored to, in place of a local variable.

    That takes the accumulator out of the way of fission and of tiling the summing loop.

    Takes ``loop``, whose body holds the variable; ``variable``.
    """
    loop, _ = known_loop(function, args)
    name = argument(args, "variable")
    body = loop.body
    at = next((p for p, s in enumerate(body) if isinstance(s, Decl) and s.name == name), None)
    users = [p for p, s in enumerate(body) if name in names_in((s,)) or name in written_names((s,))]
    if at is None or len(users) < 2:
        raise Refused(f"loop {loop.key} does not declare {name} and use it")
    decl, last = body[at], body[users[-1]]
    place = _stored(last, name)
    if not isinstance(decl, Decl) or decl.init is None or decl.dims or place is None:
        raise Refused(f"{name} is not simply stored at the end")
    base, _ = index_chain(place)
    array = base.id if isinstance(base, Name) else ""
    between = body[at : users[-1]]
    if plain_type(decl.type) != plain_type(types_of(function).get(array, "")):
        raise Refused(f"{name} and {array} have different types")
    if references(between, array) or not names_in(place).isdisjoint(written_names(between)):
        raise Refused(f"{array} or its subscripts are used while {name} grows")

    made: list[Stmt] = []
    for position, stmt in enumerate(body):
        if position == at:
            made.append(ExprStmt(Assign("=", place, decl.init)))
        elif position != users[-1]:
            made.append(exchanged(stmt, Name(name), place))
    return replace_statement(function, loop, [replace(loop, body=tuple(made))])


def _stored(stmt: Stmt, name: str) -> Index | None:
    match stmt:
        case ExprStmt(expr=Assign(op="=", target=Index() as place, value=Name(id=found))) if found == name:
            return place
    return None


@for_each_loop
def _in_place_sites(_: Function, loop: For) -> Iterator[Site]:
    for decl in (s for s in loop.body if isinstance(s, Decl) and s.init is not None):
        if any(_stored(s, decl.name) for s in loop.body):
            yield {"loop": loop.key, "variable": decl.name}


def hoist(function: Function, args: Args) -> Function:
    """Computes an expression that a loop does not change once, before the loop.

    Takes ``loop``; ``expression``, its text.
    """
    loop, _ = known_loop(function, args)
    text = argument(args, "expression")
    expr = next((e for e in _invariant(function, loop) if expression_text(e) == text), None)
    if expr is None:
        raise Refused(f"loop {loop.key} does not hold {text!r}, or changes it")
    kind = type_of(expr, types_of(function))
    name = fresh_name(function, "invariant")

    body = exchanged(loop.body, expr, Name(name))
    return replace_statement(
        function, loop, [Decl(f"const {kind}", name, (), expr), replace(loop, body=body)]
    )


def _invariant(function: Function, loop: For) -> Iterator[Expr]:
    changed = written_names(loop)
    kinds = types_of(function)
    targets = {id(n.target) for n in subtrees(loop.body) if isinstance(n, Assign)}
    rows = {id(n.base) for n in subtrees(loop.body) if isinstance(n, Index)}
    added = _added_products(loop)
    for node in subtrees(loop.body):
        if not isinstance(node, Binary | Index | Field | Call) or id(node) in targets:
            continue
        # With the sum that it is a part of a product may be rounded once; computed alone it is rounded first.
        if node in added or id(node) in rows:
            continue
        if is_pure(node) and names_in(node).isdisjoint(changed) and type_of(node, kinds) in LANES:
            yield node


def _added_products(loop: For) -> list[Expr]:
    """Products that are added to something or taken from it."""
    parts: list[Expr] = []
    for node in subtrees(loop.body):
        match node:
            case Binary(op="+" | "-", left=left, right=right):
                parts += (left, right)
            case Assign(op="+=" | "-=", value=value):
                parts.append(value)
    bare = [p.operand if isinstance(p, Unary) and p.op == "-" else p for p in parts]
    return [p for p in bare if isinstance(p, Binary) and p.op == "*"]


@for_each_loop
def _hoist_sites(function: Function, loop: For) -> Iterator[Site]:
    for text in dict.fromkeys(map(expression_text, _invariant(function, loop))):
        yield {"loop": loop.key, "expression": text, "assumes": ["elements exist"]}


OPERATORS = (
    knowing_members(scalar_replace, _replace_sites, "keeps an element in a local variable during a loop"),
    knowing_members(accumulate_in_place, _in_place_sites, "sums in the element that the sum is stored to"),
    knowing_members(hoist, _hoist_sites, "computes an invariant before the loop"),
)
