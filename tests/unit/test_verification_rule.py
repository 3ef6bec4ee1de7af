from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from tuner.core.errors import UsageError
from tuner.core.types import VerifyPolicy
from tuner.evaluators.accepted_outputs import AcceptedOutputs
from tuner.evaluators.verification import Expectation, compare, expect, judge, own_error

POLICY = VerifyPolicy(rtol=1e-3, atol=1e-2)
PROPAGATE = VerifyPolicy(rtol=1e-3, atol=1e-2, nonfinite="propagate")


def doubles(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float64)


def singles(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def test_the_allowance_is_relative_to_value_and_to_the_rms_of_the_whole_output() -> None:
    expectation = expect("y", doubles(100, 0, 0, 0))
    assert expectation.rms == pytest.approx(50)
    limit = 1e-2 * 50
    assert compare(doubles(100, limit * 0.999, 0, 0), expectation, POLICY) is None
    mismatch = compare(doubles(100, limit * 1.001, 0, 0), expectation, POLICY)
    assert mismatch is not None
    assert mismatch.index == (1,)
    assert mismatch.allowed == pytest.approx(limit)
    assert compare(doubles(100 + limit + 0.0999, 0, 0, 0), expectation, POLICY) is None
    assert compare(doubles(100 + limit + 0.1001, 0, 0, 0), expectation, POLICY) is not None


def test_of_an_array_that_is_also_read_what_the_kernel_leaves_alone_loosens_nothing() -> None:
    before = doubles(1e300, 1, 2, np.nan)
    after = doubles(1e300, 3, 4, np.nan)
    expectation = expect("y", after, before=before)
    assert expectation.rms == pytest.approx(math.sqrt(12.5))
    assert compare(before, expectation, POLICY) is not None
    assert compare(before, expect("y", after), POLICY) is None
    assert expect("y", after, before=after).rms == expect("y", after).rms
    assert expect("y", doubles(5, 0), before=doubles(5, 1)).rms == 0


def test_zeros_do_not_pass_for_a_tiny_output() -> None:
    expectation = expect("y", np.full(100, 1e-12))
    assert compare(np.zeros(100, np.float32), expectation, VerifyPolicy()) is not None


def test_the_baselines_own_error_counts_four_times() -> None:
    expectation = expect("y", doubles(1, 2), singles(1, 2.5))
    assert expectation.own_error == 0.5
    assert compare(doubles(1, 4), expectation, POLICY) is None
    assert compare(doubles(1, 4.01), expectation, POLICY) is not None


def test_the_worst_error_is_told_for_passes_too() -> None:
    expectation = expect("y", doubles(1, 1))
    half = judge(doubles(1, 1 + 0.5 * (1e-2 + 1e-3)), expectation, POLICY)
    assert half.mismatch is None
    assert half.worst == pytest.approx(0.5)
    assert judge(doubles(1, 1), expectation, POLICY).worst == 0
    assert judge(doubles(0, 0), expect("y", doubles(0, 0)), POLICY).worst == 0
    assert judge(doubles(0, 1), expect("y", doubles(0, 0)), POLICY).worst == math.inf


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("policy", [POLICY, PROPAGATE, VerifyPolicy(rtol=1e300, atol=1e300)])
def test_a_value_that_is_not_finite_never_passes_for_a_finite_one(bad: float, policy: VerifyPolicy) -> None:
    comparison = judge(singles(1, bad), expect("y", doubles(1, 1e30)), policy)
    assert comparison.mismatch is not None
    assert comparison.mismatch.wrong == 1
    assert comparison.worst == math.inf


def test_where_the_expected_value_is_not_finite_the_policy_decides() -> None:
    expectation = expect("y", doubles(np.nan, np.inf, -np.inf, 1))
    right = singles(np.nan, np.inf, -np.inf, 1)
    anything = singles(0, 0, np.nan, 1)
    assert judge(right, expectation, PROPAGATE).mismatch is None
    assert judge(anything, expectation, POLICY).mismatch is None
    assert judge(anything, expectation, POLICY).compared == 1
    mismatch = compare(anything, expectation, PROPAGATE)
    assert mismatch is not None
    assert mismatch.wrong == 3
    assert compare(singles(np.nan, -np.inf, -np.inf, 1), expectation, PROPAGATE) is not None
    assert compare(singles(np.nan, np.inf, -np.inf, 2), expectation, POLICY) is not None


def test_a_finite_value_does_not_pass_for_an_infinity() -> None:
    assert compare(singles(3e38), expect("y", doubles(np.inf)), PROPAGATE) is not None


def test_where_only_the_wider_type_is_finite_the_baselines_value_is_expected() -> None:
    baseline = singles(np.inf, 1)
    expectation = expect("y", doubles(1e39, 1), baseline)
    assert expectation.own_error == 0
    assert compare(baseline, expectation, PROPAGATE) is None
    assert compare(baseline, expectation, POLICY) is None
    assert compare(singles(3e38, 1), expectation, PROPAGATE) is not None


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "bool"])
def test_integers_have_to_be_equal(dtype: str) -> None:
    values = np.array([0, 1, 1, 0], dtype)
    assert compare(values.copy(), expect("h", values), VerifyPolicy(rtol=1, atol=1)) is None
    wrong = np.array([0, 1, 0, 0], dtype)
    mismatch = compare(wrong, expect("h", values), VerifyPolicy(rtol=1, atol=1))
    assert mismatch is not None
    assert (mismatch.index, mismatch.wrong, mismatch.allowed) == ((2,), 1, 0.0)
    json.dumps(mismatch.detail(), allow_nan=False)


def test_large_integers_are_not_rounded_before_they_are_compared() -> None:
    huge = np.array([2**63 - 1, -(2**63)], np.int64)
    assert compare(huge - np.array([1, 0]), expect("h", huge), POLICY) is not None
    assert (
        compare(np.array([2**64 - 1], np.uint64), expect("h", np.array([-1], np.int64)), POLICY) is not None
    )
    assert own_error(huge, huge - np.array([1, 0])) == 1.0


def test_integers_against_a_floating_reference_have_the_tolerance() -> None:
    expectation = expect("h", doubles(1000, 1000.4))
    assert compare(np.array([1000, 1000], np.int32), expectation, POLICY) is None
    assert compare(np.array([1000, 1020], np.int32), expectation, POLICY) is not None


def test_half_and_complex_numbers_are_compared() -> None:
    assert compare(np.array([1, 2], np.float16), expect("y", doubles(1, 2.0001)), POLICY) is None
    z = np.array([3 + 4j, 1j])
    assert compare(z.astype(np.complex64), expect("z", z), POLICY) is None
    mismatch = compare(z.conj().astype(np.complex64), expect("z", z), POLICY)
    assert mismatch is not None
    assert mismatch.wrong == 2
    json.dumps(mismatch.detail(), allow_nan=False)
    infinite = np.array([complex(np.inf, np.nan)])
    assert compare(infinite, expect("z", infinite), PROPAGATE) is None
    assert compare(np.array([1 + 1j]), expect("z", infinite), PROPAGATE) is not None


def test_the_mismatch_names_the_first_wrong_element_of_a_large_array_and_counts_all() -> None:
    values = np.ones((300, 700))
    got = values.astype(np.float32)
    got[123, 45] = np.nan
    got[200:] = 2
    mismatch = compare(got, expect("dst", values), POLICY)
    assert mismatch is not None
    assert mismatch.index == (123, 45)
    assert mismatch.wrong == 1 + 100 * 700
    assert mismatch.message == "dst[123, 45] is nan, expected 1 (70001 of 210000 wrong)"
    assert mismatch.detail()["value"] == "nan"
    json.dumps(mismatch.detail(), allow_nan=False)


def test_extreme_magnitudes_do_not_overflow_the_rule() -> None:
    values = doubles(1e308, -1e308, 1e-308)
    expectation = expect("y", values)
    assert expectation.rms == pytest.approx(1e308 * math.sqrt(2 / 3))
    assert compare(values, expectation, POLICY) is None
    assert compare(-values, expectation, POLICY) is not None
    assert compare(np.zeros(3), expect("y", np.full(3, 5e-324)), VerifyPolicy(rtol=0.1, atol=0)) is not None


def test_arrays_that_are_not_contiguous_are_compared() -> None:
    values = np.arange(12.0).reshape(3, 4)
    assert compare(np.asfortranarray(values), expect("y", values), POLICY) is None
    assert compare(values.T, expect("y", values.T), POLICY) is None


def test_empty_and_single_outputs_work() -> None:
    assert judge(np.zeros(0), expect("y", np.zeros(0)), POLICY).compared == 0
    assert compare(np.array(2.0), expect("return", np.array(2.0)), POLICY) is None
    mismatch = compare(np.array(3.0), expect("return", np.array(2.0)), POLICY)
    assert mismatch is not None
    assert mismatch.message.startswith("return is 3, expected 2 within")


def test_incomparable_outputs_are_refused() -> None:
    with pytest.raises(UsageError, match="shape"):
        compare(np.zeros(3), expect("y", np.zeros(4)), POLICY)
    with pytest.raises(UsageError, match="complex"):
        compare(np.zeros(3, np.complex64), expect("y", np.zeros(3)), POLICY)
    with pytest.raises(UsageError, match="own error"):
        Expectation(name="y", values=np.zeros(1), own_error=math.inf)
    with pytest.raises(UsageError, match="numbers"):
        expect("y", np.array(["a"]))


def test_accepted_outputs_answer_again_and_never_accept_another() -> None:
    accepted = AcceptedOutputs()
    expectation = expect("y", np.ones(1000))
    good = np.full(1000, 1.001, np.float32)
    first = accepted.judge("w", good, expectation, POLICY)
    assert first.mismatch is None
    assert accepted.held_bytes == good.nbytes
    assert accepted.judge("w", good.copy(), expectation, POLICY) is first
    bad = good.copy()
    bad[-1] = 3
    assert accepted.judge("w", bad, expectation, POLICY).mismatch is not None
    assert accepted.judge("other", good, expect("y", np.zeros(1000)), POLICY).mismatch is not None
    assert accepted.held_bytes == good.nbytes
    good[:] = 9
    assert accepted.judge("w", good, expectation, POLICY).mismatch is not None


def test_accepted_outputs_keep_within_their_limits() -> None:
    accepted = AcceptedOutputs(limit_bytes=10_000, per_key=2)
    for key in range(20):
        for value in range(5):
            expectation = expect("y", np.ones(500))
            got = np.full(500, 1 + value * 1e-4, np.float32)
            assert accepted.judge(key, got, expectation, POLICY).mismatch is None
            assert accepted.held_bytes <= 10_000
    large = np.ones(5000)
    assert accepted.judge("large", large, expect("y", large), POLICY).mismatch is None
    assert accepted.held_bytes <= 10_000
