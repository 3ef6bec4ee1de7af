"""Structures as clang lays them out in memory: members with their types and places, inner structures opened.

Source: ``-fdump-record-layouts-canonical``, clang's ``RecordLayoutBuilder.cpp``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.core.dtypes import numpy_dtype
from tuner.spec.reading.c_types import DTYPES, CType, c_type
from tuner.spec.reading.signature import SourceReader

__all__ = ["Layout", "Member", "record_layout", "record_layouts"]

_PROBE = "tuner_element_probe_"
_ASKED = re.compile(rf"{_PROBE}(\d+)_$")
_DUMPED = "*** Dumping AST Record Layout\n"
_LINE = re.compile(r"^ *(\d+(?::\S+)?) \|( +)(.*)$", re.MULTILINE)
_SIZE = re.compile(r"\[sizeof=(\d+)")
_NAMED = re.compile(r"(?P<type>.*[\s*)])(?P<name>[A-Za-z_]\w*)(?: \(empty\))?")
_ARRAY = re.compile(r"([^\[\]]+?) ?((?:\[\d+\])+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a structure.

    Attributes:
        name: of it; empty for a base class, for what the compiler adds and for what has no name.
        type: as clang writes it, without other names for types; of an array the elements'.
        place: byte at which it begins, from the outermost structure on; -1 for a bit-field.
        extents: of an array.
        members: of a structure or union.
    """

    name: str
    type: str
    place: int
    extents: tuple[int, ...] = ()
    members: tuple[Member, ...] = ()

    @property
    def kind(self) -> CType:
        """The type of it, or of the elements of an array."""
        return c_type({"qualType": self.type})

    @property
    def is_union(self) -> bool:
        """Whether the members lie in the same place."""
        return self.type.startswith("union ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A structure: its members, and how many bytes it takes."""

    size: int
    members: tuple[Member, ...]

    def uniform(self) -> tuple[str, int] | None:
        """The C type of all numbers in it and how many they are, padding counted; ``None`` where they differ."""
        found = set[str]()
        for member in _leaves(self.members):
            kind = member.kind
            if member.place < 0 or kind.pointer or kind.base not in DTYPES or not member.name:
                return None
            found.add(kind.base)
        if len(found) != 1:
            return None
        (base,) = found
        return base, self.size // numpy_dtype(DTYPES[base][0]).itemsize


def record_layout(reader: SourceReader, type_: str) -> Layout | None:
    """The layout of one type as the end of the source sees it, see :func:`record_layouts`."""
    return record_layouts(reader, [type_]).get(type_)


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
        f"struct {_PROBE}{i}_ {{ {each} a; }};\nenum {{ {_PROBE}size{i}_ = sizeof(struct {_PROBE}{i}_) }};\n"
        for i, each in enumerate(types)
    )
    found: dict[str, Layout] = {}
    for block in reader.layouts(f"\n\n{before}{probes}{after}").split(_DUMPED) if types else ():
        lines = [(len(indent) // 2, place, text) for place, indent, text in _LINE.findall(block)]
        asked = _ASKED.search(lines[0][2]) if lines else None
        size = _SIZE.search(block)
        if asked is None or size is None:
            continue
        (whole,) = _members(lines[1:]) or (None,)
        if whole is not None and whole.members:
            found[types[int(asked[1])]] = Layout(size=int(size[1]), members=whole.members)
    return found


def _members(lines: Sequence[tuple[int, str, str]]) -> tuple[Member, ...]:
    """The outermost of some lines, with those inside."""
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
        found.append(
            Member(
                name=name,
                type=array[1] if array is not None else kind,
                place=int(place) if place.isdecimal() else -1,
                extents=tuple(map(int, re.findall(r"\d+", array[2]))) if array is not None else (),
                members=_members(lines[at + 1 : end]),
            )
        )
        at = end
    return tuple(found)


def _leaves(members: Sequence[Member]) -> Iterator[Member]:
    for member in members:
        if member.members and not member.is_union:
            yield from _leaves(member.members)
        else:
            yield member
