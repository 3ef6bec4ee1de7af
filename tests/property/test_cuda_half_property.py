"""Half precision under emulation against numpy's: every half, and floats at, between and beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.core.types import Status
from tuner.evaluators.emulation import Emulator
from tuner.spec.load import load_spec

COUNT = 1 << 16
SPEC = """\
kernel: {{source: k.cu, entry: k}}
target: sm_90
problem: {{n: {count}}}
arguments:
  - {{name: h, dtype: uint16, shape: [n], init: {{python: ref.py:halves}}}}
  - {{name: f, dtype: float32, shape: [n], init: {{python: ref.py:floats}}}}
  - {{name: y, dtype: int64, shape: ["{rows}", n], role: output}}
  - {{name: n, dtype: int32, value: n}}
launch: {{grid: ["ceil(n / 256)"], block: [256]}}
verify: {{rtol: 0, atol: 0, nonfinite: propagate, reference: {{python: ref.py:expected}}}}
"""
KERNEL = """\
#include <cuda_fp16.h>
__device__ long long bits(__half x) {{ return __hisnan(x) ? -1 : (long long)__half_as_ushort(x); }}
__device__ long long mixed(unsigned long long before, long long value) {{ return before * 1000003u + value; }}
__global__ void k(const unsigned short *h, const float *f, long long *y, int n) {{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    __half v = __ushort_as_half(h[at]), w = __ushort_as_half(h[(at * 40503u + 7) & 65535]);
    float x = f[at];
    int whole = (at - 32768) * 5;
{lines}
}}
"""
REFERENCE = """\
import numpy as np

quiet = np.errstate(all="ignore")
H, D = np.float16, np.float64
BITS = np.arange({count}, dtype=np.uint16)

def halves(n, **_):
    return BITS

@quiet
def floats(n, **_):
    # Between a half and the next one: a little less, and a little more, and half of the way.
    near = BITS.view(H).astype(np.float32)
    far = np.nextafter(BITS.view(H), H(np.inf)).astype(np.float32)
    middle = (near + far) / np.float32(2)
    side = np.arange({count}) % 4
    made = np.where(side == 1, np.nextafter(middle, np.float32(np.inf)), middle)
    made = np.where(side == 2, np.nextafter(middle, np.float32(-np.inf)), made)
    made = np.where(side == 3, near, made).astype(np.float32)
    made[:8] = [1e9, -1e9, 65519.996, 65520.0, -65520.0, 1e-30, -1e-30, 2.0**-25]
    return made

def bits(x):
    return np.where(np.isnan(x), -1, x.view(np.uint16).astype(np.int64))

def mixed(*values):
    made = np.zeros({count}, dtype=np.int64)
    for value in values:
        made = made * 1000003 + np.asarray(value, dtype=np.int64)
    return made

def towards(x, r):
    # The half on the wanted side of a number.
    near = x.astype(H)
    back = near.astype(D)
    wrong = dict(rz=np.abs(back) > np.abs(x), ru=back < x, rd=back > x, rn=back != back)[r]
    to = dict(rz=H(0), ru=H(np.inf), rd=H(-np.inf), rn=H(0))[r]
    return np.where(wrong, np.nextafter(near, to), near)

def whole(x, r, low, high, none=0):
    made = dict(rn=np.rint, rz=np.trunc, ru=np.ceil, rd=np.floor)[r](x.astype(D))
    # Only infinities lie so far out; the largest 64-bit numbers are no doubles.
    far = 10**18
    made = np.clip(np.where(np.isnan(x), 0, made), -far, far).astype(np.int64)
    made = np.where(made == far, high, np.where(made == -far, low, np.clip(made, low, high)))
    return np.where(np.isnan(x), none, made)

@quiet
def expected(h, f, y, n):
    v, x = BITS.view(H), floats(n)
    w = BITS[(np.arange(n) * 40503 + 7) & 65535].view(H)
    i = ((np.arange(n) - 32768) * 5).astype(D)
    rows = [{values}]
    return {{"y": np.array(rows, dtype=np.int64)}}
"""
LOW, HIGH = -(1 << 63), (1 << 63) - 1
ROWS = {
    **{f"bits(__float2half_{r}(x))": f"bits(towards(x.astype(D), '{r}'))" for r in ("rn", "rz", "ru", "rd")},
    **{f"bits(__int2half_{r}(whole))": f"bits(towards(i, '{r}'))" for r in ("rn", "ru")},
    **{f"bits(__ll2half_{r}(whole))": f"bits(towards(i, '{r}'))" for r in ("rz", "rd")},
    **{
        f"__half2{to}_{r}(v)": f"whole(v, '{r}', {low}, {high}, {none})"
        for to, low, high, none, rounded in (
            ("int", -(1 << 31), (1 << 31) - 1, 0, ("rn", "rz", "ru", "rd")),
            ("uint", 0, (1 << 32) - 1, 0, ("rn", "rd")),
            ("short", -(1 << 15), (1 << 15) - 1, 0, ("rz", "ru")),
            ("ushort", 0, (1 << 16) - 1, 0, ("rn", "rd")),
            ("ll", LOW, HIGH, LOW, ("rz", "ru")),
        )
        for r in rounded
    },
    "bits(__double2half((double)x))": "bits(x.astype(D).astype(H))",
    "bits(__float2half(__half2float(v)))": "bits(v)",
    "bits(__hadd(v, w))": "bits(v + w)",
    "bits(__hsub_rn(v, w))": "bits(v - w)",
    "bits(__hmul_rn(v, w))": "bits(v * w)",
    "bits(__hdiv(v, w))": "bits(v / w)",
    "bits(hsqrt(v))": "bits(np.sqrt(v))",
    "bits(hfloor(v)) + bits(hrint(v))": "bits(np.floor(v)) + bits(np.rint(v))",
    "__hlt(v, w) + 2 * __hle(v, w) + 4 * __heq(v, w) + 8 * __hneu(v, w) + 16 * __hne(v, w)":
        "(v < w) + 2 * (v <= w) + 4 * (v == w) + 8 * (v != w) + 16 * ((v < w) | (v > w))",
    "__hltu(v, w) + 2 * __hgeu(v, w) + 4 * __hequ(v, w)": "1 * ~(v >= w) + 2 * ~(v < w) + 4 * ~((v < w) | (v > w))",
    "__hisnan(v) + 2 * __hisinf(v)": "np.isnan(v) + 2 * np.isinf(v) * np.sign(np.nan_to_num(v.astype(D))).astype(int)",
}  # fmt: skip


MIXED = 4
"""Numbers in each element of the output: all of them take more room than emulation has."""


@pytest.mark.integration
def test_every_half_is_what_numpy_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    texts, values = list(ROWS), list(ROWS.values())
    groups = range(0, len(ROWS), MIXED)
    lines = [
        f"    y[{row} * (long long)n + at] = {'mixed(' * len(part)}0{''.join(f', {text})' for text in part)};"
        for row, part in enumerate(texts[at : at + MIXED] for at in groups)
    ]
    rows = [f"mixed({', '.join(values[at : at + MIXED])})" for at in groups]
    (tmp_path / "k.cu").write_text(KERNEL.format(lines="\n".join(lines)))
    (tmp_path / "ref.py").write_text(REFERENCE.format(count=COUNT, values=",\n        ".join(rows)))
    (tmp_path / "k.yaml").write_text(SPEC.format(count=COUNT, rows=len(rows)))
    (loaded,) = load_spec(tmp_path / "k.yaml")
    space = loaded.space(None)
    emulator = Emulator(loaded.task)
    try:
        report = emulator.set_baseline(space.resolve(space.default()), loaded.task.kernel.variant)
    finally:
        emulator.close()
    assert report.status is Status.OK, report.message
