"""In what kind of numbers an expression is computed, how wide they are, and whether a type holds them.

Says it as far as the types of its names do. May not reason about values, know loops or dependences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from tuner.spaces.source.integers import rank
from tuner.spaces.source.kinds import is_integer, is_narrow, is_number, is_pure, plain_type, whole_number
from tuner.spaces.source.syntax import Binary, Call, Cast, Expr, Field, Index, Name, Number, Ternary, Unary
from tuner.spaces.source.walks import children, index_chain

__all__ = ["holds", "is_signless", "is_whole", "is_without_sign", "one_type", "type_of", "width"]

_SIGNLESS = re.compile(r"unsigned( int)?|uint(32_t)?")
_ORDER = ("s32", "u32", "s64", "u64")
_HELD = {
    "s32": ("s32",),
    "u32": ("s32", "u32"),
    "s64": ("s32", "u32", "s64", "u64"),
    "u64": ("s32", "u32", "s64", "u64"),
}
"""What is held, but for signs: numbers under 2^40 are taken for granted where there are 64 bits."""
_KEPT = {**_HELD, "u32": ("u32",), "u64": ("u32", "u64")}
_INT = re.compile(r"'.*'|true|false")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+\.?([eE][-+]?[0-9]+)?[fF]?|0[xX].*[pP][-+]?[0-9]+[fF]?")
_OF_FRACTIONS = re.compile(r"std::(?!is|signbit|numeric)\w+")
_CHOOSING = ("std::min", "std::max", "std::clamp")
_FRACTIONS = ("double", "float")
_LOGICAL = ("<", ">", "<=", ">=", "==", "!=", "&&", "||")


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
            case Number():
                found.add(_width(one_type(part, types)) or "s32")
            case _:
                stack += (p for p in children(part) if isinstance(p, Expr))
    return found


def one_type(expr: Expr, types: Mapping[str, str]) -> str:
    """The type that an expression is computed in, without qualifiers; of small integers ``int``.

    Returns:
        ``int``, ``float``, ``double`` or what else the names are declared as; nothing where they are of several types
        of whole numbers, or of unknown ones.
    """
    kind = type_of(expr, types)
    return "int" if is_narrow(kind) or kind in ("signed", "signed int", "int32_t") else kind


def type_of(expr: Expr, types: Mapping[str, str]) -> str:
    """:func:`one_type`; of a name, an element or a member the type that it has itself."""
    match expr:
        case Number(text=text):
            return _type_of_number(text)
        case Name(id=name):
            return "" if "*" in types.get(name, "*") else plain_type(types[name])
        case Index():
            base, _ = index_chain(expr)
            if isinstance(base, Field):
                return plain_type(base.type) if "*" in base.type else ""
            return plain_type(types.get(base.id, "")) if isinstance(base, Name) else ""
        case Field(type=kind) | Cast(type=kind):
            return "" if "*" in kind else plain_type(kind)
        case Unary(op=op, operand=operand):
            return "int" if op == "!" else one_type(operand, types) if op in ("-", "+", "~") else ""
        case Binary(op=op) if op in _LOGICAL:
            return "int"
        case Binary(op="<<" | ">>", left=left):
            return one_type(left, types)
        case Binary(left=left, right=right):
            return _joined(one_type(left, types), one_type(right, types))
        case Ternary(then=then, other=other):
            return _joined(one_type(then, types), one_type(other, types))
        case Call(function=name, arguments=arguments):
            return _type_of_call(expr, name, [one_type(a, types) for a in arguments])
    return ""


def _type_of_call(call: Call, name: str, given: Sequence[str]) -> str:
    """What a function of mathematics gives; nothing for any other."""
    one = reduce(_same, given) if given else ""
    if name.startswith(_CHOOSING) or (name in ("abs", "std::abs") and not call.own):
        # In C++ that of a fraction is one.
        return one
    if _OF_FRACTIONS.fullmatch(name):
        # Those of C++'s library have the type of their arguments; whole ones become fractions.
        return one if one in _FRACTIONS else ""
    own = "float" if name.endswith("f") and not name.endswith("erf") else "double"
    return own if one == own and is_pure(replace(call, arguments=())) else ""


def is_whole(expr: Expr, types: Mapping[str, str]) -> bool:
    """Whether all of an expression is known to be computed in integers, of whatever types."""
    match expr:
        case Binary(op=op, left=left, right=right) if op not in _LOGICAL:
            return is_whole(left, types) and is_whole(right, types)
        case Ternary(then=then, other=other):
            return is_whole(then, types) and is_whole(other, types)
        case Unary(op="-" | "+" | "~", operand=operand):
            return is_whole(operand, types)
    return is_integer(one_type(expr, types))


def _same(left: str, right: str) -> str:
    return left if left == right else ""


def _joined(left: str, right: str) -> str:
    """The type of a sum or product, or of what is chosen: that of the wider fraction where there is any."""
    if left != right and is_number(left) and is_number(right):
        return next((kind for kind in ("long double", *_FRACTIONS) if kind in (left, right)), "")
    return _same(left, right)


def _type_of_number(text: str) -> str:
    whole = whole_number(text)
    if whole is not None or _INT.fullmatch(text):
        return "int" if whole is None else whole[1]
    if _NUMBER.fullmatch(text) is None or text.rstrip("uUlL").isdigit():
        return ""
    return "float" if text[-1] in "fF" else "double"
