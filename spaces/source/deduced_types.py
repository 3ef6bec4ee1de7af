"""Types that C++ deduces, written out where they are plain: ``const auto x = 2 * b[i];`` of an array of ``double``.

Operators refuse what is of a type that they do not know. May not guess: what is not known for certain stays ``auto``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tuner.spaces.source.kinds import is_narrow, is_number, plain_type, types_of
from tuner.spaces.source.syntax import (
    Binary,
    Cast,
    Decl,
    Expr,
    Field,
    For,
    Function,
    Index,
    Name,
    Number,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import transform
from tuner.spaces.source.widths import one_type

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
    """The type of an expression; nothing where it is not known, or may be a narrow one, which arithmetic widens."""
    match expr:
        case Number(text=text):
            return one_type(expr, types) if _LITERAL.fullmatch(text) else ""
        case Binary(op="+" | "-" | "*" | "/", left=left, right=right):
            return _joined(_operand(left, types), _operand(right, types))
        case Unary(op="-" | "+", operand=operand):
            return _operand(operand, types)
        case Ternary(then=then, other=other):
            return _joined(_deduced(then, types), _deduced(other, types))
        case Cast(type=kind):
            return plain_type(kind) if "*" not in kind else ""
        case Name(id=name):
            return _own(types.get(name, ""))
        case Index() | Field():
            made = one_type(expr, types)
            return made if made in _FRACTIONS else ""
    made = one_type(expr, types)
    return made if made in _FRACTIONS else ""


def _own(kind: str) -> str:
    return "" if "*" in kind or "&" in kind or is_narrow(kind) else plain_type(kind)


def _operand(expr: Expr, types: Mapping[str, str]) -> str:
    """The type in which an operand of arithmetic is computed."""
    return _deduced(expr, types) or one_type(expr, types)


def _joined(left: str, right: str) -> str:
    """The type of a sum or product of two."""
    if not is_number(left) or not is_number(right) or "long double" in (left, right):
        return ""
    return next((kind for kind in _FRACTIONS if kind in (left, right)), left if left == right else "")
