"""Extents of arrays, and sizes by which kernels stay inside them, where types and memory stand elsewhere than access.

Each source is in the shape of a code that people have: pointers without a type, memory made when a program is loaded,
bounds in an array, counters that several loops share.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.core.errors import SpecError
from tuner.driver.check import check_spec
from tuner.evaluators.workloads import make_workload
from tuner.spec.first.init import first_spec, init_spec
from tuner.spec.load import load_spec

MULTIGRID = """
static void edges(void *pointer, int n1, int n2, int n3) {
    double (*u)[n2][n1] = (double (*)[n2][n1])pointer;
    for (int i3 = 1; i3 < n3 - 1; i3++)
        for (int i2 = 1; i2 < n2 - 1; i2++) u[i3][i2][0] = u[i3][i2][n1 - 2];
}
void coarser(void *from, void *to, const void *weights, int k1, int k2, int j1, int j2, int j3) {
    double (*r)[k2][k1] = (double (*)[k2][k1])from;
    double (*s)[j2][j1] = (double (*)[j2][j1])to;
    const float *w = (const float *)weights;
    int i1, i2, i3, j, d;
    if (k1 == 3) d = 2; else d = 1;
    for (j = 1; j < j3 - 1; j++) {
        i3 = 2 * j - d;
        for (int m = 1; m < j2 - 1; m++) {
            i2 = 2 * m - d;
            for (int l = 1; l < j1 - 1; l++) {
                i1 = 2 * l - d;
                s[j][m][l] = w[0] * r[i3][i2][i1] + w[1] * r[i3 + 2][i2 + 1][i1 + 1];
            }
        }
    }
    edges(s, j1, j2, j3);
}
"""
SOLVER = """
extern "C" {
int printf(const char *, ...);
void *malloc(unsigned long);
void *calloc(unsigned long, unsigned long);
}
#define N 40
static double (*rhs)[N][5] = (double (*)[N][5])malloc(sizeof(double) * N * N * 5);
static double *(lines) = new double[N];
static int (*debug) = (int *)calloc(4, sizeof(int));
static int points[3];
static double flux[N][5];
int first, last, rows;
void sweep() {
    int i, j, m;
    for (j = 0; j < rows; j++)
        for (i = 0; i < points[0]; i++)
            for (m = 0; m < 5; m++) flux[i][m] += rhs[j][i][m] + points[2];
    for (j = first; j <= last; j++)
        for (i = 1; i <= points[1] - 2; i++) {
            lines[i] = flux[i + 1][0] - flux[i - 1][0];
            rhs[j][i][0] += lines[i];
        }
    if (debug[2] >= 1) printf("%g\\n", rhs[0][0][0]);
}
"""

OFFSETS = """
#define N 5000
void exit(int);
static float a[N], b[N];
void loops(const int *given)
{
    int by = *given, half = N / 2, one = 1, at;
    int none = 2 * one - 2;
    for (int t = 0; t < 10; t++) {
        for (int i = 0; i < N - 3; i++) a[i] += b[i + by]; // offset
        for (int i = 0; i < N; i++) a[i] += b[i + none]; // none
        for (int j = 0; j < N / 2; j++) // mirrored
            for (int i = 0; i < half; i++) a[i] += b[i + half - j - 1];
        at = 0;
        at += by;
        for (int i = 1; i < N; i++) { if (a[at] > 3) a[i] -= 1; at += by; } // steps
        for (int i = 0; i < N; i++) { if (b[i] <= 0) exit(1); a[i] += b[i]; } // ends
    }
}
"""


def written(folder: Path, text: str, entry: str, *, suffix: str = "c") -> dict[str, dict[str, Any]]:
    """The first spec's arguments by name; under an empty one its sizes."""
    path = folder / f"k.{suffix}"
    path.write_text(text)
    made = init_spec(path, entry=entry)
    (folder / "k.yaml").write_text(made)
    data = yaml.safe_load(made)
    assert load_spec(folder / "k.yaml")
    sizes = {"usual": data.get("problem", {}), "small": data["verify"].get("problems", [{}])[0]}
    return {"": sizes, **{each["name"]: each for each in data["arguments"]}}


def test_enumerators_are_numbers(tmp_path: Path) -> None:
    source = tmp_path / "divided.cpp"
    source.write_text(
        """
enum { ROUNDS = 3, SIZE = 40, BEHIND = -2 };
namespace app { enum class Way { UP = 7 }; enum Wide { MOST = 24 }; }
static void over(double *a, int first) { for (int i = first; i < SIZE; i++) a[i] += 1; }
void divided(double *a, double *b, double *c, float *d) {
    for (int j = 0; j < ROUNDS; j++)
        for (int i = 0; i < SIZE; i++) c[i] /= b[i - BEHIND + 1];
    for (int i = 0; i < 24; i++) d[i] = (int)app::Way::UP + app::MOST;
    over(a, 0);
}
"""
    )
    arguments = yaml.safe_load(first_spec(source, folder=tmp_path, entry="divided").text)["arguments"]
    shapes = {a["name"]: a["shape"] for a in arguments}
    assert shapes == {"a": [40], "b": [43], "c": [40], "d": [24]}


def test_casts_say_what_a_pointer_without_a_type_points_to(tmp_path: Path) -> None:
    found = written(tmp_path, MULTIGRID, "coarser")
    assert (found["from"]["dtype"], found["from"]["shape"]) == ("float64", ["2 * j3", "k2", "k1"])
    assert (found["to"]["dtype"], found["to"]["shape"]) == ("float64", ["j3", "j2", "j1"])
    assert (found["weights"]["dtype"], found["weights"]["shape"]) == ("float32", [2])
    for sizes in found[""].values():
        # What is read twice as far as it is written has rows that are long enough.
        assert 2 * sizes["j1"] <= sizes["k1"]
        assert 2 * sizes["j2"] <= sizes["k2"]


@pytest.mark.parametrize(
    ("source", "dtype", "shape"),
    [
        ("void f(void *p, int n) { float (*a)[n] = p; %s a[i][j] += 1; }", "float32", ["n", "n"]),
        ("void f(void *p, int n) { int m = 2 * n; float (*a)[m] = p; %s a[i][j] = 1; }", "float32", ["n", "2 * n"]),
        ("void f(void *p, int n) { double *a = p; %s a[i * n + j] += 1; }", "float64", ["n", "n"]),
        ("void f(void *p, int n) { %s ((int *)p)[i * n + j] += 1; }", "int32", ["n", "n"]),
        ("void f(double *p, int n) { double (*a)[n] = (double (*)[n])p; %s a[i][j] += 1; }", "float64", ["n", "n"]),
        ("static void g(void *q, int n) { short *a = q; %s a[i * n + j] += 1; } void f(void *p, int n) { g(p, n); }",
         "int16", ["n", "n"]),
    ],
    ids=["rows", "a computed length", "flat", "in an expression", "of its own type", "in a called function"],
)  # fmt: skip
def test_extents_of_a_cast(source: str, dtype: str, shape: list[str], tmp_path: Path) -> None:
    loops = "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++)"
    found = written(tmp_path, source % loops, "f")
    assert (found["p"]["dtype"], found["p"]["shape"]) == (dtype, shape)


def test_extents_of_a_cast_by_a_name_of_cpp(tmp_path: Path) -> None:
    text = (
        "void f(void *p, int n) { using R = double (*)[n]; R a = reinterpret_cast<R>(p); LOOPS a[i][j] = 1; }"
    )
    text = text.replace("LOOPS", "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++)")
    found = written(tmp_path, text, "f", suffix="cc")
    assert (found["p"]["dtype"], found["p"]["shape"]) == ("float64", ["n", "n"])


def test_a_structure_behind_a_pointer_without_a_type(tmp_path: Path) -> None:
    text = """
struct work { int n; double *x, *y; };
void run(void *given) {
    struct work *w = (struct work *)given;
    for (int i = 0; i < w->n; i++) w->y[i] = 2 * w->x[i];
}
"""
    found = written(tmp_path, text, "run")
    members = {each["name"]: each for each in found["given"]["members"]}
    assert (members["x"]["shape"], members["y"]["role"]) == (["n"], "output")


def test_sizes_stay_in_memory_that_is_made_when_a_program_is_loaded(tmp_path: Path) -> None:
    found = written(tmp_path, SOLVER, "sweep", suffix="cc")
    shapes = {name: found[name]["shape"] for name in ("rhs", "lines", "debug", "points", "flux")}
    assert shapes == {"rhs": [40, 40, 5], "lines": [40], "debug": [4], "points": [3], "flux": [40, 5]}
    # Elements that are bounds are sizes; one that is a number like any other is not.
    assert found["points"]["init"] == {"values": ["points_0", "points_1", 1]}
    assert found["debug"]["init"] == "zeros"
    for sizes in found[""].values():
        assert 1 < sizes["rows"] <= 40
        # Both counters are used by several loops, each of which goes as far as it says itself.
        assert 1 < sizes["last"] < 40
        assert 2 < sizes["points_0"] <= 40
        assert 2 < sizes["points_1"] <= 40
    assert found[""]["usual"] != found[""]["small"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("text", "entry", "suffix", "unseen"),
    [(MULTIGRID, "coarser", "c", "d = 2;"), (SOLVER, "sweep", "cc", "debug[2]")],
    ids=["casts", "globals"],
)
def test_such_kernels_check_as_they_are(
    text: str, entry: str, suffix: str, unseen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 8)
    written(tmp_path, text, entry, suffix=suffix)
    (spec,) = load_spec(tmp_path / "k.yaml")
    report = check_spec(spec)
    assert report.ok, report.lines
    found, _, planted, *_ = dict(report.lines)["faults"].split()
    assert int(planted) > 4
    # What is left out where a size is not 3, or where nothing is to be printed, does not show.
    line = next(number for number, each in enumerate(text.splitlines(), 1) if unseen in each)
    missed = [what for kind, what in report.lines if kind == "missed"]
    assert len(missed) == int(planted) - int(found)
    assert all(what.startswith(f"k.{suffix}:{line}:") for what in missed), missed


@pytest.mark.integration
@pytest.mark.parametrize(
    ("loop", "sizes", "argument"),
    [
        ("offset", [{"by": 3}, {"by": 2}], {"name": "by", "value": "by"}),
        ("none", [{}, {}], {"name": "none", "value": 0}),
        ("mirrored", [{"half": 2500}, {}], {"name": "half", "value": "half"}),
        ("steps", [{}, {}], {"name": "at", "value": 1}),
        ("ends", [{}, {}], {"name": "b", "init": {"uniform": [0.5, 2]}}),
    ],
)
def test_numbers_of_a_loop_keep_it_in_its_arrays(
    loop: str, sizes: list[dict[str, int]], argument: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "k.c"
    path.write_text(OFFSETS)
    line = next(i for i, each in enumerate(OFFSETS.splitlines(), 1) if each.endswith(f"// {loop}"))
    text = first_spec(path, loop=line).text
    (tmp_path / "k.yaml").write_text(text)
    data = yaml.safe_load(text)
    assert [data.get("problem", {}), *data["verify"].get("problems", [{}])] == sizes
    assert any(argument.items() <= each.items() for each in data["arguments"])
    (spec,) = load_spec(tmp_path / "k.yaml")
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines


def test_an_array_is_as_long_as_its_longest_loop(tmp_path: Path) -> None:
    text = """
void f(double *a, double *b, double *c, int n, int m) {
    for (int i = 0; i < n; i++) a[n - 1 - i] = b[i];
    for (int j = 0; j < m; j++) c[j] += b[j];
    for (int j = 0; j < m - 1; j++) c[j] += 1;
}
"""
    found = written(tmp_path, text, "f")
    assert [found[name]["shape"] for name in "abc"] == [["n"], ["max(m, n)"], ["m"]]


WALKS = """
void walk(int n, int m, const float *from, float *to, float *rows, const float *again) {
    for (int i = 0; i < n; i++) {
        const float *each = again;
        for (int j = 0; j < m; j++) { *to++ = *from; from++; rows[0] += *each++; }
        for (int j = 0; j < 8; j++) rows[j] *= 2;
        rows += 8;
    }
}
void down(int n, float *to) { to += n; while (n > 0) { to--; *to = n; n--; } }
"""


@pytest.mark.integration
def test_pointers_that_go_on_in_loops(tmp_path: Path) -> None:
    found = written(tmp_path, WALKS, "walk")
    shapes = {name: found[name]["shape"] for name in ("from", "to", "rows", "again")}
    assert shapes == {"from": ["m * n"], "to": ["m * n"], "rows": ["8 * n"], "again": ["m"]}
    assert found["to"]["role"] == "output"
    (spec,) = load_spec(tmp_path / "k.yaml")
    assert check_spec(spec, faults=False).ok
    assert written(tmp_path, WALKS, "down")["to"]["shape"] == ["n"]


def test_arrays_are_not_larger_than_a_check_can_make(tmp_path: Path) -> None:
    text = """
void f(int n, int m, double a[n][n][n][n], double b[m]) {
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) for (int k = 0; k < n; k++)
        for (int l = 0; l < m; l++) a[i][j][k][i] += b[l];
}
void deep(double *a, int n) {
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) for (int k = 0; k < n; k++)
        for (int l = 0; l < n; l++) for (int m = 0; m < n; m++)
            for (int o = 0; o < n; o++) a[((((i * n + j) * n + k) * n + l) * n + m) * n + o] += 1;
}
"""
    for entry, dimensions in (("f", 4), ("deep", 6)):
        sizes = written(tmp_path, text, entry)[""]["usual"]
        assert sizes["n"] > 2
        assert 8 * sizes["n"] ** dimensions <= 1 << 28


@pytest.mark.parametrize(("init", "given"), [("[n, 2 * n + 1]", [5, 11]), ("[3, 4]", [3, 4])])
def test_values_of_single_elements(init: str, given: list[int], tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "void f(const int *size, float *x) { for (int i = 0; i < size[0]; i++) x[i] += 1; }"
    )
    text = f"""
kernel: {{source: k.c, entry: f}}
problem: {{n: 5}}
arguments:
  - {{name: size, dtype: int32, shape: [2], init: {{values: {init}}}}}
  - {{name: x, dtype: float32, shape: [8], role: inout}}
"""
    (tmp_path / "k.yaml").write_text(text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    made = make_workload(spec.task, spec.task.problems[0], {}, seed=1)
    assert list(made.arrays["size"]) == given
    (tmp_path / "k.yaml").write_text(text.replace("shape: [2]", "shape: [3]"))
    with pytest.raises(SpecError, match=re.escape("'size' has 3 elements, but init gives 2 values")):
        load_spec(tmp_path / "k.yaml")


@pytest.mark.integration
def test_an_element_that_is_a_row_leads_no_further_than_elements_are_made(tmp_path: Path) -> None:
    text = """
static int nearest(const double *row, int width, double value) {
    int low = 0, high = width - 1;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (row[middle] > value) high = middle; else low = middle;
    }
    return low;
}
void sum(const int *rows, const double *table, double *out, int n, int width, double value) {
    for (int i = 0; i < n; i++) {
        int row = rows[i], at = nearest(&table[row * width], width, value);
        out[i] = table[row * width + at];
    }
}
"""
    found = written(tmp_path, text, "sum")
    assert (found["table"]["shape"], found["rows"]["init"]) == (["n", "width"], {"randint": [0, "n"]})
    assert found["width"]["value"] == "width"
    (spec,) = load_spec(tmp_path / "k.yaml")
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines


@pytest.mark.integration
def test_powers_of_two_have_small_exponents(tmp_path: Path) -> None:
    text = """
void stage(int l, int m, const float *x, float *y) {
    int li = 1 << (m - l), lk = 1 << (l - 1), i, k;
    for (i = 0; i < li; i++)
        for (k = 0; k < lk; k++) y[i * lk + k] = 2 * x[i * lk + k] + x[(1 << m) - 1];
}
"""
    found = written(tmp_path, text, "stage")
    assert found["y"]["shape"] == ["2 ** (m - l)", "2 ** (l - 1)"]
    for sizes in found[""].values():
        assert 1 <= sizes["l"] <= sizes["m"] <= 12
    (spec,) = load_spec(tmp_path / "k.yaml")
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines


def test_loops_that_count_down_reach_where_they_begin(tmp_path: Path) -> None:
    source = """void down(int lo, int hi, int n, double *a, const double *b) {
        for (int j = hi - 1; j >= lo; j--)
            for (int i = n; i > 0; --i)
                a[j * 33 + i - 1] += b[i];
    }"""
    found = written(tmp_path, source, "down")
    assert found["a"]["shape"] == ["hi", 33]
    assert found["b"]["shape"] == ["n + 1"]
    assert (found["hi"]["value"], found["n"]["value"], found["lo"]["value"]) == ("hi", "n", 1)


@pytest.mark.parametrize(
    ("body", "a", "b"),
    [
        ("while (n--) *a++ = *b++ + *b++;", "n", "2 * n"),
        (
            "for (int i = 0; i < n; i++) { double x = *b++, y = *b++, z = *b++; *a++ = x + y + z; }",
            "n",
            "3 * n",
        ),
        ("for (int i = n; i-- > 0;) a[i] = b[2 * i + 1];", "n", "n, 2"),
        ("int i = n; while (--i >= 0) a[i] = b[i];", "n", "n"),
        ("int i = n; do { a[i] = b[i]; } while (i-- > 0);", "n + 1", "n + 1"),
        ("int i = 0; do { a[i] = b[i]; i++; } while (i < n);", "n", "n"),
        ("for (; n--; b++) a[n] = *b;", "n", "n"),
        ("for (int i = 7; i >= 0; i--) { a[i] = b[0] + b[7]; b += 8; }", "8", "64"),
        (
            "for (int y = 0; y < n; y++) { for (int x = 0; x < 4; x++) *a++ = *b++; b += 3; }",
            "4 * n",
            "7 * n",
        ),
    ],
)
def test_loops_that_run_out_and_pointers_that_step_several_times(
    body: str, a: str, b: str, tmp_path: Path
) -> None:
    path = tmp_path / "k.c"
    path.write_text(f"void f(int n, double *a, const double *b)\n{{\n    {body}\n}}\n")
    text = first_spec(path, entry="f", folder=tmp_path).text
    shapes = dict(re.findall(r"name: (\w+),.* shape: \[([^\]]*)\]", text))
    assert shapes == {"a": a, "b": b}


def test_a_table_that_is_looked_up_by_some_bits_holds_what_they_can_be(tmp_path: Path) -> None:
    text = """
#include <stdint.h>
void crc(const uint8_t *p, int n, const uint32_t *table, uint32_t *out) {
    uint32_t c = ~0u;
    while (n--) c = table[(c ^ *p++) & 0xff] ^ (c >> 8);
    *out = ~c;
}
"""
    found = written(tmp_path, text, "crc")
    assert [found[name]["shape"] for name in ("p", "table", "out")] == [["n"], [256], [1]]
    (spec,) = load_spec(tmp_path / "k.yaml")
    assert check_spec(spec, faults=False).ok


def test_arrays_that_have_a_name_of_their_own(tmp_path: Path) -> None:
    text = (
        "typedef float vec[4];\ntypedef double mat[3][2];\nvec pos[256];\n"
        "void k(vec *p, mat m[][5], int n)\n{\n    for (int i = 0; i < 256; i++) pos[i][0] += pos[i][1];\n"
        "    for (int i = 0; i < n; i++) m[i][4][2][1] += p[i][3];\n}\n"
    )
    found = written(tmp_path, text, "k")
    assert {name: a["shape"] for name, a in found.items() if "shape" in a} == {
        "pos": [256, 4],
        "p": ["n", 4],
        "m": ["n", 5, 3, 2],
    }


def test_sizes_of_arrays_in_extents(tmp_path: Path) -> None:
    text = (
        "#define LEN(x) (sizeof(x) / sizeof((x)[0]))\nstatic const double taps[] = {0.1, 0.2, 0.4};\n"
        "void k(unsigned long h, unsigned long w, const double (*restrict in)[w],"
        " double (*restrict out)[w - LEN(taps) + 1])\n{\n    for (unsigned long y = 0; y < h; y++)\n"
        "        for (unsigned long x = 0; x < w - LEN(taps) + 1; x++) {\n            double s = 0;\n"
        "            for (unsigned t = 0; t < LEN(taps); t++) s += taps[t] * in[y][x + t];\n"
        "            out[y][x] = s;\n        }\n}\n"
    )
    found = written(tmp_path, text, "k")
    assert (found["in"]["shape"], found["out"]["shape"]) == (["h", "w"], ["h", "w - 2"])


def test_standard_arrays_by_reference_have_their_extents(tmp_path: Path) -> None:
    text = (
        "#include <array>\nusing mat = std::array<std::array<double, 5>, 7>;\n"
        "void k(const mat &a, mat &c, std::array<int, 7> &at)\n{\n    for (int i = 0; i < 7; i++)\n"
        "        for (int j = 0; j < 5; j++) c[i][j] += a[i][j] * at[i];\n}\n"
    )
    found = written(tmp_path, text, "k", suffix="cpp")
    assert {n: (a["shape"], a["dtype"], a.get("role")) for n, a in found.items() if n} == {
        "a": ([7, 5], "float64", None),
        "c": ([7, 5], "float64", "inout"),
        "at": ([7], "int32", None),
    }


def test_members_of_elements_that_are_indices(tmp_path: Path) -> None:
    text = (
        "struct at { int row; short far; };\nstruct p { double x; int cell, left; struct at at; };\n"
        "void k(int n, struct p *p, double *grid, const double *rows)\n{\n"
        "    for (int i = 0; i < n; i++) {\n        int row = p[i].at.row;\n"
        "        if (p[i].left > 3) grid[p[i].cell] += p[i].x * rows[row];\n        p[i].left--;\n    }\n}\n"
    )
    found = written(tmp_path, text, "k")
    assert (found["grid"]["shape"], found["rows"]["shape"]) == (["n"], ["n"])
    assert found["p"]["init"] == {"members": {"at.row": {"randint": [0, "n"]}, "cell": {"randint": [0, "n"]}}}
