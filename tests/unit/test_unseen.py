"""Gains that are there on repeated inputs alone, told by the looks of many processes together."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.types import Status
from tuner.driver.plan.unseen import missing
from tuner.driver.state.trials import FinalSample, Look

SLACK_S = 0.5e-6


def side(trial: int, seen_s: list[float], fresh_s: list[float]) -> list[FinalSample]:
    return [
        FinalSample(
            trial=trial,
            number=number,
            status=Status.OK,
            medians_s=(seen,),
            cost_s=0.1,
            looks={0: Look(seen_s=seen, fresh_s=fresh, slack_s=SLACK_S)},
        )
        for number, (seen, fresh) in enumerate(zip(seen_s, fresh_s, strict=True))
    ]


def processes(
    rng: np.random.Generator, seen_s: float, fresh_s: float, count: int = 12
) -> tuple[list[float], ...]:
    """Medians of a batch, and means of two single calls, which vary more."""
    return (
        (seen_s * rng.lognormal(0, 0.02, count)).tolist(),
        (fresh_s * rng.lognormal(0, 0.05, count)).tolist(),
    )


def found(rng: np.random.Generator, base: tuple[float, float], candidate: tuple[float, float]) -> object:
    return missing(side(0, *processes(rng, *base)), side(1, *processes(rng, *candidate)), (1.0,))


def share_refused(base: tuple[float, float], candidate: tuple[float, float]) -> float:
    rng = np.random.default_rng(3)
    return float(np.mean([found(rng, base, candidate) is not None for _ in range(400)]))


def test_a_gain_of_a_third_that_is_not_there_on_new_inputs_is_told() -> None:
    assert share_refused((100e-6, 103e-6), (75e-6, 103e-6)) > 0.97


def test_one_process_that_was_disturbed_hides_nothing() -> None:
    """As it was on a busy machine: a new call of the baseline took half as long again in one of twelve."""
    seen_s = [111e-6, 119e-6, 117e-6, 117e-6, 117e-6, 108e-6, 111e-6, 111e-6, 117e-6, 115e-6, 117e-6, 117e-6]
    fresh_s = [111e-6, 124e-6, 117e-6, 111e-6, 173e-6, 108e-6, 109e-6, 111e-6, 111e-6, 111e-6, 117e-6, 119e-6]
    kept_s = [82e-6, 87e-6, 84e-6, 82e-6, 82e-6, 78e-6, 78e-6, 78e-6, 78e-6, 78e-6, 82e-6, 82e-6]
    new_s = [114e-6, 123e-6, 114e-6, 122e-6, 114e-6, 114e-6, 111e-6, 114e-6, 115e-6, 114e-6, 113e-6, 122e-6]
    assert missing(side(0, seen_s, fresh_s), side(1, kept_s, new_s), (1.0,)) is not None
    kept_s[3] = 122e-6
    assert missing(side(0, seen_s, fresh_s), side(1, kept_s, new_s), (1.0,)) is not None


def test_honest_gains_of_any_size_are_seldom_turned_down() -> None:
    for gain in (1.02, 1.05, 1.3, 2.0, 30.0):
        assert share_refused((100e-6, 103e-6), (100e-6 / gain, 103e-6 / gain)) < 0.03, gain


def test_losses_after_pauses_are_no_missing_gain() -> None:
    """A microsecond for caches that went cold is ten times as much of a fast candidate's time."""
    assert share_refused((1e-6, 2e-6), (0.1e-6, 1.1e-6)) == 0.0


def test_a_loss_under_the_slack_of_the_device_says_nothing() -> None:
    assert share_refused((1e-6, 1e-6), (0.6e-6, 1.0e-6)) == 0.0


def test_too_few_processes_or_none_that_looked_say_nothing() -> None:
    base, kept = ([100e-6] * 12, [100e-6] * 12), ([50e-6] * 12, [100e-6] * 12)
    assert missing(side(0, *base), side(1, *kept), (1.0,)) is not None
    assert missing(side(0, *base)[:3], side(1, *kept)[:3], (1.0,)) is None
    blind = [
        FinalSample(trial=1, number=n, status=Status.OK, medians_s=(50e-6,), cost_s=0.1) for n in range(12)
    ]
    assert missing(side(0, *base), blind, (1.0,)) is None


@given(st.floats(0.05, 0.95), st.floats(0.0, 1.0))
def test_the_part_that_is_missing_is_what_was_stored(kept: float, stored: float) -> None:
    """Without noise: of a gain of ``1 - kept`` the part ``stored`` is gone on new inputs."""
    fresh_s = kept + stored * (1 - kept)
    part = missing(side(0, [1.0] * 6, [1.0] * 6), side(1, [kept] * 6, [fresh_s] * 6), (1.0,))
    assert (part is not None) == (stored * (1 - kept) - SLACK_S > 0.5 * (1 - kept))
    if part is not None:
        assert abs(part[0] - stored) < 1e-4
