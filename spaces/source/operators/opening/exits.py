"""A function's body with one exit at its end: early returns as branches, or as one selection.

Every path computes what it did, in the same order, and converts it to the function's type as ``return`` does. May not
judge where the body is used.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.spaces.source.kinds import Refused, plain_type, types_of
from tuner.spaces.source.lexical import unused
from tuner.spaces.source.operators.base import require_known
from tuner.spaces.source.operators.naming import names_known
from tuner.spaces.source.operators.opening.callees import RETURN, returned
from tuner.spaces.source.operators.opening.inlining import is_of
from tuner.spaces.source.syntax import (
    Assign,
    Block,
    Cast,
    Comment,
    Decl,
    Expr,
    ExprStmt,
    Function,
    If,
    Name,
    Number,
    OpaqueStmt,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import statements
from tuner.spaces.source.widths import type_of

__all__ = ["with_one_exit"]


def with_one_exit(helper: Function) -> tuple[tuple[Stmt, ...], Expr | None]:
    """A function's statements without returns, and the value at their end; none of one that has no value.

    Raises:
        Refused: it returns from within a loop, or may end without its value.
    """
    if not _returns(helper.body[:-1]) and (not helper.body or not isinstance(helper.body[-1], If)):
        return _value_at_end(helper)
    void = "void" in helper.head.split()
    kind = plain_type(helper.head)
    result = Name(unused(f"{helper.name}_result", names_known(helper)))
    made, ends = _Ending(helper, None if void else result).ended(helper.body)
    require_known(made, helper.name)
    if void:
        return made, None
    if not ends:
        raise Refused(f"{helper.name} may end without a value")
    chosen = _selection(made[-1:], kind, types_of(helper))
    if chosen is not None:
        return made[:-1], chosen
    return (*made[:-1], Decl(kind, result.id), made[-1]), result


def _value_at_end(helper: Function) -> tuple[tuple[Stmt, ...], Expr | None]:
    """The statements and the value of a function that returns at its end alone."""
    body, value = helper.body, None
    if body and _is_return(body[-1]):
        body, value = body[:-1], returned(body[-1], helper)
    require_known((body, value) if value is not None else body, helper.name)
    if value is None and "void" not in helper.head.split():
        raise Refused(f"{helper.name} does not end with its value")
    return body, value


def _is_return(stmt: Stmt) -> bool:
    return isinstance(stmt, OpaqueStmt) and RETURN.fullmatch(stmt.text.strip()) is not None


def _returns(body: tuple[Stmt, ...]) -> bool:
    return any(_is_return(s) for s in statements(body))


@dataclass(frozen=True, slots=True)
class _Ending:
    """What stands for a return: the assignment of its value."""

    helper: Function
    result: Name | None

    def ended(self, body: tuple[Stmt, ...]) -> tuple[tuple[Stmt, ...], bool]:
        """Statements without returns, and whether all ways through them returned."""
        made: list[Stmt] = []
        for place, stmt in enumerate(body):
            if isinstance(stmt, Comment):
                continue
            if _is_return(stmt):
                return (*made, *self._assigned(stmt)), True
            if not _returns((stmt,)):
                made.append(stmt)
                continue
            if not isinstance(stmt, If):
                raise Refused(f"{self.helper.name} returns from within a loop or block")
            branch, ends = self._branch(stmt, body[place + 1 :])
            return (*made, branch), ends
        return tuple(made), False

    def _branch(self, stmt: If, rest: tuple[Stmt, ...]) -> tuple[If, bool]:
        """A branch that returns on one way or both; what follows it belongs to the way that goes on."""
        then, then_ends = self.ended(stmt.then)
        other, other_ends = self.ended(stmt.other)
        if then_ends and other_ends:
            return If(stmt.condition, then, other), True
        if then_ends:
            after, ends = self._followed(stmt.other, rest)
            return _if(stmt.condition, then, after), ends
        if other_ends:
            after, ends = self._followed(stmt.then, rest)
            return _if(stmt.condition, after, other), ends
        raise Refused(f"{self.helper.name} returns on some ways through a branch only")

    def _followed(self, way: tuple[Stmt, ...], rest: tuple[Stmt, ...]) -> tuple[tuple[Stmt, ...], bool]:
        """A way through a branch that goes on, with what it goes on with."""
        if not any(isinstance(s, Decl) for s in way):
            return self.ended((*way, *rest))
        if _returns(way):
            raise Refused(f"{self.helper.name} returns on some ways through a branch only")
        # What follows may not see the variables of the branch.
        after, ends = self.ended(rest)
        return (Block(way), *after), ends

    def _assigned(self, stmt: Stmt) -> tuple[Stmt, ...]:
        value = returned(stmt, self.helper)
        if (value is None) != (self.result is None):
            raise Refused(f"{self.helper.name} returns both with a value and without")
        return () if value is None or self.result is None else (ExprStmt(Assign("=", self.result, value)),)


def _if(condition: Expr, then: tuple[Stmt, ...], other: tuple[Stmt, ...]) -> If:
    return If(condition, then, other) if then else If(Unary("!", condition), other)


def _selection(body: tuple[Stmt, ...], kind: str, types: dict[str, str]) -> Expr | None:
    """What a branch gives whose ways all only give a value; each converted by itself, as it was."""
    match body:
        case (ExprStmt(expr=Assign(value=value)),):
            return value if _has_type(value, kind, types) else Cast(kind, value)
        case (If(condition=condition, then=then, other=other),):
            first, second = _selection(then, kind, types), _selection(other, kind, types)
            return None if first is None or second is None else Ternary(condition, first, second)
    return None


def _has_type(value: Expr, kind: str, types: dict[str, str]) -> bool:
    """Whether an expression is known to be of a type; of several of one selection the type is the same then."""
    match value:
        case Number(text=text):
            return text[0] in ".0123456789" and type_of(value, {}) == kind
        case Unary(op="-", operand=operand) if kind in ("int", "long", "float", "double"):
            return _has_type(operand, kind, types)
    return is_of(value, kind, types)
