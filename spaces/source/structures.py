"""The plain structures that a text defines: which members they have, of which types.

Knows those whose members lie side by side and mean nothing more than their values: no unions, no bit-fields, nothing
volatile, no methods. May not know about functions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tuner.spaces.source.kinds import plain_type
from tuner.spaces.source.parse import is_outermost, node_text, parse_file
from tuner.spaces.source.structure_texts import (
    AROUND,
    NAMES,
    Member,
    Pointee,
    definitions_of,
    fields_of,
    is_strange,
    known_as,
    type_text,
)

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
    **dict.fromkeys(("char", "uchar"), 1),
    **dict.fromkeys(("short", "ushort", "half", "_Float16"), 2),
    **dict.fromkeys(("int", "uint", "float", "unsigned", "unsigned int", "int32_t", "uint32_t"), 4),
    **dict.fromkeys(("double", "int64_t", "uint64_t"), 8),
}
_TAGGED = re.compile(r"^(?:union|class) ")


@dataclass(frozen=True, eq=False, kw_only=True)
class Structures:
    """Structures and other names of types.

    Attributes:
        found: members by the structure's name, in their order; ``None`` for a member of which too little is known.
        aliases: what names of types stand for.
        numbers: names of types that are of numbers, whichever of several.
        vectors: whether the language has types such as ``float4``.
        pointers: what those members point to that are pointers, by the structure's name.
        named: what members of a name are made of in any structure or union, stars and dimensions left out.
        inside: what any structure or union is made of.
        in_unions: structures that lie in a union, so that members of one may be those of another.
        leading: what names of types are made of, stars and dimensions left out.
    """

    found: Mapping[str, Mapping[str, Member | None]]
    aliases: Mapping[str, str]
    numbers: Collection[str]
    vectors: bool
    pointers: Mapping[str, Mapping[str, Pointee]]
    named: Mapping[str, Collection[str]]
    inside: Mapping[str, Collection[str]]
    in_unions: Collection[str]
    leading: Mapping[str, Collection[str]]

    def members(self, kind: str) -> Mapping[str, Member | None]:
        """The members of a type by name, in their order; none of one that is no plain structure."""
        kind = self.meant(kind)
        if kind in self.found:
            return self.found[kind]
        vector = _VECTOR.fullmatch(kind) if self.vectors else None
        if vector is None:
            return {}
        return dict.fromkeys("xyzw"[: int(vector[2])], Member(vector[1], 0))

    def owners(self, name: str) -> set[str]:
        """The plain structures that have a member of a name."""
        found = self.found.items()
        return {key for key, members in found if name in members or name in self.pointers.get(key, ())}

    def pointee(self, kind: str, name: str) -> Pointee | None:
        """What a member of a structure points to; ``None`` where it is no plain pointer."""
        return self.pointers.get(self.meant(kind), {}).get(name)

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

    def overlaid(self) -> set[str]:
        """The structures and unions that lie in a union, and all that lie in them."""
        return {part for kind in self.in_unions for part in self.parts(kind)}

    def lies_behind(self, kind: str) -> frozenset[str]:
        """The structures that a type is or leads to; an empty name for any other type, ``?`` for what is not known."""
        done, waiting, found = set[str](), [plain_type(kind)], set[str]()
        while waiting:
            name = waiting.pop()
            if name in done:
                continue
            done.add(name)
            if (key := self.held(name)) or self.is_arithmetic(name) or name not in self.aliases:
                found.add(key)
            elif name in self.leading:
                waiting += map(plain_type, self.leading[name])
            else:
                found.add("?")
        return frozenset(found)

    def kinds_of(self, name: str) -> frozenset[str]:
        """What :meth:`lies_behind` the types of all members of a name; an empty one where there are none."""
        found = (self.lies_behind(kind) for kind in self.named.get(name, ()))
        return frozenset[str]().union(*found) or frozenset({""})

    def held(self, kind: str) -> str:
        """The structure or union that a type is, as ``struct`` and its tag; empty where it is none that is defined."""
        key = _TAGGED.sub("struct ", self.meant(kind))
        return key if key in self.inside else ""

    def parts(self, kind: str) -> set[str]:
        """A structure or union and all that lie in it."""
        found, waiting = set[str](), [self.held(kind)]
        while waiting:
            key = waiting.pop()
            if key and key not in found:
                found.add(key)
                waiting += map(self.held, self.inside[key])
        return found

    def is_arithmetic(self, kind: str) -> bool:
        """Whether a type is one of numbers."""
        kind = self.meant(kind)
        if kind in self.numbers:
            return True
        # In C++ that may be a class.
        return _ARITHMETIC.fullmatch(kind) is not None and (self.vectors or "half" not in kind.split())

    def is_known(self, kind: str) -> bool:
        """Whether a type is one of numbers, a vector or a plain structure."""
        return self.is_arithmetic(kind) or bool(self.members(kind))

    def is_even(self, kind: str) -> bool:
        """Whether a structure is its numbers and nothing else: all of one size, with no gaps, none of them constant."""
        if self.vectors and _VECTOR.fullmatch(self.meant(kind)):
            return True
        found = list(self.members(kind).values())
        plain = [m.type for m in found if m is not None and not m.depth and not m.fixed]
        if len(plain) < len(found):
            return False
        sizes = {_SIZES.get(self.meant(kind)) for kind in plain}
        one = len(set(map(self.meant, plain))) == 1 and all(map(self.is_arithmetic, plain))
        return one or (len(sizes) == 1 and None not in sizes)

    def meant(self, kind: str) -> str:
        """A type without qualifiers and names of its own."""
        kind = plain_type(kind)
        for _ in range(len(self.aliases) + 1):
            if kind not in self.aliases or kind in self.numbers:
                break
            kind = self.aliases[kind]
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
    names, overlaid = Counter[str](), set[str]()
    leading: dict[str, set[str]] = {}
    meanings: dict[str, list[str]] = {}
    named: dict[str, set[str]] = {}
    inside: dict[str, set[str]] = {}
    stack = [parse_file(text.encode(), language)]
    while stack:
        node = stack.pop()
        stack.extend(reversed(node.children))
        outermost = is_outermost(node, AROUND)
        if node.type in NAMES and (body := node.child_by_field_name("body")) is not None:
            tag = node.child_by_field_name("name")
            key = known_as(node)
            names[key] += 1
            fields = list(fields_of(body))
            for field in fields:
                named.setdefault(field.name, set()).add(field.made_of)
                inside.setdefault(key, set()).update({field.made_of} if field.inside else ())
                overlaid |= {field.made_of} if field.inside and node.type == "union_specifier" else set()
            if node.type == "struct_specifier" and outermost and not is_strange(node):
                found[key] = {f.name or f"at {at}": f.member for at, f in enumerate(fields)}
                pointers[key] = {f.name: f.pointee for f in fields if f.pointee is not None}
            if plus and tag is not None:
                names[node_text(tag)] += 1
                aliases[node_text(tag)] = key
        elif node.type == "type_definition":
            base = node.child_by_field_name("type")
            for name, stands in definitions_of(node):
                if stands != f"struct {name}" or not plus:
                    names[name] += 1
                aliases[name] = stands if outermost else ""
                leading.setdefault(name, set()).add("" if base is None else type_text(base))
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
    return Structures(
        found=found,
        aliases=aliases,
        numbers=numbers,
        vectors=language in ("opencl", "cuda"),
        pointers=pointers,
        named=named,
        inside=inside,
        in_unions=overlaid,
        leading=leading,
    )
