from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tuner.core.types import VerifyPolicy
from tuner.evaluators.accepted_outputs import AcceptedOutputs
from tuner.evaluators.verification import expect, judge

Array = np.ndarray[Any, Any]
floats = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(allow_nan=True, allow_infinity=True))
tolerances = st.floats(0, 2, allow_subnormal=False)
policies = st.sampled_from(["excluded", "propagate"])


def passes_by_the_book(c: float, r: float, allowed: float, policy: str) -> bool:
    if math.isfinite(r):
        return math.isfinite(c) and abs(c - r) <= allowed
    if policy == "excluded":
        return True
    return math.isnan(c) if math.isnan(r) else c == r


@settings(deadline=None, max_examples=200)
@given(st.data(), floats, tolerances, tolerances, policies, st.floats(0, 1e6))
@pytest.mark.integration
def test_every_element_is_judged_by_the_rule(
    data: st.DataObject, values: Array, rtol: float, atol: float, nonfinite: str, error: float
) -> None:
    noise = data.draw(hnp.arrays(np.float64, values.shape, elements=st.floats(-2, 2)))
    with np.errstate(all="ignore"):
        got = np.where(noise < -1.5, data.draw(st.floats()), values * (1 + noise) + noise)
    baseline = np.where(np.isfinite(values), values, 0)
    baseline[0] = baseline[0] + min(error, 1e300) if abs(baseline[0]) < 1e300 else baseline[0]
    expectation = expect("y", values, baseline)
    policy = VerifyPolicy(rtol=rtol, atol=atol, nonfinite=nonfinite)
    comparison = judge(got, expectation, policy)
    wrong = []
    for i, (c, r) in enumerate(zip(got.tolist(), values.tolist(), strict=True)):
        relative = rtol * abs(r) if math.isfinite(r) else 0.0
        allowed = min(
            max(atol * expectation.rms + relative, 4 * expectation.own_error), 1.7976931348623157e308
        )
        if not passes_by_the_book(c, r, allowed, nonfinite):
            wrong.append(i)
    assert (comparison.mismatch is None) == (not wrong)
    if comparison.mismatch is not None:
        assert comparison.mismatch.wrong == len(wrong)
        assert comparison.mismatch.index == (wrong[0],)


@settings(deadline=None, max_examples=100)
@given(floats, policies)
def test_an_output_equal_to_the_reference_always_passes(values: Array, nonfinite: str) -> None:
    comparison = judge(values, expect("y", values), VerifyPolicy(rtol=0, atol=0, nonfinite=nonfinite))
    assert comparison.mismatch is None
    assert comparison.worst == 0


@settings(deadline=None, max_examples=100)
@given(floats, floats, policies)
@pytest.mark.integration
def test_remembering_accepted_outputs_changes_no_verdict(values: Array, other: Array, nonfinite: str) -> None:
    policy = VerifyPolicy(nonfinite=nonfinite)
    expectation = expect("y", values)
    accepted = AcceptedOutputs(limit_bytes=200)
    candidates = [values, np.resize(other, values.shape), values, -values]
    for got in candidates * 2:
        # As text: NaN in a mismatch is not equal to itself.
        assert repr(accepted.judge(0, got, expectation, policy)) == repr(judge(got, expectation, policy))


@settings(deadline=None, max_examples=100)
@given(hnp.arrays(np.int64, st.integers(1, 30)), st.data())
def test_one_changed_integer_is_always_found(values: Array, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, values.size - 1))
    got = values.copy()
    got[position] ^= 1 << data.draw(st.integers(0, 62))
    mismatch = judge(got, expect("h", values), VerifyPolicy(rtol=1, atol=1)).mismatch
    assert mismatch is not None
    assert mismatch.index == (position,)
