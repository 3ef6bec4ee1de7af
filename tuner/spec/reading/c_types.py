"""Types of C as clang prints them, and the dtypes that agree with them. May not run a compiler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

__all__ = [
    "DTYPES",
    "ENUMERATIONS",
    "POINTERS_INSIDE",
    "REFERENCE",
    "ROWS",
    "CType",
    "bare",
    "c_type",
    "is_alias",
    "parameter_type",
    "stood_for",
    "unaliased",
    "width_of",
]

ROWS = "a pointer to pointers"
"""Why most specs cannot describe a `T **`."""

REFERENCE = "a reference"
"""Why a spec cannot describe a `T &`, unless that is a number, or a structure that consists of some."""

POINTERS_INSIDE = re.compile(r"\*[^*\[)]*\[\d+\]")
"""What the text of an array of pointers has: `double *[3]`."""

ENUMERATIONS = """template <class> struct tuner_enumeration_ {};
template <class tuner_t, bool = __is_enum(tuner_t)> struct tuner_number_ { typedef tuner_t tuner_is; };
template <class tuner_t> struct tuner_number_<tuner_t, true> {
    typedef tuner_enumeration_<__underlying_type(tuner_t)> tuner_is;
};
"""
"""What makes C++ say that a type is an enumeration, and of what size: ``tuner_number_< T >::tuner_is``."""

_QUALIFIERS = re.compile(
    r"\b(const|volatile|_Atomic|struct|union|__global|__local|__constant|__private|__generic)\b"
)
_ENUM = re.compile(r"\benum\b[^*&\[\]]*")
_ENUMERATION = re.compile(r"(?:struct )?tuner_enumeration_<(?:(?:unsigned )?int|(.*))>")
"""One of 32 bits is an ``int`` to those who use it."""
_NAMED_ARRAY = re.compile(r"([^*\[\]]+)((?:\[\d+\])+)")
_REFERENCE = re.compile(r"([\w ]+?) ?(?:&|\(&\)((?:\[\d+\])+))")
_FUNCTION = re.compile(r"\([*^][^()]*\)\(")
"""Of `double (*const)(double)`."""
_NAMED_POINTER = re.compile(r"\s*\((\*+)\)$")
"""Of `double (*line)`: the parentheses stay in the type."""
_VECTOR = re.compile(r"__attribute__\(\(ext_vector_type\((\d+)\)\)\)")

DTYPES: Mapping[str, tuple[str, ...]] = {
    "float": ("float32",),
    "double": ("float64",),
    "_Float16": ("float16",),
    "__fp16": ("float16",),
    "half": ("float16",),
    "_Complex float": ("complex64",),
    "_Complex double": ("complex128",),
    "bool": ("bool", "uint8"),
    "_Bool": ("bool", "uint8"),
    "char": ("int8", "uint8", "bool"),
    "signed char": ("int8",),
    "unsigned char": ("uint8", "bool"),
    "short": ("int16",),
    "unsigned short": ("uint16",),
    "int": ("int32",),
    "unsigned int": ("uint32",),
    "enum": ("int32", "uint32"),
    "long": ("int64",),
    "unsigned long": ("uint64",),
    "long long": ("int64",),
    "unsigned long long": ("uint64",),
}
"""Dtypes that agree with a C type on x86-64 Linux; the first is the usual one."""

_UNSIGNED = {
    "uchar": "unsigned char",
    "ushort": "unsigned short",
    "uint": "unsigned int",
    "ulong": "unsigned long",
}
"""OpenCL's names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CType:
    """The type of a parameter or of what a function returns.

    Attributes:
        text: as clang prints it.
        base: the element's (or the value's) type without qualifiers and type aliases.
        pointer: whether it is a pointer (or an array) of ``base``.
        constant: whether what it points to is const.
        odd: why no spec can describe it; empty when one can.
        local: whether it points to local memory, which `launch.shared_bytes` gives in OpenCL.
        width: elements of a vector type; 1 for a scalar.
        members: numbers in one element, where the elements are structures of them; else 0.
        depth: pointers that lead to one another, of which the last leads to ``base``; 0 where that is not counted.
        rows: whether it is a pointer to the addresses of rows, which some specs can describe.
        inner: elements along each dimension of what it points to, where that is an array with a name of its own.
        structure: dtype of the structures that it points to, where they have members of several types.
        enumeration: whether it is, or points to, one of another size than ``enum`` in C.
        values: of its enumerators, where those are known.
        reference: whether it is a pointer that C++ writes as a reference to one number, structure or `std::array`.
    """

    text: str
    base: str
    pointer: bool = False
    constant: bool = False
    odd: str = ""
    local: bool = False
    width: int = 1
    members: int = 0
    depth: int = 0
    rows: bool = False
    inner: tuple[int, ...] = ()
    structure: str = ""
    enumeration: bool = False
    values: tuple[int, ...] = ()
    reference: bool = False

    @property
    def extents(self) -> tuple[int, ...]:
        """All extents of what a reference leads to, where that is an array."""
        return self.inner if "&" in self.text else ()

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Dtypes that agree with it; empty where any may (``void``, structures)."""
        return (self.structure,) if self.structure else DTYPES.get(self.base, ())

    @property
    def referred(self) -> CType:
        """Of a reference the type of what is passed, the address; of anything else itself."""
        if self.odd != REFERENCE or "*" in self.base:
            return self
        return replace(self, base=bare(self.base.rstrip("& ")), odd="", pointer=True, reference=True)

    @property
    def whole(self) -> bool:
        """Whether it is, or points to, whole numbers."""
        return any(dtype.startswith(("int", "uint")) for dtype in self.dtypes)

    @property
    def usual(self) -> str:
        """The usual one of its dtypes; ``float32`` where any may agree."""
        return self.dtypes[0] if self.dtypes else "float32"

    @property
    def is_address(self) -> bool:
        """Whether a pointer, a reference or an array is passed, of whatever type."""
        return self.odd != "a function pointer" and (self.pointer or any(c in self.text for c in "*&["))


def bare(text: str) -> str:
    """A type without qualifiers, an enumeration without its name."""
    return " ".join(_QUALIFIERS.sub(" ", _VECTOR.sub(" ", _ENUM.sub("enum ", text))).split())


def width_of(text: str) -> int:
    """Elements of a vector type; 1 of any other."""
    found = _VECTOR.search(text)
    return int(found[1]) if found else 1


def c_type(given: Mapping[str, Any]) -> CType:
    """A type of clang's tree."""
    written = str(given["qualType"])
    text = _NAMED_POINTER.sub(r" \1", str(given.get("desugaredQualType", written)))
    if _FUNCTION.search(text):
        return CType(text=written, base=text, odd="a function pointer")
    if "&" in text:
        constant = "const" in text.split()
        return CType(text=written, base=text, constant=constant, odd=REFERENCE)
    written = " ".join(written.replace("__private", " ").split())
    # An array inside an array parameter, `float (*)[8]`: its elements are what counts.
    array = re.fullmatch(r"(?P<element>.+?) \(\*[^)]*\)\[.*\]", text)
    if array:
        element, extents = array["element"], re.findall(r"\[([^\]]*)\]", text)
        if "(**" in text:
            return CType(text=written, base=bare(element), pointer=True, odd=ROWS)
        return CType(
            text=written,
            base=bare(element),
            pointer=True,
            constant="const" in element.split(),
            inner=tuple(map(int, extents)) if all(e.isdecimal() for e in extents) else (),
        )
    stars = text.count("*")
    if stars == 0:
        width = width_of(text)
        return CType(text=written, base=bare(text), odd="a vector by value" if width > 1 else "", width=width)
    element, _, _ = text.partition("*")
    odd = ROWS if stars > 1 else ""
    return CType(
        text=written,
        base=bare(element),
        pointer=True,
        constant=not {"const", "__constant"}.isdisjoint(element.split()),
        odd=odd,
        depth=stars,
        local="__local" in element.split(),
        width=width_of(element),
    )


def parameter_type(given: Mapping[str, Any]) -> CType:
    """A parameter's type of clang's tree: a reference to a number, or to an array, is passed as a pointer to it."""
    kind = c_type(given)
    found = _REFERENCE.fullmatch(str(given.get("desugaredQualType", given["qualType"])))
    if found is None or not (found[2] or bare(found[1]) in DTYPES):
        return kind
    constant = "const" in found[1].split()
    inner = tuple(map(int, re.findall(r"\d+", found[2] or "")))
    return CType(
        text=kind.text,
        base=bare(found[1]),
        pointer=True,
        constant=constant,
        inner=inner,
        reference=not inner,
    )


def is_alias(kind: CType) -> bool:
    """Whether the type has a name that may stand for another."""
    return kind.odd in ("", ROWS) and kind.base not in DTYPES and kind.base != "void" and "[" not in kind.base


def stood_for(text: str) -> str:
    """A type as :func:`unaliased` takes it: of an enumeration ``enum``, with its numbers' type where that is no int."""
    found = _ENUMERATION.fullmatch(text)
    # What an alias of a vector stands for keeps OpenCL's own names of its elements.
    return _UNSIGNED.get(bare(text), bare(text)) if found is None else f"enum {found[1] or ''}".strip()


def unaliased(kind: CType, known: Mapping[str, tuple[str, int]]) -> CType:
    """A type whose name stands for another, with vector widths; itself where none is known."""
    if kind.base not in known:
        return kind
    base, width = known[kind.base]
    if base.startswith("enum "):
        return replace(kind, base=base.removeprefix("enum "), enumeration=True)
    array = _NAMED_ARRAY.fullmatch(base)
    if array and kind.pointer and not kind.odd:
        inner = tuple(int(extent) for extent in re.findall(r"\d+", array[2]))
        return replace(kind, base=array[1].strip(), inner=(*kind.inner, *inner))
    depth = kind.depth + base.count("*")
    odd = ROWS if depth > 1 and not kind.odd else kind.odd
    pointer = kind.pointer or "*" in base
    return replace(
        kind,
        base=base.replace("*", "").strip(),
        pointer=pointer,
        depth=depth,
        odd="a vector by value" if width > 1 and not pointer else odd,
        width=width,
    )
