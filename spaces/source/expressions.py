"""Expressions of tree-sitter's nodes, and of texts by themselves, as the tree of :mod:`tuner.spaces.source.syntax`.

Never fails on what it does not know: that becomes opaque text. May not judge what a transformation may do.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from tuner.spaces.source.casts import MisreadCast, cast_of_call, divided, doubtful, operands_of
from tuner.spaces.source.kinds import is_pure
from tuner.spaces.source.parse import node_text, statement_nodes
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Cast,
    Expr,
    Field,
    Index,
    Name,
    Number,
    Opaque,
    Ternary,
    Unary,
)

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = [
    "OPERATORS_AS_WORDS",
    "is_enclosed",
    "operator_of",
    "parse_expression",
    "parse_items",
    "parse_place",
    "read_expression",
    "read_subscript",
]

_ASSIGN_OPS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_STRENGTH = {
    op: strength
    for strength, ops in enumerate(("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %"))
    for op in ops.split()
}
"""How strongly binary operators bind."""
OPERATORS_AS_WORDS: dict[str, str] = {
    **dict(
        zip(("and", "or", "not", "bitand", "bitor", "xor", "compl"), ("&&", "||", "!", *"&|^~"), strict=True)
    ),
    **dict(zip(("not_eq", "and_eq", "or_eq", "xor_eq"), ("!=", "&=", "|=", "^="), strict=True)),
}
"""Operators that C++ writes as words, too."""
_COORDINATE = re.compile(r"(threadIdx|blockIdx|blockDim|gridDim)\.[xyz]")


def read_expression(node: Node) -> Expr:
    """An expression; opaque where it is not known for certain what it means."""
    made = None if doubtful(node) else _known(node)
    return Opaque(node_text(node), node.start_point[0] + 1) if made is None else made


def is_enclosed(node: Node) -> bool:
    """Whether parentheses hold one expression, and not the statements of one of GNU's."""
    return len(node.named_children) == 1 and node.named_children[0].type != "compound_statement"


def _known(node: Node) -> Expr | None:
    match node.type:
        case "identifier":
            return Name(node_text(node))
        case "number_literal" | "char_literal" | "true" | "false":
            text = node_text(node)
            # The grammar counts a sign to the literal.
            return Unary(text[0], Number(text[1:])) if text[0] in "+-" else Number(text)
        case "parenthesized_expression" if is_enclosed(node):
            return read_expression(node.named_children[0])
        case "field_expression" if _COORDINATE.fullmatch(node_text(node)):
            return Name(node_text(node))
        case "subscript_expression":
            return read_subscript(node)
        case "unary_expression" | "pointer_expression":
            return Unary(operator_of(node), _field(node, "argument"))
        case "binary_expression" if operator_of(node) in _STRENGTH:
            misread = operands_of(node)
            if misread is not None:
                return _regrouped(misread) if misread else None
            return Binary(operator_of(node), _field(node, "left"), _field(node, "right"))
        case "conditional_expression":
            parts = [_field(node, f) for f in ("condition", "consequence", "alternative")]
            return Ternary(parts[0], parts[1], parts[2])
        case "cast_expression":
            kind = node.child_by_field_name("type")
            return None if kind is None else Cast(" ".join(node_text(kind).split()), _field(node, "value"))
        case "assignment_expression" if operator_of(node) in _ASSIGN_OPS:
            return Assign(operator_of(node), _field(node, "left"), _field(node, "right"))
        case "call_expression" | "compound_literal_expression":
            cast = cast_of_call(node)
            return _call(node) if cast is None else Cast(cast.type, read_expression(cast.operand), cast.form)
    return None


def _call(node: Node) -> Call | None:
    """A call of a function by its name, in C++ also of one of the standard library's that has no effects."""
    function, arguments = (node.child_by_field_name(f) for f in ("function", "arguments"))
    if function is None or arguments is None or divided(arguments):
        return None
    name = " ".join(node_text(function).split()) if function.type == "qualified_identifier" else ""
    if function.type != "identifier" and not is_pure(Call(name, ())):
        return None
    given = (read_expression(a) for a in arguments.named_children if a.type != "comment")
    return Call(name or node_text(function), tuple(given))


def _regrouped(parts: list[Node | MisreadCast | str]) -> Expr | None:
    """Operands and operators grouped anew, where an operand is a type: what follows it is what is cast."""
    waiting = list(reversed(parts))

    def operand() -> Expr:
        part = waiting.pop()
        if not isinstance(part, MisreadCast):
            return Opaque(part) if isinstance(part, str) else read_expression(part)
        made: Expr = Cast(part.type, Unary(str(waiting.pop()), operand()))
        for before in reversed(part.before):
            made = Cast(before[1:-1], made) if before[0] == "(" else Unary(before, made)
        return made

    def joined(least: int) -> Expr:
        left = operand()
        while waiting and _STRENGTH.get(str(waiting[-1]), -1) >= least:
            op = str(waiting.pop())
            left = Binary(op, left, joined(_STRENGTH[op] + 1))
        return left

    made = joined(0)
    return None if waiting else made


def read_subscript(node: Node) -> Expr | None:
    """An element; ``None`` where it has not one subscript."""
    base = node.child_by_field_name("argument")
    index = node.child_by_field_name("index")
    if index is None:
        found = node.child_by_field_name("indices")
        inner = [] if found is None else found.named_children
        index = inner[0] if len(inner) == 1 else None
    if base is None or index is None:
        return None
    return Index(read_expression(base), read_expression(index))


def _field(node: Node, name: str) -> Expr:
    child = node.child_by_field_name(name)
    return Opaque("") if child is None else read_expression(child)


def operator_of(node: Node) -> str:
    """The operator of an expression; empty where it has none."""
    operator = node.child_by_field_name("operator")
    text = "" if operator is None else node_text(operator)
    return OPERATORS_AS_WORDS.get(text, text)


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
