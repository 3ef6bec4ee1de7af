"""Global variables that a function and what it calls use, as parameters that are handed on from call to call.

Everything else of first specs then sees arguments. May not compile; clang is asked for types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tuner.core.errors import BaselineError
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.frames import callee_name, inner_nodes, referenced
from tuner.spec.reading.signature import Function, Node, SourceReader, parameter_nodes, walk

__all__ = ["Globals", "with_globals"]

Lookup = Callable[[str], Function | None]

_MOST_CALLS = 8
"""How deep calls are followed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Globals:
    """A function that gets its global variables as parameters.

    Attributes:
        function: with a parameter for each, behind its own.
        lookup: gives functions as they are called by this one: they take them too.
        names: of the variables.
        doubts: what is said of those that no argument can stand for.
    """

    function: Function
    lookup: Lookup
    names: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()


def with_globals(function: Function, lookup: Lookup, reader: SourceReader) -> Globals:
    """The function with a parameter for each variable outside of functions that it, or what it calls, uses.

    Args:
        function: with its tree.
        lookup: gives other functions by name.
        reader: of the sources, for types.
    """
    used = dict.fromkeys(_used(function, lookup, {function.name}, 0))
    kinds: dict[str, CType] = {}
    doubts = []
    for name in used:
        try:
            kind = reader.types([f"&{name}"])[0]
        except BaselineError:
            doubts.append(f"no argument can stand for the variable {name} of a namespace or another file")
            continue
        if kind.odd or not kind.dtypes:
            what = kind.text.replace(" (*)", "").removesuffix("*").strip()
            doubts.append(f"no argument can stand for the global {name}, `{what}`")
        elif not kind.constant:
            kinds[name] = replace(kind, reference=not kind.inner)
    if not kinds:
        return Globals(function=function, lookup=lookup, doubts=tuple(doubts))
    known: dict[str, Function | None] = {}

    def find(name: str) -> Function | None:
        if name not in known:
            found = lookup(name)
            known[name] = None if found is None else _handed(found, kinds, lookup)
        return known[name]

    return Globals(
        function=_handed(function, kinds, lookup), lookup=find, names=frozenset(kinds), doubts=tuple(doubts)
    )


def _used(function: Function, lookup: Lookup, seen: set[str], depth: int) -> Iterator[str]:
    own = {node["id"] for node in walk(function.tree) if node.get("kind") in ("VarDecl", "ParmVarDecl")}
    for node in walk(function.tree):
        if node.get("kind") == "DeclRefExpr":
            meant = node.get("referencedDecl", {})
            if meant.get("kind") == "VarDecl" and meant["id"] not in own:
                yield str(meant["name"])
        elif node.get("kind") == "CallExpr" and depth < _MOST_CALLS:
            name = callee_name(inner_nodes(node)[0])
            called = lookup(name) if name and name not in seen else None
            if called is not None:
                seen.add(name)
                yield from _used(called, lookup, seen, depth + 1)


def _handed(function: Function, kinds: dict[str, CType], lookup: Lookup) -> Function:
    """A function that takes the variables and hands them on to what it calls."""
    own = {node["id"] for node in walk(function.tree) if node.get("kind") in ("VarDecl", "ParmVarDecl")}
    given: list[Node] = [_reference(name, kind) for name, kind in kinds.items()]

    def changed(node: Node) -> Node:
        if node.get("kind") == "DeclRefExpr":
            meant = node.get("referencedDecl", {})
            name = str(meant.get("name", ""))
            if meant.get("kind") == "VarDecl" and name in kinds and referenced(node) not in own:
                return {**node, "referencedDecl": _meant(name, kinds[name])}
        if "inner" not in node:
            return node
        inner = [changed(child) for child in node["inner"]]
        if node.get("kind") == "CallExpr" and lookup(callee_name(inner_nodes(node)[0])) is not None:
            inner += given
        return {**node, "inner": inner}

    tree = changed(function.tree)
    nodes = [{**_meant(name, kind), "inner": _extents(kind)} for name, kind in kinds.items()]
    before = parameter_nodes(tree)
    after = [child for child in tree["inner"] if child.get("kind") != "ParmVarDecl"]
    return replace(
        function,
        parameters=(*function.parameters, *kinds.items()),
        tree={**tree, "inner": [*before, *nodes, *after]},
    )


def _meant(name: str, kind: CType) -> Node:
    return {"id": f"global {name}", "kind": "ParmVarDecl", "name": name, "type": {"qualType": kind.text}}


def _reference(name: str, kind: CType) -> Node:
    return {
        "id": f"reference to {name}",
        "kind": "DeclRefExpr",
        "valueCategory": "lvalue",
        "type": {"qualType": kind.text},
        "referencedDecl": _meant(name, kind),
    }


def _extents(kind: CType) -> list[Node]:
    """The type's node, as clang gives it of an array that is declared with its extents."""
    made: list[Node] = []
    for extent in reversed(kind.inner):
        made = [{"kind": "ConstantArrayType", "size": extent, "inner": made}]
    return made
