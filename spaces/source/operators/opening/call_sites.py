"""Where a function is called such that the call may be made before the statement that it stands in.

A call is evaluated exactly once there, and nothing that the statement evaluates before it changes what it sees, or sees
what it changes. May not transform.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tuner.spaces.source.kinds import Refused, is_pure
from tuner.spaces.source.operators.naming import is_array
from tuner.spaces.source.operators.opening.callees import (
    changes_nothing,
    changes_own,
    is_declared,
    local_names,
    reads_memory,
    stands_for_number,
)
from tuner.spaces.source.operators.opening.inlining import address_taken, referring
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
    If,
    Index,
    Name,
    Opaque,
    OpaqueStmt,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import names_in, operands, statements, subtrees, written_names

__all__ = ["CallSite", "first_site", "require_order", "stores"]

_CHANGING = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|<<=|>>=|\w\s*\(")


_LASTING = frozenset({"static", "thread_local", "_Thread_local", "__thread", "constexpr", "constinit"})
"""Of variables that are not initialised where they are declared."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call, the statement that it stands in, and the expression of that statement that it is part of."""

    stmt: Stmt
    root: Expr
    call: Call


def first_site(
    function: Function, name: str, helpers: Mapping[str, Function], *, surely: bool = True
) -> CallSite:
    """The first call of a function that is evaluated exactly once.

    Args:
        function: that calls.
        name: of the function that is called.
        helpers: the functions that are known.
        surely: ``False`` for a call wherever it stands, for a value that is put there and nothing before it.
    """
    before: Stmt | None = None
    for stmt in statements(function.body):
        # A pragma is about the statement that follows it.
        bound = isinstance(before, OpaqueStmt) and before.text.lstrip().startswith("#")
        before = stmt
        if bound:
            continue
        every = operands(stmt) if isinstance(stmt, If | For) else _plain_root(stmt)
        for root in _roots(function, stmt, name, helpers) if surely else every:
            for call in _calls(root, function, helpers, surely=surely):
                once = surely or sum(1 for node in subtrees(stmt) if node is call) == 1
                if call.function == name and once:
                    return CallSite(stmt, root, call)
    raise Refused(f"no statement calls {name} {'in any case' if surely else 'where that can be seen'}")


def _plain_root(stmt: Stmt) -> Iterator[Expr]:
    """The expression of a statement that does nothing else."""
    match stmt:
        case ExprStmt(expr=expr):
            yield expr
        case Decl(dims=(), name=declared, init=init) if init is not None:
            # A value that names its own variable cannot stand before it.
            if declared not in names_in(init) and _LASTING.isdisjoint(stmt.type.split()):
                yield init


def _calls(
    expr: Expr, function: Function, helpers: Mapping[str, Function], *, surely: bool
) -> Iterator[Call]:
    """Calls in an expression that is no macro's argument, the outer ones first.

    ``surely``: those that are evaluated whatever conditions come to.
    """
    parts = tuple(operands(expr))
    match expr:
        case Ternary() | Binary(op="&&" | "||") if surely:
            parts = parts[:1]
        case Field() if surely:
            parts = ()
        case Call():
            yield expr
            # A macro's argument may be evaluated never or twice.
            known = expr.function in helpers or is_pure(replace(expr, arguments=()))
            parts = parts if known or is_declared(function, expr.function) else ()
    for part in parts:
        yield from _calls(part, function, helpers, surely=surely)


def _roots(function: Function, stmt: Stmt, name: str, helpers: Mapping[str, Function]) -> Iterator[Expr]:
    """The expressions that a statement begins with evaluating, once."""
    match stmt:
        case ExprStmt() | Decl():
            yield from _plain_root(stmt)
        case If(condition=condition):
            yield condition
        case For(start=start, limit=limit):
            yield start
            begins = not any(_may_change(n, helpers) for n in subtrees(start))
            if begins and _stays(function, stmt, limit, helpers[name]):
                yield limit


def _stays(function: Function, loop: For, limit: Expr, helper: Function) -> bool:
    """Whether a function gives the same each time that a loop's limit is looked at."""
    if reads_memory(helper) or not changes_nothing(Call(helper.name, ()), {helper.name: helper}):
        return False
    references = function.language in ("c++", "cuda")
    # A reference is declared as text, and may be to anything.
    within: Function | For = function if references else loop
    if any(isinstance(n, Opaque | OpaqueStmt) for n in subtrees(within.body)):
        return False
    others = (n for n in subtrees(loop.body) if isinstance(n, Call) and not is_pure(n))
    if references and any(n.function != helper.name for n in others):
        # There an argument may be taken by reference.
        return False
    unsteady = (
        written_names((loop.body, ExprStmt(loop.start)))
        | {loop.var}
        | {p.name for p in function.params if not p.plain}
    )
    unsteady |= {n for n in names_in(limit) if address_taken(function, n)}
    for call in (n for n in subtrees(limit) if isinstance(n, Call) and n.function == helper.name):
        used = {n for n in names_in(call.arguments) if not stands_for_number(function.source, n)}
        if not used <= local_names(function) - unsteady:
            return False
        if not all(is_pure(a) for a in call.arguments) or any(isinstance(n, Index) for n in subtrees(call)):
            return False
    return True


def require_order(
    function: Function,
    site: CallSite,
    called: tuple[Function, tuple[Stmt, ...]],
    helpers: Mapping[str, Function],
) -> None:
    """Refuses a call that may not be made before the rest of its statement.

    Args:
        function: that calls.
        site: of the call.
        called: the function, and its statements.
        helpers: the functions that are known.
    """
    helper, body = called
    handed = [n for n in subtrees(site.call.arguments) if isinstance(n, Name | Index | Unary | Opaque)]
    if stores(body, helper, helpers) or any(_may_change(n, helpers) for n in subtrees(site.call.arguments)):
        _require_alone(function, site)
    # Another call of the statement may take a variable by reference; one that takes the value comes after it.
    apart = (c for c in referring(function, site.root) if not any(n is site.call for n in subtrees(c)))
    others = [a for c in apart for a in c.arguments]
    referred = any(isinstance(n, Name) and n.id in names_in(tuple(others)) for n in handed)
    if referred or reads_memory(helper) or any(_may_be_changed(function, n) for n in handed):
        _require_quiet(site, helpers)


def _may_be_changed(function: Function, part: Name | Index | Unary | Opaque) -> bool:
    """Whether something else than an assignment to it may change a part of an argument."""
    if isinstance(part, Name):
        return not is_array(function, part.id) and (
            (part.id not in local_names(function) and not stands_for_number(function.source, part.id))
            or address_taken(function, part.id)
        )
    return isinstance(part, Index | Opaque) or part.op == "*"


def _seen_by_others(function: Function, name: str) -> bool:
    """Whether a function that is called may see or change what a name stands for."""
    if name not in local_names(function):
        return not stands_for_number(function.source, name)
    return address_taken(function, name)


def stores(body: tuple[Stmt, ...], helper: Function, helpers: Mapping[str, Function]) -> bool:
    """Whether statements of a function that is called may change what is not its own."""
    for node in subtrees(body):
        match node:
            case Call() if not is_pure(node):
                if not helper.members or not changes_nothing(node, helpers):
                    return True
            case Assign(target=Name()) if not helper.members:
                continue
            # A result that early returns assign is a name that the function does not have.
            case Assign(target=Name(id=name)) if name not in local_names(helper):
                continue
            case Assign() if not changes_own(node, helper):
                return True
    return False


def _require_alone(function: Function, site: CallSite) -> None:
    """Refuses a statement with anything beside a call that could see what the call stores.

    C leaves their order open; a compiler does not.
    """
    call = site.call
    match site.stmt:
        case ExprStmt(expr=Assign(op="=", target=Index(index=index), value=value)):
            parts: tuple[Expr, ...] = (index, value)
        case ExprStmt(expr=Assign(op="=", target=Name(), value=value)):
            parts = (value,)
        case _:
            parts = (site.root,)
    waiting = list(parts)
    while waiting:
        part = waiting.pop()
        if part is call:
            continue
        looked_at = isinstance(part, Name) and _seen_by_others(function, part.id)
        if looked_at or isinstance(part, Index | Field | Call | Assign | Opaque | Unary | Cast | Ternary):
            raise Refused(f"{call.function} stores, and is called among other things")
        waiting += operands(part)


def _require_quiet(site: CallSite, helpers: Mapping[str, Function]) -> None:
    """Refuses a statement with anything beside a call that may change what the call reads, and that came first."""
    root, call = site.root, site.call
    own = {id(node) for node in subtrees(call)}
    for part in subtrees((root.target, root.value) if isinstance(root, Assign) else root):
        again = isinstance(part, Call) and part.function == call.function
        if id(part) not in own and not again and _may_change(part, helpers):
            raise Refused(f"{call.function} reads what the statement that calls it may change")


def _may_change(part: Any, helpers: Mapping[str, Function]) -> bool:
    """Whether evaluating a part itself may change something."""
    match part:
        case Assign():
            return True
        case Opaque(text=text):
            return bool(_CHANGING.search(text))
        case Call():
            return not changes_nothing(part, helpers)
    return False
