"""One constraint applied to many partial assignments: which rows it lets pass, exactly once all its names are bound.

May not decide in which order variables are bound, nor what is done with the rows.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tuner.core.errors import SpecError
from tuner.core.expressions import Expression
from tuner.core.types import Value
from tuner.spaces.intervals import Span, judge

__all__ = ["Bools", "Check", "Checker", "Domain", "Rows", "holds"]

Rows = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_TABLE_LIMIT = 1 << 16
_PATIENCE = 1 << 18


def holds(constraint: Expression, env: Mapping[str, Value]) -> bool:
    """Whether a constraint holds; one that cannot be computed (a division by zero) does not."""
    try:
        return bool(constraint.evaluate(env))
    except SpecError:
        return False


class Domain:
    """The values of one variable as numbers for many rows at once."""

    def __init__(self, values: Sequence[Value]) -> None:
        self.values = values
        self.size = len(values)
        self.numeric = isinstance(values, range) or not any(isinstance(v, str) for v in values)
        self._table: Span | None = None
        if not self.numeric:
            return
        if isinstance(values, range):
            ends = Span.points([values[0], values[-1]])
        else:
            ends = self._table = Span.points(np.array(values, dtype=object))
        self._whole = ends.whole
        self._low, self._high = np.asarray(ends.lo.min()), np.asarray(ends.hi.max())

    def span(self, positions: Rows) -> Span:
        """The values at some positions."""
        if self._table is not None:
            lo = self._table.lo[positions]
            return Span(lo, lo if self._table.known else self._table.hi[positions], self._whole)
        assert isinstance(self.values, range)
        numbers = self.values.start + self.values.step * positions
        if not self._whole:
            return Span.points(numbers)
        floats = numbers.astype(np.float64)
        return Span(floats, floats, True)

    def anything(self) -> Span:
        """All values at once, for a variable that is not bound yet."""
        hi = self._low if self._low == self._high else self._high
        return Span(self._low, hi, self._whole)


@dataclass(slots=True)
class Check:
    """One constraint at one step: over all its names (``final``) or with some of them still open.

    Attributes:
        names: its bound variables.
        open: its variables that are not bound yet.
        table: the answer for every combination of ``names``, where those are few.
        rows_seen: rows judged so far; with ``rows_removed`` it tells a check that is not worth its time.
    """

    constraint: Expression
    names: tuple[str, ...]
    open: tuple[str, ...]
    numeric: bool
    table: Bools | None = None
    rows_seen: int = 0
    rows_removed: int = 0

    @property
    def final(self) -> bool:
        """Whether all names are bound, so that the answer must be exact."""
        return not self.open

    @property
    def useless(self) -> bool:
        """Whether it has long removed nothing and need not be asked."""
        return not self.final and self.rows_removed == 0 and self.rows_seen > _PATIENCE


class Checker:
    """Applies constraints to rows of positions.

    Args:
        domains: by variable.
        constants: further names with one value each.
    """

    def __init__(self, domains: Mapping[str, Domain], constants: Mapping[str, Value]) -> None:
        self._domains = domains
        self._constants = dict(constants)

    def make(self, constraint: Expression, bound: set[str]) -> Check | None:
        """The check of a constraint once some variables are bound; ``None`` where it can remove nothing."""
        own = [n for n in self._domains if n in constraint.names]
        numeric = not _has_text(constraint) and all(self._domains[n].numeric for n in own)
        numeric = numeric and not any(isinstance(self._constants.get(n), str) for n in constraint.names)
        names = tuple(n for n in own if n in bound)
        still_open = tuple(n for n in own if n not in bound)
        if still_open and not numeric:
            return None
        check = Check(constraint, names, still_open, numeric)
        sizes = [self._domains[n].size for n in names]
        total = math.prod(sizes)
        if total <= _TABLE_LIMIT:
            grid = np.unravel_index(np.arange(total), sizes)
            columns = {n: g.astype(np.int64) for n, g in zip(names, grid, strict=True)}
            check.table = self._judged(check, columns, total)
            if check.table.all():
                return None
        return check

    def keep(self, check: Check, columns: Mapping[str, Rows], size: int) -> Bools:
        """Which rows pass.

        Args:
            check: from :meth:`make`.
            columns: positions by variable, for all of ``check.names``.
            size: how many rows.
        """
        if check.table is None:
            return self._judged(check, columns, size)
        code = columns[check.names[0]]
        for name in check.names[1:]:
            code = code * self._domains[name].size + columns[name]
        return check.table[code]

    def _judged(self, check: Check, columns: Mapping[str, Rows], size: int) -> Bools:
        if check.numeric:
            spans = {n: Span.points(v) for n, v in self._constants.items() if n in check.constraint.names}
            spans |= {n: self._domains[n].span(columns[n]) for n in check.names}
            spans |= {n: self._domains[n].anything() for n in check.open}
            verdicts = judge(check.constraint, spans)
            keep: Bools = np.array(np.broadcast_to(~verdicts.false, (size,)))
            if not check.final:
                return keep
            unsure = np.flatnonzero(keep & ~np.broadcast_to(verdicts.true, (size,)))
        else:
            keep = np.ones(size, dtype=np.bool_)
            unsure = np.arange(size)
        if len(unsure):
            keep[unsure] = self._exactly(check, {n: columns[n][unsure] for n in check.names})
        return keep

    def _exactly(self, check: Check, columns: Mapping[str, Rows]) -> Bools:
        """The slow and sure way, once for each distinct combination."""
        stacked = np.stack([columns[n] for n in check.names], axis=1)
        distinct, inverse = np.unique(stacked, axis=0, return_inverse=True)
        env = dict(self._constants)
        verdicts = np.empty(len(distinct), dtype=np.bool_)
        values = [self._domains[n].values for n in check.names]
        for i, row in enumerate(distinct.tolist()):
            for name, domain, position in zip(check.names, values, row, strict=True):
                env[name] = domain[position]
            verdicts[i] = holds(check.constraint, env)
        # NumPy 2.0 gave the inverse an extra axis.
        return verdicts[np.asarray(inverse).reshape(-1)]


def _has_text(constraint: Expression) -> bool:
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) for node in ast.walk(constraint.tree)
    )
