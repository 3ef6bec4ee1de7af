"""A searcher that moves, with a model beside it that ranks the whole space (or a large sample) for most proposals.

A filter can only choose among what the searcher happens to propose; a model of configurations ranks thousands of them
in a few milliseconds. It has to be worth it: its proposals have to come out better than ones drawn evenly did, else
it proposes next to nothing. One in ten is drawn evenly all along, and shows what the ranking misses. Nothing is ruled
out: what is ranked low today may be tried tomorrow. May not look at any clock or budget.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tuner.core.protocols import Observation, Searcher
from tuner.core.types import Proposal
from tuner.search.history import FAILURES
from tuner.spaces.space import Space

__all__ = ["RANKED", "WATCHED", "PooledSearcher", "Worth"]

RANKED = "ranked"
"""What a proposal's note says of how it was made: taken from the top of the model's ranking."""

WATCHED = "watched"
"""The same: drawn evenly, to see what the ranking misses."""

_BEFORE = 10
_JUDGED = 8
_WATCH = 0.1
_PART = 8
_SURE = 1.645


class Worth:
    """Whether the model's proposals come out better than even draws: both are known only after they were made.

    A rank test (Mann and Whitney, Annals of Mathematical Statistics 18(1), 1947), one-sided at 5%; failures are worse
    than anything that worked.

    Args:
        turns: of which the model gets all but one where it is worth it, and one where it is not.
    """

    def __init__(self, turns: int = _PART) -> None:
        self._turns = turns
        self._even: list[float] = []
        self._ranked: list[float] = []

    def tell(self, how: object, score: float | None) -> None:
        """One more result: of ``ranked``, of ``watched``, or of what came before the first ``ranked``."""
        value = math.inf if score is None else score
        if how == RANKED:
            self._ranked.append(value)
        elif how == WATCHED or not self._ranked:
            insort(self._even, value)

    @property
    def part(self) -> float:
        """Which part of the proposals the model may make: a half until eight of its proposals are known."""
        if len(self._ranked) < _JUDGED:
            return 1 / 2
        return 1 - 1 / self._turns if self.deviations >= _SURE else 1 / self._turns

    @property
    def deviations(self) -> float:
        """By how many standard deviations the model's proposals rank better than even draws; 0 without any."""
        ranked, even = len(self._ranked), len(self._even)
        if not ranked or not even:
            return 0.0
        below = sum(bisect_left(self._even, v) + bisect_right(self._even, v) for v in self._ranked) / 2
        return (ranked * even / 2 - below) / math.sqrt(ranked * even * (ranked + even + 1) / 12)


class PooledSearcher:
    """A :class:`tuner.core.protocols.Searcher` around another one, for spaces without pipelines.

    Args:
        inner: makes the first proposals, half of those until the model is judged, and from then on one in ``turns``,
            or all but one where the model is not worth it.
        space: what is searched.
        before: results that have to be known before the model proposes anything.
        turns: of :class:`Worth`.
    """

    def __init__(self, inner: Searcher, space: Space, *, before: int = _BEFORE, turns: int = _PART) -> None:
        # Brings linear algebra, which whoever only reads what was ranked can do without.
        from tuner.search.surrogate_search import SurrogateSearcher

        self.name = inner.name
        self.worth = Worth(turns)
        self._before, self._turns = before, turns
        self._inner = inner
        self._model = SurrogateSearcher(space, name=inner.name, origin=f"{inner.name}/{RANKED}")
        self._asked = 0
        self._known = 0

    def ask(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        """At most ``count`` proposals; an empty list means that the space is exhausted."""
        made: list[Proposal] = []
        while len(made) < count:
            fresh = self._next(rng)
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
        for one in observations:
            if one.score is not None or one.status in FAILURES:
                self._known += 1
                self.worth.tell(one.proposal.note.get("how"), one.score)

    def _next(self, rng: np.random.Generator) -> list[Proposal]:
        turn = (self._asked % self._turns + 0.5) / self._turns
        if self._known < self._before or turn > self.worth.part:
            found = self._inner.ask(1, rng)
            self._model.adopt(found)
            return found
        if rng.random() < _WATCH:
            found = [replace(p, note={"how": WATCHED}) for p in self._model.drawn(1, rng)]
            self._model.adopt(found)
        else:
            found = [replace(p, note={**p.note, "how": RANKED}) for p in self._model.ask(1, rng)]
        self._inner.adopt(found)
        return found
