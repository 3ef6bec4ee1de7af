"""A spec's types, extents and conditions as C text, with its sizes read from the arguments of a call.

Knows nothing of what the text is for. May not compile it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from tuner.core.dtypes import C_TYPES, is_structured, numpy_dtype
from tuner.core.errors import SpecError
from tuner.core.expressions import Expression
from tuner.core.types import Argument

__all__ = [
    "HELPERS",
    "bound_sizes",
    "c_condition",
    "c_number",
    "c_type",
    "is_address",
    "item_text",
    "number_text",
    "parameter_text",
]

_OPERATORS: Mapping[type[ast.operator], str] = {ast.Add: "plus", ast.Sub: "minus", ast.Mult: "times"}
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_HINT = "use scalar arguments with value: NAME, whole numbers, + - * // %, min, max, ceil(a / b)"

HELPERS = """
/* Sizes that no number holds are the largest there are, and never small ones. */
#define LARGEST 0x7FFFFFFFFFFFFFFFL
#define LEAST (-LARGEST - 1)
__attribute__((unused)) static long plus(long a, long b)
{
    long sum;
    return __builtin_add_overflow(a, b, &sum) ? a < 0 ? LEAST : LARGEST : sum;
}
__attribute__((unused)) static long minus(long a, long b)
{
    long rest;
    return __builtin_sub_overflow(a, b, &rest) ? a < 0 ? LEAST : LARGEST : rest;
}
__attribute__((unused)) static long times(long a, long b)
{
    long product;
    return __builtin_mul_overflow(a, b, &product) ? (a < 0) != (b < 0) ? LEAST : LARGEST : product;
}
__attribute__((unused)) static long divided(long a, long b)
{
    if (!b) return 0;
    if (b == -1) return minus(0, a);
    long q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
__attribute__((unused)) static long minimum(long a, long b) { return a < b ? a : b; }
__attribute__((unused)) static long maximum(long a, long b) { return a > b ? a : b; }
"""
"""C functions that the text calls."""


def bound_sizes(arguments: Sequence[Argument]) -> dict[str, int]:
    """Sizes that a scalar argument carries: ``value: n`` binds ``n``; the number of that argument by size."""
    found: dict[str, int] = {}
    for number, argument in enumerate(arguments):
        if argument.value is not None and argument.value.text.strip() in argument.value.names:
            found.setdefault(argument.value.text.strip(), number)
    return found


def c_type(dtype: str, what: str) -> str:
    """A type that C passes by value.

    Raises:
        SpecError: there is none.
    """
    if dtype not in C_TYPES or dtype.startswith("complex"):
        raise SpecError(
            f"{what} is {dtype}, which cannot be passed by value here", "pass it through a pointer"
        )
    return C_TYPES[dtype]


def parameter_text(argument: Argument) -> str:
    """The type of a parameter: every array is ``void *``."""
    return "void *" if argument.is_array else c_type(argument.dtype, argument.name)


def is_address(argument: Argument) -> bool:
    """Whether an argument is a place in the application's memory, of which nothing else is said."""
    return argument.passing == "address" or (argument.passing == "global" and not argument.is_array)


def number_text(argument: Argument, name: str) -> str:
    """The number that an argument carries; behind a null pointer there is none, and no size is 0.

    Args:
        argument: a scalar, passed by value or by pointer.
        name: of the parameter in C.
    """
    if not argument.by_pointer:
        return name
    return f"({name} ? *(const {c_type(argument.dtype, argument.name)} *){name} : 0)"


def item_text(argument: Argument) -> str:
    """The bytes of one element of an array."""
    if is_structured(argument.dtype) or argument.dtype.startswith("complex"):
        return str(numpy_dtype(argument.dtype).itemsize)
    return f"(long)sizeof({c_type(argument.dtype, argument.name)})"


def c_number(expression: Expression, names: Mapping[str, str], what: str) -> str:
    """A whole number in C: names, ``+ - * // %``, ``min``, ``max`` and ``ceil(a / b)``.

    Args:
        expression: of the spec.
        names: C text by name.
        what: it is, for the message.

    Raises:
        SpecError: it needs more than that.
    """
    return _number(expression.tree, names, f"{what} {expression.text!r}")


def c_condition(expression: Expression, names: Mapping[str, str]) -> str:
    """An assumption in C: comparisons of numbers, ``and``, ``or`` and ``not``; else as :func:`c_number`."""

    def walk(node: ast.expr) -> str:
        match node:
            case ast.BoolOp(op=operator, values=values):
                word = " && " if isinstance(operator, ast.And) else " || "
                return "(" + word.join(walk(value) for value in values) + ")"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"(!{walk(operand)})"
            case ast.Compare(left=left, ops=operators, comparators=comparators):
                sides = [_number(side, names, label) for side in (left, *comparators)]
                parts = [
                    f"{one} {_COMPARISONS[type(operator)]} {other}"
                    for one, operator, other in zip(sides, operators, sides[1:], strict=False)
                ]
                return "(" + " && ".join(parts) + ")"
        return f"({_number(node, names, label)} != 0)"

    label = f"the assumption {expression.text!r}"
    return walk(expression.tree)


def _number(node: ast.expr, names: Mapping[str, str], label: str) -> str:
    def walk(node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int(value)):
                return f"{int(value)}L"
            case ast.Name(id=name) if name in names:
                return f"(long){names[name]}"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"minus(0, {walk(operand)})"
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as operator, right=right):
                return f"{_OPERATORS[type(operator)]}({walk(left)}, {walk(right)})"
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
                return f"divided({walk(left)}, {walk(right)})"
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                return f"minus({walk(left)}, times({walk(right)}, divided({walk(left)}, {walk(right)})))"
            case ast.Call(func=ast.Name(id="ceil"), args=[ast.BinOp(left=left, op=ast.Div(), right=right)]):
                return f"minus(0, divided(minus(0, {walk(left)}), {walk(right)}))"
            case ast.Call(func=ast.Name(id="min" | "max" as which), args=[one, other]):
                return f"{which}imum({walk(one)}, {walk(other)})"
        raise SpecError(f"{label} cannot be computed from the arguments of a call", _HINT)

    return walk(node)
