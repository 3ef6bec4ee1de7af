"""How far rounding takes outputs of few elements, and that sums in other orders are not refused by bad luck."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tuner.core.types import BASELINE, BuildRequest, Problem, Source, Status, Variant
from tuner.evaluators import registry as backends
from tuner.evaluators.rounding import Rounding
from tuner.evaluators.workloads import Workload
from tuner.spec.load import load_spec


def workload(n: int, *, value: float = 0.0, distribution: str = "given") -> Workload:
    array = np.full(n, value, np.float32)
    return Workload(
        name="w", problem=Problem(sizes={"n": n}), scalars={}, arrays={"x": array}, distribution=distribution
    )


class Kernel:
    """Gives the reference 100 and a baseline that is off by the input's first value."""

    def __init__(self, errors: Sequence[float], elements: int = 1) -> None:
        self.errors, self.elements, self.asked = errors, elements, 0
        self.magnitudes = [100.0]

    def other(self, draw: int, place: int) -> Workload:
        return workload(8, value=self.errors[draw % len(self.errors)])

    def run(self, workloads: Sequence[Workload]) -> list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
        self.asked += len(workloads)
        first = self.asked - len(workloads)
        return [
            self.outputs(float(w.arrays["x"][0]), self.magnitudes[(first + i) % len(self.magnitudes)])
            for i, w in enumerate(workloads)
        ]

    def outputs(
        self, error: float, magnitude: float = 100.0
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        right = np.full(self.elements, magnitude)
        return {"s": right + error * magnitude / 100.0}, {"s": right}


def errors_of(
    rounding: Rounding, kernel: Kernel, own: float, given: Workload | None = None
) -> dict[str, float]:
    (found,) = rounding.errors(
        [given or workload(8)], [kernel.outputs(own)], other=kernel.other, run=kernel.run, call_s=1e-6
    )
    return found


def test_the_error_of_one_sum_is_that_of_sums_like_it() -> None:
    rounding, kernel = Rounding(), Kernel([0.25, 0.5, 0.125])
    assert errors_of(rounding, kernel, own=2.0**-12) == {"s": 0.5}
    asked = kernel.asked
    assert asked >= 16
    # Once for each problem: further sets of it are drawn alike.
    assert errors_of(rounding, kernel, own=2.0**-10) == {"s": 0.5}
    assert kernel.asked == asked
    errors_of(rounding, kernel, own=2.0**-10, given=workload(9))
    assert kernel.asked == 2 * asked


def test_inputs_of_another_distribution_are_each_looked_at() -> None:
    rounding, kernel = Rounding(), Kernel([0.5])
    errors_of(rounding, kernel, own=0.25)
    assert errors_of(rounding, Kernel([0.75]), own=0.25, given=workload(8, distribution="extreme")) == {
        "s": 0.75
    }
    assert errors_of(rounding, kernel, own=0.25) == {"s": 0.5}


@pytest.mark.parametrize(("own", "elements"), [(0.0, 1), (0.25, 64)])
def test_what_is_exact_or_long_needs_no_draws(own: float, elements: int) -> None:
    kernel = Kernel([0.5], elements)
    assert errors_of(Rounding(), kernel, own) == {}
    assert kernel.asked == 0


def test_a_result_that_is_another_computation_says_nothing() -> None:
    kernel = Kernel([50.0, 0.25])
    assert errors_of(Rounding(), kernel, own=0.125) == {"s": 0.25}


def test_an_error_that_is_none_of_rounding_alone_says_nothing() -> None:
    kernel = Kernel([2.0**-10] * 15 + [0.5])
    assert errors_of(Rounding(), kernel, own=2.0**-10) == {"s": 2.0**-7}


def test_errors_of_results_of_all_magnitudes_are_in_proportion() -> None:
    kernel = Kernel([0.25])
    kernel.magnitudes = [10.0**k for k in range(16)]
    assert errors_of(Rounding(), kernel, own=0.125) == {"s": pytest.approx(0.25, rel=1e-4)}


def test_long_calls_are_drawn_twice() -> None:
    kernel = Kernel([0.5])
    Rounding().errors([workload(8)], [kernel.outputs(0.25)], other=kernel.other, run=kernel.run, call_s=60.0)
    assert kernel.asked == 2


def test_a_baseline_that_fails_on_other_inputs_keeps_its_own_error() -> None:
    kernel = Kernel([0.5])
    given = [workload(8)]
    made = Rounding().errors(given, [kernel.outputs(0.25)], other=kernel.other, run=lambda _: [], call_s=1e-6)
    assert made == [{"s": 0.0}]


SUM = "float s = 0; for (int i = 0; i < n; i++) s += x[i]; return s;"
SPEC = """
kernel: {source: k.c, entry: sum, returns: float32}
problem: {n: 30000}
arguments:
  - {name: x, dtype: float32, shape: [n], init: normal}
  - {name: n, dtype: int32, value: n}
verify: {numerics: reassociate, problems: [{n: 67}]}
"""


@pytest.mark.integration
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (SUM.replace("i = 0; i < n; i++", "i = n - 1; i >= 0; i--"), Status.OK),
        (SUM.replace("i = 0", "i = 1"), Status.WRONG_RESULT),
    ],
)
def test_a_sum_backwards_is_right_where_the_kernel_as_given_had_luck(
    tmp_path: Path, body: str, status: Status
) -> None:
    def variant(text: str) -> Variant:
        return Variant(files=(Source(name="k.c", text=f"float sum(const float *x, int n) {{ {text} }}\n"),))

    (tmp_path / "k.c").write_text(variant(SUM).files[0].text)
    (tmp_path / "k.yaml").write_text(SPEC)
    (spec,) = load_spec(tmp_path / "k.yaml")
    # With these inputs the error of the sum as given is a fortieth of that backwards.
    task = spec.task_with(seed=22)
    space = spec.space(None)
    resolved = space.resolve(space.default())
    evaluation = backends.given(None, "host").prepare(task, workers=1)
    try:
        requests = [
            BuildRequest(trial=BASELINE, variant=variant(text), resolved=resolved) for text in (SUM, body)
        ]
        base, build = evaluation.build(requests)
        assert evaluation.set_baseline(base, resolved).status is Status.OK
        session = evaluation.open(build, resolved, purpose="search", number=0)
        try:
            assert session.verify().status is status
        finally:
            session.close()
    finally:
        evaluation.close()
