"""Statements with the conditions and remainders decided that are the same wherever the statements run.

``(x + 1) % n`` is ``x + 1`` where ``0 <= x < n - 1``, and ``x > 0`` holds where x starts at 1. What is known is given;
what cannot be shown stays as it is. May not change loops or the order of anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tuner.core.polynomials import Polynomial, constant
from tuner.spaces.source.accesses import without_term
from tuner.spaces.source.integers import Known, rank
from tuner.spaces.source.kinds import all_types_of, is_pure
from tuner.spaces.source.syntax import (
    Binary,
    Block,
    Cast,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    If,
    Name,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import (
    assigned_names,
    map_expressions,
    names_in,
    statements,
    subtrees,
)
from tuner.spaces.source.widths import one_type

__all__ = ["decided", "known_in", "within"]

_ONE: Polynomial = constant(1)
_FLOATING = ("float", "double")


def known_in(function: Function, loop: For) -> Known:
    """What is known of integers in a loop's body, its own range apart.

    Args:
        function: the whole.
        loop: one of its loops.
    """
    known = Known(source=function.source, names={}, ranks={})
    changed = _assigned(loop.body)
    for define in function.defines:
        known = known.declaring(define.name, "int", None)
    # What the file declares is read where its source is.
    own = all_types_of(replace(function, variables=()))
    for name, kinds in own.items():
        ranks = {rank(k) for k in kinds}
        kind = kinds.pop()
        known = known.hiding(name) if name in changed or len(ranks) > 1 else known.declaring(name, kind, None)
    for around in _around(function.body, loop):
        if _assigned(around.body).isdisjoint({around.var} | names_in((around.start, around.limit))):
            known = within(known, around, declared=False)
    return known


def _around(body: Sequence[Stmt], loop: For) -> list[For]:
    """The loops that hold one, outer ones first."""
    holding = [s for s in statements(tuple(body)) if isinstance(s, For) and s is not loop]
    return [f for f in holding if any(s is loop for s in statements(f.body))]


def _assigned(body: Sequence[Stmt]) -> set[str]:
    """Variables that get another value in statements, or may by their address."""
    found = assigned_names(tuple(body))
    for node in subtrees(tuple(body)):
        if isinstance(node, For) and not node.type:
            found.add(node.var)
        elif isinstance(node, Unary) and node.op == "&" and isinstance(node.operand, Name):
            found.add(node.operand.id)
    return found


def within(known: Known, loop: For, *, declared: bool = True) -> Known:
    """What is known in the body of a loop as well: that its counter is in its range.

    Args:
        known: outside it.
        loop: that counts upwards; of others only their counter is known to stay.
        declared: whether its counter is a variable that is not known yet.
    """
    start, limit = (known.integer(e) for e in (loop.start, loop.limit))
    if declared:
        known = known.declaring(loop.var, loop.type, None) if loop.type else known
    counter = known.integer(Name(loop.var))
    if counter is None or not loop.upward:
        return known
    for bound, sign in ((start, 1), (limit, -1)):
        # Compared without sign, a bound below zero is a large number.
        if bound is None or ("size_t" in (bound[1], counter[1]) and not known.implies(bound[0])):
            continue
        far = counter[0] - bound[0] if sign > 0 else bound[0] - counter[0]
        known = known.holding(far if sign > 0 or loop.op == "<=" else far - _ONE)
    return known


def decided(body: tuple[Stmt, ...], known: Known, types: dict[str, str]) -> tuple[Stmt, ...]:
    """Statements with what is decided put in its place.

    Args:
        body: that run where ``known`` holds.
        known: as :func:`known_in` gives it, with the range of the loop.
        types: of variables by name, of arrays their elements', without qualifiers.
    """
    return _Decider(types).body(body, known)


@dataclass(frozen=True, slots=True)
class _Decider:
    types: dict[str, str]

    def body(self, body: Sequence[Stmt], known: Known) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, Decl):
                stmt, known = self._declaration(stmt, known)
            made += self._statement(stmt, known)
        return tuple(made)

    def _declaration(self, decl: Decl, known: Known) -> tuple[Decl, Known]:
        if decl.init is not None:
            decl = replace(decl, init=self._expression(decl.init, known))
        if known.names.get(decl.name, decl) is None or decl.dims:
            return decl, known.hiding(decl.name)
        value = None if decl.init is None else known.resolved(decl.init)
        return decl, known.declaring(decl.name, decl.type, value)

    def _statement(self, stmt: Stmt, known: Known) -> tuple[Stmt, ...]:
        match stmt:
            case ExprStmt(expr=expr):
                return (replace(stmt, expr=self._expression(expr, known)),)
            case Block(body=body):
                return (replace(stmt, body=self.body(body, known)),)
            case For(start=start, limit=limit, body=body):
                inside = within(known, stmt)
                ends = (self._expression(start, known), self._expression(limit, inside))
                return (replace(stmt, start=ends[0], limit=ends[1], body=self.body(body, inside)),)
            case If(condition=condition, then=then, other=other):
                left, holds = self._condition(condition, known)
                if holds is None:
                    parts = (self.body(then, known), self.body(other, known))
                    return (replace(stmt, condition=left, then=parts[0], other=parts[1]),)
                taken = self.body(then if holds else other, known)
                return (Block(taken),) if any(isinstance(s, Decl) for s in taken) else taken
        return (stmt,)

    def _expression(self, expr: Expr, known: Known) -> Expr:
        return map_expressions(expr, lambda e: self._node(e, known))

    def _node(self, expr: Expr, known: Known) -> Expr:
        match expr:
            case Binary(op="%", left=left, right=right):
                return self._remainder(expr, left, right, known)
            case Ternary(condition=condition, then=then, other=other):
                left, holds = self._condition(condition, known)
                if holds is None:
                    return expr if left is condition else replace(expr, condition=left)
                if self._kind(then, known) is not None and self._kind(then, known) == self._kind(
                    other, known
                ):
                    return then if holds else other
        return expr

    def _remainder(self, whole: Expr, left: Expr, right: Expr, known: Known) -> Expr:
        value, size = known.integer(left), known.integer(right)
        if value is None or size is None:
            return whole
        kind = max(value[1], size[1], key=("int", "long", "size_t").index)
        for times in (0, 1):
            rest = value[0] - size[0] if times else value[0]
            if known.implies(rest) and known.implies(size[0] - rest - _ONE):
                made = without_term(left, right) if times else left
                if made is None:
                    made = Binary("-", left, right)
                found = known.integer(made)
                if found is None or found[0] != rest:
                    return whole
                return made if found[1] == kind else Cast(kind, made)
        return whole

    def _condition(self, expr: Expr, known: Known) -> tuple[Expr, bool | None]:
        """A condition without the parts that are decided, and whether it holds."""
        match expr:
            case Unary(op="!", operand=operand):
                inner, holds = self._condition(operand, known)
                return (expr if inner is operand else Unary("!", inner)), None if holds is None else not holds
            case Binary(op="&&" | "||" as op, left=left, right=right):
                return self._joined(expr, op, self._condition(left, known), self._condition(right, known))
            case Binary(op="<" | "<=" | ">" | ">=" | "==" | "!=" as op, left=left, right=right):
                return expr, self._compared(op, left, right, known)
        return expr, None

    def _joined(
        self, expr: Binary, op: str, left: tuple[Expr, bool | None], right: tuple[Expr, bool | None]
    ) -> tuple[Expr, bool | None]:
        settles = op == "||"
        for (_, holds), other in ((left, expr.right), (right, expr.left)):
            if holds is settles and is_pure(other):
                return expr, settles
        if left[1] is not None and right[1] is not None:
            return expr, not settles
        if left[1] is not None:
            return right
        if right[1] is not None:
            return left
        if left[0] is expr.left and right[0] is expr.right:
            return expr, None
        return Binary(op, left[0], right[0]), None

    def _compared(self, op: str, left: Expr, right: Expr, known: Known) -> bool | None:
        a, b = known.integer(left), known.integer(right)
        if a is None or b is None:
            return None
        if "size_t" in (a[1], b[1]) and not (known.implies(a[0]) and known.implies(b[0])):
            return None
        if op in (">", ">="):
            a, b, op = b, a, "<" if op == ">" else "<="
        up = b[0] - a[0]
        down = a[0] - b[0]
        if op in ("<", "<="):
            yes, no = (up - _ONE, down) if op == "<" else (up, down - _ONE)
            return True if known.implies(yes) else False if known.implies(no) else None
        apart = known.implies(up - _ONE) or known.implies(down - _ONE)
        equal = not apart and known.implies(up) and known.implies(down)
        return (equal if op == "==" else apart) if apart or equal else None

    def _kind(self, expr: Expr, known: Known) -> str | None:
        """The type of an expression, where it is plain."""
        found = known.integer(expr)
        if found is not None:
            return found[1]
        kind = one_type(expr, self.types)
        return kind if kind in _FLOATING else None
