"""Half precision by NVRTC, by clang with its pass orders, and under emulation: the same source for all three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import needs
import pytest

from tuner.core.types import Build, BuildRequest, Status
from tuner.driver.check import check_spec
from tuner.evaluators.cuda.compiler import CudaCompiler
from tuner.spec.load import load_spec

pytestmark = [*needs.nvrtc, *needs.cuda_headers, *needs.cuda_passes]

SPEC = """\
kernel: {{source: k.cu, entry: k}}
target: sm_90
problem: {{n: 40}}
arguments:
  - {{name: h, dtype: float16, shape: [n], init: {{uniform: [0.05, 0.95]}}}}
  - {{name: y, dtype: float32, shape: ["{count}", n], role: output}}
  - {{name: n, dtype: int32, value: n}}
launch: {{grid: [1], block: [BLOCK]}}
space: {{parameters: {{BLOCK: [64, 128]}}, passes: {passes}}}
verify: {{rtol: 1.0e-5, atol: 1.0e-5, reference: {{python: ref.py:expected}}}}
"""
KERNEL = """\
#include <cuda_fp16.h>
__global__ void k(const __half *h, float *y, int n) {{
    const int at = threadIdx.x;
    if (at >= n) return;
    const half v = h[at], one = __float2half(1.0f), none = __ushort_as_half(0x7e00);
    const half2 two = __halves2half2(v, __hneg(v)), ones = __half2half2(one), nan2 = make_half2(v, none);
{lines}
}}
"""
REFERENCE = """\
import numpy as np

def expected(h, y, n):
    v, H, F = h.astype(np.float16), np.float16, np.float64
    one = H(1)
    with np.errstate(all="ignore"):
        return {{"y": np.array([np.broadcast_to(np.asarray(r, dtype=np.float64), v.shape) for r in [{values}]])}}
"""
FUNCTIONS = {
    "__half2float(v + one)": "v + one",
    "__half2float(__hsub(v, one) * v / one)": "(v - one) * v",
    "__low2float(__hadd2(two, ones)) + 2 * __high2float(two + ones)": "F(v + one) + 2 * F(one - v)",
    "__low2float(two - ones) + 2 * __high2float(two * two)": "F(v - one) + 2 * F(v * v)",
    "__low2float(__h2div(ones, two))": "H(one / v)",
    "__low2float(__hfma2(two, two, ones))": "(v.astype(float) ** 2 + 1).astype(H)",
    "__half2float(__hfma(v, v, one))": "(v.astype(float) ** 2 + 1).astype(H)",
    "__high2float(__hfma2_relu(two, ones, two))": "0",
    "__half2float(__hfma_sat(v, one, one))": "1",
    "__low2float(__hadd2_sat(ones, two)) + __high2float(__hsub2_sat(two, ones))": "1",
    "__half2float(__hmax(v, one)) + __high2float(__hmax2(two, nan2))": "1 - F(v)",
    "__half2float(__hmin(v, none)) + __low2float(__hmin2(two, ones))": "2 * F(v)",
    "__hisnan(__hmax_nan(v, none)) + __hisnan(__high2half(__hmin2_nan(ones, nan2)))": "2",
    "__heq(v, v) + 2 * __hne(v, none) + 4 * __hneu(v, none) + 8 * __hltu(none, v) + 16 * __hgt(v, none)": "1 + 4 + 8",
    "__hbeq2(two, two) + 2 * __hbne2(two, two) + 4 * __hbgeu2(nan2, nan2)": "1 + 4",
    "__low2float(__hlt2(two, ones)) + (__hle2_mask(nan2, ones) == 0xffffu)": "2",
    "__low2float(h2sqrt(ones)) + __half2float(hfloor(v)) + __half2float(hceil(v))": "2",
    "__half2int_rz(__float2half(-7.5f)) + (int)__half2uint_ru(v) + __half2short_rn(__float2half(2.5f))": "-7 + 1 + 2",
    "__half2int_rn(none) + __half2ushort_rz(__float2half(-3.0f)) + __half2char_rz(__float2half(300.0f))": "127",
    "__half2ll_rd(__hneg(v)) + __half2ull_rz(one) + __half2uchar_rz(__float2half(300.0f))": "-1 + 1 + 255",
    "__half2float(__int2half_rn(7)) + __half2float(__ull2half_rz(9ull)) + __half2float(__short2half_ru(-3))": "13",
    "__half_as_ushort(v) - (float)__half_as_short(v)": "0",
    "__low2float(__floats2half2_rn(0.5f, 1.5f)) + __half22float2(__lowhigh2highlow(two)).y": "0.5 + F(v)",
    "__low2float(__lows2half2(ones, two)) + __high2float(__highs2half2(two, ones)) + __hisinf(v)": "2",
    "__half2float(__habs(__high2half(two))) + __high2float(__habs2(__hneg2(two)))": "2 * F(v)",
    "__half2float(__ldg(h + at)) + __low2float(__ldg((const half2 *)h))": "F(v) + F(v[0])",
    "__half2float(__shfl_sync(__activemask(), one, at)) + __low2float(__shfl_xor_sync(__activemask(), ones, 0))": "2",
    "(two == two) + (two != ones) + (v < one) + (v >= one)": "3",
    "__half2float(__hadd_rn(v, one)) - __half2float(__hmul_rn(one, one)) + __low2float(__hsub2_rn(two, two))":
        "F(v + one) - 1",
    "__half2float(half(0.25f)) + float(nv_half(2)) + __low2float(__nv_half2(one, v))": "3.25",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")


def write(folder: Path, lines: Sequence[str], values: Sequence[str], *, passes: str = "{}") -> Path:
    """A spec of a kernel with one statement for each row of its output."""
    (folder / "k.cu").write_text(KERNEL.format(lines="\n".join(lines)))
    (folder / "ref.py").write_text(REFERENCE.format(values=", ".join(f"({v})" for v in values)))
    (folder / "k.yaml").write_text(SPEC.format(count=len(values), passes=passes))
    return folder / "k.yaml"


def by_llvm(path: Path) -> Build:
    """What clang and LLVM's O3 make of a kernel."""
    (spec,) = load_spec(path)
    task, space = spec.task_with(seed=0), spec.space(None)
    request = BuildRequest(trial=0, variant=task.kernel.variant, resolved=space.resolve(space.default()))
    with CudaCompiler("sm_90") as compiler:
        return compiler.build_by_llvm(task, replace(request))


@pytest.mark.integration
def test_all_three_know_the_functions_and_emulation_has_them_right(tmp_path: Path) -> None:
    lines = [f"    y[{row} * n + at] = {text};" for row, text in enumerate(FUNCTIONS)]
    (spec,) = load_spec(write(tmp_path, lines, list(FUNCTIONS.values())))
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines
    facts = dict(report.lines)
    assert "builds" in facts["baseline"]
    assert "O3 takes" in facts["LLVM"], facts["LLVM"]


@pytest.mark.integration
def test_pairs_are_computed_at_once(tmp_path: Path) -> None:
    lines = [
        "    half2 sum = __hfma2(((const half2 *)h)[at / 2], ones, two); sum = sum * two - __hmax2(sum, ones);",
        "    y[at] = __low2float(sum) + __high2float(sum);",
    ]
    build = by_llvm(write(tmp_path, lines, ["v"], passes="off"))
    assert build.status is Status.OK, build.message
    ptx = build.artifacts["ptx"]
    assert "fma.rn.f16x2" in ptx
    assert "max.f16x2" in ptx
    assert not [
        line for line in ptx.splitlines() if line.split()[:1] in (["fma.rn.f16"], ["mul.f16"], ["add.f16"])
    ]


@pytest.mark.integration
def test_named_roundings_are_not_contracted_and_atomic_additions_are_the_devices_own(tmp_path: Path) -> None:
    lines = [
        "    __shared__ half2 sum; __shared__ half other; sum = ones; other = one; __syncthreads();",
        "    atomicAdd(&sum, two); atomicAdd(&other, v); __syncthreads();",
        "    y[at] = __low2float(sum) + __half2float(other);",
        "    y[at] += __half2float(__hadd_rn(__hmul_rn(v, v), one));",
        "    y[at] += __low2float(__hadd2_rn(__hmul2_rn(two, two), ones));",
    ]
    build = by_llvm(write(tmp_path, lines, ["v"], passes="off"))
    assert build.status is Status.OK, build.message
    assert "fma" not in build.artifacts["ptx"]
    assert "atom.add.noftz.f16x2" in build.artifacts["ptx"]
    assert "add.noftz.f16 " in build.artifacts["ptx"].replace("\t", " ")


@pytest.mark.integration
def test_halves_convert_as_the_class_of_cudas_own_does(tmp_path: Path) -> None:
    lines = [
        "    float f = v; half a{f}, b = half(f), c = f, d = 3; half2 e{f, f}, g(f, f), z = half2(a, b);",
        "    a += c; a = a * b / c - d; a += d; a++; ++a; bool is = a; int whole = a; if (!is) a = -a;",
        "    z = z + e * g; z += e; z++; --z; z.x = +z.x;",
        "    __half_raw raw = z.y; raw.x ^= 0x8000; const half turned(raw);",
        "    y[at] = (whole >= 2) + (z > e) + (z != e) + (+z == z) + (turned == -z.y) + (is && a > c);",
        '    static_assert(sizeof(half2) == 4 && alignof(half2) == 4, "");',
    ]
    (spec,) = load_spec(write(tmp_path, lines, ["6"]))
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines
    assert "O3 takes" in dict(report.lines)["LLVM"], dict(report.lines)["LLVM"]


@pytest.mark.integration
def test_a_parameter_and_a_template_of_halves(tmp_path: Path) -> None:
    path = write(tmp_path, [], ["2 * F(v)"], passes="{}")
    (tmp_path / "k.cu").write_text(
        "#include <cuda_fp16.h>\n"
        "template <typename T> __device__ float twice(T v) { return (float)v * 2.0f; }\n"
        "template <> __device__ float twice<__half>(__half v) { return __half2float(__hadd(v, v)); }\n"
        "template <typename T> __global__ void k(const T *h, float *y, int n) {\n"
        "    if (threadIdx.x < n) y[threadIdx.x] = twice(h[threadIdx.x]);\n}\n"
    )
    path.write_text(path.read_text().replace("entry: k", 'entry: "k<__half>"'))
    (spec,) = load_spec(path)
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines
    assert "O3 takes" in dict(report.lines)["LLVM"]
