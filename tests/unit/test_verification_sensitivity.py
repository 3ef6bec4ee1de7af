from __future__ import annotations

from typing import Any

import numpy as np

from tuner.core.types import Problem, VerifyPolicy
from tuner.evaluators.sensitivity import check_expectations
from tuner.evaluators.verification import Expectation, expect
from tuner.evaluators.workloads import Workload

Array = np.ndarray[Any, Any]
POLICY = VerifyPolicy()
RNG = np.random.default_rng(0)


def warnings(inputs: list[Array], outputs: list[Array], policy: VerifyPolicy = POLICY) -> list[str]:
    workloads = [
        Workload(
            name=f"w{i}",
            problem=Problem(sizes={"n": x.size}),
            scalars={},
            arrays={"x": x, "y": np.zeros_like(y)},
        )
        for i, (x, y) in enumerate(zip(inputs, outputs, strict=True))
    ]
    expectations: list[dict[str, Expectation]] = [{"y": expect("y", y)} for y in outputs]
    return check_expectations(workloads, expectations, policy)


def draws(count: int = 3) -> list[Array]:
    return [RNG.standard_normal(64) for _ in range(count)]


def test_an_honest_kernel_has_no_warnings() -> None:
    inputs = draws()
    assert warnings(inputs, [np.tanh(x) * 3 for x in inputs]) == []


def test_zeros_that_would_pass_are_found() -> None:
    inputs = draws()
    found = warnings(inputs, [np.sin(x) for x in inputs], VerifyPolicy(atol=10.0))
    assert any("nothing but zeros would pass" in w for w in found)


def test_a_constant_output_is_found() -> None:
    found = warnings(draws(), [np.full(64, 3.0 + i) for i in range(3)])
    assert found == ["output 'y' is one and the same value throughout"]


def test_an_output_that_ignores_its_inputs_is_found() -> None:
    stored = RNG.standard_normal(64)
    found = warnings(draws(), [stored] * 3)
    assert found == ["output 'y' is the same for different inputs: a stored answer would pass"]


def test_an_input_that_passes_for_the_output_is_found() -> None:
    inputs = draws()
    found = warnings(inputs, [x * (1 + 1e-9) for x in inputs])
    assert found == ["input 'x' unchanged would pass as output 'y'"]


def test_an_output_that_is_never_finite_is_found() -> None:
    assert "nothing of output 'y' is compared" in warnings(draws(), [np.full(64, np.nan)] * 3)[0]
