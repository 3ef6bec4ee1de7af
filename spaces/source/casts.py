"""Variables in parentheses that the grammar takes for the types of casts: ``(i) + (j) * n``, as macros write it.

Without a table of types both can be meant. What the text declares as a variable is none. May not look at anything but
the tree.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["MAY_BE_CAST", "doubtful", "without_parentheses"]

MAY_BE_CAST = re.compile(rb"\(\s*[A-Za-z_]\w*\s*(?:[\[(].*[\])]\s*)?\)\s*[-+*&]")
"""What a text has to have before its tree is looked through."""

_MAY_BE_TEMPLATE = re.compile(rb"<[^;]*(?:[&|^]|[!=]=|\band\b|\bor\b)[^;]*>")

_TYPE = re.compile(r"\w+_t|_?Bool|half|u(char|short|int|long)|(u?(char|short|int|long)|half|float|double)\d+")
_ENCLOSING = ("parenthesized_expression", "argument_list")
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
        # Nothing is cast to an array or a function.
        element = named.next_named_sibling is not None
        if element or within in declared.get(name, ()) or (0 in declared.get(name, ()) and name not in types):
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
    never = len(inner) == 2 and inner[1].type in ("abstract_array_declarator", "abstract_function_declarator")
    return inner[0] if (len(inner) == 1 or never) and inner[0].type == "type_identifier" else None


def doubtful(node: Node) -> bool:
    """Whether an expression holds, outside of parentheses, what may be a cast and may be a sum or product.

    Or what may be a call of a template and may be two comparisons: ``a + b < n && c > (d)``. How the rest binds hangs
    on that.
    """
    text = node.text or b""
    if node.type in _ENCLOSING or (
        MAY_BE_CAST.search(text) is None and _MAY_BE_TEMPLATE.search(text) is None
    ):
        return False
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type in _ENCLOSING:
            continue
        named = _bare_type(current) if current.type == "cast_expression" else None
        if named is not None and not _is_type(named):
            return True
        if current.type == "template_function" and current is not node and _may_compare(current):
            return True
        stack.extend(current.children)
    return False


def _may_compare(template: Node) -> bool:
    """Whether what looks like a template with its arguments may be comparisons."""
    given = template.child_by_field_name("arguments")
    inner = [] if given is None else given.named_children
    operators = {c.type for i in inner if i.type == "binary_expression" for c in i.children}
    return bool(operators & {"&&", "||", "&", "|", "^", "==", "!=", "and", "or"})


def _is_type(named: Node) -> bool:
    """Whether a word is a type's for certain."""
    name = (named.text or b"").decode()
    if _TYPE.fullmatch(name):
        return True
    root = named
    while root.parent is not None:
        root = root.parent
    text = (root.text or b"").decode()
    return re.search(rf"\btypedef\b[^;{{}}]*\b{name}\s*;|\busing\s+{name}\s*=", text) is not None


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
