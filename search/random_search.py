"""Uniform random search: the searcher that every other one has to beat. May not learn."""

from __future__ import annotations

import numpy as np

from tuner.core.types import Proposal
from tuner.search.base import SearcherBase
from tuner.search.domain import Point
from tuner.spaces.space import Space

__all__ = ["RandomSearcher", "make"]

_ATTEMPTS = 64
_KEPT = 0.25
_LIGHT_EDITS = 3


class RandomSearcher(SearcherBase):
    """Draws parameters and flags uniformly from the valid ones, without repeats.

    Where the space has passes a quarter of the proposals keep the base pipeline; the others get a pipeline of
    :meth:`PassSpace.random` or one to three edits of the base, half each.
    """

    name = "random"
    cheap = True

    def _propose(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        if self.domain.passes is None:
            points = self.pool.draw(rng, count, pipeline=None)
            return [self._proposal(p, None, "uniform") for p in points]
        proposals: list[Proposal] = []
        taken: dict[str | None, set[Point]] = {}
        for _ in range(_ATTEMPTS + 4 * count):
            if len(proposals) >= count:
                break
            how, pipeline = self._pipeline(rng)
            mine = taken.setdefault(pipeline, set())
            points = self.pool.draw(rng, 1, pipeline=pipeline, without=frozenset(mine))
            mine.update(points)
            proposals += [self._proposal(p, pipeline, how) for p in points]
        return proposals

    def _pipeline(self, rng: np.random.Generator) -> tuple[str, str]:
        passes = self.domain.passes
        assert passes is not None
        roll = float(rng.random())
        if roll < _KEPT:
            return "base", passes.base
        if roll < (1 + _KEPT) / 2:
            return "random", passes.random(rng)
        return "edits", passes.mutate(passes.base, rng, 1 + int(rng.integers(_LIGHT_EDITS)))

    def _proposal(self, point: Point, pipeline: str | None, how: str) -> Proposal:
        return Proposal(
            configuration=self.domain.configuration(point, pipeline), origin=self.name, note={"how": how}
        )


def make(space: Space) -> RandomSearcher:
    """The factory behind the name ``random``."""
    return RandomSearcher(space)
