"""One variable of a declaration, as the concrete syntax tree has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.spaces.source.expressions import read_expression
from tuner.spaces.source.kinds import is_number, is_pure
from tuner.spaces.source.parse import node_text
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import Decl, Expr
from tuner.spaces.source.walks import names_in

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["declared_variable"]

_CONSTRUCTING = ("initializer_list", "argument_list")


def declared_variable(base: str, node: Node) -> Decl | None:
    """The variable of a declarator; nothing where it is another than a number, pointer, array or pointer to rows.

    Args:
        base: the type before the declarators.
        node: the declarator, with a first value where it has one.
    """
    init = None
    if node.type == "init_declarator":
        value = node.child_by_field_name("value")
        inner = node.child_by_field_name("declarator")
        if value is None or inner is None:
            return None
        if value.type in _CONSTRUCTING and "=" not in (c.type for c in node.children):
            # `double t{x}` and `double t(x)`; of a class `=` would ask for another constructor.
            if not is_number(base) or inner.type != "identifier" or len(value.named_children) != 1:
                return None
            value = value.named_children[0]
        init, node = read_expression(value), inner
    dims: list[Expr] = []
    stars = rows = ""
    while node.type != "identifier":
        within = node.named_children[:1] if node.type == "parenthesized_declarator" else []
        inner = within[0] if within else node.child_by_field_name("declarator")
        if inner is None:
            return None
        if node.type == "array_declarator":
            size = node.child_by_field_name("size")
            if size is None:
                return None
            dims.insert(0, read_expression(size))
        elif within and dims and inner.type == "pointer_declarator":
            # A pointer to rows: `double (*a)[8]`. A type's text is renamed by nobody, so no name may be in it.
            if names_in(tuple(dims)) or not all(map(is_pure, dims)):
                return None
            rows = f" (*){''.join(f'[{expression_text(d)}]' for d in dims)}"
            dims, inner = [], inner.child_by_field_name("declarator")
            if inner is None or inner.type != "identifier":
                return None
        elif node.type == "pointer_declarator" and not (dims or rows):
            kept = " ".join(node_text(c) for c in node.children if c.type == "type_qualifier")
            stars += f"*{kept + ' ' if kept else ''}"
        else:
            return None
        node = inner
    return Decl(f"{base} {stars}" if stars else f"{base}{rows}", node_text(node), tuple(dims), init)
