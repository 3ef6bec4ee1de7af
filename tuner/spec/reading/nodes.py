"""Nodes of the syntax trees that clang prints as JSON: their children, places and parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from tuner.core.source_text import source_text

__all__ = [
    "LOOPS",
    "Node",
    "begin_of",
    "below",
    "body_of",
    "location_of",
    "named_in",
    "parameter_nodes",
    "paths",
    "plain_type",
    "span_of",
    "stop_of",
    "text_of",
    "walk",
]

Node = dict[str, Any]
"""One node of clang's JSON syntax tree."""

LOOPS = ("ForStmt", "WhileStmt", "DoStmt", "CXXForRangeStmt")


def below(node: Node) -> list[Node]:
    """A node's children, where those of an array's first values have a name of their own too."""
    found: list[Node] = node.get("inner") or node.get("array_filler", [])
    return found


def walk(node: Node, without: Collection[str] = ()) -> Iterator[Node]:
    """A node and all below it, parents first, in source order, but for nodes of some kinds and what is below them."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(child for child in reversed(below(top)) if child and child.get("kind") not in without)


def paths(node: Node) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """A node and all below it, each with those around it, the innermost first."""
    stack: list[tuple[Node, tuple[Node, ...]]] = [(node, ())]
    while stack:
        top, around = stack.pop()
        yield top, around
        stack.extend((child, (top, *around)) for child in reversed(below(top)) if child)


def named_in(node: Node) -> Iterator[Node]:
    """What the names in a tree stand for, as clang repeats it there."""
    for each in walk(node):
        if each.get("kind") == "DeclRefExpr":
            yield each.get("referencedDecl", {})


def plain_type(node: Node) -> str:
    """A node's type without names that stand for others; empty where it has none."""
    kind = node.get("type", {})
    return str(kind.get("desugaredQualType", kind.get("qualType", "")))


def location_of(place: Node) -> Node:
    """What clang's tree says of a place where it lies in the file itself; empty where in one that this includes."""
    found: Node = place.get("expansionLoc", place)
    return {} if "includedFrom" in found else found


def begin_of(node: Node) -> int | None:
    """The byte of the file at which a node begins; ``None`` for one of another file."""
    offset = location_of(node.get("range", {}).get("begin", {})).get("offset")
    return None if offset is None else int(offset)


def stop_of(node: Node) -> int:
    """The byte of the file behind a node that begins there."""
    place = location_of(node["range"]["end"])
    return int(place["offset"]) + int(place["tokLen"])


def span_of(node: Node) -> tuple[int, int] | None:
    """Bytes of the file that a node takes; ``None`` where they are a macro's or another file's."""
    begin, end = (node.get("range", {}).get(key, {}) for key in ("begin", "end"))
    if "offset" not in begin or "offset" not in end or "includedFrom" in begin:
        return None
    return int(begin["offset"]), int(end["offset"]) + int(end["tokLen"])


def text_of(node: Node, data: bytes) -> str:
    """A node as it is written in the file; empty where that does not have it as a whole."""
    span = span_of(node)
    return "" if span is None else source_text(data[span[0] : span[1]])


def parameter_nodes(tree: Node) -> list[Node]:
    """A function's parameters."""
    return [c for c in tree.get("inner", []) if c.get("kind") == "ParmVarDecl"]


def body_of(tree: Node) -> Node:
    """A function's statements; empty where it is only declared."""
    return next((c for c in tree.get("inner", []) if c.get("kind") == "CompoundStmt"), {})
