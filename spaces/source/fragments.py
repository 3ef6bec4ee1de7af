"""Texts of one expression, place or list of values, read by themselves.

What cannot be read as one is none. May not judge what a transformation may do.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tuner.spaces.source.expressions import is_enclosed, operator_of, read_expression, read_subscript
from tuner.spaces.source.parse import node_text, statement_nodes
from tuner.spaces.source.syntax import Expr, Field, Index, Name, Number, Opaque

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["parse_expression", "parse_items", "parse_place"]


def parse_expression(text: str, types: Collection[str] = ()) -> Expr:
    """One expression; opaque where it cannot be read as one.

    Args:
        text: of it.
        types: names that are types where it stands.
    """
    inner = statement_nodes(f"({text});", "c", before="".join(f"typedef int {name};" for name in types))
    if len(inner) != 1 or inner[0].type != "expression_statement":
        return Opaque(text)
    return read_expression(inner[0].named_children[0])


def parse_place(text: str) -> Expr | None:
    """A member of a variable or of an element, the types of members left open; ``None`` for anything else."""
    node = _alone(text)
    return None if node is None or node.type != "field_expression" else _place(node)


def parse_items(text: str) -> tuple[Expr, ...] | None:
    """The values in braces, or between commas; ``None`` where one of them says which it is or has braces of its own."""
    braces = text.startswith("{")
    node = _alone(text if braces else f"f({text})", within="v[] = %s" if braces else "%s")
    items = None if node is None else node if braces else node.child_by_field_name("arguments")
    wanted = "initializer_list" if braces else "argument_list"
    if items is None or items.type != wanted or any(c.type == "comment" for c in items.named_children):
        return None
    if any(c.type in ("initializer_pair", "initializer_list") for c in items.named_children):
        return None
    return tuple(read_expression(c) for c in items.named_children)


def _alone(text: str, within: str = "(%s)") -> Node | None:
    """The one expression of a text, or the value that a declaration begins with."""
    declares = "=" in within
    inner = statement_nodes(f"{'int ' if declares else ''}{within % text};", "c")
    if len(inner) != 1:
        return None
    node: Node | None = inner[0]
    if declares:
        declarator = inner[0].child_by_field_name("declarator")
        return None if declarator is None else declarator.child_by_field_name("value")
    if inner[0].type != "expression_statement":
        return None
    node = inner[0].named_children[0]
    while node is not None and node.type == "parenthesized_expression":
        node = node.named_children[0] if is_enclosed(node) else None
    return node


def _place(node: Node) -> Expr | None:
    match node.type:
        case "identifier":
            return Name(node_text(node))
        case "parenthesized_expression" if len(node.named_children) == 1:
            return _place(node.named_children[0])
        case "pointer_expression" if operator_of(node) == "*":
            argument = node.child_by_field_name("argument")
            base = None if argument is None else _place(argument)
            return None if base is None else Index(base, Number("0"))
        case "subscript_expression":
            made = read_subscript(node)
            argument = node.child_by_field_name("argument")
            base = None if argument is None else _place(argument)
            return Index(base, made.index) if isinstance(made, Index) and base is not None else None
        case "field_expression":
            argument, field = (node.child_by_field_name(f) for f in ("argument", "field"))
            base = None if argument is None else _place(argument)
            if base is None or field is None or field.type != "field_identifier":
                return None
            if "->" in (c.type for c in node.children):
                base = Index(base, Number("0"))
            return Field(base, node_text(field), "")
    return None
