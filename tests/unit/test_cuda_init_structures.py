"""First specs of CUDA kernels that take structures by value: members, and what the host's code says of them."""

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

SOURCE = """
#include <cstdio>
#define TAPS 5
enum class Mode : unsigned char { plain, twice };
struct Grid { int nx, ny; float h; };
struct Params {
    Grid grid;
    float *density;
    const float *energy;
    float weights[TAPS];
    float3 origin;
    bool on;
    Mode mode;
    float dt;
    int unused;
    __host__ __device__ int cells() const { return grid.nx * grid.ny; }
};
__global__ void step(const float *u, const __grid_constant__ Params p)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < p.grid.nx && y < p.grid.ny && p.on && p.mode == Mode::plain)
        p.density[y * p.grid.nx + x] =
            u[y * p.grid.nx + x] + p.dt * p.energy[y * p.grid.nx + x] * p.weights[2] + p.origin.x;
}
"""
HOST = """
int main() {
    int width = 1920, height = 1080;
    float *u, *e;
    Params set{BEGUN};
    cudaMalloc(&u, width * height * sizeof(float));
    cudaMalloc(&e, width * height * sizeof(float));
    cudaMalloc(&set.density, 2 * width * height * sizeof(float));
    set.energy = e;
    set.dt = 0.25f;
    dim3 block(32, 8);
    dim3 grid((width + 31) / 32, (height + 7) / 8);
    step<<<grid, block>>>(u, set);
}
"""
VIEWS = """
template <typename T> struct View {
    T *data; int n; void *owner;
    __device__ T &operator[](int i) const { return data[i]; }
};
template <typename T> __global__ void twice(View<const T> in, View<T> out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < in.n) out[i] = 2 * in[i];
}
"""


def first(folder: Path, text: str) -> dict[str, Any]:
    """The first spec's document."""
    (folder / "k.cu").write_text(text)
    (folder / "k.yaml").write_text(init_spec(folder / "k.cu"))
    found: dict[str, Any] = yaml.safe_load((folder / "k.yaml").read_text())
    return found


@pytest.mark.parametrize("begun", ["{width, height, 0.5f}", ".grid = {.nx = width, .ny = height}", ""])
def test_members_that_are_used_with_what_the_host_gives_them(tmp_path: Path, begun: str) -> None:
    host = HOST.replace("BEGUN", begun)
    if not begun:
        host = host.replace("set.dt =", "set.grid.nx = width; set.grid.ny = height; set.dt =")
    spec = first(tmp_path, SOURCE + host)
    assert spec["problem"] == {"nx": 1920, "ny": 1080}
    u, p = spec["arguments"]
    assert (p["name"], p["struct"], p["by"], u["shape"]) == ("p", "Params", "value", ["nx * ny"])
    members = {m["name"]: m for m in p["members"]}
    assert list(members) == ["grid", "density", "energy", "weights", "origin", "on", "mode", "dt"]
    assert [(m["name"], m["value"]) for m in members["grid"]["members"]] == [("nx", "nx"), ("ny", "ny")]
    assert (members["density"]["role"], members["density"]["shape"]) == ("output", ["2 * nx * ny"])
    assert (members["energy"].get("role"), members["energy"]["shape"]) == (None, ["nx * ny"])
    assert (members["weights"]["shape"], members["weights"]["by"]) == ([5], "value")
    assert [m["name"] for m in members["origin"]["members"]] == ["x"]
    assert (members["mode"]["dtype"], members["dt"]["value"]) == ("uint8", 0.25)
    assert spec["launch"]["grid"] == ["ceil(nx / BLOCK_X)", "ceil(ny / BLOCK_Y)"]


def test_all_members_where_methods_are_called(tmp_path: Path) -> None:
    spec = first(tmp_path, VIEWS)
    assert [(a["name"], a["struct"]) for a in spec["arguments"]] == [
        ("in", "View<const float>"),
        ("out", "View<float>"),
    ]
    inner = [{m["name"]: m for m in a["members"]} for a in spec["arguments"]]
    assert [list(members) for members in inner] == [["data", "n"], ["data", "n"]]
    assert [members["data"].get("role") for members in inner] == [None, "inout"]
    assert spec["problem"].keys() == {"n"}


def test_a_member_that_no_spec_can_describe_is_refused_where_it_is_used(tmp_path: Path) -> None:
    used = VIEWS.replace("if (i < in.n)", "if (in.owner)")
    with pytest.raises(UsageError, match=r"no spec can describe: `View<const T> in`"):
        first(tmp_path, used)


def test_one_structure_by_pointer_and_by_value(tmp_path: Path) -> None:
    spec = first(
        tmp_path,
        "__global__ void k(float4 *x, const float4 by, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;"
        " if (i < n) x[i].x += by.x; }\n",
    )
    x, by, _ = spec["arguments"]
    assert (x["dtype"], x["shape"][-1]) == ("float32", 4)
    assert (by["struct"], [m["name"] for m in by["members"]]) == ("float4", ["x"])


def test_names_in_capitals_that_are_no_macros_of_the_builds_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "k.h").write_text(
        "#define MASK 7\n#ifndef WORK\n#define WORK 4\n#endif\nenum Kind { PLAIN, TWICE };\n"
        "struct Params { int LENGTH; Kind kind; };\n"
    )
    spec = first(
        tmp_path,
        '#include "k.h"\n__global__ void k(float *x, Params p) { int i = blockIdx.x * blockDim.x + threadIdx.x;'
        " if (i < p.LENGTH) x[i] += p.kind == TWICE ? WORK * FACTOR : MASK; }\n",
    )
    parameters = spec["space"]["parameters"]
    assert list(parameters) == ["BLOCK_X", "WORK", "FACTOR"]
    assert parameters["WORK"][0] == 4


@pytest.mark.integration
@needs.nvrtc
def test_such_a_spec_checks_as_it_is(tmp_path: Path) -> None:
    """Templates of structures are checked in ``test_cuda_structures``."""
    first(tmp_path, SOURCE + HOST.replace("BEGUN", "{width, height}"))
    path = tmp_path / "k.yaml"
    path.write_text(smaller_problem(path.read_text()))
    (loaded,) = load_spec(path)
    report = check_spec(loaded, faults=False)
    assert report.ok, report.lines
