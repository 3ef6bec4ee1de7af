"""What trials of the same kernel elsewhere (another card, another size) say about the points of a space.

One number for each point: the source's logarithm of time, measured where it was measured, from a Gaussian process
elsewhere. The target's model is then of what remains beside a multiple of it (Kennedy and O'Hagan, Biometrika 87(1),
2000), and the multiple is learnt. A source that misleads is told by the odds of the target's times with it and without
it (:meth:`Source.odds`). May not hold a source's times to be the target's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.core.protocols import Observation
from tuner.search.domain import Domain, Point
from tuner.search.features import Features
from tuner.search.gaussian import Hyper, Posterior, covariance, fit
from tuner.search.linear import solve_lower

__all__ = ["REMAINS", "Source", "Sources", "squeezed"]

Floats = NDArray[np.float64]

_TRAINED = 256
_FITTED = 160
_BLOCK = 1024
_TRUST = 0.5
_LEVEL = 10.0
_DOUBT = -2.0
REMAINS = 0.25
"""Variance that is expected of what remains beside a source, in units of the source's own."""


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

    def odds(
        self, columns: Floats, groups: NDArray[np.intp], points: NDArray[np.int64], scores: Floats
    ) -> float:
        """Logarithm of how much likelier the target's times are with the source than without, their level unknown.

        With it they are a multiple near one of what it says and a remainder of a quarter of its variance, without it a
        function of all of that; both vary along the axes on which the source does. Arguments as of
        :meth:`Sources.credible`.
        """
        given, targets = self.expected(points), squeezed(scores) / self.unit
        width, level = self._features.width, _LEVEL * np.ones((len(targets), len(targets)))
        beside = covariance(Hyper.prior(width, REMAINS, self.scales), groups, columns) + level
        alone = covariance(Hyper.prior(width, 1.0, self.scales), groups, columns) + level
        multiple = _TRUST**2 * np.outer(given, given)
        return _density(targets - given, beside + multiple) - _density(targets, alone)

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

    def credible(
        self, columns: Floats, groups: NDArray[np.intp], points: NDArray[np.int64], scores: Floats
    ) -> Sources:
        """Those that the target's times so far do not speak against, each by itself.

        Args:
            columns: of the observations, ``[n, columns]``.
            groups: of the columns.
            points: the observations, ``[n, axes]``.
            scores: their logarithms of time, ``[n]``.
        """
        return Sources(tuple(s for s in self.each if s.odds(columns, groups, points, scores) > _DOUBT))


def _density(values: Floats, spread: Floats) -> float:
    """Logarithm of a normal density of mean zero, without its constant."""
    lower = np.linalg.cholesky(spread)
    half = solve_lower(lower, values)
    return float(-0.5 * half @ half - np.log(np.diag(lower)).sum())


def squeezed(scores: Floats) -> Floats:
    """Logarithms of time, those above the median compressed: how bad the bad ones are says nothing of the good."""
    median = float(np.median(scores)) if len(scores) else 0.0
    return np.minimum(scores, median) + np.log1p(np.maximum(scores - median, 0.0))
