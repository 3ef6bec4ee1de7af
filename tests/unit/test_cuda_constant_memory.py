"""Arguments that fill a ``__constant__`` variable: compiled, emulated, and on the stand-in driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cuda_stand_in as stand_in
import needs
import pytest

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.core.types import (
    Argument,
    ArgumentRole,
    Build,
    BuildRequest,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
)
from tuner.evaluators.cuda.backend import CudaBackend, CudaEvaluation
from tuner.evaluators.host.backend import HostBackend
from tuner.spec.load import load_spec

PREFIX = "function(sroa),default<O3>"
KERNEL = """
__constant__ float weights[ROOM];
extern "C" __global__ void fir(const float *x, float *y, int n, int taps)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0;
    for (int k = 0; k < taps; k++)
        sum += weights[k] * x[(i + k) % n];
    y[i] = sum;
}
"""
SPEC = """\
kernel: {source: fir.cu, entry: fir}
target: sm_90
problem: {n: 500, taps: 9}
arguments:
  - {name: x, dtype: float32, shape: [n]}
  - {name: weights, dtype: float32, shape: [taps], constant: true}
  - {name: y, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
  - {name: taps, dtype: int32, value: taps}
launch: {grid: ["ceil(n / BLOCK)"], block: [BLOCK]}
space:
  parameters: {BLOCK: [64, 128], ROOM: [16, 4]}
verify: {reference: {python: "reference.py:fir"}, assume: ["taps <= 16"]}
"""
REFERENCE = """
import numpy as np
def fir(x, weights, y, n, taps):
    return {"y": sum(weights[k] * np.roll(x, -k) for k in range(taps))}
"""


def spec_of(folder: Path, text: str = SPEC, kernel: str = KERNEL) -> Path:
    """The spec with its files."""
    (folder / "fir.cu").write_text(kernel)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "fir.yaml").write_text(text)
    return folder / "fir.yaml"


class Bench:
    """The filter without a device."""

    def __init__(self, folder: Path) -> None:
        (spec,) = load_spec(spec_of(folder))
        self.task = spec.task_with(seed=0)
        self.evaluation: CudaEvaluation = CudaBackend().prepare(self.task, workers=1)

    def request(
        self, pipeline: str | None = None, *, kernel: str = KERNEL, room: int = 16, block: int = 64
    ) -> BuildRequest:
        """A candidate."""
        resolved = Resolved(macros={"BLOCK": block, "ROOM": room}, scalars={}, flags=(), pipeline=pipeline)
        variant = Variant(files=(Source(name="fir.cu", text=kernel),))
        return BuildRequest(trial=1, variant=variant, resolved=resolved)

    def build(self, request: BuildRequest) -> Build:
        """What becomes of it."""
        (build,) = self.evaluation.build([request])
        return build


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """With its baseline."""
    made = Bench(tmp_path_factory.mktemp("fir"))
    request = made.request()
    report = made.evaluation.set_baseline(made.build(request), request.resolved)
    assert report.status is Status.OK, report.message
    assert report.reference == "python"
    yield made
    made.evaluation.close()


@needs.nvrtc
@pytest.mark.integration
@pytest.mark.parametrize("pipeline", [None, pytest.param(PREFIX, marks=needs.cuda_passes)])
def test_the_variable_is_filled_under_emulation(bench: Bench, pipeline: str | None) -> None:
    request = bench.request(pipeline, block=128)
    build = bench.build(request)
    assert build.status is Status.OK, build.message
    session = bench.evaluation.open(build, request.resolved, purpose="confirm", number=1)
    verdict = session.verify()
    assert verdict.status is Status.OK, verdict.message


@needs.nvrtc
@pytest.mark.integration
def test_a_wrong_use_of_it_is_found(bench: Bench) -> None:
    request = bench.request(kernel=KERNEL.replace("weights[k] *", "weights[(k + 1) % ROOM] *"))
    session = bench.evaluation.open(bench.build(request), request.resolved, purpose="search", number=0)
    assert session.verify().status is Status.WRONG_RESULT


@needs.nvrtc
@pytest.mark.integration
def test_a_variable_that_is_missing_or_too_small_is_said(bench: Bench) -> None:
    small = bench.build(bench.request(room=4))
    assert small.status is Status.OUT_OF_RESOURCES
    assert "weights takes 36 bytes, its __constant__ variable has 16" in small.message
    other = bench.build(bench.request(kernel=KERNEL.replace("weights", "others")))
    assert other.status is Status.BUILD_ERROR
    assert "weights" in other.message


def test_only_inputs_of_cuda_can_be_constant(tmp_path: Path) -> None:
    output = SPEC.replace("shape: [n], role: output}", "shape: [n], role: output, constant: true}")
    with pytest.raises(SpecError, match="output 'y' is constant"):
        load_spec(spec_of(tmp_path, output))
    scalar = SPEC.replace("value: taps}", "value: taps, constant: true}")
    with pytest.raises(SpecError, match="constant"):
        load_spec(spec_of(tmp_path, scalar))
    (spec,) = load_spec(spec_of(tmp_path))
    task = spec.task_with(seed=0)
    on_host = replace(task, backend="host", launch=None, kernel=replace(task.kernel, language="c"))
    with pytest.raises(SpecError, match="weights is constant, which the host backend does not have"):
        HostBackend().prepare(on_host, workers=1)


ON_STAND_IN = """
typedef unsigned u;
double stand_in_worked;
#define work_us(us) (stand_in_worked += (us) * 1e-6)
float weights[16];
int axpy(void **args, const u *grid, const u *block, u shared) {
    const float *x = *(const float **)args[0];
    float *z = *(float **)args[1];
    int n = *(int *)args[2];
    work_us(500);
    for (int i = 0; i < n; i++) z[i] = WEIGHT * x[i];
    return 0;
}
"""
RIGHT = ON_STAND_IN.replace("WEIGHT", "weights[i % 8]")
NEVER_FILLED = (
    ON_STAND_IN.replace("float weights[16];", "float weights[16], kept[16]; static int calls;")
    .replace("work_us(500);", "work_us(500); if (!calls++) for (int i = 0; i < 8; i++) kept[i] = weights[i];")
    .replace("WEIGHT", "kept[i % 8]")
)
TOO_SMALL = RIGHT.replace("weights[16]", "weights[4]").replace("i % 8", "i % 4")


def _constant_task(text: str) -> Task:
    n = (parse("n"),)
    arguments = (
        Argument(name="x", dtype="float32", shape=n),
        Argument(name="weights", dtype="float32", shape=(parse("8"),), constant=True),
        Argument(name="z", dtype="float32", shape=n, role=ArgumentRole.OUTPUT),
        Argument(name="n", dtype="int32", value=parse("n")),
    )
    task: Task = stand_in.make_task(text)
    return replace(task, arguments=arguments)


@pytest.mark.integration
@needs.cc
def test_each_call_on_a_device_finds_its_own_values(tmp_path: Path) -> None:
    evaluation = stand_in.StandInBackend(tmp_path).prepare(_constant_task(RIGHT), workers=1)
    try:
        (base,) = evaluation.build([stand_in.request(0, RIGHT)])
        report = evaluation.set_baseline(base, stand_in.RESOLVED)
        assert report.status is Status.OK, report.message
        found = {}
        for name, text in (("right", RIGHT), ("kept", NEVER_FILLED), ("small", TOO_SMALL)):
            (build,) = evaluation.build([stand_in.request(1, text)])
            session = evaluation.open(build, stand_in.RESOLVED, purpose="search", number=0)
            found[name] = session.verify()
            if name == "right":
                measured = session.measure(problem=0, calls=4)
                assert measured.status is Status.OK, measured.message
            session.close()
        assert found["right"].status is Status.OK, found["right"].message
        assert found["kept"].status is Status.WRONG_RESULT
        assert found["small"].status is Status.OUT_OF_RESOURCES
        assert "weights takes 32 bytes" in found["small"].message
    finally:
        evaluation.close()
