"""Statements for one lane turned into statements for a vector, with GNU vector types.

Each lane computes exactly what the scalar statement did for its iteration, so nothing is rounded differently.
May not move loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.spaces.source.affine import polynomial
from tuner.spaces.source.operators.base import Refused
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Cast,
    Decl,
    Expr,
    ExprStmt,
    Index,
    Name,
    Number,
    Opaque,
    Stmt,
    Unary,
    index_chain,
    names_in,
)

__all__ = ["LANES", "Lanes", "element_size", "vector_statement", "vector_type"]

LANES = {"float": (4, 8, 16), "double": (2, 4, 8)}
"""Vector lengths worth trying by element type."""

_BYTES = {"float": 4, "double": 8}
_SUFFIX = {"float": ("f", "F"), "double": ()}


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
    """

    element: str
    vector: str
    counter: str
    kinds: Mapping[str, str]
    const: frozenset[str]
    wide: frozenset[str]


def vector_statement(stmt: Stmt, lanes: Lanes) -> tuple[Stmt, Lanes]:
    """A statement for all lanes, and what is known after it.

    Raises:
        Refused: an element that is neither the same for all lanes nor next to its neighbour's; another type; a call.
    """
    if isinstance(stmt, Decl) and not stmt.dims and stmt.init is not None:
        kind = " ".join(w for w in stmt.type.split() if w != "const")
        value, wide = _value(stmt.init, lanes)
        if kind != lanes.element:
            raise Refused(f"{stmt.name} is {kind}, not {lanes.element}")
        made = value if wide else _splat(value, lanes)
        known = Lanes(
            element=lanes.element,
            vector=lanes.vector,
            counter=lanes.counter,
            kinds=lanes.kinds,
            const=lanes.const,
            wide=lanes.wide | {stmt.name},
        )
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
    value, value_wide = _value(expr.value, lanes)
    if expr.op == "=" and not value_wide:
        value = _splat(value, lanes)
    return Assign(expr.op, target, value)


def _splat(value: Expr, lanes: Lanes) -> Expr:
    """One value in all lanes: minus zero, because plus zero would change a negative zero."""
    return Binary("-", value, Opaque(f"({lanes.vector}){{0}}"))


def _value(expr: Expr, lanes: Lanes, *, write: bool = False) -> tuple[Expr, bool]:
    match expr:
        case Number(text=text):
            if "." not in text or (text[-1:] in ("f", "F")) != (lanes.element == "float"):
                raise Refused(f"{text} is no {lanes.element}")
            return expr, False
        case Name(id=name):
            if name in lanes.wide:
                return expr, True
            if lanes.kinds.get(name) != lanes.element:
                raise Refused(f"{name} is no {lanes.element}")
            return expr, False
        case Index():
            return _element(expr, lanes, write=write)
        case Unary(op="-", operand=operand):
            inner, wide = _value(operand, lanes)
            return Unary("-", inner), wide
        case Binary(op="+" | "-" | "*" | "/" as op, left=left, right=right):
            a, wide_a = _value(left, lanes)
            b, wide_b = _value(right, lanes)
            return Binary(op, a, b), wide_a or wide_b
    raise Refused(f"{expression_text(expr)} has no vector form")


def _element(expr: Index, lanes: Lanes, *, write: bool) -> tuple[Expr, bool]:
    base, subscripts = index_chain(expr)
    if not isinstance(base, Name) or lanes.kinds.get(base.id) != lanes.element:
        raise Refused(f"{expression_text(expr)} is no {lanes.element}")
    if base.id in lanes.wide:
        return expr, True
    if any(lanes.counter in names_in(s) for s in subscripts[:-1]):
        raise Refused(f"{expression_text(expr)} is not next to its neighbour's")
    poly = polynomial(subscripts[-1], {lanes.counter})
    if poly is None:
        raise Refused(f"a subscript of {base.id} is not affine")
    with_counter = {m: c for m, c in poly.items() if lanes.counter in m}
    if not with_counter:
        return expr, False
    if with_counter != {(lanes.counter,): 1}:
        raise Refused(f"{expression_text(expr)} is not next to its neighbour's")
    const = "" if write or base.id not in lanes.const else "const "
    return Unary("*", Cast(f"{const}{lanes.vector} *", Unary("&", expr))), True
