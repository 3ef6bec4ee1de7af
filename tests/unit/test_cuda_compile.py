"""Candidates through the real NVRTC: cubins, resources, keys, failures. No GPU is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import pytest

from tuner.core.errors import MachineError, SpecError
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
from tuner.evaluators.cuda import compiler as compiling
from tuner.evaluators.cuda.compiler import CudaCompiler, entry_expression
from tuner.evaluators.cuda.cubin import code_key, resources

pytestmark = needs.nvrtc

SUM = """
#include "scale.h"
__constant__ float weights[8];
template <typename T, int N>
__global__ void __launch_bounds__(BLOCK) sum(const T *x, T *y, int n) {
    __shared__ T part[BLOCK];
    T own = 0;
    for (int k = 0; k < N; k++) {
        int i = (blockIdx.x * N + k) * BLOCK + threadIdx.x;
        own += i < n ? scale(x[i]) * weights[k % 8] : 0;
    }
    part[threadIdx.x] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < BLOCK; k++) own += part[k];
        atomicAdd(y, own);
    }
}
extern "C" __global__ void other(float *x) { x[threadIdx.x] = 1; }
"""
HEADER = "__device__ inline float scale(float x) { return 2 * x; }\n"


def make_task(text: str = SUM, *, entry: str = "sum<float, TILE>", shared: str | None = None) -> Task:
    """One input, one output, one size."""
    files = (Source(name="sum.cu", text=text), Source(name="scale.h", text=HEADER))
    return Task(
        kernel=Kernel(
            name="sum", entry=entry, language="cuda", variant=Variant(files=files), folder="/nowhere"
        ),
        backend="cuda",
        target="sm_90",
        arguments=(
            Argument(name="x", dtype="float32", shape=(parse("n"),)),
            Argument(name="y", dtype="float32", shape=(parse("1"),), role=ArgumentRole.INOUT),
            Argument(name="n", dtype="int32", value=parse("n")),
        ),
        problems=(Problem(sizes={"n": 100_000}),),
        verify=VerifyPolicy(),
        measure=MeasurePolicy(),
        launch=Launch(
            grid=(parse("ceil(n / (BLOCK * TILE))"),),
            block=(parse("BLOCK"),),
            shared_bytes=None if shared is None else parse(shared),
        ),
    )


@pytest.fixture(scope="module")
def compiler() -> Iterator[CudaCompiler]:
    """Two workers for sm_90."""
    with CudaCompiler("sm_90", workers=2) as made:
        yield made


def resolved(*flags: str, **macros: Any) -> Resolved:
    """A configuration."""
    given = {"BLOCK": 128, "TILE": 4} | macros
    return Resolved(macros=given, scalars={}, flags=flags, pipeline=None)


def build(compiler: CudaCompiler, task: Task, *configurations: Resolved) -> list[Build]:
    """Builds of the task's own source."""
    variant = task.kernel.variant
    return compiler.build(
        task, [BuildRequest(trial=i, variant=variant, resolved=r) for i, r in enumerate(configurations)]
    )


def test_a_template_with_a_header_gives_a_cubin_with_its_resources(compiler: CudaCompiler) -> None:
    task = make_task()
    (made,) = build(compiler, task, resolved())
    assert made.status is Status.OK, made.message
    assert made.code[:4] == b"\x7fELF"
    assert compiler.made(made).symbol.startswith("_Z3sum")
    assert made.features["static_shared_bytes"] == 512
    assert made.features["spill_bytes"] == 0
    assert 8 <= made.features["registers_count"] <= 64
    assert made.features["occupancy_share"] == 1.0
    assert made.features["constant_bytes"] > 32
    assert made.features["ptx_barriers_count"] >= 1
    assert made.features["ptx_atomics_count"] == 1
    assert made.features["ptx_global_loads_count"] >= 4
    assert compiler.made(made).usage.most_threads == 128
    assert ".entry" in made.artifacts["ptx"]


def test_equal_requests_give_equal_bytes_and_other_values_another_key(compiler: CudaCompiler) -> None:
    task = make_task()
    one, again, tile, fused, fast = build(
        compiler,
        task,
        resolved(),
        resolved(),
        resolved(TILE=8),
        resolved("--fmad=true"),
        resolved("--use_fast_math"),
    )
    assert (one.code, one.key) == (again.code, again.key)
    assert tile.key != one.key
    # What is so without the flag makes a duplicate; flushing denormals is other code.
    assert fused.key == one.key
    assert fast.key != one.key


def test_template_arguments_in_the_name_do_not_make_a_key(compiler: CudaCompiler) -> None:
    text = "template <int N> __global__ void k(float *x, float *y, int n) { y[0] = x[0]; }"
    task = make_task(text, entry="k<WHICH>")
    one, other = build(compiler, task, resolved(WHICH=1), resolved(WHICH=2))
    assert one.status is other.status is Status.OK, one.message
    assert one.code != other.code
    assert one.key == other.key


def test_another_kernel_of_the_source_does_not_count(compiler: CudaCompiler) -> None:
    (one,) = build(compiler, make_task(), resolved())
    changed = make_task(SUM.replace("= 1; }", "= 2; }"))
    (other,) = build(compiler, changed, resolved())
    assert one.code != other.code
    assert one.key == other.key


def test_geometry_and_scalars_are_part_of_the_key(compiler: CudaCompiler) -> None:
    task = make_task(shared="64 * TILE")
    one, shared = build(compiler, task, resolved(), replace(resolved(), scalars={"LATER": 3}))
    assert one.key != shared.key


def test_registers_limited_by_a_flag_spill(compiler: CudaCompiler) -> None:
    lines = "".join(f"float v{i} = x[i * {i + 1} + n];" for i in range(64))
    sums = "".join(f"v{i} = v{i} * v{(i + 7) % 64} + v{(i + 31) % 64};" for i in range(64))
    stores = "".join(f"y[i * {i + 1}] = v{i};" for i in range(64))
    text = (
        'extern "C" __global__ void k(const float *x, float *y, int n) { int i = threadIdx.x;'
        f"{lines} for (int r = 0; r < n; r++) {{ {sums} }} {stores} }}"
    )
    task = make_task(text, entry="k")
    free, tight = build(compiler, task, resolved(), resolved("-maxrregcount=24"))
    assert free.features["spill_bytes"] == 0
    assert free.features["registers_count"] > 24
    assert tight.features["registers_count"] <= 24
    assert tight.features["spill_bytes"] > 0


@pytest.mark.parametrize(
    ("text", "entry", "says"),
    [
        (
            SUM.replace("own = 0;", "own = zero;"),
            "sum<float, TILE>",
            'sum.cu(7): identifier "zero" is undefined',
        ),
        (SUM, "add", "there is no kernel 'add'"),
        (SUM, "sum", "for a template write its arguments, sum<...>"),
        (SUM.replace("scale.h", "missing.h"), "sum<float, TILE>", "cannot open source file"),
        (SUM.replace("int n)", "int n, int m)"), "sum<float, TILE>", "takes 4 arguments, the spec lists 3"),
        (SUM.replace("int n)", "float n)"), "sum<float, TILE>", "floating number of 4 bytes"),
        (SUM.replace("int n)", "long n)"), "sum<float, TILE>", "8 bytes in the source, int32"),
        ("", "k", "there is no kernel"),
    ],
)
def test_build_errors_are_one_line(compiler: CudaCompiler, text: str, entry: str, says: str) -> None:
    (made,) = build(compiler, make_task(text, entry=entry), resolved())
    assert made.status is Status.BUILD_ERROR
    assert says in made.message
    assert "\n" not in made.message
    assert made.code == b""


def test_a_short_macro_that_breaks_the_compilers_headers_is_named(compiler: CudaCompiler) -> None:
    (made,) = build(compiler, make_task(), resolved(T=16))
    assert made.status is Status.BUILD_ERROR
    assert "macro T is so short" in made.message


@pytest.mark.parametrize(
    ("macros", "shared", "says"),
    [
        ({"BLOCK": 2048}, None, "block.x is 2048"),
        ({}, "300 * 1024", "shared memory"),
        ({"BLOCK": 64}, "n * 4", "shared memory"),
    ],
)
def test_over_a_limit_is_found_before_any_launch(
    compiler: CudaCompiler, macros: dict[str, int], shared: str | None, says: str
) -> None:
    text = 'extern "C" __global__ void k(const float *x, float *y, int n) { y[0] = x[0]; }'
    (made,) = build(compiler, make_task(text, entry="k", shared=shared), resolved(**macros))
    assert made.status is Status.OUT_OF_RESOURCES
    assert says in made.message


def test_a_geometry_that_cannot_be_is_a_build_error(compiler: CudaCompiler) -> None:
    (made,) = build(compiler, make_task(), resolved(BLOCK=128, TILE=0))
    assert made.status is Status.BUILD_ERROR


def test_a_compiler_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "template <int N> struct F { static const long v = F<N - 1>::v + F<N - 2>::v; };\n"
        'extern "C" __global__ void k(const float *x, float *y, int n) {\n'
        + "\n".join(
            f"#pragma unroll\nfor (int i = 0; i < 4096; i++) y[i * {k}] += x[i * {k}];" for k in range(1, 40)
        )
        + "}"
    )
    short = 'extern "C" __global__ void k(const float *x, float *y, int n) { y[0] = x[0]; }'
    with CudaCompiler("sm_90") as compiler:
        with monkeypatch.context() as patch:
            patch.setattr(compiler._pool, "_timeout_s", 0.3)
            (made,) = build(compiler, make_task(text, entry="k"), resolved())
        # With all the time that it may need: how long a new process takes to begin is up to the machine.
        (after,) = build(compiler, make_task(short, entry="k"), resolved())
    assert made.status is Status.TIMED_OUT
    assert after.status is Status.OK, after.message


def test_several_sources_are_compiled_together(compiler: CudaCompiler) -> None:
    one = Source(name="a.cu", text="__device__ float twice(float x) { return 2 * x; }\n")
    two = Source(
        name="b.cu",
        text='extern "C" __global__ void k(const float *x, float *y, int n) { y[0] = twice(x[0]); }\n',
    )
    task = make_task("", entry="k")
    variant = Variant(files=(one, two))
    (made,) = compiler.build(task, [BuildRequest(trial=0, variant=variant, resolved=resolved())])
    assert made.status is Status.OK, made.message


@needs.cuda_headers
def test_headers_of_the_toolkit_are_found(compiler: CudaCompiler) -> None:
    text = (
        "#include <cuda_fp16.h>\n"
        'extern "C" __global__ void k(const float *x, float *y, int n) { y[0] = __half2float(__float2half(x[0])); }'
    )
    (made,) = build(compiler, make_task(text, entry="k"), resolved())
    assert made.status is Status.OK, made.message


def test_double_for_float(compiler: CudaCompiler) -> None:
    made = compiler.build_double(make_task(), resolved("--use_fast_math"))
    assert made.status is Status.OK, made.message
    assert ".f64" in made.artifacts["ptx"]
    assert "ex2.approx" not in made.artifacts["ptx"]
    assert made.features["static_shared_bytes"] == 1024


def test_architectures() -> None:
    with pytest.raises(SpecError, match="sm_91 is not known to NVRTC"):
        CudaCompiler("sm_91")
    for name in ("sm_80", "sm_90a", "sm_120"):
        with CudaCompiler(name) as compiler:
            (made,) = build(compiler, make_task(), resolved())
            assert made.status is Status.OK, made.message


def test_no_nvrtc_is_one_line_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "find_library", lambda: "")
    with pytest.raises(MachineError, match="no NVRTC") as raised:
        CudaCompiler("sm_90")
    assert "remix-tuner[cuda]" in raised.value.hint


def test_an_nvrtc_that_is_none_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "libnvrtc.so.13"
    fake.write_bytes(b"no library")
    monkeypatch.setattr(compiling, "find_library", lambda: str(fake))
    with pytest.raises(MachineError, match="cannot be used"):
        CudaCompiler("sm_90")


def test_entry_expressions() -> None:
    assert entry_expression("f", {"f": 3}) == "f"
    assert entry_expression("ns::f<T, TILE + 1, FAST>", {"TILE": 4, "FAST": True}) == "ns::f<T, 4 + 1, true>"


def test_bytes_that_are_no_cubin_are_said_to_be_none() -> None:
    for data in (b"", b"\x7fELF", b"nothing" * 40):
        with pytest.raises(ValueError, match="not a cubin"):
            code_key(data, "k", "")
        with pytest.raises(ValueError, match="not a cubin"):
            resources(data, "k", "")
