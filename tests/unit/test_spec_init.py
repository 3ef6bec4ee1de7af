"""First specs: what is guessed from a source, and that what is written loads."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tuner.core.errors import BaselineError, UsageError
from tuner.spec.first.init import init_spec
from tuner.spec.load import LoadedSpec, load_spec

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def first(tmp_path: Path, source: str, *, name: str = "k.c", entry: str | None = None) -> LoadedSpec:
    """Writes a source, its first spec, and loads that as it is."""
    (tmp_path / name).write_text(source)
    (tmp_path / "k.yaml").write_text(init_spec(tmp_path / name, entry=entry))
    (loaded,) = load_spec(tmp_path / "k.yaml")
    return loaded


def arguments(spec: LoadedSpec) -> dict[str, tuple[str, str, str]]:
    """Name to role, dtype and shape or value."""
    found = {}
    for a in spec.task.arguments:
        what = "[" + ", ".join(str(e) for e in a.shape) + "]" if a.shape is not None else str(a.value)
        found[a.name] = (a.role.value, a.dtype, what)
    return found


def test_two_dimensions_from_index_arithmetic(tmp_path: Path) -> None:
    spec = first(
        tmp_path,
        "void k(const double *restrict a, double *b, int nx, int ny) {\n"
        "  for (int y = 1; y < ny - 1; y++) for (int x = 1; x < nx - 1; x++) {\n"
        "    const int p = y * nx + x;\n"
        "    b[p] = a[p - nx] + a[p + 1]; } }\n",
    )
    assert arguments(spec) == {
        "a": ("input", "float64", "[ny, nx]"),
        "b": ("output", "float64", "[ny, nx]"),
        "nx": ("input", "int32", "nx"),
        "ny": ("input", "int32", "ny"),
    }
    assert spec.task.problems[0].sizes == {"nx": 2048, "ny": 2048}
    assert spec.task.verify.problems[0].sizes == {"nx": 67, "ny": 129}


def test_three_dimensions_and_aliases(tmp_path: Path) -> None:
    spec = first(
        tmp_path,
        "void k(float *out, const float *in, int nx, int ny, int nz) {\n"
        "  for (int z = 0; z < nz; z++) for (int y = 0; y < ny; y++) {\n"
        "    float *row = out + (z * ny + y) * nx; const float *from = &in[z * ny * nx + y * nx];\n"
        "    for (int x = 0; x < nx; ++x) row[x] = 2 * from[x]; } }\n",
    )
    found = arguments(spec)
    assert found["out"] == ("output", "float32", "[nz, ny, nx]")
    assert found["in"] == ("input", "float32", "[nz, ny, nx]")
    assert spec.task.problems[0].sizes == {"nx": 160, "ny": 160, "nz": 160}


def test_reads_and_writes_decide_roles(tmp_path: Path) -> None:
    spec = first(
        tmp_path,
        "void k(float *a, float *b, float *c, float *d, int n) {\n"
        "  for (int i = 0; i < n; i++) { a[i] = d[i]; b[i] += 1; c[i]++; } }\n",
    )
    assert [a.role.value for a in spec.task.arguments] == ["output", "inout", "inout", "input", "input"]


def test_calls_in_the_same_file_are_followed(tmp_path: Path) -> None:
    spec = first(
        tmp_path,
        "static void row(const float *from, float *to, int count) {\n"
        "  for (int j = 0; j < count; j++) to[j] = from[j]; }\n"
        "void k(const float *a, float *b, int n, int m) {\n"
        "  for (int i = 0; i < n; i++) row(a + i * m, b + i * m, m); }\n",
        entry="k",
    )
    assert arguments(spec)["b"] == ("output", "float32", "[n, m]")


def test_other_shapes(tmp_path: Path) -> None:
    spec = first(
        tmp_path,
        "enum { BINS = 64 };\n"
        "void k(const int *start, const unsigned char *u, long long *sum, float *table, float (*grid)[8], int rows) {\n"
        "  for (int r = 0; r < rows; r++) { sum[0] += start[r + 1] - start[r] + u[r]; grid[r][3] = 1; }\n"
        "  for (int b = 0; b <= 63; b++) table[b] = 0; }\n",
    )
    found = arguments(spec)
    assert found["start"] == ("input", "int32", "[rows + 1]")
    assert found["u"][1] == "uint8"
    assert found["sum"] == ("inout", "int64", "[1]")
    assert found["table"] == ("output", "float32", "[64]")
    assert found["grid"][2] == "[rows, 8]"


def test_extents_are_those_declared(tmp_path: Path) -> None:
    """Whatever loops reach of them, and whatever other declarations say; what is no expression is guessed."""
    spec = first(
        tmp_path,
        "#define W (N + 8)\n#define N 100\ntypedef double row[8];\ntypedef struct { int rows; double (*q)[4]; } S;\n"
        "enum { BINS = 16 };\nint total;\n"
        "void k(int, int, int, double a[*][*], double *b, float c[N][W], const double (*d)[*], row e[], row f[*],\n"
        "       S *s, double g[*][6], double h[*], double o[*], double u[*], double one[1], int ld, double p[*][*]);\n"
        "void k(int n, int m, int stop, double a[n][m], double b[static restrict n * m - 1], float c[N][W],\n"
        "       const double (*d)[m], row e[], row f[n + 0], S *s, double g[s->rows][BINS - 10],\n"
        "       double h[(n + 15) / 16 * 16], double o[m % 4 + 1], double u[total], double one[1], int ld,\n"
        "       double p[n][ld]) {\n"
        "  for (int j = 0; j < m - 1; j++) for (int i = 0; i < n; i++) {\n"
        "    a[i][j] = d[i][j] + s->q[i][1]; b[i] = e[j][1] + u[i]; g[0][0] = h[i]; p[i][j] = f[i][2] + o[0]; }\n"
        "  float local[90]; for (int i = 0; i < stop; i++) local[i] = c[i][0] = one[i];\n  ld = 0; }\n",
    )
    shapes = {a.name: ", ".join(map(str, a.shape)) for a in spec.task.arguments if a.shape is not None}
    assert shapes == {
        "a": "n, m",
        "b": "m * n - 1",
        "c": "100, 108",
        "d": "n, m",
        "e": "m, 8",
        "f": "n, 8",
        "s.q": "n, 4",
        "g": "rows, 6",
        "h": "16 * ((n + 15) // 16)",
        "o": "m % 4 + 1",
        "u": "total",
        "one": "stop",
        "p": "n, ld",
        "total": "1",
    }
    text = (tmp_path / "k.yaml").read_text()
    assert "check: the shape" not in text
    data = yaml.safe_load(text)
    assert data["problem"] == {"n": 1024, "m": 1024, "stop": 90, "rows": 2048, "ld": 2048, "total": 2048}
    small = data["verify"]["problems"][0]
    assert len({*small.values()}) == len(small)
    assert min(small["ld"], small["total"]) > max(small["n"], small["m"])


@pytest.mark.parametrize(
    ("name", "source", "shapes"),
    [
        (
            "k.cpp",
            "using real = float;\nnamespace grid { void k(int);\n"
            "void k(const double (&a)[4][8], real (&b)[16], int n, float (*c)[8]) {\n"
            "  for (int i = 0; i < n / 2; i++) b[1] += a[0][i] * c[i][1]; } }\n",
            {"a": "[4, 8]", "b": "[16]", "c": "[n // 2, 8]"},
        ),
        (
            "k.c",
            "void k(a, n, b) int n; double a[n][2 * n], b[n / 2]; { for (int i = 0; i < n; i++) a[i][i] = b[0]; }\n",
            {"a": "[n, 2 * n]", "b": "[n // 2]"},
        ),
        (
            "k.c",
            "static void k(int n, int m, double a[n][m], float *row[n]) {\n"
            "  for (int j = 0; j < m; j++) for (int i = 0; i < n; i++) a[i][j] = row[i][j]; }\n"
            "void other(int n, double (*a)[n], float **row) { k(n, n, a, row); }\n",
            {"a": "[n, m]", "row": "[n, m]"},
        ),
    ],
)
def test_extents_of_references_old_parameters_and_rows(
    name: str, source: str, shapes: dict[str, str], tmp_path: Path
) -> None:
    found = arguments(first(tmp_path, source, name=name, entry="k"))
    assert {name: found[name][2] for name in shapes} == shapes


def test_no_two_sizes_of_an_odd_problem_are_alike(tmp_path: Path) -> None:
    names = [f"n{i}" for i in range(11)]
    loops = "".join(f"for (int i = 0; i < {n}; i++) a_{n}[i] = 1; " for n in names)
    taken = ", ".join(f"int {n}, double a_{n}[{n}]" for n in names)
    (tmp_path / "k.c").write_text(f"void k({taken}) {{ {loops} }}\n")
    small = yaml.safe_load(init_spec(tmp_path / "k.c"))["verify"]["problems"][0]
    assert len({*small.values()}) == len(small) == len(names)


def test_unknown_facts_are_marked(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "void out(float *);\nfloat k(float *a, const int *at, float scale, unsigned n, int mode) {\n"
        "  float s = 0; for (unsigned i = 0; i < n; i++) s += a[at[i]] * scale; out(a); return mode ? s : 0; }\n"
    )
    text = init_spec(tmp_path / "k.c")
    data = yaml.safe_load(text)
    assert data["kernel"]["returns"] == "float32"
    assert data["problem"] == {"n": 1 << 20}
    a, at, scale, n, mode = text.split("arguments:")[1].splitlines()[1:6]
    assert "check: the shape" in a
    assert "role: inout" in a
    assert "indices" in at
    assert "randint: [0, n]" in at
    assert "value: 0.75" in scale
    assert "check: the value" in scale
    assert "check" not in n
    assert "check: the value" in mode


def test_the_entry(tmp_path: Path) -> None:
    source = "void a(float *x) { x[0] = 1; }\nvoid b(float *x) { x[0] = 2; }\nstatic void c(float *x) { x[0] = 3; }\n"
    assert first(tmp_path, source, entry="b").task.kernel.entry == "b"
    assert first(tmp_path, source, entry="c").task.kernel.entry == "c"
    for entry, says in ((None, "choose with --entry: a, b"), ("bb", "did you mean 'b'")):
        with pytest.raises(UsageError, match=says):
            init_spec(tmp_path / "k.c", entry=entry)


def test_cpp(tmp_path: Path) -> None:
    spec = first(
        tmp_path,
        "#include <cstddef>\nusing real = float;\n"
        "template <class T> static T twice(T x) { return 2 * x; }\n"
        'extern "C" void k(const real *a, real *b, std::size_t n) {\n'
        "  for (std::size_t i = 0; i < n; ++i) b[i] = twice(a[i]); }\n",
        name="k.cpp",
    )
    assert arguments(spec) == {
        "a": ("input", "float32", "[n]"),
        "b": ("output", "float32", "[n]"),
        "n": ("input", "uint64", "n"),
    }


def test_arrays_in_an_array_of_which_little_is_known_keep_their_length(tmp_path: Path) -> None:
    loop = "for (int b = 0; b < n; b++) for (int o = 64 * b, i = 0; i < c[b]; i++, o++)"
    source = f"void k(float *f, float (*g)[4], const int *c, int n) {{ {loop} f[o] = g[o][1]; }}\n"
    (tmp_path / "k.c").write_text(source)
    text = init_spec(tmp_path / "k.c")
    assert "name: g, dtype: float32, shape: [n, 4]" in text


@pytest.mark.parametrize(
    ("name", "source", "error", "says"),
    [
        ("k.txt", "", UsageError, "no C, C"),
        ("k.c", "int x;\n", UsageError, "no function that can be called"),
        ("k.c", "void k(float ***a) { a[0][0][0] = 1; }\n", UsageError, "a pointer to pointers"),
        ("k.c", "void k(void (*f)(int)) { f(1); }\n", UsageError, "a function pointer"),
        (
            "k.c",
            "struct s { int a; };\nvoid k(struct s v) { (void)v; }\n",
            UsageError,
            "a structure of which no member is used here: `struct s`",
        ),
        ("k.c", "void k(long double v) { (void)v; }\n", UsageError, "no spec can describe"),
        ("k.c", "void k(float *a) { a[0] = b; }\n", BaselineError, r"k\.c:1: use of undeclared identifier"),
        (
            "k.cpp",
            "void k(float *a) { if constexpr (requires { a[0]; }) a[0] = 1; }\n",
            BaselineError,
            r"k\.cpp:1: .*; as c\+\+20 it does",
        ),
        (
            "k.c",
            "void k(int n, double (*const f)(double), double *b) { for (int i = 0; i < n; i++) b[i] = f(i); }\n",
            UsageError,
            "argument f of k is a function pointer",
        ),
        (
            "k.c",
            "void k(long double *a) { a[0] *= 2; }\n",
            UsageError,
            "argument a of k points to what no spec can describe: `long double \\*`",
        ),
        (
            "k.cpp",
            "template <class T> struct list { T *at; int n; T *begin() const; T *end() const; };\n"
            "void k(const list<double> &a, double *b) { int i = 0; for (double x : a) b[i++] = x; }\n",
            UsageError,
            "argument a of k is a reference: `const list<double> &`",
        ),
    ],
)
def test_sources_without_a_first_spec(
    tmp_path: Path, name: str, source: str, error: type[Exception], says: str
) -> None:
    (tmp_path / name).write_text(source)
    with pytest.raises(error, match=says):
        init_spec(tmp_path / name)
    with pytest.raises(UsageError, match=r"no file .*; check the path"):
        init_spec(tmp_path / "missing.c")


@pytest.mark.parametrize("name", ["stencil", "spmv", "histogram"])
def test_first_specs_of_the_examples_load_and_agree_with_those_written_by_hand(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "k.c").write_text((EXAMPLES / name / f"{name}.c").read_text())
    data = yaml.safe_load(init_spec(tmp_path / "k.c"))
    # The source is preprocessed for all values of its macros together, of which other tests have some.
    data["space"]["parameters"] = {
        macro: [values[0]] for macro, values in data["space"]["parameters"].items()
    }
    (tmp_path / "k.yaml").write_text(yaml.safe_dump(data))
    (spec,) = load_spec(tmp_path / "k.yaml")
    (by_hand,) = load_spec(EXAMPLES / name / f"{name}.yaml")
    mine, theirs = arguments(spec), arguments(by_hand)
    assert list(mine) == list(theirs)
    for argument, (role, dtype, shape) in theirs.items():
        assert mine[argument][1] == dtype
        assert mine[argument][0] in (role, "inout")
        if "nonzeros" not in shape and name != "spmv":
            assert mine[argument][2] == shape


def test_whole_numbers_that_are_no_indices_have_both_signs(tmp_path: Path) -> None:
    """A candidate that reads signed bytes as unsigned ones would else pass."""
    text = (
        "#include <stdint.h>\n"
        "static int part(const int8_t *w, int i) { return w[i]; }\n"
        "void k(const int8_t *a, const unsigned char *b, const int8_t *w, const short *h, int *s, const int *at,\n"
        "       const int *start, const int8_t *shift, uint32_t *bins, int n) {\n"
        "  for (int i = 0; i < n; i++) {\n"
        "    int sum = a[i] * h[i] + part(w, i); int from = at[i]; bins[b[i]]++;\n"
        "    for (int j = start[i]; j < start[i + 1]; j++) sum += 1 << shift[j];\n"
        "    s[i] = s[from] + sum; } }\n"
    )
    (tmp_path / "k.c").write_text(text)
    data = yaml.safe_load(init_spec(tmp_path / "k.c", entry="k"))
    ranges = {a["name"]: a["init"]["randint"] for a in data["arguments"] if "init" in a}
    plain = {"a": [-128, 128], "b": [0, 256], "w": [-128, 128], "h": [-100, 100], "s": [-1000, 1000]}
    assert {n: ranges[n] for n in plain} == plain
    assert ranges["at"] == ranges["start"] == [0, "n"]
    assert ranges["shift"] == [0, 100]


def test_bytes_of_opencl_have_all_values_unless_they_are_indices(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(
        "__kernel void k(__global const char *a, __global const uchar *at, __global int *out,\n"
        "                float f, float g, int n)\n"
        "{ int i = get_global_id(0); if (i < n) out[at[i]] = f * a[i] + g; }\n"
    )
    data = yaml.safe_load(init_spec(tmp_path / "k.cl"))
    a, at, _, f, g, _ = data["arguments"]
    assert a["init"] == {"randint": [-128, 128]}
    assert at["init"] == {"randint": [0, 100]}
    assert f["value"] != g["value"]


def test_rows_lie_further_apart_than_they_are_long_at_odd_sizes_too(tmp_path: Path) -> None:
    spec = first(
        tmp_path,
        "void gemm(int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb,\n"
        "          double beta, double *c, int ldc) {\n"
        "  for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) { double s = 0;\n"
        "    for (int p = 0; p < k; p++) s += a[i * lda + p] * b[p * ldb + j];\n"
        "    c[i * ldc + j] = alpha * s + beta * c[i * ldc + j]; } }\n",
    )
    (small,) = spec.task.verify.problems
    sizes = small.sizes
    assert min(sizes["lda"], sizes["ldb"], sizes["ldc"]) > max(sizes["m"], sizes["n"], sizes["k"])
    values = {a.name: str(a.value) for a in spec.task.arguments}
    assert values["alpha"] != values["beta"]


def test_a_halo_around_every_dimension(tmp_path: Path) -> None:
    spec = first(
        tmp_path,
        "#define AT(z, y, x) (((z) * (ny + 2) + (y)) * (nx + 2) + (x))\n"
        "void k(const float *u, float *v, int nz, int ny, int nx) {\n"
        "  for (int z = 1; z <= nz; z++) for (int y = 1; y <= ny; y++) for (int x = 1; x <= nx; x++)\n"
        "    v[AT(z, y, x)] = u[AT(z + 1, y, x)] + u[AT(z, y - 1, x)]; }\n",
    )
    assert arguments(spec)["u"] == ("input", "float32", "[nz + 2, ny + 2, nx + 2]")


def test_axes_of_a_work_item_find_their_sizes_whatever_their_order(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(
        "kernel void k(global const float *x, global float *y, int rows, int cols) {\n"
        "    int c = get_global_id(0), r = get_global_id(1);\n"
        "    if (c >= cols || r >= rows) return;\n"
        "    y[r * cols + c] = x[r * cols + c];\n}\n"
    )
    data = yaml.safe_load(init_spec(tmp_path / "k.cl"))
    assert data["launch"]["grid"] == ["ceil(cols / BLOCK_X)", "ceil(rows / BLOCK_Y)"]
    assert [a["shape"] for a in data["arguments"][:2]] == [["rows", "cols"]] * 2


def test_a_margin_is_small_and_what_is_multiplied_fits(tmp_path: Path) -> None:
    source = (
        "void smooth(const int x, const int y, const int halo, const double *p, double *w) {\n"
        "  for (int j = halo; j < y - halo; j++) for (int i = halo; i < x - halo; i++) w[j * x + i] = p[j * x + i]; }\n"
        "void copy(int x, int y, const double *p, double *w) { for (int i = 0; i < x * y; i++) w[i] = p[i]; }\n"
    )
    (tmp_path / "k.c").write_text(source)
    data = yaml.safe_load(init_spec(tmp_path / "k.c", entry="smooth"))
    assert data["problem"] == {"x": 2048, "y": 2048, "halo": 2}
    assert data["verify"]["problems"][0]["halo"] == 2
    assert yaml.safe_load(init_spec(tmp_path / "k.c", entry="copy"))["problem"] == {"x": 2048, "y": 2048}


def test_sizes_fit_their_own_types(tmp_path: Path) -> None:
    body = "{ for (int i = 0; i < q->n; i++) for (int j = 0; j < q->m; j++) q->u[i * q->m + j] += 1; }\n"
    (tmp_path / "k.c").write_text(
        f"struct q {{ unsigned char n; signed char m; double *u; }};\nvoid f(struct q *q) {body}"
    )
    data = yaml.safe_load(init_spec(tmp_path / "k.c"))
    assert data["problem"] == {"n": 200, "m": 100}
    assert data["verify"]["problems"] == [{"n": 67, "m": 100}]


def test_a_definition_that_others_go_with_is_no_tunable(tmp_path: Path) -> None:
    guarded = "#ifndef TRUE\n#define TRUE 1\n#define FALSE 0\n#endif\n#ifndef TILE\n#define TILE 8 // cells\n#endif\n"
    body = "void k(float *x, int n) { for (int i = TRUE - 1; i < n; i += TILE) x[i] = FALSE; }\n"
    (tmp_path / "k.c").write_text(guarded + body)
    assert yaml.safe_load(init_spec(tmp_path / "k.c"))["space"]["parameters"] == {"TILE": [8, 4, 16, 32]}


def test_c_as_it_was_before_1999_is_read_as_that(tmp_path: Path) -> None:
    """clang refuses what other compilers take: types and declarations that are left out."""
    (tmp_path / "k.c").write_text(
        "static scale;\nadd(n, x) double *x; { int i; scale = 1; for (i = 0; i < n; i++) x[i] += twice(scale); }\n"
        "twice(i) { return 2 * i; }\n"
    )
    text = init_spec(tmp_path / "k.c", entry="add")
    with pytest.raises(UsageError, match="it has add, twice"):
        init_spec(tmp_path / "k.c", entry="none")
    assert "-Wno-implicit-int" in text
    (tmp_path / "k.yaml").write_text(text)
    assert load_spec(tmp_path / "k.yaml")
