"""The tree that source transformations work on: a small, immutable part of C.

What is outside that part is kept as text in :class:`Opaque` nodes, which no operator looks into. May not parse,
print or judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, cast

from tuner.core.types import Launch
from tuner.spaces.source.memo import kept_by_identity

__all__ = [
    "Assign",
    "Binary",
    "Block",
    "Call",
    "Cast",
    "Comment",
    "Decl",
    "Define",
    "Expr",
    "ExprStmt",
    "For",
    "Function",
    "If",
    "Index",
    "Name",
    "Number",
    "Opaque",
    "OpaqueStmt",
    "Param",
    "Settled",
    "Stmt",
    "Ternary",
    "Unary",
    "expressions",
    "index_chain",
    "map_expressions",
    "names_in",
    "statements",
    "substitute",
    "subtrees",
    "transform",
    "written_names",
]


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier."""

    id: str


@dataclass(frozen=True, slots=True)
class Number:
    """A literal, spelt as in the source."""

    text: str


@dataclass(frozen=True, slots=True)
class Unary:
    """A prefix operator: ``-``, ``+``, ``!``, ``~``, ``*`` or ``&``."""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary:
    """An infix operator without side effect."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Ternary:
    """``condition ? then : other``."""

    condition: Expr
    then: Expr
    other: Expr


@dataclass(frozen=True, slots=True)
class Index:
    """``base[index]``."""

    base: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a named function."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """``(type)operand``."""

    type: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class Assign:
    """``target op value`` with ``=``, ``+=`` and so on; ``x++`` is read as ``x += 1``."""

    op: str
    target: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Opaque:
    """An expression that is only known as text."""

    text: str


Expr = Name | Number | Unary | Binary | Ternary | Index | Call | Cast | Assign | Opaque


@dataclass(frozen=True, slots=True)
class ExprStmt:
    """An expression for its effect."""

    expr: Expr


@dataclass(frozen=True, slots=True)
class Decl:
    """One local variable; ``type`` has the qualifiers and stars, ``suffix`` attributes."""

    type: str
    name: str
    dims: tuple[Expr, ...] = ()
    init: Expr | None = None
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class For:
    """A counting loop ``for (type var = start; var op limit; var += step)``.

    Attributes:
        key: the loop's label in edits: its variable, and a number where several loops share it. Unique in its
            function, kept by transformations.
        type: of a variable declared in the loop's head; empty when it is declared before.
        op: ``<``, ``<=``; with a downward step ``>``, ``>=``.
        step: what is added each time (``>`` and ``>=``: taken away), positive.
        pragmas: lines before the loop, without ``#pragma``.
    """

    key: str
    type: str
    var: str
    start: Expr
    op: str
    limit: Expr
    step: Expr
    body: tuple[Stmt, ...]
    pragmas: tuple[str, ...] = ()

    @property
    def upward(self) -> bool:
        """Whether the variable grows."""
        return self.op in ("<", "<=")

    @property
    def by_one(self) -> bool:
        """Whether each value in the range is visited."""
        return self.step == Number("1")


@dataclass(frozen=True, slots=True)
class If:
    """A conditional statement."""

    condition: Expr
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Block:
    """A compound statement with a scope of its own."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on lines of its own."""

    text: str


@dataclass(frozen=True, slots=True)
class OpaqueStmt:
    """A statement that is only known as text."""

    text: str


Stmt = ExprStmt | Decl | For | If | Block | Comment | OpaqueStmt


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a function.

    Attributes:
        base: the type without stars, qualifiers of the pointee included.
        stars: how many levels of pointer.
        qualifiers: of the pointer itself, for example ``restrict``.
        suffix: array dimensions as text.
        text: the parameter's text as given.
    """

    base: str
    stars: int
    qualifiers: tuple[str, ...]
    name: str
    suffix: str
    text: str

    @property
    def is_array(self) -> bool:
        """Whether it points to elements."""
        return self.stars > 0 or bool(self.suffix)

    @property
    def plain(self) -> bool:
        """Whether it is a scalar or one pointer to scalars."""
        return not self.suffix and self.stars <= 1 and "(" not in self.text


@dataclass(frozen=True, slots=True)
class Define:
    """A tunable's default in the emitted source."""

    name: str
    value: str


Settled = tuple[tuple[str, int], ...]
"""Tunables with the values that a text was configured for, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """What one region may change of one function.

    Attributes:
        name: the function's.
        head: everything of its definition before the name.
        signature: its text up to the body's brace as given; empty once the parameters have been changed.
        params: in order.
        body: the statements that may change.
        outer: declarations of the function that lie outside the region.
        whole: whether the region holds the definition, signature included.
        defines: tunables that were added.
        preamble: type definitions that were added.
        source: all files' texts, for names that are taken.
        file: the text of its own file, for the functions that it calls.
        settled: values of tunables that its text was configured for; ``None`` where it was not.
        language: of the file: ``c``, ``c++``, ``opencl`` or ``cuda``.
        launch: of the function where it is the kernel that is launched; operators may change it.
    """

    name: str
    head: str
    signature: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    outer: tuple[Decl, ...] = ()
    whole: bool = True
    defines: tuple[Define, ...] = ()
    preamble: tuple[str, ...] = ()
    source: str = ""
    file: str = ""
    settled: Settled | None = None
    language: str = "c"
    launch: Launch | None = None


Node = Any

_PLAIN = ("str", "bool", "int", "tuple[str, ...]", "Launch | None", "Settled | None")

_PARTS: dict[type, tuple[str, ...]] = {
    cls: tuple(f.name for f in fields(cls) if f.type not in _PLAIN)
    for cls in (
        *(Name, Number, Unary, Binary, Ternary, Index, Call, Cast, Assign, Opaque, ExprStmt, Decl, For),
        *(If, Block, Comment, OpaqueStmt, Param, Define, Function),
    )
}
"""Fields of each kind of node that can hold nodes."""

_ONE = {cls: attrgetter(*names) for cls, names in _PARTS.items() if len(names) == 1}
_SEVERAL = {cls: attrgetter(*reversed(names)) for cls, names in _PARTS.items() if len(names) > 1}


def subtrees(node: Node) -> Iterator[Node]:
    """A node and all nodes below it, parents first, in the order of the source."""
    # Most of the time of an evolving search is spent here.
    stack = [node]
    pop, push, extend = stack.pop, stack.append, stack.extend
    while stack:
        current = pop()
        kind = type(current)
        if kind is tuple:
            extend(reversed(current))
        elif kind in _SEVERAL:
            yield current
            extend(_SEVERAL[kind](current))
        elif kind in _ONE:
            yield current
            push(_ONE[kind](current))
        elif kind in _PARTS:
            yield current


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """All statements, nested ones included, parents first."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, For | Block):
            yield from statements(stmt.body)
        elif isinstance(stmt, If):
            yield from statements(stmt.then)
            yield from statements(stmt.other)


def expressions(node: Node) -> Iterator[Expr]:
    """All expressions in a node, parents first."""
    for found in subtrees(node):
        if isinstance(found, Expr):
            yield found


def names_in(node: Node) -> set[str]:
    """All identifiers that a node uses (not those that it declares)."""
    return _union(node, _names_below)


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
            base, _ = index_chain(item.target)
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


def transform(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with ``change`` applied to every node, children first. Shares what stays as it is."""
    if type(node) is tuple:
        parts = tuple(transform(n, change) for n in node)
        return node if all(a is b for a, b in zip(parts, node, strict=True)) else parts
    names = _PARTS.get(type(node))
    if names is None:
        return node
    updates: dict[str, Any] = {}
    for name in names:
        value = getattr(node, name)
        made = transform(value, change)
        if made is not value:
            updates[name] = made
    return change(replace(cast("Any", node), **updates) if updates else node)


def map_expressions(node: Node, change: Callable[[Expr], Expr]) -> Node:
    """:func:`transform` for expressions only."""
    return transform(node, lambda n: change(n) if isinstance(n, Expr) else n)


def substitute(node: Node, name: str, value: Expr) -> Node:
    """A node with an identifier replaced by an expression."""
    return map_expressions(node, lambda e: value if e == Name(name) else e)
