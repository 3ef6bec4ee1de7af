"""Variables that grow by the same amount in each iteration, computed from the counter: iterations are untied.

That adds up in another order. May not decide whether that is allowed.

Source: Aho, Lam, Sethi, Ullman, "Compilers: Principles, Techniques, and Tools", 2006, chapter 9.1.8 (induction
variables); here of floating-point numbers, which compilers leave as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tuner.spaces.source.accesses import own_variables, update_of
from tuner.spaces.source.kinds import is_pure, types_of
from tuner.spaces.source.operators.base import (
    HOST,
    Args,
    Refused,
    Site,
    argument,
    for_each_loop,
    fresh_name,
    knowing_members,
    reassociating,
    replace_statement,
    require_leave,
)
from tuner.spaces.source.operators.bounds import add, length, require_no_wrap, upper_end
from tuner.spaces.source.operators.opening.walking_pointers import behind
from tuner.spaces.source.operators.simple_loops import simple_loop
from tuner.spaces.source.operators.values.vectors import LANES
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Cast,
    Decl,
    Expr,
    ExprStmt,
    Field,
    For,
    Function,
    Index,
    Name,
    Number,
    Stmt,
)
from tuner.spaces.source.walks import exchanged, names_in, subtrees, written_names
from tuner.spaces.source.widths import type_of

__all__ = ["OPERATORS"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Progression:
    """A variable of a loop that grows: by what, with which sign, in which statement of the body."""

    name: str
    kind: str
    op: str
    by: Expr
    at: int


def from_counter(function: Function, args: Args) -> Function:
    """Computes a variable that grows evenly from a loop's counter: another order of additions.

    Takes ``loop`` and ``variable``; ``reassociate`` has to be true.
    """
    require_leave(args, "a variable from the counter adds in another order, which numerics does not allow")
    loop = simple_loop(function, args)
    name = argument(args, "variable")
    found = next((one for one in _progressions(function, loop) if one.name == name), None)
    if found is None:
        raise Refused(f"{name} does not grow by the same amount in each iteration of loop {loop.key}")
    require_no_wrap(function, loop)
    before, after = (fresh_name(function, f"{name}_{when}") for when in ("before", "now"))
    statements = loop.body
    body = [
        *_with(statements[: found.at], found, before, _count(loop, found, 0)),
        *_with(statements[found.at + 1 :], found, after, _count(loop, found, 1)),
    ]
    changed = replace(loop, body=tuple(body))
    times = Cast(found.kind, length(loop, upper_end(loop)))
    grown = Assign(f"{found.op}=", Name(name), Binary("*", times, found.by))
    return replace_statement(function, loop, [changed, *behind(function, loop, name, grown)])


def _with(statements: tuple[Stmt, ...], found: _Progression, name: str, value: Expr) -> list[Stmt]:
    """Statements with the variable's value of an iteration, declared before them where they use it."""
    if found.name not in names_in(statements):
        return list(statements)
    declared = Decl(f"const {found.kind}", name, (), value)
    return [declared, *exchanged(statements, Name(found.name), Name(name))]


def _count(loop: For, found: _Progression, more: int) -> Expr:
    """The variable after so many iterations of a loop, and some more."""
    start = loop.start
    if isinstance(start, Number):
        counted = length(loop, Name(loop.var))
        times: Expr = Cast(found.kind, add(counted, Number(str(more))))
    else:
        times = Binary("-", Cast(found.kind, Name(loop.var)), Cast(found.kind, start))
        one = Number("1.0f" if found.kind == "float" else "1.0")
        times = Binary("+", times, one) if more else times
    return Binary(found.op, Name(found.name), Binary("*", times, found.by))


def _progressions(function: Function, loop: For) -> Iterator[_Progression]:
    """Variables of the function alone that a loop adds a value to, the same in each iteration, once and always."""
    kinds = types_of(function)
    own = own_variables(function, loop)
    written = written_names(loop)
    stores = any(isinstance(n, Assign) and not isinstance(n.target, Name) for n in subtrees(loop.body))
    calls = any(isinstance(n, Call) and not is_pure(n) for n in subtrees(loop.body))
    targets = [n.target for n in subtrees(loop.body) if isinstance(n, Assign)]
    for at, stmt in enumerate(loop.body):
        found = update_of(stmt.expr) if isinstance(stmt, ExprStmt) and isinstance(stmt.expr, Assign) else None
        if found is None or found.op not in ("+", "-") or not isinstance(found.target, Name):
            continue
        name, names = found.target.id, names_in(found.value)
        kind = type_of(found.target, kinds)
        if kind not in LANES or name not in own or targets.count(found.target) != 1:
            continue
        # What lies elsewhere may be changed by a store, or by another function.
        steady = not names & written and (names <= own or not (stores or calls))
        plain = not any(isinstance(n, Index | Call | Field) for n in subtrees(found.value))
        plain = plain and is_pure(found.value) and type_of(found.value, kinds) == kind
        if steady and plain:
            yield _Progression(name=name, kind=kind, op=found.op, by=found.value, at=at)


@reassociating
@for_each_loop
def _sites(function: Function, loop: For) -> Iterator[Site]:
    for one in _progressions(function, loop):
        # Where nothing else in the loop asks for it, it is a sum.
        if one.name in names_in((*loop.body[: one.at], *loop.body[one.at + 1 :])):
            yield {"loop": loop.key, "variable": one.name, "reassociate": True}


OPERATORS = (
    knowing_members(
        from_counter,
        _sites,
        "computes what grows evenly from the counter (another order of additions)",
        languages=HOST,
    ),
)
