"""A space as searchers see it: one axis for each parameter and flag group, a point as a tuple of positions.

Positions run from 0 on each axis. Distances are taken over positions, so powers of two are evenly spaced. The
pass pipeline is no axis: it is carried beside the point. May not draw random numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.core.types import Configuration, Value
from tuner.spaces.space import PASSES, Space

__all__ = ["PASSES", "Axis", "Domain", "Point"]

Point = tuple[int, ...]
"""A position on each axis."""

_MULTIPLIER = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One parameter or flag group: how many values, whether neighbouring positions are alike."""

    size: int
    ordered: bool
    flag: bool


class Domain:
    """Positions, configurations and the listed valid set of one space.

    Attributes:
        space: the space itself.
        axes: parameters in the space's order, then flag groups.
        passes: the pass space, or ``None``.
        base: the base pipeline; empty where there are no passes.
        default: the baseline's point; constraints need not hold for it.
        start: the default, or a valid point next to it.
        rows: the valid set, one point a row, or ``None`` where it is too large to list.
        scale: one over the largest distance on each axis (1 for unordered ones).
        ordered: which axes are ordered.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.axes = tuple(
            Axis(size=len(d.values), ordered=d.ordered, flag=d.name in space.flags) for d in space.dimensions
        )
        self.passes = space.passes
        self.base = "" if self.passes is None else self.passes.base
        self.ordered = np.array([a.ordered for a in self.axes], dtype=bool)
        self.scale = np.array([1.0 / max(1, a.size - 1) if a.ordered else 1.0 for a in self.axes])
        listing = space.listing()
        self.rows = None if listing is None else listing.indices
        self.default: Point = space.key(space.default())
        self._order: NDArray[np.intp] | None = None
        self._hashes: NDArray[np.uint64] | None = None
        self.start: Point = self._start()

    @property
    def size(self) -> int | None:
        """How many points are valid, or ``None`` where they cannot be listed."""
        return None if self.rows is None else len(self.rows)

    def point(self, configuration: Configuration) -> Point | None:
        """The positions of a configuration's values, or ``None`` for one that is not of this space."""
        positions = []
        for dimension in self.space.dimensions:
            position = dimension.find(configuration.get(dimension.name))
            if position is None:
                return None
            positions.append(position)
        return tuple(positions)

    def configuration(self, point: Point, pipeline: str | None) -> dict[str, Value]:
        """The configuration of a point; the pipeline is left out where the space has no passes."""
        made: dict[str, Value] = {
            d.name: d.values[i] for d, i in zip(self.space.dimensions, point, strict=True)
        }
        if self.passes is not None:
            made[PASSES] = self.base if pipeline is None else pipeline
        return made

    def valid(self, point: Point) -> bool:
        """Whether a point is valid (its pipeline is not looked at)."""
        if self.rows is not None:
            return self.row(point) is not None
        return self.space.is_valid(self.configuration(point, None))

    def accepts(self, configuration: Configuration) -> bool:
        """Whether a configuration, pipeline included, may be proposed."""
        return self.space.is_valid(configuration)

    def row(self, point: Point) -> int | None:
        """The row of a point in :attr:`rows`, or ``None``."""
        if self.rows is None:
            return None
        if self._order is None or self._hashes is None:
            hashes = self._hash(self.rows)
            self._order = np.argsort(hashes, kind="stable")
            self._hashes = hashes[self._order]
        wanted = np.uint64(sum(p * m for p, m in zip(point, self._multipliers(), strict=True)) & _MASK)
        at = int(np.searchsorted(self._hashes, wanted))
        while at < len(self._hashes) and self._hashes[at] == wanted:
            row = int(self._order[at])
            if tuple(self.rows[row].tolist()) == point:
                return row
            at += 1
        return None

    def distances(self, points: NDArray[np.integer], target: NDArray[np.float64]) -> NDArray[np.float64]:
        """The distance of each point from positions that need not be whole: the sum over axes of 0 to 1."""
        apart = np.abs(points - target) * self.scale
        return np.asarray(np.where(self.ordered, apart, apart > 0.5).sum(axis=1), dtype=np.float64)

    def array(self, points: Iterable[Point]) -> NDArray[np.int64]:
        """Points as one array, a row each."""
        return np.array(list(points), dtype=np.int64).reshape(-1, len(self.axes))

    def _start(self) -> Point:
        if self.valid(self.default):
            return self.default
        for near in self.space.neighbours(self.space.default()):
            return self.space.key(near)
        return self.default

    def _multipliers(self) -> list[int]:
        # Mixed radix: no two points collide where the product fits 64 bits; beyond, equal hashes are compared.
        factors, product = [], 1
        for axis in self.axes:
            factors.append(product & _MASK)
            product *= axis.size
            if product > _MASK:
                product = (product * _MULTIPLIER) | 1
        return factors

    def _hash(self, rows: NDArray[np.integer]) -> NDArray[np.uint64]:
        factors = np.array(self._multipliers(), dtype=np.uint64)
        total = np.zeros(len(rows), dtype=np.uint64)
        for column, factor in enumerate(factors):
            total += rows[:, column].astype(np.uint64) * factor
        return total
