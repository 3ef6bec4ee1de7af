"""How far apart points are on each axis, and what the failures near a point say about it. May not rank by score."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["axis_distances", "best_rates", "chance", "failure_rates"]

Floats = NDArray[np.float64]

_RATES = (0.05, 4.0, 12.0)
_WEIGHT = 0.5


def axis_distances(left: Floats, right: Floats, ordered: NDArray[np.bool_]) -> Floats:
    """How far apart rows are on each axis, ``[axes, left, right]``: 0 to 1, or 0 and 1 where it is unordered.

    Args:
        left: points over the axes' ranges, a row each.
        right: likewise.
        ordered: which axes are ordered.
    """
    apart = np.abs(left.T[:, :, None] - right.T[:, None, :])
    unordered = ~ordered
    if unordered.any():
        apart[unordered] = apart[unordered] > 1e-9
    return apart


def chance(apart: Floats, failed: NDArray[np.bool_], rates: Floats) -> Floats:
    """The chance of not failing, from failures and successes near by (a kernel average with a weak prior).

    Args:
        apart: from :func:`axis_distances`, candidates against observations.
        failed: which observations failed.
        rates: how fast nearness fades on each axis, from :func:`failure_rates`.
    """
    weights = np.exp(-np.tensordot(rates, apart, axes=1))
    return np.asarray(1.0 - _share(weights, failed))


def failure_rates(points: Floats, ordered: NDArray[np.bool_], failed: NDArray[np.bool_]) -> Floats:
    """Rates under which each observation's failing is best told by the others; one pass over the axes.

    Failures have axes of their own: what decides whether a candidate runs at all need not move its time.

    Args:
        points: of the observations, over the axes' ranges.
        ordered: which axes are ordered.
        failed: which observations failed.
    """
    rates = np.ones(points.shape[1])
    if not failed.any() or failed.all():
        return rates
    apart = axis_distances(points, points, ordered)
    return best_rates(apart, rates, _RATES, lambda tried: _left_out(apart, failed, tried))[0]


def best_rates(
    apart: Floats, rates: Floats, choices: Sequence[float], worth: Callable[[Floats], float]
) -> tuple[Floats, float]:
    """The rates that are worth most, and how much, by one pass over the axes on which points are apart.

    Args:
        apart: from :func:`axis_distances`.
        rates: to begin with.
        choices: what each may become instead.
        worth: of rates.
    """
    best = worth(rates)
    for axis in range(len(rates)):
        for rate in choices if apart[axis].any() else ():
            tried = rates.copy()
            tried[axis] = rate
            value = worth(tried)
            if value > best + 1e-9:
                best, rates = value, tried
    return rates, best


def _share(weights: Floats, failed: NDArray[np.bool_]) -> Floats:
    prior = (failed.sum() + 1.0) / (len(failed) + 4.0)
    return np.asarray((weights @ failed + _WEIGHT * prior) / (weights.sum(axis=1) + _WEIGHT))


def _left_out(apart: Floats, failed: NDArray[np.bool_], rates: Floats) -> float:
    weights = np.exp(-np.tensordot(rates, apart, axes=1))
    np.fill_diagonal(weights, 0.0)
    share = np.clip(_share(weights, failed), 1e-6, 1.0 - 1e-6)
    return float(np.log(np.where(failed, share, 1.0 - share)).sum())
