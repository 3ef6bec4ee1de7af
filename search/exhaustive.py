"""Every valid combination of parameters and flags once, in a fixed order. May not draw random numbers."""

from __future__ import annotations

import numpy as np

from tuner.core.errors import UsageError
from tuner.core.types import Proposal
from tuner.search.base import SearcherBase
from tuner.spaces.space import Space

__all__ = ["ExhaustiveSearcher", "make"]


class ExhaustiveSearcher(SearcherBase):
    """Lists the space: the default first where it is valid, then the listing's order; passes stay at the base.

    Raises:
        UsageError: the valid set is too large to list.
    """

    name = "exhaustive"

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        rows = self.domain.rows
        if rows is None:
            raise UsageError(
                "the space is too large to be searched exhaustively",
                "take another strategy, for example auto",
            )
        self._rows = rows
        self._pipeline = self.domain.base if self.domain.passes is not None else None
        self._start = 0

    def _propose(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        del rng
        proposals: list[Proposal] = []
        default = self.domain.default
        if not self.pool.tried(default, self._pipeline) and self.domain.row(default) is not None:
            proposals.append(self._proposal(default))
        at = self._first_untried()
        while at < len(self._rows) and len(proposals) < count:
            point = tuple(self._rows[at].tolist())
            if not self.pool.tried(point, self._pipeline) and point != default:
                proposals.append(self._proposal(point))
            at += 1
        return proposals

    def _first_untried(self) -> int:
        # Only a cache: everything before it has been tried, whoever proposed it.
        while self._start < len(self._rows):
            if not self.pool.tried(tuple(self._rows[self._start].tolist()), self._pipeline):
                break
            self._start += 1
        return self._start

    def _proposal(self, point: tuple[int, ...]) -> Proposal:
        return Proposal(configuration=self.domain.configuration(point, self._pipeline), origin=self.name)


def make(space: Space) -> ExhaustiveSearcher:
    """The factory behind the name ``exhaustive``."""
    return ExhaustiveSearcher(space)
