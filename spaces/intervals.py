"""Expressions over many rows at once: what is certainly true, what certainly false, and what is in doubt.

Values are intervals of float64, widened wherever rounding could matter, so that a verdict is never wrong;
rows without one are left to :meth:`tuner.core.expressions.Expression.evaluate`. An interval also stands for a
name that has no value yet, which lets a constraint rule out a partial assignment. May not decide what is done
with a row.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tuner.core.expressions import Expression

__all__ = ["Span", "Verdicts", "judge"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_LEAST = 1e-300
_EXACT = float(1 << 53)


@dataclass(frozen=True, slots=True)
class Span:
    """Lower and upper ends, row by row (or one for all rows); ``hi is lo`` when the value is known.

    ``whole`` promises that all ends are integers that float64 holds exactly.
    """

    lo: Floats
    hi: Floats
    whole: bool

    @classmethod
    def points(cls, values: npt.ArrayLike) -> Span:
        """Known values: numbers of any size, or truth values."""
        array = np.asarray(values)
        if array.dtype.kind == "O" or array.dtype.kind in "iu":
            floats = array.astype(np.float64)
            if not np.all(np.abs(floats) < _EXACT):
                return cls(np.nextafter(floats, -np.inf), np.nextafter(floats, np.inf), False)
        else:
            floats = array.astype(np.float64)
        whole = bool(np.all(np.abs(floats) < _EXACT) and np.all(floats == np.floor(floats)))
        return cls(floats, floats, whole)

    @property
    def known(self) -> bool:
        return self.hi is self.lo


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Row by row: certainly true; certainly false. Neither: not known."""

    true: Bools
    false: Bools


def judge(expression: Expression, columns: Mapping[str, Span]) -> Verdicts:
    """Judges a constraint for all rows.

    A row that might raise an error is never certainly true.

    Args:
        expression: without text in it.
        columns: a span for every name.
    """
    with np.errstate(all="ignore"):
        judging = _Judge(columns)
        truth = _as_truth(judging.run(expression.tree))
        true = np.asarray(truth.true & ~judging.doubt)
        false = np.asarray(truth.false)
        return Verdicts(true, false)


def _point(lo: Floats, whole: bool) -> Span:
    """A computed point: exact if whole, else widened by one step for its rounding."""
    if whole:
        return Span(lo, lo, True)
    return Span(np.nextafter(lo, -np.inf), np.nextafter(lo, np.inf), False)


def _fits(*parts: Floats) -> bool:
    return all(bool(np.all(np.abs(p) < _EXACT)) for p in parts)


def _ends(lo: Floats, hi: Floats, whole: bool) -> Span:
    if whole and _fits(lo, hi):
        return Span(lo, hi, True)
    return Span(np.nextafter(lo, -np.inf), np.nextafter(hi, np.inf), False)


def _add(a: Span, b: Span) -> Span:
    whole = a.whole and b.whole
    if a.known and b.known:
        total = a.lo + b.lo
        return _point(total, whole and _fits(total))
    return _ends(a.lo + b.lo, a.hi + b.hi, whole)


def _negate(a: Span) -> Span:
    if a.known:
        minus = -a.lo
        return Span(minus, minus, a.whole)
    return Span(-a.hi, -a.lo, a.whole)


def _corners(a: Span, b: Span, function: Callable[[Any, Any], Any]) -> tuple[Floats, Floats]:
    parts = [function(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    lo, hi = parts[0], parts[0]
    for part in parts[1:]:
        lo, hi = np.minimum(lo, part), np.maximum(hi, part)
    return lo, hi


def _multiply(a: Span, b: Span) -> Span:
    whole = a.whole and b.whole
    if a.known and b.known:
        product = a.lo * b.lo
        return _point(product, whole and _fits(product))
    lo, hi = _corners(a, b, np.multiply)
    return _ends(lo, hi, whole)


def _as_span(value: Span | Verdicts) -> Span:
    if isinstance(value, Span):
        return value
    lo, hi = value.true.astype(np.float64), (~value.false).astype(np.float64)
    return Span(lo, lo, True) if np.array_equal(lo, hi) else Span(lo, hi, True)


def _as_truth(value: Span | Verdicts) -> Verdicts:
    if isinstance(value, Verdicts):
        return value
    return Verdicts((value.lo > 0) | (value.hi < 0), (value.lo == 0) & (value.hi == 0))


class _Judge:
    """One walk over a syntax tree. ``doubt`` marks rows in which an operation may raise an error."""

    def __init__(self, columns: Mapping[str, Span]) -> None:
        self._columns = columns
        self.doubt: Any = np.zeros((), dtype=np.bool_)

    def run(self, node: ast.expr) -> Span | Verdicts:
        if isinstance(node, ast.Constant):
            return Span.points(cast("float", node.value))
        if isinstance(node, ast.Name):
            if node.id in ("true", "True", "false", "False"):
                return Span.points(node.id in ("true", "True"))
            return self._columns[node.id]
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, ast.UnaryOp):
            operand = self.run(node.operand)
            if isinstance(node.op, ast.Not):
                truth = _as_truth(operand)
                return Verdicts(truth.false, truth.true)
            span = _as_span(operand)
            return _negate(span) if isinstance(node.op, ast.USub) else span
        if isinstance(node, ast.BoolOp):
            return self._logic(node)
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        return self._call(node.func.id, [_as_span(self.run(arg)) for arg in node.args])

    def _binary(self, node: ast.BinOp) -> Span:
        a, b = _as_span(self.run(node.left)), _as_span(self.run(node.right))
        if isinstance(node.op, ast.Add):
            return self._finite(_add(a, b))
        if isinstance(node.op, ast.Sub):
            return self._finite(_add(a, _negate(b)))
        if isinstance(node.op, ast.Mult):
            return self._finite(_multiply(a, b))
        if isinstance(node.op, ast.Pow):
            return self._power(a, b)
        zero = (b.lo <= 0) & (b.hi >= 0)
        self.doubt = self.doubt | zero | ~np.isfinite(b.lo) | ~np.isfinite(b.hi)
        if isinstance(node.op, ast.Mod):
            return self._modulo(a, b, zero)
        quotient = self._finite(self._divide(a, b, zero))
        return self._round(quotient, np.floor) if isinstance(node.op, ast.FloorDiv) else quotient

    def _finite(self, a: Span) -> Span:
        if not a.whole:
            self.doubt = self.doubt | ~np.isfinite(a.lo) | ~np.isfinite(a.hi)
        return a

    def _divide(self, a: Span, b: Span, zero: Bools) -> Span:
        def quotient(x: Floats, y: Floats, outward: float) -> Floats:
            q = x / y
            if not (a.whole and b.whole):
                return np.asarray(np.nextafter(q, outward))
            exact = (q == np.floor(q)) & (q * y == x) & (np.abs(q) < _EXACT)
            return np.where(exact, q, np.nextafter(q, outward))

        lo, _ = _corners(a, b, lambda x, y: quotient(x, y, -np.inf))
        _, hi = _corners(a, b, lambda x, y: quotient(x, y, np.inf))
        if not np.any(zero) and np.array_equal(lo, hi):
            return Span(lo, lo, a.whole and b.whole and bool(np.all(lo == np.floor(lo))))
        return Span(np.where(zero, -np.inf, lo), np.where(zero, np.inf, hi), False)

    def _modulo(self, a: Span, b: Span, zero: Bools) -> Span:
        if a.whole and b.whole and a.known and b.known:
            rest = np.mod(a.lo, b.lo)
            if not np.any(zero):
                return Span(rest, rest, True)
            return Span(np.where(zero, -np.inf, rest), np.where(zero, np.inf, rest), False)
        slack = 1.0 if a.whole and b.whole else 0.0
        lo = np.where(b.hi < 0, b.lo + slack, 0.0)
        hi = np.where(b.lo > 0, b.hi - slack, 0.0)
        # A number in [0, b) is its own remainder; rounding keeps it at most the number itself.
        small = (a.lo >= 0) & (b.lo > 0)
        hi = np.where(small, np.minimum(hi, a.hi), hi)
        lo = np.where(small & (a.hi < b.lo), a.lo, lo)
        return Span(np.where(zero, -np.inf, lo), np.where(zero, np.inf, hi), False)

    def _power(self, a: Span, b: Span) -> Span:
        if a.known and b.known and a.whole and b.whole:
            result = np.power(a.lo, b.lo)
            small = np.abs(result) < _EXACT / 2
            if np.all(small & (b.lo >= 0)):
                # The library's power is within one unit in the last place: rounding makes it exact.
                return _point(np.rint(result), True)
        lo, hi = _corners(a, b, np.power)
        # Beyond floats on either side the exact value may have more digits than an expression is allowed. A fraction
        # may have too many whatever its power's size.
        safe = (a.lo > 0) & (lo > _LEAST) & np.isfinite(hi)
        if not a.whole:
            safe = safe & (np.maximum(np.abs(b.lo), np.abs(b.hi)) <= 1)
        lo, hi = lo - np.abs(lo) * 1e-14, hi + np.abs(hi) * 1e-14
        self.doubt = self.doubt | ~safe
        return Span(np.where(safe, lo, -np.inf), np.where(safe, hi, np.inf), False)

    def _round(self, a: Span, function: Callable[[Any], Any]) -> Span:
        lo = function(a.lo)
        hi = lo if a.known else function(a.hi)
        self.doubt = self.doubt | ~np.isfinite(lo) | ~np.isfinite(hi)
        if hi is not lo and np.array_equal(lo, hi):
            hi = lo
        return Span(lo, hi, _fits(lo, hi))

    def _log2(self, a: Span) -> Span:
        bad = ~((a.lo > 0) & np.isfinite(a.hi))
        self.doubt = self.doubt | bad

        def log(x: Floats, outward: float) -> Floats:
            mantissa, exponent = np.frexp(x)
            value = np.log2(x)
            wide = value + outward * np.maximum(np.abs(value), 1.0) * 1e-14
            return np.where(mantissa == 0.5, exponent - 1.0, wide)

        lo, hi = np.where(bad, -np.inf, log(a.lo, -1.0)), np.where(bad, np.inf, log(a.hi, 1.0))
        if np.array_equal(lo, hi):
            return Span(lo, lo, bool(np.all(lo == np.floor(lo))))
        return Span(lo, hi, False)

    def _call(self, name: str, args: list[Span]) -> Span:
        first = args[0]
        if name == "ceil":
            return self._round(first, np.ceil)
        if name == "floor":
            return self._round(first, np.floor)
        if name == "log2":
            return self._log2(first)
        if name == "abs":
            if first.known:
                size = np.abs(first.lo)
                return Span(size, size, first.whole)
            small = np.maximum(np.maximum(first.lo, -first.hi), 0.0)
            return Span(small, np.maximum(np.abs(first.lo), np.abs(first.hi)), first.whole)
        pick = np.minimum if name == "min" else np.maximum
        for other in args[1:]:
            lo = pick(first.lo, other.lo)
            hi = lo if first.known and other.known else pick(first.hi, other.hi)
            first = Span(lo, hi, first.whole and other.whole)
        return first

    def _logic(self, node: ast.BoolOp) -> Verdicts:
        parts = [_as_truth(self.run(value)) for value in node.values]
        true, false = parts[0].true, parts[0].false
        both = isinstance(node.op, ast.And)
        for part in parts[1:]:
            true = true & part.true if both else true | part.true
            false = false | part.false if both else false & part.false
        return Verdicts(true, false)

    def _comparison(self, node: ast.Compare) -> Verdicts:
        parts = [_as_span(self.run(part)) for part in (node.left, *node.comparators)]
        result = _compare(node.ops[0], parts[0], parts[1])
        for op, left, right in zip(node.ops[1:], parts[1:], parts[2:], strict=False):
            step = _compare(op, left, right)
            result = Verdicts(result.true & step.true, result.false | step.false)
        return result


def _compare(op: ast.cmpop, a: Span, b: Span) -> Verdicts:
    if isinstance(op, ast.Gt):
        return _compare(ast.Lt(), b, a)
    if isinstance(op, ast.GtE):
        return _compare(ast.LtE(), b, a)
    if isinstance(op, ast.Lt):
        return Verdicts(a.hi < b.lo, a.lo >= b.hi)
    if isinstance(op, ast.LtE):
        return Verdicts(a.hi <= b.lo, a.lo > b.hi)
    same = (a.lo == b.lo) & (a.hi == b.hi) & (a.lo == a.hi)
    apart = (a.hi < b.lo) | (a.lo > b.hi)
    return Verdicts(same, apart) if isinstance(op, ast.Eq) else Verdicts(apart, same)
