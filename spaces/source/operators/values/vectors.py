"""Statements for one lane turned into statements for a vector, with GNU vector types.

Each lane computes exactly what the scalar statement did for its iteration, so nothing is rounded differently.
May not move loops.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.core.polynomials import Polynomial, variable
from tuner.spaces.source.affine import polynomial
from tuner.spaces.source.kinds import plain_type, types_of, writable
from tuner.spaces.source.memo import kept_by_identity
from tuner.spaces.source.operators.base import Refused, fresh_name
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Cast,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    Index,
    Name,
    Number,
    Opaque,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import index_chain, names_in, subtrees
from tuner.spaces.source.widths import type_of

__all__ = [
    "LANES",
    "WIDENS",
    "Lanes",
    "element_size",
    "element_type",
    "splat",
    "vector_statement",
    "vector_type",
    "with_lanes",
]

LANES = {"float": (4, 8, 16), "double": (2, 4, 8)}
"""Vector lengths worth trying by element type."""

_BYTES = {"float": 4, "double": 8}
WIDENS = "__builtin_convertvector"
"""What makes a vector of one type another, in gcc and clang."""
_WHOLE = re.compile(r"0|[1-9][0-9]{0,6}")
"""Numbers that every type of elements holds."""


def element_size(kind: str) -> int:
    """Bytes of an element."""
    return _BYTES[kind]


def vector_type(name: str, kind: str, lanes: str) -> str:
    """The definition of a vector type that may stand at any element and alias the elements."""
    size = _BYTES[kind]
    return (
        f"typedef {kind} {name} __attribute__((vector_size({size} * {lanes}), aligned({size}), may_alias));"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """What is known where a statement is turned.

    Attributes:
        element: ``float`` or ``double``.
        vector: the vector type's name.
        counter: the loop variable whose successive values are the lanes.
        kinds: element types by name, of scalars and arrays, without qualifiers and stars.
        const: arrays that may only be read.
        wide: local variables that hold a vector for each place already.
        steps: a vector of 0, 1, 2, ... by which a counter's values in the lanes differ; empty where there is none.
        narrow: where elements are ``double``, the name of a type of as many of ``float``; empty where there is none.
    """

    element: str
    vector: str
    counter: str
    kinds: Mapping[str, str]
    const: frozenset[str]
    wide: frozenset[str]
    steps: str = ""
    narrow: str = ""


def vector_statement(stmt: Stmt, lanes: Lanes) -> tuple[Stmt, Lanes]:
    """A statement for all lanes, and what is known after it.

    Raises:
        Refused: an element that is neither the same for all lanes nor next to its neighbour's; another type; a call.
    """
    if isinstance(stmt, Decl) and not stmt.dims and stmt.init is not None:
        kind = writable(stmt.type)
        value, wide = _value(_as_element(stmt.init, kind, lanes), lanes)
        if kind != lanes.element:
            raise Refused(f"{stmt.name} is {kind}, not {lanes.element}")
        made = value if wide else splat(value, lanes)
        known = replace(lanes, wide=lanes.wide | {stmt.name})
        const = "const " if "const" in stmt.type.split() else ""
        return Decl(f"{const}{lanes.vector}", stmt.name, (), made), known
    if isinstance(stmt, ExprStmt) and isinstance(stmt.expr, Assign):
        return ExprStmt(_assignment(stmt.expr, lanes)), lanes
    raise Refused("a statement is no plain assignment")


def _assignment(expr: Assign, lanes: Lanes) -> Assign:
    if expr.op not in ("=", "+=", "-=", "*=", "/="):
        raise Refused(f"{expr.op} has no vector form")
    target, wide = _value(expr.target, lanes, write=True)
    if not wide:
        raise Refused(f"{expression_text(expr.target)} is the same place for all lanes")
    value, value_wide = _value(_as_element(expr.value, type_of(expr.target, lanes.kinds), lanes), lanes)
    if expr.op == "=" and not value_wide:
        value = splat(value, lanes)
    elif expr.op in ("+=", "-=") and not value_wide:
        value = _as_wide(value, lanes)
    return Assign(expr.op, target, value)


def splat(value: Expr, lanes: Lanes) -> Expr:
    """One value in all lanes: minus zero, because plus zero would change a negative zero."""
    return Binary("-", value, Opaque(f"({lanes.vector}){{0}}"))


def _value(expr: Expr, lanes: Lanes, *, write: bool = False) -> tuple[Expr, bool]:
    match expr:
        case Number(text=text):
            if (
                "." not in text
                or text[-1:] in ("l", "L")
                or (text[-1:] in ("f", "F")) != (lanes.element == "float")
            ):
                raise Refused(f"{text} is no {lanes.element}")
            return expr, False
        case Name(id=name):
            if name in lanes.wide:
                return expr, True
            if lanes.kinds.get(name) != lanes.element:
                raise Refused(f"{name} is no {lanes.element}")
            return expr, False
        case Index():
            return (None if write else _widened(expr, lanes)) or _element(expr, lanes, write=write)
        case Cast(type=kind, operand=operand) if kind == lanes.element == type_of(operand, lanes.kinds):
            return _value(operand, lanes)
        case Cast(type=kind, operand=operand) if kind == lanes.element:
            return _widened(operand, lanes) or _counted(expr, operand, lanes)
        case Unary(op="-", operand=operand):
            inner, wide = _value(operand, lanes)
            return Unary("-", inner), wide
        case Binary(op="+" | "-" | "*" | "/" as op, left=left, right=right):
            if lanes.narrow and type_of(expr, lanes.kinds) == "float":
                raise Refused(f"{expression_text(expr)} is computed in another type")
            a, wide_a = _value(_as_element(left, type_of(right, lanes.kinds), lanes), lanes)
            b, wide_b = _value(_as_element(right, type_of(left, lanes.kinds), lanes), lanes)
            if op in ("+", "-") and wide_a != wide_b:
                a, b = (_as_wide(a, lanes), b) if wide_b else (a, _as_wide(b, lanes))
            return Binary(op, a, b), wide_a or wide_b
    raise Refused(f"{expression_text(expr)} has no vector form")


def _as_element(expr: Expr, kind: str, lanes: Lanes) -> Expr:
    """A whole number as an element where what it is reckoned with, or becomes, is of their type: ``2 * x``."""
    match expr:
        case Number(text=text) if _WHOLE.fullmatch(text) and kind == lanes.element:
            return Number(f"{text}.0{'f' if lanes.element == 'float' else ''}")
    return expr


def _widened(expr: Expr, lanes: Lanes) -> tuple[Expr, bool] | None:
    """An element of an array of ``float``, for each lane, as the vector's own; ``None`` for anything else."""
    base, _ = index_chain(expr)
    if not lanes.narrow or not isinstance(expr, Index) or not isinstance(base, Name):
        return None
    if lanes.kinds.get(base.id) != "float":
        return None
    found, wide = _element(expr, replace(lanes, element="float", vector=lanes.narrow, narrow=""), write=False)
    if not wide:
        return Cast(lanes.element, found), False
    return Call(WIDENS, (found, Name(lanes.vector))), True


def _counted(whole: Expr, number: Expr, lanes: Lanes) -> tuple[Expr, bool]:
    """A whole number as one of the vector's, where it counts with the lanes."""
    moving = _moving(number, lanes)
    if moving is None or not lanes.steps:
        raise Refused(f"{expression_text(whole)} has no vector form")
    if moving not in ({}, variable(lanes.counter)):
        raise Refused(f"{expression_text(whole)} does not count by one")
    return (Binary("+", whole, Name(lanes.steps)), True) if moving else (whole, False)


def _moving(number: Expr, lanes: Lanes) -> Polynomial | None:
    """What of a whole number moves with the lanes; ``None`` where that is not known."""
    poly = polynomial(number, {lanes.counter})
    return None if poly is None else Polynomial.of({m: c for m, c in poly.items() if lanes.counter in m})


def _as_wide(value: Expr, lanes: Lanes) -> Expr:
    """A product that is the same for all lanes as one of vectors; anything else as it is.

    A compiler may round a product and the sum that it is a part of once. It does so for vectors where it did for single
    elements, but not for a single product that is added to a vector.
    """
    match value:
        case Unary(op="-", operand=operand):
            return Unary("-", _as_wide(operand, lanes))
        case Binary(op="*", left=left, right=right):
            return Binary("*", splat(left, lanes), right)
    return value


def _element(expr: Index, lanes: Lanes, *, write: bool) -> tuple[Expr, bool]:
    base, subscripts = index_chain(expr)
    if not isinstance(base, Name) or lanes.kinds.get(base.id) != lanes.element:
        raise Refused(f"{expression_text(expr)} is no {lanes.element}")
    if base.id in lanes.wide:
        return expr, True
    if any(lanes.counter in names_in(s) for s in subscripts[:-1]):
        raise Refused(f"{expression_text(expr)} is not next to its neighbour's")
    moving = _moving(subscripts[-1], lanes)
    if moving is None:
        raise Refused(f"a subscript of {base.id} is not affine")
    if not moving:
        return expr, False
    if moving != variable(lanes.counter):
        raise Refused(f"{expression_text(expr)} is not next to its neighbour's")
    const = "" if write or base.id not in lanes.const else "const "
    return Unary("*", Cast(f"{const}{lanes.vector} *", Unary("&", expr))), True


def element_type(function: Function, loop: For) -> str:
    """The one floating-point type that a nest writes.

    Raises:
        Refused: it writes others, or several.
    """
    kinds = types_of(function)
    found = {plain_type(kinds.get(name, "")) for name in _assigned(loop)}
    if len(found) != 1 or not found <= set(LANES):
        raise Refused("the nest does not compute in one floating-point type")
    return found.pop()


@kept_by_identity(1 << 12)
def _assigned(loop: For) -> frozenset[str]:
    """Variables and arrays that a nest assigns to; all sites of a search ask it of the same few nests."""
    targets = (index_chain(n.target)[0] for n in subtrees(loop.body) if isinstance(n, Assign))
    return frozenset(base.id for base in targets if isinstance(base, Name))


def with_lanes(
    function: Function, loop: For, element: str, width: Name, declared: Sequence[Decl] = ()
) -> tuple[Function, Lanes]:
    """The function with a vector type of ``width`` elements defined, and what turning a loop's statements needs.

    Args:
        function: to change.
        loop: whose successive iterations are the lanes.
        element: what it computes in.
        width: a tunable's name.
        declared: local arrays that hold a vector for each place.
    """
    kinds = types_of(function)
    text = width.id
    # The tunable's name is the only one of its kind in the program, so the type's is.
    name = fresh_name(function, f"{element}_{text.lower()}")
    made = replace(function, preamble=(*function.preamble, vector_type(name, element, text)))
    lanes = Lanes(
        element=element,
        vector=name,
        counter=loop.var,
        kinds={n: plain_type(k) for n, k in kinds.items()} | {d.name: element for d in declared},
        const=frozenset(n for n, k in kinds.items() if "const" in k.split()),
        wide=frozenset(d.name for d in declared),
    )
    return made, lanes
