"""What variables are declared as: which structure they are, or lead to; and what a function stands in and writes.

May not look at statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.parse import node_text
from tuner.spaces.source.structure_texts import type_text
from tuner.spaces.source.structures import Structures

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = [
    "DECLARATORS",
    "OTHER",
    "TAGGED",
    "TYPES",
    "UNKNOWN",
    "Context",
    "Declared",
    "Keys",
    "Written",
    "declared_in",
    "keys_of",
    "steps_to",
]

TYPES = ("primitive_type", "sized_type_specifier", "type_identifier")
TAGGED = ("struct_specifier", "union_specifier", "enum_specifier")
DECLARATORS = ("init_declarator", "pointer_declarator", "array_declarator", "reference_declarator")
_LASTING = frozenset({"static", "extern", "thread_local", "_Thread_local", "__thread"})

Keys = frozenset[str]
"""Structures that something may be, or lead to; an empty name stands for anything else, ``?`` for what is not known."""

OTHER: Keys = frozenset({""})
UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Declared:
    """A variable: what it is or points to, and whether an assignment to its name changes only itself."""

    keys: Keys
    own: bool


@dataclass(frozen=True, slots=True)
class Context:
    """What a function's text stands in.

    Attributes:
        types: structures of the text.
        variables: outside of functions, by name.
        functions: definitions by name.
        quiet: whether a function that is not defined here is known to write nothing but buffers that it is given.
        plus: whether the text is C++.
    """

    types: Structures
    variables: Mapping[str, Declared]
    functions: Mapping[str, Node]
    quiet: Callable[[str], bool]
    plus: bool


@dataclass(slots=True)
class Written:
    """What a function may write, which functions it calls, and which variables are more than read through.

    Attributes:
        members: names of members that are assigned to, or whose address is taken.
        structures: those that may be written as a whole, or through another type.
        calls: functions of the text.
        moved: names that stand elsewhere than before a member or as an argument.
        jumps: whether it has labels.
    """

    members: set[str] = field(default_factory=set)
    structures: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    jumps: bool = False


def declared_in(node: Node, types: Structures, *, plus: bool) -> Iterator[tuple[str, Declared]]:
    """The variables of a declaration.

    Raises:
        Refused: one of them is declared in a way that is not known.
    """
    lasting = any(node_text(c) in _LASTING for c in node.children if c.type == "storage_class_specifier")
    keys = keys_of(node, types)
    for declarator in node.children_by_field_name("declarator"):
        name, steps = steps_to(declarator)
        whole = not steps & {"pointer_declarator", "reference_declarator"}
        known = types.is_arithmetic(_kind(node)) or bool(types.members(_kind(node)))
        if plus and whole and not known and not lasting:
            # What begins or ends it may be a function of its own.
            raise Refused(f"{name} may be an object with functions of its own")
        own = not lasting if whole and "array_declarator" not in steps else "pointer_declarator" in steps
        yield name, Declared(keys, own and "reference_declarator" not in steps)


def _kind(node: Node) -> str:
    kind = node.child_by_field_name("type")
    return "" if kind is None else type_text(kind)


def keys_of(node: Node, types: Structures) -> Keys:
    kind = node.child_by_field_name("type")
    if kind is None or kind.type not in (*TYPES, *TAGGED) or kind.child_by_field_name("body") is not None:
        raise Refused(f"{node_text(node).split(';')[0][:40]!r} is of a type that is not known")
    return types.lies_behind(_kind(node))


def steps_to(node: Node) -> tuple[str, set[str]]:
    """The name that a declarator declares, and what it is made of."""
    steps = set[str]()
    while node.type != "identifier":
        if node.type not in DECLARATORS:
            raise Refused(f"{node_text(node)[:40]!r} is declared in a way that is not known")
        steps.add(node.type)
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next((c for c in node.named_children if c.type == "identifier"), None)
        if inner is None or any(c.type.startswith("attribute") for c in node.children):
            raise Refused(f"{node_text(node)[:40]!r} is declared in a way that is not known")
        node = inner
    if {"pointer_declarator", "reference_declarator"} <= steps:
        raise Refused(f"{node_text(node)} refers to a pointer")
    return node_text(node), steps
