"""What measured times allow one to say: medians, intervals, races. Claims of gains: :mod:`tuner.core.claims`.

Pure functions: the same samples give the same answer in every process. May not measure, draw random numbers
or know of trials. Times are in seconds and over zero; SciPy is imported on first use (0.3 s).

The noise these rules are made for: samples of one process share its placement in memory and differ less among
themselves than processes do, so a process counts once, with its median; noise between processes is near
lognormal, 0.3 to 2%, with some far slower ones.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "Interval",
    "Race",
    "check_times",
    "log_ratio_interval",
    "mean_interval",
    "median",
    "median_interval",
    "moments",
    "race",
    "t_quantile",
]

_RACE_ALPHA = 0.002
_RACE_MARGIN = 0.02
_RACE_LEAST = 3
_PROCESS_NOISE = 0.02
_EXP_LIMIT = 700.0
_MAD_TO_DEVIATION = 1.4826
_MEDIAN_TO_MEAN_ERROR = math.sqrt(math.pi / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """An estimate with the range that the truth lies in.

    Attributes:
        value: the estimate.
        low: lower end.
        high: upper end.
        confidence: how often such ranges cover the truth, from 0 to 1.
    """

    value: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Whether to go on measuring a candidate.

    Attributes:
        keep: false when it is clearly slower than the incumbent.
        slowdown: candidate over incumbent, of the medians.
        least: the slow-down that is as good as certain; over 1 exactly when the candidate is dropped.
    """

    keep: bool
    slowdown: float
    least: float


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones.

    Raises:
        ValueError: no values, or one that is NaN.

    >>> median([3.0, 1.0, 2.0])
    2.0
    """
    _check(values, least=1)
    return _middle(values)


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Geometric mean of process medians, with its t interval.

    Args:
        values: one median time for each process, at least two.
        confidence: two-sided.

    Raises:
        ValueError: too few values, or one that is not a time.
    """
    mean, variance, count = moments(values)
    half = t_quantile(_upper(confidence), count - 1) * math.sqrt(variance / count)
    return _exponential(mean, half, confidence)


def log_ratio_interval(
    baseline: Sequence[float], candidate: Sequence[float], confidence: float = 0.95
) -> Interval:
    """The speed-up, baseline over candidate, with its interval: Welch's t on the logarithms of process
    medians.

    Args:
        baseline: one median time for each process, at least two.
        candidate: likewise; as many or not.
        confidence: two-sided; the lower end alone errs half as often.

    Raises:
        ValueError: too few values, or one that is not a time.
    """
    mean_b, variance_b, count_b = moments(baseline)
    mean_c, variance_c, count_c = moments(candidate)
    share_b, share_c = variance_b / count_b, variance_c / count_c
    error = math.sqrt(share_b + share_c)
    if error == 0.0:
        # Clocks too coarse to show noise: no freedom to divide by.
        return _exponential(mean_b - mean_c, 0.0, confidence)
    # As fractions, since squares of tiny variances would vanish.
    part_b, part_c = share_b / (share_b + share_c), share_c / (share_b + share_c)
    freedom = 1 / (part_b**2 / (count_b - 1) + part_c**2 / (count_c - 1))
    return _exponential(mean_b - mean_c, t_quantile(_upper(confidence), freedom) * error, confidence)


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval:
    """The median with an interval between two of the sorted samples, whatever the distribution.

    The narrowest symmetric pair whose binomial coverage reaches ``confidence``; under six samples none
    reaches 95%, and the smallest and largest are given. ``Interval.confidence`` is the coverage attained (0
    for one sample). Takes samples as independent: within one process they are about its own median only.

    Raises:
        ValueError: no samples, or one that is NaN.
    """
    _upper(confidence)
    _check(samples, least=1)
    ordered = sorted(samples)
    count = len(ordered)
    rank = _order_rank(count, 1 - confidence)
    attained = max(0.0, 1 - 2 * _binomial_tail(rank, count))
    return Interval(
        value=_middle(ordered),
        low=float(ordered[rank]),
        high=float(ordered[count - 1 - rank]),
        confidence=attained,
    )


def race(candidate_samples: Sequence[float], incumbent_samples: Sequence[float]) -> Race:
    """Whether a candidate is still in, after a few samples in one process.

    Dropped when a one-sided bound on the slow-down of the medians exceeds a margin of 2%. The bound counts
    the noise among samples (from the median absolute deviation, with t quantiles at 0.002) and 2% between any
    two processes, which more samples do not lessen. Kept always under three samples of either.

    Simulated with 0.3 to 2% between processes, 1 to 5% among samples and one sample in twenty up to twice as
    slow, looked at after 3, 8 and 20 samples against an incumbent's 20: of equal candidates 0.3% were dropped
    over all three looks, of those 5, 10, 15 and 20% slower 1, 29, 91 and 99.6%; all that were half as slow
    again went at the first. Three samples against three: 98.6% of those twice as slow.

    Raises:
        ValueError: a value that is not a time.
    """
    check_times(candidate_samples, least=0)
    if not candidate_samples or not incumbent_samples:
        check_times(incumbent_samples, least=0)
        return Race(keep=True, slowdown=1.0, least=0.0)
    middle_c, deviation_c, count_c = _robust_logs(candidate_samples)
    middle_i, deviation_i, count_i = _incumbent_logs(tuple(incumbent_samples))
    slowdown = _finite_exp(middle_c - middle_i)
    if min(count_c, count_i) < _RACE_LEAST:
        return Race(keep=True, slowdown=slowdown, least=0.0)
    freedom = count_c + count_i - 2
    # The deviation of three samples is often far too small by chance; pooled it is less so.
    pooled = ((count_c - 1) * deviation_c**2 + (count_i - 1) * deviation_i**2) / freedom
    within = _MEDIAN_TO_MEAN_ERROR**2 * pooled * (1 / count_c + 1 / count_i)
    half_within = t_quantile(1 - _RACE_ALPHA, freedom) * math.sqrt(within)
    half_between = t_quantile(1 - _RACE_ALPHA, math.inf) * _PROCESS_NOISE * math.sqrt(2)
    half = math.hypot(half_within, half_between)
    least = _finite_exp(middle_c - middle_i - half - _RACE_MARGIN)
    return Race(keep=least <= 1, slowdown=slowdown, least=least)


def _middle(values: Iterable[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def _check(values: Sequence[float], *, least: int) -> None:
    if len(values) < least:
        raise ValueError(f"{len(values)} values where at least {least} are needed")
    if any(map(math.isnan, values)):
        raise ValueError("a value is NaN")


def check_times(values: Sequence[float], *, least: int) -> None:
    """Raises ``ValueError`` for fewer values than that, and for one that is not a time."""
    _check(values, least=least)
    # In C for what is right, as nearly all is: every race comes here.
    if all(map(math.isfinite, values)) and min(values, default=1.0) > 0:
        return
    for value in values:
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{value} is not a time: times are finite and over zero")


def _upper(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1")
    return (1 + confidence) / 2


def moments(values: Sequence[float]) -> tuple[float, float, int]:
    """Mean and variance of the logarithms of times, and how many they are."""
    check_times(values, least=2)
    logs = [math.log(value) for value in values]
    mean = math.fsum(logs) / len(logs)
    return mean, math.fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1), len(logs)


@functools.lru_cache(maxsize=64)
def _incumbent_logs(samples: tuple[float, ...]) -> tuple[float, float, int]:
    """The same incumbent is raced against by many."""
    check_times(samples, least=0)
    return _robust_logs(samples)


def _robust_logs(samples: Sequence[float]) -> tuple[float, float, int]:
    logs = [math.log(value) for value in samples]
    middle = _middle(logs)
    spread = _middle([abs(value - middle) for value in logs])
    return middle, _MAD_TO_DEVIATION * spread, len(logs)


def _exponential(middle: float, half: float, confidence: float) -> Interval:
    return Interval(
        value=_finite_exp(middle),
        low=_finite_exp(middle - half),
        high=_finite_exp(middle + half),
        confidence=confidence,
    )


def _finite_exp(power: float) -> float:
    # Two wild processes have an end beyond what a float holds, and a record can hold no infinity.
    return math.exp(max(-_EXP_LIMIT, min(power, _EXP_LIMIT)))


@functools.lru_cache(maxsize=1024)
def t_quantile(probability: float, freedom: float) -> float:
    """Of Student's distribution; of the normal one with infinite freedom."""
    from scipy.special import ndtri, stdtrit

    return float(ndtri(probability) if math.isinf(freedom) else stdtrit(freedom, probability))


def _binomial_tail(rank: int, count: int) -> float:
    from scipy.special import bdtr

    return float(bdtr(rank, count, 0.5))


def _order_rank(count: int, error: float) -> int:
    low, high = 0, max((count - 1) // 2, 0)
    while low < high:
        middle = (low + high + 1) // 2
        if 2 * _binomial_tail(middle, count) <= error:
            low = middle
        else:
            high = middle - 1
    return low
