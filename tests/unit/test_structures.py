"""Structures and rows that C functions take: what is verified, what is refused, first specs, what is exported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tuner.core.errors import SpecError, UsageError
from tuner.core.types import BuildRequest, Source, Status, Variant
from tuner.driver.applications.recording import record_spec
from tuner.driver.check import check_spec
from tuner.driver.options import Options
from tuner.driver.outcome.export import export
from tuner.driver.runs import begin
from tuner.evaluators.host.backend import HostBackend
from tuner.spec.first.init import init_spec
from tuner.spec.load import LoadedSpec, load_recorded, load_spec

KERNEL = """
typedef struct { int lo, hi; double width[3]; } box_type;
struct chunk {
    int nx, ny;
    const int levels;
    float *density;
    float *restrict energy;
    float total;
    box_type box;
    box_type *far;
    double **rows;
};
static double area(const box_type *b) { return b->width[0] * b->width[1]; }
static void step(struct chunk *c, float dt)
{
    float sum = 0;
    for (int j = 0; j < c->ny; j++)
        for (int i = 0; i < c->nx; i++) {
            c->energy[j * c->nx + i] += dt * c->density[j * c->nx + i] + (float)area(&c->box) * c->far->lo;
            sum += (float)(c->energy[j * c->nx + i] * c->rows[j][i]);
        }
    c->total = sum * c->levels;
}
"""
SPEC = """\
kernel: {source: k.c, entry: step}
problem: {nx: 50, ny: 40}
arguments:
  - name: c
    struct: struct chunk
    members:
      - {name: nx, dtype: int32, value: nx}
      - {name: ny, dtype: int32, value: ny}
      - {name: levels, dtype: int32, value: 3}
      - {name: density, dtype: float32, shape: [ny, nx], init: {uniform: [0, 1]}}
      - {name: energy, dtype: float32, shape: [ny, nx], role: inout, init: {uniform: [0, 1]}}
      - {name: total, dtype: float32, value: 0, role: output}
      - name: box
        by: value
        members:
          - {name: width, dtype: float64, shape: [3], by: value, init: {uniform: [1, 2]}}
      - name: far
        members:
          - {name: lo, dtype: int32, value: 2}
      - {name: rows, dtype: float64, shape: [ny, nx], rows: pointers, init: {uniform: [0, 1]}}
  - {name: dt, dtype: float32, value: 0.5}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}
verify: {problems: [{nx: 13, ny: 7}]}
"""
REFERENCE = """
def step(c, dt):
    energy = c.energy + dt * c.density + c.box.width[0] * c.box.width[1] * c.far.lo
    return {"c.energy": energy, "c.total": (energy * c.rows).sum() * c.levels}
"""


def spec_of(folder: Path, text: str = SPEC, kernel: str = KERNEL, name: str = "k.c") -> LoadedSpec:
    (folder / name).write_text(kernel)
    (folder / "ref.py").write_text(REFERENCE)
    (folder / "k.yaml").write_text(text)
    (loaded,) = load_spec(folder / "k.yaml")
    return loaded


def verdicts(loaded: LoadedSpec, *texts: str) -> list[tuple[Status, str]]:
    """What becomes of the kernel as given, and of other texts in its place."""
    task, space = loaded.task, loaded.space(None)
    name = task.kernel.variant.files[0].name
    variants = [task.kernel.variant, *(Variant(files=(Source(name=name, text=text),)) for text in texts)]
    resolved = space.resolve(space.default())
    requests = [BuildRequest(trial=i, variant=v, resolved=resolved) for i, v in enumerate(variants)]
    evaluation = HostBackend().prepare(task, workers=1)
    found = []
    try:
        builds = evaluation.build(requests)
        report = evaluation.set_baseline(builds[0], resolved)
        found.append((report.status, report.message))
        for build in builds[1:]:
            assert build.status is Status.OK, build.message
            session = evaluation.open(build, resolved, purpose="search", number=0)
            try:
                verdict = session.verify()
            finally:
                session.close()
            found.append((verdict.status, verdict.message))
    finally:
        evaluation.close()
    return found


@pytest.mark.integration
def test_writes_to_structures_are_verified(tmp_path: Path) -> None:
    loaded = spec_of(tmp_path, SPEC.replace("verify: {", "verify: {reference: {python: 'ref.py:step'}, "))
    assert loaded.notices == ()
    assert loaded.task.kernel.variant.files[0].text == KERNEL
    found = verdicts(
        loaded,
        KERNEL.replace("float sum = 0;", "float sum = 0; const int nx = c->nx;"),
        KERNEL.replace("sum * c->levels", "sum * (c->levels + 1)"),
        KERNEL.replace("c->total = ", "c->nx += 1; c->total = "),
        KERNEL.replace("c->density[j * c->nx + i] +", "(c->density[j * c->nx + i] += 1) +"),
        KERNEL.replace("c->rows[j][i]", "c->rows[j][0]"),
        KERNEL.replace("c->total = ", "c->box.width[2] = 3; c->total = "),
    )
    assert [status for status, _ in found] == [
        Status.OK,
        Status.OK,
        Status.WRONG_RESULT,
        Status.CRASHED,
        Status.WRONG_RESULT,
        Status.WRONG_RESULT,
        Status.CRASHED,
    ]
    assert "c.total" in found[2][1]
    assert "writes to input c.density" in found[4][1]


@pytest.mark.integration
def test_float_members_are_compared_with_a_build_in_double_precision(tmp_path: Path) -> None:
    loaded = spec_of(tmp_path)
    space = loaded.space(None)
    resolved = space.resolve(space.default())
    evaluation = HostBackend().prepare(loaded.task, workers=1)
    try:
        variant = loaded.task.kernel.variant
        (build,) = evaluation.build([BuildRequest(trial=0, variant=variant, resolved=resolved)])
        report = evaluation.set_baseline(build, resolved)
        assert evaluation.build_with(["clang", "-O2"], resolved).status is Status.OK
    finally:
        evaluation.close()
    assert report.status is Status.OK, report.message
    assert report.reference == "float64"
    assert set(report.own_error) == {"c.energy", "c.total"}


PLUS = """
namespace far {
struct Grid { const int n; double *data; bool twice; Grid() = delete; };
double scaled(const Grid &g, Grid by, double a)
{
    double sum = 0;
    for (int i = 0; i < g.n; i++) sum += g.data[i] *= a * by.n * (g.twice ? 2 : 1);
    return sum;
}
}
"""
PLUS_SPEC = """\
kernel: {source: k.cpp, entry: "far::scaled", returns: float64}
problem: {n: 100}
arguments:
  - name: g
    struct: far::Grid
    by: value
    members:
      - {name: n, dtype: int32, value: n}
      - {name: data, dtype: float64, shape: [n], role: inout}
      - {name: twice, dtype: bool, value: 1}
  - {name: by, struct: "far::Grid", by: value, members: [{name: n, dtype: int32, value: 3}]}
  - {name: a, dtype: float64, value: 0.5}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}
"""


@pytest.mark.integration
def test_plain_structures_of_cpp_by_reference_and_by_value(tmp_path: Path) -> None:
    """Although the source has macros of one letter."""
    text = PLUS + "#define A 1.5\n#define I 2\n#define R 3\n#define T 4\n#define value 5\n"
    loaded = spec_of(tmp_path, PLUS_SPEC, text, "k.cpp")
    found = verdicts(loaded, text.replace("return sum", "return sum + 1"), text.replace("by.n", "(by.n + 1)"))
    assert [status for status, _ in found] == [Status.OK, Status.WRONG_RESULT, Status.WRONG_RESULT]


ROWS = """
void transpose(int n, int m, double **a, float *const *b)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) a[i][j] = b[j][i];
    double *first = a[0]; a[0] = a[n - 1]; a[n - 1] = first;
}
"""
ROWS_SPEC = """\
kernel: {source: k.c, entry: transpose}
problem: {n: 30, m: 20}
arguments:
  - {name: n, dtype: int32, value: n}
  - {name: m, dtype: int32, value: m}
  - {name: a, dtype: float64, shape: [n, m], role: output, rows: pointers}
  - {name: b, dtype: float32, shape: [m, n], rows: pointers}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}
verify: {reference: {python: "rows.py:transpose"}, problems: [{n: 7, m: 3}]}
"""


@pytest.mark.integration
def test_rows_are_where_their_addresses_say_at_every_call(tmp_path: Path) -> None:
    """Also after a call that has exchanged two of them."""
    (tmp_path / "rows.py").write_text("def transpose(b):\n    return {'a': b.T}\n")
    loaded = spec_of(tmp_path, ROWS_SPEC, ROWS)
    (found, *others) = verdicts(loaded, ROWS.replace("b[j][i]", "b[j][i] + 1"))
    assert found[0] is Status.OK, found[1]
    assert [status for status, _ in others] == [Status.WRONG_RESULT]
    assert "rows: pointers" in init_spec(tmp_path / "k.c")


@pytest.mark.parametrize(
    ("old", "new", "says", "line"),
    [
        ("name: density", "name: densty", "`struct chunk` has no member 'densty'; did you mean 'density'", 10),
        ("struct: struct chunk", "struct: chunk", "'chunk' is no structure of the source", 5),
        ("struct: struct chunk", "struct: struct chunks", "'struct chunks' is no structure of the source", 5),
        ("struct: struct chunk", "struct: 3x", "'3x'", 5),
        ("    struct: struct chunk\n", "", "'c' has members and no struct", 4),
        ("nx, dtype: int32", "nx, dtype: int64", "'c.nx' is `int` in the source, but the spec says int64", 7),
        ("name: levels", "name: nx", "two members of 'c' are called 'nx'", 9),
        ("shape: [3], by: value", "shape: [3]", "'c.box.width' is `double\\[3\\]`.* write by: value", 16),
        ("shape: [3]", "shape: [4]", "'c.box.width' is .* write shape: \\[3\\]", 16),
        ("        by: value\n", "", "'c.box' is no pointer to a structure .* by: value", 13),
        ("name: far", "name: far\n        by: value", "'c.far' is a pointer in the source; remove by", 18),
        (", rows: pointers", "", "'c.rows' is `double \\*\\*`.* write rows: pointers", 20),
        ("role: inout", "role: inout, rows: pointers", "'c.energy' is .*remove rows", 11),
        ("[ny, nx], rows", "[nx], rows", "'c.rows' has rows and no two dimensions", 20),
        (", role: output", "", "'c.total' is written by step, and its role is input", 12),
        ("value: 0.5", "value: 0.5, role: output", "scalar 'dt' cannot have role", 21),
        ("float32, value: 0,", "float64, value: 0,", "'c.total' is `float`", 12),
        ("struct: struct chunk", "struct: struct chunk\n    dtype: int32", "structure 'c' has dtype", 6),
        ("dt, dtype: float32, ", "dt, ", "argument 'dt' has no 'dtype'", 21),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_at_their_place(
    tmp_path: Path, old: str, new: str, says: str, line: int
) -> None:
    assert old in SPEC
    with pytest.raises(SpecError, match=says) as caught:
        spec_of(tmp_path, SPEC.replace(old, new, 1))
    assert caught.value.place is not None
    assert caught.value.place.line == line
    assert "\n" not in str(caught.value)


def test_members_that_are_used_and_not_listed_are_named(tmp_path: Path) -> None:
    left = [line for line in SPEC.splitlines() if "name: density" not in line and "name: ny" not in line]
    assert spec_of(tmp_path, "\n".join(left) + "\n").notices == (
        "arguments: c.ny is used by step and not listed, so it is zero",
        "arguments: c.density is used by step and not listed, so it is a null pointer",
    )


def test_members_that_are_written_and_not_listed_are_said_to_be_unverified(tmp_path: Path) -> None:
    left = "\n".join(line for line in SPEC.splitlines() if "name: total" not in line)
    (notice,) = spec_of(tmp_path, left + "\n").notices
    assert notice.endswith(
        "c.total is used by step and not listed, so it is zero, and what is written to it is not verified"
    )


OWN = """
struct queue { int n; double *u; };
void drain(struct queue q) { for (; q.n > 0; q.n--) q.u[q.n - 1] += 1; } // to the end \\"""
OWN_SPEC = """\
kernel: {source: k.c, entry: drain}
problem: {n: 100}
arguments:
  - name: q
    struct: struct queue
    by: value
    members:
      - {name: n, dtype: int32, value: n}
      - {name: u, dtype: float64, shape: [n], role: inout}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}
"""


def test_a_copy_is_the_function_s_own(tmp_path: Path) -> None:
    """In a file that ends within a comment that a backslash goes on with."""
    ((status, message),) = verdicts(spec_of(tmp_path, OWN_SPEC, OWN))
    assert status is Status.OK, message


@pytest.mark.parametrize(
    ("member", "given", "says"),
    [
        ("double u[]", "shape: [n], by: value, role: inout", "as long as what is behind the structure"),
        ("unsigned u : 3", "value: 3, role: output", "'q.u' is a bit-field"),
        (
            "double *u[3]",
            "shape: [3, n], rows: pointers, role: output",
            "'q.u' is .*, pointers in the structure itself",
        ),
        ("double *u[3]", "shape: [n], role: output", "'q.u' is .*, pointers in the structure itself"),
        (
            "union { double u; long k; }",
            "value: 2.0, role: output}\n      - {name: k, dtype: int64, value: 3",
            "'q.u' and 'q.k' share",
        ),
    ],
)
def test_members_that_cannot_be_filled_are_refused(
    tmp_path: Path, member: str, given: str, says: str
) -> None:
    dtype = "float64" if "double" in member else "uint32"
    text = re.sub(
        r"dtype: float64, .*", f"dtype: {dtype}, {given}}}", OWN_SPEC.replace("    by: value\n", "")
    )
    kernel = f"struct queue {{ int n; {member}; }};\nvoid drain(struct queue *q) {{ (void)q; }}\n"
    with pytest.raises(SpecError, match=says):
        spec_of(tmp_path, text, kernel)


NESTED = """
typedef struct { float x, y; } point;
typedef struct { point at[8]; int count; float radius; } hull;
typedef struct { hull a, b; hull *far; float t; } pair;
float reach(const pair *p)
{
    const hull *a = &p->a, *far = p->far;
    float sum = p->t;
    for (int i = 0; i < a->count; i++) sum += a->at[i & 7].x * far->radius + p->b.at[i & 7].y;
    return sum;
}
point middle(const pair *p) { return p->a.at[0]; }
"""


@pytest.mark.integration
def test_first_specs_of_nested_structures_load(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(NESTED)
    text = init_spec(tmp_path / "k.c", entry="reach")
    (tmp_path / "k.yaml").write_text(text)
    assert "{name: at, dtype: float32, shape: [8, 2], init: normal, by: value}" in text
    (loaded,) = load_spec(tmp_path / "k.yaml")
    assert loaded.notices == ()
    (tmp_path / "k.yaml").write_text(text.replace("[8, 2]", "[8, 3]", 1))
    with pytest.raises(SpecError, match=r"`point\[8\]` in the source; write shape: \[8, 2\]"):
        load_spec(tmp_path / "k.yaml")
    with pytest.raises(UsageError, match="middle returns `point`, and a spec has numbers"):
        init_spec(tmp_path / "k.c", entry="middle")


def test_a_structure_without_a_name_gets_no_first_spec(tmp_path: Path) -> None:
    kernel = "{ int n; double *u; } *a) { a->u[0] = a->n; }\n"
    for text in (
        f"void f(struct {kernel}",
        f"typedef struct {kernel.replace('a)', 'owner; void f(owner a)')}",
    ):
        (tmp_path / "k.c").write_text(text)
        with pytest.raises(UsageError, match="argument a of f points to what no spec can describe"):
            init_spec(tmp_path / "k.c")


def test_a_name_of_the_pointer_is_none_of_the_structure(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "typedef struct part { double *z; } *part_ptr;\ntypedef struct { int n; void *more; } whole, *whole_ptr;\n"
        "void f(const whole_ptr a, double *y)\n{\n    part_ptr p = (part_ptr)a->more;\n"
        "    for (int i = 0; i < a->n; i++) y[i] += p->z[i];\n}\n"
    )
    text = init_spec(tmp_path / "k.c")
    assert "- name: a\n    struct: whole\n" in text
    assert "- name: more\n        struct: struct part\n" in text


def test_other_backends_refuse_structures_and_static_functions_are_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text("__kernel void step(__global float *x) { x[0] = 1; }\n")
    with pytest.raises(SpecError, match="not for opencl"):
        spec_of(tmp_path, SPEC.replace("k.c,", "k.cl,"))
    with pytest.raises(UsageError, match="step is static in its file"):
        record_spec(["true"], spec_of(tmp_path), instances=1)


@pytest.mark.integration
def test_the_wrapper_is_nobody_else_s(tmp_path: Path) -> None:
    loaded = spec_of(tmp_path)
    begin(loaded, tmp_path / "a.run", Options(evaluations=2))
    assert load_recorded(loaded.text, loaded.files, folder=str(tmp_path)).task == loaded.task
    export(tmp_path / "a.run", tmp_path / "build")
    assert (tmp_path / "build" / "k.c").read_text() == KERNEL


@pytest.mark.integration
def test_remarks_are_of_the_user_s_lines(tmp_path: Path) -> None:
    """Rows are filled by a loop of the wrapper, behind the kernel's text."""
    loaded = spec_of(tmp_path)
    task, space = loaded.task, loaded.space(None)
    resolved = space.resolve(space.default())
    evaluation = HostBackend().prepare(task, workers=1)
    try:
        (build,) = evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=resolved)])
        assert evaluation.set_baseline(build, resolved).status is Status.OK
        said = evaluation.remarks(build, resolved)["loops"]
    finally:
        evaluation.close()
    lines = [int(line) for line in re.findall(r"line (\d+):", said)]
    assert lines
    assert max(lines) <= KERNEL.count("\n")


@pytest.mark.integration
def test_faults_are_planted_where_the_kernel_may_come_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the other functions of its file, though what is called is the wrapper."""
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 8)
    other = "".join(f"int other{i}(int a) {{ return a * {i + 2} + 3 < 4; }}\n" for i in range(30))
    faults = check_spec(spec_of(tmp_path, kernel=KERNEL + other)).faults
    assert faults is not None
    assert faults.counted
    assert faults.uncounted < 4
    assert all(fault.line <= KERNEL.count("\n") for fault in (*faults.missed, *faults.harmless))


@pytest.mark.integration
def test_a_first_spec_lists_what_the_function_uses(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(KERNEL)
    text = init_spec(tmp_path / "k.c", entry="step")
    assert "problem: {ny: 1024, nx: 2048}" in text
    for line in (
        "  - name: c\n    struct: struct chunk\n    members:",
        "      - {name: nx, dtype: int32, value: nx}",
        "      - {name: energy, dtype: float32, shape: [ny, nx], role: inout, init: normal}",
        "      - name: box\n        by: value\n        members:\n"
        "          - {name: width, dtype: float64, shape: [3], init: normal, by: value}",
        "      - name: far\n        members:\n          - {name: lo, dtype: int32, value: 1}",
        "      - {name: rows, dtype: float64, shape: [ny, nx], rows: pointers, init: normal}",
        "      - {name: total, dtype: float32, value: 0.75, role: inout}",
        "  - {name: dt, dtype: float32, value: 1.25}",
    ):
        assert line in text
    assert "hi" not in text.split("space:")[0].split("arguments:")[1].split()
    (tmp_path / "i.yaml").write_text(re.sub(r"passes: .*", "passes: off", re.sub("1024|2048", "40", text)))
    assert verdicts(load_spec(tmp_path / "i.yaml")[0])[0][0] is Status.OK


def test_a_first_spec_sees_through_arrays_with_names_of_their_own(tmp_path: Path) -> None:
    """Whose elements have names as well."""
    (tmp_path / "k.c").write_text(
        "typedef double real;\ntypedef real real3[3];\nstruct atoms { int n; real3 *r, *f; };\n"
        "void push(struct atoms *a)\n{\n    for (int i = 0; i < a->n; i++)\n"
        "        for (int d = 0; d < 3; d++)\n            a->f[i][d] += a->r[i][d];\n}\n"
    )
    text = init_spec(tmp_path / "k.c", entry="push")
    assert "{name: f, dtype: float64, shape: [n, 3], role: inout, init: normal}" in text
    assert "{name: r, dtype: float64, shape: [n, 3], init: normal}" in text
