"""Tests of counting loops as comparisons of the counter: ``i + 1 < n`` is ``i < n - 1``, ``i != n`` is ``i < n``.

May not judge a loop's body but for what a test depends on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from tuner.spaces.source.affine import plus
from tuner.spaces.source.kinds import MAY_WRAP, is_integer, is_pure, is_unsigned
from tuner.spaces.source.number_types import number_types, without_names
from tuner.spaces.source.parse import declared_type, file_text
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Decl,
    Expr,
    For,
    If,
    Name,
    Number,
    OpaqueStmt,
    Stmt,
)
from tuner.spaces.source.walks import names_in, opaque_words, statements, subtrees, written_names

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Head", "guarded", "loop_head", "tested"]

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LITERAL = re.compile(r"\d{1,9}")
"""Numbers that are added to a counter, and from which no difference overflows but at the ends of its type."""


class Head(NamedTuple):
    """How a loop goes on.

    Attributes:
        op: how the counter is compared.
        limit: with what.
        step: what is added or taken away each time.
        guard: without which the loop has no iteration, where the limit says so only above it: ``n > 1`` for
            ``i < n - 1`` in a type without a sign.
    """

    op: str
    limit: Expr
    step: Expr
    guard: Expr | None = None


class _Compared(NamedTuple):
    op: str
    added: int
    limit: Expr


def tested(test: Expr, begun: Sequence[Decl]) -> Decl | None:
    """The variable that a loop's test compares with something else, or else a sum of it and a number; if it is one."""
    found = [(d, _compared(test, d.name)) for d in begun] if isinstance(test, Binary) else []
    alone = [d for d, compared in found if compared is not None and not compared.added]
    several = alone or [d for d, compared in found if compared is not None]
    return several[0] if len(several) == 1 else None


def loop_head(node: Node, counter: Decl, test: Expr, change: Assign, body: tuple[Stmt, ...]) -> Head | None:
    """A loop's head by its counter alone; nothing where the counter's type does not allow that.

    Args:
        node: of the loop.
        counter: with its first value, without a type where it is declared before the loop.
        test: whether there is one more iteration.
        change: of the counter behind each.
        body: of the loop.
    """
    compared = _compared(test, counter.name) if isinstance(test, Binary) else None
    if compared is None:
        return None
    op, added, limit = compared
    if op == "!=":
        op = _direction(node, counter, change, body) if not added else ""
    step = _loop_step(change, counter.name, upward=op in ("<", "<="))
    if op not in _MIRRORED or step is None:
        return None
    head = Head(op, limit, step)
    return _by_counter(node, counter, head, added, body) if added else head


def guarded(head: Head, loop: For) -> Stmt:
    """A loop under its guard, and under those of the loops in it where nothing in it changes them."""
    guards = [] if head.guard is None else [head.guard]
    within: tuple[Stmt, ...] = loop.body
    further: list[Expr] = []
    while len(within) == 1 and isinstance(within[0], If) and not within[0].other:
        further.append(within[0].condition)
        within = within[0].then
    inner = within[0] if len(within) == 1 else None
    if further and loop.type and isinstance(inner, For) and set(further) <= set(_guards_of(inner)):
        names = names_in(tuple(further))
        if loop.var not in names and _keeps(within, names):
            loop = replace(loop, body=within)
            guards += [g for g in further if g not in guards]
    made: Stmt = loop
    for guard in reversed(guards):
        made = If(guard, (made,))
    return made


def _guards_of(loop: For) -> Iterator[Expr]:
    """Guards that the loops of a perfect nest can have been read with."""
    inner: Stmt = loop
    while isinstance(inner, For):
        limit, op = inner.limit, inner.op
        match limit:
            case Binary(op="-", right=Number(text=text)) if _LITERAL.fullmatch(text):
                yield Binary(_GUARDS.get(op, ""), limit.left, limit.right)
        if len(inner.body) != 1:
            break
        inner = inner.body[0]


_GUARDS = {"<": ">", "<=": ">="}


def _compared(test: Binary, counter: str) -> _Compared | None:
    """A comparison as one of a counter, and what is added to it there."""
    for side, limit, op in (
        (test.left, test.right, test.op),
        (test.right, test.left, _MIRRORED.get(test.op, test.op)),
    ):
        match side:
            case Name(id=name) if name == counter:
                return _Compared(op, 0, limit)
            case (
                Binary(op="+" | "-" as sign, left=Name(id=name), right=Number(text=text))
                | Binary(op="+" as sign, left=Number(text=text), right=Name(id=name))
            ) if name == counter and _LITERAL.fullmatch(text) and counter not in names_in(limit):
                return _Compared(op, int(text) if sign == "+" else -int(text), limit)
    return None


def _by_counter(node: Node, counter: Decl, head: Head, added: int, body: tuple[Stmt, ...]) -> Head | None:
    """A head whose test adds a number to the counter, as one that takes it from the limit.

    In signed types both overflow at the ends of the type alone. In others a difference wraps around below 0: there
    the limit has to be larger than what is taken from it.
    """
    limit = head.limit
    known = all(
        isinstance(e, Name | Binary) or (isinstance(e, Number) and _LITERAL.fullmatch(e.text))
        for e in subtrees(limit)
    )
    kinds = {name: _kind(node, name) for name in names_in(limit)}
    own = _kind(node, counter.name, counter.type)
    if not known or not all(map(is_integer, (own, *kinds.values()))):
        return None
    made = head._replace(limit=plus(limit, -added))
    if not any(MAY_WRAP.search(kind) for kind in (own, *kinds.values())):
        return made
    first = counter.init
    from_zero = is_unsigned(own) or (isinstance(first, Number) and _LITERAL.fullmatch(first.text))
    wraps = bool(kinds) and all(map(is_unsigned, kinds.values()))
    if added < 0 or head.op not in _GUARDS or not from_zero:
        return None
    if isinstance(made.limit, Number):
        return made
    if not (wraps and first is not None and is_pure(first)):
        return None
    if not _keeps(body, names_in(limit)):
        return None
    return made._replace(guard=Binary(_GUARDS[head.op], limit, Number(str(added))))


def _kind(node: Node, name: str, known: str = "") -> str:
    """A variable's type as the language has it."""
    return without_names(known or declared_type(node, name), number_types(file_text(node)))


def _direction(node: Node, counter: Decl, change: Assign, body: tuple[Stmt, ...]) -> str:
    """``i != n`` as a comparison, in signed numbers that go by one: past ``n`` they would overflow."""
    kind = _kind(node, counter.name, counter.type)
    signed = is_integer(kind) and MAY_WRAP.search(kind) is None
    opaque = any(isinstance(s, OpaqueStmt) for s in statements(body))
    if not signed or change.value != Number("1") or opaque:
        return ""
    return {"+=": "<", "-=": ">"}.get(change.op, "")


def _keeps(body: tuple[Stmt, ...], names: set[str]) -> bool:
    """Whether statements leave variables as they are, those included that called functions may reach."""
    calls = (e for e in subtrees(body) if isinstance(e, Call))
    return names.isdisjoint(written_names(body) | opaque_words(body)) and all(
        is_pure(replace(call, arguments=())) for call in calls
    )


def _loop_step(change: Expr, var: str, *, upward: bool) -> Expr | None:
    if not isinstance(change, Assign) or change.target != Name(var):
        return None
    wanted = "+" if upward else "-"
    if change.op == f"{wanted}=":
        return change.value
    value = change.value
    if change.op == "=" and isinstance(value, Binary) and value.op == wanted and value.left == Name(var):
        return value.right
    return None
