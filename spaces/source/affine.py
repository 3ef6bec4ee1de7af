"""Integer polynomials of a source's expressions, and subscripts of flat arrays taken apart by their strides.

``a[(i - 1) * n + j]`` is an access to row ``i - 1`` and column ``j`` of an array with rows of ``n`` as long as
``0 <= j < n``; whoever uses the parts has to prove that. Where the length of a row is a sum, as in
``a[(k - low) * (nx + 5) + j]``, it is taken apart as if ``nx + 5`` had a name of its own. May not know loops or
dependences.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tuner.core.errors import MachineError
from tuner.core.polynomials import Monomial, Polynomial, constant, variable
from tuner.spaces.source.kinds import is_integer, is_narrow, whole_number
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import Binary, Cast, Expr, Field, Index, Name, Number, Ternary, Unary
from tuner.spaces.source.walks import index_chain, names_in, subtrees

__all__ = [
    "Rows",
    "distance",
    "is_empty",
    "moves",
    "never",
    "over",
    "plus",
    "polynomial",
    "rows_of",
    "written",
]

_INTEGER_TYPES = re.compile(
    r"(const )?(unsigned |signed )?(int|long|long long|(std::)?(size_t|ptrdiff_t|u?int(32|64)_t))"
)
_MOST_LENGTHS = 3
"""Dimensions with a length of their own name."""


def polynomial(expr: Expr, moving: Collection[str]) -> Polynomial | None:
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
            found = whole_number(text)
            return None if found is None else constant(found[0])
        case Name(id=name):
            return variable(name)
        case Unary(op="-", operand=operand):
            inner = polynomial(operand, moving)
            return None if inner is None else -inner
        case Cast(type=kind, operand=operand) if _INTEGER_TYPES.fullmatch(kind):
            return polynomial(operand, moving)
        case Binary(op="+" | "-" | "*" as op, left=left, right=right):
            a, b = polynomial(left, moving), polynomial(right, moving)
            if a is None or b is None:
                return None
            return a * b if op == "*" else a - b if op == "-" else a + b
        case Field(type=kind) if is_integer(kind) and not is_narrow(kind):
            known = all(isinstance(e, Field | Index | Name | Number) for e in subtrees(expr))
            return variable(expression_text(expr)) if known and names_in(expr).isdisjoint(moving) else None
        case Binary(op="/" | "%") | Ternary():
            if not names_in(expr).isdisjoint(moving) or not all(
                isinstance(e, Name | Number | Binary | Ternary | Unary) for e in subtrees(expr)
            ):
                return None
            return variable(f"({expression_text(expr)})")
    return None


def written(expr: Expr) -> int | None:
    """The number that a literal of type ``int`` stands for; ``None`` for anything else."""
    found = whole_number(expr.text) if isinstance(expr, Number) else None
    return found[0] if found is not None and found[1] == "int" else None


def plus(expr: Expr, by: int) -> Expr:
    """An expression and a number, which may be below zero, added up with one that is there: no ``n - 1 - 1``."""
    match expr:
        case Number() if (value := written(expr)) is not None and value + by >= 0:
            return Number(str(value + by))
        case Binary(op="+" | "-" as op, left=left, right=right) if (value := written(right)) is not None:
            expr, by = left, by + (value if op == "+" else -value)
    return Binary("+" if by > 0 else "-", expr, Number(str(abs(by)))) if by else expr


def moves(element: Index, var: str) -> int:
    """How a counter moves an access: 0 for not at all, 1 for to the next element, 2 for further."""
    _, subscripts = index_chain(element)
    for distance, subscript in enumerate(reversed(subscripts)):
        if var in names_in(subscript):
            poly = polynomial(subscript, {var})
            own = {} if poly is None else {m: c for m, c in poly.items() if var in m}
            return 1 if not distance and own in ({(var,): 1}, {(var,): -1}) else 2
    return 0


def distance(a: Expr, b: Expr) -> int | None:
    """By how much one expression is always more than another, where that is known."""
    one, two = polynomial(a, ()), polynomial(b, ())
    left = None if one is None or two is None else one - two
    return left.get((), 0) if left is not None and set(left) <= {()} else None


def _strides_of(polys: Iterable[Polynomial], moving: Collection[str]) -> list[Monomial] | None:
    """The products of sizes that multiply moving names, each a factor of the next; ``None`` where they do not
    divide one another, or moving names multiply each other.
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


def over(large: Monomial, small: Monomial) -> Monomial:
    """A product without factors that are known to be in it."""
    rest = list(large)
    for symbol in small:
        rest.remove(symbol)
    return tuple(rest)


def _quotient(large: Monomial, small: Monomial) -> Monomial | None:
    return over(large, small) if all(large.count(s) >= small.count(s) for s in small) else None


def _split_by_strides(poly: Polynomial, strides: Sequence[Monomial], keep_low: bool) -> list[Polynomial]:
    """A flat subscript as subscripts of an array, widest stride first; ``keep_low``: a bare stride (the ``n`` of
    ``n - 1``) counts to the next smaller dimension.
    """
    parts: list[dict[Monomial, int]] = [{} for _ in strides]
    for monomial, coefficient in poly.items():
        for position in range(len(strides) - 1, -1, -1):
            rest = _quotient(monomial, strides[position])
            if rest is None or (keep_low and position and not rest):
                continue
            parts[position][rest] = parts[position].get(rest, 0) + coefficient
            break
    return [Polynomial.of(p) for p in reversed(parts)]


@dataclass(frozen=True, slots=True)
class Rows:
    """One way to see flat subscripts as those of rows.

    Attributes:
        parts: of each subscript, that of the widest stride first.
        widths: of the rows, the innermost first.
    """

    parts: tuple[tuple[Polynomial, ...], ...]
    widths: tuple[Polynomial, ...]


def rows_of(polys: Sequence[Polynomial], moving: Collection[str], *, sums: bool = True) -> list[Rows] | None:
    """The ways to take flat subscripts apart, none where there are no rows.

    Args:
        polys: the subscripts.
        moving: names that change in the part that is looked at.
        sums: whether the length of a row may be a sum.

    Returns:
        ``None`` where strides do not divide one another.
    """
    named, lengths = _with_names(polys, moving) if sums else (polys, {})
    strides = _strides_of(named, moving)
    if strides is None:
        return None
    ways: list[Rows] = []
    widths = tuple(
        _plain(Polynomial.of({over(large, small): 1}), lengths) for small, large in pairwise(strides)
    )
    for keep_low in (False, True) if widths else ():
        parts = (_split_by_strides(p, strides, keep_low) for p in named)
        ways.append(Rows(tuple(tuple(_plain(p, lengths) for p in own) for own in parts), widths))
    return ways


def _with_names(
    polys: Sequence[Polynomial], moving: Collection[str]
) -> tuple[list[Polynomial], dict[str, Polynomial]]:
    """Subscripts with a name for each length that is a sum, and what the names stand for."""
    made, lengths = list(polys), dict[str, Polynomial]()
    for number in range(_MOST_LENGTHS):
        sums = [s for p in made for v in moving if len(s := _factor(p, v)) > 1]
        found = next(
            ((s, m[0], s[m]) for s in sorted(sums, key=len) for m in s if _tells(s, m, moving)), None
        )
        if found is None:
            break
        length, symbol, sign = found
        name = f"@{number}"
        lengths[name] = length
        # The symbol is the new name less what the sum has beside it.
        rest = length - constant(sign) * variable(symbol)
        value = (variable(name) - rest) * constant(sign)
        made = [_with(p, symbol, value) for p in made]
    return made, lengths


def _factor(poly: Polynomial, var: str) -> Polynomial:
    """What a counter is multiplied with, without the lengths that all of it has in common."""
    found = Polynomial.of({tuple(s for s in m if s != var): c for m, c in poly.items() if m.count(var) == 1})
    common = [s for s in {s for m in found for s in m} if s[0] == "@" and all(s in m for m in found)]
    for symbol in common:
        found = Polynomial.of({over(m, (symbol,)): c for m, c in found.items()})
    return found


def _tells(length: Polynomial, monomial: Monomial, moving: Collection[str]) -> bool:
    """Whether a sum says what one of its symbols is."""
    alone = len(monomial) == 1 and abs(length[monomial]) == 1 and monomial[0][0] != "@"
    within = {s for m in length if m != monomial for s in m}
    return alone and monomial[0] not in within and within.isdisjoint(moving) and monomial[0] not in moving


def _with(poly: Polynomial, symbol: str, value: Polynomial) -> Polynomial:
    """A polynomial with another in the place of a symbol."""
    made = constant(0)
    for monomial, factor in poly.items():
        term = Polynomial.of({tuple(s for s in monomial if s != symbol): factor})
        for _ in range(monomial.count(symbol)):
            term *= value
        made += term
    return made


def _plain(poly: Polynomial, lengths: dict[str, Polynomial]) -> Polynomial:
    """A polynomial without the names of lengths."""
    for name in reversed(lengths):
        poly = _with(poly, name, lengths[name])
    return poly


def never(polys: Sequence[Polynomial]) -> bool:
    """Whether no numbers make all of some polynomials at least 0.

    Args:
        polys: over any symbols.
    """
    symbols: dict[Monomial, str] = {}
    sums = []
    for poly in polys:
        terms = []
        for monomial, factor in poly.items():
            # A product of symbols is a number of which nothing else is known.
            name = symbols.setdefault(monomial, f"p{len(symbols)}") if monomial else ""
            terms.append(f"{factor} {name}".strip())
        sums.append(f"{' + '.join(terms) or '0'} >= 0")
    return is_empty(f"[{', '.join(symbols.values())}] -> {{ : {' and '.join(sums) or '1 = 1'} }}")


@lru_cache(maxsize=1 << 14)
def is_empty(text: str) -> bool:
    """Asks isl; the same part of a kernel is asked about for many variants."""
    try:
        import islpy
    except ImportError as error:
        raise MachineError(f"source transformations need islpy: {error}", "pip install islpy") from None
    return bool(islpy.Set(text).is_empty())
