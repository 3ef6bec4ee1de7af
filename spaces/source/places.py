"""Elements and members as places: what they are of, through which members, with which subscripts.

``a[i].f[k].x`` is a place of ``a``, its path ``f.x``, its subscripts ``i`` and ``k``. Two places of one variable can be
one only where one path begins with the other. May not know types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.spaces.source.kinds import is_pure
from tuner.spaces.source.lexical import words
from tuner.spaces.source.memo import kept_by_identity
from tuner.spaces.source.syntax import (
    Assign,
    Call,
    Decl,
    Expr,
    Field,
    Function,
    Index,
    Name,
    Opaque,
    OpaqueStmt,
    Unary,
)
from tuner.spaces.source.walks import children, names_in, root_of, subtrees

__all__ = [
    "Path",
    "Place",
    "has_members",
    "is_alone",
    "member_paths",
    "member_variable",
    "place_of",
    "places_in",
    "touched",
    "unsteady_members",
]

Path = tuple[str, ...]
"""Names of members, the outermost first."""


@dataclass(frozen=True, slots=True)
class Place:
    """A variable, an element or a member of one.

    Attributes:
        base: what it is of, a name where that is known.
        path: to the member; empty for the variable or its element as a whole.
        outer: subscripts before the first member.
        inner: those behind it.
    """

    base: Expr
    path: Path
    outer: tuple[Expr, ...]
    inner: tuple[Expr, ...]


def place_of(expr: Expr) -> Place:
    """An expression as a place; of anything but a name, an element or a member the base is the expression itself.

    Several components of a vector are no member of it but the whole: their names may stand for the same ones.
    """
    path: list[str] = []
    found: list[Expr] = []
    inner: tuple[Expr, ...] = ()
    while isinstance(expr, Index | Field):
        if isinstance(expr, Index):
            found.append(expr.index)
        elif not expr.several:
            path.append(expr.name)
            inner, found = (*reversed(found), *inner), []
        expr = expr.base
    return Place(expr, tuple(reversed(path)), tuple(reversed(found)), inner)


def has_members(function: Function) -> bool:
    """Whether a function's members of structures have been read."""
    return bool(member_paths(function))


@kept_by_identity(1 << 10)
def member_paths(function: Function) -> Mapping[str, frozenset[Path]]:
    """The paths by which variables are used, of those of which a member is: the empty one is the whole."""
    within = (*function.outer, *function.body)
    if not any(isinstance(n, Field) for n in subtrees(within)):
        return {}
    found: dict[str, set[Path]] = {}
    for _, place in places_in(within):
        if isinstance(place.base, Name):
            found.setdefault(place.base.id, set()).add(place.path)
    return {name: frozenset(paths) for name, paths in found.items() if paths != {()}}


def touched(paths: Mapping[str, frozenset[Path]], name: str, path: Path) -> list[Path]:
    """The paths of a variable that a place touches: its own, and what lies in it."""
    return sorted(p for p in paths.get(name, {path}) if p[: len(path)] == path)


def is_alone(paths: Mapping[str, frozenset[Path]], name: str, path: Path) -> bool:
    """Whether a member is never used but by itself, so that places of it have the same subscripts."""
    return not any(len(p) < len(path) and path[: len(p)] == p for p in paths[name])


def member_variable(variable: str, path: Path) -> str:
    """The name by which a member is told from others, ``a.x@2`` for a variable ``a@2``."""
    name, at, number = variable.partition("@")
    return ".".join((name, *path)) + at + number


@kept_by_identity(1 << 10)
def unsteady_members(function: Function) -> frozenset[str]:
    """Variables whose members may change in a function, so that none of them is one number all the time."""
    paths = member_paths(function)
    if not paths:
        return frozenset()
    targets = (root_of(n.target) for n in subtrees(function.body) if isinstance(n, Assign))
    found = {t.id for t in targets if isinstance(t, Name)} & paths.keys()
    pointers = {p.name for p in function.params if p.is_array}
    for node in subtrees(function.body):
        match node:
            case Unary(op="&", operand=operand):
                found |= names_in(operand) & paths.keys()
            case Call() if not is_pure(node):
                # Of what lies elsewhere, and of what it is given.
                found |= (pointers | names_in(node.arguments)) & paths.keys()
            case Opaque(text=text) | OpaqueStmt(text=text) if text.replace(" ", "") != "return;":
                found |= (pointers | words(text)) & paths.keys()
    return frozenset(found)


def places_in(part: Any) -> Iterator[tuple[Expr, Place]]:
    """Every place in statements, none of them a part of another but in its subscripts."""
    stack = [part]
    while stack:
        node = stack.pop()
        if isinstance(node, Index | Field):
            place = place_of(node)
            yield node, place
            stack += [*place.outer, *place.inner]
            if isinstance(place.base, Name):
                continue
            node = place.base
        elif isinstance(node, Name):
            yield node, place_of(node)
        elif isinstance(node, Decl) and node.init is not None:
            yield Name(node.name), place_of(Name(node.name))
        stack += children(node)
