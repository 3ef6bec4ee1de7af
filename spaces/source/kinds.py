"""Types by name and expressions without effects; and the exception of what is not as it would have to be.

May not reason about dependences.
"""

from __future__ import annotations

import re

from tuner.spaces.source.syntax import (
    Assign,
    Call,
    Decl,
    Expr,
    For,
    Function,
    Opaque,
    Unary,
    statements,
    subtrees,
)

__all__ = ["Refused", "is_floating", "is_integer", "is_pure", "types_of"]

_PURE = re.compile(
    r"(sqrt|rsqrt|cbrt|exp|exp2|expm1|log|log2|log10|log1p|pow|sin|cos|tan|asin|acos|atan|atan2|sinh|cosh|tanh|"
    r"fabs|floor|ceil|trunc|round|fmin|fmax|fma|fmod|hypot|erf|copysign)[fl]?|abs|labs|__builtin_\w*(fabs|sqrt|fma)\w*|"
    r"get_(global|local|group|num)_(id|size|groups)|native_\w+"
)
_INTEGER = re.compile(r"\b(char|short|int|long|size_t|ptrdiff_t|ssize_t|unsigned|u?int\d+_t)\b")
_FLOATING = re.compile(r"\b(float|double|_Float16|half)\b")


class Refused(Exception):
    """Why a transformation does not apply, one line."""


def types_of(function: Function) -> dict[str, str]:
    """Types by name, of parameters and local variables; where names repeat, the last."""
    found = {p.name: f"{p.base} *" if p.is_array else p.base for p in function.params}
    found |= {d.name: d.type for d in function.outer}
    counters: dict[str, str] = {}
    for stmt in statements(function.body):
        if isinstance(stmt, Decl):
            found[stmt.name] = stmt.type
        elif isinstance(stmt, For) and stmt.type:
            counters[stmt.var] = stmt.type
    found |= counters
    return found


def is_integer(kind: str) -> bool:
    """Whether a type's name is an integer's."""
    return bool(_INTEGER.search(kind)) and not _FLOATING.search(kind) and "*" not in kind


def is_floating(kind: str) -> bool:
    """Whether a type's name is a floating-point number's (of an element, for pointers)."""
    return bool(_FLOATING.search(kind))


def is_pure(expr: Expr) -> bool:
    """Whether evaluating an expression has no effect and always gives the same for the same variables."""
    for part in subtrees(expr):
        if isinstance(part, Assign | Opaque):
            return False
        if isinstance(part, Call) and not _PURE.fullmatch(part.function):
            return False
        if isinstance(part, Unary) and part.op in ("*", "&"):
            return False
    return True
