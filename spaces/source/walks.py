"""Goes through trees of source: what is in them, what they name and write, and the same tree with something changed.

May not parse, print or judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar, cast, get_args

from tuner.spaces.source.lexical import words
from tuner.spaces.source.memo import kept_by_identity
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Block,
    Call,
    Decl,
    Define,
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
    Param,
    Stmt,
    Ternary,
    Unary,
)

__all__ = [
    "assigned_names",
    "bodies",
    "children",
    "declared_names",
    "evaluated",
    "exchanged",
    "expressions",
    "index_chain",
    "inner_bodies",
    "map_expressions",
    "mentions",
    "names_in",
    "offered",
    "opaque_words",
    "operands",
    "root_of",
    "scoped",
    "statements",
    "substitute",
    "subtrees",
    "transform",
    "with_bodies",
    "without_spares",
    "written_names",
]

Node = Any

T = TypeVar("T")
"""A kind of node that stays of its kind: statements, or any expression."""

_PLAIN = ("str", "bool", "int", "tuple[str, ...]", "Launch | None", "Own")

_PARTS: dict[type, tuple[str, ...]] = {
    cls: tuple(f.name for f in fields(cls) if f.type not in _PLAIN)
    for cls in (*get_args(Expr), *get_args(Stmt), Param, Define, Function)
}
"""Fields of each kind of node that can hold nodes."""

_ONE = {cls: attrgetter(*names) for cls, names in _PARTS.items() if len(names) == 1}
_SEVERAL = {cls: attrgetter(*reversed(names)) for cls, names in _PARTS.items() if len(names) > 1}


_STATEMENTS = frozenset((ExprStmt, Decl, For, If, Block, Function))


def subtrees(node: Node) -> Iterator[Node]:
    """A node and all nodes below it, parents first, in the order of the source."""
    if type(node) is tuple:
        return chain.from_iterable(map(subtrees, node))
    return iter(_kept_below(node) if type(node) in _STATEMENTS else _below(node))


def _below(node: Node) -> tuple[Node, ...]:
    # Most of the time of an evolving search is spent here.
    found: list[Node] = []
    stack = [node]
    pop, push, extend = stack.pop, stack.append, stack.extend
    while stack:
        current = pop()
        kind = type(current)
        if kind is tuple:
            extend(reversed(current))
        elif kind in _STATEMENTS and current is not node:
            found += _kept_below(current)
        elif kind in _SEVERAL:
            found.append(current)
            extend(_SEVERAL[kind](current))
        elif kind in _ONE:
            found.append(current)
            push(_ONE[kind](current))
        elif kind in _PARTS:
            found.append(current)
    return tuple(found)


_kept_below = kept_by_identity(1 << 12)(_below)
"""Of statements, which other trees share."""


def children(node: Node) -> Iterator[Node]:
    """What a node consists of directly; of several nodes each of them."""
    if type(node) is tuple:
        yield from node
    else:
        for name in _PARTS.get(type(node), ()):
            yield getattr(node, name)


def operands(node: Node) -> Iterator[Expr]:
    """The expressions right below a node; of several nodes those among them."""
    for part in children(node):
        yield from (p for p in (part if type(part) is tuple else (part,)) if isinstance(p, Expr))


def inner_bodies(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The lists of statements that a statement is made of."""
    match stmt:
        case For(body=body) | Block(body=body):
            return (body,)
        case If(then=then, other=other):
            return (then, other)
    return ()


def with_bodies(stmt: Stmt, change: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """A statement with the lists of statements that it is made of changed; a copy even where they stay the same."""
    match stmt:
        case For() | Block():
            return replace(stmt, body=change(stmt.body))
        case If():
            return replace(stmt, then=change(stmt.then), other=change(stmt.other))
    return stmt


def bodies(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """A list of statements and all those that are nested in it, outer ones first."""
    yield body
    for stmt in body:
        for part in inner_bodies(stmt):
            yield from bodies(part)


def statements(body: tuple[Stmt, ...], *, spares: bool = True) -> Iterator[Stmt]:
    """All statements, nested ones included, parents first; ``spares``: also those of :attr:`If.spare` branches."""
    stack = [*reversed(body)]
    pop, extend = stack.pop, stack.extend
    while stack:
        stmt = pop()
        yield stmt
        kind = type(stmt)
        if kind is For or kind is Block:
            extend(reversed(cast("For | Block", stmt).body))
        elif kind is If:
            if spares or not cast("If", stmt).spare:
                extend(reversed(cast("If", stmt).other))
            extend(reversed(cast("If", stmt).then))


def scoped(
    body: tuple[Stmt, ...], known: frozenset[str] = frozenset()
) -> Iterator[tuple[Stmt, frozenset[str]]]:
    """:func:`statements`, each with the names that are declared where it stands; of a loop without its own counter."""
    for stmt in body:
        yield stmt, known
        inner = known | {stmt.var} if isinstance(stmt, For) and stmt.type else known
        for part in inner_bodies(stmt):
            yield from scoped(part, inner)
        if isinstance(stmt, Decl):
            known |= {stmt.name}


def offered(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """:func:`statements` without those that are only there for where a condition does not hold (``If.spare``)."""
    return statements(body, spares=False)


def without_spares(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The same without those."""
    return transform(body, lambda n: replace(n, other=()) if isinstance(n, If) and n.spare else n)


def expressions(node: Node) -> Iterator[Expr]:
    """All expressions in a node, parents first."""
    for found in subtrees(node):
        if isinstance(found, Expr):
            yield found


def evaluated(expr: Expr) -> Iterator[Expr]:
    """An expression and the parts of it that are evaluated whenever it is."""
    yield expr
    parts = tuple(operands(expr))
    match expr:
        case Ternary() | Binary(op="&&" | "||"):
            parts = parts[:1]
        case Unary(op="&"):
            parts = ()
        case Assign(op="=", target=target, value=value):
            parts = (value, target.index) if isinstance(target, Index) else (value,)
    for part in parts:
        yield from evaluated(part)


def names_in(node: Node) -> set[str]:
    """All identifiers that a node uses (not those that it declares)."""
    return _union(node, _names_below)


def assigned_names(node: Node) -> set[str]:
    """Variables that a node assigns to as a whole."""
    targets = (n.target for n in subtrees(node) if type(n) is Assign)
    return {t.id for t in targets if type(t) is Name}


def declared_names(body: tuple[Stmt, ...], *, all_counters: bool = False) -> set[str]:
    """Variables that statements declare; counters of loops among them, or all that count."""
    found = (s for s in statements(body) if isinstance(s, Decl | For))
    return {
        s.name if isinstance(s, Decl) else s.var
        for s in found
        if isinstance(s, Decl) or all_counters or s.type
    }


def opaque_words(node: Node) -> set[str]:
    """Words of constructs that operators do not know."""
    texts = (n.text for n in subtrees(node) if isinstance(n, Opaque | OpaqueStmt))
    return {word for text in texts for word in words(text)}


def mentions(node: Node, name: str) -> bool:
    """Whether a node uses, declares or assigns to a name, also in text that operators do not know."""
    return name in names_in(node) or name in written_names(node) or name in opaque_words(node)


def written_names(node: Node) -> set[str]:
    """Variables and arrays that are assigned or declared in a node, loop variables included."""
    return _union(node, _written_below)


def _union(node: Node, below: Callable[[Node], frozenset[str]]) -> set[str]:
    found: set[str] = set()
    if type(node) is tuple:
        for part in node:
            found |= _union(part, below)
    elif node is not None:
        found |= below(node)
    return found


@kept_by_identity(1 << 14)
def _names_below(node: Node) -> frozenset[str]:
    """Of a statement with others in it from those of its parts, which other trees share."""
    found: set[str] = set()
    match node:
        case For():
            return frozenset(names_in((node.start, node.limit, node.step, node.body)))
        case If():
            return frozenset(names_in((node.condition, node.then, node.other)))
        case Block():
            return frozenset(names_in(node.body))
    for item in subtrees(node):
        kind = type(item)
        if kind is Name:
            found.add(item.id)
        elif kind is Call:
            found.add(item.function)
    return frozenset(found)


@kept_by_identity(1 << 14)
def _written_below(node: Node) -> frozenset[str]:
    match node:
        case For():
            parts = (node.start, node.limit, node.step, node.body)
            return frozenset({node.var} | written_names(parts))
        case If():
            return frozenset(written_names((node.condition, node.then, node.other)))
        case Block():
            return frozenset(written_names(node.body))
    found: set[str] = set()
    for item in subtrees(node):
        kind = type(item)
        if kind is Assign:
            base = root_of(item.target)
            if isinstance(base, Name):
                found.add(base.id)
        elif kind is For:
            found.add(item.var)
        elif kind is Decl:
            found.add(item.name)
    return frozenset(found)


def index_chain(expr: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """``a[i][j]`` as ``a`` and ``(i, j)``; anything else has no subscripts."""
    found: list[Expr] = []
    while isinstance(expr, Index):
        found.append(expr.index)
        expr = expr.base
    return expr, tuple(reversed(found))


def root_of(expr: Expr) -> Expr:
    """What an element or a member is of: the ``a`` of ``a[i].x[j]``."""
    while isinstance(expr, Index | Field):
        expr = expr.base
    return expr


def transform(node: T, change: Callable[[Any], Any]) -> T:
    """The tree with ``change`` applied to every node, children first. Shares what stays as it is."""
    if isinstance(node, tuple):
        parts = tuple(transform(n, change) for n in node)
        return node if all(a is b for a, b in zip(parts, node, strict=True)) else cast("T", parts)
    names = _PARTS.get(type(node))
    if names is None:
        return node
    updates: dict[str, Any] = {}
    for name in names:
        value = getattr(node, name)
        made = transform(value, change)
        if made is not value:
            updates[name] = made
    changed: T = change(replace(cast("Any", node), **updates) if updates else node)
    return changed


def map_expressions(node: T, change: Callable[[Expr], Expr]) -> T:
    """:func:`transform` for expressions only."""
    return transform(node, lambda n: change(n) if isinstance(n, Expr) else n)


def exchanged(node: T, old: Expr, new: Expr) -> T:
    """A node with every expression that is equal to one replaced by another."""
    return map_expressions(node, lambda e: new if e == old else e)


def substitute(node: T, name: str, value: Expr) -> T:
    """A node with an identifier replaced by an expression."""
    if name not in names_in(node):
        return node
    return exchanged(node, Name(name), value)
