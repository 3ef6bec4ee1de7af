"""Definitions of functions as trees: all that a text has at its outermost level, or what of them lies in a region.

May not transform.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.core.errors import Place, SpecError
from tuner.spaces.source.cutting import SourceFile
from tuner.spaces.source.parse import (
    OUTERMOST,
    definition_start,
    function_nodes,
    is_outermost,
    name_start,
    parameters,
    parse_file,
)
from tuner.spaces.source.reading import parse_statements
from tuner.spaces.source.syntax import Decl, Function, Stmt

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["functions_inside", "read_definitions", "read_function"]


def read_definitions(text: str, language: str) -> dict[str, Function]:
    """The functions that a text defines at its outermost level, whatever a conditional says; by name.

    Names that are defined more than once are left out.
    """
    found: dict[str, Function] = {}
    twice: set[str] = set()
    for name, node in function_nodes(parse_file(text.encode(), language)):
        body = node.child_by_field_name("body")
        if body is None or body.type != "compound_statement" or not is_outermost(node, OUTERMOST):
            twice.add(name)
            continue
        function = read_function(name, node, parse_statements(body.named_children), text)
        if name in found:
            twice.add(name)
        found[name] = replace(function, language=language)
    return {name: f for name, f in found.items() if name not in twice and name.isidentifier()}


def read_function(
    name: str, node: Node, body: tuple[Stmt, ...], text: str, outer: tuple[Decl, ...] = ()
) -> Function:
    """One definition of a file with statements of its body.

    Args:
        name: its.
        node: of the definition.
        body: all of its statements, or those of a region.
        text: of the whole file.
        outer: declarations that lie outside the region.
    """
    declarator, block = (node.child_by_field_name(f) for f in ("declarator", "body"))
    data = text.encode()
    start = definition_start(node)
    signature = data[start : node.end_byte if block is None else block.start_byte].decode()
    found = parameters(node) if declarator is not None else ()
    return Function(
        name=name,
        head=data[start : name_start(node)].decode(),
        signature=signature,
        # One parameter that cannot be read hides all of them: its name may be anything.
        params=found if all(p.name for p in found) else (),
        body=body,
        outer=outer,
        source=text,
    )


def functions_inside(
    root: Node, begin: int, end: int, file: SourceFile
) -> list[tuple[Function, int, int, int]]:
    """Functions or parts of them in a region, each with first and last byte of the file and levels of indent.

    Args:
        root: of the file's tree.
        begin: of the region, in bytes.
        end: likewise.
        file: for places in messages.

    Raises:
        SpecError: the region cuts through a statement.
    """
    found = []
    for name, node in function_nodes(root):
        body = node.child_by_field_name("body")
        if body is None or body.type != "compound_statement":
            continue
        start = definition_start(node)
        if begin <= start and node.end_byte <= end:
            statements = parse_statements(body.named_children)
            function = read_function(name, node, statements, file.text)
            found.append((function, start, node.end_byte, 1))
        elif body.start_byte < begin and end < body.end_byte:
            made = _partial(name, node, body, (begin, end), file)
            if made is not None:
                found.append(made)
    return found


def _partial(
    name: str, node: Node, body: Node, region: tuple[int, int], file: SourceFile
) -> tuple[Function, int, int, int] | None:
    begin, end = region
    scope = body
    while True:
        inner = [c for c in _scopes(scope) if c.start_byte < begin and end <= c.end_byte]
        if not inner:
            break
        scope = inner[0]
    # The closing mark's comment begins where the region ends.
    touched = [c for c in scope.named_children if c.start_byte < end and c.end_byte > begin]
    for child in touched:
        if child.start_byte < begin or child.end_byte > end:
            place = Place(file=file.name, line=child.start_point[0] + 1)
            raise SpecError(
                "a region cuts through a statement", "move its marks between statements", place=place
            )
    if not touched:
        return None
    outer = tuple(_outer_declarations(body, begin, end))
    function = read_function(name, node, parse_statements(touched), file.text, outer)
    # Whole lines: the printer indents, and ends each statement with a line break.
    text = file.text.encode()
    start = text.rfind(b"\n", 0, touched[0].start_byte) + 1
    if start < begin or text[start : touched[0].start_byte].strip():
        start = touched[0].start_byte
    stop = touched[-1].end_byte
    while stop < end and text[stop : stop + 1] in b" \t\r":
        stop += 1
    stop += text[stop : stop + 1] == b"\n"
    return replace(function, whole=False), start, stop, touched[0].start_point[1] // 4


def _scopes(node: Node) -> list[Node]:
    """Compound statements directly below a node, through statements of other kinds."""
    found = []
    stack = list(node.children)
    while stack:
        child = stack.pop()
        if child.type == "compound_statement":
            found.append(child)
        else:
            stack.extend(child.children)
    return found


def _outer_declarations(body: Node, begin: int, end: int) -> list[Decl]:
    found: list[Decl] = []
    stack = [body]
    while stack:
        node = stack.pop()
        if begin <= node.start_byte and node.end_byte <= end:
            continue
        if node.type == "declaration":
            found += [d for d in parse_statements([node]) if isinstance(d, Decl)]
        stack.extend(reversed(node.children))
    return found
