"""The chance that a candidate works, from what failed near it, kept up to date for fixed candidates.

A kernel average over positions (:mod:`tuner.search.nearness`) whose sums grow by one term with each observation. May
not rank by score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tuner.search.nearness import axis_distances, failure_rates

__all__ = ["Feasibility"]

Floats = NDArray[np.float64]

_WEIGHT = 0.5


class Feasibility:
    """Chances at fixed candidates.

    Args:
        known: positions from 0 to 1 of the observations so far, ``[n, axes]``.
        failed: which of them failed.
        ordered: which axes are ordered.
        candidates: positions of the candidates, ``[m, axes]``.
    """

    def __init__(
        self, known: Floats, failed: NDArray[np.bool_], ordered: NDArray[np.bool_], candidates: Floats
    ) -> None:
        self._ordered = ordered
        self._rates = failure_rates(known, ordered, failed)
        self._known: list[Floats] = []
        self._failed: list[bool] = []
        self._candidates = candidates
        self._total: NDArray[np.float32] | None = None
        self._bad: NDArray[np.float32] | None = None
        for row, bad in zip(known, failed, strict=True):
            self.add(row, bool(bad))

    def add(self, position: Floats, failed: bool) -> None:
        """One more observation."""
        self._known.append(position)
        self._failed.append(failed)
        if self._total is None or self._bad is None:
            # Most spaces never fail: nothing is summed until something does.
            if failed:
                self._total = np.zeros(len(self._candidates), dtype=np.float32)
                self._bad = np.zeros(len(self._candidates), dtype=np.float32)
                for earlier, bad in zip(self._known, self._failed, strict=True):
                    self._count(earlier, bad)
        else:
            self._count(position, failed)

    def chances(self) -> Floats | None:
        """At the candidates; ``None`` while nothing has failed."""
        if self._total is None or self._bad is None:
            return None
        return self._share(self._total.astype(np.float64), self._bad.astype(np.float64))

    def chances_at(self, positions: Floats) -> Floats | None:
        """At other positions ``[n, axes]``; ``None`` while nothing has failed."""
        if self._total is None:
            return None
        apart = axis_distances(positions, np.array(self._known), self._ordered)
        weights = np.exp(-np.tensordot(self._rates, apart, axes=1))
        return self._share(weights.sum(axis=1), weights @ np.array(self._failed))

    def _share(self, total: Floats, bad: Floats) -> Floats:
        prior = (sum(self._failed) + 1.0) / (len(self._failed) + 4.0)
        return np.asarray(1.0 - (bad + _WEIGHT * prior) / (total + _WEIGHT))

    def _count(self, position: Floats, failed: bool) -> None:
        assert self._total is not None
        assert self._bad is not None
        far = np.zeros(len(self._candidates), dtype=np.float32)
        for axis, rate in enumerate(self._rates):
            apart = np.abs(self._candidates[:, axis] - position[axis])
            far += np.float32(rate) * (apart if self._ordered[axis] else apart > 1e-9)
        near = np.exp(-far)
        self._total += near
        if failed:
            self._bad += near
