"""What trials of the same kernel elsewhere (another card, another size) say about the points of a space.

One number for each point: the source's logarithm of time, measured where it was measured, from a Gaussian process
elsewhere. The target's model is then of what remains beside a multiple of it (Kennedy and O'Hagan, Biometrika 87(1),
2000), and the multiple is learnt, so that a source that misleads is left behind. May not hold a source's times to be
the target's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.core.protocols import Observation
from tuner.search.domain import Domain, Point
from tuner.search.features import Features
from tuner.search.gaussian import Hyper, Posterior, fit

__all__ = ["Source", "Sources", "squeezed"]

Floats = NDArray[np.float64]

_TRAINED = 256
_FITTED = 160
_BLOCK = 1024
_TRUST = 0.5


class Source:
    """One earlier run.

    Args:
        domain: of the target's space.
        observations: of the source, those that do not fit the space left out.

    Attributes:
        best: the source's points, best first.
        unit: deviation of the source's squeezed scores, in which all is counted.
    """

    def __init__(self, domain: Domain, observations: Sequence[Observation]) -> None:
        self._domain = domain
        self._features = Features(domain)
        lowest: dict[Point, float] = {}
        for o in observations:
            point = domain.point(o.proposal.configuration)
            if o.score is not None and point is not None:
                lowest[point] = min(o.score, lowest.get(point, np.inf))
        self.best: list[Point] = sorted(lowest, key=lambda p: lowest[p])
        scores = squeezed(np.array([lowest[p] for p in self.best]))
        self.unit = float(scores.std()) if len(scores) > 1 and scores.std() > 1e-9 else 1.0
        middle = float(np.median(scores)) if len(scores) else 0.0
        self._scores = dict(zip(self.best, ((scores - middle) / self.unit).tolist(), strict=True))
        self._known: Floats | None = None
        self._model: tuple[Hyper, Posterior, Floats] | None = None

    @property
    def usable(self) -> bool:
        """Whether there is enough to learn from."""
        return len(self.best) >= 4 and self._features.width > 0

    def expected(self, points: NDArray[np.int64]) -> Floats:
        """What the source says of points ``[n, axes]``: logarithms of time in units of :attr:`unit`."""
        rows = self._domain.rows
        if rows is None or len(points) != len(rows):
            return self._expect(points)
        if self._known is None:
            self._known = self._expect(points)
        return self._known

    def _expect(self, points: NDArray[np.int64]) -> Floats:
        measured = np.array([self._scores.get(tuple(p), np.nan) for p in points.tolist()], dtype=np.float64)
        missing = np.isnan(measured)
        if missing.any():
            measured[missing] = self._predict(points[missing])
        return measured

    @property
    def scales(self) -> Floats:
        """Logarithms of the length scales of the source's own times, ``[width]``."""
        return self._fitted()[0].scales

    def _predict(self, points: NDArray[np.int64]) -> Floats:
        _, posterior, targets = self._fitted()
        made = [
            posterior.predict_at(self._features.encode(points[i : i + _BLOCK]), targets)[0]
            for i in range(0, len(points), _BLOCK)
        ]
        return np.concatenate(made)

    def _fitted(self) -> tuple[Hyper, Posterior, Floats]:
        """The source's model: its fitted numbers, and the targets of its posterior; made once."""
        if self._model is not None:
            return self._model
        # The better half whole and the rest thinned: what matters is where the good ones are.
        half = min(len(self.best), _TRAINED // 2)
        rest = self.best[half:]
        used = self.best[:half] + rest[:: max(1, -(-len(rest) // (_TRAINED - half)))]
        targets = np.array([self._scores[p] for p in used])
        columns = self._features.encode(self._domain.array(used))
        rough = np.zeros(len(columns), dtype=bool)
        some = np.linspace(0, len(columns) - 1, min(len(columns), _FITTED)).astype(int)
        hyper = fit(
            columns[some],
            self._features.groups,
            targets[some],
            rough[some],
            Hyper.prior(self._features.width),
        )
        made = Posterior(hyper, self._features.groups, columns[:1], len(columns))
        made.begin(columns, rough)
        self._model = (hyper, made, targets)
        return self._model


@dataclass(frozen=True, slots=True)
class Sources:
    """All sources of a search; none of a cold one."""

    each: tuple[Source, ...] = ()

    @property
    def scales(self) -> Floats | None:
        """Logarithms of length scales to expect of what remains: those of the sources; ``None`` without any.

        On which axes a kernel is rugged is mostly the kernel's own: where cards differ, they differ along these.
        """
        if not self.each:
            return None
        return np.asarray(np.mean([source.scales for source in self.each], axis=0))

    def expected(self, points: NDArray[np.int64]) -> Floats:
        """``[n, sources]`` for points ``[n, axes]``."""
        if not self.each:
            return np.zeros((len(points), 0))
        return np.column_stack([source.expected(points) for source in self.each])

    def relative(self, scores: Floats) -> Floats:
        """Logarithms of the target's times as the sources count theirs."""
        return squeezed(scores) / float(np.mean([source.unit for source in self.each]))

    def multiples(self, posterior: Posterior, targets: Floats, given: Floats) -> Floats:
        """How much of each source there is in the target: all together once, until the target says otherwise.

        Args:
            posterior: that has the observations.
            targets: from :meth:`relative`, ``[n]``.
            given: from :meth:`expected` at the observations, ``[n, sources]``.
        """
        return posterior.coefficients(targets, given, 1.0 / len(self.each), _TRUST)


def squeezed(scores: Floats) -> Floats:
    """Logarithms of time, those above the median compressed: how bad the bad ones are says nothing of the good."""
    median = float(np.median(scores)) if len(scores) else 0.0
    return np.minimum(scores, median) + np.log1p(np.maximum(scores - median, 0.0))
