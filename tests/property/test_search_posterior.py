"""One observation at a time or all at once: the posterior is the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.search.gaussian import Hyper, Posterior


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 25), st.integers(1, 4), st.data())
def test_observations_one_by_one_are_as_all_at_once(seed, count, width, data):
    rng = np.random.default_rng(seed)
    candidates, known = rng.random((30, width)), rng.random((count, width))
    targets, rough = rng.normal(size=count), rng.random(count) < 0.3
    groups = np.arange(width)
    hyper = Hyper(theta=np.append(rng.normal(size=width), [-4.0, 0.1]))
    whole, grown = (Posterior(hyper, groups, candidates, count + 4) for _ in range(2))
    whole.begin(known, rough)
    split = data.draw(st.integers(0, count))
    if split:
        grown.begin(known[:split], rough[:split])
    for i in range(split, count):
        grown.add(known[i], bool(rough[i]))
    for one, other in zip(whole.predict(targets), grown.predict(targets), strict=True):
        assert one == pytest.approx(other, abs=5e-3)
    mean, deviation = whole.predict(targets)
    at_mean, at_deviation = whole.predict_at(candidates, targets)
    assert mean == pytest.approx(at_mean, abs=5e-3)
    assert deviation == pytest.approx(at_deviation, abs=2e-2)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 25), st.integers(1, 4), st.integers(1, 6), st.data())
def test_beliefs_count_like_observations_until_forgotten(seed, count, width, more, data):
    rng = np.random.default_rng(seed)
    candidates, known, coming = (rng.random((n, width)) for n in (30, count, more))
    targets = rng.normal(size=count)
    hyper = Hyper(theta=np.append(rng.normal(size=width), [-4.0, 0.1]))
    kept, grown = (Posterior(hyper, np.arange(width), candidates, count + more) for _ in range(2))
    for posterior in (kept, grown):
        posterior.begin(known, np.zeros(count, dtype=bool))
    before = kept.predict(targets)
    split = data.draw(st.integers(0, more))
    for part in (coming[:split], coming[split:]):
        if len(part):
            kept.believe(part)
    expected = kept.expected(targets)
    assert expected == pytest.approx(grown.predict_at(coming, targets)[0], abs=1e-6)

    for column in coming:
        grown.add(column)
    # At its mean it moves no mean, and leaves the doubt that an observation would leave.
    at_mean = np.append(targets, expected)
    for one, other in zip(kept.predict(targets), grown.predict(at_mean), strict=True):
        assert one == pytest.approx(other, abs=2e-2)
    # Apart from it, the means of all move with it as those of the believed points do.
    apart = rng.normal(size=more)
    mean, deviation = kept.predict(targets, apart)
    at, at_deviation = kept.predict_at(candidates, targets, apart)
    assert mean == pytest.approx(at, abs=5e-3)
    assert deviation == pytest.approx(at_deviation, abs=2e-2)
    covariances = hyper.noise * np.linalg.inv(_covariance(grown, count))
    there = kept.predict_at(coming, targets, apart)[0]
    assert there == pytest.approx(expected + apart - covariances @ apart, abs=1e-6)

    kept.forget()
    for one, other in zip(kept.predict(targets), before, strict=True):
        assert np.array_equal(one, other)


def _covariance(posterior, count):
    """Of the latest observations, given the first ``count``, noise included."""
    own = posterior._lower[count : posterior.count, count : posterior.count]
    return own @ own.T
