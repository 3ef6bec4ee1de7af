"""Arguments of CUDA specs against the parameters of the source, as clang reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.core.errors import SpecError
from tuner.spec.load import load_spec

SOURCE = """
#include "mine.h"
#include <gone.h>
enum Way { UP, DOWN };
namespace sim {
template <typename T, int N = 2, typename Index = int>
__global__ void step(const T *in, real *out, float4 *wide, Index *where, library_type *other, Way way, int n) {
    const int i = blockIdx.x * TILE + threadIdx.x;
    if (i < n) out[i] = in[i * N] + wide[i].x + where[i] + way;
}
}
"""
ARGUMENTS = {
    "in": "dtype: float32, shape: [n]",
    "out": "dtype: float64, shape: [n], role: output",
    "wide": "dtype: complex64, shape: [n, 2]",
    "where": "dtype: int32, shape: [n], init: zeros",
    "other": "dtype: uint8, shape: [n], init: zeros",
    "way": "dtype: int32, value: 1",
    "n": "dtype: int32, value: n",
}


def load(folder: Path, entry: str = "sim::step<float>", flag: str = "", **arguments: str) -> None:
    """Reads a spec of the kernel with other arguments."""
    (folder / "mine.h").write_text("#ifndef REAL\n#define REAL double\n#endif\ntypedef REAL real;\n")
    all_known = arguments.get("other") == ""
    (folder / "k.cu").write_text(SOURCE.replace(" library_type *other,", "") if all_known else SOURCE)
    listed = "".join(f"  - {{name: {n}, {text}}}\n" for n, text in (ARGUMENTS | arguments).items() if text)
    (folder / "k.yaml").write_text(
        f'kernel: {{source: k.cu, entry: "{entry}"}}\ntarget: sm_90\nproblem: {{n: 100}}\narguments:\n{listed}'
        f'launch: {{grid: ["ceil(n / TILE)"], block: [TILE]}}\n'
        f'space: {{parameters: {{TILE: [64, 128]}}, flags: {{f: ["{flag}"]}}}}\n'
    )
    load_spec(folder / "k.yaml")


def test_types_that_agree_or_are_unknown_are_taken(tmp_path: Path) -> None:
    load(tmp_path)
    load(tmp_path, flag="-DREAL=float -std=c++20", out="dtype: float32, shape: [n], role: output")
    load(
        tmp_path,
        "sim::step<double, 4, short>",
        **{"in": "dtype: float64, shape: [n]"},
        where="dtype: int16, shape: [n], init: zeros",
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"in": "dtype: float64, shape: [n]"},
            r"k.yaml:5:23: argument 'in' is `const T \*in` .*; write float32",
        ),
        ({"out": "dtype: float32, shape: [n], role: output"}, r"'out' is `real \*out` .*; write float64"),
        ({"where": "dtype: int64, shape: [n], init: zeros"}, r"'where' is `Index \*where` .*; write int32"),
        (
            {"n": "dtype: int32, shape: [1], init: zeros"},
            r"'n' is `int n` in the source, but the spec gives a shape",
        ),
        ({"in": "dtype: float32, value: 1"}, r"'in' is .* a pointer, but the spec gives a value"),
        ({"in": "dtype: float32, shape: [n], role: inout"}, r"'in' is .*, const, but its role is inout"),
        ({"way": "dtype: int16, value: 1"}, r"'way' is `Way way` .*; write int32"),
        (
            {"way": "", "other": ""},
            r"step takes 6 arguments, the spec lists 5; in call order: in, out, wide, where, way, n",
        ),
    ],
)
def test_types_that_differ_are_one_line_with_their_place(
    tmp_path: Path, arguments: dict[str, str], says: str
) -> None:
    with pytest.raises(SpecError, match=says):
        load(tmp_path, **arguments)


@pytest.mark.parametrize(
    "parameters", ["BOTH, int n", "float *a,\n#ifdef MORE\nint *more,\n#endif\nfloat *b, int n"]
)
def test_parameters_that_only_the_preprocessor_knows(tmp_path: Path, parameters: str) -> None:
    (tmp_path / "k.cu").write_text(
        f"#define BOTH float *a, float *b\n__global__ void k({parameters}) {{ b[n] = a[TILE]; }}\n"
    )
    text = (
        "kernel: {source: k.cu, entry: k}\ntarget: sm_90\nproblem: {n: 100}\narguments:\n"
        "  - {name: a, dtype: float32, shape: [n]}\n  - {name: b, dtype: float32, shape: [n], role: output}\n"
        "  - {name: n, dtype: int32, value: n}\n"
        "launch: {grid: [1], block: [TILE]}\nspace: {parameters: {TILE: [64, 128]}}\n"
    )
    (tmp_path / "k.yaml").write_text(text)
    load_spec(tmp_path / "k.yaml")
    (tmp_path / "k.yaml").write_text(text.replace("int32", "int64"))
    with pytest.raises(SpecError, match="'n' is `int n` in the source, but the spec says int64"):
        load_spec(tmp_path / "k.yaml")


def test_the_order_of_arguments(tmp_path: Path) -> None:
    load(tmp_path, other="")
    text = (tmp_path / "k.yaml").read_text()
    lines = text.splitlines(keepends=True)
    lines[4], lines[5] = lines[5], lines[4]
    (tmp_path / "k.yaml").write_text("".join(lines))
    with pytest.raises(SpecError, match="argument 'out' is out of order"):
        load_spec(tmp_path / "k.yaml")
