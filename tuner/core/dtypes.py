"""Dtypes of a spec: how C writes them, what lies in structured ones, and what computing in float64 makes of them.

A structured dtype is that of the elements of an array of structures: members by name, each a number, an array of
numbers (``[float64, 3]``) or a structure itself, laid out as C does (System V ABI for AMD64, 3.1.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.errors import SpecError

__all__ = [
    "C_TYPES",
    "WIDER",
    "Numbers",
    "element_of",
    "is_structured",
    "members_of",
    "numbers_in",
    "numpy_dtype",
    "separate_members",
    "structured_dtype",
]

C_TYPES = {
    "bool": "_Bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long",
    "float16": "_Float16",
    "float32": "float",
    "float64": "double",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}
"""As 64-bit Linux has them."""

WIDER = {"float16": "float64", "float32": "float64", "complex64": "complex128"}
"""What a dtype becomes in a reference that is computed in float64."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_MOST_DEEP = 8


def structured_dtype(members: Mapping[Any, Any]) -> str:
    """The dtype of structures with these members, as text.

    Raises:
        SpecError: a member that no structure can have.

    >>> structured_dtype({"at": {"x": "float32", "y": "float32"}, "id": "int32", "v": ["float64", 3]})
    '{at: {x: float32, y: float32}, id: int32, v: [float64, 3]}'
    """
    return _text(members, 1)


def _text(members: Mapping[Any, Any], depth: int) -> str:
    if not members or depth > _MOST_DEEP:
        what = (
            f"a structure inside more than {_MOST_DEEP} others" if members else "a structure without members"
        )
        raise SpecError(f"there is {what}", "write members with their types: {x: float32, id: int32}")
    written = []
    for name, kind in members.items():
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise SpecError(f"a member is called {name!r}", "members have names as in the source")
        if isinstance(kind, Mapping):
            written.append(f"{name}: {_text(kind, depth + 1)}")
            continue
        dtype, *extents = kind if isinstance(kind, list) and kind else [kind]
        plain = isinstance(dtype, str) and dtype in C_TYPES and bool(extents) == isinstance(kind, list)
        if not plain or not all(type(each) is int and each > 0 for each in extents):
            hint = f"one of {', '.join(C_TYPES)}, an array such as [float64, 3], or members"
            raise SpecError(f"the type of member {name!r} is {kind!r}", hint)
        written.append(f"{name}: [{', '.join(map(str, kind))}]" if extents else f"{name}: {dtype}")
    return "{" + ", ".join(written) + "}"


def is_structured(dtype: str) -> bool:
    """Whether a dtype is that of structures."""
    return dtype.startswith("{")


@cache
def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """NumPy's type of elements of a dtype.

    >>> numpy_dtype("{id: int8, v: [float64, 3]}").itemsize
    32
    """
    if not is_structured(dtype):
        return np.dtype(dtype)
    fields: list[Any] = []
    for name, kind in _members(dtype):
        element, extents = (kind, ()) if is_structured(kind) else element_of(kind)
        fields.append((name, numpy_dtype(element), extents))
    return np.dtype(fields, align=True)


def _members(dtype: str) -> Iterator[tuple[str, str]]:
    """Names and dtypes of a structured one's members."""
    depth, begin, inside = 0, 0, dtype[1:-1] + ","
    for at, letter in enumerate(inside):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            name, _, kind = inside[begin:at].partition(":")
            yield name.strip(), kind.strip()
            begin = at + 1


def element_of(kind: str) -> tuple[str, tuple[int, ...]]:
    """Dtype and extents of a member: ``[float64, 3]`` or ``float64``."""
    dtype, *extents = kind.strip("[]").split(", ")
    return dtype, tuple(map(int, extents))


def members_of(dtype: str) -> dict[str, str]:
    """Numbers and arrays of numbers in a structured dtype by name, those of inner structures as ``inner.name``.

    Of any other dtype itself, without a name.

    >>> members_of("{at: {x: float32}, v: [float64, 3]}")
    {'at.x': 'float32', 'v': '[float64, 3]'}
    """
    if not is_structured(dtype):
        return {"": dtype}
    found: dict[str, str] = {}
    for name, kind in _members(dtype):
        if is_structured(kind):
            found |= {f"{name}.{inner}": each for inner, each in members_of(kind).items()}
        else:
            found[name] = kind
    return found


@dataclass(frozen=True, slots=True)
class Numbers:
    """Where the numbers of an array lie, or those of one member of its structures.

    Attributes:
        name: of the array, with the member's behind it.
        first: byte of the first number in an element.
        count: numbers in an element, one behind the other.
        item_bytes: of a number.
        element_bytes: from one element to the next.
    """

    name: str
    first: int
    count: int
    item_bytes: int
    element_bytes: int

    def places(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bytes at which numbers begin, counted through all elements."""
        element, inside = np.divmod(numbers, self.count)
        found: NDArray[np.int64] = element * self.element_bytes + self.first + inside * self.item_bytes
        return found


def numbers_in(name: str, dtype: np.dtype[Any]) -> tuple[Numbers, ...]:
    """All numbers of an array of that type, as :func:`separate_members` names them."""
    found: list[Numbers] = []
    stack = [(name, 0, dtype)]
    while stack:
        at, first, kind = stack.pop()
        if kind.fields is not None:
            inner = ((f"{at}.{n}", first + kind.fields[n][1], kind.fields[n][0]) for n in kind.names or ())
            stack.extend(reversed(list(inner)))
            continue
        item = kind.base.itemsize
        found.append(Numbers(at, first, kind.itemsize // item, item, dtype.itemsize))
    return tuple(found)


def separate_members(name: str, array: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """An array as it is; one of structures as views of each of their members, under names such as ``p.at.x``."""
    if array.dtype.names is None:
        return {name: array}
    found: dict[str, NDArray[Any]] = {}
    for member in array.dtype.names:
        found |= separate_members(f"{name}.{member}", array[member])
    return found
