"""Members of the structures that an array consists of, as clang lays them out.

Structures with pointers, unions, bit-fields, base classes or members that C would lay out otherwise have no dtype.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.dtypes import members_of, numpy_dtype, structured_dtype
from tuner.core.errors import SpecError
from tuner.spec.reading.c_types import CType, bare
from tuner.spec.reading.signature import Function, SourceReader

__all__ = ["element_type", "structured_type"]

_PROBE = "tuner_element_probe_"
_AROUND = re.compile(
    r"\b(?:const|volatile|restrict|__restrict|__global|__constant|__local|__private|__generic)\b|[*&]|\[\d*\]"
)
_DUMPED = "*** Dumping AST Record Layout\n"
_MEMBER = re.compile(r"^ *(\d+(?::\S+)?) \|( +)(.*)$", re.MULTILINE)
_NAMED = re.compile(r"(?P<type>.*[\s*)])(?P<name>[A-Za-z_]\w*)")
_ARRAY = re.compile(r"([^\[\]]+?) ?((?:\[\d+\])+)")
_WORDS_OF_RECORDS = ("struct ", "class ")


@dataclass(frozen=True, slots=True)
class _Line:
    """One member of a dump: how deep it stands, where, and how it is declared."""

    depth: int
    place: str
    type: str
    name: str


def element_type(kind: CType) -> str:
    """The type of what a pointer leads to, as the source can write it."""
    return " ".join(_AROUND.sub(" ", kind.text).split())


def structured_type(reader: SourceReader, name: str) -> str | None:
    """The dtype of structures of a type; ``None`` for a type that has none.

    Args:
        reader: of the source that has the type.
        name: as :func:`element_type` gives it.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    probe = f"struct {_PROBE} {{ {name} a; }};\nenum {{ {_PROBE}size = sizeof(struct {_PROBE}) }};\n"
    for block in reader.layouts(f"\n\n{probe}").split(_DUMPED):
        found = [_line(*each) for each in _MEMBER.findall(block)]
        if not found or found[0] is None or found[0].name != _PROBE or len(found) < 3:
            continue
        lines = [each for each in found[2:] if each is not None]
        if len(lines) != len(found) - 2:
            return None
        return _dtype(reader, lines)
    return None


def _line(place: str, indent: str, text: str) -> _Line | None:
    named = _NAMED.fullmatch(text)
    return None if named is None else _Line(len(indent) // 2, place, named["type"].strip(), named["name"])


def _dtype(reader: SourceReader, lines: Sequence[_Line]) -> str | None:
    """The dtype, where C lays it out as clang does the structure."""
    try:
        made = structured_dtype(_members(reader, lines, lines[0].depth))
    except (SpecError, KeyError):
        return None
    dtype = numpy_dtype(made)
    places, stack = [], [(dtype, 0)]
    while stack:
        inner, at = stack.pop()
        for name in reversed(inner.names or ()):
            stack.append((inner.fields[name][0], at + inner.fields[name][1]))  # type: ignore[index]
        places.append(at)
    return made if places[1:] == [int(line.place) for line in lines] and members_of(made) else None


def _members(reader: SourceReader, lines: Sequence[_Line], depth: int) -> dict[str, object]:
    """Types by names; of a member that none can describe ``KeyError``."""
    found: dict[str, object] = {}
    at = 0
    while at < len(lines):
        line, end = lines[at], at + 1
        while end < len(lines) and lines[end].depth > depth:
            end += 1
        inner = lines[at + 1 : end]
        if not line.place.isdecimal() or "*" in line.type or line.name in found:
            raise KeyError(line.name)
        if inner:
            if line.type.startswith("union ") or "(base)" in line.type:
                raise KeyError(line.name)
            found[line.name] = _members(reader, inner, depth + 1)
        else:
            found[line.name] = _numbers(reader, line)
        at = end
    return found


def _numbers(reader: SourceReader, line: _Line) -> object:
    array = _ARRAY.fullmatch(line.type)
    text, extents = (array[1], array[2]) if array is not None else (line.type, "")
    kind = CType(text=text, base=bare(text))
    ((_, kind),) = reader.resolved(Function(name="", parameters=(("", kind),), returns=None)).parameters
    if not kind.dtypes or kind.pointer or kind.odd:
        raise KeyError(line.name)
    counts = [*map(int, re.findall(r"\d+", extents)), *([kind.width] if kind.width > 1 else [])]
    return [kind.dtypes[0], *counts] if counts else kind.dtypes[0]
