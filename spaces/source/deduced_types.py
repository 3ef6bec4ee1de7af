"""Types that C++ deduces, written out where they are plain: ``const auto x = 2 * b[i];`` of an array of ``double``.

Operators refuse what is of a type that they do not know. May not guess: what is not known for certain stays ``auto``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tuner.spaces.source.kinds import plain_type, types_of
from tuner.spaces.source.syntax import (
    Binary,
    Call,
    Decl,
    Expr,
    Field,
    For,
    Function,
    Index,
    Number,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import transform
from tuner.spaces.source.widths import type_of

__all__ = ["with_deduced_types"]

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
