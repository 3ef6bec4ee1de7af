"""First specs of CUDA sources: signatures, templates, macros, launch blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import needs
import pytest
import yaml
from smaller_problem import smaller_problem

from tuner.core.errors import UsageError
from tuner.driver.check import check_spec
from tuner.spec.first.init import init_spec
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


def arguments(folder: Path, text: str, entry: str | None = None) -> dict[str, Any]:
    """The types of a first spec's arguments, by name."""
    found = yaml.safe_load(init_spec(write(folder, text), entry=entry))["arguments"]
    return {each["name"]: each["dtype"] for each in found}


def test_signatures_are_read(tmp_path: Path) -> None:
    assert arguments(tmp_path, VADD) == {**dict.fromkeys(("a", "b", "c"), "float32"), "n": "int32"}
    assert "{name: c, dtype: float32, shape: [n], role: output}" in init_spec(tmp_path / "kernel.cu")
    assert arguments(tmp_path, BLUR.replace("#include <cuda_fp16.h>", ""), "blur") == {
        **dict.fromkeys(("in", "out", "wide"), "float32"),
        "n": "uint32",
        "scale": "float64",
    }


NAMED = """
#include <missing/library.h>
#define ELEMENT unsigned short
namespace sim {
template <typename T> struct Traits { typedef const T *pointer; };
struct Pair { double first, second; };
struct Mixed { int id; Pair pair; };
enum class Side : short { LEFT, RIGHT };
typedef Pair Pairs;
using Rows = float (*)[8];
template <class T, int N>
__global__ void k([[maybe_unused]] typename Traits<T>::pointer a, Pairs *b, ELEMENT c[N], Side side, Rows rows,
                  Mixed *f, const __restrict__ size_t g) {
    int i = blockIdx.x * TILE + threadIdx.x;
    c[i] = a[i] + b[i].first + rows[i][1] + f[i].pair.second + g + (int)side;
}
}
"""


def test_the_compiler_says_what_names_of_types_stand_for(tmp_path: Path) -> None:
    assert arguments(tmp_path, NAMED) == {
        "a": "float32",
        "b": "float64",
        "c": "uint16",
        "side": "int16",
        "rows": "float32",
        "f": {"id": "int32", "pair": {"first": "float64", "second": "float64"}},
        "g": "uint64",
    }
    for wrong, why in (
        ("float **d", "a pointer to pointers"),
        ("curandState *d", "unknown type name 'curandState'"),
    ):
        with pytest.raises(UsageError, match=why):
            arguments(tmp_path, NAMED.replace("Mixed *f", f"{wrong}, Mixed *f"))


@needs.nvrtc
@pytest.mark.integration
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
    # The source is preprocessed for all values of its macros together, of which other tests have some.
    path.write_text(
        text.replace("WORK: [2, 1, 4, 8]", "WORK: [2]").replace("UNROLL: [1, 2, 4, 8]", "UNROLL: [1]")
    )
    (spec,) = load_spec(path)
    assert spec.task.kernel.entry == "blur<float, ARG_SIDE, ARG_EDGE>"


@pytest.mark.parametrize(
    ("text", "entry", "says"),
    [
        ("int x;", None, "no __global__ function"),
        (BLUR, None, "--entry: blur, second"),
        (BLUR, "blurr", "did you mean 'blur'"),
        ("__global__ void k(float **x) { }", None, "argument x of k: a pointer to pointers: `float **x`"),
        ("__global__ void k(struct Big b) { }", None, "no spec can describe"),
        ("__global__ void k(const float &x) { }", None, "a reference: `const float &x`"),
    ],
)
def test_impossible_cuda_entries_are_refused(tmp_path: Path, text: str, entry: str | None, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        init_spec(write(tmp_path, text), entry=entry)
    assert says in str(raised.value)


DEDUCED = """
#include <vector>
#include <err.h>
#define CHECK(call) do { if (call) err(1, "no"); } while (0)
template <typename Value, typename Index, int PER_THREAD, bool CLEAR>
__global__ void gather(Value *out, const Value *in, const Index *where, std::size_t n) {
    for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += PER_THREAD)
        out[i] = CLEAR ? Value(0) : in[where[i]];
}
template <typename Value> void run(std::size_t n) {
    Value *in, *out;
    short *where;
    CHECK(cudaMalloc(&in, n * sizeof(Value)));
    CHECK(cudaMalloc(&out, n * sizeof(Value)));
    CHECK(cudaMalloc(&where, n * sizeof(short)));
    gather<Value, short, 4, true><<<(n + 255) / 256, 256>>>(out, in, where, n);
}
int main() { run<double>(1 << 20); }
"""


def test_the_compiler_deduces_what_a_template_is_given(tmp_path: Path) -> None:
    text = init_spec(write(tmp_path, DEDUCED))
    assert 'entry: "gather<double, short, ARG_PER_THREAD, ARG_CLEAR>"' in text
    assert "ARG_PER_THREAD: [4, 1, 2, 8]" in text
    assert "ARG_CLEAR: [1, 0]" in text
    assert "{name: in, dtype: float64" in text
    assert "{name: where, dtype: int16" in text
    called = DEDUCED.replace("gather<Value, short, 4, true><<<", "gather<Value, short, 4><<<").replace(
        "bool CLEAR>", "bool CLEAR = false>"
    )
    assert "ARG_CLEAR: [0, 1]" in init_spec(write(tmp_path, called))


def test_headers_that_are_nowhere_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "types.h").write_text("typedef double real;\n")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    source = write(
        tmp_path / "deep" / "er",
        '#include "../../none/of/these.h"\n#include "../../types.h"\n#include <gone.h>\n'
        "__global__ void k(real *a, unknown *b, int n) { a[n] = *b; }\n",
    )
    with pytest.raises(UsageError, match="argument b of k: unknown type name 'unknown': `unknown \\*b`"):
        init_spec(source)
    source.write_text(source.read_text().replace("unknown", "real"))
    assert "{name: a, dtype: float64" in init_spec(source)
    # What stops clang leaves types unsaid behind it.
    source.write_text(f'#include "{tmp_path}/not/there.h"\n{source.read_text()}')
    with pytest.raises(UsageError, match=r"there\.h' file not found"):
        init_spec(source)


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


CHECKED = "launch bounds with brackets in them, two axes of blocks, a product's shapes"
"""What runs as well; such kernels as the others run in ``test_first_specs.py``, ``test_init_table.py`` and, with shared
memory, ``test_cuda_init_launch.py``."""


@needs.nvrtc
@pytest.mark.integration
@pytest.mark.parametrize("kind", KINDS)
def test_launch_and_shapes_follow_from_the_body(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, expected = KINDS[kind]
    source = f"#include <cuda_fp16.h>\n{source}" if "half2" in source else source
    text = init_spec(write(tmp_path, source))
    for part in expected:
        assert part in text
    assert "RADIUS:" not in text
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    path = tmp_path / "kernel.yaml"
    path.write_text(smaller_problem(text))
    (spec,) = load_spec(path)
    if kind == CHECKED:
        report = check_spec(spec, faults=False)
        assert report.ok, report.lines
