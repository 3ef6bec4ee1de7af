"""The arithmetic of expressions: exact for integers and fractions, bounded in size, and never a traceback."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from tuner.core.errors import SpecError

__all__ = ["BINARY", "COMPARE", "FUNCTIONS", "Value", "number", "to_float"]

MAX_BITS = 1 << 14

Value = int | float | str | bool
"""What a tunable can be set to."""

Operand = int | float | bool | str | Fraction


def to_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        raise SpecError("a number is too large", "use smaller numbers") from None


def number(value: Operand) -> int | float | Fraction:
    if isinstance(value, str):
        raise SpecError(f"text {value!r} where a number belongs", "text can be compared with == and !=")
    return value


def _whole(value: Fraction) -> int | Fraction:
    return value.numerator if value.denominator == 1 else value


def _bits(value: int | float | Fraction) -> int:
    if isinstance(value, float):
        return 0
    if isinstance(value, Fraction):
        return max(value.numerator.bit_length(), value.denominator.bit_length())
    return value.bit_length()


def _checked(value: Any) -> Any:
    if isinstance(value, Fraction):
        value = _whole(value)
    if _bits(value) > MAX_BITS:
        raise SpecError("a number is too large", f"at most {MAX_BITS} bits are allowed")
    return value


def _divide(a: Any, b: Any) -> Any:
    a, b = number(a), number(b)
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    if b == 0:
        raise ZeroDivisionError
    return _checked(Fraction(a) / Fraction(b))


def _power(a: Any, b: Any) -> Any:
    a, b = number(a), number(b)
    if isinstance(a, bool):
        a = int(a)
    if isinstance(b, int) and not isinstance(a, float):
        if a == 0 and b < 0:
            raise ZeroDivisionError
        if abs(a) not in (0, 1) and _bits(a) * abs(b) > MAX_BITS:
            raise SpecError("the result of ** is too large", f"at most {MAX_BITS} bits are allowed")
        # Python gives a float for a negative exponent of an int, a Fraction keeps it exact.
        return _checked(Fraction(a) ** b if b < 0 else a**b)
    result = float(a) ** float(b)
    if isinstance(result, complex):
        raise SpecError("a fractional power of a negative number", "keep the base at 0 or above")
    return result


def _log2(a: Any) -> Any:
    a = number(a)
    if a <= 0:
        raise SpecError(f"log2 of {a}", "its argument must be positive")
    if isinstance(a, float):
        return math.log2(a)
    top, bottom = Fraction(a).numerator, Fraction(a).denominator
    if top & (top - 1) == 0 and bottom & (bottom - 1) == 0:
        return top.bit_length() - bottom.bit_length()
    return math.log2(top) - math.log2(bottom)


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        # The common case first: evaluation is the inner loop of constraint solving.
        if type(a) is int and type(b) is int:
            result = function(a, b)
            return result if -_SMALL < result < _SMALL else _checked(result)
        return _checked(function(number(a), number(b)))

    return apply


_SMALL = 1 << 62

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _arithmetic(operator.add),
    ast.Sub: _arithmetic(operator.sub),
    ast.Mult: _arithmetic(operator.mul),
    ast.Div: _divide,
    ast.FloorDiv: _arithmetic(operator.floordiv),
    ast.Mod: _arithmetic(operator.mod),
    ast.Pow: _power,
}

COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

FUNCTIONS: Mapping[str, tuple[int, int | None, Callable[..., Any]]] = {
    "min": (1, None, lambda *a: min(number(x) for x in a)),
    "max": (1, None, lambda *a: max(number(x) for x in a)),
    "ceil": (1, 1, lambda a: math.ceil(number(a))),
    "floor": (1, 1, lambda a: math.floor(number(a))),
    "abs": (1, 1, lambda a: abs(number(a))),
    "log2": (1, 1, _log2),
}
"""Functions by name: fewest and most arguments, and what computes them."""
