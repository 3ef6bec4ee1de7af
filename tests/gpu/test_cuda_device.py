"""The CUDA backend on a card: contract, planted faults, sticky errors, out of bounds, timing that makes sense.

    pytest -m gpu

Skipped with the reason where there is no card.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import needs
import pytest
from by_path import load

from tuner.core.canonical import canonical_json
from tuner.core.expressions import parse
from tuner.core.types import (
    Argument,
    ArgumentRole,
    Build,
    BuildRequest,
    Kernel,
    Launch,
    MeasurePolicy,
    Problem,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
    VerifyPolicy,
)
from tuner.evaluators.cuda.backend import CudaBackend, CudaEvaluation
from tuner.evaluators.cuda.device import Device, describe_device
from tuner.evaluators.cuda.nvml import Watch

pytestmark = [*needs.gpu, *needs.nvrtc]


contract = load("contract/test_backend_contract.py")
case, ready = contract.case, contract.ready

SOURCE = """
__global__ void axpy(float a, const float *x, float *y, float *z, int n) {
    __shared__ float part[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    part[threadIdx.x] = i < n ? a * x[i] : 0;
    __syncthreads();
    if (i < n) {
        z[i] = part[threadIdx.x] + y[i];
        y[i] = 2 * z[i];
    }
}
"""
RESOLVED = Resolved(macros={"BLOCK": 128}, scalars={}, flags=(), pipeline=None)


@pytest.fixture(scope="module")
def device() -> Device:
    """The card."""
    return describe_device()


def make_task(text: str = SOURCE, *, cache: str = "warm", shared: str | None = None) -> Task:
    """An input, an inout, an output; two problems, hidden sizes."""
    n = (parse("n"),)
    return Task(
        kernel=Kernel(
            name="axpy",
            entry="axpy",
            language="cuda",
            variant=Variant(files=(Source(name="axpy.cu", text=text),)),
            folder=".",
        ),
        backend="cuda",
        target="native",
        arguments=(
            Argument(name="a", dtype="float32", value=parse("0.5")),
            Argument(name="x", dtype="float32", shape=n),
            Argument(name="y", dtype="float32", shape=n, role=ArgumentRole.INOUT),
            Argument(name="z", dtype="float32", shape=n, role=ArgumentRole.OUTPUT),
            Argument(name="n", dtype="int32", value=parse("n")),
        ),
        problems=(Problem(sizes={"n": 4_000_000}), Problem(sizes={"n": 300_001}, weight=2.0)),
        verify=VerifyPolicy(assume=(parse("n >= 1"),)),
        measure=MeasurePolicy(cache=cache),
        launch=Launch(
            grid=(parse("ceil(n / BLOCK)"),),
            block=(parse("BLOCK"),),
            shared_bytes=None if shared is None else parse(shared),
        ),
        seed=7,
    )


def request(text: str, trial: int = 0, resolved: Resolved = RESOLVED) -> BuildRequest:
    """A candidate of this text."""
    return BuildRequest(
        trial=trial, variant=Variant(files=(Source(name="axpy.cu", text=text),)), resolved=resolved
    )


class TestContract(contract.BackendContract):  # type: ignore[misc, name-defined]
    """What every backend promises."""

    @staticmethod
    def make_case() -> Any:
        """Two problems, an inout argument."""
        texts = [
            SOURCE,
            SOURCE.replace("part[threadIdx.x] + y[i]", "y[i] + part[threadIdx.x]"),
            SOURCE.replace("i < n ?", "i < n - 1 ?"),
            SOURCE.replace(";", ""),
        ]
        requests = [request(text, i) for i, text in enumerate(texts)]
        return contract.Case(
            backend=CudaBackend(),
            task=make_task(),
            baseline=requests[0],
            same=requests[1],
            wrong=requests[2],
            broken=requests[3],
        )


class Bench:
    """An evaluation with its baseline set."""

    def __init__(self, task: Task) -> None:
        self.evaluation: CudaEvaluation = CudaBackend().prepare(task, workers=4)
        self.baseline = self.build(task.kernel.variant.files[0].text)
        self.report = self.evaluation.set_baseline(self.baseline, RESOLVED)
        assert self.report.status is Status.OK, self.report.message

    def build(self, text: str, resolved: Resolved = RESOLVED) -> Build:
        """One candidate."""
        (build,) = self.evaluation.build([request(text, resolved=resolved)])
        assert build.status is Status.OK, build.message
        return build

    def verdict(self, text: str) -> tuple[Status, str]:
        """What the verification says."""
        session = self.evaluation.open(self.build(text), RESOLVED, purpose="search", number=0)
        try:
            verdict = session.verify()
            return verdict.status, verdict.message
        finally:
            session.close()

    def seconds(self, text: str, resolved: Resolved = RESOLVED, *, calls: int = 30) -> float:
        """Median of timed calls of the first problem."""
        session = self.evaluation.open(self.build(text, resolved), resolved, purpose="search", number=0)
        try:
            verdict = session.verify()
            assert verdict.status is Status.OK, verdict.message
            measurement = session.measure(problem=0, calls=calls)
            assert measurement.status is Status.OK, measurement.message
            return statistics.median(measurement.times_s)
        finally:
            session.close()


@pytest.fixture(scope="module")
def bench(device: Device) -> Iterator[Bench]:
    """With the good kernel."""
    made = Bench(make_task())
    try:
        yield made
    finally:
        made.evaluation.close()


FAULTS = {
    "wrong value": ("a * x[i]", "a + x[i]"),
    "no barrier and the wrong element": ("part[threadIdx.x] + y", "part[(threadIdx.x + 1) % BLOCK] + y"),
    "last element missing": ("if (i < n)", "if (i < n - 1)"),
    "past the end": ("if (i < n)", "if (i == 0) z[n] = 1;\n    if (i < n)"),
    "before the start": ("if (i < n)", "if (i == 0) y[-1] = 1;\n    if (i < n)"),
    "an input": ("if (i < n)", "if (i == 7) ((float *)x)[7] = 3;\n    if (i < n)"),
    "nothing at all": ("if (i < n)", "if (i < 0)"),
    "zeros": ("z[i] = part[threadIdx.x] + y[i]", "z[i] = 0"),
    "a size it was written for": ("if (i < n)", "if (i < n && n > 300000)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_seen(bench: Bench, fault: str) -> None:
    right, wrong = FAULTS[fault]
    assert right in SOURCE
    status, message = bench.verdict(SOURCE.replace(right, wrong, 1))
    assert status is Status.WRONG_RESULT, (status, message)
    assert "\n" not in message


@pytest.mark.parametrize(
    "fault",
    [
        "*(volatile float *)16 = 1;",
        "z[(1LL << 40) + i] = 1;",
        "*(volatile double *)((char *)z + 4) = 1;",
        'asm volatile("trap;");',
    ],
)
def test_a_sticky_error_costs_one_worker_not_the_run(bench: Bench, fault: str) -> None:
    text = SOURCE.replace("if (i < n) {", f"if (i == 3) {{ {fault} }}\n    if (i < n) {{")
    status, message = bench.verdict(text)
    assert status is Status.CRASHED, (status, message)
    assert "CUDA_ERROR" in message
    assert bench.verdict(SOURCE)[0] is Status.OK


def test_a_kernel_that_never_ends_is_ended(bench: Bench) -> None:
    text = SOURCE.replace("if (i < n) {", "while (((volatile float *)x)[0] < 1e30f);\n    if (i < n) {")
    session = bench.evaluation.open(bench.build(text), RESOLVED, purpose="search", number=0)
    try:
        assert session.verify().status is Status.TIMED_OUT
    finally:
        session.close()
    assert bench.verdict(SOURCE)[0] is Status.OK


def test_the_reference_is_in_double(bench: Bench) -> None:
    assert bench.report.reference == "float64"
    assert bench.report.notes["fallbacks"] == {}


def test_twice_the_work_takes_longer_and_repeats_agree(bench: Bench) -> None:
    slow = SOURCE.replace(
        "part[threadIdx.x] = i < n ? a * x[i] : 0;",
        "float v = 0; for (int k = 0; k < 2000; k++) v = v * 0.5f + __int_as_float(k & 1);\n"
        "    part[threadIdx.x] = (i < n ? a * x[i] : 0) + v * 0;",
    )
    first, again, more = bench.seconds(SOURCE), bench.seconds(SOURCE), bench.seconds(slow)
    assert abs(first / again - 1) < 0.1
    assert more > 1.2 * first


def test_memory_bound_time_is_not_below_the_roofline(bench: Bench, device: Device) -> None:
    facts = device.facts
    bandwidth = 2.0 * facts["memory_clock_khz"] * 1e3 * facts["memory_bus_bits"] / 8
    if not bandwidth:
        pytest.skip("the driver does not say what the memory's clock is")
    moved = 4 * 4 * 4_000_000
    seconds = bench.seconds(SOURCE)
    if moved > 2 * device.l2_bytes:
        assert seconds > 0.9 * moved / bandwidth
    assert seconds < 50 * moved / bandwidth


def test_cold_calls_are_not_faster(device: Device) -> None:
    cold = Bench(make_task(cache="cold"))
    try:
        assert cold.seconds(SOURCE) > 0
    finally:
        cold.evaluation.close()


def test_more_shared_memory_than_48_kib(device: Device) -> None:
    text = SOURCE.replace("__shared__ float part[BLOCK];", "extern __shared__ float part[];").replace(
        "part[threadIdx.x]", "part[threadIdx.x + 12288]"
    )
    made = Bench(make_task(text, shared="4 * (BLOCK + 12288)"))
    try:
        assert made.seconds(text, calls=5) > 0
    finally:
        made.evaluation.close()


def test_the_drivers_own_count_of_registers_is_ours(bench: Bench) -> None:
    assert 0 < bench.baseline.features["registers_count"] <= 255
    assert 0 < bench.baseline.features["occupancy_share"] <= 1


def test_measurements_carry_clocks_and_throttling(bench: Bench, device: Device) -> None:
    session = bench.evaluation.open(bench.baseline, RESOLVED, purpose="confirm", number=1)
    try:
        assert session.verify().status is Status.OK
        notes = session.measure(problem=0, calls=5).notes
    finally:
        session.close()
    assert canonical_json(dict(notes))
    watch = Watch(device.uuid)
    expected = watch.sample().keys()
    watch.close()
    assert notes["before"].keys() == notes["after"].keys() == expected


def test_the_environment_names_card_and_driver(device: Device) -> None:
    environment = CudaBackend().environment("native")
    assert device.name in environment["device"]
    assert environment["uuid"].startswith("GPU-")
    assert environment["gpu"]["l2_bytes"] > 0


def test_another_architecture_is_refused(device: Device) -> None:
    other = "sm_80" if device.arch != "sm_80" else "sm_90"
    with pytest.raises(Exception, match="target: native"):
        CudaBackend().prepare(replace(make_task(), target=other), workers=1)
