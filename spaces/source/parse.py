"""Files of C, C++, OpenCL C and CUDA through tree-sitter: which functions there are, where, with which parameters.

The grammars know no address spaces: a parameter that has one is read again without it. May not judge what a
transformation may do.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from tuner.core.errors import MachineError
from tuner.spaces.source.casts import MAY_BE_CAST, without_parentheses
from tuner.spaces.source.syntax import Param

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = [
    "ADDRESS_SPACE",
    "ALIGNED",
    "OUTERMOST",
    "declared_functions",
    "declared_type",
    "definition_start",
    "file_text",
    "function_nodes",
    "is_outermost",
    "name_start",
    "node_slice",
    "node_text",
    "parameters",
    "parse_file",
    "statement_nodes",
]

ADDRESS_SPACE = re.compile(
    r"\b(?:__global|__local|__private|__constant|global|local|private|constant|__shared__|__constant__|__grid_constant__)\b"
)
"""Words of OpenCL C and CUDA that say where a variable lies."""


OUTERMOST = ("translation_unit", "linkage_specification", "declaration_list")
"""What definitions of functions lie in that lie in no other definition."""

ALIGNED = re.compile(r"__attribute__\s*\(\(\s*(?:__)?aligned(?:__)?\s*(?:\([^()]*\))?\s*\)\)")
"""How much a variable is aligned, which says nothing of its values."""

_BEHIND = re.compile(
    rb"(?<=[;{}\n])([ \t]*)(?!(?:typedef|return|goto|case|else)\b)"
    rb"([A-Za-z_][\w \t*]*[ \t*]\w+(?:[ \t]*\[[^\[\];{}=]*\])*)([ \t]*)("
    + ALIGNED.pattern.encode()
    + rb")(?=[ \t]*[=;])"
)
"""An attribute between a variable's name and its value; before the type, which says the same, grammars know it."""

_MAY_BE_LABEL = re.compile(rb"^\s*\w+\s*:(?!:)|[;{}]\s*\w+\s*:(?!:)", re.MULTILINE)
_MAY_NAME_LABELS = re.compile(rb"^\s*(?:#|%:)\s*(?:include|define|if)", re.MULTILINE)
"""What is not preprocessed may lead to a label through a macro."""
_ATTRIBUTE = re.compile(rb"\s*(?:__attribute|\[\[)")
_MOST_READINGS = 8
"""A variable that is read as one may lay others bare."""


@cache
def _parser(language: str) -> Parser:
    try:
        import tree_sitter

        grammar = importlib.import_module("tree_sitter_c" if language == "c" else "tree_sitter_cpp")
    except ImportError as error:
        raise MachineError(
            f"source variants need tree-sitter: {error}",
            "pip install tree-sitter tree-sitter-c tree-sitter-cpp",
        ) from None
    return tree_sitter.Parser(tree_sitter.Language(grammar.language()))


def parse_file(text: bytes, language: str, *, part: bool = False) -> Node:
    """The root of the concrete syntax tree; ``language`` is ``c``, or anything else that C++ grammar reads.

    Variables may have lost the parentheses around them, labels that nothing leads to are left out, and alignments stand
    before their declarations, which changes no place in the text but theirs. What is ``part`` of a function keeps its
    labels.
    """
    parser = _parser("c" if language == "c" else "c++")
    if b"__attribute__" in text:
        text = _BEHIND.sub(rb"\1\4\3\2", text)
    for _ in range(_MOST_READINGS):
        root = parser.parse(text).root_node
        plain = without_parentheses(root, text) if MAY_BE_CAST.search(text) else text
        if not part and _MAY_BE_LABEL.search(plain) and not _MAY_NAME_LABELS.search(plain):
            plain = _without_labels(root, plain)
        if plain == text:
            break
        text = plain
    return root


def _without_labels(root: Node, text: bytes) -> bytes:
    """The text with spaces for the labels that their functions never name."""
    made, stack = bytearray(text), [root]
    while stack:
        node = stack.pop()
        stack.extend(node.children)
        label = node.child_by_field_name("label") if node.type == "labeled_statement" else None
        if label is None:
            continue
        around: Node = node
        while around.type != "function_definition" and around.parent is not None:
            around = around.parent
        colon = next((c for c in node.children if c.type == ":"), label)
        within = text[around.start_byte : around.end_byte]
        named = len(re.findall(rb"\b%s\b" % re.escape(label.text or b""), within)) > 1
        if not named and not _ATTRIBUTE.match(text, colon.end_byte):
            made[label.start_byte : colon.end_byte] = b" " * (colon.end_byte - label.start_byte)
    return bytes(made)


def function_nodes(root: Node, *, references: bool = False) -> Iterator[tuple[str, Node]]:
    """Names and nodes of function definitions, in the order of the source.

    Args:
        root: of a file.
        references: those that return a reference as well; calls of them may be places to write to.
    """
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "function_definition":
            name = _name_of(node, references=references)
            if name is not None:
                yield node_text(name), node
            continue
        stack.extend(reversed(node.children))


def statement_nodes(text: str, language: str, *, before: str = "") -> list[Node]:
    """Statements of a function that has nothing else in it; none where they cannot be read, or end the function.

    Args:
        text: of the statements.
        language: that they are written in.
        before: declarations in front of the function, a semicolon behind each.
    """
    root = parse_file(f"{before}void f(void) {{ {text} }}".encode(), language, part=True)
    found = next(function_nodes(root), None)
    whole = not root.has_error and len(root.named_children) == 1 + before.count(";")
    body = found[1].child_by_field_name("body") if found is not None and whole else None
    return [] if body is None else body.named_children


def declared_functions(root: Node) -> Iterator[tuple[str, str, Node]]:
    """All that is declared or defined as a function, wherever that is: bare name, parameters as text, declarator."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "function_declarator":
            name, params = (node.child_by_field_name(f) for f in ("declarator", "parameters"))
            if name is not None:
                text = "" if params is None else " ".join(node_text(params).split())
                yield node_text(name).split("::")[-1].strip(), text, node
        stack.extend(node.children)


def declared_type(node: Node, variable: str) -> str:
    """The type with which a function, or else its file, declares a variable used at a node; nothing where none does.

    Args:
        node: in the function.
        variable: a plain one or a pointer, no array.
    """
    scope = node.parent
    while scope is not None:
        for child in reversed(scope.children):
            if child.type == "declaration" and child.start_byte < node.start_byte:
                for named in child.children_by_field_name("declarator"):
                    name = (
                        named.child_by_field_name("declarator") if named.type == "init_declarator" else named
                    )
                    stars = ""
                    while name is not None and name.type == "pointer_declarator":
                        name, stars = name.child_by_field_name("declarator"), f"{stars}*"
                    if name is not None and node_text(name) == variable:
                        first = child.children_by_field_name("declarator")[0]
                        return node_slice(child, child.start_byte, first.start_byte) + stars
        if scope.type == "function_definition":
            found = next((p for p in parameters(scope) if p.name == variable), None)
            if found is not None:
                return "" if "?" in found.suffix else found.base + "*" * (found.stars + bool(found.suffix))
        scope = scope.parent
    return ""


def is_outermost(node: Node, around: Collection[str]) -> bool:
    """Whether a node lies in nothing but nodes of some types."""
    parent = node.parent
    while parent is not None:
        if parent.type not in around:
            return False
        parent = parent.parent
    return True


def definition_start(node: Node) -> int:
    """Where a function's definition begins with what stands around it: ``template <…>``, ``extern "C"``."""
    start: int = node.start_byte
    parent = node.parent
    while parent is not None and parent.type in ("template_declaration", "linkage_specification"):
        if parent.end_byte != node.end_byte:
            break
        start, parent = parent.start_byte, parent.parent
    return start


def name_start(node: Node) -> int:
    """Where a function definition's name begins."""
    name = _name_of(node)
    return node.start_byte if name is None else name.start_byte


def _name_of(node: Node, *, references: bool = False) -> Node | None:
    declarator = _function_declarator(node, references=references)
    return None if declarator is None else declarator.child_by_field_name("declarator")


def _function_declarator(node: Node, *, references: bool = False) -> Node | None:
    current = node.child_by_field_name("declarator")
    while current is not None and current.type != "function_declarator":
        # References have no name for what they hold.
        inner = current.named_children[-1] if references and current.type == "reference_declarator" else None
        current = inner or current.child_by_field_name("declarator")
    return current


def parameters(function: Node) -> tuple[Param, ...]:
    """A function definition's parameters."""
    declarator = _function_declarator(function)
    found = None if declarator is None else declarator.child_by_field_name("parameters")
    if found is None:
        return ()
    params = [_param(n) for n in found.named_children if n.type != "comment"]
    return tuple(p for p in params if p.text != "void")


def _param(node: Node) -> Param:
    text = node_text(node)
    if node.has_error:
        words = ADDRESS_SPACE.findall(text)
        plain = parse_file(f"void f({ADDRESS_SPACE.sub(' ', text)}) {{}}".encode(), "c++")
        if words and not plain.has_error:
            (param,) = parameters(next(function_nodes(plain))[1])
            return replace(param, base=" ".join([*words, *param.base.split()]), text=text)
        return Param(base=text, stars=0, qualifiers=(), name="", suffix="?", text=text)
    declarator = node.child_by_field_name("declarator")
    if declarator is None:
        return Param(base=text, stars=0, qualifiers=(), name="", suffix="?", text=text)
    base = node_slice(node, node.start_byte, declarator.start_byte).strip()
    stars, qualifiers, suffix = 0, [], ""
    current: Node | None = declarator
    while current is not None and current.type != "identifier":
        inner = current.child_by_field_name("declarator")
        if current.type == "pointer_declarator":
            stars += 1
            qualifiers += [
                node_text(c) for c in current.children if c.type in ("type_qualifier", "ms_restrict_modifier")
            ]
        elif inner is None:
            inner = next(
                (c for c in current.named_children if "declarator" in c.type or c.type == "identifier"), None
            )
            suffix += "?"
        else:
            suffix = node_slice(current, inner.end_byte, current.end_byte).strip() + suffix
        current = inner
    name = "" if current is None else node_text(current)
    return Param(base=base, stars=stars, qualifiers=tuple(qualifiers), name=name, suffix=suffix, text=text)


def file_text(node: Node) -> str:
    """The text of the file that a node is in."""
    while node.parent is not None:
        node = node.parent
    return node_text(node)


def node_text(node: Node) -> str:
    """A node's text."""
    return (node.text or b"").decode("utf-8", "replace")


def node_slice(node: Node, start: int, end: int) -> str:
    """Part of a node's text, by bytes of the file."""
    text = node.text or b""
    return text[start - node.start_byte : end - node.start_byte].decode("utf-8", "replace")
