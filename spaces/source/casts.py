"""Variables in parentheses that the grammar takes for the types of casts: ``(i) + (j) * n``, as macros write it.

Without a table of types both can be meant. What the text declares as a variable is none. May not look at anything but
the tree.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["MAY_BE_CAST", "without_parentheses"]

MAY_BE_CAST = re.compile(rb"\(\s*[A-Za-z_]\w*\s*\)\s*[-+*&]")
"""What a text has to have before its tree is looked through."""

_DECLARING = frozenset(
    {"declaration", "parameter_declaration", "optional_parameter_declaration", "init_declarator"}
)


def without_parentheses(root: Node, text: bytes) -> bytes:
    """The text with spaces for the parentheses around such variables; itself where there are none."""
    casts: list[tuple[Node, Node]] = []
    declared: dict[bytes, set[int]] = {}
    types: set[bytes] = set()
    stack: list[tuple[Node, int]] = [(root, 0)]
    while stack:
        node, function = stack.pop()
        if node.type == "function_definition":
            function = node.start_byte + 1
        if node.type == "cast_expression":
            named = _bare_type(node)
            if named is not None:
                casts.append((named, node))
        elif node.type in _DECLARING:
            for declarator in node.children_by_field_name("declarator"):
                name = _declared(declarator)
                if name is not None:
                    declared.setdefault(name, set()).add(function)
        elif node.type in ("type_definition", "alias_declaration"):
            types |= {c.text or b"" for c in node.named_children if c.type == "type_identifier"}
        stack.extend((child, function) for child in node.children)
    made = bytearray(text)
    for named, cast in casts:
        name = named.text or b""
        within = _function_of(cast)
        if within in declared.get(name, ()) or (0 in declared.get(name, ()) and name not in types):
            for child in cast.children:
                if child.type in ("(", ")"):
                    made[child.start_byte : child.end_byte] = b" "
    return bytes(made)


def _bare_type(cast: Node) -> Node | None:
    """The type of a cast that is one word, of something that could be the right side of an operator."""
    kind, value = cast.child_by_field_name("type"), cast.child_by_field_name("value")
    if kind is None or value is None or value.type not in ("unary_expression", "pointer_expression"):
        return None
    inner = kind.named_children
    return inner[0] if len(inner) == 1 and inner[0].type == "type_identifier" else None


def _declared(declarator: Node) -> bytes | None:
    current: Node | None = declarator
    while current is not None and current.type != "identifier":
        inner = current.child_by_field_name("declarator")
        current = inner or next((c for c in current.named_children if c.type == "identifier"), None)
    return None if current is None else current.text


def _function_of(node: Node) -> int:
    around = node.parent
    while around is not None and around.type != "function_definition":
        around = around.parent
    return 0 if around is None else around.start_byte + 1
