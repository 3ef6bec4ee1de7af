"""Nodes of the syntax trees that clang prints as JSON: their children, places and parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["Node", "begin_of", "below", "location_of", "parameter_nodes", "walk"]

Node = dict[str, Any]
"""One node of clang's JSON syntax tree."""


def below(node: Node) -> list[Node]:
    """A node's children, where those of an array's first values have a name of their own too."""
    found: list[Node] = node.get("inner") or node.get("array_filler", [])
    return found


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, parents first, in source order."""
    stack = [node]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(child for child in reversed(below(top)) if child)


def location_of(place: Node) -> Node:
    """What clang's tree says of a place where it lies in the file itself; empty where in one that this includes."""
    found: Node = place.get("expansionLoc", place)
    return {} if "includedFrom" in found else found


def begin_of(node: Node) -> int | None:
    """The byte of the file at which a node begins; ``None`` for one of another file."""
    offset = location_of(node.get("range", {}).get("begin", {})).get("offset")
    return None if offset is None else int(offset)


def parameter_nodes(tree: Node) -> list[Node]:
    """A function's parameters."""
    return [c for c in tree.get("inner", []) if c.get("kind") == "ParmVarDecl"]
