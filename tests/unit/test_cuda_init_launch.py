"""First specs of CUDA files that launch their kernels: sizes, values, shapes and geometry are the host's."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
import yaml

from tuner.driver.check import check_spec
from tuner.spec.first.init import init_spec
from tuner.spec.load import load_spec

KERNELS = """
#define TILE 16
__global__ void blur(const float* in, float* out, int w, int h, float k) {
    __shared__ float t[TILE][TILE];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < w && y < h) t[threadIdx.y][threadIdx.x] = in[y * w + x];
    __syncthreads();
    if (x < w && y < h) out[y * w + x] = k * t[threadIdx.y][threadIdx.x];
}
__global__ void scale(float4* v, int n, float f) {
    extern __shared__ float spare[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) v[i].x *= f;
}
__global__ void sums(const float* v, float* out, unsigned steps) {
    float s = 0;
    for (int i = threadIdx.x; i < steps; i += blockDim.x) s += v[blockIdx.x * steps + i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
"""
HOST = """
#include <vector>
void start(float4* v, int count, float by) {
    int threads = 256;  // scale<<<1, 1>>>(v, 1, by) would be slow
    scale<<<(count + threads - 1) / threads, threads, threads * sizeof(float)>>>(v, count, by);
}
int main(int argc, char** argv) {
    const int width = 4096, height = argc > 1 ? atoi(argv[1]) : 2160;
    size_t bytes = width * height * sizeof(float);
    float *a, *b;
    float4* c;
    cudaMalloc(&a, bytes);
    cudaMalloc((void**)&b, bytes);
    cudaMalloc(&c, 100000 * sizeof(float4));
    dim3 block(TILE, TILE);
    dim3 grid((width + TILE - 1) / TILE, (height + TILE - 1) / TILE);
    blur<<<grid, block>>>(a, b, width, height, 1.0f / 4);
    start(c, 100000, 2.5f);
    int rows = 48 * 2;
    sums<<<rows, 64>>>(a, b, 1 << 10);
}
"""


def first(folder: Path, entry: str, *, beside: bool = False) -> dict[str, object]:
    """The first spec's document."""
    kernel = folder / "kernel.cu"
    kernel.write_text(KERNELS if beside else KERNELS + HOST)
    if beside:
        (folder / "main.cu").write_text('#include "kernel.cu"\n' + HOST)
    found: dict[str, object] = yaml.safe_load(init_spec(kernel, entry=entry))
    return found


def argument(spec: dict[str, object], name: str) -> dict[str, object]:
    """One of its arguments."""
    listed = spec["arguments"]
    assert isinstance(listed, list)
    found: dict[str, object] = next(a for a in listed if a["name"] == name)
    return found


@pytest.mark.parametrize("beside", [False, True])
def test_sizes_and_shapes_are_the_hosts(tmp_path: Path, beside: bool) -> None:
    spec = first(tmp_path, "blur", beside=beside)
    # What the command line says stays a guess.
    assert spec["problem"] == {"w": 4096, "h": 2048}
    assert spec["launch"] == {"grid": ["ceil(w / 16)", "ceil(h / 16)"], "block": [16, 16]}
    assert argument(spec, "in")["shape"] == ["w * h"]
    assert argument(spec, "k")["value"] == 0.25


def test_a_launch_in_a_function_is_followed_to_its_caller(tmp_path: Path) -> None:
    spec = first(tmp_path, "scale")
    assert spec["problem"] == {"n": 100000}
    launch = spec["launch"]
    assert isinstance(launch, dict)
    assert launch["grid"] == ["ceil(n / BLOCK_X)"]
    assert launch["block"] == ["BLOCK_X"]
    assert launch["shared_bytes"] == "BLOCK_X * 4"
    assert argument(spec, "v")["shape"] == [100000, 4]
    assert argument(spec, "f")["value"] == 2.5
    space = spec["space"]
    assert isinstance(space, dict)
    assert space["parameters"]["BLOCK_X"][0] == 256


def test_a_block_that_the_grid_does_not_follow_stays(tmp_path: Path) -> None:
    spec = first(tmp_path, "sums")
    problem = spec["problem"]
    assert isinstance(problem, dict)
    assert (problem["rows"], problem["steps"], problem["width"]) == (96, 1024, 4096)
    assert argument(spec, "out")["shape"] == ["width * height"]
    assert spec["launch"] == {"grid": ["rows"], "block": ["BLOCK_X"]}
    space = spec["space"]
    assert isinstance(space, dict)
    assert space["parameters"]["BLOCK_X"] == [64]


def test_launches_the_text_does_not_tell_stay_guesses(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cu"
    kernel.write_text(KERNELS + "void f(float* a, Sizes s) { sums<<<s.blocks(), s.threads>>>(a, a, s.n); }\n")
    spec = yaml.safe_load(init_spec(kernel, entry="sums"))
    assert list(spec["problem"]) == ["steps"]
    assert spec["launch"]["block"] == ["BLOCK_X"]


def problems(folder: Path, kernel: str, host: str) -> dict[str, int]:
    """The sizes to verify with."""
    path = folder / "small.cu"
    path.write_text(kernel + host)
    spec = yaml.safe_load(init_spec(path, entry="k"))
    found: dict[str, int] = spec["verify"]["problems"][0]
    return found


def test_sizes_to_verify_with_leave_blocks_and_are_few(tmp_path: Path) -> None:
    copies = "__global__ void k(int4 *a, int n) { a[blockIdx.x * blockDim.x + threadIdx.x].x = n; }\n"
    host = (
        "void f() { int size = 1 << 24; int4 *a; cudaMalloc(&a, size); k<<<size / 4 / 512, 512>>>(a, 1); }\n"
    )
    # Whole blocks only, of the largest that is tried.
    assert problems(tmp_path, copies, host)["size"] // 4 // 512 >= 1
    cube = """__global__ void k(float *a, int l, int m, int n) {
    if (blockIdx.x < l && blockIdx.y < m && threadIdx.x < n) a[(blockIdx.x * m + blockIdx.y) * n + threadIdx.x] = 1;
}
"""
    host = """void f() { int l = 256, m = 256, n = 512; float *a; cudaMalloc(&a, l * m * n * sizeof(float));
    k<<<dim3(l, m), 512>>>(a, l, m, n); }
"""
    small = problems(tmp_path, cube, host)
    assert small["l"] * small["m"] * 512 <= 1 << 17
    assert all(size % 2 for size in small.values())


@pytest.mark.integration
@needs.nvrtc
def test_a_spec_of_the_hosts_launch_checks_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    kernel = tmp_path / "kernel.cu"
    kernel.write_text(KERNELS + HOST)
    path = tmp_path / "kernel.yaml"
    path.write_text(init_spec(kernel, entry="blur"))
    (spec,) = load_spec(path)
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines


TEMPLATE = """
constexpr int ROWS = 8;
template <typename T, int BX, int BY, bool EDGE, int DEPTH = 3>
__global__ void step(const T *in, T *out, int nx, int ny)
{
    int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y * BY + threadIdx.y;
    if (x < nx && y < ny) out[y * nx + x] = DEPTH * in[y * nx + x] + EDGE;
}
int main() {
    int nx = 4000, ny = 3000;
    double *a, *b;
    cudaMalloc(&a, nx * ny * sizeof(double));
    dim3 grid((nx + 31) / 32, (ny + ROWS - 1) / ROWS), block(32, ROWS);
    step<double, 32, ROWS, false><<<grid, block>>>(a, b, nx, ny);
}
"""


def test_the_baseline_of_a_template_is_the_instance_that_the_host_runs(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(TEMPLATE)
    spec = yaml.safe_load(init_spec(path))
    assert spec["kernel"]["entry"] == "step<double, ARG_BX, ARG_BY, ARG_EDGE, ARG_DEPTH>"
    assert {argument(spec, name)["dtype"] for name in ("in", "out")} == {"float64"}
    parameters = spec["space"]["parameters"]
    assert {name: values[0] for name, values in parameters.items()} == {
        "ARG_BX": 32,
        "ARG_BY": 8,
        "ARG_EDGE": 0,
        "ARG_DEPTH": 3,
    }
    assert parameters["ARG_EDGE"] == [0, 1]
    assert sorted(parameters["ARG_BX"]) == [8, 16, 32, 64]
