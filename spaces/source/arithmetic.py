"""In what kind of numbers an expression is computed, as far as the types of its names say.

May not know loops or dependences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tuner.spaces.source.kinds import is_integer, is_narrow, plain_type
from tuner.spaces.source.syntax import Binary, Call, Cast, Expr, Field, Index, Name, Number, Ternary, Unary
from tuner.spaces.source.walks import index_chain

__all__ = ["is_whole", "one_type"]

_WHOLE = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uUlL]*)|'.*'|true|false")
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+\.?([eE][-+]?[0-9]+)?[fF]?|0[xX].*[pP][-+]?[0-9]+[fF]?")
_OCTAL = re.compile(r"[0-7]+")
_LOGICAL = ("<", ">", "<=", ">=", "==", "!=", "&&", "||")


def one_type(expr: Expr, types: Mapping[str, str]) -> str:
    """The one type that all of an expression is computed in, without qualifiers; of small integers ``int``.

    Returns:
        ``int``, ``float``, ``double`` or what else the names are declared as; nothing where they are of several types
        or of unknown ones.
    """
    match expr:
        case Number(text=text):
            return _type_of_number(text)
        case Name(id=name):
            return "" if "*" in types.get(name, "*") else _promoted(types[name])
        case Index():
            base, _ = index_chain(expr)
            if isinstance(base, Field):
                return _promoted(base.type) if "*" in base.type else ""
            return _promoted(types.get(base.id, "")) if isinstance(base, Name) else ""
        case Field(type=kind):
            return "" if "*" in kind else _promoted(kind)
        case Cast(type=kind):
            return _promoted(kind)
        case Unary(op=op, operand=operand):
            return "int" if op == "!" else one_type(operand, types) if op in ("-", "+", "~") else ""
        case Binary(op=op) if op in _LOGICAL:
            return "int"
        case Binary(op="<<" | ">>", left=left):
            return one_type(left, types)
        case Binary(left=left, right=right):
            return _same(one_type(left, types), one_type(right, types))
        case Ternary(then=then, other=other):
            return _same(one_type(then, types), one_type(other, types))
        case Call(function="abs", own=""):
            return "int"
    return ""


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


def _promoted(kind: str) -> str:
    bare = plain_type(kind)
    return "int" if is_narrow(bare) or bare in ("signed", "signed int", "int32_t") else bare


def _type_of_number(text: str) -> str:
    whole = _WHOLE.fullmatch(text)
    if whole is not None:
        return _type_of_whole(whole[1] or "0", (whole[2] or "").lower())
    if _NUMBER.fullmatch(text) is None:
        return ""
    return "float" if text[-1] in "fF" else "double"


def _type_of_whole(digits: str, suffix: str) -> str:
    """The first type that holds the number; one without sign only if it says so, or is no decimal number."""
    decimal = digits == "0" or digits[0] != "0"
    base = 10 if decimal else 16 if digits[:2].lower() == "0x" else 8
    if base == 8 and not _OCTAL.fullmatch(digits):
        return ""
    value = int(digits, base)
    for kind, bits in (("int", 31), ("unsigned int", 32), ("long", 63), ("unsigned long", 64)):
        signed = not kind.startswith("unsigned")
        allowed = "u" not in suffix if signed else "u" in suffix or not decimal
        if value < 2**bits and allowed and ("l" not in suffix or "long" in kind):
            return kind
    return ""
