"""The rule by which a gain is claimed: which candidate is confirmed, on how many processes, and what that shows.

Pure functions of process medians, on :mod:`tuner.core.statistics`. May not measure, draw random numbers or know of
trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.core.statistics import Interval, check_times, log_ratio_interval, median, moments, t_quantile

__all__ = ["LOOK_ALPHA", "MIN_PROCESSES", "NEGLIGIBLE", "choose", "confirm_verdict", "pairs_for"]

NEGLIGIBLE = 1.01
"""Speed-ups under this are not worth the name."""

LOOK_ALPHA = 0.0147
"""One-sided error of each of at most two looks: Pocock's boundary (2.178 deviations) for 0.025 over both.

Pocock, "Group sequential methods in the design and analysis of clinical trials", Biometrika 64 (1977), table
1: two-sided 0.0294 a look. The second look pools the first one's processes; so correlated, two looks at
0.0147 err as often as one at 0.025, where Bonferroni's split would need 0.0125. Of 200,000 simulated pairs of
identical code 2.4% were claimed (twelve processes a side, then twenty-four; lognormal noise), 1.1% with heavy
tails, 3.0% at worst with four processes a side and seven times the noise on one of them.
"""

MIN_PROCESSES = 4
"""Fewer processes of either side confirm nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """What a confirmation says of a candidate.

    Attributes:
        claim: ``improved``; ``negligible`` (faster, by under 1%); ``none`` (nothing may be claimed);
            ``extend`` (the first look leaves it open: measure as many processes again, pool them and look a
            second time); ``not_confirmed`` (fewer than four processes of either side).
        interval: of the speed-up, baseline over candidate. Over both looks together it covers the truth in
            95% of runs; ``None`` for ``not_confirmed``.
        look: 1 or 2.
    """

    claim: str
    interval: Interval | None
    look: int


def confirm_verdict(
    baseline_medians: Sequence[float],
    candidate_medians: Sequence[float],
    *,
    look: int = 1,
    before: int = 0,
) -> Confirmation:
    """Whether a gain may be claimed for the one candidate that was chosen on other samples.

    One-sided at 0.025 over at most two looks, 0.0147 each (:data:`LOOK_ALPHA`). A gain is claimed when the
    lower end of the interval is over 1. The first look asks for the second where the candidate seems faster
    and may be so by 1% or more; a caller who cannot extend claims nothing then.

    Args:
        baseline_medians: one median time for each fresh process.
        candidate_medians: likewise, interleaved with the baseline's in random order.
        look: 2 when the samples hold those of look 1 and as many again.
        before: confirmations of the same run that came to a verdict. Each leaves half of the error to the next, so that
            however often a run is gone on with, all of them together err at most twice as often as the first.

    Raises:
        ValueError: a value that is not a time, or a look that is neither 1 nor 2.
    """
    if look not in (1, 2):
        raise ValueError(f"look {look}: there are two")
    check_times(baseline_medians, least=0)
    check_times(candidate_medians, least=0)
    if min(len(baseline_medians), len(candidate_medians)) < MIN_PROCESSES:
        return Confirmation(claim="not_confirmed", interval=None, look=look)
    interval = log_ratio_interval(baseline_medians, candidate_medians, 1 - 2 * LOOK_ALPHA * 0.5**before)
    if interval.low > 1:
        claim = "improved" if interval.value >= NEGLIGIBLE else "negligible"
    elif look == 1 and interval.value > 1 and interval.high >= NEGLIGIBLE:
        claim = "extend"
    else:
        claim = "none"
    return Confirmation(claim=claim, interval=interval, look=look)


def pairs_for(spreads: Sequence[Sequence[float]], half_width: float) -> int:
    """Pairs of processes with which a confirmation's interval will be about so narrow.

    The number is fixed before the confirmation, by samples that it does not use, so it is no look at the result and
    costs no error: with variance ``v`` of each side a look's half width is ``q sqrt(2 v / n)``.

    Args:
        spreads: process medians of candidates on this machine, of each at least two; others are passed over.
        half_width: wanted, of the logarithm of the ratio.

    Returns:
        0 where the spread is not known.

    Raises:
        ValueError: a value that is not a time.
    """
    variances = [moments(values)[1] for values in spreads if len(values) > 1]
    if not variances:
        return 0
    quantile = t_quantile(1 - LOOK_ALPHA, math.inf)
    return math.ceil(2 * math.fsum(variances) / len(variances) * (quantile / half_width) ** 2)


def choose(finalists: Mapping[int, Sequence[float]]) -> int:
    """The best of a few candidates: the lowest median of process medians, the lowest number among equals.

    The samples that chose it say nothing about its gain any more: confirm it on fresh ones.

    Args:
        finalists: process medians by trial; a trial without any is passed over.

    Raises:
        ValueError: no trial has a value, or one is NaN.
    """
    middles = {trial: median(values) for trial, values in finalists.items() if len(values)}
    if not middles:
        raise ValueError("no finalist was measured")
    return min(middles, key=lambda trial: (middles[trial], trial))
