"""A searcher that moves, with a model beside it that ranks the whole space (or a large sample) for most proposals.

A filter can only choose among what the searcher happens to propose; a model of configurations ranks thousands of them
in a few milliseconds. It has to be worth it: only while the best few measured so far would have been ranked high
unseen are proposals taken from its ranking; one in ten is drawn evenly all the same, and shows what the ranking
misses. May not look at any clock or budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tuner.core.protocols import Observation, Searcher
from tuner.core.types import Proposal
from tuner.cost_models.calibration import LARGEST_CUT
from tuner.search.surrogate_search import SurrogateSearcher
from tuner.spaces.space import Space

__all__ = ["RANKED", "WATCHED", "PooledSearcher"]

RANKED = "ranked"
"""What a proposal's note says of how it was made: taken from the top of the model's ranking."""

WATCHED = "watched"
"""The same: drawn evenly, to see what the ranking misses. Its note has its place and the cut."""

_WATCH = 0.1
_OWN = 4


class PooledSearcher:
    """A :class:`tuner.core.protocols.Searcher` around another one, for spaces without pipelines.

    Args:
        inner: proposes until the model has shown that it can rank, every fourth time from then on, and again where it
            no longer can.
        space: what is searched.
    """

    def __init__(self, inner: Searcher, space: Space) -> None:
        self.name = inner.name
        self._inner = inner
        self._model = SurrogateSearcher(space, name=inner.name, origin=f"{inner.name}/{RANKED}")
        self._asked = 0

    def warm_start(self, observations: Sequence[Observation]) -> None:
        """Lets the model learn from a run elsewhere; before anything else."""
        self._model.warm_start(observations)

    def ask(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        """At most ``count`` proposals; an empty list means that the space is exhausted."""
        made: list[Proposal] = []
        cut = self._model.cut()
        while len(made) < count:
            fresh = self._next(cut, rng)
            if not fresh:
                break
            self._asked += len(fresh)
            made += fresh
        return made

    def adopt(self, proposals: Sequence[Proposal]) -> None:
        """Takes proposals from a record as its own."""
        self._asked += len(proposals)
        self._inner.adopt(proposals)
        self._model.adopt(proposals)

    def tell(self, observations: Sequence[Observation]) -> None:
        """Learns what became of trials."""
        self._inner.tell(observations)
        self._model.tell(observations)

    def _next(self, cut: float, rng: np.random.Generator) -> list[Proposal]:
        trusted = cut <= LARGEST_CUT
        if trusted and rng.random() < _WATCH:
            found = self._watched(cut, rng)
        elif trusted and self._asked % _OWN:
            found = [self._noted(p, cut) for p in self._model.ask(1, rng)]
        else:
            found = self._inner.ask(1, rng)
            self._model.adopt(found)
            return found
        self._inner.adopt(found)
        return found

    def _noted(self, proposal: Proposal, cut: float) -> Proposal:
        return replace(proposal, note={**proposal.note, "how": RANKED, "cut": cut})

    def _watched(self, cut: float, rng: np.random.Generator) -> list[Proposal]:
        made = [
            replace(p, note={"how": WATCHED, "place": self._model.place(p.configuration), "cut": cut})
            for p in self._model.drawn(1, rng)
        ]
        self._model.adopt(made)
        return made
