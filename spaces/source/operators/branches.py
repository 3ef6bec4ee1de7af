"""If-conversion, and raw edits of statements that nothing checks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tuner.spaces.source.kinds import is_floating, is_pure, types_of
from tuner.spaces.source.operators.base import (
    Args,
    Operator,
    Refused,
    Site,
    argument,
    knowing_members,
    replace_statement,
    require_known,
)
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Block,
    Comment,
    Decl,
    Expr,
    ExprStmt,
    Function,
    If,
    Index,
    Stmt,
    Ternary,
)
from tuner.spaces.source.walks import evaluated, expressions, inner_bodies, offered, with_bodies
from tuner.spaces.source.widths import is_whole, one_type

__all__ = ["OPERATORS"]


def if_convert(function: Function, args: Args) -> Function:
    """Turns ``if (c) x = e;`` into ``x = c ? e : x;``.

    Only where the condition itself reads every element that the branch touches, so that no element is touched that
    the condition guarded.

    Takes ``at``, the number of the conditional in the order of the source.
    """
    at, found = argument(args, "at", int), _conditionals(function)
    if not 0 <= at < len(found):
        raise Refused(f"there is no conditional {at}")
    stmt = found[at]
    require_known(stmt, "the conditional")
    made = _selected(stmt)
    _require_one_kind(function, made)
    return replace_statement(function, stmt, [made])


def _require_one_kind(function: Function, made: ExprStmt) -> None:
    """Refuses a selection that would turn whole numbers into others: both sides of ``?:`` become of one type."""
    assert isinstance(made.expr, Assign)
    assert isinstance(made.expr.value, Ternary)
    types = types_of(function)
    sides = (made.expr.value.then, made.expr.value.other)
    kinds = [one_type(e, types) for e in sides]
    if kinds[0] == kinds[1] and kinds[0]:
        return
    whole = [is_whole(e, types) for e in sides]
    target = one_type(made.expr.target, types)
    if sides[1] == made.expr.target and (all(whole) or not whole[1]):
        # It comes back as it was: wider and narrower again, or round numbers from what is rounded to them anyway.
        return
    if not any(whole) and all(is_floating(k) for k in (*kinds, target)):
        return
    raise Refused("the branches are of several types, and a selection is of one")


def _selected(stmt: If) -> ExprStmt:
    then = _one_assignment(stmt.then)
    other = _one_assignment(stmt.other) if stmt.other else None
    if then is None or (stmt.other and (other is None or other.target != then.target)):
        raise Refused("the branches are not one assignment to the same place each")
    parts = [stmt.condition, then.value] + ([other.value] if other else [])
    # Through a pointer the place may be one that is only there where the condition holds.
    if not all(is_pure(p) for p in (*parts, then.target)):
        raise Refused("the conditional has effects that are not known")
    if any(isinstance(e, Binary) and e.op in ("/", "%") for p in parts[1:] for e in expressions(p)):
        raise Refused("a branch divides")
    read = {e for e in evaluated(stmt.condition) if isinstance(e, Index)}
    touched = {e for p in (then.target, *parts[1:]) for e in expressions(p) if isinstance(e, Index)}
    if not touched <= read:
        raise Refused("the condition may guard an element that does not exist")
    value = _full(then)
    rest: Expr = then.target if other is None else _full(other)
    return ExprStmt(Assign("=", then.target, Ternary(stmt.condition, value, rest)))


def _one_assignment(body: tuple[Stmt, ...]) -> Assign | None:
    inner = [s for s in body if not isinstance(s, Comment)]
    while len(inner) == 1 and isinstance(inner[0], Block):
        inner = [s for s in inner[0].body if not isinstance(s, Comment)]
    if len(inner) == 1 and isinstance(inner[0], ExprStmt) and isinstance(inner[0].expr, Assign):
        return inner[0].expr
    return None


def _full(expr: Assign) -> Expr:
    return expr.value if expr.op == "=" else Binary(expr.op[:-1], expr.target, expr.value)


def _conditionals(function: Function) -> list[If]:
    return [s for s in offered(function.body) if isinstance(s, If) and not s.spare]


def _if_sites(function: Function, _: bool) -> Iterator[Site]:
    yield from ({"at": at} for at in range(len(_conditionals(function))))


def swap_statements(function: Function, args: Args) -> Function:
    """Exchanges a statement with the next one. Nothing shows that results stay the same.

    Takes ``at``, the first one's number in the order of the source.
    """
    body, place = _place(function, args)
    if place + 1 >= len(body) or isinstance(body[place], Decl) or isinstance(body[place + 1], Decl):
        raise Refused("there is no statement to exchange with")
    swapped = (*body[:place], body[place + 1], body[place], *body[place + 2 :])
    return _with_body(function, body, swapped)


def delete_statement(function: Function, args: Args) -> Function:
    """Leaves a statement out. Nothing shows that results stay the same.

    Takes ``at``, its number in the order of the source.
    """
    body, place = _place(function, args)
    if isinstance(body[place], Decl):
        raise Refused("a declaration has to stay")
    return _with_body(function, body, (*body[:place], *body[place + 1 :]))


def repeat_statement(function: Function, args: Args) -> Function:
    """Executes an assignment twice. Nothing shows that results stay the same.

    Takes ``at``, its number in the order of the source.
    """
    body, place = _place(function, args)
    if not isinstance(body[place], ExprStmt):
        raise Refused("only an assignment can be repeated")
    return _with_body(function, body, (*body[: place + 1], *body[place:]))


def _place(function: Function, args: Args) -> tuple[tuple[Stmt, ...], int]:
    at: int = argument(args, "at", int)
    found = list(_places(function.body))
    if not 0 <= at < len(found):
        raise Refused(f"there is no statement {at}")
    return found[at]


def _places(body: tuple[Stmt, ...]) -> Iterator[tuple[tuple[Stmt, ...], int]]:
    for place, stmt in enumerate(body):
        yield body, place
        inner = inner_bodies(stmt)
        for part in inner[:1] if isinstance(stmt, If) and stmt.spare else inner:
            yield from _places(part)


def _with_body(function: Function, old: tuple[Stmt, ...], new: tuple[Stmt, ...]) -> Function:
    def visit(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return new if body is old else tuple(with_bodies(s, visit) for s in body)

    return replace(function, body=visit(function.body))


def _statement_sites(function: Function, _: bool) -> Iterator[Site]:
    for at, (body, place) in enumerate(_places(function.body)):
        if not isinstance(body[place], Comment | Decl):
            yield {"at": at}


OPERATORS = (
    knowing_members(if_convert, _if_sites, "turns a branch into a selection"),
    *(
        Operator(apply, _statement_sites, what, checked=False, raw=True)
        for apply, what in (
            (swap_statements, "exchanges two statements, unchecked"),
            (delete_statement, "leaves a statement out, unchecked"),
            (repeat_statement, "executes an assignment twice, unchecked"),
        )
    ),
)
