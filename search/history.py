"""What a searcher was told and still waits for. May not draw random numbers or propose anything."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence

from tuner.core.protocols import Observation, configuration_key
from tuner.core.types import Configuration, Proposal, Status
from tuner.search.domain import Domain, Point

__all__ = ["FAILURES", "History", "Key"]

Key = tuple[tuple[str, object], ...]
"""What :func:`tuner.core.protocols.configuration_key` makes."""

FAILURES = (
    Status.BUILD_ERROR,
    Status.WRONG_RESULT,
    Status.CRASHED,
    Status.TIMED_OUT,
    Status.OUT_OF_RESOURCES,
    Status.REFUSED,
)
"""Statuses that say something bad about the configuration itself.

``pruned`` says only what a cost model thought, ``lost`` and ``abandoned`` say nothing.
"""


class History:
    """Proposals and observations of one search, in the order of the calls.

    Args:
        domain: of the space; configurations of other spaces are noted but not placed.

    Attributes:
        seen: keys of everything that was ever proposed or told.
        pending: proposals not yet told, by key, oldest first.
        scored: observations with a score, in the order told.
        failed: observations whose status is one of :data:`FAILURES`, in the order told.
        placed: ``scored`` and ``failed`` together with their points, in the order told.
        best: the observation with the lowest score (the lowest trial among equals) among those whose configuration
            may be proposed in this space, or ``None``.
    """

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self.seen: set[Key] = set()
        self.pending: dict[Key, Proposal] = {}
        self.scored: list[Observation] = []
        self.failed: list[Observation] = []
        self.placed: list[tuple[Observation, Point]] = []
        self.best: Observation | None = None

    def propose(self, proposals: Iterable[Proposal]) -> None:
        """Notes proposals that are on their way."""
        for proposal in proposals:
            key = configuration_key(proposal.configuration)
            self.seen.add(key)
            self.pending[key] = proposal

    def tell(self, observations: Sequence[Observation]) -> None:
        """Notes what became of trials, in the order given."""
        for observation in observations:
            key = configuration_key(observation.proposal.configuration)
            self.seen.add(key)
            self.pending.pop(key, None)
            if observation.score is not None:
                self.scored.append(observation)
                better = self.best is None or _rank(observation) < _rank(self.best)
                if better and self._domain.accepts(observation.proposal.configuration):
                    self.best = observation
            elif observation.status in FAILURES:
                self.failed.append(observation)
            else:
                continue
            point = self._domain.point(observation.proposal.configuration)
            if point is not None:
                self.placed.append((observation, point))

    def believe(self, observations: Sequence[Observation]) -> None:
        """Notes what models may learn from trials elsewhere; such configurations are not taken to be tried here."""
        for observation in observations:
            point = self._domain.point(observation.proposal.configuration)
            if point is not None and observation.score is not None:
                self.placed.append((observation, point))

    def knows(self, configuration: Configuration) -> bool:
        """Whether a configuration was proposed or told before."""
        return configuration_key(configuration) in self.seen

    def telling(self, most: int) -> list[int]:
        """Which of ``placed`` a model should learn from: all up to ``most``, else the best half and the latest."""
        total = len(self.placed)
        if total <= most:
            return list(range(total))
        keep = set(heapq.nsmallest(most // 2, range(total), key=lambda i: (_value(self.placed[i][0]), i)))
        for i in range(total - 1, -1, -1):
            if len(keep) >= most:
                break
            keep.add(i)
        return sorted(keep)

    def elite(self, count: int) -> list[Point]:
        """At most ``count`` distinct points of the best scores, best first."""
        best = heapq.nsmallest(
            4 * count, (pair for pair in self.placed if pair[0].score is not None), key=lambda p: _rank(p[0])
        )
        return list(dict.fromkeys(point for _, point in best))[:count]


def _value(observation: Observation) -> float:
    return math.inf if observation.score is None else observation.score


def _rank(observation: Observation) -> tuple[float, int]:
    return (_value(observation), observation.trial)
