"""First specs: what is guessed from a source, and that what is written loads."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tuner.core.errors import BaselineError, UsageError
from tuner.spec.init import init_spec
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


def test_what_cannot_be_known_is_said(tmp_path: Path) -> None:
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
    for entry, says in ((None, "choose with --entry: a, b"), ("bb", "did you mean 'b'"), ("c", "is static")):
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


@pytest.mark.parametrize(
    ("name", "source", "error", "says"),
    [
        ("k.txt", "", UsageError, "no C, C"),
        ("k.c", "int x;\n", UsageError, "no function that can be called"),
        ("k.c", "void k(float **a) { a[0][0] = 1; }\n", UsageError, "a pointer to pointers"),
        ("k.c", "void k(void (*f)(int)) { f(1); }\n", UsageError, "a function pointer"),
        (
            "k.c",
            "struct s { int a; };\nvoid k(struct s v) { (void)v; }\n",
            UsageError,
            "no spec can describe",
        ),
        ("k.c", "void k(float *a) { a[0] = b; }\n", BaselineError, r"k\.c:1: use of undeclared identifier"),
    ],
)
def test_sources_without_a_first_spec(
    tmp_path: Path, name: str, source: str, error: type[Exception], says: str
) -> None:
    (tmp_path / name).write_text(source)
    with pytest.raises(error, match=says):
        init_spec(tmp_path / name)
    with pytest.raises(UsageError, match="no file"):
        init_spec(tmp_path / "missing.c")


@pytest.mark.parametrize("name", ["matmul", "stencil", "nbody", "softmax", "spmv", "histogram"])
def test_first_specs_of_the_examples_load_and_agree_with_those_written_by_hand(
    name: str, tmp_path: Path
) -> None:
    spec = first(tmp_path, (EXAMPLES / name / f"{name}.c").read_text())
    (by_hand,) = load_spec(EXAMPLES / name / f"{name}.yaml")
    mine, theirs = arguments(spec), arguments(by_hand)
    assert list(mine) == list(theirs)
    for argument, (role, dtype, shape) in theirs.items():
        assert mine[argument][1] == dtype
        assert mine[argument][0] in (role, "inout")
        if "nonzeros" not in shape and name != "spmv":
            assert mine[argument][2] == shape
