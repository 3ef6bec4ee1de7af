"""What must hold of every set of times: units do not matter, order does not matter, ends enclose the value."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.claims import choose, confirm_verdict
from tuner.core.statistics import (
    log_ratio_interval,
    mean_interval,
    median,
    median_interval,
    race,
)

seconds = st.floats(1e-9, 1e3)
several = st.lists(seconds, min_size=2, max_size=20)
quick = settings(max_examples=150, deadline=None)


@quick
@given(several, several, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_intervals_enclose_their_value(a: list[float], b: list[float], confidence: float) -> None:
    tight = 1 - 1e-12
    intervals = (
        log_ratio_interval(a, b, confidence),
        mean_interval(a, confidence),
        median_interval(a, confidence),
    )
    for interval in intervals:
        assert 0 < interval.low * tight <= interval.value <= interval.high / tight or interval.low == 0


@quick
@given(several, several)
def test_more_confidence_is_a_wider_interval(a: list[float], b: list[float]) -> None:
    for narrow, wide in (
        (log_ratio_interval(a, b, 0.9), log_ratio_interval(a, b, 0.99)),
        (median_interval(a, 0.9), median_interval(a, 0.99)),
    ):
        assert wide.low <= narrow.low
        assert narrow.high <= wide.high


@quick
@given(several, several, st.sampled_from([2.0**-20, 2.0**-3, 2.0**10]))
def test_units_do_not_matter(a: list[float], b: list[float], unit: float) -> None:
    scaled_a, scaled_b = [unit * v for v in a], [unit * v for v in b]
    assert math.isclose(
        log_ratio_interval(scaled_a, scaled_b).value, log_ratio_interval(a, b).value, rel_tol=1e-9
    )
    assert median(scaled_a) == unit * median(a)
    assert race(scaled_a, scaled_b).slowdown == pytest.approx(race(a, b).slowdown)


@quick
@given(several, several)
def test_order_within_a_side_does_not_matter(a: list[float], b: list[float]) -> None:
    shuffled = sorted(a)
    assert race(shuffled, b) == race(a, b)
    assert median_interval(shuffled) == median_interval(a)
    assert confirm_verdict(shuffled, b).claim == confirm_verdict(a, b).claim


@quick
@given(several, several)
def test_at_most_one_side_is_faster(a: list[float], b: list[float]) -> None:
    claims = {confirm_verdict(a, b).claim, confirm_verdict(b, a).claim}
    assert len(claims & {"improved", "negligible"}) <= 1
    assert claims != {"extend"} or len(claims) == 1
    assert race(a, b).keep or race(b, a).keep


@quick
@given(st.dictionaries(st.integers(0, 50), st.lists(seconds, min_size=1, max_size=5), min_size=1, max_size=6))
@pytest.mark.integration
def test_nothing_is_better_than_the_chosen(finalists: dict[int, list[float]]) -> None:
    chosen = choose(finalists)
    assert choose(dict(reversed(list(finalists.items())))) == chosen
    for number, values in finalists.items():
        assert (median(finalists[chosen]), chosen) <= (median(values), number)
