"""First specs of CUDA sources: signatures, templates, macros, launch blocks."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from tuner.core.errors import UsageError
from tuner.driver.check import check_spec
from tuner.spec.first.init import init_spec
from tuner.spec.load import load_spec
from tuner.spec.reading.cuda_kernels import kernels_of

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


@needs.nvrtc
@pytest.mark.integration
def test_a_first_spec_checks_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    path = tmp_path / "kernel.yaml"
    path.write_text(init_spec(write(tmp_path, VADD)))
    (spec,) = load_spec(path)
    assert spec.task.launch is not None
    report = check_spec(spec, faults=False)
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
def test_impossible_cuda_entries_are_refused(tmp_path: Path, text: str, entry: str | None, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        init_spec(write(tmp_path, text), entry=entry)
    assert says in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        init_spec(tmp_path / "none.cu")


KINDS = {
    "launch bounds with brackets in them, two axes of blocks, a product's shapes": (
        """#define BM 64
#define TM 4
__global__ __launch_bounds__((BM / TM) * (BM / TM))
void k(int M, int N, int K, const float *A, const float *B, float *C) {
    int r0 = blockIdx.y * BM, c = blockIdx.x * BM + threadIdx.x % BM;
    for (int k = 0; k < K; k++)
        for (int r = threadIdx.x / BM; r < BM; r += 4)
            if (r0 + r < M && c < N) C[(r0 + r) * N + c] += A[(r0 + r) * K + k] * B[k * N + c];
}""",
        [
            "block: [256]",
            'grid: ["ceil(N / 64)", "ceil(M / 64)"]',
            "{name: A, dtype: float32, shape: [M, K]",
            "{name: B, dtype: float32, shape: [K, N]",
            "{name: C, dtype: float32, shape: [M, N], role: inout",
        ],
    ),
    "a block for each row": (
        """__global__ void k(const float *x, float *out, int rows, int cols) {
    int row = blockIdx.x;
    const float *p = x + (size_t)row * cols;
    float s = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) s += p[c];
    atomicAdd(&out[row], s);
}""",
        [
            "grid: [rows]",
            "{name: x, dtype: float32, shape: [rows, cols]",
            "{name: out, dtype: float32, shape: [rows]",
        ],
    ),
    "sizes named by axis, three of them": (
        """__global__ void k(const float *u, float *v, int nx, int ny, int nz) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    int k = blockIdx.z * blockDim.z + threadIdx.z;
    if (i >= nx || j >= ny || k >= nz) return;
    v[(k * ny + j) * nx + i] = u[(k * ny + j) * nx + i];
}""",
        [
            'grid: ["ceil(nx / BLOCK_X)", "ceil(ny / BLOCK_Y)", "ceil(nz / BLOCK_Z)"]',
            "problems: [{nx: 37, ny: 21, nz: 11}]",
        ],
    ),
    "a block that the source fixes, by another name of the thread's index": (
        """#define WIDTH_OF_ALL 256
__global__ void k(const float *x, float *y, int n) {
    __shared__ float s[WIDTH_OF_ALL];
    int t = threadIdx.x, i = blockIdx.x * WIDTH_OF_ALL + t;
    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) y[i] = s[255 - t];
}""",
        ["block: [256]", 'grid: ["ceil(n / 256)"]', 'flags: {registers: ["", "-maxrregcount=64"]}'],
    ),
    "a radius is no tunable, and shared memory may stand before the kernel": (
        """#ifndef RADIUS
#define RADIUS 8
#endif
extern __shared__ float tile[];
__global__ void __launch_bounds__(256, 2) k(const half2 *x, longlong2 *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i;
    if (i < n) y[i].x = __low2float(x[i]) + tile[threadIdx.x] + RADIUS;
}""",
        [
            'shared_bytes: "4 * BLOCK_X"',
            "BLOCK_X: [128]   # check: one size, as threadIdx.x is used for more than the number of an item",
            "BLOCK_X <= 256",
            "{name: x, dtype: float16, shape: [n, 2]",
            "{name: y, dtype: int64, shape: [n, 2]",
        ],
    ),
}


@needs.nvrtc
@pytest.mark.integration
@pytest.mark.parametrize("kind", KINDS)
def test_launch_and_shapes_follow_from_the_body(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, expected = KINDS[kind]
    text = init_spec(write(tmp_path, source))
    for part in expected:
        assert part in text
    assert "RADIUS:" not in text
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    path = tmp_path / "kernel.yaml"
    header = "" if "half2" not in source else "#include <cuda_fp16.h>\n"
    (tmp_path / "kernel.cu").write_text(header + source)
    # A product of 256 rows takes emulation seconds; it is the same at a quarter of that.
    path.write_text(text.replace("M: 256, N: 256, K: 256", "M: 64, N: 64, K: 64"))
    (spec,) = load_spec(path)
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines
