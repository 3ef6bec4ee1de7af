"""Gaussian process regression that scores a whole listed space again after each observation.

Matérn 5/2 with one length scale for each group of columns, fitted to the most probable values with analytic gradients
(Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, 5.4.1). :class:`Posterior` keeps one row of
inv(L) K(X, candidates) for each observation, so that one more costs candidates times observations and no new
factorisation. May not choose what to try: it only predicts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.search.linear import normal_below, normal_quantile, solve_lower

__all__ = ["Hyper", "Posterior", "covariance", "fit", "log_improvement", "normal_scores"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

_ROOT5 = np.sqrt(5.0)
_JITTER = 1e-4
_ROUGH = 10.0
_STEPS = 12
_NOISE = (-4.0, 1.5)
_BOUNDS = {"scale": (-4.0, 4.0), "noise": (-12.0, 0.0), "size": (-3.0, 3.0)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyper:
    """Fitted numbers.

    Attributes:
        theta: logarithms of the length scales, of the noise's variance and of the kernel's variance.
    """

    theta: Floats

    @classmethod
    def prior(cls, width: int, size: float = 1.0, scales: Floats | None = None) -> Hyper:
        """What is assumed of ``width`` groups before anything is known, and of the function's variance.

        ``scales`` are logarithms of length scales where more than that is known.
        """
        first = np.zeros(width) if scales is None else scales
        return cls(theta=np.concatenate([first, [_NOISE[0], math.log(size)]]))

    @property
    def scales(self) -> Floats:
        """Logarithms of the length scales."""
        return np.asarray(self.theta[:-2])

    @property
    def rates(self) -> Floats:
        """One over the length scales."""
        return np.asarray(np.exp(-self.theta[:-2]))

    @property
    def noise(self) -> float:
        """Variance of the noise."""
        return float(np.exp(self.theta[-2])) + _JITTER

    @property
    def size(self) -> float:
        """Variance of the function."""
        return float(np.exp(self.theta[-1]))


def covariance(hyper: Hyper, groups: NDArray[np.intp], columns: Floats) -> Floats:
    """Of observations at ``[n, columns]``, their noise included, ``[n, n]``."""
    scaled = columns * hyper.rates[groups]
    apart = ((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(axis=2)
    return np.asarray(hyper.size * _matern(apart) + hyper.noise * np.eye(len(columns)))


def normal_scores(scores: Floats) -> Floats:
    """Ranks as normal quantiles, 0 in the middle, the lowest score the lowest.

    How bad the bad ones are says nothing about the good ones, and a kernel's times span orders of magnitude.
    """
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return normal_quantile((ends - 0.5 * counts)[inverse] / len(scores))


def fit(
    columns: Floats,
    groups: NDArray[np.intp],
    targets: Floats,
    rough: NDArray[np.bool_],
    start: Hyper,
    *,
    expected: Floats | None = None,
) -> Hyper:
    """The most probable numbers, from ``start`` by a few steps of L-BFGS.

    Length scales have a log-normal prior around the range of an axis, so that few observations do not rule any out.

    Args:
        columns: ``[n, columns]``.
        groups: of the columns.
        targets: ``[n]``, mean 0 and variance about 1.
        rough: which targets come from few samples.
        start: where to begin: what was fitted to fewer observations.
        expected: logarithms of the length scales that the prior is around; of 1 each when left out.
    """
    squares = (columns.T[:, :, None] - columns.T[:, None, :]) ** 2
    width = len(start.theta) - 2
    apart = np.zeros((width, len(columns) ** 2))
    np.add.at(apart, groups, squares.reshape(len(groups), -1))
    bounds = [_BOUNDS["scale"]] * width + [_BOUNDS["noise"], _BOUNDS["size"]]
    weights = np.where(rough, _ROUGH, 1.0)
    centres = np.append(np.zeros(width) if expected is None else expected, [_NOISE[0], 0.0])
    # Half of what a search takes to import, and only a fit needs it.
    from scipy.optimize import minimize

    found = minimize(
        _objective,
        start.theta,
        args=(apart, targets, weights, centres),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": _STEPS},
    )
    theta = np.asarray(found.x, dtype=np.float64)
    return Hyper(theta=theta) if np.isfinite(found.fun) and np.isfinite(theta).all() else start


def _objective(
    theta: Floats, apart: Floats, targets: Floats, weights: Floats, centres: Floats
) -> tuple[float, Floats]:
    """Minus the log posterior and its gradient; the constant mean is taken at its best value."""
    from scipy.linalg import lapack

    count, width = len(targets), len(theta) - 2
    rates, noise, size = np.exp(-2.0 * theta[:width]), np.exp(theta[width]), np.exp(theta[width + 1])
    far = _ROOT5 * np.sqrt((rates @ apart).reshape(count, count))
    fading = np.exp(-far)
    kernel = (1.0 + far + far * far / 3.0) * fading
    covariance = size * kernel
    covariance[np.diag_indices(count)] += noise * weights + _JITTER
    lower, failed = lapack.dpotrf(covariance, lower=1)
    if failed:
        return 1e10, np.zeros_like(theta)
    inverse, _ = lapack.dpotri(lower, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    centred = targets - (inverse @ targets).sum() / inverse.sum()
    solved = inverse @ centred
    value = 0.5 * centred @ solved + np.log(np.diag(lower)).sum()
    pull = np.outer(solved, solved) - inverse
    slope = np.empty_like(theta)
    slope[:width] = -size * (5.0 / 6.0) * (apart @ (pull * (1.0 + far) * fading).ravel()) * rates
    slope[width] = -0.5 * noise * (np.diag(pull) @ weights)
    slope[width + 1] = -0.5 * size * (pull * kernel).sum()
    gaps = theta - centres
    gaps[width] /= _NOISE[1]
    value += 0.5 * float(gaps @ gaps)
    gaps[width] /= _NOISE[1]
    return float(value), slope + gaps


class Posterior:
    """Mean and deviation at fixed candidates, observation by observation.

    The same observations in the same order give the same bits, however they were split over calls: a replay depends
    on it.

    Args:
        hyper: the fitted numbers.
        groups: of the columns.
        candidates: ``[m, columns]``.
        room: how many observations there will be at most.
    """

    def __init__(self, hyper: Hyper, groups: NDArray[np.intp], candidates: Floats, room: int) -> None:
        self._rates = hyper.rates[groups]
        self._noise, self._size = hyper.noise, hyper.size
        self._scaled: Singles = (candidates * self._rates).astype(np.float32)
        self._lengths: Singles = np.einsum("ij,ij->i", self._scaled, self._scaled)
        self._half: Singles = np.empty((room, len(candidates)), dtype=np.float32)
        self._lower = np.zeros((room, room))
        self._known = np.empty((room, candidates.shape[1]))
        self._variance = np.full(len(candidates), hyper.size, dtype=np.float32)
        self._left: Singles = self._variance
        self._believed = 0
        self.count = 0

    def begin(self, columns: Floats, rough: NDArray[np.bool_]) -> None:
        """The first observations, all at once; only before any other."""
        count = len(columns)
        self._known[:count] = columns * self._rates
        covariance = self._kernel(self._known[:count], self._known[:count])
        covariance[np.diag_indices(count)] += self._noise * np.where(rough, _ROUGH, 1.0)
        lower = np.linalg.cholesky(covariance)
        self._lower[:count, :count] = lower
        cross = self._towards(self._known[:count])
        half = solve_lower(lower.astype(np.float32), cross)
        self._half[:count] = half
        self._variance -= np.einsum("ij,ij->j", half, half)
        self.count = count
        self.forget()

    def add(self, column: Floats, rough: bool = False) -> None:
        """One more observation at ``[columns]``."""
        count = self.count
        point = column * self._rates
        row = self._solve(self._kernel(self._known[:count], point[None])[:, 0])
        noise = self._noise * (_ROUGH if rough else 1.0)
        pivot = math.sqrt(max(self._size + noise - float(row @ row), 1e-8))
        fresh = self._towards(point[None])[0]
        fresh -= row.astype(np.float32) @ self._half[:count]
        fresh /= np.float32(pivot)
        self._half[count] = fresh
        self._variance = self._variance - fresh * fresh
        self._lower[count, :count] = row
        self._lower[count, count] = pivot
        self._known[count] = point
        self.count = count + 1
        self.forget()

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drops all candidates but these."""
        self._scaled, self._lengths = self._scaled[rows], self._lengths[rows]
        self._half, self._variance = self._half[:, rows], self._variance[rows]
        self.forget()

    def believe(self, columns: Floats) -> None:
        """Takes ``[k, columns]`` for observed, beside those of before; an observation or :meth:`forget` ends it."""
        first, points = self.count + self._believed, columns * self._rates
        end = first + len(points)
        row = self._solve(self._kernel(self._known[:first], points), first)
        own = self._kernel(points, points) + self._noise * np.eye(len(points)) - row.T @ row
        lower = np.linalg.cholesky(own)
        fresh = self._towards(points) - row.T.astype(np.float32) @ self._half[:first]
        fresh = solve_lower(lower.astype(np.float32), fresh)
        self._half[first:end] = fresh
        self._left = self._left - np.einsum("ij,ij->j", fresh, fresh)
        self._lower[first:end, :first], self._lower[first:end, first:end] = row.T, lower
        self._known[first:end] = points
        self._believed += len(points)

    def forget(self) -> None:
        """Nothing is believed any more."""
        self._believed, self._left = 0, self._variance

    def expected(self, targets: Floats) -> Floats:
        """Means at the points that are believed, of observations alone."""
        weights, middle = self._weights(targets)
        return np.asarray(middle + self._lower[self._beyond, : self.count] @ weights)

    def predict(self, targets: Floats, apart: Floats | None = None) -> tuple[Floats, Floats]:
        """Mean and standard deviation at the candidates.

        Args:
            targets: for each observation in order.
            apart: how far what is believed is from its mean; nothing when left out.
        """
        weights, middle = self._weights(targets)
        mean = weights.astype(np.float32) @ self._half[: self.count]
        if apart is not None:
            mean += self._moved(apart).astype(np.float32) @ self._half[self._beyond]
        return middle + mean.astype(np.float64), np.sqrt(np.maximum(self._left, 1e-8)).astype(np.float64)

    def predict_at(
        self, columns: Floats, targets: Floats, apart: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Mean and standard deviation at other points, ``[n, columns]``."""
        weights, middle = self._weights(targets)
        total = self.count + self._believed
        half = self._solve(self._kernel(self._known[:total], columns * self._rates), total)
        variance = self._size - np.einsum("ij,ij->j", half, half)
        mean = weights @ half[: self.count]
        if apart is not None:
            mean += self._moved(apart) @ half[self.count :]
        return middle + mean, np.sqrt(np.maximum(variance, 1e-8))

    def coefficients(self, targets: Floats, known: Floats, centre: float, spread: float) -> Floats:
        """How much each of some given columns says of the targets, ``[k]``, by generalised least squares.

        The constant mean is taken out; the prior of a coefficient is normal.

        Args:
            targets: ``[n]``.
            known: the columns at the observations, ``[n, k]``.
            centre: of the prior.
            spread: its deviation.
        """
        solved = self._solve(np.column_stack([targets, np.ones(len(targets)), known]))
        one = solved[:, 1]
        solved = solved - np.outer(one, (one @ solved) / (one @ one))
        given = solved[:, 2:]
        weight = 1.0 / spread**2
        left = given.T @ given + weight * np.eye(given.shape[1])
        return np.asarray(np.linalg.solve(left, given.T @ solved[:, 0] + weight * centre))

    @property
    def _beyond(self) -> slice:
        """Rows of what is believed."""
        return slice(self.count, self.count + self._believed)

    def _moved(self, apart: Floats) -> Floats:
        own = self._lower[self._beyond, self._beyond]
        return solve_lower(own, apart)

    def _weights(self, targets: Floats) -> tuple[Floats, float]:
        both = self._solve(np.column_stack([targets, np.ones(len(targets))]))
        middle = float(both[:, 0] @ both[:, 1] / (both[:, 1] @ both[:, 1]))
        return both[:, 0] - middle * both[:, 1], middle

    def _solve(self, right: Floats, count: int | None = None) -> Floats:
        count = self.count if count is None else count
        lower = self._lower[:count, :count]
        return solve_lower(lower, right)

    def _kernel(self, left: Floats, right: Floats) -> Floats:
        apart = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2)
        return np.asarray(self._size * _matern(apart))

    def _towards(self, points: Floats) -> Singles:
        single = points.astype(np.float32)
        apart = self._lengths[None] + np.einsum("ij,ij->i", single, single)[:, None]
        apart -= 2.0 * (single @ self._scaled.T)
        found: Singles = np.float32(self._size) * _matern(np.maximum(apart, np.float32(0.0)))
        return found


def _matern(squares: Any) -> Any:
    far = np.sqrt(squares)
    far *= far.dtype.type(_ROOT5)
    return (1.0 + far + far * far / far.dtype.type(3.0)) * np.exp(-far)


def log_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Logarithm of the expected improvement below ``best``, finite however small it is."""
    gap = (best - mean) / deviation
    near = np.maximum(gap, -5.0)
    density = np.exp(-0.5 * near * near) / np.sqrt(2.0 * np.pi)
    value = np.log(near * normal_below(near) + density)
    far = gap < -5.0
    # Beyond, the first term of the asymptotic series of the Gaussian tail.
    value[far] = -0.5 * gap[far] ** 2 - 2.0 * np.log(-gap[far]) - 0.5 * np.log(2.0 * np.pi)
    return np.asarray(np.log(deviation) + value)
