"""What `while`, `do` and `for` loops say that are no counting loops to the reader: what counts in their tests.

May not judge what else a loop does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.spaces.source.expressions import is_enclosed, operator_of, read_expression
from tuner.spaces.source.kinds import types_of
from tuner.spaces.source.lexical import words
from tuner.spaces.source.number_types import number_types
from tuner.spaces.source.operators.bounds import add, subtract
from tuner.spaces.source.parse import node_text, statement_nodes
from tuner.spaces.source.reading import parse_statements, without_continues
from tuner.spaces.source.syntax import (
    Assign,
    Block,
    Decl,
    Expr,
    ExprStmt,
    Function,
    Name,
    Number,
    OpaqueStmt,
    Stmt,
)
from tuner.spaces.source.walks import names_in, written_names

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["CountingLoop", "WalkingLoop", "read_loop"]

_ZERO, _ONE = Number("0"), Number("1")
Body = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingLoop:
    """A loop that counts by one in its test, or at the end of its body.

    Attributes:
        var: the counter.
        down: whether it counts downwards.
        test: how it is compared with ``limit``, by ``<``, ``<=``, ``>``, ``>=`` or ``!=``.
        limit: 0 of a loop that counts downwards.
        first: whether the body comes before the first test.
        changes: whether the test changes the counter, before it is compared (``--n``) or after (``n--``).
        before: what the head begins with.
        body: without the change of the counter.
    """

    var: str
    down: bool
    test: str
    limit: Expr
    first: bool
    changes: str
    before: Body
    body: Body

    @property
    def seen(self) -> int:
        """By how much the first value that the body sees is below that before the loop."""
        return 1 if self.changes and not self.first else 0

    def rounds(self) -> Expr:
        """How often the body is run, or what is below 1 where that is never, but for ``first``."""
        start = Name(self.var)
        if not self.down:
            length = subtract(self.limit, start)
            return add(length, _ONE) if self.test == "<=" else length
        if self.changes == "after":
            return add(start, _ONE) if self.first else start
        more = add(start, _ONE) if self.test == ">=" else start
        return subtract(more, _ONE) if self.seen else more

    def last(self, rounds: Expr) -> Expr:
        """The counter's value behind the loop."""
        start = Name(self.var)
        end = subtract(start, rounds) if self.down else add(start, rounds)
        return subtract(end, _ONE) if self.seen else end


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkingLoop:
    """A loop that a pointer counts.

    Attributes:
        var: the pointer.
        limit: where it ends, before which it is.
        first: whether the body comes before the first test.
        before: what the head begins with.
        body: with the step of the pointer at its end.
    """

    var: str
    limit: Expr
    first: bool
    before: Body
    body: Body


def read_loop(function: Function, text: str) -> CountingLoop | WalkingLoop | None:
    """A loop that counts by one in its test or at the end of its body, or that a pointer counts; ``None`` for others.

    Args:
        function: that it stands in.
        text: of the whole statement.
    """
    # What stands in parentheses before others may be a type.
    types = sorted(words(text) & number_types(function.file).keys())
    before = "".join(f"typedef int {name};" for name in types)
    nodes = statement_nodes(text, function.language, before=before)
    node = nodes[0] if len(nodes) == 1 else None
    if (
        node is None
        or node.type not in ("while_statement", "do_statement", "for_statement")
        or node.has_error
    ):
        return None
    test, inner = node.child_by_field_name("condition"), node.child_by_field_name("body")
    if test is None or inner is None:
        return None
    body = parse_statements([inner])
    body = body[0].body if len(body) == 1 and isinstance(body[0], Block) else body
    begun: Body = ()
    if node.type == "for_statement":
        begun, steps = (_effects(node.child_by_field_name(f)) for f in ("initializer", "update"))
        body = (*without_continues(body), *steps)
    found = _test(test)
    if found is None:
        return None
    first = node.type == "do_statement"
    kinds = types_of(function) | {s.name: s.type for s in begun if isinstance(s, Decl)}
    if "*" in kinds.get(found.var, ""):
        return _walking(found, body, begun, first=first)
    return _counting(found, body, begun, first=first)


def _effects(node: Node | None) -> Body:
    """What a part of a loop's head does or declares."""
    if node is None:
        return ()
    nodes = statement_nodes(node_text(node).rstrip(";") + ";", "c")
    return parse_statements(nodes) if len(nodes) == 1 else (OpaqueStmt("return;"),)


@dataclass(frozen=True, slots=True)
class _Test:
    """``var op limit``; ``changes`` as in :class:`CountingLoop`."""

    var: str
    op: str
    limit: Expr
    changes: str


def _test(node: Node) -> _Test | None:
    while node.type in ("parenthesized_expression", "condition_clause") and is_enclosed(node):
        node = node.named_children[0]
    left: Node | None = node
    op, changes = "!=", ""
    limit: Expr = _ZERO
    if node.type == "binary_expression":
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        op, limit = operator_of(node), _ZERO if right is None else read_expression(right)
    if left is not None and left.type == "update_expression":
        if "--" not in (c.type for c in left.children):
            return None
        changes = "before" if left.children[0].type == "--" else "after"
        left = left.child_by_field_name("argument")
    if left is None or left.type != "identifier":
        return None
    return _Test(node_text(left), *((">", _ZERO) if (op, limit) == (">=", _ONE) else (op, limit)), changes)


def _counting(test: _Test, body: Body, before: Body, *, first: bool) -> CountingLoop | None:
    down = test.op not in ("<", "<=")
    if down:
        known = test.limit == _ZERO and (
            test.op in (">", "!=") or (test.op == ">=" and test.changes != "after")
        )
    else:
        known = not test.changes
    if not known:
        return None
    if not test.changes:
        parts = _stepping(test.var, body)
        if parts is None or parts[1] != Assign("-=" if down else "+=", Name(test.var), _ONE):
            return None
        body = parts[0]
    return CountingLoop(
        var=test.var,
        down=down,
        test=test.op,
        limit=test.limit,
        first=first,
        changes=test.changes,
        before=before,
        body=body,
    )


def _walking(test: _Test, body: Body, before: Body, *, first: bool) -> WalkingLoop | None:
    parts = _stepping(test.var, body)
    if test.op not in ("<", "!=") or test.changes or parts is None:
        return None
    step = parts[1]
    by = step.value.text if isinstance(step.value, Number) else ""
    if step.op != "+=" or not by.isdigit() or by.startswith("0") or (test.op == "!=" and by != "1"):
        return None
    return WalkingLoop(
        var=test.var, limit=test.limit, first=first, before=before, body=(*parts[0], ExprStmt(step))
    )


def _stepping(var: str, body: Body) -> tuple[Body, Assign] | None:
    """A body without the one step of a counter in it, which nothing behind it looks at, and the step."""
    at = [
        i
        for i, s in enumerate(body)
        if isinstance(s, ExprStmt) and isinstance(s.expr, Assign) and s.expr.target == Name(var)
    ]
    if len(at) != 1 or any(var in names_in(s) | written_names(s) for s in body[at[0] + 1 :]):
        return None
    step = body[at[0]]
    assert isinstance(step, ExprStmt)
    assert isinstance(step.expr, Assign)
    return (*body[: at[0]], *body[at[0] + 1 :]), step.expr
