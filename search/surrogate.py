"""A small Gaussian process over points and their pipelines, with the chance of failing beside it.

Made for a few hundred observations and asks of a few milliseconds. May not choose what to try: it only scores.

The kernel is half the mean and half the product of one exponential for each axis, exp(-w d), with d from 0 to 1 on
ordered axes and 0 or 1 on others; the pipeline is one more unordered axis. Rates w and the noise are chosen from
short grids by marginal likelihood (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, 5.4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.search.linear import normal_below, solve_lower, solve_positive
from tuner.search.nearness import axis_distances, best_rates, chance, failure_rates

__all__ = ["Data", "Hyper", "Model", "fit_hyper", "standardise"]

Floats = NDArray[np.float64]

_RATES = (0.03, 0.3, 1.0, 3.0)
_NOISES = (1e-4, 1e-2, 1e-1)
_JITTER = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyper:
    """What is fitted, by axis (the pipeline's last).

    Attributes:
        rates: of the scores' kernel.
        noise: variance of standardised scores.
        failing: rates of the failures' kernel.
    """

    rates: Floats
    noise: float
    failing: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Observations as arrays.

    Attributes:
        points: positions divided by the axis' range, the pipeline's number last; ``[n, axes + 1]``.
        ordered: which columns are ordered.
        scores: log of relative time; NaN for failures.
        rough: which scores come from few samples.
    """

    points: Floats
    ordered: NDArray[np.bool_]
    scores: Floats
    rough: NDArray[np.bool_]

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Which observations have a score."""
        return ~np.isnan(self.scores)


def fit_hyper(data: Data) -> Hyper:
    """Rates and noise of the highest marginal likelihood, by one pass of coordinate search."""
    scored = data.scored
    points, rough = data.points[scored], data.rough[scored]
    failing = failure_rates(data.points, data.ordered, ~scored)
    rates, noise = np.ones(points.shape[1]), _NOISES[1]
    if len(points) < 4:
        return Hyper(rates=rates, noise=noise, failing=failing)
    standard = standardise(data.scores[scored])
    apart = axis_distances(points, points, data.ordered)
    rates, best = best_rates(
        apart, rates, _RATES, lambda tried: _likelihood(apart, standard, rough, tried, _NOISES[1])
    )
    for choice in _NOISES:
        value = _likelihood(apart, standard, rough, rates, choice)
        if value > best + 1e-9:
            best, noise = value, choice
    return Hyper(rates=rates, noise=noise, failing=failing)


class Model:
    """The posterior given data; :meth:`believe` adds points whose results are still unknown.

    Args:
        data: with at least one score.
        hyper: from :func:`fit_hyper`.
    """

    def __init__(self, data: Data, hyper: Hyper) -> None:
        self._data, self._hyper = data, hyper
        scored = data.scored
        self._points = data.points[scored]
        self._targets = standardise(data.scores[scored])
        self._noise = np.where(data.rough[scored], 10.0 * hyper.noise + 0.05, hyper.noise)
        self._best = float(self._targets.min())
        self._factor()

    def believe(self, points: Floats) -> None:
        """Takes pending points as if they had come out at the posterior mean, so that others are tried instead."""
        if not len(points):
            return
        mean, _ = self.predict(points)
        self._points = np.vstack([self._points, points])
        self._targets = np.concatenate([self._targets, mean])
        self._noise = np.concatenate([self._noise, np.full(len(points), self._hyper.noise)])
        self._factor()

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation in standardised units."""
        cross = _kernel(axis_distances(points, self._points, self._data.ordered), self._hyper.rates)
        mean = cross @ self._weights
        half = solve_lower(self._lower, cross.T)
        variance = np.maximum(1.0 + _JITTER - np.einsum("ij,ij->j", half, half), 1e-10)
        return mean, np.sqrt(variance)

    def acquisition(self, points: Floats) -> Floats:
        """Expected improvement over the best score, times the chance of not failing; in standardised units."""
        mean, deviation = self.predict(points)
        gap = (self._best - mean) / deviation
        density = np.exp(-0.5 * gap * gap) / np.sqrt(2.0 * np.pi)
        improvement = deviation * (gap * normal_below(gap) + density)
        return np.asarray(np.maximum(improvement, 0.0) * self._chance(points), dtype=np.float64)

    def _chance(self, points: Floats) -> Floats:
        failed = ~self._data.scored
        if not failed.any():
            return np.ones(len(points))
        apart = axis_distances(points, self._data.points, self._data.ordered)
        return chance(apart, failed, self._hyper.failing)

    def _factor(self) -> None:
        kernel = _kernel(axis_distances(self._points, self._points, self._data.ordered), self._hyper.rates)
        kernel[np.diag_indices_from(kernel)] += self._noise + _JITTER
        self._lower = np.linalg.cholesky(kernel)
        self._weights = solve_positive(self._lower, self._targets)


def standardise(scores: Floats) -> Floats:
    """Scores with mean 0 and deviation 1, those above the median compressed."""
    # How bad the bad ones are must not drown what tells the good ones apart.
    median = float(np.median(scores))
    over = np.maximum(scores - median, 0.0)
    squeezed = np.minimum(scores, median) + np.log1p(over)
    width = float(squeezed.std())
    return np.asarray((squeezed - squeezed.mean()) / (width if width > 1e-9 else 1.0))


def _kernel(apart: Floats, rates: Floats) -> Floats:
    each = np.exp(apart * -rates[:, None, None])
    return np.asarray(0.5 * each.mean(axis=0) + 0.5 * each.prod(axis=0))


def _likelihood(
    apart: Floats, targets: Floats, rough: NDArray[np.bool_], rates: Floats, noise: float
) -> float:
    kernel = _kernel(apart, rates)
    kernel[np.diag_indices_from(kernel)] += np.where(rough, 10.0 * noise + 0.05, noise) + _JITTER
    lower = np.linalg.cholesky(kernel)
    half = solve_lower(lower, targets)
    # A weak pull towards rates of one keeps axes that were hardly varied from being called irrelevant.
    prior = -0.05 * float(np.sum(np.log(rates) ** 2))
    return float(-0.5 * half @ half - np.log(np.diag(lower)).sum() + prior)
