"""Integer polynomials of a source's expressions, and subscripts of flat arrays taken apart by their strides.

``a[(i - 1) * n + j]`` is an access to row ``i - 1`` and column ``j`` of an array with rows of ``n`` as long as
``0 <= j < n``; whoever uses the parts has to prove that. May not know loops or dependences.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from tuner.spaces.source.kinds import is_integer, is_narrow
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import Binary, Cast, Expr, Field, Index, Name, Number, Ternary, Unary
from tuner.spaces.source.walks import names_in, subtrees

__all__ = ["Monomial", "Poly", "constant", "minus", "polynomial", "split_by_strides", "strides_of"]

Monomial = tuple[str, ...]
"""A product of symbols, sorted; empty for the number one."""

Poly = Mapping[Monomial, int]
"""Coefficients by monomial, none of them zero."""

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*")
_INTEGER_TYPES = re.compile(
    r"(const )?(unsigned |signed )?(int|long|long long|size_t|ptrdiff_t|u?int(32|64)_t)"
)


def constant(value: int) -> Poly:
    """A number."""
    return {(): value} if value else {}


def _sum(left: Poly, right: Poly, sign: int = 1) -> Poly:
    made = dict(left)
    for monomial, coefficient in right.items():
        made[monomial] = made.get(monomial, 0) + sign * coefficient
    return {m: c for m, c in made.items() if c}


def minus(left: Poly, right: Poly) -> Poly:
    """The difference."""
    return _sum(left, right, -1)


def _product(left: Poly, right: Poly) -> Poly:
    made: dict[Monomial, int] = {}
    for m, c in left.items():
        for n, d in right.items():
            key = tuple(sorted(m + n))
            made[key] = made.get(key, 0) + c * d
    return {m: c for m, c in made.items() if c}


def polynomial(expr: Expr, moving: Collection[str]) -> Poly | None:
    """An integer expression as a polynomial of its names.

    Args:
        expr: any expression.
        moving: names whose values change in the part that is looked at. Division, remainder and conditionals
            without them count as one symbol of their own, and so does a member of a structure that none of them is;
            with them there is no polynomial.

    Returns:
        ``None`` for what is no polynomial over the integers, such as a cast to a type in which numbers wrap around.
    """
    match expr:
        case Number(text=text):
            found = _INTEGER.fullmatch(text)
            if found is None or (len(found[1]) > 1 and found[1].isdigit() and found[1][0] == "0"):
                return None
            return constant(int(found[1], 0))
        case Name(id=name):
            return {(name,): 1}
        case Unary(op="-", operand=operand):
            inner = polynomial(operand, moving)
            return None if inner is None else minus({}, inner)
        case Cast(type=kind, operand=operand) if _INTEGER_TYPES.fullmatch(kind):
            return polynomial(operand, moving)
        case Binary(op="+" | "-" | "*" as op, left=left, right=right):
            a, b = polynomial(left, moving), polynomial(right, moving)
            if a is None or b is None:
                return None
            return _product(a, b) if op == "*" else _sum(a, b, -1 if op == "-" else 1)
        case Field(type=kind) if is_integer(kind) and not is_narrow(kind):
            known = all(isinstance(e, Field | Index | Name | Number) for e in subtrees(expr))
            return {(expression_text(expr),): 1} if known and names_in(expr).isdisjoint(moving) else None
        case Binary(op="/" | "%") | Ternary():
            if not names_in(expr).isdisjoint(moving) or not all(
                isinstance(e, Name | Number | Binary | Ternary | Unary) for e in subtrees(expr)
            ):
                return None
            return {(f"({expression_text(expr)})",): 1}
    return None


def strides_of(polys: Iterable[Poly], moving: Collection[str]) -> list[Monomial] | None:
    """The products of sizes that multiply moving names, from 1 upwards, each a factor of the next.

    Returns:
        ``None`` where they do not divide one another, or moving names multiply each other.
    """
    found: set[Monomial] = {()}
    for poly in polys:
        for monomial in poly:
            fixed = tuple(s for s in monomial if s not in moving)
            if len(monomial) - len(fixed) > 1:
                return None
            if len(fixed) < len(monomial):
                found.add(fixed)
    ordered = sorted(found, key=lambda m: (len(m), m))
    for small, large in pairwise(ordered):
        if _quotient(large, small) is None:
            return None
    return ordered


def _quotient(large: Monomial, small: Monomial) -> Monomial | None:
    rest = list(large)
    for symbol in small:
        if symbol not in rest:
            return None
        rest.remove(symbol)
    return tuple(rest)


def split_by_strides(poly: Poly, strides: Sequence[Monomial], *, keep_low: bool = False) -> list[Poly]:
    """A flat subscript as subscripts of an array with these strides, the widest stride first.

    Args:
        poly: the flat subscript.
        strides: from :func:`strides_of`.
        keep_low: count a bare stride (the ``n`` of ``n - 1``) to the next smaller dimension.
    """
    parts: list[dict[Monomial, int]] = [{} for _ in strides]
    for monomial, coefficient in poly.items():
        for position in range(len(strides) - 1, -1, -1):
            rest = _quotient(monomial, strides[position])
            if rest is None or (keep_low and position and not rest):
                continue
            parts[position][rest] = parts[position].get(rest, 0) + coefficient
            break
    return [dict(p) for p in reversed(parts)]
