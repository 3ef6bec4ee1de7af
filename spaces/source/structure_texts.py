"""What the text of one structure, union or ``typedef`` says, by nodes of a syntax tree. May not know of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tuner.spaces.source.parse import OUTERMOST, node_slice, node_text

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = [
    "AROUND",
    "NAMES",
    "Member",
    "Pointee",
    "definitions_of",
    "fields_of",
    "is_strange",
    "known_as",
    "type_text",
]

AROUND = (
    *(*OUTERMOST, "preproc_if", "preproc_ifdef", "preproc_else", "declaration", "type_definition"),
    *("field_declaration", "field_declaration_list", "struct_specifier"),
)
"""What definitions of types lie in that are known everywhere behind them."""
NAMES = ("struct_specifier", "union_specifier", "class_specifier", "enum_specifier")


@dataclass(frozen=True, slots=True)
class Member:
    """One member: its plain type, or its elements', how many subscripts it takes, whether it is only for reading."""

    type: str
    depth: int
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Pointee:
    """What a member points to: its type without qualifiers, and whether it is only for reading.

    ``rows``: the member leads to rows by their addresses, the type being their elements'.
    """

    type: str
    constant: bool
    rows: bool = False


def is_strange(node: Node) -> bool:
    """Whether a structure is more than members, or cannot be read: base classes, methods, macros, conditionals."""
    body = node.child_by_field_name("body")
    kinds = ("struct", "type_identifier", "field_declaration_list", "attribute_specifier", "comment")
    if node.has_error or body is None or any(c.type not in kinds for c in node.children):
        return True
    return any(c.type not in ("field_declaration", "comment") for c in body.named_children) or any(
        "function_declarator" in (d.type for d in _within(c)) or c.child_by_field_name("default_value")
        for c in body.named_children
    )


def _within(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        found = stack.pop()
        yield found
        stack.extend(found.children)


class FieldText(NamedTuple):
    """One member as its structure declares it.

    Attributes:
        name: empty where it has none.
        made_of: its type, stars and dimensions left out.
        inside: whether that lies in the structure itself.
        member: ``None`` where too little is known.
        pointee: of a pointer, with one star or two and nothing volatile.
    """

    name: str
    made_of: str
    inside: bool
    member: Member | None
    pointee: Pointee | None


def fields_of(body: Node) -> Iterator[FieldText]:
    """The members of a structure, union or class, in their order."""
    for field in body.named_children:
        kind = field.child_by_field_name("type")
        if field.type != "field_declaration":
            continue
        declarators = [] if kind is None else field.children_by_field_name("declarator")
        text = "" if kind is None else type_text(kind)
        words = {
            node_text(c) for c in field.children if c.type in ("type_qualifier", "storage_class_specifier")
        }
        plain = kind is not None and words <= {"const"} and kind.type != "union_specifier"
        plain &= not any(c.type in ("bitfield_clause", "attribute_specifier") for c in field.children)
        named = (
            kind is not None
            and words <= {"const"}
            and kind.type in _POINTED
            and not kind.child_by_field_name("body")
        )
        if not declarators:
            # A structure or union without a name, or a macro: members that nothing is known of.
            yield FieldText("", text, True, None, None)
        for declarator in declarators:
            parts = list(_within(declarator))
            depth, inner = 0, declarator
            while inner.type == "array_declarator" and inner.child_by_field_name("size") is not None:
                depth, inner = depth + 1, inner.child_by_field_name("declarator") or inner.children[0]
            known = plain and inner.type == "field_identifier"
            stars = _stars(declarator) if named else 0
            yield FieldText(
                name=next((node_text(part) for part in parts if part.type == "field_identifier"), ""),
                made_of=text,
                inside=all(part.type != "pointer_declarator" for part in parts),
                member=Member(text, depth, bool(words)) if known else None,
                pointee=Pointee(text, "const" in words, rows=stars == 2) if stars else None,
            )


def _stars(declarator: Node) -> int:
    """How many stars a member has that is a pointer, or one to rows, and nothing else; 0 for any other."""
    inner = declarator.child_by_field_name("declarator")
    own = [node_text(c) for c in declarator.named_children if c != inner]
    if declarator.type != "pointer_declarator" or inner is None or not _OWN_QUALIFIERS.issuperset(own):
        return 0
    if inner.type == "pointer_declarator":
        return 2 if [c.type for c in inner.named_children] == ["field_identifier"] else 0
    return int(inner.type == "field_identifier")


def known_as(kind: Node) -> str:
    """The name by which a structure is known here: its tag, or its type's, or where it stands."""
    tag = kind.child_by_field_name("name")
    if tag is not None:
        return f"struct {node_text(tag)}"
    around = kind.parent
    name = None if around is None else around.child_by_field_name("declarator")
    defines = around is not None and around.type == "type_definition"
    if defines and name is not None and name.type == "type_identifier":
        return f"struct as {node_text(name)}"
    return f"struct at {kind.start_byte}"


def type_text(kind: Node) -> str:
    """A member's type; for a structure or union the name by which it is known here."""
    if kind.type in NAMES and (kind.child_by_field_name("name") or kind.child_by_field_name("body")):
        return known_as(kind)
    return " ".join(node_text(kind).split())


_POINTED = ("primitive_type", "sized_type_specifier", "type_identifier", "struct_specifier")
_OWN_QUALIFIERS = {"const", "restrict", "__restrict", "__restrict__"}


def definitions_of(node: Node) -> Iterator[tuple[str, str]]:
    """The names that a ``typedef`` makes and what they stand for; nothing for what is more than another name."""
    kind = node.child_by_field_name("type")
    declarators = node.children_by_field_name("declarator")
    if kind is None or not declarators:
        return
    text = " ".join(node_slice(node, node.start_byte, declarators[0].start_byte).split()[1:])
    if kind.type in NAMES:
        text = known_as(kind)
    rest = [d for c in node.children if c.type not in NAMES for d in _within(c)]
    plain = not node.has_error and not any(
        c.type in ("attribute_specifier", "attribute_declaration") or node_text(c) in ("volatile", "_Atomic")
        for c in rest
    )
    for declarator in declarators:
        name = next((node_text(d) for d in _within(declarator) if d.type == "type_identifier"), "")
        if name:
            yield name, text if plain and declarator.type == "type_identifier" else ""
