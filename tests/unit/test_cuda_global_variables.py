"""Variables of a device's memory as arguments: in first specs, checked, compiled, emulated, on the stand-in driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import by_path
import needs
import pytest

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.core.types import (
    Argument,
    ArgumentRole,
    Build,
    BuildRequest,
    Initial,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
)
from tuner.driver.check import check_spec
from tuner.evaluators.cuda.backend import CudaBackend, CudaEvaluation
from tuner.spec.first.init import init_spec
from tuner.spec.load import LoadedSpec, load_spec

PREFIX = "function(sroa),default<O3>"
KERNEL = """
#define RADIUS 2
typedef float real;
__constant__ real taps[2 * RADIUS + 1];
__constant__ int wanted;
__constant__ int known[2] = {1, 2};
__device__ const real half_of = 0.5f;
__device__ unsigned counter;
namespace sim { static __device__ double sums[4]; namespace { __device__ int last; } }
__device__ real unused;
__device__ real filtered(const real *in, int i);
template <int R> __device__ real around(const real *in, int i)
{
    real sum = 0;
    for (int d = -R; d <= R; d++)
        sum += taps[d + R] * in[i + d];
    return sum;
}
extern "C" __global__ void fir(const real *in, real *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < RADIUS || i >= n - RADIUS)
        return;
    out[i] = filtered(in, i);
    atomicAdd(&counter, 1u);
    if (i < 4)
        sim::sums[i] += out[i];
    if (i == n - RADIUS - 1)
        sim::last = i + known[1];
}
__device__ real filtered(const real *in, int i) { return around<RADIUS>(in, i) * wanted * half_of; }
"""
LINES = (
    "{name: taps, constant: true, dtype: float32, shape: [5], init: normal}",
    "{name: wanted, global: true, dtype: int32, value: 1}",
    "{name: counter, global: true, dtype: uint32, value: 1, role: inout}",
    '{name: "sim::sums", global: true, dtype: float64, shape: [4], role: inout, init: normal}',
    '{name: "sim::last", global: true, dtype: int32, value: 0, role: output}',
)


def written(folder: Path, *changes: tuple[str, str], kernel: str = KERNEL) -> Path:
    """The first spec of the kernel, changed."""
    (folder / "fir.cu").write_text(kernel)
    text = init_spec(folder / "fir.cu").replace("n: 4194304", "n: 700")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "fir.yaml").write_text(text)
    return folder / "fir.yaml"


def loaded(folder: Path, *changes: tuple[str, str], kernel: str = KERNEL) -> LoadedSpec:
    """That spec."""
    return load_spec(written(folder, *changes, kernel=kernel))[0]


@pytest.mark.integration
def test_a_first_spec_lists_what_a_kernel_and_what_it_calls_use(tmp_path: Path) -> None:
    text = written(tmp_path).read_text()
    for line in LINES:
        assert line in text
    for name in ("known", "half_of", "unused"):
        assert f"name: {name}" not in text


@pytest.mark.integration
def test_what_no_argument_can_stand_for_is_said(tmp_path: Path) -> None:
    kernel = KERNEL.replace("__device__ real unused;", "__device__ real *place;").replace(
        "    if (i < 4)", "    static __device__ int calls; calls++; place[i] = 1;\n    if (i < 4)"
    )
    spec = loaded(tmp_path, kernel=kernel)
    text = (tmp_path / "fir.yaml").read_text()
    place = "fir.cu:10: no argument can stand for the __device__ variable place: it is zero in every test"
    calls = (
        "no argument can stand for the __device__ variable calls of fir: what the kernel leaves there is not"
    )
    for said in (place, calls):
        assert f"# check: {said}" in text
        assert any(said in notice for notice in spec.notices)


@needs.nvrtc
@pytest.mark.integration
def test_faults_in_variables_are_caught(tmp_path: Path) -> None:
    report = check_spec(loaded(tmp_path), faults=True)
    assert report.ok, report.lines
    assert not report.warnings
    number, _, planted, *_ = dict(report.lines)["faults"].split()
    assert number == planted


@pytest.mark.integration
def test_a_spec_that_leaves_variables_out_is_warned_of(tmp_path: Path) -> None:
    spec = loaded(tmp_path, *((f"  - {line}", "  #") for line in LINES))
    assert (
        "fir.cu:4: the kernel reads the __constant__ variable taps, which the spec does not list: it is zero"
        in (spec.notices[0])
    )
    for line, notice in zip(LINES, spec.notices, strict=True):
        assert notice.endswith(f"add {line} to arguments")
    assert "fir.cu:8: the kernel writes to the __device__ variable counter" in spec.notices[2]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("dtype: uint32", "dtype: int64"), "variable in the source, of uint32, but the spec says int64"),
        (("counter, global: true", "counter, global: pointer"), "is global: pointer, which the cuda backend"),
        (("wanted, global: true", "wanted, global: true, role: inout"), "which no kernel can write"),
        (("name: in,", 'name: "sim::in",'), "has a name with ::"),
        (("taps, constant: true", "taps, constant: true, global: true"), "is constant and global"),
    ],
)
def test_arguments_that_are_not_what_the_source_has_are_refused(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=message) as error:
        loaded(tmp_path, change)
    assert error.value.place is not None


@pytest.mark.integration
def test_only_constant_memory_is_constant(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "fir.cu").write_text(KERNEL.replace("__constant__ real taps", "__device__ real taps"))
    with pytest.raises(
        SpecError, match="'taps' is a __device__ variable in the source, not a __constant__ one"
    ):
        load_spec(path)


class Bench:
    """The filter without a device."""

    def __init__(self, folder: Path) -> None:
        self.task = loaded(folder).task_with(seed=0)
        self.evaluation: CudaEvaluation = CudaBackend().prepare(self.task, workers=1)
        self.resolved = Resolved(macros={"BLOCK_X": 64}, scalars={}, flags=(), pipeline=None)

    def build(self, kernel: str = KERNEL, pipeline: str | None = None) -> Build:
        """A candidate."""
        variant = Variant(files=(Source(name="fir.cu", text=kernel),))
        resolved = replace(self.resolved, pipeline=pipeline)
        (build,) = self.evaluation.build([BuildRequest(trial=1, variant=variant, resolved=resolved)])
        return build


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """With its baseline."""
    made = Bench(tmp_path_factory.mktemp("fir"))
    report = made.evaluation.set_baseline(made.build(), made.resolved)
    assert report.status is Status.OK, report.message
    yield made
    made.evaluation.close()


CHANGES = {
    "right": ("i + known[1];", "known[1] + i;", Status.OK, ""),
    "no count": ("atomicAdd(&counter, 1u);", "", Status.WRONG_RESULT, "counter[0]"),
    "other place": ("sim::sums[i] +=", "sim::sums[3 - i] +=", Status.WRONG_RESULT, "sim::sums"),
    "left out": ("sim::last = i + known[1];", ";", Status.WRONG_RESULT, "sim::last[0] is"),
    "a race": ("atomicAdd(&counter, 1u);", "counter++;", Status.WRONG_RESULT, "counter[0]"),
    "read before": ("i + known[1];", "i + sim::last;", Status.WRONG_RESULT, "sim::last[0]"),
    "larger": ("sums[4]", "sums[5]", Status.BUILD_ERROR, "sim::sums has 40 bytes in the source, and 32"),
    "gone": ("__device__ unsigned counter", "__device__ unsigned count", Status.BUILD_ERROR, "counter"),
}


@needs.nvrtc
@pytest.mark.integration
@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_variables_are_verified_under_emulation(bench: Bench, name: str) -> None:
    old, new, status, message = CHANGES[name]
    assert old in KERNEL
    build = bench.build(KERNEL.replace(old, new))
    verdict: Any = build
    if build.status is Status.OK:
        session = bench.evaluation.open(build, bench.resolved, purpose="search", number=0)
        verdict = session.verify()
        session.close()
    assert verdict.status is status, verdict.message
    assert message in verdict.message


@needs.nvrtc
@pytest.mark.integration
@pytest.mark.parametrize("pipeline", [None, pytest.param(PREFIX, marks=needs.cuda_passes)])
def test_symbols_of_static_variables_and_namespaces_are_found(bench: Bench, pipeline: str | None) -> None:
    build = bench.build(pipeline=pipeline)
    assert build.status is Status.OK, build.message
    from tuner.evaluators.cuda.compiler import Made
    from tuner.evaluators.cuda.cubin import variable_sizes

    made = Made.from_json(build.artifacts["made"])
    assert set(made.variables) == {"taps", "wanted", "counter", "sim::sums", "sim::last"}
    sizes = variable_sizes(build.code, list(made.variables.values()))
    assert sizes[made.variables["sim::sums"]] == 32
    assert len(sizes) == 5


STAND_IN = by_path.load("stand_ins/cuda_stand_in.py", "global_stand_in")
ON_STAND_IN = """
typedef unsigned u;
double stand_in_worked;
#define work_us(us) (stand_in_worked += (us) * 1e-6)
float weights[8], last;
int calls;
int axpy(void **args, const u *grid, const u *block, u shared) {
    const float *x = *(const float **)args[0];
    float *z = *(float **)args[1];
    int n = *(int *)args[2];
    work_us(500);
    for (int i = 0; i < n; i++) z[i] = weights[i % 8] * x[i];
    calls += n;
    last = z[n - 1];
    return 0;
}
"""
ON_DEVICE = {
    "right": ("calls += n;", "calls = calls + n;", Status.OK, ""),
    "no count": ("calls += n;", "", Status.WRONG_RESULT, "calls[0] is"),
    "left out": ("last = z[n - 1];", "", Status.WRONG_RESULT, "last[0] is nan"),
    "kept": (
        "work_us(500);",
        "static int before; before += n; calls = before; work_us(500);",
        Status.WRONG_RESULT,
        "",
    ),
    "input": ("calls += n;", "calls += n; weights[0] = 0;", Status.WRONG_RESULT, "writes to input weights"),
    "small": ("weights[8]", "weights[4]", Status.OUT_OF_RESOURCES, "weights takes 32 bytes"),
}


def _task() -> Task:
    n = (parse("n"),)
    initial = Initial(kind="constant", options={"value": parse("3")})
    one = {"shape": (parse("1"),), "value": parse("3"), "passing": "global", "initial": initial}
    arguments = (
        Argument(name="x", dtype="float32", shape=n),
        Argument(name="z", dtype="float32", shape=n, role=ArgumentRole.OUTPUT),
        Argument(name="n", dtype="int32", value=parse("n")),
        Argument(name="weights", dtype="float32", shape=(parse("8"),), passing="global"),
        Argument(name="calls", dtype="int32", role=ArgumentRole.INOUT, fixed=True, **one),
        Argument(name="last", dtype="float32", role=ArgumentRole.OUTPUT, **one),
    )
    task: Task = STAND_IN.make_task(ON_STAND_IN)
    return replace(task, arguments=arguments)


@pytest.mark.integration
@needs.cc
def test_each_call_on_a_device_finds_its_own_values_and_what_it_leaves_is_compared(tmp_path: Path) -> None:
    evaluation = STAND_IN.StandInBackend(tmp_path).prepare(_task(), workers=1)
    try:
        (base,) = evaluation.build([STAND_IN.request(0, ON_STAND_IN)])
        report = evaluation.set_baseline(base, STAND_IN.RESOLVED)
        assert report.status is Status.OK, report.message
        for name, (old, new, status, message) in ON_DEVICE.items():
            assert old in ON_STAND_IN
            text = ON_STAND_IN.replace(old, new)
            (build,) = evaluation.build([STAND_IN.request(1, text)])
            session = evaluation.open(build, STAND_IN.RESOLVED, purpose="search", number=0)
            verdict = session.verify()
            assert (verdict.status, message in verdict.message) == (status, True), (name, verdict.message)
            if name == "right":
                measured = session.measure(problem=0, calls=4)
                assert measured.status is Status.OK, measured.message
            session.close()
    finally:
        evaluation.close()
