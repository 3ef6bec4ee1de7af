"""The members of the structures in a CUDA source, methods left aside, by their looks.

Where they lie and what their types mean is the compiler's to say. May not compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tuner.spaces.source.parse import node_text, parse_file

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Field", "fields_of"]

_VECTOR = re.compile(r"(float|double|u?int|u?short|u?char|u?long|u?longlong)([1234])")
_QUALIFIERS = re.compile(
    r"\b(?:const|volatile|struct|typename|mutable)\b|__restrict__|__restrict|\brestrict\b"
)
_MARKS = re.compile(
    r"\b__(?:host|device|forceinline|noinline)__\b|\b(?:__(?:builtin_)?align__|alignas)\s*\([^()]*\)"
)
"""What stands before names and is no C++."""
_STRUCTURES = ("struct_specifier", "class_specifier")
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Field:
    """A member.

    Attributes:
        name: of it.
        type: without qualifiers and stars.
        stars: how many.
        constant: it is a pointer to what may only be read.
        extents: of an array that lies in the structure.
    """

    name: str
    type: str
    stars: int = 0
    constant: bool = False
    extents: tuple[str, ...] = ()


def fields_of(kind: str, text: str) -> list[Field]:
    """The members of a type in their order; none of one that the text does not define as a structure.

    Args:
        kind: as the source writes it.
        text: the source with what it includes.
    """
    name = " ".join(_QUALIFIERS.sub(" ", kind).split()).rpartition("::")[2].partition("<")[0].strip()
    vector = _VECTOR.fullmatch(name)
    if vector is not None:
        element = re.sub("^u", "unsigned ", vector[1]).replace("longlong", "long long")
        return [Field(letter, element) for letter in "xyzw"[: int(vector[2])]]
    found, aliases = _read(text)
    for _ in range(_DEEPEST):
        if name in found or name not in aliases:
            break
        name = aliases[name].partition("<")[0].strip()
    return list(found.get(name, ()))


@lru_cache(maxsize=8)
def _read(text: str) -> tuple[Mapping[str, tuple[Field, ...]], Mapping[str, str]]:
    """Members by structure, and what other names stand for."""
    found: dict[str, tuple[Field, ...]] = {}
    aliases: dict[str, str] = {}
    stack = [parse_file(_MARKS.sub(" ", text).encode(), "cuda")]
    while stack:
        node = stack.pop()
        stack.extend(reversed(node.children))
        if node.type in ("type_definition", "alias_declaration"):
            _note_alias(node, found, aliases)
        if node.type in _STRUCTURES and (name := node.child_by_field_name("name")) is not None:
            body = node.child_by_field_name("body")
            if body is not None:
                found[node_text(name)] = tuple(_fields(body))
    return found, aliases


def _note_alias(node: Node, found: dict[str, tuple[Field, ...]], aliases: dict[str, str]) -> None:
    kind = node.child_by_field_name("type")
    name = node.child_by_field_name("declarator") or node.child_by_field_name("name")
    if kind is None or name is None or not node_text(name).isidentifier():
        return
    body = kind.child_by_field_name("body")
    if kind.type in _STRUCTURES and body is not None:
        found[node_text(name)] = tuple(_fields(body))
    else:
        aliases[node_text(name)] = " ".join(_QUALIFIERS.sub(" ", node_text(kind)).split())


def _fields(body: Node) -> Iterator[Field]:
    for item in body.named_children:
        if item.type != "field_declaration" or "static" in node_text(item).split():
            continue
        kind = item.child_by_field_name("type")
        if kind is None or kind.child_by_field_name("body") is not None:
            continue
        words = " ".join(_QUALIFIERS.sub(" ", node_text(kind)).split())
        before = node_text(item).partition("*")[0]
        for declarator in item.children_by_field_name("declarator"):
            field = _declared(declarator, words, re.search(r"\bconst\b", before) is not None)
            if field is not None:
                yield field


def _declared(node: Node, kind: str, constant: bool) -> Field | None:
    """``None`` for a method."""
    stars, extents = 0, list[str]()
    while node.type != "field_identifier":
        if node.type == "pointer_declarator":
            stars += 1
        elif node.type == "array_declarator":
            size = node.child_by_field_name("size")
            extents.insert(0, "" if size is None else node_text(size))
        else:
            return None
        inner = node.child_by_field_name("declarator")
        if inner is None:
            return None
        node = inner
    return Field(node_text(node), kind, stars, constant and stars > 0, tuple(extents))
