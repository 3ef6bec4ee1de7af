"""bfloat16 under emulation: every operation rounds once, to the nearest, as a device does."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from tuner.driver.check import check_spec
from tuner.spec.load import load_spec

pytestmark = needs.nvrtc

SPEC = """
kernel: {source: k.cu, entry: k}
target: sm_90
problem: {n: 100}
arguments:
  - {name: a, dtype: float32, shape: [n], init: normal}
  - {name: b, dtype: float64, shape: [n], init: normal}
  - {name: out, dtype: float64, shape: [10, n], role: output}
  - {name: n, dtype: int32, value: n}
launch: {grid: [1], block: [128]}
space: {parameters: {UNUSED: [1, 2]}, passes: off}
verify: {rtol: 0, atol: 0, reference: {python: ref.py:expected}}
"""
KERNEL = """
#include <cuda_bf16.h>
__global__ void k(const float *a, const double *b, double *out, int n) {
    const int i = threadIdx.x;
    if (i >= n) return;
    const __nv_bfloat16 x = a[i], y = b[i], z = __float2bfloat16(3.0f * a[i]);
    // Halves between two neighbours go to the even one; a double with a bit far behind is over the half.
    const double tie = 1.0 + 1.0 / 256, over = tie + 1e-12, under = -(tie - 1e-12);
    __nv_bfloat16 sum = x;
    sum += y;
    const __nv_bfloat162 pair = __halves2bfloat162(x, y) * __halves2bfloat162(z, z);
    const double values[10] = {
        (float)x, (float)y, (float)sum, (float)(x * y), (float)(x / y), (float)(-x - z),
        (float)__nv_bfloat16(tie) + 4.0 * (float)__nv_bfloat16(over) + 16.0 * (float)__nv_bfloat16(under),
        __low2float(pair) + 1024.0 * __high2float(pair),
        (x < y) + 2 * (x == x) + 4 * (x != y) + 8 * (float)__nv_bfloat16(0x1010001)/0x1000000,
        __bfloat16_as_ushort(__nv_bfloat16(3.4e38f)) + 65536.0 * __bfloat16_as_ushort(__nv_bfloat16(-1e300)),
    };
    for (int row = 0; row < 10; row++) out[row * n + i] = values[row];
}
"""
REFERENCE = """
import numpy as np

def near(x):
    part, power = np.frexp(np.asarray(x, dtype=np.float64))
    return np.ldexp(np.rint(part * 256), power - 8)

def expected(a, b, out, n):
    a, b = np.asarray(a, dtype=np.float32), np.asarray(b, dtype=np.float64)
    x, y, z = near(a), near(b), near(np.float32(3) * a)
    up = 1 + 1 / 128
    rows = [x, y, near(x + y), near(x * y), near(x / y), near(-x - z), 1 + 4 * up - 16 * 1.0,
            near(x * z) + 1024 * near(y * z),
            (x < y) + 2 + 4 * (x != y) + 8 * near(0x1010001) / 0x1000000, 0x7f80 + 65536.0 * 0xff80]
    return {"out": np.array([np.broadcast_to(np.asarray(r, dtype=np.float64), (n,)) for r in rows])}
"""


def checked(folder: Path, kernel: str) -> tuple[bool, str]:
    """Whether the kernel passes, and the last line of the check."""
    (folder / "k.cu").write_text(kernel)
    (folder / "ref.py").write_text(REFERENCE)
    (folder / "k.yaml").write_text(SPEC)
    (spec,) = load_spec(folder / "k.yaml")
    report = check_spec(spec, faults=False)
    return report.ok, " ".join(report.lines[-1])


@pytest.mark.integration
def test_every_operation_rounds_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    ok, said = checked(tmp_path, KERNEL)
    assert ok, said


@pytest.mark.integration
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        # Rounded but once at the end of two operations.
        (KERNEL.replace("(float)(-x - z)", "(float)__nv_bfloat16(-(float)x - 3.0f * a[i])"), "wrong_result"),
        (KERNEL.replace("(float)(x * y)", "(float)__hfma(x, y, __nv_bfloat16(0.0f))"), "__hfma"),
    ],
)
def test_wrong_or_unknown_operations_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, says: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    ok, said = checked(tmp_path, wrong)
    assert not ok
    assert says in said
