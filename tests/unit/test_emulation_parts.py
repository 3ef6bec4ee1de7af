"""The emulator at its edges: what it refuses, hostile code, limits, reports, and the text between the steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tuner.core.errors import SpecError, UsageError
from tuner.core.types import Source, Status, Variant
from tuner.evaluators.emulation import Emulator
from tuner.evaluators.emulation.reports import Finding, read_report
from tuner.evaluators.workloads import make_workload
from tuner.spec.load import LoadedSpec, load_spec

KERNEL = """
extern "C" __global__ void scale(const float *x, float *y, int n, int step) {
    for (int i = (blockIdx.x * blockDim.x + threadIdx.x) * step, j = 0; j < step; j++)
        if (i + j < n) y[i + j] = 2.0f * x[i + j];
}
"""
SPEC = """\
kernel: {source: k.cu, entry: scale}
target: sm_90
problem: {n: 300}
arguments:
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
  - {name: step, dtype: int32, value: STEP}
launch: {grid: ["ceil(n / (64 * STEP))"], block: [BLOCK]}
space:
  parameters:
    STEP: {values: [1, 2, 4], macro: false}
    BLOCK: [64, 128, 2048]
"""


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., LoadedSpec]:
    def write(*, kernel: str = KERNEL, spec: str = SPEC) -> LoadedSpec:
        (tmp_path / "k.cu").write_text(kernel)
        (tmp_path / "k.yaml").write_text(spec)
        return load_spec(tmp_path / "k.yaml")[0]

    return write


def variant(text: str) -> Variant:
    return Variant(files=(Source(name="k.cu", text=text),))


@pytest.mark.integration
def test_the_life_of_an_emulator(load: Callable[..., LoadedSpec]) -> None:
    loaded = load()
    space, given = loaded.space(None), loaded.task.kernel.variant
    emulator = Emulator(loaded.task)
    base = space.resolve(space.default())
    with pytest.raises(UsageError, match="no baseline"):
        emulator.verify(base, given)
    report = emulator.set_baseline(base, given)
    assert report.status is Status.OK, report.message
    assert report.reference == "baseline"
    assert emulator.verify(base, given).status is Status.OK
    with pytest.raises(UsageError, match="unknown purpose"):
        emulator.verify(base, given, purpose="speed")
    # A run-time scalar changes the launch and an argument, not what is expected.
    other = space.resolve({**space.default(), "STEP": 4})
    assert emulator.verify(other, given).status is Status.OK
    assert emulator.verify(other, variant(KERNEL.replace("2.0f", "2.1f"))).status is Status.WRONG_RESULT
    large = emulator.verify(space.resolve({**space.default(), "BLOCK": 2048}), given)
    assert large.status is Status.OUT_OF_RESOURCES
    assert "2048" in large.message
    hostile = {
        "int getpid();": "getpid()",
        "int system(const char *);": 'system("true")',
        "void exit(int);": "(exit(0), 0)",
    }
    for declaration, call in hostile.items():
        text = f'extern "C" __device__ {declaration}\n' + KERNEL.replace("2.0f", f"(float){call}")
        verdict = emulator.verify(base, variant(text))
        assert verdict.status is Status.REFUSED, verdict
        assert "the object calls" in verdict.message
    forged = KERNEL.replace(
        "    for", "    unsigned long long *p = (unsigned long long *)&y[0]; if (n < 0) *p = 3;\n    for"
    )
    assert emulator.verify(base, variant(forged)).status is Status.OK
    emulator.close()
    emulator.close()


def test_a_kernel_that_clang_rejects(load: Callable[..., LoadedSpec]) -> None:
    loaded = load()
    space = loaded.space(None)
    base = space.resolve(space.default())
    emulator = Emulator(loaded.task)
    try:
        for text, message in {
            KERNEL.replace("int step)", "long long step)"): "another size than the kernel's parameter",
            KERNEL.replace(", int step)", ")").replace("step", "1"): "another number of arguments",
            KERNEL.replace("2.0f *", '2.0f + asm("mov.u32 %0, %laneid;") *'): "error",
            KERNEL.replace("scale", "other"): "use of undeclared identifier 'scale'",
        }.items():
            report = emulator.set_baseline(base, variant(text))
            assert report.status is Status.BUILD_ERROR
            assert message in report.message
            assert "\n" not in report.message
    finally:
        emulator.close()


def test_only_cuda_is_emulated(load: Callable[..., LoadedSpec]) -> None:
    task = load().task
    with pytest.raises(SpecError, match="only CUDA kernels"):
        Emulator(replace(task, launch=None))
    with pytest.raises(SpecError, match="only CUDA kernels"):
        Emulator(replace(task, kernel=replace(task.kernel, language="c")))


def test_sizes_that_are_too_large_are_said_to_be(load: Callable[..., LoadedSpec]) -> None:
    loaded = load(spec=SPEC.replace("n: 300", "n: 30000000"))
    space = loaded.space(None)
    emulator = Emulator(loaded.task)
    try:
        with pytest.raises(SpecError, match=r"no problem size is small enough .* 240000000 bytes"):
            emulator.set_baseline(space.resolve(space.default()), loaded.task.kernel.variant)
    finally:
        emulator.close()


@pytest.mark.integration
def test_names_of_a_kernel_may_be_any(load: Callable[..., LoadedSpec]) -> None:
    text = (
        "#define T 4\n#define I threadIdx.x\n#define P 1\n#define S 2\n#define words 3\n"
        "__device__ float world[4]; __device__ void yield() {} __device__ void stop() {}\n"
        + KERNEL.replace("    for", "    yield(); stop(); world[I % T] = 1;\n    for").replace(
            "2.0f", "(2.0f * P)"
        )
    )
    loaded = load(kernel=text, spec=SPEC.replace("STEP: {values", "Kernel: [7, 8]\n    STEP: {values"))
    space = loaded.space(None)
    emulator = Emulator(loaded.task)
    try:
        report = emulator.set_baseline(space.resolve(space.default()), loaded.task.kernel.variant)
        assert report.status is Status.OK, report.message
    finally:
        emulator.close()


def test_a_report_may_hold_anything(load: Callable[..., LoadedSpec]) -> None:
    loaded = load()
    workload = make_workload(loaded.task, loaded.task.problems[0], {"STEP": 1}, seed=0)
    assert read_report([0] * 32, loaded.task, workload, ()) is None
    rng = np.random.default_rng(0)
    for finding in (*Finding, 77):
        for _ in range(20):
            words = [int(w) for w in rng.integers(0, 1 << 64, 32, dtype=np.uint64, endpoint=False)]
            words[0] = int(finding)
            report = read_report(words, loaded.task, workload, ())
            assert (report is None) == (finding == 0)
            if report is not None:
                assert report.message
                assert "\n" not in report.message


DYNAMIC = """#include "at.h"
extern "C" __global__ void scale(const float *x, float *y, int n, int step) {
#if __CUDA_ARCH__ != ARCH
#error of another architecture
#endif
    extern __shared__ float one[];
    extern __shared__ unsigned char two[];
    const int own = blockIdx.x * blockDim.x + threadIdx.x;
    one[threadIdx.x] = own < n ? x[own] : 0.0f;
    __syncthreads();
    if (own < n) y[own] = 2.0f * ((float *)two)[threadIdx.x];
    if (own == 0) y[0] = at(x, AT);
}
"""
AT = "__device__ float at(const float *x, int i) { return 2.0f * x[i]; }\n"


@pytest.mark.integration
@pytest.mark.parametrize("architecture", ["sm_86", "native"])
def test_all_shared_memory_of_a_launch_is_one_and_a_fault_has_the_line_of_the_kernels_own_file(
    load: Callable[..., LoadedSpec], tmp_path: Path, architecture: str
) -> None:
    """Also one in a function of a header."""
    number = {"native": "900"}.get(architecture, f"{architecture.removeprefix('sm_')}0")
    text = DYNAMIC.replace("!= ARCH", f"!= {number}")
    (tmp_path / "at.h").write_text(AT)
    spec = SPEC.replace("sm_90", architecture).replace("block: [BLOCK]}", "block: [64], shared_bytes: 256}")
    loaded = load(kernel=text.replace("AT)", "0)"), spec=spec.replace("    BLOCK: [64, 128, 2048]\n", ""))
    space, emulator = loaded.space(None), Emulator(loaded.task)
    base = space.resolve(space.default())
    files = loaded.task.kernel.variant.files
    try:
        report = emulator.set_baseline(base, loaded.task.kernel.variant)
        assert report.status is Status.OK, report.message
        far = replace(files[0], text=text.replace("AT)", "n + 9)"))
        verdict = emulator.verify(base, Variant(files=(far, *files[1:])))
        assert verdict.status is Status.CRASHED
        assert "k.cu:12: out of bounds" in verdict.message
    finally:
        emulator.close()
