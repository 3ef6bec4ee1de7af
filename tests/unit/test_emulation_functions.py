"""CUDA's mathematics, conversions, integer intrinsics and half precision under emulation, against Python's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.core.types import Status
from tuner.evaluators.emulation import Emulator
from tuner.spec.load import load_spec

SPEC = """\
kernel: {{source: k.cu, entry: k}}
target: sm_90
problem: {{n: 40}}
arguments:
  - {{name: x, dtype: float64, shape: [n], init: {{uniform: [0.05, 0.95]}}}}
  - {{name: w, dtype: int64, shape: [n], init: {{randint: [-1000000000000, 1000000000000]}}}}
  - {{name: y, dtype: float64, shape: ["{count}", n], role: output}}
  - {{name: n, dtype: int32, value: n}}
launch: {{grid: [2], block: [32]}}
verify: {{rtol: {rtol}, atol: 1.0e-12, reference: {{python: ref.py:expected}}}}
"""
KERNEL = """\
#include <cmath>
#include <cuda_fp16.h>
__global__ void k(const double *x, const long *w, double *y, int n) {{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    double v = fmin(fmax(x[at], 0.05), 0.95), other = 1 - v, a, b; float f = (float)v, g;
    long long l = w[at]; int i = (int)(l % 1000000), e; unsigned u = (unsigned)(l & 0xffffffff);
    half h = __float2half(f); half2 two = __floats2half2_rn(f, -f);
{lines}
}}
"""
REFERENCE = """\
import math
from statistics import NormalDist
import numpy as np

def half(value):
    return float(np.float16(value))

def bytes_of(word):
    return [word >> 8 * k & 255 for k in range(4)]

def expected(x, w, n):
    rows = []
    for v, l in zip(np.clip(x, 0.05, 0.95).tolist(), [int(l) for l in w.tolist()]):
        other, f, i, u = 1 - v, float(np.float32(v)), int(math.fmod(l, 1000000)), l & 0xffffffff
        h = half(f)
        rows.append([{values}])
    return {{"y": np.array(rows, dtype=float).T}}
"""
EXACT = {
    "lround(v * 9)": "math.floor(v * 9 + 0.5)",
    "llrint(v * 9)": "round(v * 9)",
    "ilogb(v)": "math.frexp(v)[1] - 1",
    "logb(v)": "math.frexp(v)[1] - 1",
    "ldexp(v, 3)": "v * 8",
    "scalbn(v, -2)": "v / 4",
    "scalbln(v, 100000l) > 1e300": "True",
    "frexp(v, &e) + e": "sum(math.frexp(v))",
    "modf(v * 9, &a) + 2 * a": "math.modf(v * 9)[0] + 2 * math.modf(v * 9)[1]",
    "remquo(v * 9, 2.0, &e) + 0 * e": "math.remainder(v * 9, 2)",
    "__double2int_rz(-v * 9)": "-math.floor(v * 9)",
    "__double2int_rd(-v * 9)": "-math.ceil(v * 9)",
    "__double2ll_ru(v * 9)": "math.ceil(v * 9)",
    "__float2uint_rz(f * 1e20f)": "4294967295",
    "__float2int_rn(-f * 1e20f)": "-2147483648",
    "__double2int_rn(0.0 / (v - v))": "-(2**31)",
    "__double2uint_rz(0.0 / (v - v))": "2**31",
    "__float2int_rn(0.0f / (f - f))": "0",
    "(double)__float2ll_rn(0.0f / (f - f))": "-(2.0**63)",
    "(double)__half2ull_rz(__float2half(0.0f / (f - f)))": "2.0**63",
    "__sad(2000000000, -2000000000, 5u)": "4000000005",
    "__reduce_add_sync(__activemask(), 100000000) < 0": "True",
    "min((long)5, 6ul)": "5",
    "(double)max(-1l, 0ul)": "2.0**64",
    'isnan(nan("")) + isnan(nanf(""))': "2",
    "__dp4a(make_char4(1, 2, 3, -4), make_char4(1, 2, 3, 4), 0)": "1 + 4 + 9 - 16",
    "__dp2a_lo(0x00020003, 0x00000504, 1)": "3 * 4 + 2 * 5 + 1",
    "__dp2a_hi(make_short2(3, -2), make_char4(0, 0, -1, 7), 1)": "-3 - 14 + 1",
    "__hiloint2double(__double2hiint(v), __double2loint(v))": "v",
    "(double)__brevll(1ull << 3)": "2.0 ** 60",
    "__byte_perm(u, i, 0x7420)": "bytes_of(u)[0] | bytes_of(u)[2] << 8 | bytes_of(i)[0] << 16 | bytes_of(i)[3] << 24",
    "__funnelshift_lc(u, i, 40)": "u",
    "__funnelshift_rc(u, i, 5)": "(i << 32 | u) >> 5 & 0xffffffff",
    "__hadd(i, -3)": "i - 3 >> 1",
    "__rhadd(i, -3)": "i - 3 + 1 >> 1",
    "__uhadd(u, 0xffffffffu)": "u + 0xffffffff >> 1",
    "(double)__mul64hi(l, l)": "l * l >> 64",
    "(double)__umul64hi(u * 1ull << 31, 1ull << 40)": "u << 71 >> 64",
    "__usad(u, 7u, 1u) == (u > 7 ? u - 7 : 7 - u) + 1": "True",
    "__dp4a((int)0x80ff0102, (int)0x80ff0102, 5)": "128 * 128 + 1 + 1 + 4 + 5",
    "__dp4a(0x80ff0102u, 0x01010101u, 5u)": "0x80 + 0xff + 1 + 2 + 5",
    "umin(u, 5u)": "min(u, 5)",
    "(double)llmax(l, 0ll)": "max(l, 0)",
    "__half2float(hsqrt(h))": "half(np.float32(math.sqrt(h)))",
    "__half2int_rn(h * half(9))": "round(half(h * 9))",
    "__high2float(two * two + two)": "half(half(half(-f) * half(-f)) + half(-f))",
    "__low2float(__hfma2(two, __half2half2(h), two))": "half(h * h + h)",
    "__hgt(h, __float2half(0.5f)) + 2 * __hbge2(two, two)": "(h > 0.5) + 2",
    "__half_as_ushort(h)": "int(np.float16(f).view(np.uint16))",
    "__low2float(h2rcp(two))": "half(np.float32(1) / np.float32(h))",
    "sinpi(3.0) + cospi(2.5) + sinpi(0.5)": "1",
}
CLOSE = {
    "normcdfinv(v)": "NormalDist().inv_cdf(v)",
    "-erfcinv(2 * v) * sqrt(2.0)": "NormalDist().inv_cdf(v)",
    "erf(erfinv(-v))": "-v",
    "erfc(erfcinv(v * 1e-12))": "v * 1e-12",
    "normcdf(v)": "math.erfc(-v / math.sqrt(2)) / 2",
    "erfcx(v * 20)": "math.exp(400 * v * v) * math.erfc(20 * v)",
    "erfcx(1000 * v + 1000)": "1 / (math.sqrt(math.pi) * (1000 * v + 1000)) * (1 - 0.5 / (1000 * v + 1000) ** 2)",
    "sinpi(v * 9)": "math.sin(math.pi * v * 9)",
    "rcbrt(v)": "v ** (-1 / 3)",
    "norm3d(v, other, 2.0)": "math.hypot(v, other, 2)",
    "rnorm4d(v, other, 2.0, 3.0)": "1 / math.hypot(v, other, 2, 3)",
    "rhypot(v, other)": "1 / math.hypot(v, other)",
    "__dsub_rz(v, other) + __fma_ru(v, v, v) + __ddiv_rn(v, 3.0) + __dsqrt_rd(v)":
        "v - other + v * v + v + v / 3 + math.sqrt(v)",
    "std::sqrt(v) * M_PI + std::abs(-v)": "math.sqrt(v) * math.pi + v",
}  # fmt: skip
FLOAT = {
    "normcdfinvf(f)": "NormalDist().inv_cdf(f)",
    "erfinvf(f)": "NormalDist().inv_cdf((f + 1) / 2) / math.sqrt(2)",
    "sinpif(f)": "math.sin(math.pi * f)",
    "modff(f * 9, &g) + g": "f * 9",
    "normf(1, &f) + rnorm3df(f, 1, 1)": "f + 1 / math.hypot(f, 1, 1)",
    "__fadd_rd(f, 1.0f) + __frcp_rz(f) + fdividef(f, 3.0f) + __tanhf(f)": "f + 1 + 1 / f + f / 3 + math.tanh(f)",
    "__half2float(hexp(h))": "half(math.exp(h))",
}


def emulated(path: Path) -> None:
    """The spec's baseline passes under emulation."""
    (loaded,) = load_spec(path)
    space = loaded.space(None)
    emulator = Emulator(loaded.task)
    try:
        report = emulator.set_baseline(space.resolve(space.default()), loaded.task.kernel.variant)
    finally:
        emulator.close()
    assert report.status is Status.OK, report.message


@pytest.mark.parametrize(("functions", "rtol"), [(EXACT, 1e-15), (CLOSE, 1e-9), (FLOAT, 2e-3)])
@pytest.mark.integration
def test_functions_are_as_python_has_them(tmp_path: Path, functions: dict[str, str], rtol: float) -> None:
    lines = "\n".join(f"    y[{row} * n + at] = {text};" for row, text in enumerate(functions))
    (tmp_path / "k.cu").write_text(KERNEL.format(lines=lines))
    (tmp_path / "ref.py").write_text(REFERENCE.format(values=", ".join(f"({v})" for v in functions.values())))
    (tmp_path / "k.yaml").write_text(SPEC.format(count=len(functions), rtol=rtol))
    emulated(tmp_path / "k.yaml")


@pytest.mark.integration
def test_tiles_of_a_tile_are_counted_within_it(tmp_path: Path) -> None:
    text = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void k(const double *x, const long *w, double *y, int n) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<8>(warp);
    int rank = block.thread_rank(), all;
    int whole = tile.match_all(rank / 8, all) == 0xffu && all;
    int made = tile.meta_group_rank() + 10 * tile.meta_group_size() + 100 * warp.meta_group_rank();
    made += 1000 * (tile.match_any(rank % 2) == (rank % 2 ? 0xaau : 0x55u)) + 10000 * whole;
    made += 100000 * cg::reduce(tile, 1 << rank % 8, cg::bit_or<int>()) + block.group_dim().y;
    if (rank < n) y[rank] = made;
}
"""
    (tmp_path / "k.cu").write_text(text)
    reference = (
        "import numpy as np\ndef expected(x, w, n):\n    at = np.arange(n)\n"
        "    made = at // 8 % 4 + 40 + 100 * (at // 32) + 11000 + 25500000 + 1\n"
        '    return {"y": made.astype(float)[None, :]}\n'
    )
    (tmp_path / "ref.py").write_text(reference)
    spec = SPEC.format(count=1, rtol=1e-15).replace("grid: [2], block: [32]", "grid: [1], block: [64]")
    (tmp_path / "k.yaml").write_text(spec)
    emulated(tmp_path / "k.yaml")


@pytest.mark.integration
def test_atomics_on_halves_and_matches_of_a_warp(tmp_path: Path) -> None:
    text = """
#include <cuda_fp16.h>
__global__ void k(const double *x, const long *w, double *y, int n) {
    __shared__ half2 sum;
    if (threadIdx.x == 0) sum = __float2half2_rn(0);
    __syncthreads();
    atomicAdd(&sum, __floats2half2_rn(1, 2));
    int all;
    unsigned same = __match_all_sync(~0u, 7, &all);
    unsigned not_same = __match_all_sync(~0u, (int)threadIdx.x, &all);
    __syncthreads();
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) y[at] = __low2float(sum) + 100 * __high2float(sum) + (same == ~0u) + not_same + all;
}
"""
    (tmp_path / "k.cu").write_text(text)
    reference = 'import numpy as np\ndef expected(x, w, n):\n    return {"y": np.full((1, n), 6433.0)}\n'
    (tmp_path / "ref.py").write_text(reference)
    (tmp_path / "k.yaml").write_text(SPEC.format(count=1, rtol=1e-15))
    emulated(tmp_path / "k.yaml")
