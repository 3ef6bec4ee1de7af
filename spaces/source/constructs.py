"""Constructs of C that operators do not know, by the names that people have for them: for refusals that name them.

May not decide what is known.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.parse import function_nodes, node_text, parse_file
from tuner.spaces.source.reading import parse_statements
from tuner.spaces.source.syntax import Opaque, OpaqueStmt
from tuner.spaces.source.walks import subtrees

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["UnknownConstruct", "construct", "unknown_in"]

_SHORT = 50
_NAMES = {
    "break_statement": "a `break`",
    "continue_statement": "a `continue`",
    "return_statement": "a `return`",
    "co_return_statement": "a `co_return`",
    "goto_statement": "a `goto`",
    "labeled_statement": "a label",
    "switch_statement": "a `switch`",
    "case_statement": "a `case`",
    "while_statement": "a `while` loop",
    "do_statement": "a `do` loop",
    "for_statement": "a `for` loop that does not count up or down to a bound",
    "for_range_loop": "a loop over a container",
    "if_statement": "a conditional with a declaration",
    "try_statement": "a `try`",
    "throw_statement": "a `throw`",
    "throw_expression": "a `throw`",
    "gnu_asm_expression": "assembly",
    "preproc_call": "a directive",
    "preproc_if": "a directive",
    "preproc_ifdef": "a directive",
    "using_declaration": "a `using`",
    "alias_declaration": "a `using`",
    "type_definition": "a `typedef`",
    "struct_specifier": "a type's definition",
    "union_specifier": "a type's definition",
    "enum_specifier": "a type's definition",
    "class_specifier": "a type's definition",
    "declaration": "a declaration of another kind than a number, pointer or array",
    "call_expression": "a call of a method or template, or through a pointer",
    "update_expression": "a step within an expression",
    "assignment_expression": "an assignment within an expression",
    "comma_expression": "a comma",
    "sizeof_expression": "a `sizeof`",
    "alignof_expression": "an `alignof`",
    "offsetof_expression": "an `offsetof`",
    "string_literal": "a string",
    "concatenated_string": "a string",
    "raw_string_literal": "a string",
    "char_literal": "a character",
    "compound_literal_expression": "a compound literal",
    "initializer_list": "a list of values",
    "lambda_expression": "a lambda",
    "new_expression": "a `new`",
    "delete_expression": "a `delete`",
    "field_expression": "a member of a union, or one whose type or structure is not known",
    "compound_statement": "a statement as an expression",
    "conditional_expression": "a conditional without a middle",
    "cast_expression": "a conversion to a type that is not known",
    "pointer_expression": "an access through a pointer",
    "this": "`this`",
    "qualified_identifier": "a name of a class or namespace",
    "template_function": "a function of a template",
    "co_await_expression": "a `co_await`",
    "ERROR": "text that is no plain C",
}
_THROUGH = ("expression_statement", "parenthesized_expression")
"""What only holds what counts."""


class UnknownConstruct(Refused):
    """A transformation does not apply because of text that operators do not look into.

    Args:
        what: holds it.
        node: the text.

    Attributes:
        what: as given.
        node: as given.
    """

    def __init__(self, what: str, node: Opaque | OpaqueStmt) -> None:
        super().__init__(what, node)
        self.what = what
        self.node = node

    def __str__(self) -> str:
        return f"{self.what} holds {construct(self.node)}"


def unknown_in(part: Any) -> Opaque | OpaqueStmt | None:
    """The first text in a part of a tree that operators do not look into."""
    return next((n for n in subtrees(part) if isinstance(n, Opaque | OpaqueStmt)), None)


def _shortened(text: str) -> str:
    """A text on one line, its end left out where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}…"


@lru_cache(maxsize=1024)
def construct(node: Opaque | OpaqueStmt) -> str:
    """What a statement or an expression is, with an article, and its text: that part which is not known."""
    if isinstance(node, Opaque) and node.text.startswith("{"):
        # Between parentheses it would be statements.
        return f"{_NAMES['initializer_list']}: {_shortened(node.text)!r}"
    text = f"x = ({node.text});" if isinstance(node, Opaque) else node.text
    root = parse_file(f"void f(void) {{\n{text}\n}}".encode(), "c++", part=True)
    function = next(function_nodes(root), None)
    block = function[1].child_by_field_name("body") if function is not None else None
    inner = block.named_children if block is not None else []
    at: Node | None = inner[0] if inner else None
    if isinstance(node, Opaque) and at is not None and at.named_children:
        at = at.named_children[0].child_by_field_name("right")
    while at is not None and at.type in _THROUGH and at.named_children:
        at = at.named_children[0]
    if at is not None and at.type == "for_statement" and not _is_unknown(at):
        # Its head counts: what C's grammar cannot read lies in its body.
        root = parse_file(root.text or b"", "c", part=True)
    if at is None or root.has_error:
        return _unreadable(root, node.text)
    name = _NAMES.get(at.type, f"a construct of the kind {at.type.replace('_', ' ')!r}")
    if at.type == "declaration" and "static" in node_text(at).split():
        name = "a `static` variable"
    return f"{name}: {_shortened(node.text)!r}"


def _is_unknown(loop: Node) -> bool:
    return isinstance(parse_statements([loop])[0], OpaqueStmt)


def _unreadable(root: Node, text: str) -> str:
    """What of a text the grammar cannot read: the smallest part, with what is right around it."""
    stack, found = [root], root
    while stack:
        node = stack.pop()
        if node.type.startswith("preproc_") and node.has_error:
            return f"a directive: {_shortened(node_text(node))!r}"
        found = node if node.is_error or node.is_missing else found
        stack += [child for child in node.children if child.has_error or child.is_error or child.is_missing]
    around = found.parent
    shown = text if around is None or len(node_text(around)) > len(text) else node_text(around)
    return f"{_NAMES['ERROR']}: {_shortened(shown)!r}"
