"""What items beyond a launch would do: a group that does the work of several may reach further than the launch did.

Such items may neither store nor read elements by their place, so that has to stand under a condition that holds for
none of them. May not change a tree.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from tuner.spaces.source.affine import polynomial
from tuner.spaces.source.kinds import Refused, is_pure
from tuner.spaces.source.operators.devices.guards import (
    assigned,
    conjuncts,
    loses_sign,
    may_be_negative,
    negated,
)
from tuner.spaces.source.operators.devices.threads import is_barrier, is_shared
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Decl,
    Expr,
    For,
    Function,
    If,
    Index,
    Name,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import names_in, operands, root_of, statements, subtrees

__all__ = ["Beyond"]

_MIRRORED = {">": "<", ">=": "<="}


@dataclass(slots=True, kw_only=True)
class Beyond:
    """A kernel's body of which one name says how far along an axis an item is.

    Attributes:
        function: the kernel, with that body.
        part: the name.
        own: names whose values differ with it.
    """

    function: Function
    part: str
    own: Collection[str]
    _local: set[str] = field(init=False)
    _pointers: set[str] = field(init=False)
    _means: dict[str, Expr] = field(init=False)

    def __post_init__(self) -> None:
        decls = [s for s in statements(self.function.body) if isinstance(s, Decl)]
        changed = assigned(self.function.body)
        params = self.function.params
        self._local = {s.name for s in decls if "*" not in s.type}
        self._local |= {p.name for p in params if is_shared(p.base)}
        self._pointers = {p.name for p in params if p.is_array} | {s.name for s in decls if "*" in s.type}
        self._means = {s.name: s.init for s in decls if s.init is not None and s.name not in changed}

    def guarded(self, guards: Sequence[Expr]) -> bool:
        """Whether conditions, all of which have to hold, hold for no item beyond the launch.

        Raises:
            Refused: one reads elements by an item's place before that is known.
        """
        bounded = False
        for guard in guards:
            for part in conjuncts(self._meant(guard), "&&"):
                self._look(part, bounded)
                bounded = bounded or self._bounds(part)
        return bounded

    def require(self, stmts: Sequence[Stmt]) -> None:
        """Refuses statements that store, or read elements, by the place of an item that may be beyond."""
        self._visit(stmts, False)

    def _visit(self, stmts: Sequence[Stmt], bounded: bool) -> None:
        for stmt in stmts:
            if bounded:
                return
            if isinstance(stmt, If):
                self._visit(stmt.then, self.guarded([stmt.condition]))
                opposite = [negated(self.function, c) for c in conjuncts(stmt.condition, "||")]
                self._visit(stmt.other, self.guarded(opposite) if stmt.other else False)
            elif isinstance(stmt, For):
                self._look((stmt.start, stmt.limit, stmt.step), False)
                self._visit(stmt.body, False)
            elif isinstance(stmt, Block):
                self._visit(stmt.body, False)
            elif not is_barrier(stmt):
                self._stores(stmt)
                self._look(stmt, False)

    def _stores(self, stmt: Stmt) -> None:
        for node in subtrees(stmt):
            base = root_of(node.target) if isinstance(node, Assign) else None
            if base is not None and not (isinstance(base, Name) and base.id in self._local):
                raise Refused("a store is not under a condition on its place along the axis")
            called = isinstance(node, Call) and not is_pure(replace(node, arguments=()))
            # It may store where it is pointed to, or count.
            if called and not self._pointers.isdisjoint(names_in(node.arguments)):
                raise Refused("a store is not under a condition on its place along the axis")

    def _look(self, node: Expr | Stmt | tuple[Expr, ...], bounded: bool) -> None:
        """Refuses elements that are read by an item's place; a choice may be the condition that they need."""
        if bounded or self.own_free(node):
            return
        if isinstance(node, Ternary):
            self._look(node.condition, False)
            self._look(node.then, self.guarded([node.condition]))
            self._look(node.other, False)
            return
        if isinstance(node, Binary) and node.op == "&&":
            parts = conjuncts(node, "&&")
            for number, part in enumerate(parts):
                self._look(part, any(map(self._bounds, parts[:number])))
            return
        element = isinstance(node, Index) and not self._is_local(node)
        if element or (isinstance(node, Unary) and node.op == "*"):
            raise Refused("an element is read that may lie beyond the launch")
        for child in operands(node):
            self._look(child, False)

    def own_free(self, node: Expr | Stmt | tuple[Expr, ...]) -> bool:
        """Whether nothing in a node differs with an item's place."""
        return names_in(node).isdisjoint(self.own)

    def _is_local(self, node: Index) -> bool:
        base = root_of(node)
        return isinstance(base, Name) and base.id in self._local

    def _meant(self, condition: Expr) -> Expr:
        """A condition that a variable holds."""
        seen = 0
        while isinstance(condition, Name) and condition.id in self._means and seen < len(self._means):
            condition, seen = self._means[condition.id], seen + 1
        return condition

    def _bounds(self, condition: Expr) -> bool:
        """Whether a condition is one that a place far enough along the axis does not meet."""
        if not isinstance(condition, Binary):
            return False
        op, low, high = condition.op, condition.left, condition.right
        if op in _MIRRORED:
            op, low, high = _MIRRORED[op], high, low
        if op == "==" and self.own_free(low):
            low, high = high, low
        if op not in ("<", "<=", "==") or self.own_free(low) or not self.own_free(high):
            return False
        if loses_sign(self.function, condition):
            limit = polynomial(high, set())
            if limit is None or may_be_negative(limit):
                return False
        return self._grows(low, 0)

    def _grows(self, expr: Expr, depth: int) -> bool:
        """Whether a value gets larger the further along the axis an item is."""
        if self.own_free(expr):
            return True
        match expr:
            case Name(id=name) if name == self.part:
                return True
            case Name(id=name) if name in self._means and depth <= len(self._means):
                return self._grows(self._means[name], depth + 1)
            case Binary(op="+" | "*", left=left, right=right):
                return self._grows(left, depth) and self._grows(right, depth)
            case Binary(op="-" | "/", left=left, right=right):
                return self._grows(left, depth) and self.own_free(right)
            case Cast(operand=operand):
                return self._grows(operand, depth)
        return False
