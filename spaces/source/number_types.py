"""Names that a text gives to types of numbers: ``typedef double real;``, ``using index = int;``.

A loop that counts in such a type, and a sum of it, are what those of the type itself are; trees of functions have that
type in their place. So they have where C++ deduces it and it is plain: ``const auto x = 2 * b[i];`` of an array of
``double``. May not say anything of names that mean several things, nor guess: what is not known stays ``auto``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

from tuner.spaces.source.kinds import is_floating, is_integer, plain_type, types_of
from tuner.spaces.source.lexical import code
from tuner.spaces.source.syntax import (
    Binary,
    Call,
    Cast,
    Decl,
    Expr,
    Field,
    For,
    Function,
    Index,
    Number,
    Param,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import transform
from tuner.spaces.source.widths import type_of

__all__ = ["number_types", "with_deduced_types", "with_number_types", "without_names"]

_DEFINED = re.compile(
    r"\btypedef\s+(?P<base>[\w\s:]+?)\s*\b(?P<name>\w+)\s*;|\busing\s+(?P<alias>\w+)\s*=\s*(?P<of>[\w\s:]+?)\s*;"
)
_TYPEDEF = re.compile(r"\btypedef\b([^;{}]*);|\}([^;{}()=]*);")
"""Any other, and what may be one of a structure."""
_POINTER = re.compile(r"\(\s*(?:\w+\s*::\s*)*\*[\s*]*(?:const\s+)?(\w+)")
_BEHIND = re.compile(r"\([^()]*\)|\[[^\]]*\]|:\s*\d+")
_NUMBER = re.compile(
    r"(?:(?:unsigned|signed|short|long|int|char)\s*)+|(?:long\s+)?double|float|u?int\d+_t|s?size_t|ptrdiff_t"
)
_PARAMETER = re.compile(r"\b(?:typename|class|struct|union|enum)\s+(\w+)")
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_MOST_STEPS = 8

N = TypeVar("N")


@lru_cache(maxsize=64)
def number_types(text: str) -> Mapping[str, str]:
    """Types of numbers by the names that a text gives them, and that say nothing of them.

    Args:
        text: of a file, best as the preprocessor leaves it; a name that is given to several types is left out.
    """
    if "typedef" not in text and "using" not in text:
        return MappingProxyType({})
    # What the preprocessor leaves has no comments, and may be long.
    plain = code(text) if "//" in text or "/*" in text else text
    meant: dict[str, set[str]] = {}
    for found in _DEFINED.finditer(plain):
        name, base = (found["name"], found["base"]) if found["name"] else (found["alias"], found["of"])
        meant.setdefault(name, set()).add(" ".join(base.split()))
    for one in _TYPEDEF.finditer(plain):
        if one[1] is None or _DEFINED.fullmatch(one[0]) is None:
            for name in _names(one[1] or one[2] or ""):
                meant.setdefault(name, set()).add("")
    other = set(_PARAMETER.findall(plain))
    single = {
        name: next(iter(bases)) for name, bases in meant.items() if len(bases) == 1 and name not in other
    }
    made: dict[str, str] = {}
    for name in single:
        base, steps = single[name], 0
        while base in single and steps < _MOST_STEPS:
            base, steps = single[base], steps + 1
        if _NUMBER.fullmatch(base.removeprefix("std::")) and not (is_integer(name) or is_floating(name)):
            made[name] = base
    return MappingProxyType(made)


def _names(declarators: str) -> list[str]:
    """What a typedef of something else defines: the last name of each of its declarators."""
    pointer = _POINTER.search(declarators)
    if pointer is not None:
        return [pointer[1]]
    parts = (_WORD.findall(part) for part in _BEHIND.sub("", declarators).split(","))
    return [part[-1] for part in parts if part]


def without_names(text: str, types: Mapping[str, str]) -> str:
    """A type with what its names stand for in their place."""
    return _WORD.sub(lambda found: types.get(found[0], found[0]), text)


def with_number_types(node: N, types: Mapping[str, str]) -> N:
    """A part of a tree with types of numbers in the place of their names.

    Args:
        node: whose names are meant.
        types: by name.
    """

    def change(part: Any) -> Any:
        match part:
            case Decl(type=kind) | Cast(type=kind) | For(type=kind):
                return _changed(part, "type", kind)
            case Param(base=kind):
                return _changed(part, "base", kind)
            case Call(function=name, arguments=(operand,)) if name in types:
                return Cast(types[name], operand, "call")
        return part

    def _changed(part: Any, field: str, kind: str) -> Any:
        made = without_names(kind, types)
        return part if made == kind else replace(part, **{field: made})

    return transform(node, change) if types else node


_FRACTIONS = ("double", "float")
_WRITTEN = frozenset({*_FRACTIONS, "int", "long", "unsigned int", "unsigned long"})
"""Types whose names mean the same everywhere."""
_LITERAL = re.compile(r"[0-9.].*")
_AUTO = re.compile(r"\bauto\b")
_MOST_STEPS = 8
"""How many variables in a row may be deduced from one another."""


def with_deduced_types(function: Function) -> Function:
    """The function with numbers in the place of ``auto``, of variables and of counters."""
    if not _AUTO.search(function.source):
        return function
    for _ in range(_MOST_STEPS):
        types = types_of(function)

        def change(part: Any, types: Mapping[str, str] = types) -> Any:
            match part:
                case Decl(type=kind, dims=(), init=first) | For(type=kind, start=first) if (
                    plain_type(kind) == "auto" and first is not None
                ):
                    made = _deduced(first, types)
                    return replace(part, type=_AUTO.sub(made, kind)) if made in _WRITTEN else part
            return part

        body = transform(function.body, change)
        if body == function.body:
            break
        function = replace(function, body=body)
    return function


def _deduced(expr: Expr, types: Mapping[str, str]) -> str:
    """The type of an expression; nothing where it is not known for certain, as of what is true or false in C++."""
    match expr:
        case Ternary(then=then, other=other) if not (_deduced(then, types) and _deduced(other, types)):
            return ""
        case Number(text=text) if not _LITERAL.fullmatch(text):
            return ""
        case Binary(op=op) | Unary(op=op) if op not in ("+", "-", "*", "/"):
            return ""
    made = type_of(expr, types)
    # Elements may be rows, and what is called another function.
    return made if made in _FRACTIONS or not isinstance(expr, Index | Field | Call) else ""
