"""Dtypes of the structures that an array consists of, where NumPy and C lay them out as clang does.

Structures with pointers, unions, bit-fields, base classes or members that C would lay out otherwise have no dtype.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tuner.core.dtypes import members_of, numpy_dtype, structured_dtype
from tuner.core.errors import SpecError
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.record_layouts import Layout, Member

__all__ = ["dtype_of_layout", "element_type"]

_AROUND = re.compile(
    r"\b(?:const|volatile|restrict|__restrict|__restrict__|__global|__constant|__local|__private|__generic)\b"
    r"|\(\*[^()]*\)|[*&]|\[\d*\]"
)


def element_type(kind: CType) -> str:
    """The type of what a pointer leads to, as the source can write it."""
    return " ".join(_AROUND.sub(" ", kind.text).split())


def dtype_of_layout(layout: Layout) -> str | None:
    """The dtype, where C lays it out as clang does the structure."""
    try:
        made = structured_dtype(_typed(layout.members))
    except (SpecError, KeyError):
        return None
    dtype = numpy_dtype(made)
    places, stack = [], [(dtype, 0)]
    while stack:
        inner, at = stack.pop()
        for name in reversed(inner.names or ()):
            stack.append((inner.fields[name][0], at + inner.fields[name][1]))  # type: ignore[index]
        places.append(at)
    same = places[1:] == list(_places(layout.members)) and dtype.itemsize == layout.size
    return made if same and members_of(made) else None


def _places(members: Sequence[Member]) -> Iterator[int]:
    for member in members:
        yield member.place
        yield from _places(member.members)


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
