"""The names that a C, C++ or CUDA text declares, or uses as types, by their looks: none of them is a macro of a build.

May not compile.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from tuner.spaces.source.parse import node_text, parse_file

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["declared_names"]

_NAMES = ("identifier", "field_identifier", "type_identifier")
_WITH_DECLARATORS = (
    "declaration",
    "field_declaration",
    "function_definition",
    "optional_parameter_declaration",
    "parameter_declaration",
    "type_definition",
)
_WITH_NAME = ("alias_declaration", "enumerator", "namespace_definition")


@lru_cache(maxsize=8)
def declared_names(text: str) -> frozenset[str]:
    """Variables, functions, parameters, members, enumerators and types, at any depth.

    >>> sorted(declared_names("const int N = 3; enum { A }; float f(REAL x) { float R2, *Y[4]; return TILE; }"))
    ['A', 'N', 'R2', 'REAL', 'Y', 'f', 'x']
    """
    return frozenset(_names(parse_file(text.encode(), "cuda")))


def _names(root: Node) -> Iterator[str]:
    stack = [root]
    while stack:
        node = stack.pop()
        stack.extend(node.children)
        if node.type == "type_identifier":
            yield node_text(node)
        elif node.type in _WITH_DECLARATORS:
            for declarator in node.children_by_field_name("declarator"):
                yield from _declared(declarator)
        elif node.type in _WITH_NAME and (name := node.child_by_field_name("name")) is not None:
            yield node_text(name)


def _declared(node: Node | None) -> Iterator[str]:
    while node is not None and node.type not in _NAMES:
        inner = node.child_by_field_name("declarator")
        if inner is None and node.type == "reference_declarator" and node.named_children:
            inner = node.named_children[-1]
        node = inner
    if node is not None:
        yield node_text(node)
