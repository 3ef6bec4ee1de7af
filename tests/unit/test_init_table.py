"""Ordinary kernels whose first spec is checked as it is written, at smaller sizes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import needs
import pytest
import yaml
from smaller_problem import smaller_problem

from tuner.cli.main import main
from tuner.core.errors import UsageError
from tuner.driver.check import check_spec
from tuner.spec.first.init import init_spec
from tuner.spec.json_schema import schema
from tuner.spec.load import load_spec

KERNELS = {
    "saxpy.c": "void saxpy(float a, const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] += a * x[i]; }",
    "blocked.c": """
#ifndef TILE
#define TILE 32
#endif
void transpose(const float *restrict in, float *restrict out, int rows, int cols)
{
    for (int i0 = 0; i0 < rows; i0 += TILE)
        for (int j = 0; j < cols; j++)
            for (int i = i0; i < (i0 + TILE < rows ? i0 + TILE : rows); i++)
                out[j * rows + i] = in[i * cols + j];
}
""",
    "ended.c": """
#define MIN(a, b) ((a) < (b) ? (a) : (b))
void scale(const float *restrict in, float *restrict out, int n, int m)
{
    for (int i0 = 0; i0 < n; i0 += 16) {
        const int end = MIN(i0 + 16, n);
        for (int j0 = 0; j0 < m; j0 += 8)
            for (int i = i0; i < end; i++)
                for (int j = j0; j < j0 + 8 && j < m; j++)
                    out[i * m + j] = 2 * in[i * m + j];
    }
}
""",
    "steps.c": """
void row(const float *in, float *out, int n) { for (int i = 1; i < n - 1; i++) out[i] = in[i - 1] + in[i + 1]; }
void all(const float *in, float *out, int m, int n) { for (int y = 0; y < m; y++) row(in + y * n, out + y * n, n); }
""",
    "extern.cpp": """
#include <cstddef>
template <class T> static T twice(T x) { return 2 * x; }
extern "C" void scale(const float *in, float *out, std::size_t n)
{
    for (std::size_t i = 0; i < n; ++i) out[i] = twice(in[i]);
}
""",
    "saxpy.cl": """
__kernel void saxpy(float a, __global const float *x, __global float *y, int n)
{
    int i = get_global_id(0);
    if (i < n) y[i] = a * x[i] + y[i];
}
""",
    "tiled.cl": """
#define TS 16
__kernel void product(const int M, const int N, const int K, const __global float *A, const __global float *B,
                      __global float *C)
{
    const int row = get_local_id(0), column = get_local_id(1);
    const int y = TS * get_group_id(0) + row, x = TS * get_group_id(1) + column;
    __local float left[TS][TS], right[TS][TS];
    float sum = 0.0f;
    for (int t = 0; t < K / TS; t++) {
        left[column][row] = A[(TS * t + column) * M + y];
        right[column][row] = B[x * K + TS * t + row];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < TS; k++) sum += left[k][row] * right[column][k];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    C[x * M + y] = sum;
}
""",
    "missing.cl": """
__kernel void scale(__global float *x, float f, int n)
{
    int i = get_group_id(0) * BLOCK_SIZE + get_local_id(0);
    if (i < n) x[i] *= f;
}
""",
    "spmv.cu": """
__global__ void spmv(int rows, const int *row_ptr, const int *cols, const float *vals, const float *x, float *y)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        float s = 0.f;
        for (int k = row_ptr[r]; k < row_ptr[r + 1]; ++k) s += vals[k] * x[cols[k]];
        y[r] = s;
    }
}
""",
    "instance.cu": """
template <typename T, int BLOCK>
__global__ void scale(T *data, T factor, size_t n)
{
    size_t i = (size_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) data[i] *= factor;
}
template __global__ void scale<float, 128>(float *, float, size_t);
""",
    "nbody.cl": """
__kernel void nbody(__global const float4 *pos, __global float4 *acc, int n)
{
    int gid = get_global_id(0);
    if (gid >= n) return;
    float3 a = (float3)(0.0f), p = pos[gid].xyz;
    for (int j = 0; j < n; j++) {
        float3 d = pos[j].xyz - p;
        float r = rsqrt(dot(d, d) + 1e-3f);
        a += d * (pos[j].w * r * r * r);
    }
    acc[gid] = (float4)(a, 0.0f);
}
""",
}
ELSEWHERE = {"saxpy.c", "saxpy.cl", "spmv.cu", "blocked.c", "ended.c", "nbody.cl"}
"""What ``test_first_specs.py`` checks under other names, or another test here reads."""
RUN_WITH = {".cu": needs.nvrtc, ".cl": needs.pocl}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=RUN_WITH.get(Path(n).suffix, ())) for n in KERNELS if n not in ELSEWHERE],
)
@pytest.mark.integration
@pytest.mark.usefixtures("no_oclgrind")
def test_a_first_spec_passes_the_check(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(KERNELS[name])
    (tmp_path / "k.yaml").write_text(smaller_problem(init_spec(tmp_path / name)))
    (spec,) = load_spec(tmp_path / "k.yaml")
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines


def test_sizes_of_work_that_grows_with_the_square(tmp_path: Path) -> None:
    """A million bodies would keep a device busy for minutes."""
    (tmp_path / "nbody.cl").write_text(KERNELS["nbody.cl"])
    assert "problem: {n: 4096}" in init_spec(tmp_path / "nbody.cl")
    (tmp_path / "saxpy.cl").write_text(KERNELS["saxpy.cl"])
    assert "problem: {n: 1048576}" in init_spec(tmp_path / "saxpy.cl")
    (tmp_path / "spmv.cu").write_text(KERNELS["spmv.cu"])
    assert "name: row_ptr, dtype: int32, shape: [rows + 1]" in init_spec(tmp_path / "spmv.cu")


def test_macros_under_ifndef_become_parameters(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(KERNELS["blocked.c"])
    (tmp_path / "k.yaml").write_text(init_spec(tmp_path / "k.c"))
    (spec,) = load_spec(tmp_path / "k.yaml")
    (tile,) = spec.tunables.parameters
    assert (tile.name, tile.default, sorted(tile.values)) == ("TILE", 32, [16, 32, 64, 128])


def test_shapes_of_tiled_loops(tmp_path: Path) -> None:
    for name, shape in (("blocked.c", "rows, cols"), ("ended.c", "n, m")):
        (tmp_path / name).write_text(KERNELS[name])
        assert f"{{name: in, dtype: float32, shape: [{shape}], init: normal}}\n" in init_spec(tmp_path / name)


def test_bounds_of_one_counter(tmp_path: Path) -> None:
    """The last element of a row is no row of its own."""
    rows = {
        "y * width": "height",
        "y * width + width - 1": "height",
        "(y + 1) * width - 1": "height",
        "(y + 1) * width": "height + 1",
        "(y + 2) * width - 1": "height + 1",
        "(y - 1) * width": "height",
    }
    outputs = [f"o{i}" for i in range(len(rows))]
    body = " ".join(f"{name}[{index}] = 1.0f;" for name, index in zip(outputs, rows, strict=True))
    (tmp_path / "k.c").write_text(
        f"void k({', '.join(f'float *{name}' for name in outputs)}, int height, int width)\n"
        f"{{ for (int y = 1; y < height; y++) {{ {body} }} }}\n"
    )
    shapes = [each["shape"] for each in yaml.safe_load(init_spec(tmp_path / "k.c"))["arguments"][: len(rows)]]
    assert [", ".join(map(str, shape)) for shape in shapes] == [f"{each}, width" for each in rows.values()]


HEADER = """\
#define AT(y, x) ((y) * n + (x))
static inline int clampi(int v, int high) { return v < 0 ? 0 : v > high ? high : v; }
static inline float star(const float *p, int y, int x, int n) { return p[AT(y - 1, x)] + p[AT(y + 1, x)]; }
"""


@pytest.mark.integration
def test_bounds_through_functions_of_headers(tmp_path: Path) -> None:
    """They are followed like those of the file; an array of which nothing is known is no smaller than the others."""
    (tmp_path / "grid.h").write_text(HEADER)
    (tmp_path / "k.c").write_text(
        '#include "grid.h"\nvoid k(const float *src, const float *held, float *dst, int n)\n'
        "{ for (int y = 1; y < n - 1; y++) for (int x = 0; x < n; x++)\n"
        "    dst[AT(y, x)] = star(src, y, x, n) + held[AT(y, clampi(x - 1, n - 1))]; }\n"
    )
    text = init_spec(tmp_path / "k.c")
    src, held = (
        next(line for line in text.splitlines() if f"name: {name}" in line) for name in ("src", "held")
    )
    assert "shape: [n, n]" in src
    assert "check: the shape" not in src
    assert "shape: [n, n]" in held
    assert "check: the shape" in held
    assert "problem: {n: 2048}" in text
    (tmp_path / "k.yaml").write_text(text.replace("problem: {n: 2048}", "problem: {n: 256}"))
    (spec,) = load_spec(tmp_path / "k.yaml")
    assert check_spec(spec, faults=False).ok


def test_macros_that_the_source_leaves_to_the_build(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "void k(float *y, int n) { for (int i = 0; i < n; i += STEP)\n"
        "  for (int j = 0; j < STEP && i + j < n; j++) y[i + j] = WEIGHT * j; }\n"
    )
    (tmp_path / "k.yaml").write_text(init_spec(tmp_path / "k.c"))
    (spec,) = load_spec(tmp_path / "k.yaml")
    assert {p.name: p.values for p in spec.tunables.parameters} == {
        "STEP": (1, 2, 4, 8),
        "WEIGHT": (1, 2, 4, 8),
    }


def test_macros_that_nothing_outside_can_change_are_said(tmp_path: Path) -> None:
    source = KERNELS["blocked.c"].replace("#ifndef TILE\n", "").replace("#endif\n", "")
    (tmp_path / "k.c").write_text(source)
    text = init_spec(tmp_path / "k.c")
    assert "# to tune TILE, put #ifndef TILE and #endif around its #define" in text
    assert "# parameters: {TILE: [32, 16, 64, 128]}" in text
    (tmp_path / "k.yaml").write_text(text)
    assert load_spec(tmp_path / "k.yaml")


def tunables(folder: Path, before: str, use: str) -> tuple[dict[str, list[int]], str]:
    """The parameters of a first spec, and its text."""
    loop = f"for (int i = 0; i < n; i++) y[i] = {use};"
    (folder / "k.c").write_text(f"{before}\nint g(int);\nvoid k(int *y, int n) {{ {loop} }}\n")
    text = init_spec(folder / "k.c", entry="k")
    found: dict[str, list[int]] = (yaml.safe_load(text)["space"] or {}).get("parameters") or {}
    return found, text


@pytest.mark.parametrize(
    ("before", "use", "guarded", "fixed"),
    [
        ("#ifndef TILE\n#define TILE (8)\n#endif", "i % TILE", ["TILE"], ""),
        ("#ifndef TILE\n#define TILE 8\n#endif", "i", [], ""),
        ("# define UNROLL_X 4u /* why */", "i % UNROLL_X", [], "UNROLL_X"),
        ("#define PI 3\n#define F(x) x", "i * PI", [], ""),
        ("// #define TILE 8\nstatic int TILE;", "TILE", [], ""),
    ],
)
def test_which_macros(before: str, use: str, guarded: list[str], fixed: str, tmp_path: Path) -> None:
    found, text = tunables(tmp_path, before, use)
    assert list(found) == guarded
    assert re.findall(r"# to tune (\w+), put #ifndef", text) == ([fixed] if fixed else [])


def test_functions_of_the_file_alone_are_no_entries(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "static inline float helper(float x) { return x; }\n"
        "void first(float *y, int n) { for (int i = 0; i < n; i++) y[i] = helper(1); }\n"
        "void second(float *y, int n) { for (int i = 0; i < n; i++) y[i] = helper(2); }\n"
    )
    with pytest.raises(UsageError, match=r"choose with --entry: first, second$"):
        init_spec(tmp_path / "k.c")
    with pytest.raises(UsageError, match=r"it has first, second$"):
        init_spec(tmp_path / "k.c", entry="zzz")


def test_editors_find_the_schema_beside_a_first_spec(tmp_path: Path) -> None:
    """By a relative path: no registry is asked, and the schema is this version's."""
    # Without a size there is none to be timed.
    (tmp_path / "saxpy.c").write_text("void saxpy(float x[64]) { for (int i = 0; i < 64; i++) x[i] += 1; }\n")
    main_of(["init", str(tmp_path / "saxpy.c")])
    first, second = (tmp_path / "saxpy.yaml").read_text().splitlines()[:2]
    prefix = "# yaml-language-server: $schema="
    assert first.startswith(prefix)
    assert second.startswith("# A first spec")
    assert json.loads((tmp_path / first.removeprefix(prefix)).read_text()) == schema()
    assert load_spec(tmp_path / "saxpy.yaml")


def main_of(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


DIVIDING = {
    "k.c": """
#include <math.h>
static void row(const double *d, double *out, int n) { for (int i = 0; i < n; i++) out[i] /= d[i] + 1.0; }
void all(const double *a, const double *b, const float *c, const int *k, const double *d, double *restrict out, int n)
{
    for (int i = 0; i < n; i++) {
        const double held = a[i];
        out[i] = (d[i] - 1.0) / held / (2.0 - d[i]) + 1.0f / (2.0f * sqrtf(c[i])) + i % k[i] + d[i] * d[i];
    }
    row(b, out, n);
}
""",
    "k.cl": """
/* 1 / d[i] is not asked for. */
__kernel void all(__global const float *a, __global const float *b, __global const float *c, __global const int *k,
                  __global const float *d, __global float *out, int n)
{
    int i = get_global_id(0);
    if (i >= n) return;
    const float held = a[i];
    out[i] = d[i] / held + 3.0f / (2 + fabs(b[i])) / 2 * d[i] + native_rsqrt(c[i]) + i % k[i];
}
""",
}
DIVIDING["k.cu"] = (
    DIVIDING["k.cl"]
    .replace("__global ", "")
    .replace("__kernel", "__global__")
    .replace("get_global_id(0)", "blockIdx.x * blockDim.x + threadIdx.x")
    .replace("native_rsqrt", "rsqrtf")
)


@pytest.mark.parametrize("name", DIVIDING)
def test_divisors_are_not_near_zero(name: str, tmp_path: Path) -> None:
    """Directly, through a variable, a sum, a product, a root or a function; whole numbers are not zero."""
    (tmp_path / name).write_text(DIVIDING[name])
    (tmp_path / "k.yaml").write_text(init_spec(tmp_path / name))
    load_spec(tmp_path / "k.yaml")
    lines = (tmp_path / "k.yaml").read_text().splitlines()
    first = {n: next(line for line in lines if f"name: {n}," in line) for n in "abcdk"}
    assert all("init: {uniform: [0.5, 2]}" in first[n] for n in "abc")
    assert "init: normal" in first["d"]
    assert "init: {randint: [1, " in first["k"]


MACROS = """
#ifndef FAST
#define FAST 0
#endif
#ifndef TERMS
#define TERMS 0
#endif
#ifndef PAD
#define PAD 0
#endif
#ifndef WAY
#define WAY 0 /* of three */
#endif
#ifndef EXACT
#define EXACT 1
#endif
#ifndef STRIDE
#define STRIDE 1
#endif
#ifndef UNROLL
#define UNROLL 1
#endif
KERNEL void work(GLOBAL const float *in, GLOBAL float *out, int n)
{
    float held[8 + PAD];
    INDEX
#if FAST
    held[0] = in[i];
#elif WAY == 1 || 2 == WAY
    held[0] = in[i] + 1;
#else
    held[0] = in[i] + 2;
#endif
#pragma unroll UNROLL
    for (int k = 0; k < TERMS; k++) held[0] += k;
    for (int k = 0; k < 4; k += STRIDE) held[k % 8] = held[0];
    if (EXACT) held[0] += 1;
    if (PAD > 0) held[0] += 0;
    if (i < n) out[i] = held[0];
    REST
}
"""


@pytest.mark.parametrize("name", ["k.c", "k.cl", "k.cu"])
def test_a_macro_of_zero_or_one_gets_values_of_its_kind(name: str, tmp_path: Path) -> None:
    words = {
        "k.c": ("", "", "for (int i = 0; i < n; i++) {", "}"),
        "k.cl": ("__kernel", "__global", "int i = get_global_id(0);", ""),
        "k.cu": ("__global__", "", "int i = blockIdx.x * blockDim.x + threadIdx.x;", ""),
    }[name]
    text = MACROS
    for word, given in zip(("KERNEL", "GLOBAL", "INDEX", "REST"), words, strict=True):
        text = text.replace(word, given)
    (tmp_path / name).write_text(text)
    (tmp_path / "k.yaml").write_text(init_spec(tmp_path / name))
    parameters = yaml.safe_load((tmp_path / "k.yaml").read_text())["space"]["parameters"]
    found = {name: values for name, values in parameters.items() if name in text}
    # What TERMS is decides the result; every other one is right at all of its values.
    assert found == {
        "FAST": [0, 1],
        "PAD": [0, 1, 2, 4],
        "WAY": [0, 1, 2],
        "EXACT": [1, 0],
        "STRIDE": [1, 2, 4, 8],
        "UNROLL": [1, 2, 4, 8],
    }


@pytest.mark.parametrize(
    ("value", "use", "values"),
    [
        (0, "LOUD ? g(i) : g(i + 1)", [0, 1]),
        (0, "i << LOUD", [0, 1, 2, 4]),
        (0, "g(LOUD != 3 ? i : 2)", [0, 1, 3]),
    ],
)
def test_a_macro_of_zero_that_nothing_builds_with_is_a_switch(
    value: int, use: str, values: list[int], tmp_path: Path
) -> None:
    found, _ = tunables(tmp_path, f"#ifndef LOUD\n#define LOUD {value}\n#endif", use)
    assert found == {"LOUD": values}
