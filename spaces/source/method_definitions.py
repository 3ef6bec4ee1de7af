"""Methods that one of the same class may call: those whose text means in it what it means where it stands.

Only ``const`` ones that a class defines in its body: they are called by their bare names, on the same object, whose
members both name alike. May not say what they change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.spaces.source.definitions import read_function
from tuner.spaces.source.parse import function_nodes, is_outermost, node_text, parse_file
from tuner.spaces.source.reading import parse_statements
from tuner.spaces.source.syntax import Function

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["method_definitions"]

_CLASSES = ("class_specifier", "struct_specifier")
_AROUND = (
    "declaration_list",
    "namespace_definition",
    "linkage_specification",
    "field_declaration_list",
    *_CLASSES,
)
_ODD = ("virtual", "virtual_specifier", "ref_qualifier", "trailing_return_type")


def method_definitions(text: str, name: str) -> dict[str, Function]:
    """By their bare names; none where no class of the text, or more than one, has a function of that name.

    Args:
        text: in C++.
        name: of a function, with the scopes that are written with it.
    """
    scope, _, last = name.rpartition("::")
    classes = [c for c in _classes(parse_file(text.encode(), "c++")) if last in _members(c)]
    classes = [c for c in classes if not scope or f"::{scope}".endswith(f"::{_name(c)}")]
    if len(classes) != 1:
        return {}
    (found,) = classes
    names = _members(found)
    made: dict[str, Function] = {}
    for bare, node in function_nodes(found):
        body = node.child_by_field_name("body")
        plain = (
            names.count(bare) == 1 and _is_plain(node) and node.parent == found.child_by_field_name("body")
        )
        if plain and body is not None and body.type == "compound_statement":
            function = read_function(bare, node, parse_statements(body.named_children), text)
            made[bare] = replace(function, language="c++")
    return made


def _classes(root: Node) -> Iterator[Node]:
    """Classes that are no templates and within nothing but namespaces and other classes."""
    stack = [root]
    while stack:
        node = stack.pop()
        whole = node.type in _CLASSES and node.child_by_field_name("body") is not None
        if whole and is_outermost(node, (*_AROUND, "translation_unit")):
            yield node
        stack.extend(node.children)


def _name(node: Node) -> str:
    name = node.child_by_field_name("name")
    return "" if name is None else node_text(name)


def _members(node: Node) -> list[str]:
    """Names that a class declares, as often as it declares them."""
    body = node.child_by_field_name("body")
    stack, found = list(body.named_children) if body is not None else [], list[str]()
    while stack:
        each = stack.pop()
        if each.type == "field_identifier":
            found.append(node_text(each))
        elif each.type not in ("compound_statement", "parameter_list", *_CLASSES):
            stack.extend(each.named_children)
    return found


def _is_plain(node: Node) -> bool:
    """Whether a definition says that it changes no member, and that no other class has one in its place."""
    declarator = node.child_by_field_name("declarator")
    if declarator is None or any(child.type in _ODD for child in (*node.children, *declarator.children)):
        return False
    kinds = [node_text(child) for child in declarator.children if child.type == "type_qualifier"]
    return kinds == ["const"]
