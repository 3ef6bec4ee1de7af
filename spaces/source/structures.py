"""The plain structures that a text defines: which members they have, of which types.

Knows those whose members lie side by side and mean nothing more than their values: no unions, no bit-fields, nothing
volatile, no methods. May not know about functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tuner.spaces.source.kinds import plain_type
from tuner.spaces.source.parse import node_slice, node_text, parse_file

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Member", "Pointee", "Structures", "structures"]

_WORDS = (
    "char|short|int|long|float|double|half|_Float16|signed|unsigned|_Bool|bool|size_t|ptrdiff_t|ssize_t|u?int\\d+_t|"
    "uchar|ushort|uint|ulong"
)
_ARITHMETIC = re.compile(rf"(?:{_WORDS})(?: (?:{_WORDS}))*")
_VECTOR = re.compile(r"(u?(?:char|short|int|long)|half|float|double)([234])")
_ANY_VECTOR = re.compile(r"(u?(?:char|short|int|long)|half|float|double)(2|3|4|8|16)")
_COMPONENTS = re.compile(r"[xyzw]{1,4}|[sS][0-9a-fA-F]{1,16}")
_SIZES = {
    "char": 1,
    "uchar": 1,
    "short": 2,
    "ushort": 2,
    "half": 2,
    "_Float16": 2,
    "int": 4,
    "uint": 4,
    "float": 4,
}
_SIZES |= {
    "unsigned": 4,
    "unsigned int": 4,
    "int32_t": 4,
    "uint32_t": 4,
    "double": 8,
    "int64_t": 8,
    "uint64_t": 8,
}
_AROUND = (
    *("translation_unit", "linkage_specification", "declaration_list", "preproc_if", "preproc_ifdef"),
    *("preproc_else", "declaration", "type_definition", "field_declaration", "field_declaration_list"),
    "struct_specifier",
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(?:[ \t]+([^\n]*))?$", re.MULTILINE)
_TAGGED = re.compile(r"^(?:union|class) ")
_NAMES = ("struct_specifier", "union_specifier", "class_specifier", "enum_specifier")


@dataclass(frozen=True, slots=True)
class Member:
    """One member: its plain type, or its elements', how many subscripts it takes, whether it is only for reading."""

    type: str
    depth: int
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Pointee:
    """What a member points to: its type without qualifiers, and whether it is only for reading."""

    type: str
    constant: bool


class Structures:
    """Structures and other names of types.

    Args:
        found: members by the structure's name, in their order; ``None`` for a member of which too little is known.
        aliases: what names of types stand for.
        numbers: names of types that are of numbers, whichever of several.
        vectors: whether the language has types such as ``float4``.
        pointers: what those members point to that are pointers, by the structure's name.
        named: what members of a name are made of in any structure or union, stars and dimensions left out.
        inside: what any structure or union is made of.
    """

    def __init__(
        self,
        found: Mapping[str, Mapping[str, Member | None]],
        aliases: Mapping[str, str],
        numbers: Collection[str],
        *,
        vectors: bool,
        pointers: Mapping[str, Mapping[str, Pointee]],
        named: Mapping[str, Collection[str]],
        inside: Mapping[str, Collection[str]],
    ) -> None:
        self._found = found
        self._pointers = pointers
        self._named = named
        self._inside = inside
        self._aliases = aliases
        self.numbers = numbers
        self._vectors = vectors

    def members(self, kind: str) -> Mapping[str, Member | None]:
        """The members of a type by name, in their order; none of one that is no plain structure."""
        kind = self.meant(kind)
        if kind in self._found:
            return self._found[kind]
        vector = _VECTOR.fullmatch(kind) if self._vectors else None
        if vector is None:
            return {}
        return dict.fromkeys("xyzw"[: int(vector[2])], Member(vector[1], 0))

    def pointee(self, kind: str, name: str) -> Pointee | None:
        """What a member of a structure points to; ``None`` where it is no plain pointer."""
        return self._pointers.get(self.meant(kind), {}).get(name)

    def components(self, kind: str, name: str) -> str:
        """The type of components of a vector of OpenCL, such as ``xy``, ``s03`` or ``hi``; empty for others."""
        vector = _ANY_VECTOR.fullmatch(self.meant(kind))
        if vector is None:
            return ""
        count = int(vector[2])
        if name in ("lo", "hi", "even", "odd"):
            wanted = (count + 1) // 2
        elif _COMPONENTS.fullmatch(name):
            numbers = ["xyzw".find(c) for c in name] if name[0] in "xyzw" else [int(c, 16) for c in name[1:]]
            wanted = len(numbers) if max(numbers) < count else 0
        else:
            wanted = 0
        return "" if wanted not in (1, 2, 3, 4, 8, 16) else f"{vector[1]}{wanted if wanted > 1 else ''}"

    def held_by(self, name: str) -> set[str]:
        """The structures and unions that members of a name are, or lead to by pointers."""
        return {kind for given in self._named.get(name, ()) if (kind := self.held(given))}

    def held(self, kind: str) -> str:
        """The structure or union that a type is, as ``struct`` and its tag; empty where it is none that is defined."""
        key = _TAGGED.sub("struct ", self.meant(kind))
        return key if key in self._inside else ""

    def parts(self, kind: str) -> set[str]:
        """A structure or union and all that lie in it."""
        found, waiting = set[str](), [self.held(kind)]
        while waiting:
            key = waiting.pop()
            if key and key not in found:
                found.add(key)
                waiting += map(self.held, self._inside[key])
        return found

    def is_arithmetic(self, kind: str) -> bool:
        """Whether a type is one of numbers."""
        kind = self.meant(kind)
        if kind in self.numbers:
            return True
        # In C++ that may be a class.
        return _ARITHMETIC.fullmatch(kind) is not None and (self._vectors or "half" not in kind.split())

    def is_known(self, kind: str) -> bool:
        """Whether a type is one of numbers, a vector or a plain structure."""
        return self.is_arithmetic(kind) or bool(self.members(kind))

    def is_even(self, kind: str) -> bool:
        """Whether a structure is its numbers and nothing else: all of one size, with no gaps, none of them constant."""
        found = list(self.members(kind).values())
        if len({None if m is None else self.meant(m.type) for m in found}) == 1 and self._all_numbers(found):
            return True
        plain = [m if m is not None and not m.depth and not m.fixed else None for m in found]
        sizes = {None if m is None else _SIZES.get(self.meant(m.type)) for m in plain}
        if self._vectors and _VECTOR.fullmatch(self.meant(kind)):
            return True
        return len(sizes) == 1 and None not in sizes

    def _all_numbers(self, found: Sequence[Member | None]) -> bool:
        plain = (m for m in found if m is not None and not m.depth and not m.fixed)
        return sum(self.is_arithmetic(m.type) for m in plain) == len(found)

    def meant(self, kind: str) -> str:
        """A type without qualifiers and names of its own."""
        kind = plain_type(kind)
        for _ in range(len(self._aliases) + 1):
            if kind not in self._aliases or kind in self.numbers:
                break
            kind = self._aliases[kind]
        return kind


@lru_cache(maxsize=64)
def structures(text: str, language: str) -> Structures:
    """The plain structures of a text, headers in it.

    Args:
        text: as the compiler sees it, as far as that is known.
        language: ``c``, ``c++``, ``opencl`` or ``cuda``.
    """
    plus = language in ("c++", "cuda")
    found: dict[str, Mapping[str, Member | None]] = {}
    pointers: dict[str, Mapping[str, Pointee]] = {}
    aliases: dict[str, str] = {}
    names = Counter[str]()
    meanings: dict[str, list[str]] = {}
    named: dict[str, set[str]] = {}
    inside: dict[str, set[str]] = {}
    for name, rest in _MACRO.findall(text):
        meanings.setdefault(name, []).append(rest.strip())
    stack = [parse_file(text.encode(), language)]
    while stack:
        node = stack.pop()
        stack.extend(reversed(node.children))
        outermost = _is_outermost(node)
        if node.type in _NAMES and (body := node.child_by_field_name("body")) is not None:
            tag = node.child_by_field_name("name")
            key = f"struct {node_text(tag)}" if tag is not None else f"struct at {node.start_byte}"
            names[key] += 1
            for name, kind, within in _made_of(body):
                named.setdefault(name, set()).add(kind)
                inside.setdefault(key, set()).update({kind} if within else ())
            if node.type == "struct_specifier" and outermost and not _is_strange(node):
                found[key] = dict(_members(body))
                pointers[key] = dict(_pointers(body))
            if plus and tag is not None:
                names[node_text(tag)] += 1
                aliases[node_text(tag)] = key
        elif node.type == "type_definition":
            for name, stands in _definition(node):
                if stands != f"struct {name}" or not plus:
                    names[name] += 1
                aliases[name] = stands if outermost else ""
                meanings.setdefault(name, []).append(aliases[name])
        elif node.type in ("alias_declaration", "template_declaration", "type_parameter_declaration"):
            names.update({node_text(c): 2 for c in node.named_children if c.type == "type_identifier"})
    for name, times in names.items():
        if times > 1:
            # It may be declared by one definition or by another: who knows.
            found.pop(name, None)
            pointers.pop(name, None)
            aliases[name] = ""
    several = {n: m for n, m in meanings.items() if n not in aliases or not aliases[n]}
    numbers = {
        n for n, m in several.items() if all(map(_ARITHMETIC.fullmatch, m)) and "half" not in " ".join(m)
    }
    vectors = language in ("opencl", "cuda")
    return Structures(found, aliases, numbers, vectors=vectors, pointers=pointers, named=named, inside=inside)


def _is_outermost(node: Node) -> bool:
    around = node.parent
    while around is not None:
        if around.type not in _AROUND:
            return False
        around = around.parent
    return True


def _is_strange(node: Node) -> bool:
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


def _members(body: Node) -> Iterator[tuple[str, Member | None]]:
    for field in body.named_children:
        if field.type != "field_declaration":
            continue
        kind = field.child_by_field_name("type")
        declarators = field.children_by_field_name("declarator")
        if kind is None or not declarators:
            # A structure or union without a name, or a macro: members that nothing is known of.
            yield f"at {field.start_byte}", None
            continue
        words = {
            node_text(c) for c in field.children if c.type in ("type_qualifier", "storage_class_specifier")
        }
        plain = words <= {"const"} and kind.type != "union_specifier"
        plain &= not any(c.type in ("bitfield_clause", "attribute_specifier") for c in field.children)
        text = f"struct at {kind.start_byte}" if kind.child_by_field_name("body") else node_text(kind)
        if (tag := kind.child_by_field_name("name")) is not None and kind.type == "struct_specifier":
            text = f"struct {node_text(tag)}"
        for declarator in declarators:
            depth, inner = 0, declarator
            while inner.type == "array_declarator" and inner.child_by_field_name("size") is not None:
                found = inner.child_by_field_name("declarator")
                assert found is not None
                depth, inner = depth + 1, found
            known = plain and inner.type == "field_identifier"
            name = node_text(inner)
            yield name, Member(" ".join(text.split()), depth, bool(words)) if known else None


def _made_of(body: Node) -> Iterator[tuple[str, str, bool]]:
    """The name of each member, what it is made of, and whether that lies in the structure itself."""
    for field in body.named_children:
        kind = field.child_by_field_name("type")
        if field.type != "field_declaration" or kind is None:
            continue
        text = _type_text(kind)
        declarators = field.children_by_field_name("declarator")
        if not declarators:
            yield "", text, True
        for declarator in declarators:
            parts = list(_within(declarator))
            name = next((node_text(part) for part in parts if part.type == "field_identifier"), "")
            yield name, text, not any(part.type == "pointer_declarator" for part in parts)


def _type_text(kind: Node) -> str:
    """A member's type; for a structure or union the name by which it is known here."""
    tag = kind.child_by_field_name("name") if kind.type in _NAMES else None
    if tag is not None:
        return f"struct {node_text(tag)}"
    if kind.child_by_field_name("body") is not None:
        return f"struct at {kind.start_byte}"
    return " ".join(node_text(kind).split())


def _pointers(body: Node) -> Iterator[tuple[str, Pointee]]:
    """Members that are pointers, one star each and nothing volatile."""
    for field in body.named_children:
        kind = field.child_by_field_name("type")
        words = {node_text(c) for c in field.children if c.type == "type_qualifier"}
        if field.type != "field_declaration" or kind is None or not words <= {"const"}:
            continue
        if kind.child_by_field_name("body") is not None or kind.type not in _POINTED:
            continue
        for declarator in field.children_by_field_name("declarator"):
            inner = declarator.child_by_field_name("declarator")
            own = {node_text(c) for c in declarator.named_children} - {
                "" if inner is None else node_text(inner)
            }
            plain = declarator.type == "pointer_declarator" and own <= _OWN_QUALIFIERS
            if plain and inner is not None and inner.type == "field_identifier":
                text = " ".join(node_text(kind).split())
                yield node_text(inner), Pointee(text, "const" in words)


_POINTED = ("primitive_type", "sized_type_specifier", "type_identifier", "struct_specifier")
_OWN_QUALIFIERS = {"const", "restrict", "__restrict", "__restrict__"}


def _definition(node: Node) -> Iterator[tuple[str, str]]:
    """The names that a ``typedef`` makes and what they stand for; nothing for what is more than another name."""
    kind = node.child_by_field_name("type")
    declarators = node.children_by_field_name("declarator")
    if kind is None or not declarators:
        return
    text = " ".join(node_slice(node, node.start_byte, declarators[0].start_byte).split()[1:])
    if kind.type in _NAMES:
        tag = kind.child_by_field_name("name")
        text = f"struct {node_text(tag)}" if tag is not None else f"struct at {kind.start_byte}"
    rest = [d for c in node.children if c.type not in _NAMES for d in _within(c)]
    plain = not node.has_error and not any(
        c.type in ("attribute_specifier", "attribute_declaration") or node_text(c) in ("volatile", "_Atomic")
        for c in rest
    )
    for declarator in declarators:
        name = next((node_text(d) for d in _within(declarator) if d.type == "type_identifier"), "")
        if name:
            yield name, text if plain and declarator.type == "type_identifier" else ""
