"""Points as columns in which a stationary kernel can tell kernels' settings apart. May not know any score.

Ordered axes become one column, the rank from 0 to 1, which is the logarithm for powers of two. Other axes of more than
two values become one column for each value. Whole numbers that are not all powers of two get a second column, how often
two divides them: hardware works in widths that are powers of two, so that 64 is nearer to 128 than to 80 in what it
costs, and no distance over ranks can say so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.search.domain import Domain
from tuner.spaces.parameters import Parameter

__all__ = ["Features", "alignment"]

Floats = NDArray[np.float64]

_LISTED = 4096


@dataclass(frozen=True, slots=True)
class _Group:
    axis: int
    table: Floats


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
        sizes = [group.table.shape[1] for group in self._tables]
        self.groups = np.repeat(np.arange(len(sizes)), sizes)
        self.width = len(sizes)

    def encode(self, points: NDArray[np.integer]) -> Floats:
        """``[n, columns]`` for points ``[n, axes]``."""
        if not self._tables:
            return np.zeros((len(points), 0))
        return np.hstack([group.table[points[:, group.axis].astype(np.int64)] for group in self._tables])


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
    return halvings / halvings.max()


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
