"""Structures as clang lays them out in memory: members with their types and places, and the dtypes that agree.

Source: ``-fdump-record-layouts-canonical``, clang's ``RecordLayoutBuilder.cpp``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.core.dtypes import members_of, numpy_dtype, structured_dtype
from tuner.core.errors import SpecError
from tuner.spec.reading.c_types import DTYPES, CType, c_type
from tuner.spec.reading.signature import Function, SourceReader

__all__ = [
    "Layout",
    "Member",
    "element_type",
    "record_layout",
    "record_layouts",
    "variable_element",
    "variable_kind",
]

_PROBE = "tuner_element_probe_"
_ASKED = re.compile(rf"{_PROBE}(\d+)_$")
_DUMPED = "*** Dumping AST Record Layout\n"
_LINE = re.compile(r"^ *(\d+(?::\S+)?) \|( +)(.*)$", re.MULTILINE)
_SIZE = re.compile(r"\[sizeof=(\d+)")
_NAMED = re.compile(r"(?P<type>.*[\s*)])(?P<name>[A-Za-z_]\w*)(?: \(empty\))?")
_AROUND = re.compile(
    r"\b(?:const|volatile|restrict|__restrict|__restrict__|__global|__constant|__local|__private|__generic)\b"
    r"|\([*&][^()]*\)|[*&]|\[\d*\]"
)
_ARRAY = re.compile(r"([^\[\]]+?) ?((?:\[\d+\])+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a structure.

    Attributes:
        name: of it; empty for a base class, for what the compiler adds and for what has no name.
        type: as clang writes it, without other names for types; of an array the elements'.
        place: byte at which it begins, from the outermost structure on; -1 for a bit-field.
        bits: those of a bit-field, counted from there too.
        extents: of an array.
        members: of a structure or union.
    """

    name: str
    type: str
    place: int
    bits: tuple[int, int] | None = None
    extents: tuple[int, ...] = ()
    members: tuple[Member, ...] = ()

    @property
    def kind(self) -> CType:
        """The type of it, or of the elements of an array."""
        return c_type({"qualType": self.type})

    @property
    def is_union(self) -> bool:
        """Whether the members lie in the same place."""
        # One that a typedef alone names does not say it.
        begins = {m.bits[0] if m.bits is not None else 8 * m.place for m in self.members}
        return self.type.startswith("union ") or (len(self.members) > 1 and len(begins) == 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A structure: its members, and how many bytes it takes."""

    size: int
    members: tuple[Member, ...]

    def uniform(self) -> tuple[str, int] | None:
        """The C type of all numbers in it and how many they are, padding counted; ``None`` where they differ."""
        found = set[str]()
        for member in (each for each in _all(self.plain()) if not each.members):
            kind = member.kind
            if member.place < 0 or kind.pointer or kind.base not in DTYPES or not member.name:
                return None
            found.add(kind.base)
        if len(found) != 1:
            return None
        (base,) = found
        return base, self.size // numpy_dtype(DTYPES[base][0]).itemsize

    def pointed(self, kind: CType) -> CType:
        """The type of a pointer to it, with what it is made of there; the same where no spec can describe it."""
        numbers = self.uniform()
        if numbers is None:
            return replace(kind, structure=self.dtype() or "")
        extents = self._rows() if kind.reference else ()
        if extents:
            return replace(kind, base=numbers[0], inner=extents)
        return replace(kind, base=numbers[0], members=numbers[1])

    def _rows(self) -> tuple[int, ...]:
        """The extents of what is an array alone, as `std::array` is; none of anything else."""
        found: tuple[int, ...] = ()
        members = self.members
        while len(members) == 1 and members[0].extents:
            found, members = (*found, *members[0].extents), members[0].members
        return () if members else found

    def plain(self) -> tuple[Member, ...]:
        """Members without unions and bit-fields: of a union a number as large, for bits the number that they lie in.

        That number has the name of the first of them.
        """
        return tuple(_plain(self.members))

    def dtype(self) -> str | None:
        """The dtype, where NumPy and C lay it out as clang does.

        ``None`` of one with pointers, base classes or members that C would lay out otherwise.
        """
        members = self.plain()
        try:
            made = structured_dtype(_typed(members))
        except (SpecError, KeyError):
            return None
        dtype = numpy_dtype(made)
        places, stack = [], [(dtype, 0)]
        while stack:
            inner, at = stack.pop()
            for name in reversed(inner.names or ()):
                stack.append((inner.fields[name][0], at + inner.fields[name][1]))  # type: ignore[index]
            places.append(at)
        same = places[1:] == [member.place for member in _all(members)] and dtype.itemsize == self.size
        return made if same and members_of(made) else None


def record_layout(reader: SourceReader, type_: str) -> Layout | None:
    """The layout of one type as the end of the source sees it, see :func:`record_layouts`."""
    return record_layouts(reader, [type_]).get(type_)


def variable_element(name: str, kind: CType) -> str:
    """The type of a variable's elements as the end of the source can write it, where that type has no name too.

    Args:
        name: of the variable.
        kind: the type of its address.
    """
    return f"__typeof__({name}{'[0]' * len(kind.inner)})"


def variable_kind(reader: SourceReader, name: str, kind: CType) -> CType:
    """The type of a variable's address, with what structures are made of there.

    The same where they are none, or where no spec can describe them.

    Args:
        reader: of the source.
        name: of the variable, as the end of the source can name it.
        kind: the type of its address, as far as it is known.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    if kind.odd or kind.dtypes or not kind.pointer or kind.depth > 1:
        return kind
    layout = record_layout(reader, variable_element(name, kind))
    return kind if layout is None else layout.pointed(kind)


def record_layouts(
    reader: SourceReader, types: Sequence[str], *, before: str = "", after: str = ""
) -> dict[str, Layout]:
    """The layouts of those types that are structures and that clang knows.

    Args:
        reader: of the source that has the types.
        types: as the source can write them.
        before: text that opens the scope in which the types are looked up, at the end of the source.
        after: text that closes it.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    probes = "".join(
        f"struct {_PROBE}{i}_ {{ {each} tuner_a; }};\nenum {{ {_PROBE}size{i}_ = sizeof(struct {_PROBE}{i}_) }};\n"
        for i, each in enumerate(types)
    )
    found: dict[str, Layout] = {}
    known: dict[str, tuple[Member, ...]] = {}
    for block in reader.layouts(f"\n\n{before}{probes}{after}").split(_DUMPED) if types else ():
        lines = [(len(indent) // 2, place, text) for place, indent, text in _LINE.findall(block)]
        asked = _ASKED.search(lines[0][2]) if lines else None
        size = _SIZE.search(block)
        members = _members(lines[1:], known)
        if lines:
            known[lines[0][2]] = members
        if asked is None or size is None:
            continue
        (whole,) = members or (None,)
        if whole is not None and whole.members:
            found[types[int(asked[1])]] = Layout(size=int(size[1]), members=whole.members)
    names = {m.type for each in found.values() for m in _all(each.members) if m.type.startswith("enum ")}
    if reader.language in ("c", "opencl") or not names:
        return found
    asked_of = Function(name="", parameters=tuple((n, CType(text=n, base=n)) for n in names), returns=None)
    numbers = {name: kind.base for name, kind in reader.resolved(asked_of).parameters}
    return {name: replace(each, members=_as_numbers(each.members, numbers)) for name, each in found.items()}


def _all(members: Sequence[Member]) -> Iterator[Member]:
    for member in members:
        yield member
        yield from _all(member.members)


def _as_numbers(members: Sequence[Member], numbers: Mapping[str, str]) -> tuple[Member, ...]:
    """Members with enumerations as numbers of their size."""
    return tuple(
        replace(m, type=numbers.get(m.type, m.type), members=_as_numbers(m.members, numbers)) for m in members
    )


def _members(
    lines: Sequence[tuple[int, str, str]], known: Mapping[str, tuple[Member, ...]]
) -> tuple[Member, ...]:
    """The outermost of some lines, with those inside; of elements of an array as the ``known`` structure has them."""
    found: list[Member] = []
    at = 0
    while at < len(lines):
        depth, place, text = lines[at]
        end = at + 1
        while end < len(lines) and lines[end][0] > depth:
            end += 1
        named = _NAMED.fullmatch(text)
        kind, name = (named["type"].strip(), named["name"]) if named is not None else (text, "")
        array = _ARRAY.fullmatch(kind)
        inside = _members(lines[at + 1 : end], known)
        bits = re.fullmatch(r"(\d+):(\d+)-(\d+)", place)
        first = 8 * int(bits[1]) if bits is not None else 0
        found.append(
            Member(
                name=name,
                type=array[1] if array is not None else kind,
                place=int(place) if place.isdecimal() else -1,
                bits=None if bits is None else (first + int(bits[2]), first + int(bits[3])),
                extents=tuple(map(int, re.findall(r"\d+", array[2]))) if array is not None else (),
                members=known.get(array[1], ()) if array is not None else inside,
            )
        )
        at = end
    return tuple(found)


def element_type(kind: CType) -> str:
    """The type of what a pointer leads to, as the source can write it."""
    return " ".join(_AROUND.sub(" ", kind.text).split())


def _plain(members: Sequence[Member]) -> Iterator[Member]:
    units = set[int]()
    for member in members:
        if member.bits is not None:
            size = 8 * _bytes_of(replace(member, bits=None))
            unit = member.bits[0] // size if size else -1
            if member.bits[1] // (size or 1) == unit and member.name and unit not in units:
                units.add(unit)
                # One truth value among others.
                kind = re.sub(r"_Bool|bool", "unsigned char", member.type)
                yield replace(member, type=kind, place=unit * size // 8, bits=None)
            elif unit not in units and member.name:
                yield member
        elif member.is_union and not member.extents:
            size = max(map(_bytes_of, member.members), default=0)
            numbers = (m for m in member.members if m.name and not m.members and m.bits is None)
            one = tuple(m for m in numbers if _bytes_of(m) == size)[:1]
            # What a union without a name holds is the outer structure's.
            yield from (replace(member, type="struct", members=one),) if member.name else one or (member,)
        else:
            yield replace(member, members=tuple(_plain(member.members)))


def _bytes_of(member: Member) -> int:
    if member.bits is not None:
        return member.bits[1] // 8 + 1 - member.bits[0] // 8
    if member.members:
        ends = (m.place + _bytes_of(m) if m.bits is None else m.bits[1] // 8 + 1 for m in member.members)
        one = max(ends) - member.place
    else:
        kind = member.kind
        number = numpy_dtype(kind.dtypes[0]).itemsize if kind.dtypes else 0
        one = 8 if kind.pointer else number * (4 if kind.width == 3 else kind.width)
    return one * math.prod(member.extents)


def _typed(members: Sequence[Member]) -> dict[str, object]:
    """Types by names; of a member that none can describe ``KeyError``."""
    found: dict[str, object] = {}
    for member in members:
        plain = member.name and member.place >= 0 and member.name not in found and not member.is_union
        if not plain or (member.members and member.extents):
            raise KeyError(member.name)
        found[member.name] = _typed(member.members) if member.members else _numbers(member)
    return found


def _numbers(member: Member) -> object:
    kind = member.kind
    if not kind.dtypes or kind.pointer or (kind.odd and kind.width == 1):
        raise KeyError(member.name)
    counts = [*member.extents, *([kind.width] if kind.width > 1 else [])]
    return [kind.dtypes[0], *counts] if counts else kind.dtypes[0]
