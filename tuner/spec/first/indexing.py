"""Which array arguments hold what may be an index, a bound or a count: their values cannot be just any.

Guesses for a first spec only, and careful: what is not seen to be plain data counts as an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tuner.spec.reading.nodes import Node, named_in, parameter_nodes, walk
from tuner.spec.reading.signature import Function

__all__ = ["NARROW", "index_arrays"]

NARROW = {
    "unsigned char": 1 << 8,
    "uint8_t": 1 << 8,
    "unsigned short": 1 << 16,
    "uint16_t": 1 << 16,
}
"""What an array has to hold whose index is an element of a narrow type, as the bins of a histogram of bytes."""

_MAX_CALLS = 3
_LOOPS = {
    "ForStmt": slice(0, -1),
    "WhileStmt": slice(0, 1),
    "DoStmt": slice(1, None),
    "SwitchStmt": slice(0, 1),
}
"""Where a statement says how often, or where it goes on."""
_BY = {"/", "%", "<<", ">>"}
"""Not defined for every right-hand side."""


def index_arrays(function: Function, lookup: Callable[[str], Function | None]) -> frozenset[int]:
    """Positions of the pointer arguments whose elements may reach an index, a loop's bound or an unknown function.

    Args:
        function: with its tree.
        lookup: gives other functions of the file by name.
    """
    return _positions(function, lookup, ())


def _positions(
    function: Function, lookup: Callable[[str], Function | None], within: tuple[str, ...]
) -> frozenset[int]:
    tree = function.tree
    reached = {name for node in walk(tree) for part in _places(node, lookup, within) for name in _names(part)}
    flows = list(_flows(tree))
    before = -1
    while len(reached) > before:
        before = len(reached)
        for target, value in flows:
            if target in reached:
                reached |= set(_names(value))
    return frozenset(
        i
        for i, (node, (_, kind)) in enumerate(zip(parameter_nodes(tree), function.parameters, strict=False))
        if kind.pointer and node["id"] in reached
    )


def _places(node: Node, lookup: Callable[[str], Function | None], within: tuple[str, ...]) -> Iterator[Node]:
    """The parts of a node whose value decides where or how often."""
    kind = node.get("kind", "")
    inner = [child or {} for child in node.get("inner", [])]
    if kind == "ArraySubscriptExpr":
        if not _is_byte(inner[1]):
            yield inner[1]
    elif kind in _LOOPS:
        yield from inner[_LOOPS[kind]]
    elif kind == "BinaryOperator" and node.get("opcode") in ("+", "-") and "*" in _type(node):
        yield from (child for child in inner if "*" not in _type(child))
    elif node.get("opcode", "").rstrip("=") in _BY:
        yield inner[1]
    elif kind == "CallExpr" and inner:
        yield from _handed_over(inner, lookup, within)


def _handed_over(
    inner: list[Node], lookup: Callable[[str], Function | None], within: tuple[str, ...]
) -> Iterator[Node]:
    """The arguments of a call of which it is not known that they are plain data."""
    name = next(
        (str(n["referencedDecl"].get("name", "")) for n in walk(inner[0]) if "referencedDecl" in n), ""
    )
    followed = lookup(name) if name and name not in within and len(within) < _MAX_CALLS else None
    arguments = inner[1:]
    if followed is None or len(followed.parameters) != len(arguments):
        yield from arguments
        return
    indices = _positions(followed, lookup, (*within, name))
    for i, (argument, (_, kind)) in enumerate(zip(arguments, followed.parameters, strict=True)):
        if i in indices or not kind.pointer:
            yield argument


def _flows(tree: Node) -> Iterator[tuple[str, Node]]:
    """What is written to which variable or array."""
    for node in walk(tree):
        inner = [child or {} for child in node.get("inner", [])]
        if node.get("kind") == "VarDecl" and inner:
            yield node["id"], inner[-1]
        elif node.get("kind") == "CompoundAssignOperator" or node.get("opcode") == "=":
            yield _base(inner[0]), inner[1]


def _base(place: Node) -> str:
    """The variable or array that a place to write to belongs to; what it is indexed with is not written."""
    while "referencedDecl" not in place and place.get("inner"):
        place = place["inner"][0] or {}
    return str(place.get("referencedDecl", {}).get("id", ""))


def _is_byte(index: Node) -> bool:
    """Whether an index is an element of a narrow type itself: what it indexes then holds all that it can be."""
    while index.get("kind") in ("ParenExpr", "ImplicitCastExpr", "CStyleCastExpr") and index.get("inner"):
        index = index["inner"][0] or {}
    named = {_type(index), str(index.get("type", {}).get("desugaredQualType", ""))}
    return index.get("kind") == "ArraySubscriptExpr" and any(n.replace("const ", "") in NARROW for n in named)


def _names(node: Node) -> Iterator[str]:
    return (str(meant.get("id", "")) for meant in named_in(node))


def _type(node: Node) -> str:
    return str(node.get("type", {}).get("qualType", ""))
