"""First specs of CUDA kernels take from the host's code what clang sees in it: no more, and no less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.core.errors import UsageError
from tuner.spec.first.init import init_spec

KERNEL = """
__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}
"""


def first(folder: Path, text: str, entry: str = "scale") -> dict[str, Any]:
    """The first spec of a source."""
    path = folder / "app.cu"
    path.write_text(text)
    found: dict[str, Any] = yaml.safe_load(init_spec(path, entry=entry))
    return found


def test_code_that_conditionals_leave_out_is_not_read(tmp_path: Path) -> None:
    kernel = "__global__ void scale(double *old, long m) { old[m] = 1; }"
    old = f"#if 0\n{kernel}\nvoid f() {{ scale<<<7, 7>>>(0, 1); }}\n#endif\n"
    host = (
        "int main() { int n = 1000; float *x; cudaMalloc(&x, 4 * n); scale<<<(n + 63) / 64, 64>>>(x, n); }\n"
    )
    spec = first(tmp_path, old + KERNEL + host)
    assert [a["name"] for a in spec["arguments"]] == ["x", "n"]
    assert spec["launch"] == {"grid": ["ceil(n / BLOCK_X)"], "block": ["BLOCK_X"]}
    assert spec["problem"] == {"n": 1000}


def test_kernels_of_macros_and_of_namespaces(tmp_path: Path) -> None:
    text = """
#define DEFINE(name, T) __global__ void name(T *x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }
namespace app { namespace { DEFINE(raise, double) } }
"""
    spec = first(tmp_path, text, "raise")
    assert [(a["name"], a["dtype"]) for a in spec["arguments"]] == [("x", "float64"), ("n", "int32")]
    assert spec["kernel"]["entry"] == "app::raise"


HOSTS = {
    "vectors for blocks": """
int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    float *x;
    cudaMalloc(&x, n * sizeof(float));
    dim3 grid, block = make_uint3(64, 1, 1);
    grid = make_uint3((n + 63) / block.x, 1, 1);
    scale<<<grid, block, 0, 0>>>(x, n);
}
""",
    "macros with arguments": """
#define DIV_UP(a, b) (((a) % (b)) ? (a) / (b) + 1 : (a) / (b))
#define CHECK(call) do { if ((call) != cudaSuccess) abort_all(__LINE__); } while (0)
int main(int argc, char **argv) {
    int n = atoi(argv[1]), *unused; float *x;
    CHECK(cudaMalloc((void **)&x, sizeof(*x) * n));
    scale<<<DIV_UP(n, 64), 64>>>(x, n);
}
""",
    "functions of the project": """
static int blocks_for(int items, int size) { return (items + size - 1) / size; }
template <class T> T *on_device(int items) { T *made; cudaMalloc(&made, items * sizeof(T)); return made; }
int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    float *x = on_device<float>(n);
    scale<<<blocks_for(n, 64), 64>>>(x, n);
}
""",
    "members of a structure": """
struct State { float *x; int n; dim3 grid, block; };
void run(State *s) { scale<<<s->grid, s->block>>>(s->x, s->n); }
int main(int argc, char **argv) {
    State s;
    s.n = atoi(argv[1]);
    s.block = dim3(64);
    s.grid = dim3((s.n + 63) / 64);
    cudaMalloc(&s.x, s.n * sizeof(float));
    run(&s);
}
""",
    "a template of the host, and libraries that are not there": """
#include <nowhere/logging.h>
template <class T> void run(T *x, std::vector<T> &values, int n) {
    nowhere::log << "starts" << std::endl;
    T *copy = nullptr;
    cudaMalloc(&copy, values.size() * sizeof(T));
    scale<<<(n + 63) / 64, 64>>>(copy, n);
}
int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    std::vector<float> values(n);
    run(values.data(), values, n);
}
""",
}


@pytest.mark.parametrize("name", HOSTS)
def test_sizes_are_followed_through(tmp_path: Path, name: str) -> None:
    spec = first(tmp_path, KERNEL + HOSTS[name])
    assert spec["launch"] == {"grid": ["ceil(n / BLOCK_X)"], "block": ["BLOCK_X"]}
    assert list(spec["problem"]) == ["n"]
    assert spec["arguments"][0]["shape"] == ["n"]
    assert spec["space"]["parameters"]["BLOCK_X"][0] == 64


def test_macros_that_are_tuned_stay_names(tmp_path: Path) -> None:
    text = """
#ifndef TILE
#define TILE 32
#endif
#define THREADS (TILE * WARPS)
__global__ void k(float *x, int n) {
    __shared__ float t[TILE * WARPS];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = t[0];
}
int main() { int n = 1 << 20; float *x; cudaMalloc(&x, 4 * n); k<<<(n + TILE - 1) / TILE, THREADS>>>(x, n); }
"""
    spec = first(tmp_path, text, "k")
    assert spec["launch"] == {"grid": ["ceil(n / TILE)"], "block": ["TILE * WARPS"]}


def test_a_source_without_kernels_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no __global__ function"):
        first(tmp_path, "#if 0\n" + KERNEL + "#endif\nint main() {}\n")


def test_constants_that_only_the_host_uses_are_sizes(tmp_path: Path) -> None:
    text = """
#define ROWS 600
#define WIDTH 3
const int COLUMNS = 500;
__global__ void k(float *x, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * columns) x[i] += WIDTH;
}
int main() {
    float *x;
    cudaMalloc(&x, ROWS * COLUMNS * sizeof(float));
    k<<<(ROWS * COLUMNS + 127) / 128, 128>>>(x, ROWS, COLUMNS);
}
"""
    spec = first(tmp_path, text, "k")
    assert spec["problem"] == {"rows": 600, "columns": 500}
    assert spec["arguments"][0]["shape"] == ["rows * columns"]
    assert spec["launch"]["grid"] == ["ceil(rows * columns / BLOCK_X)"]
    assert spec["verify"]["problems"][0]["rows"] < 600
    # In the kernel it is the same number whatever the problem.
    spec = first(tmp_path, text.replace("+= WIDTH", "+= ROWS"), "k")
    assert spec["arguments"][0]["shape"] == ["600 * columns"]
