"""How wide the numbers are that an expression computes with, and whether a type holds them.

May not reason about values: a name of which the type is not known is taken to be held.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tuner.spaces.source.integers import rank
from tuner.spaces.source.kinds import is_narrow, plain_type
from tuner.spaces.source.syntax import Cast, Expr, Field, Name, Number, Unary
from tuner.spaces.source.walks import children

__all__ = ["holds", "is_signless", "is_without_sign", "width"]

_SIGNLESS = re.compile(r"unsigned( int)?|uint(32_t)?")
_SUFFIX = re.compile(r"(?:0[xX][0-9a-fA-F]+|\d+)([uUlL]*)")
_INT_MOST = (1 << 31) - 1
_ORDER = ("s32", "u32", "s64", "u64")
_HELD = {
    "s32": ("s32",),
    "u32": ("s32", "u32"),
    "s64": ("s32", "u32", "s64", "u64"),
    "u64": ("s32", "u32", "s64", "u64"),
}
"""What is held, but for signs: numbers under 2^40 are taken for granted where there are 64 bits."""
_KEPT = {**_HELD, "u32": ("u32",), "u64": ("u32", "u64")}


def is_signless(kind: str) -> bool:
    """Whether a type of integers of 32 bits or more has no sign."""
    return rank(kind) == "size_t" or bool(_SIGNLESS.fullmatch(plain_type(kind)))


def width(expr: Expr, types: Mapping[str, str]) -> str:
    """How an expression is computed: ``s32``, ``u32``, ``s64`` or ``u64``, the widest of its parts."""
    found = _parts(expr, types)
    return max(found, key=_ORDER.index, default="s32")


def is_without_sign(expr: Expr, types: Mapping[str, str]) -> bool:
    """Whether any part of an expression has no sign."""
    return not {"u32", "u64"}.isdisjoint(_parts(expr, types))


def holds(kind: str, expr: Expr, types: Mapping[str, str], *, signs: bool = False) -> bool:
    """Whether a type holds what an expression computes.

    Args:
        kind: the type.
        expr: of whole numbers.
        types: of names.
        signs: whether numbers below zero have to be held as well where some may be.
    """
    if is_narrow(kind):
        if isinstance(expr, Number):
            return expr.text.isdigit() and int(expr.text) < 1 << 7
        return isinstance(expr, Name) and plain_type(types.get(expr.id, "")) == plain_type(kind)
    own = _width(kind)
    literal = isinstance(expr, Number) or (isinstance(expr, Unary) and isinstance(expr.operand, Number))
    if own is None or (literal and width(expr, types) == "s32"):
        return not (signs and isinstance(expr, Unary) and is_signless(kind))
    return width(expr, types) in (_KEPT if signs else _HELD)[own]


def _width(kind: str) -> str | None:
    if is_signless(kind):
        return "u64" if rank(kind) == "size_t" else "u32"
    return {"int": "s32", "long": "s64"}.get(rank(kind) or "")


def _parts(expr: Expr, types: Mapping[str, str]) -> set[str]:
    found: set[str] = set()
    stack: list[Expr] = [expr]
    while stack:
        part = stack.pop()
        match part:
            case Name(id=name):
                found.add(_width(types.get(name, "")) or "s32")
            case Cast(type=kind) | Field(type=kind):
                found.add(_width(kind) or "s32")
            case Number(text=text):
                found.add(_literal(text))
            case _:
                stack += (p for p in children(part) if isinstance(p, Expr))
    return found


def _literal(text: str) -> str:
    suffix = _SUFFIX.fullmatch(text)
    if suffix is None:
        return "s32"
    signless = "u" in suffix[1].lower()
    wide = (
        "l" in suffix[1].lower()
        or int(text[: suffix.start(1)], 0 if text[:2].lower() == "0x" else 10) > _INT_MOST
    )
    return ("u" if signless else "s") + ("64" if wide else "32")
