"""What trials of the same kernel elsewhere (another card, another size) say about the points of a space.

A Gaussian process over the source's ranks gives one number for each point. It becomes a column of the target's model,
so that a source which misleads is found irrelevant like any other column. May not hold a source's times to be the
target's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.core.protocols import Observation
from tuner.search.domain import Domain, Point
from tuner.search.features import Features
from tuner.search.gaussian import Hyper, Posterior, fit, normal_scores

__all__ = ["Source"]

Floats = NDArray[np.float64]

_TRAINED = 256
_FITTED = 160
_BLOCK = 1024
_REACH = 4.0


class Source:
    """One earlier run.

    Args:
        domain: of the target's space.
        observations: of the source, those that do not fit the space left out.

    Attributes:
        best: the source's points, best first.
    """

    def __init__(self, domain: Domain, observations: Sequence[Observation]) -> None:
        self._domain = domain
        self._features = Features(domain)
        placed = [
            (o.score, point)
            for o in observations
            if o.score is not None and (point := domain.point(o.proposal.configuration)) is not None
        ]
        ranked = sorted(placed, key=lambda pair: pair[0])
        self.best: list[Point] = list(dict.fromkeys(point for _, point in ranked))
        # The better half whole and the rest thinned: what matters is where the good ones are.
        half = min(len(ranked), _TRAINED // 2)
        rest = ranked[half:]
        step = max(1, -(-len(rest) // (_TRAINED - half)))
        self._used = ranked[:half] + rest[::step]
        self._known: Floats | None = None
        self._posterior: Posterior | None = None

    @property
    def usable(self) -> bool:
        """Whether there is enough to learn from."""
        return len(self._used) >= 4 and self._features.width > 0

    def column(self, points: NDArray[np.int64]) -> Floats:
        """What the source expects of points ``[n, axes]``: 0 for its best, 1 for its worst."""
        rows = self._domain.rows
        if rows is None or len(points) != len(rows):
            return self._predict(points)
        if self._known is None:
            self._known = self._predict(points)
        return self._known

    def _predict(self, points: NDArray[np.int64]) -> Floats:
        targets = normal_scores(np.array([score for score, _ in self._used]))
        if self._posterior is None:
            self._posterior = self._fitted(targets)
        made = [
            self._posterior.predict_at(self._features.encode(points[i : i + _BLOCK]), targets)[0]
            for i in range(0, len(points), _BLOCK)
        ]
        means = np.concatenate(made) if made else np.zeros(0)
        return np.asarray(np.clip(0.5 + means / _REACH, -0.5, 1.5))

    def _fitted(self, targets: Floats) -> Posterior:
        columns = self._features.encode(self._domain.array(point for _, point in self._used))
        rough = np.zeros(len(columns), dtype=bool)
        some = np.linspace(0, len(columns) - 1, min(len(columns), _FITTED)).astype(int)
        start = Hyper.prior(self._features.width)
        hyper = fit(columns[some], self._features.groups, targets[some], rough[some], start)
        made = Posterior(hyper, self._features.groups, columns[:1], len(columns))
        made.begin(columns, rough)
        return made
