"""Global variables that a function and what it calls use, as parameters that are handed on from call to call.

Everything else of first specs then sees arguments. May not compile; clang is asked for types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tuner.core.errors import BaselineError
from tuner.spec.reading.c_types import ROWS, CType
from tuner.spec.reading.frames import THROUGH, callee_name, inner_nodes, referenced
from tuner.spec.reading.signature import Function, Node, SourceReader, parameter_nodes, walk

__all__ = ["Globals", "with_globals"]

Lookup = Callable[[str], Function | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Globals:
    """A function that gets its global variables as parameters.

    Attributes:
        function: with a parameter for each, behind its own.
        lookup: gives functions as they are called by this one: they take them too.
        names: of the variables, each with what a spec says of it: `true`, or `pointer`.
        flags: those that are only asked whether they are 0.
        doubts: what is said of those that no argument can stand for.
    """

    function: Function
    lookup: Lookup
    names: Mapping[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    doubts: tuple[str, ...] = ()


def with_globals(function: Function, lookup: Lookup, reader: SourceReader) -> Globals:
    """The function with a parameter for each variable outside of functions that it, or what it calls, uses.

    Args:
        function: with its tree.
        lookup: gives other functions by name.
        reader: of the sources, for types.
    """
    reached = _reached(function, lookup)
    used = dict.fromkeys(name for each in reached for name in _used(each))
    kinds: dict[str, CType] = {}
    names: dict[str, str] = {}
    doubts = []
    for name in used:
        try:
            kind, itself = reader.types([f"&{name}", name])
        except BaselineError:
            doubts.append(f"no argument can stand for the variable {name} of a namespace or another file")
            continue
        if kind.odd == ROWS and not itself.odd and itself.dtypes:
            kinds[name], names[name] = itself, "pointer"
        elif kind.odd or not kind.dtypes:
            what = kind.text.replace(" (*)", "").removesuffix("*").strip()
            doubts.append(f"no argument can stand for the global {name}, `{what}`")
        elif not kind.constant:
            kinds[name], names[name] = replace(kind, reference=not kind.inner), "true"
    if not kinds:
        return Globals(function=function, lookup=lookup, doubts=tuple(doubts))
    known: dict[str, Function | None] = {}

    def find(name: str) -> Function | None:
        if name not in known:
            found = lookup(name)
            known[name] = None if found is None else _handed(found, kinds, names, lookup)
        return known[name]

    flags = frozenset(name for name, kind in kinds.items() if kind.reference)
    flags = flags.difference(*(_reckoned(each.tree) for each in reached))
    return Globals(
        function=_handed(function, kinds, names, lookup),
        lookup=find,
        names=names,
        flags=flags,
        doubts=tuple(doubts),
    )


def _reckoned(node: Node, *, asked: bool = False) -> frozenset[str]:
    """Names of variables that are more than asked whether they are 0.

    Args:
        node: whose names are meant.
        asked: whether only that is asked of its value.
    """
    inner = inner_nodes(node)
    kind = node.get("kind")
    if kind == "DeclRefExpr":
        return frozenset() if asked else frozenset({str(node.get("referencedDecl", {}).get("name", ""))})
    found = frozenset[str]()
    for place, child in enumerate(inner):
        question = (
            (kind in ("IfStmt", "ConditionalOperator") and place == 0)
            or node.get("opcode") in ("!", "&&", "||")
            or (asked and kind in THROUGH)
        )
        found |= _reckoned(child, asked=question)
    return found


def _reached(function: Function, lookup: Lookup) -> list[Function]:
    """A function and those that it calls, as far as they are known."""
    found, seen = [function], {function.name}
    for caller in found:
        for node in walk(caller.tree):
            name = callee_name(inner_nodes(node)[0]) if node.get("kind") == "CallExpr" else ""
            called = lookup(name) if name and name not in seen else None
            seen.add(name)
            found += [] if called is None else [called]
    return found


def _used(function: Function) -> Iterator[str]:
    own = {node["id"] for node in walk(function.tree) if node.get("kind") in ("VarDecl", "ParmVarDecl")}
    for node in walk(function.tree):
        meant = node.get("referencedDecl", {}) if node.get("kind") == "DeclRefExpr" else {}
        if meant.get("kind") == "VarDecl" and meant["id"] not in own:
            yield str(meant["name"])


def _handed(
    function: Function, kinds: Mapping[str, CType], names: Mapping[str, str], lookup: Lookup
) -> Function:
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
    nodes = [
        {**_meant(name, kind), "inner": _extents(kind, pointer=names[name] == "pointer")}
        for name, kind in kinds.items()
    ]
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


def _extents(kind: CType, *, pointer: bool) -> list[Node]:
    """The type's node, as clang gives it of an array that is declared with its extents."""
    made: list[Node] = []
    for extent in reversed(kind.inner):
        made = [{"kind": "ConstantArrayType", "size": extent, "inner": made}]
    if pointer:
        made = [{"kind": "PointerType", "inner": made}]
    return made
