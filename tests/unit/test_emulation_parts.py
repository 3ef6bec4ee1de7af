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
from tuner.evaluators.emulation.launch import architecture_macro, barrier_counts_ended, over_limit
from tuner.evaluators.emulation.reports import Finding, read_report
from tuner.evaluators.emulation.rewriting import mark_lines, place_shared
from tuner.evaluators.workloads import make_workload
from tuner.spaces.launch import Geometry
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


@pytest.mark.parametrize(
    ("block", "shared_bytes", "static_bytes", "target", "message"),
    [
        ((32, 32, 1), 0, 0, "sm_90", ""),
        ((32, 33, 1), 0, 0, "sm_90", "1056"),
        ((1, 1, 65), 0, 0, "sm_90", "block.z is 65"),
        ((1, 1, 1), 0, 49153, "sm_90", "49153 bytes of static shared memory"),
        ((1, 1, 1), 227 << 10, 0, "sm_90", ""),
        ((1, 1, 1), 227 << 10, 1, "sm_90", "232449"),
        ((1, 1, 1), 100 << 10, 0, "sm_89", "102400"),
        ((1, 1, 1), 100 << 10, 0, "native", ""),
    ],
)
def test_limits_of_devices(
    block: tuple[int, int, int], shared_bytes: int, static_bytes: int, target: str, message: str
) -> None:
    shape = Geometry(grid=(1, 1, 1), block=block, shared_bytes=shared_bytes)
    said = over_limit(shape, static_bytes, target)
    assert message in said
    assert bool(said) == bool(message)


def test_architectures() -> None:
    assert architecture_macro("sm_86") == "-D__CUDA_ARCH__=860"
    assert architecture_macro("native") == "-D__CUDA_ARCH__=900"
    assert barrier_counts_ended("sm_61")
    assert not barrier_counts_ended("sm_90a")


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


def test_shared_variables_get_a_section_and_a_gap() -> None:
    text = (
        "@_ZZ1kE4tile = internal global [8 x float] undef, align 4\n"
        "@zero = global i32 0, align 4\n"
        "@one = external global [0 x float], align 4\n"
        "@two = external global [0 x double], align 8\n"
        "  %a = getelementptr float, ptr @one, i64 %i\n"
        "  %b = getelementptr float, ptr @two, i64 %i\n"
    )
    placed = place_shared(text, "entry")
    assert (
        '@_ZZ1kE4tile = linkonce_odr global { [8 x float], [64 x i8] } undef, section "emu_shared", align 16'
        in placed
    )
    assert "@zero = global i32 0, align 4" in placed
    assert placed.count("@emu_dynamic = external") == 1
    assert placed.count("ptr @emu_dynamic, i64 %i") == 2


def test_a_line_is_the_one_of_the_kernels_own_file() -> None:
    text = (
        "@llvm.global_ctors = appending global [1 x ptr] [ptr @init]\n"
        "define void @k() {\n"
        "  call void @__tsan_read4(ptr %a), !dbg !5\n"
        "  call void @other(ptr %a), !dbg !5\n"
        "}\n"
        '!1 = !DIFile(filename: "k.cu", directory: "")\n'
        '!2 = !DIFile(filename: "header.h", directory: "")\n'
        '!3 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 1)\n'
        '!4 = distinct !DISubprogram(name: "h", scope: !2, file: !2, line: 1)\n'
        "!5 = !DILocation(line: 90, column: 1, scope: !4, inlinedAt: !6)\n"
        "!6 = distinct !DILocation(line: 12, column: 3, scope: !3)\n"
    )
    marked = mark_lines(text, "k.cu")
    assert "  store i32 12, ptr @emu_line, align 4\n  call void @__tsan_read4" in marked
    assert marked.count("store i32") == 1
    assert "global_ctors" not in marked
