"""The pass-sequence evolution as a searcher: pipelines for the best parameters and flags known so far.

It starts from the baseline's parameters and moves on to better ones only when others' trials show them. May not
change parameters or flags by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.core.errors import UsageError
from tuner.core.protocols import Observation
from tuner.core.types import Proposal
from tuner.search.base import SearcherBase
from tuner.search.pass_arm import PassArm
from tuner.search.pass_memory import PassMemory
from tuner.spaces.space import Space

__all__ = ["PassSearcher", "make"]

_MISSES = 8
"""An empty answer ends a run: the arm must have come up with nothing new this often."""


class PassSearcher(SearcherBase):
    """Evolves pipelines.

    Args:
        space: must have passes.

    Raises:
        UsageError: passes are off in this space.
    """

    name = "passes"

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        if self.domain.passes is None:
            raise UsageError(
                "the space has no passes to search", "set `passes` in the spec, or take another strategy"
            )
        self._memory = PassMemory(self.domain)
        self._arm = PassArm(self.domain.passes, self._memory)

    def tell(self, observations: Sequence[Observation]) -> None:
        """Learns what became of trials, its own or others'."""
        super().tell(observations)
        for observation in observations:
            self._memory.tell(observation)

    def _propose(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        best = self.history.best
        found = None if best is None else self.domain.point(best.proposal.configuration)
        point = self.domain.start if found is None else found
        without = set(self.pool.pipelines(point))
        proposals: list[Proposal] = []
        misses = 0
        while len(proposals) < count and misses < _MISSES:
            made = self._arm.suggest(rng, without=without)
            if made is None:
                misses += 1
                continue
            without.add(made.pipeline)
            proposals.append(
                Proposal(
                    configuration=self.domain.configuration(point, made.pipeline),
                    origin=self.name,
                    parent=made.parent,
                    note={"operator": made.operator, "added": list(made.added)},
                )
            )
        return proposals


def make(space: Space) -> PassSearcher:
    """The factory behind the name ``passes``."""
    return PassSearcher(space)
