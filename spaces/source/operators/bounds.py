"""Bounds of loops as expressions: where they end, what whole tiles leave over, constants put in their place.

May not judge whether a change is legal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from tuner.core.polynomials import constant
from tuner.spaces.source.affine import distance, never, plus, polynomial, written
from tuner.spaces.source.facts import facts_at
from tuner.spaces.source.kinds import (
    is_floating,
    is_integer,
    is_narrow,
    is_pure,
    is_unsigned,
    plain_type,
    types_of,
)
from tuner.spaces.source.operators.base import Refused, counter_type, loops_of
from tuner.spaces.source.syntax import (
    Binary,
    Block,
    Decl,
    Expr,
    Field,
    For,
    Function,
    Name,
    Number,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import names_in, statements, substitute, subtrees, written_names
from tuner.spaces.source.widths import is_without_sign, one_type

__all__ = [
    "add",
    "extreme",
    "inline_constants",
    "joined",
    "left_over",
    "length",
    "maximum",
    "minimum",
    "number",
    "require_no_wrap",
    "rounds_of",
    "subtract",
    "upper_end",
]

_SMALL = re.compile(r"0|[1-9][0-9]{0,2}")


def upper_end(loop: For) -> Expr:
    """The first value that an upward loop does not reach."""
    return loop.limit if loop.op == "<" else add(loop.limit, Number("1"))


def left_over(function: Function, loop: For, size: Expr, end: Expr) -> Expr:
    """Where whole tiles of a loop end: ``end - (end - start) % size``.

    Without a sign the length of a loop that ends before its start is a large number: where it may, that is asked first.
    """
    count = length(loop, end)
    whole = Binary("-", end, Binary("%", count, size))
    kinds = {**types_of(function), loop.var: counter_type(function, loop)}
    if loop.start == Number("0") or not is_without_sign(Binary("+", Name(loop.var), count), kinds):
        return whole
    first, last = polynomial(loop.start, ()), polynomial(end, ())
    given = [s for s in statements(function.body) if isinstance(s, For) and s.key == loop.key][:1]
    facts = facts_at(function, given) if given else ()
    if first is not None and last is not None and never([*facts, first - last - constant(1)]):
        return whole
    # An expression that LLVM makes a subtraction that saturates is one that Oclgrind does not know.
    return Ternary(Binary("<", loop.start, end), whole, loop.start)


def length(loop: For, end: Expr) -> Expr:
    """How many iterations an upward loop by one has before ``end``."""
    return subtract(end, loop.start)


def rounds_of(loop: For) -> range | None:
    """The values of a counter that goes upwards by one between small numbers; ``None`` for any other."""
    start, limit = (e.text if isinstance(e, Number) else "" for e in (loop.start, loop.limit))
    if not (loop.upward and loop.by_one and _SMALL.fullmatch(start) and _SMALL.fullmatch(limit)):
        return None
    return range(int(start), int(limit) + (loop.op == "<="))


def number(value: int) -> Expr:
    """A whole number as an expression."""
    return Number(str(value)) if value >= 0 else Unary("-", Number(str(-value)))


def require_no_wrap(function: Function, loop: For) -> None:
    """Refuses a loop whose length has no sign to show that it ends before its start."""
    if loop.start != Number("0") and is_unsigned(counter_type(function, loop)):
        raise Refused(f"loop {loop.key} counts in an unsigned type from more than 0")


def minimum(a: Expr, b: Expr) -> Expr:
    """``a < b ? a : b``."""
    return Ternary(Binary("<", a, b), a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    """``a > b ? a : b``."""
    return Ternary(Binary(">", a, b), a, b)


def extreme(values: Sequence[Expr], *, smallest: bool) -> Expr:
    """The smallest or largest of some values; those that differ by a number from another are decided here."""
    kept: list[Expr] = []
    for value in dict.fromkeys(values):
        for place, other in enumerate(kept):
            by = distance(value, other)
            if by is not None:
                kept[place] = value if by and (by < 0) == smallest else other
                break
        else:
            kept.append(value)
    return reduce(minimum if smallest else maximum, kept)


def joined(op: str, parts: Sequence[Expr]) -> Expr:
    """Several expressions with an infix operator between them, from the left."""
    return reduce(partial(Binary, op), parts)


def add(a: Expr, b: Expr) -> Expr:
    """A sum, with small numbers added up."""
    match b:
        case Number() if (value := written(b)) is not None:
            return plus(a, value)
        case Unary(op="-", operand=operand) if a != Number("0"):
            return subtract(a, operand)
    return b if a == Number("0") else Binary("+", a, b)


def subtract(a: Expr, b: Expr) -> Expr:
    """A difference, without ``- 0``."""
    return a if b == Number("0") else Binary("-", a, b)


def inline_constants(function: Function, loop: For) -> For:
    """A loop with the constant integers declared in it put where they are used."""
    types = types_of(function)

    def visit(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        rest = list(body)
        while rest:
            stmt = rest.pop(0)
            if (
                isinstance(stmt, Decl)
                and stmt.init is not None
                and not stmt.dims
                and _is_constant(stmt, loop, rest, types)
            ):
                rest = list(substitute(tuple(rest), stmt.name, stmt.init))
                continue
            if isinstance(stmt, For | Block):
                stmt = replace(stmt, body=visit(stmt.body))
            made.append(stmt)
        return tuple(made)

    return replace(loop, body=visit(loop.body))


def _is_constant(decl: Decl, loop: For, rest: Sequence[Stmt], types: Mapping[str, str]) -> bool:
    """Whether a variable's expression may stand for it in the statements behind it."""
    if (
        "const" not in decl.type.split()
        or not is_integer(decl.type)
        or is_narrow(decl.type)
        or decl.init is None
        or not is_pure(decl.init)
    ):
        return False
    kinds = {plain_type(types.get(n, decl.type)) for n in names_in(decl.init)}
    kinds |= {n.type for n in subtrees(decl.init) if isinstance(n, Field)}
    if any(is_floating(k) or is_unsigned(k) != is_unsigned(decl.type) for k in kinds):
        return False
    if one_type(decl.init, types) == "int" and one_type(Name(decl.name), types) != "int":
        # In its place the expression would be computed in fewer bits.
        return False
    if not written_names(tuple(rest)).isdisjoint(names_in(decl.init)):
        return False
    counters = {f.var for f in loops_of(loop)}
    return (written_names(loop) - counters).isdisjoint(names_in(decl.init))
