"""Pointers that walk through arrays as subscripts of where they begin, so that other operators see what is accessed.

``for (…) *q++ = *p++`` becomes ``for (…) q[i] = p[i]``, and several steps in a row become one. May not change what is
computed, nor where an element lies.

Source: Aho, Lam, Sethi, Ullman, "Compilers: Principles, Techniques, and Tools", 2006, chapter 9.1.8 (induction
variables).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tuner.spaces.source.accesses import own_variables
from tuner.spaces.source.changes import exposed_names
from tuner.spaces.source.kinds import MAY_WRAP, is_pure, is_unsigned, types_of
from tuner.spaces.source.operators.base import (
    Args,
    Refused,
    Site,
    all_loops,
    argument,
    counter_type,
    opener,
    place_in_body,
    replace_statement,
)
from tuner.spaces.source.operators.bounds import add, length, number, upper_end
from tuner.spaces.source.operators.simple_loops import simple_loop
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    If,
    Index,
    Name,
    Number,
    Opaque,
    OpaqueStmt,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import (
    map_expressions,
    mentions,
    names_in,
    opaque_words,
    statements,
    subtrees,
    with_bodies,
    written_names,
)

__all__ = ["OPERATORS", "behind"]

_FIT = "subscripts fit"
_LASTS = re.compile(r"\b(?:static|extern|volatile|thread_local|_Thread_local|__thread)\b")
_JUMPS = frozenset({"goto", "setjmp", "sigsetjmp"})
"""What may come back to where a pointer is used."""


def join_steps(function: Function, args: Args) -> Function:
    """Lets a pointer step on once, behind all that it leads to, in each list of statements.

    Takes ``pointer``, its name.
    """
    name = argument(args, "pointer")
    if name not in _walking(function):
        raise Refused(f"{name} is no pointer that steps on")
    made = _with_joined(function, name)
    if made.body == function.body:
        raise Refused(f"{name} steps on behind all that it leads to")
    return made


def _with_joined(function: Function, name: str) -> Function:
    return replace(function, body=_joined(function.body, name, ends=function.whole))


def _joined(body: tuple[Stmt, ...], name: str, *, ends: bool = False) -> tuple[Stmt, ...]:
    """A list of statements in which a pointer steps on behind all that it leads to.

    Args:
        body: the statements.
        name: the pointer's.
        ends: whether nothing asks for it behind them.
    """
    made: list[Stmt] = []
    ahead = 0
    ends = ends or any(isinstance(stmt, Decl) and stmt.name == name for stmt in body)
    for at, stmt in enumerate(body):
        step, asked = _step(stmt, name), mentions(body[at + 1 :], name)
        if isinstance(step, int):
            ahead += step
        elif step is None or asked or not ends or not is_pure(step):
            if ahead and not _leads_only(stmt, name):
                made.append(_stepping(name, ahead))
                ahead = 0
            within = with_bodies(stmt, lambda part: _joined(part, name))
            made.append(_moved(within, name, number(ahead)) if ahead else within)
        if ahead and not asked:
            made += [] if ends else [_stepping(name, ahead)]
            ahead = 0
    return tuple(made)


def _leads_only(stmt: Stmt, name: str) -> bool:
    """Whether a statement uses a pointer for elements alone, goes nowhere else, and leaves the pointer as it is."""
    opaque = any(isinstance(s, OpaqueStmt) for s in statements((stmt,)))
    return not opaque and not _is_set((stmt,), name) and _elements_only((stmt,), name)


def _is_set(part: tuple[Stmt, ...], name: str) -> bool:
    return any(
        (isinstance(n, Assign) and n.target == Name(name)) or (isinstance(n, Decl) and n.name == name)
        for n in subtrees(part)
    )


def _elements_only(part: tuple[Stmt, ...], name: str) -> bool:
    uses = elements = 0
    for node in subtrees(part):
        if isinstance(node, Opaque | OpaqueStmt) and name in node.text:
            return False
        uses += node == Name(name)
        elements += (isinstance(node, Index) and node.base == Name(name)) or node == Unary("*", Name(name))
    return uses == elements


def _moved(part: Any, name: str, by: Expr) -> Any:
    """Elements further on in the place of those that a pointer leads to."""

    def change(expr: Expr) -> Expr:
        if expr == Unary("*", Name(name)):
            return Index(Name(name), by)
        if isinstance(expr, Index) and expr.base == Name(name):
            return Index(Name(name), add(by, expr.index))
        return expr

    return map_expressions(part, change)


def _step(stmt: Stmt, name: str) -> int | Expr | None:
    """What a statement adds to a pointer and does nothing else; a number of elements where it is one."""
    match stmt:
        case ExprStmt(expr=Assign(op="+=" | "-=" as op, target=Name(id=found), value=value)) if found == name:
            if isinstance(value, Number) and value.text.isdigit():
                return int(value.text) if op == "+=" else -int(value.text)
            return value if op == "+=" else None
    return None


def _stepping(name: str, by: int) -> Stmt:
    return ExprStmt(Assign("+=" if by > 0 else "-=", Name(name), Number(str(abs(by)))))


def _walking(function: Function) -> dict[str, str]:
    """Plain pointers of a function that only their names lead to, and that a number is added to; with their types."""
    if opaque_words(function.body) & _JUMPS:
        return {}
    types = types_of(function)
    exposed = exposed_names(function)
    found: dict[str, str] = {}
    for stmt in statements(function.body):
        for name, kind in types.items():
            plain = (
                kind.count("*") == 1
                and not {"[", "&"} & set(kind)
                and not _LASTS.search(kind)
                and name not in exposed
            )
            if plain and _step(stmt, name) is not None:
                found[name] = kind
    return found


def index_pointer(function: Function, args: Args) -> Function:
    """Computes from a loop's counter where a pointer leads that steps on at the end of each iteration.

    Takes ``loop`` and ``pointer``.
    """
    loop, name = simple_loop(function, args), argument(args, "pointer")
    if name not in _walking(function) or name not in own_variables(function, loop):
        raise Refused(f"{name} is no pointer that steps on")
    at = next((i for i, stmt in enumerate(loop.body) if _step(stmt, name) is not None), -1)
    body = (*loop.body[:at], *loop.body[at + 1 :])
    step = _step(loop.body[at], name) if at >= 0 and not mentions(loop.body[at + 1 :], name) else None
    if step is None or _is_set(body, name) or not _elements_only(body, name):
        raise Refused(f"{name} does not step on once, at the end of loop {loop.key}")
    if isinstance(step, Expr) and not _is_steady(function, loop, step):
        raise Refused(f"{name} steps on by something that changes in loop {loop.key}")
    kind = counter_type(function, loop)
    if is_unsigned(kind) and (loop.start != Number("0") or step != 1):
        raise Refused(f"loop {loop.key} counts in an unsigned type")
    offset = _times(length(loop, Name(loop.var)), step)
    made = replace(loop, body=_moved(body, name, offset))
    grown = Assign("+=", Name(name), _times(length(loop, upper_end(loop)), step))
    return replace_statement(function, loop, [made, *behind(function, loop, name, grown)])


def _is_steady(function: Function, loop: For, step: Expr) -> bool:
    types = types_of(function)
    names = names_in(step)
    plain = all(not isinstance(n, Index) and not isinstance(n, Opaque) for n in subtrees(step))
    whole = all("*" not in types.get(n, "*") and MAY_WRAP.search(types[n]) is None for n in names)
    return (
        plain and whole and names <= own_variables(function, loop) and names.isdisjoint(written_names(loop))
    )


def _times(count: Expr, step: int | Expr) -> Expr:
    """What so many steps come to."""
    if isinstance(step, Expr):
        return Binary("*", count, step)
    far = count if abs(step) == 1 else Binary("*", count, Number(str(abs(step))))
    return far if step > 0 else Unary("-", far)


def behind(function: Function, loop: For, name: str, grown: Assign) -> list[Stmt]:
    """What a variable grows by while a loop runs, behind the loop, where anything asks for the variable again."""
    body, at = place_in_body(function, loop)
    own = any(isinstance(s, Decl) and s.name == name for s in body[:at])
    # A region may be come to again.
    if (own or (body is function.body and function.whole)) and not mentions(body[at + 1 :], name):
        return []
    if any(_has_iterations(each, loop) for each in all_loops(function)):
        return [ExprStmt(grown)]
    return [If(Binary("<", loop.start, upper_end(loop)), (ExprStmt(grown),), ())]


def _has_iterations(around: For, loop: For) -> bool:
    """Whether a loop runs only where the one around it has an iteration of the same bounds."""
    same = (around.start, around.op, around.limit) == (loop.start, loop.op, loop.limit)
    steady = names_in((loop.start, loop.limit)).isdisjoint(written_names(around.body))
    return same and steady and around is not loop and any(part is loop for part in statements(around.body))


def _join_sites(function: Function, _: bool) -> Iterator[Site]:
    found = (n for n in _walking(function) if _with_joined(function, n).body != function.body)
    yield from ({"pointer": name} for name in found)


def _index_sites(function: Function, _: bool) -> Iterator[Site]:
    for name in _walking(function):
        for loop in all_loops(function):
            if any(_step(stmt, name) is not None for stmt in loop.body):
                yield {"loop": loop.key, "pointer": name, "assumes": [_FIT]}


OPERATORS = (
    opener(join_steps, _join_sites, "lets a pointer step on once, behind all that it leads to"),
    opener(index_pointer, _index_sites, "a subscript from the counter in the place of a pointer that walks"),
)
