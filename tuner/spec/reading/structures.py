"""What the elements of an array of structures consist of, read from the text that defines the structure.

A spec has arrays of numbers; a structure whose members are all of one type is one more dimension of such an array.
May not compile anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.spec.reading.c_types import DTYPES, UNSIGNED

__all__ = ["Structure", "structure"]

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?[ \t]*(\d+)[uUlL]*[ \t]*\)?[ \t]*$", re.MULTILINE
)
_TYPEDEF = re.compile(r"\btypedef\s+([\w\s]+?)\s+(\w+)\s*;|\busing\s+(\w+)\s*=\s*([\w\s]+?)\s*;")
_FUNCTION = re.compile(r"[^;{}]*\([^;{}]*\)[^;{}]*(?:\{\}|;)")
_MEMBER = re.compile(
    r"(?P<type>[A-Za-z_][\w\s:]*?)\s*(?P<names>[A-Za-z_]\w*(?:\s*\[[^;]*\])*(?:\s*,[^;]*)?)$"
)
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<extents>(?:\s*\[\s*\w+\s*\])*)$")
_VECTOR = re.compile(r"(char|uchar|short|ushort|int|uint|long|ulong|half|float|double)(2|3|4|8|16)$")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|struct|signed(?=\s+\w)|__restrict__|mutable)\b")
_DEEPEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """A structure.

    Attributes:
        element: the C type of every number in it; empty where they differ or are none.
        count: numbers in one, padding counted.
        types: the types of its members as they are written, for messages.
    """

    element: str = ""
    count: int = 0
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Layout:
    element: str
    count: int
    align: int


def structure(name: str, text: str, language: str) -> Structure | None:
    """The structure of that name; ``None`` where the text does not define it.

    Args:
        name: without ``struct``; of a qualified name the last part counts.
        text: the source with what it includes.
        language: ``c``, ``c++``, ``opencl`` or ``cuda``, which differ in how vectors of three lie in memory.
    """
    reader = _Reader(_COMMENT.sub(" ", text), language)
    return reader.structure(name.rpartition("::")[2].strip())


class _Reader:
    def __init__(self, plain: str, language: str) -> None:
        self._plain = plain
        self._language = language
        self._numbers: Mapping[str, int] = {n: int(v) for n, v in _DEFINE.findall(plain)}
        self._aliases = {b or c: a or d for a, b, c, d in _TYPEDEF.findall(plain)}

    def structure(self, name: str) -> Structure | None:
        """As :func:`structure`."""
        body = self._body(name)
        if body is None:
            return None
        members = self._members(body)
        if members is None:
            return Structure()
        types = tuple(dict.fromkeys(kind for kind, _ in members))
        layout = self._layout(name, 0)
        if layout is None:
            return Structure(types=types)
        return Structure(element=layout.element, count=layout.count, types=types)

    def _body(self, name: str) -> str | None:
        escaped = re.escape(name)
        for found in re.finditer(r"\bstruct\b(?:\s+__align__\s*\([^)]*\))?\s*(\w*)\s*\{", self._plain):
            end = _closing(self._plain, found.end() - 1)
            after = re.match(rf"\s*{escaped}\s*;", self._plain[end + 1 :])
            if end >= 0 and (found[1] == name or after):
                return self._plain[found.end() : end]
        alias = self._aliases.get(name, "").replace("struct", " ").strip()
        return self._body(alias) if alias and alias != name and not _is_plain(alias) else None

    def _members(self, body: str) -> list[tuple[str, str]] | None:
        """Type and name with extents of each member; ``None`` where something else is in it."""
        while "{" in body:
            # Bodies of functions, innermost first.
            emptied = re.sub(r"\{[^{}]+\}", "{}", body)
            if emptied == body:
                break
            body = emptied
        body = re.sub(r"\b(?:public|private|protected)\s*:", " ", _FUNCTION.sub(" ", body))
        members = []
        for statement in (s.strip() for s in body.split(";")):
            if not statement:
                continue
            found = _MEMBER.match(" ".join(statement.split()))
            if found is None or "{" in statement or "*" in statement or ":" in statement.replace("::", ""):
                return None
            kind = " ".join(_QUALIFIERS.sub(" ", found["type"]).split())
            members += [(kind, part.strip()) for part in found["names"].split(",")]
        return members

    def _layout(self, kind: str, depth: int) -> _Layout | None:
        """Of a type: the number it is made of, how many, and on how many of them it is aligned."""
        kind = kind.rpartition("::")[2]
        if depth > _DEEPEST:
            return None
        if kind in DTYPES:
            return _Layout(kind, 1, 1)
        vector = _VECTOR.match(kind)
        if vector and self._language in ("opencl", "cuda"):
            return self._vector(UNSIGNED.get(vector[1], vector[1]), int(vector[2]))
        if kind in _FIXED:
            return _Layout(_FIXED[kind], 1, 1)
        body = self._body(kind)
        if body is None:
            alias = self._aliases.get(kind)
            return None if alias is None else self._layout(" ".join(alias.split()), depth + 1)
        members = self._members(body)
        return None if not members else self._joined(members, depth)

    def _vector(self, element: str, width: int) -> _Layout:
        if self._language == "opencl":
            return _Layout(element, 4 if width == 3 else width, 4 if width == 3 else width)
        # CUDA C++ Programming Guide, built-in vector types: no alignment over 16 bytes, three lie packed.
        widest = 2 if element in ("double", "long", "unsigned long") else 4
        return _Layout(element, width, 1 if width == 3 else min(width, widest))

    def _joined(self, members: list[tuple[str, str]], depth: int) -> _Layout | None:
        element, at, align = "", 0, 1
        for kind, written in members:
            inner, named = self._layout(kind, depth + 1), _NAME.match(written)
            if inner is None or named is None or element not in ("", inner.element):
                return None
            element, align = inner.element, max(align, inner.align)
            count = 1
            for extent in re.findall(r"\w+", named["extents"]):
                number = int(extent) if extent.isdigit() else self._numbers.get(extent)
                if number is None:
                    return None
                count *= number
            at = -(-at // inner.align) * inner.align + count * inner.count
        return _Layout(element, -(-at // align) * align, align)


_FIXED = {
    **{
        f"{sign}int{bits}_t": f"{'unsigned ' if sign else ''}{kind}"
        for sign in ("", "u")
        for bits, kind in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))
    },
    "size_t": "unsigned long",
    "uchar": "unsigned char",
    "ushort": "unsigned short",
    "uint": "unsigned int",
    "ulong": "unsigned long",
    "unsigned": "unsigned int",
    "int8_t": "signed char",
}
"""C types behind the names of standard headers and of OpenCL."""


def _is_plain(kind: str) -> bool:
    return kind in DTYPES or kind in _FIXED


def _closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return -1
