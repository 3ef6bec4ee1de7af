"""Which points are still untried with a pipeline, and draws from them. May not rank anything."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tuner.core.types import Configuration
from tuner.search.domain import PASSES, Domain, Point

__all__ = ["Pool"]

_SAMPLED = 256
_SCANNED = 50_000


class Pool:
    """The untried points of a space for each pipeline.

    Listed spaces are tracked exactly, so exhaustion is known; spaces too large to list are sampled.

    Args:
        domain: of the space.
    """

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._tried: dict[str | None, set[Point]] = {}
        self._masks: dict[str | None, NDArray[np.bool_]] = {}
        self._pipelines: dict[Point, set[str]] = {}
        self._near: dict[Point, list[Point]] = {}

    def note(self, configuration: Configuration) -> None:
        """A configuration was proposed or told; one of another space is ignored."""
        point = self._domain.point(configuration)
        if point is None:
            return
        pipeline = self._pipeline(configuration.get(PASSES))
        if pipeline is not None:
            self._pipelines.setdefault(point, set()).add(pipeline)
        tried = self._tried.setdefault(pipeline, set())
        if point in tried or not self._counts(point):
            return
        tried.add(point)
        mask = self._masks.get(pipeline)
        row = None if mask is None else self._domain.row(point)
        if mask is not None and row is not None:
            mask[row] = False

    def tried(self, point: Point, pipeline: str | None) -> bool:
        """Whether a point was proposed or told with a pipeline."""
        return point in self._tried.get(pipeline, ())

    def pipelines(self, point: Point) -> set[str]:
        """The pipelines that were proposed or told with a point; not to be changed."""
        return self._pipelines.get(point, set())

    def left(self, pipeline: str | None) -> int | None:
        """How many valid points are untried with a pipeline, or ``None`` where the space cannot be listed."""
        size = self._domain.size
        return None if size is None else size - len(self._tried.get(pipeline, ()))

    def draw(
        self,
        rng: np.random.Generator,
        count: int,
        *,
        pipeline: str | None,
        without: frozenset[Point] = frozenset(),
    ) -> list[Point]:
        """Distinct untried valid points, uniform in a listed space; fewer than ``count`` when fewer are left."""
        rows = self._domain.rows
        if rows is None:
            return self._sample(rng, count, pipeline, without)
        taken = self._tried.get(pipeline, set())
        if 2 * (len(taken) + len(without) + count) > len(rows):
            mask = self._mask(pipeline)
            free = rng.permutation(np.flatnonzero(mask))[: count + len(without)]
            points = [_as_point(rows[i]) for i in free]
            return [p for p in points if p not in without][:count]
        found: dict[Point, None] = {}
        while len(found) < count:
            for i in rng.integers(len(rows), size=count - len(found)):
                point = _as_point(rows[i])
                if point not in taken and point not in without:
                    found[point] = None
        return list(found)

    def nearest(
        self,
        target: NDArray[np.float64],
        rng: np.random.Generator,
        *,
        pipeline: str | None,
        without: frozenset[Point] = frozenset(),
    ) -> Point | None:
        """The untried valid point next to wished positions; ``None`` when none is left or found.

        Exact up to 50,000 listed points; beyond, the nearest of as many random ones (of 256 where the space cannot
        be listed).
        """
        rounded = tuple(round(x) for x in target)
        if rounded not in without and not self.tried(rounded, pipeline) and self._domain.valid(rounded):
            return rounded
        rows = self._domain.rows
        if rows is None or len(rows) > _SCANNED:
            points = self.draw(rng, _SAMPLED if rows is None else 4096, pipeline=pipeline, without=without)
            if not points:
                return None
            apart = self._domain.distances(self._domain.array(points), target)
            return points[int(np.argmin(apart))]
        apart = self._domain.distances(rows, target)
        needed = len(self._tried.get(pipeline, ())) + len(without) + 1
        order = np.argsort(apart, kind="stable") if needed > 64 else _smallest(apart, needed)
        for i in order:
            point = _as_point(rows[i])
            if point not in without and not self.tried(point, pipeline):
                return point
        return None

    def neighbours(self, point: Point, *, pipeline: str | None) -> list[Point]:
        """Untried valid points one step away, in the space's own order."""
        if point not in self._near:
            around = self._domain.space.neighbours(self._domain.configuration(point, None))
            self._near[point] = [p for p in map(self._domain.point, around) if p is not None]
        return [p for p in self._near[point] if not self.tried(p, pipeline)]

    def _sample(
        self, rng: np.random.Generator, count: int, pipeline: str | None, without: frozenset[Point]
    ) -> list[Point]:
        taken = self._tried.get(pipeline, set())
        drawn = self._domain.space.sample(rng, count, exclude=taken | without if without else taken)
        return [p for p in map(self._domain.point, drawn) if p is not None]

    def _mask(self, pipeline: str | None) -> NDArray[np.bool_]:
        mask = self._masks.get(pipeline)
        if mask is None:
            mask = np.ones(self._domain.size or 0, dtype=bool)
            for point in self._tried.get(pipeline, ()):
                row = self._domain.row(point)
                if row is not None:
                    mask[row] = False
            self._masks[pipeline] = mask
        return mask

    def _counts(self, point: Point) -> bool:
        return self._domain.rows is None or self._domain.row(point) is not None

    def _pipeline(self, value: object) -> str | None:
        if self._domain.passes is None:
            return None
        return value if isinstance(value, str) else self._domain.base


def _as_point(row: NDArray[np.integer]) -> Point:
    return tuple(row.tolist())


def _smallest(values: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    if count >= len(values):
        return np.argsort(values, kind="stable")
    cut = np.partition(values, count - 1)[count - 1]
    near = np.flatnonzero(values <= cut)
    return near[np.argsort(values[near], kind="stable")]
