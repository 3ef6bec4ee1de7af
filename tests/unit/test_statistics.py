"""Each statistic against worked values and against SciPy's own routines."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tuner.core.claims import LOOK_ALPHA, choose, confirm_verdict
from tuner.core.statistics import (
    Interval,
    log_ratio_interval,
    mean_interval,
    median,
    median_interval,
    race,
)


def times(count: int, *, seed: int = 0, noise: float = 0.01, scale: float = 1.0) -> list[float]:
    draws: list[float] = np.random.default_rng(seed).lognormal(0.0, noise, count).tolist()
    return [scale * value for value in draws]


def test_importing_costs_no_scipy() -> None:
    script = "import sys, tuner.core.statistics; sys.exit(any(m.startswith(('scipy', 'numpy')) for m in sys.modules))"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_median() -> None:
    assert median([3, 1, 2]) == 2
    assert median([4.0, 1.0, 2.0, 3.0]) == 2.5
    assert isinstance(median([1]), float)


@pytest.mark.parametrize("values", [[], [1.0, math.nan]])
def test_median_of_nothing_or_nan_is_an_error(values: list[float]) -> None:
    with pytest.raises(ValueError):
        median(values)


@pytest.mark.parametrize("confidence", [0.8, 0.95, 1 - 2 * LOOK_ALPHA])
@pytest.mark.parametrize("counts", [(12, 12), (2, 9), (30, 4)])
def test_log_ratio_interval_is_welch(confidence: float, counts: tuple[int, int]) -> None:
    a, b = times(counts[0], scale=1.2), times(counts[1], seed=1, noise=0.03)
    interval = log_ratio_interval(a, b, confidence)
    test: Any = stats.ttest_ind(np.log(a), np.log(b), equal_var=False)
    expected = test.confidence_interval(confidence)
    assert math.log(interval.low) == pytest.approx(expected.low, rel=1e-9)
    assert math.log(interval.high) == pytest.approx(expected.high, rel=1e-9)
    assert interval.value == pytest.approx(stats.gmean(a) / stats.gmean(b))
    assert interval.confidence == confidence


def test_log_ratio_interval_turns_round_with_its_sides() -> None:
    a, b = times(8), times(8, seed=1, scale=1.1)
    there, back = log_ratio_interval(a, b), log_ratio_interval(b, a)
    assert there.value < 1 < back.value
    assert there.low == pytest.approx(1 / back.high)


def test_times_without_noise_have_an_interval_without_width() -> None:
    assert log_ratio_interval([2.0, 2.0], [1.0, 1.0]) == Interval(
        value=2.0, low=2.0, high=2.0, confidence=0.95
    )
    interval = log_ratio_interval([1.0, 1.0, 1.0], times(5))
    assert interval.low < interval.value < interval.high
    tiny = log_ratio_interval([1.0, 1.0 + 1e-15], [1.0, 1.0 + 1e-15])
    assert tiny.low <= 1 <= tiny.high


def test_ends_beyond_all_floats_are_cut_off() -> None:
    interval = log_ratio_interval([4.0, 1e-9], [1e-9, 1e-9], 0.99)
    assert 0 < interval.low < interval.value < interval.high < math.inf
    assert race([1e300] * 3, [1e-300] * 3).slowdown < math.inf


def test_mean_interval_is_students() -> None:
    values = times(9, scale=3e-3)
    interval = mean_interval(values)
    low, high = stats.t.interval(0.95, 8, np.mean(np.log(values)), stats.sem(np.log(values)))
    assert (interval.low, interval.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert interval.value == pytest.approx(stats.gmean(values))


@pytest.mark.parametrize(
    ("count", "rank", "attained"),
    # Conover, Practical Nonparametric Statistics, table A3: which order statistics to take.
    [
        (1, 0, 0.0),
        (2, 0, 0.5),
        (5, 0, 0.9375),
        (6, 0, 0.96875),
        (10, 1, 0.9785),
        (20, 5, 0.9586),
        (100, 39, 0.9648),
    ],
)
def test_median_interval_takes_the_tabled_order_statistics(count: int, rank: int, attained: float) -> None:
    samples = [float(n) for n in np.random.default_rng(count).permutation(count)]
    interval = median_interval(samples)
    assert (interval.low, interval.high) == (rank, count - 1 - rank)
    assert interval.confidence == pytest.approx(attained, abs=1e-4)
    assert interval.value == median(samples)


def test_median_interval_covers_the_median_as_often_as_it_says() -> None:
    draws = np.random.default_rng(4).exponential(1.0, (2000, 25))
    hits = 0
    for row in draws:
        interval = median_interval(row.tolist(), 0.9)
        hits += interval.low <= math.log(2) <= interval.high
    assert interval.confidence >= 0.9
    assert hits / 2000 == pytest.approx(interval.confidence, abs=0.02)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, math.nan])
def test_confidence_is_between_none_and_certain(confidence: float) -> None:
    intervals: list[Callable[[], Interval]] = [
        lambda: median_interval([1.0, 2.0], confidence),
        lambda: mean_interval([1.0, 2.0], confidence),
        lambda: log_ratio_interval([1.0, 2.0], [1.0, 2.0], confidence),
    ]
    for interval in intervals:
        with pytest.raises(ValueError, match="confidence"):
            interval()


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize(
    "statistic",
    [
        lambda v: log_ratio_interval(v, [1.0, 1.1]),
        lambda v: log_ratio_interval([1.0, 1.1], v),
        mean_interval,
        lambda v: confirm_verdict(v, [1.0, 1.1]),
        lambda v: race(v, [1.0, 1.1]),
        lambda v: race([1.0, 1.1], v),
    ],
)
def test_invalid_times_are_errors(statistic: Callable[[Sequence[float]], object], bad: float) -> None:
    with pytest.raises(ValueError, match=r"time|NaN"):
        statistic([1.0, bad, 1.2])


@pytest.mark.parametrize("statistic", [mean_interval, lambda v: log_ratio_interval(v, [1.0, 2.0])])
def test_one_process_has_no_interval(statistic: Callable[[Sequence[float]], object]) -> None:
    with pytest.raises(ValueError, match="at least 2"):
        statistic([1.0])


def test_verdict_improved() -> None:
    verdict = confirm_verdict(times(12, scale=1.1), times(12, seed=1))
    assert verdict.claim == "improved"
    assert verdict.look == 1
    assert verdict.interval is not None
    assert 1 < verdict.interval.low < 1.1 < verdict.interval.high
    assert verdict.interval.confidence == pytest.approx(0.9706)


def test_verdict_negligible_under_one_percent() -> None:
    verdict = confirm_verdict(times(12, noise=0.001, scale=1.008), times(12, seed=1, noise=0.001))
    assert verdict.claim == "negligible"
    over = confirm_verdict(times(12, noise=0.001, scale=1.012), times(12, seed=1, noise=0.001))
    assert over.claim == "improved"


def test_verdict_extends_once_where_a_gain_is_open() -> None:
    wide, base = times(12, noise=0.05, scale=1.02), times(12, seed=1, noise=0.05)
    first = confirm_verdict(wide, base)
    assert first.claim == "extend"
    assert first.interval is not None
    assert first.interval.low <= 1
    assert confirm_verdict(wide, base, look=2).claim == "none"


def test_verdict_none_when_slower_or_certainly_close() -> None:
    assert confirm_verdict(times(12), times(12, seed=1, scale=1.1)).claim == "none"
    assert confirm_verdict(times(12, noise=0.05), times(12, seed=1, noise=0.05, scale=1.02)).claim == "none"
    same = [1.0, 1.001] * 6
    assert confirm_verdict(same, same).claim == "none"


def test_verdict_is_one_over_the_lower_bound_exactly() -> None:
    base = times(12)
    bound = log_ratio_interval(base, times(12, seed=1), 1 - 2 * LOOK_ALPHA).low
    for factor, claimed in ((0.999 / bound, False), (1.001 / bound, True)):
        verdict = confirm_verdict([factor * value for value in base], times(12, seed=1))
        assert (verdict.claim in ("improved", "negligible")) is claimed


def test_fewer_than_four_processes_confirm_nothing() -> None:
    for counts in ((3, 12), (12, 3), (0, 0)):
        verdict = confirm_verdict(times(counts[0], scale=9.0), times(counts[1], seed=1))
        assert (verdict.claim, verdict.interval) == ("not_confirmed", None)
    assert confirm_verdict(times(4, scale=9.0), times(4, seed=1)).claim == "improved"


@pytest.mark.parametrize("look", [0, 3])
def test_there_are_two_looks(look: int) -> None:
    with pytest.raises(ValueError, match="two"):
        confirm_verdict(times(12), times(12), look=look)


def test_choose_takes_the_lowest_median_and_the_first_of_equals() -> None:
    assert choose({3: [1.0, 9.0, 1.1], 1: [2.0, 0.1, 2.0], 2: [1.2]}) == 3
    assert choose({7: [1.0, 3.0], 5: [2.0], 6: [2.0, 2.0, 2.0]}) == 5
    assert choose({4: [], 9: [1.0]}) == 9


@pytest.mark.parametrize("finalists", [{}, {1: []}, {1: [math.nan], 2: [1.0]}])
def test_choose_needs_a_measured_finalist(finalists: dict[int, list[float]]) -> None:
    with pytest.raises(ValueError):
        choose(finalists)


def test_race_drops_what_is_twice_as_slow_and_says_by_how_much() -> None:
    result = race(times(5, scale=2.0), times(20, seed=1))
    assert not result.keep
    assert result.slowdown == pytest.approx(2.0, rel=0.05)
    assert 1 < result.least < result.slowdown


def test_race_keeps_what_is_faster_or_too_little_known() -> None:
    assert race(times(5, scale=0.5), times(20, seed=1)).keep
    assert race(times(5, scale=1.05), times(20, seed=1)).keep
    for counts in ((2, 50), (50, 2), (0, 5), (5, 0)):
        assert race(times(counts[0], scale=9.0), times(counts[1], seed=1)).keep


def test_race_needs_more_where_samples_scatter() -> None:
    steady = race(times(5, scale=1.3), times(5, seed=1))
    noisy = race(times(5, noise=0.2, scale=1.3), times(5, seed=1, noise=0.2))
    assert not steady.keep
    assert noisy.keep


def test_race_is_not_misled_by_single_slow_samples() -> None:
    assert race([1.0, 1.01, 40.0, 0.99, 1.0], times(20, seed=1)).keep


def test_race_allows_for_placement_however_many_samples_agree() -> None:
    assert race([1.06] * 5000, [1.0] * 5000).keep
    assert not race([1.15] * 5000, [1.0] * 5000).keep
