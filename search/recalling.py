"""A searcher that tries what was best for earlier runs of similar kernels beside its own proposals, while that pays.

What was best elsewhere may be far off here, and a short search cannot afford many such tries. So the first proposal is
the searcher's own, each try waits for the one before, and the first of a source that disappoints is the last of that
source. May not know what the sources are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

import numpy as np

from tuner.core.protocols import Observation, Searcher, configuration_key
from tuner.core.types import Configuration, Proposal
from tuner.search.history import FAILURES

__all__ = ["ORIGIN", "SOURCE", "RecallingSearcher"]

ORIGIN = "library"
"""Of proposals that earlier runs found."""

SOURCE = "source"
"""In such a proposal's note: the number of the earlier run that it is of."""

_ON_TRIAL = 2

_BASELINE = 0.0
"""Its score, to which all scores are relative."""


class RecallingSearcher:
    """A :class:`tuner.core.protocols.Searcher` around another one.

    Args:
        inner: makes all other proposals, and every other one while there is something to try.
        first: configurations to try, best first, valid in the space.
        sources: which earlier run each is of; one and the same where left out.
    """

    def __init__(
        self, inner: Searcher, first: Sequence[Configuration], sources: Sequence[int] | None = None
    ) -> None:
        self.name = inner.name
        self._inner = inner
        self._waiting = list(first)
        numbers = [0] * len(first) if sources is None else sources
        self._source = {configuration_key(c): n for c, n in zip(first, numbers, strict=True)}
        self._running: set[object] = set()
        self._own = 0
        self._known: list[float] = []
        self._tried: Counter[int] = Counter()

    def ask(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        """At most ``count`` proposals; an empty list means that the space is exhausted."""
        made: list[Proposal] = []
        if count > 0 and self._may_try():
            made = [Proposal(configuration=dict(self._waiting[0]), origin=ORIGIN)]
            self._note(made)
            self._inner.adopt(made)
        fresh = self._inner.ask(count - len(made), rng) if count > len(made) else []
        self._note(fresh)
        return made + fresh

    def adopt(self, proposals: Sequence[Proposal]) -> None:
        """Takes proposals from a record as its own."""
        self._note(proposals)
        self._inner.adopt(proposals)

    def tell(self, observations: Sequence[Observation]) -> None:
        """Learns what became of trials."""
        for one in observations:
            key = configuration_key(one.proposal.configuration)
            tried = key in self._running
            self._running.discard(key)
            self._waiting = [c for c in self._waiting if configuration_key(c) != key]
            if one.score is None and one.status not in FAILURES:
                continue
            score = math.inf if one.score is None else one.score
            if tried:
                source = self._source.get(key, 0)
                self._tried[source] += 1
                # What was best elsewhere and is no better than the baseline here says nothing of this kernel.
                own = median(self._known) if self._tried[source] <= _ON_TRIAL else min(self._known)
                bar = min(own, _BASELINE)
                if score >= bar:
                    self._waiting = [c for c in self._waiting if self._source[configuration_key(c)] != source]
            self._known.append(score)
        self._inner.tell(observations)

    def _may_try(self) -> bool:
        """Whether it is an earlier run's turn: the last try is known and the searcher has proposed since."""
        return bool(self._waiting) and not self._running and self._own > 0 and bool(self._known)

    def _note(self, proposals: Sequence[Proposal]) -> None:
        for proposal in proposals:
            key = configuration_key(proposal.configuration)
            # The searcher may come upon one of them by itself.
            self._waiting = [c for c in self._waiting if configuration_key(c) != key]
            if proposal.origin == ORIGIN:
                self._own = 0
                self._running.add(key)
            else:
                self._own += 1
