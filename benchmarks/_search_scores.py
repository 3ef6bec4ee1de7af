"""Figures of simulated searches: fraction of the optimum, paired differences, and the community's score P.

P is the performance over time against random search of Willemsen et al., A methodology for comparing optimization
algorithms for auto-tuning (Future Generation Computer Systems 159, 2024): the budget of a space is the time in which
random search is expected to come within 5% of the way from the median to the optimum; at fifty times up to then P is
the share of the distance from random search's expected best to the optimum that the searcher is ahead, averaged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

__all__ = ["Figures", "Trace", "fractions", "horizon", "interval", "median_and_quartiles", "score_p"]

Floats = NDArray[np.float64]

CUTOFF = 0.95
POINTS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a space holds.

    Attributes:
        times: of each row in seconds, infinite where it failed.
        costs: seconds that trying each row takes.
    """

    times: Floats
    costs: Floats

    @property
    def needle(self) -> bool:
        """Whether a single configuration is within 5% of the best: a matter of luck as much as of searching."""
        return int((self.times <= self.optimum / CUTOFF).sum()) == 1

    @property
    def optimum(self) -> float:
        """The shortest time."""
        return float(self.times.min())


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One simulated search: the rows in the order tried (-1: not recorded) and its own CPU seconds."""

    rows: tuple[int, ...]
    cpu_s: float


def best_so_far(figures: Figures, trace: Trace) -> Floats:
    """The shortest time found after each evaluation, infinite before the first that worked."""
    rows = np.array(trace.rows)
    times = np.where(rows >= 0, figures.times[rows], np.inf)
    return np.minimum.accumulate(times)


def fractions(figures: Figures, trace: Trace, budgets: Sequence[int]) -> list[float]:
    """Best possible time over best found at each budget; 0 where nothing worked yet."""
    best = best_so_far(figures, trace)
    return [figures.optimum / float(best[min(b, len(best)) - 1]) for b in budgets]


def median_and_quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, lower and upper quartile."""
    low, middle, high = np.quantile(np.array(values), [0.25, 0.5, 0.75])
    return float(middle), float(low), float(high)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its 95% interval (Student's t); infinitely wide for a single value."""
    array = np.array(values)
    count = len(array)
    half = float(stdtrit(count - 1, 0.975) * array.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    return float(array.mean()), float(array.mean()) - half, float(array.mean()) + half


def expected_random(figures: Figures) -> Floats:
    """Random search's expected best after 1, 2, … evaluations without repeats, given that one worked."""
    ordered = np.sort(figures.times)
    total, working = len(ordered), int(np.isfinite(ordered).sum())
    # none[k]: the chance that none of the k best has been drawn yet.
    none = np.ones(working + 1)
    ranks = np.arange(working + 1)
    expected = np.full(total, ordered[0])
    for n in range(total):
        none = none * np.clip((total - n - ranks) / (total - n), 0.0, 1.0)
        chance = none[:-1] - none[1:]
        expected[n] = float((chance * ordered[:working]).sum() / chance.sum())
        if none[1] < 1e-4:
            break
    return expected


def horizon(figures: Figures) -> int:
    """Evaluations after which random search is expected to be within the cutoff: P is taken over their time."""
    expected = expected_random(figures)
    middle, optimum = float(np.median(figures.times[np.isfinite(figures.times)])), figures.optimum
    return 1 + int(np.argmax(expected <= optimum + (1.0 - CUTOFF) * (middle - optimum)))


def score_p(figures: Figures, traces: Sequence[Trace]) -> list[float]:
    """P of each search; 0 is as random search, 1 the optimum at once."""
    expected = expected_random(figures)
    middle, optimum = float(np.median(figures.times[np.isfinite(figures.times)])), figures.optimum
    cost_s = float(figures.costs.mean())
    moments = cost_s * horizon(figures) * np.arange(1, POINTS + 1) / POINTS
    steps = np.clip((moments / cost_s).astype(int), 1, len(expected))
    baseline = expected[steps - 1]
    scores = []
    for trace in traces:
        rows = np.array(trace.rows)
        spent = np.cumsum(np.where(rows >= 0, figures.costs[rows], 0.0))
        best = np.minimum(best_so_far(figures, trace), middle)
        at = np.searchsorted(spent, moments, side="right")
        found = np.where(at > 0, best[np.maximum(at - 1, 0)], middle)
        gap = np.maximum(baseline - optimum, 1e-12 * optimum)
        scores.append(float(((baseline - found) / gap).mean()))
    return scores
