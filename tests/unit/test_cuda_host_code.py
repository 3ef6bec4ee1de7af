"""Kernels that stand in one file with the program that launches them: compiled, verified and edited all the same."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.types import Source, Variant
from tuner.driver.check import check_spec
from tuner.evaluators.cuda.device_part import device_variant
from tuner.spec.first.init import init_spec
from tuner.spec.load import load_spec

PROGRAM = """
#include <cstdio>
#include <cuda.h>
#include <iostream>
#include <vector>
#include "settings.h"
#ifdef __linux__
# include <sys/time.h>
#endif
using namespace std;

#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \\
    fprintf(stderr, "%s\\n", cudaGetErrorString(e)); exit(1); } } while (0)
#define ON_DEVICE __device__ __forceinline__

typedef float real;
enum Mode { PLAIN, DOUBLED };
struct Timer { std::vector<double> laps; double stop() { return laps.back(); } };
static Timer timer;
float host_table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
const int OFFSET = 3;
__constant__ float weights[3] = {0.25f, 0.5f, 0.25f};

struct Scale {
    real by;
    Scale(real b = 1.0f) : by(b) {}
    void print() const { std::cout << by << std::endl; }
    ON_DEVICE real of(real x) const { return by * x; }
};

ON_DEVICE real shifted(real x, Mode mode) { return mode == DOUBLED ? 2.0f * x : x + OFFSET; }

static double seconds() {
    struct timeval now;
    gettimeofday(&now, NULL);
#ifdef FINE
    return now.tv_sec + 1e-6 * now.tv_usec; }
#else
    return now.tv_sec; }
#endif

namespace kernels {
template <typename T> void launch(const T *x, T *y, int n);

__global__ void smooth(const real *x, real *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1)
        y[i] = shifted(weights[0] * x[i - 1] + weights[1] * x[i] + weights[2] * x[i + 1], MODE) + INFINITY * 0.0f * 0;
    else if (i < n)
        y[i] = x[i];
}

template <typename T> void launch(const T *x, T *y, int n) { smooth<<<(n + 255) / 256, 256>>>(x, y, n); }
}

int main(int argc, char **argv)
{
    vector<real> v(1 << 20);
    real *x, *y;
    CHECK(cudaMalloc(&x, v.size() * sizeof(real)));
    CHECK(cudaMalloc(&y, v.size() * sizeof(real)));
    kernels::launch(x, y, (int)v.size());
    CHECK(cudaDeviceSynchronize());
    cout << seconds() << "};" << endl; // a brace } in a comment
    return 0;
}
"""
PROGRAM = PROGRAM.replace(" + INFINITY * 0.0f * 0", " + (INFINITY > 0 ? 0.0f : 1.0f)")
SETTINGS = """
#pragma once
#include <string>
#define MODE DOUBLED
std::string describe();
inline int rounded(int n) { return (n + 31) / 32 * 32; }
"""
SPEC = """
kernel: {source: program.cu, entry: "kernels::smooth"}
target: sm_90
problem: {n: 3000}
arguments:
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
launch: {grid: ["ceil(n / BLOCK)"], block: [BLOCK]}
space:
  parameters: {BLOCK: [128, 256]}
  PASSES
"""


def cut(text: str, *, entry: str = "k", **headers: str) -> str:
    files = (Source(name="a.cu", text=text), *(Source(name=n, text=t) for n, t in headers.items()))
    return device_variant(Variant(files=files), entry=entry).files[0].text


def left(text: str, *, entry: str = "k") -> str:
    """What is left behind what is put in front, without blanks at ends of lines."""
    return "\n".join(line.rstrip() for line in cut(text, entry=entry).partition("#line 1\n")[2].split("\n"))


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")


@needs.nvrtc
@pytest.mark.integration
def test_a_whole_program_is_checked(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(PROGRAM)
    (tmp_path / "settings.h").write_text(SETTINGS)
    (tmp_path / "program.yaml").write_text(SPEC.replace("PASSES", "passes: {}"))
    (spec,) = load_spec(tmp_path / "program.yaml")
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines
    assert "verifies" in dict(report.lines)
    assert spec.task.kernel.variant.files[0].text == PROGRAM


@needs.nvrtc
def test_a_mistake_is_told_at_its_place(tmp_path: Path) -> None:
    text = PROGRAM.replace("y[i] = x[i];", "y[i] = missing[i];")
    (tmp_path / "program.cu").write_text(text)
    (tmp_path / "settings.h").write_text(SETTINGS)
    (tmp_path / "program.yaml").write_text(SPEC.replace("PASSES", "passes: off"))
    (spec,) = load_spec(tmp_path / "program.yaml")
    report = check_spec(spec, faults=False)
    line = 1 + text[: text.index("missing")].count("\n")
    assert f'program.cu({line}): identifier "missing" is undefined' in report.lines[-1][1]


def test_a_first_spec_of_a_program_has_no_macros_of_its_host_code(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(PROGRAM.replace("MODE)", "DOUBLED)"))
    (tmp_path / "settings.h").write_text(SETTINGS)
    text = init_spec(tmp_path / "program.cu")
    assert "EXIT" not in text
    assert "CHECK" not in text
    assert 'entry: "kernels::smooth"' in text


@pytest.mark.parametrize(
    "text",
    [
        "struct A { int a; };\n__global__ void k(A a) {}",
        "typedef struct { int a; } A, *B;\n__global__ void k(B a) {}",
        "typedef float (*op)(float);\n__device__ op f;",
        "enum { N = 4 };\n__device__ int f[N];",
        "constexpr int sq(int x) { return x * x; }\n__device__ int f[sq(2)];",
        "LIBRARY_FN int f() { return 1; }\n__device__ int g() { return f(); }",
        "namespace l = other;\nnamespace other { __device__ int f; }\n__device__ int g() { return l::f; }",
        "template <int N> struct S { static const int v = N; };\n__device__ int f[S<2>::v];",
        "struct V { virtual int f() { return 1; } };\n__device__ V *f;",
        "#define LIMIT SIZE\nconst int SIZE = 3;\n__device__ int g[LIMIT];",
    ],
)
def test_names_used_by_device_code_stay(text: str) -> None:
    assert left(f"{text}\nint x;") == f"{text}\n"


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("int main() { return 0; }\n__device__ int f;", "\n__device__ int f;"),
        ("float *p, q[3];\n__global__ void k() {}", "\n__global__ void k() {}"),
        ("int SIZE_X = 4;\nfloat SIZE_Y, z;\n__device__ int f;", "\n\n__device__ int f;"),
        ("struct A { int a; };\n__global__ void k() {}\nint x;", "\n__global__ void k() {}\n"),
        (
            "#define D __device__\nD int f() { return 1; }\nint g() { return f(); }",
            "#define D __device__\nD int f() { return 1; }\n",
        ),
        (
            'extern "C" {\n__global__ void k() {}\nint main() {}\n}',
            'extern "C" {\n__global__ void k() {}\n\n}',
        ),
        (
            "namespace a { namespace b {\nconst int n = 1; int m;\n__device__ int f[n]; } }",
            "namespace a { namespace b {\nconst int n = 1;\n__device__ int f[n]; } }",
        ),
        (
            "struct __align__(16) V { float a; V(float x) : a{x} {} };\n__device__ V *f;\nint x;",
            "struct __align__(16) V { float a;                      };\n__device__ V *f;\n",
        ),
        (
            "__device__ int f();\nint x = 1 <<\n 2;\n__device__ int f() { return 1; }",
            "__device__ int f();\n\n\n__device__ int f() { return 1; }",
        ),
        (
            "int f() {\n#if A\n return 1; }\n#else\n return 2; }\n#endif\n__device__ int g;",
            "\n#if A\n\n#else\n\n#endif\n__device__ int g;",
        ),
    ],
)
def test_code_that_stays(text: str, stays: str) -> None:
    assert left(text) == stays


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void k(float *x) { x[0] = 1; }",
        "#include <math.h>\n__device__ float f(float x) { return sqrtf(x); }\n__global__ void k(float *x) {}",
        "#ifndef __CUDACC_RTC__\n#include <vector>\nint main() {}\n#endif\n__global__ void k(float *x) {}",
        "const int n = 3;\ntypedef float real;\nstruct P { real x, y; };\n__global__ void k(P *p) {}",
        "OTHER_MARK float f(float x);\n__global__ void k(float *x) {}",
    ],
)
def test_files_without_host_code_stay_as_they_are(text: str) -> None:
    assert cut(text) == text


def test_marks_of_other_headers_are_marks() -> None:
    main = Source(name="a.cu", text="on_device int f() { return 1; }\nint main() {}\n")
    marks = Source(name="../marks.h", text="#define on_device __device__\n")
    variant = device_variant(Variant(files=(main,)), entry="k", headers=(marks,))
    assert "on_device int f() { return 1; }" in variant.files[0].text
    assert "main" not in variant.files[0].text


def test_parts_of_cub_take_the_place_of_all_of_it() -> None:
    text = "#include <cub/cub.cuh>\n__global__ void k(int *x) { typedef cub::BlockReduce<int, 128> R; }"
    assert "#include <cub/block/block_reduce.cuh>" in cut(text)
    assert "cub.cuh" not in cut(text)


PIECES = (
    "int main() { if (1) { return 0; } }",
    "__global__ void k(float *x) { x[0] = 1; }",
    "#include <vector>",
    "#define N 3",
    "static float table[] = {1, 2};",
    "struct A { int a; A() {} };",
    "template <typename T> __device__ T f(T x) { return x; }",
    "namespace n {",
    "}",
    "#if N > 2",
    "#endif",
    "// }",
    'const char *s = "}";',
    "/* { */",
    "enum E { A1, B1 };",
    "(", ")", "[", "<", ";", "'", '"', "\\", "=", "template <",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("\n".join))
def test_lines_and_columns_stay_whatever_the_text_is(text: str) -> None:
    made = cut(text)
    rest = made if made == text else made.partition("#line 1\n")[2]
    assert len(rest) == len(text)
    assert all(a == b or (b == " " and a != "\n") for a, b in zip(text, rest, strict=True))
    assert cut(rest).endswith(rest)
