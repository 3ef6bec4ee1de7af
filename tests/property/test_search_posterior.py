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
    believed = whole.believing(candidates[:2])
    assert (believed <= deviation + 1e-6).all()
    assert np.array_equal(whole.predict(targets)[1], deviation)
