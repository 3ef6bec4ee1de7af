"""First specs of CUDA sources: signatures, templates, macros, launch blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.core.errors import UsageError
from tuner.driver.check import check_spec
from tuner.evaluators.cuda.nvrtc import find_library
from tuner.spec.cuda_init import kernels_of
from tuner.spec.init import init_spec
from tuner.spec.load import load_spec

VADD = """
// not one: __global__ void comment(int n) {}
__device__ float helper(float x) { return x; }
__global__ void vadd(const float *__restrict__ a, float const* b, float* __restrict__ c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = helper(a[i]) + b[i];
}
"""
BLUR = """
#include <cuda_fp16.h>
#ifndef WORK
#define WORK 2
#endif
#define RADIUS 1
template <typename T, int SIDE = 3, bool EDGE = true>
__global__ void __launch_bounds__(BLOCK_X * BLOCK_Y)
blur(const T* in, T* __restrict__ out, float4 *wide, const unsigned n, double scale) {
    extern __shared__ float tile[];
    int x = blockIdx.x * BLOCK_X + threadIdx.x, y = blockIdx.y * BLOCK_Y + threadIdx.y;
    for (int k = 0; k < WORK * UNROLL; k++)
        if (x < n && y < n) { out[y * n + x] = in[y * n + x] * scale; wide[x].x += RADIUS; }
}
extern "C" __global__ void second(int *x) { x[0] = 1; }
"""


def write(folder: Path, text: str) -> Path:
    """The source."""
    path = folder / "kernel.cu"
    path.write_text(text)
    return path


def test_signatures_are_read() -> None:
    vadd, *others = kernels_of(VADD)
    assert not others
    assert [(p.name, p.dtype, p.pointer, p.constant) for p in vadd.parameters] == [
        ("a", "float32", True, True),
        ("b", "float32", True, True),
        ("c", "float32", True, False),
        ("n", "int32", False, False),
    ]
    blur, second = kernels_of(BLUR)
    assert blur.template == ("typename T", "int SIDE = 3", "bool EDGE = true")
    assert [(p.name, p.dtype, p.lanes) for p in blur.parameters] == [
        ("in", "float32", 1),
        ("out", "float32", 1),
        ("wide", "float32", 4),
        ("n", "uint32", 1),
        ("scale", "float64", 1),
    ]
    assert second.name == "second"


@pytest.mark.skipif(not find_library(), reason="NVRTC is not installed: extra cuda")
def test_a_first_spec_checks_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    path = tmp_path / "kernel.yaml"
    path.write_text(init_spec(write(tmp_path, VADD)))
    (spec,) = load_spec(path)
    assert spec.task.launch is not None
    report = check_spec(spec)
    assert report.ok, report.lines


def test_templates_macros_and_launch(tmp_path: Path) -> None:
    text = init_spec(write(tmp_path, BLUR), entry="blur")
    assert 'entry: "blur<float, ARG_SIDE, ARG_EDGE>"' in text
    assert "block: [BLOCK_X, BLOCK_Y]" in text
    assert 'grid: ["ceil(n / BLOCK_X)", "ceil(n / BLOCK_Y)"]' in text
    assert "shared_bytes" in text
    assert "WORK: [2, 1, 4, 8]" in text
    assert "UNROLL: [1, 2, 4, 8]" in text
    assert "RADIUS" not in text
    assert "{name: wide, dtype: float32, shape: [n, n, 4], role: inout" in text
    assert "{name: out, dtype: float32, shape: [n, n], role: output}" in text
    path = tmp_path / "kernel.yaml"
    path.write_text(text)
    (spec,) = load_spec(path)
    assert spec.task.kernel.entry == "blur<float, ARG_SIDE, ARG_EDGE>"


@pytest.mark.parametrize(
    ("text", "entry", "says"),
    [
        ("int x;", None, "no __global__ function"),
        (BLUR, None, "--entry: blur, second"),
        (BLUR, "blurr", "did you mean 'blur'"),
        ("__global__ void k(float **x) { }", None, "no spec can describe: `float **x`"),
        ("__global__ void k(struct Big b) { }", None, "no spec can describe"),
        ("__global__ void k(const float &x) { }", None, "no spec can describe"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, text: str, entry: str | None, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        init_spec(write(tmp_path, text), entry=entry)
    assert says in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        init_spec(tmp_path / "none.cu")
