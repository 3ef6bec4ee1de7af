"""Definitions of functions as trees: one of a file, or all that a text has at its outermost level.

May not transform.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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

__all__ = ["read_definitions", "read_function"]


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
