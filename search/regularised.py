"""The searcher ``evolution``: regularised evolution, which moves from good configurations to their neighbours.

May not fit a model: one that ranks may stand beside it (:mod:`tuner.search.pooled`).
"""

from __future__ import annotations

import numpy as np

from tuner.core.protocols import configuration_key
from tuner.core.types import Configuration, Proposal
from tuner.search.base import SearcherBase
from tuner.search.domain import PASSES
from tuner.search.history import Key
from tuner.spaces.space import Space

__all__ = ["EvolutionSearcher", "make"]

_POPULATION = 40
_TOURNAMENT = 8
_ATTEMPTS = 4
_EDITS = 3


class EvolutionSearcher(SearcherBase):
    """The best of a few of the latest trials, with one setting changed, or one to three edits of its pipeline.

    The first twenty are drawn evenly. Source: Real et al., "Regularized evolution for image classifier architecture
    search", AAAI 2019.
    """

    name = "evolution"
    moves = True

    def _propose(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        taken: dict[Key, Proposal] = {}
        parents = [
            o
            for o, _ in self.history.placed[-_POPULATION:]
            if o.score is not None and self.domain.accepts(o.proposal.configuration)
        ]
        if len(self.history.placed) >= _POPULATION // 2 and parents:
            for _ in range(_ATTEMPTS * count):
                if len(taken) == count:
                    break
                drawn = [parents[int(i)] for i in rng.integers(len(parents), size=_TOURNAMENT)]
                parent = min(drawn, key=lambda o: (o.score, o.trial))
                child = self._child(parent.proposal.configuration, rng)
                if child is not None and not self.history.knows(child):
                    made = Proposal(
                        configuration=child, origin=self.name, parent=parent.trial, note={"how": "step"}
                    )
                    taken.setdefault(configuration_key(child), made)
        pipeline = self.domain.base if self.domain.passes is not None else None
        points = [self.domain.point(p.configuration) for p in taken.values()]
        without = frozenset(p for p in points if p is not None)
        for point in self.pool.draw(rng, count - len(taken), pipeline=pipeline, without=without):
            made = Proposal(
                configuration=self.domain.configuration(point, pipeline),
                origin=self.name,
                note={"how": "uniform"},
            )
            taken.setdefault(configuration_key(made.configuration), made)
        if len(taken) < count and pipeline is not None:
            self._add_pipelines(taken, count, rng)
        return list(taken.values())

    def _child(self, parent: Configuration, rng: np.random.Generator) -> Configuration | None:
        point = self.domain.point(parent)
        if point is None:
            return None
        pipeline = parent.get(PASSES)
        passes = self.domain.passes
        text = pipeline if isinstance(pipeline, str) else None
        near = self.pool.neighbours(point, pipeline=text)
        if passes is not None and (not near or rng.random() < 0.5):
            edited = passes.mutate(text or passes.base, rng, 1 + int(rng.integers(_EDITS)))
            return self.domain.configuration(point, edited)
        return self.domain.configuration(near[int(rng.integers(len(near)))], text) if near else None

    def _add_pipelines(self, taken: dict[Key, Proposal], count: int, rng: np.random.Generator) -> None:
        """Random pipelines, where every point was tried with the base."""
        passes = self.domain.passes
        assert passes is not None
        best = self.history.best
        point = None if best is None else self.domain.point(best.proposal.configuration)
        for _ in range(_ATTEMPTS * count):
            if len(taken) == count:
                break
            made = self.domain.configuration(
                self.domain.start if point is None else point, passes.random(rng)
            )
            if not self.history.knows(made):
                proposal = Proposal(configuration=made, origin=self.name, note={"how": "random"})
                taken.setdefault(configuration_key(made), proposal)


def make(space: Space) -> EvolutionSearcher:
    """The factory behind the name ``evolution``."""
    return EvolutionSearcher(space)
