"""Assignments that add to what they assign to, however they are written: ``s += x``, ``s = s + x``, ``s = x + s - y``.

May not decide whether the order of additions matters.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.spaces.source.syntax import Assign, Binary, Decl, Expr, For, Function, Name, Unary
from tuner.spaces.source.walks import subtrees

__all__ = ["Update", "own_variables", "update_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A place, and what is added to it (``op`` is ``+``) or taken from it (``-``)."""

    target: Expr
    op: str
    value: Expr

    @property
    def assignment(self) -> Assign:
        """In its short form."""
        return Assign(f"{self.op}=", self.target, self.value)


def update_of(expr: Assign) -> Update | None:
    """The sum that an assignment goes on with; ``None`` where it is none.

    ``s = s + x - y`` is read as ``s += x - y``, which adds in another order.
    """
    if expr.op in ("+=", "-="):
        return Update(target=expr.target, op=expr.op[0], value=expr.value)
    if expr.op != "=":
        return None
    rest = _without(expr.value, expr.target)
    if rest is None:
        return None
    if isinstance(rest, Unary) and rest.op == "-":
        return Update(target=expr.target, op="-", value=rest.operand)
    return Update(target=expr.target, op="+", value=rest)


def own_variables(function: Function, loop: For) -> set[str]:
    """Parameters and locals from outside of a loop whose address nobody takes: only their names lead to them."""
    found = {p.name for p in function.params}
    found |= {n.name for n in subtrees(function.body) if isinstance(n, Decl)}
    found -= {n.name for n in subtrees(loop.body) if isinstance(n, Decl)}
    taken = (n.operand for n in subtrees(function.body) if isinstance(n, Unary) and n.op == "&")
    return found - {n.id for n in taken if isinstance(n, Name)}


def _without(expr: Expr, target: Expr) -> Expr | None:
    """What a sum adds to one of its terms; ``None`` where that is no term of it."""
    if not isinstance(expr, Binary) or expr.op not in ("+", "-"):
        return None
    if expr.left == target:
        return expr.right if expr.op == "+" else Unary("-", expr.right)
    if expr.right == target:
        return expr.left if expr.op == "+" else None
    left = _without(expr.left, target)
    if left is None:
        return None
    if isinstance(left, Unary) and left.op == "-":
        # -(a) + b and -(a) - b.
        other = Binary("-" if expr.op == "+" else "+", left.operand, expr.right)
        return Unary("-", other)
    return Binary(expr.op, left, expr.right)
