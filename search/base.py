"""The template of every searcher: what ``ask`` changes is exactly what ``adopt`` changes.

``_propose`` may read the state and draw from ``rng`` but may not change anything that a later call depends on, so
that a replay, which calls ``adopt`` in its place, ends in the same state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from tuner.core.protocols import Observation
from tuner.core.types import Proposal
from tuner.search.domain import Domain
from tuner.search.history import History
from tuner.search.pool import Pool
from tuner.spaces.space import Space

__all__ = ["SearcherBase"]


class SearcherBase(ABC):
    """Keeps the history and turns ``_propose`` into the protocol's ``ask``, ``adopt`` and ``tell``.

    Args:
        space: what is searched.
    """

    name = "base"
    cheap = False
    """Whether it draws without a model, so that many more proposals than will be tried cost next to nothing."""

    moves = False
    """Whether it moves from good configurations to others by no model of its own: one may rank the space beside it."""

    def __init__(self, space: Space) -> None:
        self.domain = Domain(space)
        self.history = History(self.domain)
        self.pool = Pool(self.domain)

    def ask(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        """At most ``count`` new proposals; an empty list when nothing is left to propose."""
        proposals = self._propose(count, rng) if count > 0 else []
        self.adopt(proposals)
        return proposals

    def adopt(self, proposals: Sequence[Proposal]) -> None:
        """Takes proposals from a record as its own."""
        self.history.propose(proposals)
        for proposal in proposals:
            self.pool.note(proposal.configuration)

    def tell(self, observations: Sequence[Observation]) -> None:
        """Learns what became of trials, its own or others'."""
        self.history.tell(observations)
        for observation in observations:
            self.pool.note(observation.proposal.configuration)

    @property
    def incumbent_pipeline(self) -> str | None:
        """The pipeline of the best trial so far, else the base; ``None`` where the space has no passes."""
        if self.domain.passes is None:
            return None
        best = self.history.best
        pipeline = None if best is None else best.proposal.configuration.get("passes")
        return pipeline if isinstance(pipeline, str) else self.domain.base

    @abstractmethod
    def _propose(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        """At most ``count`` proposals, all different and none seen before; changes nothing."""
