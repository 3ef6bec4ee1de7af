"""Points as columns in which a stationary kernel can tell kernels' settings apart. May not know any score.

Ordered axes become one column, the rank from 0 to 1, which is the logarithm for powers of two. Other axes of more than
two values become one column for each value. Whole numbers that are not all powers of two get a second column, how often
two divides them: hardware works in widths that are powers of two, so that 64 is nearer to 128 than to 80 in what it
costs, and no distance over ranks can say so.

Products that constraints speak of (threads of a block, elements of a tile) become columns too: what a constraint bounds
is what the hardware runs out of. They count a fifth, so that the axes themselves explain what they can: where they
count more, early models take every point to be far from every other.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.search.domain import Domain
from tuner.spaces.parameters import Parameter

__all__ = ["Features", "alignment", "products"]

Floats = NDArray[np.float64]

_LISTED = 4096
_PRODUCTS = 16
_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class _Group:
    axis: int
    table: Floats


@dataclass(frozen=True, slots=True)
class _Product:
    """The logarithm of a product of axes, from 0 to the share that it counts."""

    axes: tuple[int, ...]
    tables: tuple[Floats, ...]
    low: float
    high: float

    def column(self, points: NDArray[np.int64]) -> Floats:
        """``[n, 1]``."""
        logs = sum(table[points[:, axis]] for axis, table in zip(self.axes, self.tables, strict=True))
        return np.asarray(_SHARE * (logs - self.low) / (self.high - self.low))[:, None]


class Features:
    """The columns of one space.

    Args:
        domain: of the space.

    Attributes:
        groups: for each column the number of its group; columns of a group share one length scale.
        width: how many groups there are.
    """

    def __init__(self, domain: Domain) -> None:
        self._tables = [
            _Group(i, table)
            for i, dimension in enumerate(domain.space.dimensions)
            for table in _tables(dimension)
        ]
        self._products = _logarithms(domain)
        sizes = [group.table.shape[1] for group in self._tables] + [1] * len(self._products)
        self.groups = np.repeat(np.arange(len(sizes)), sizes)
        self.width = len(sizes)

    def encode(self, points: NDArray[np.integer]) -> Floats:
        """``[n, columns]`` for points ``[n, axes]``."""
        if not self.width:
            return np.zeros((len(points), 0))
        whole = points.astype(np.int64)
        columns = [group.table[whole[:, group.axis]] for group in self._tables]
        columns += [product.column(whole) for product in self._products]
        return np.hstack(columns)


def alignment(dimension: Parameter) -> Floats | None:
    """How often two divides each value, from 0 to 1; ``None`` where that says no more than the rank."""
    if not dimension.ordered or not 2 < len(dimension.values) <= _LISTED:
        return None
    if any(isinstance(v, str | bool) or v != int(v) or v < 1 for v in dimension.values):
        return None
    values = [int(v) for v in dimension.values]
    halvings = np.array([(v & -v).bit_length() - 1 for v in values], dtype=np.float64)
    if halvings.max() == 0 or all(v & (v - 1) == 0 for v in values):
        return None
    return np.asarray(halvings / halvings.max())


def _tables(dimension: Parameter) -> list[Floats]:
    size = len(dimension.values)
    if size < 2:
        return []
    if not dimension.ordered and size > 2:
        # Two different values are then at distance one, as the two ends of an ordered axis are.
        return [np.eye(size) / np.sqrt(2.0)]
    tables = [(np.arange(size) / (size - 1))[:, None]]
    aligned = alignment(dimension)
    if aligned is not None:
        tables.append(aligned[:, None])
    return tables


def products(constraints: Iterable[str], names: Iterable[str]) -> list[tuple[str, ...]]:
    """The products of two names and more in constraints, each once, in order; factors that are no names are left out.

    >>> products(["32 <= X * Y * 4 <= 1024", "(X * (T + 1)) * Y < 9", "T * 2 < 5"], ["X", "Y", "T"])
    [('X', 'Y')]
    """
    known = set(names)
    found: dict[tuple[str, ...], None] = {}
    for text in constraints:
        waiting: list[ast.AST] = [ast.parse(text, mode="eval")]
        while waiting:
            node = waiting.pop(0)
            factors = _factors(node)
            named = sorted({f.id for f in factors if isinstance(f, ast.Name)} & known)
            if len(named) > 1:
                found[tuple(named)] = None
            waiting += [c for f in factors for c in ast.iter_child_nodes(f)] if factors else []
            waiting += [] if factors else list(ast.iter_child_nodes(node))
    return list(found)[:_PRODUCTS]


def _factors(node: ast.AST) -> list[ast.expr]:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return []
    return list(itertools.chain.from_iterable(_factors(side) or [side] for side in (node.left, node.right)))


def _logarithms(domain: Domain) -> list[_Product]:
    dimensions = {d.name: (i, d) for i, d in enumerate(domain.space.dimensions)}
    usable = [name for name, (_, d) in dimensions.items() if _positive(d)]
    made = []
    for names in products((c.text for c in domain.space.constraints), usable):
        axes = tuple(dimensions[name][0] for name in names)
        tables = tuple(np.log(np.array(dimensions[name][1].values, dtype=np.float64)) for name in names)
        if domain.rows is None:
            low, high = sum(float(t.min()) for t in tables), sum(float(t.max()) for t in tables)
        else:
            logs = sum(t[domain.rows[:, axis]] for axis, t in zip(axes, tables, strict=True))
            low, high = float(np.min(logs)), float(np.max(logs))
        if high - low > 1e-9:
            made.append(_Product(axes, tables, low, high))
    return made


def _positive(dimension: Parameter) -> bool:
    values = dimension.values
    if not dimension.ordered or not 1 < len(values) <= _LISTED:
        return False
    return all(not isinstance(v, str | bool) and v > 0 for v in values)
