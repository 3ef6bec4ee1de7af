"""Arrays of structures with members of several types: laid out as the compiler does, and verified member by member."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import needs
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_files import spec_in

from tuner.core.dtypes import C_TYPES, members_of, numbers_in, numpy_dtype, separate_members, structured_dtype
from tuner.core.errors import SpecError
from tuner.core.types import BASELINE, BuildRequest, Problem, Source, Status, Variant
from tuner.driver.check import check_spec
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.evaluators.workloads import make_workload
from tuner.spec.first.init import first_spec
from tuner.spec.load import LoadedSpec, load_spec
from tuner.spec.reading.record_layouts import record_layout
from tuner.spec.reading.signature import SourceReader

MOVE = """
struct particle { struct { float x, y; } at; int id; double v[3]; char alive; };
void move(int n, struct particle *p, const double *force)
{
    for (int i = 0; i < n; i++) {
        if (!p[i].alive) continue;
        p[i].at.x += (float)p[i].v[0];
        for (int d = 0; d < 3; d++) p[i].v[d] += force[i];
        p[i].id += 1;
    }
}
"""
SPEC = """\
kernel: {source: move.c, entry: move}
problem: {n: 300}
arguments:
  - {name: n, dtype: int32, value: n}
  - name: p
    dtype: {at: {x: float32, y: float32}, id: int32, v: [float64, 3], alive: int8}
    shape: [n]
    role: inout
    init: {members: {alive: {randint: [0, 2]}, id: {randint: [0, n]}, v: {uniform: [1, 2]}}}
  - {name: force, dtype: float64, shape: [n]}
verify: {problems: [{n: 67}]}
"""


def spec(folder: Path, text: str = SPEC, source: str = MOVE) -> LoadedSpec:
    return spec_in(folder, "move.c", source, text)


def verdicts(loaded: LoadedSpec, *sources: str) -> list[tuple[Status, str]]:
    """Of other texts of the kernel."""
    with_seed = loaded.task_with(seed=0)
    evaluation = HostBackend().prepare(with_seed, workers=1)
    resolved = loaded.space(None).resolve(loaded.space(None).default())
    try:
        given = BuildRequest(trial=BASELINE, variant=with_seed.kernel.variant, resolved=resolved)
        (baseline,) = evaluation.build([given])
        assert evaluation.set_baseline(baseline, resolved).status is Status.OK
        files = [(Source(name="move.c", text=source),) for source in sources]
        variants = [Variant(files=each, edits=({"op": "rewrite"},)) for each in files]
        found = []
        for build in evaluation.build(
            [replace(given, trial=i + 1, variant=v) for i, v in enumerate(variants)]
        ):
            session = evaluation.open(build, resolved, purpose="search", number=0)
            try:
                verdict = session.verify()
            finally:
                session.close()
            found.append((verdict.status, verdict.message))
        return found
    finally:
        evaluation.close()


def test_a_kernel_of_structures_checks_with_each_member_compared(tmp_path: Path) -> None:
    report = check_spec(spec(tmp_path), faults=4)
    assert report.ok
    assert report.faults is not None
    assert not report.faults.missed
    reference = dict(report.lines)["reference"]
    assert all(f"p.{name} " in reference for name in ("at.x", "at.y", "id", "v", "alive"))
    assert not report.warnings, "alive and at.y are only read"


def test_a_wrong_member_is_named_and_padding_is_not_compared(tmp_path: Path) -> None:
    """Structures that are copied as a whole bring their padding with them."""
    copied = MOVE.replace("p[i].id += 1;", "struct particle q = p[i]; q.id += 1; p[i] = q;")
    wrong = [
        ("p[i].id += 1", "p[i].id += 1 + (i == 13)", "p.id[13] is"),
        ("p[i].v[d] += force[i]", "p[i].v[d] += force[i] * (1 + (d == 2) * 1e-3)", "p.v["),
        ("p[i].at.x +=", "p[i].at.y = p[i].at.x +=", "p.at.y["),
        ("p[i].id += 1;", "p[i].id += 1; if (i + 1 == n) p[n].id = 0;", "out of bounds"),
    ]
    first, *others = verdicts(spec(tmp_path), copied, *(MOVE.replace(old, new) for old, new, _ in wrong))
    assert first == (Status.OK, "")
    for (status, said), (_, _, message) in zip(others, wrong, strict=True):
        assert status in (Status.WRONG_RESULT, Status.CRASHED)
        assert message in said


OUTPUTS = """
struct tmp { double a; char b; };
struct out { int count; double sum[2]; };
void reduce(int n, const float *x, struct out *o, struct tmp *t)
{
    for (int i = 0; i < n; i++) { t[i].a = x[i] * 2.0; t[i].b = x[i] > 0; }
    for (int i = 0; i < n; i++) { o[i].count = t[i].b; o[i].sum[0] = t[i].a; if (i % 3) o[i].sum[1] = i * x[i]; }
}
"""
OUTPUTS_SPEC = """\
kernel: {source: move.c, entry: reduce}
problem: {n: 300}
arguments:
  - {name: n, dtype: int32, value: n}
  - {name: x, dtype: float32, shape: [n]}
  - {name: o, dtype: {count: int32, sum: [float64, 2]}, shape: [n], role: output}
  - {name: t, dtype: {a: float64, b: int8}, shape: [n], role: scratch}
"""


@pytest.mark.integration
def test_outputs_of_structures_are_timed_and_checked_call_by_call(tmp_path: Path) -> None:
    """Before each call numbers of them are spoilt, but those that the kernel leaves alone."""
    loaded = spec(tmp_path, OUTPUTS_SPEC, OUTPUTS)
    evaluation = HostBackend().prepare(loaded.task_with(seed=0), workers=1)
    resolved = loaded.space(None).resolve(loaded.space(None).default())
    first = "    for (int i = 0; i < n; i++) { t"
    lazy = OUTPUTS.replace(first, f"    if (o[7].sum[0] == 2.0 * x[7]) return;\n{first}")
    try:
        found = []
        for number, text in enumerate((OUTPUTS, lazy)):
            variant = Variant(files=(Source(name="move.c", text=text),), edits=({"op": "rewrite"},))
            request = BuildRequest(trial=number or BASELINE, variant=variant, resolved=resolved)
            (build,) = evaluation.build([request])
            if not number:
                report = evaluation.set_baseline(build, resolved)
                assert report.status is Status.OK
                assert report.notes["partly_written"] == ["o.sum"]
            session = evaluation.open(build, resolved, purpose="search", number=0)
            try:
                assert session.verify().status is Status.OK
                found.append(session.measure(problem=0, calls=64).status)
            finally:
                session.close()
    finally:
        evaluation.close()
    assert found == [Status.OK, Status.WRONG_RESULT]


def test_members_begin_with_the_values_that_the_spec_gives_them(tmp_path: Path) -> None:
    loaded = spec(tmp_path)
    workload = make_workload(loaded.task, Problem(sizes={"n": 300}), {}, seed=3)
    members = separate_members("p", workload.arrays["p"])
    assert members["p.v"].shape == (300, 3)
    assert members["p.v"].min() >= 1
    assert members["p.v"].max() <= 2
    assert set(members["p.alive"]) == {0, 1}
    assert members["p.id"].min() >= 0
    assert members["p.id"].max() < 300
    assert members["p.at.x"].std() > 0.5, "normal where nothing is said"


@pytest.mark.integration
def test_a_python_reference_gets_and_gives_structures(tmp_path: Path) -> None:
    (tmp_path / "ref.py").write_text(
        "def move(n, p, force):\n"
        "    q, live = p.copy(), p['alive'] != 0\n"
        "    q['at']['x'][live] += q['v'][live, 0]\n"
        "    q['v'][live] += force[live, None]\n"
        "    q['id'][live] += 1\n"
        "    return {'p': q}\n"
    )
    text = SPEC.replace("verify: {", "verify: {reference: {python: ref.py:move}, ")
    report = check_spec(spec(tmp_path, text), faults=False)
    assert report.ok
    assert dict(report.lines)["reference"].startswith("python")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("id: int32, v: [float64, 3]", "v: [float64, 3], id: int32", "'v' lies at byte 16, and by the spec at byte 8"),
        ("id: int32, v", "id: int32, age: int32, v", "has no member 'age'"),
        ("alive: int8}\n", "alive: int8, more: int64}\n", "has no member 'more'"),
        ("v: [float64, 3]", "v: [float64, 2]", "whose member 'v' is not [float64, 2]"),
        ("id: int32", "id: uint32", "whose member 'id' is not uint32"),
        (", alive: int8}\n", "}\n", "have no member 'alive'"),
        ("id: int32", "id: int33", "the type of member 'id' is 'int33'"),
        ("v: [float64, 3]", "v: [float64, 0]", "the type of member 'v' is ['float64', 0]"),
        ("v: {uniform", "w: {uniform", "no member 'w'; it has at.x"),
        ("id: {randint: [0, n]}", "id: normal", "init normal cannot fill int32"),
        ("id: {randint: [0, n]}", "id: {randint: [0, 1 << 40]}", "expression"),
        ("init: {members: {", "init: {normal: [0, 1]} # ", "init normal cannot fill the structures"),
        ("    shape: [n]\n    role: inout\n", "    value: 1\n", "is a structure and no array"),
        ("shape: [n]\n    role", "shape: [n]\n    rows: pointers\n    role", "no two dimensions"),
        ("role: inout\n", "role: inout\n    global: true\n", "behind a global"),
    ],
)  # fmt: skip
def test_mistakes_in_structures_are_said_with_their_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in SPEC
    with pytest.raises(SpecError) as caught:
        spec(tmp_path, SPEC.replace(old, new))
    assert message in str(caught.value)
    assert "move.yaml:" in str(caught.value)


def test_a_first_spec_lists_the_members_and_checks_unedited(tmp_path: Path) -> None:
    (tmp_path / "move.c").write_text(MOVE)
    made = first_spec(tmp_path / "move.c")
    assert yaml.safe_load(made.text)["arguments"][1]["dtype"] == {
        "at": {"x": "float32", "y": "float32"}, "id": "int32", "v": ["float64", 3], "alive": "int8",
    }  # fmt: skip
    loaded = spec(tmp_path, made.at_scale(0.001, None) if made.at_scale else "")
    assert check_spec(loaded, faults=False).ok


@pytest.mark.parametrize("argument", ["struct grid *g", "struct grid g"], ids=["by pointer", "by value"])
@pytest.mark.integration
def test_members_that_are_structures_or_lead_to_them(tmp_path: Path, argument: str) -> None:
    """In a structure that the function takes, and beside it; a number that is no member stays zero."""
    arrow = "->" if "*" in argument else "."
    source = f"""
        typedef struct {{ float mass; int kind; }} cell;
        struct grid {{ int n; cell *cells; cell own[4]; }};
        double total({argument}, const cell *far, int m) {{
            double r = 0;
            for (int i = 0; i < g{arrow}n; i++)
                for (int j = 0; j < m; j++) r += g{arrow}cells[i].mass * (far[j].kind - g{arrow}own[1].kind);
            return r;
        }}
    """
    (tmp_path / "total.c").write_text(source)
    made = first_spec(tmp_path / "total.c")
    assert made.text.count("dtype: {mass: float32, kind: int32}") == 3
    assert made.at_scale is not None
    (tmp_path / "total.yaml").write_text(made.at_scale(0.05, None))
    (loaded,) = load_spec(tmp_path / "total.yaml")
    assert check_spec(loaded, faults=False).ok
    (tmp_path / "total.yaml").write_text(made.text.replace("shape: [4], by", "shape: [3], by"))
    with pytest.raises(SpecError, match="own"):
        load_spec(tmp_path / "total.yaml")


@pytest.mark.parametrize(
    ("members", "dtype"),
    [
        ("float x; int id;", "{x: float32, id: int32}"),
        ("real x[2][3]; unsigned char c; long long t;", "{x: [float32, 2, 3], c: uint8, t: int64}"),
        ("struct { double a; bool b; } in; short s;", "{in: {a: float64, b: bool}, s: int16}"),
        ("float x; float *next;", None),
        ("int a; union { int i; float f; } u;", "{a: int32, u: {i: int32}}"),
        ("short a; union { char c[4]; struct { float x, y; } at; double d; };", "{a: int16, d: float64}"),
        ("int a; union { struct { int i, j; } both; float f; } u;", None),
        ("int a : 3; int b : 29, c : 1; float x;", "{a: int32, c: int32, x: float32}"),
        ("bool a : 1, b : 1; unsigned : 0; float x;", None),
        ("bool a : 1, b : 1; float x;", "{a: uint8, x: float32}"),
        ("unsigned a : 20; char b;", None),
        ("enum near { A, B } e; enum far { C } f[2]; float x;", "{e: int32, f: [int32, 2], x: float32}"),
        ("float x; int id __attribute__((aligned(16)));", None),
        ("float x; struct {} nothing; int i;", None),
    ],
)
@pytest.mark.parametrize("language", ["c", "c++"])
def test_dtypes_of_the_sources_structures(members: str, dtype: str | None, language: str) -> None:
    text = f"#include <stdbool.h>\ntypedef float real;\nstruct s {{ {members} }};\n"
    name = "k.c" if language == "c" else "k.cpp"
    reader = SourceReader(files=(Source(name=name, text=text),), language=language)
    layout = record_layout(reader, "struct s")
    assert (layout and layout.dtype()) == dtype


SCALARS = st.sampled_from([each for each in C_TYPES if not each.startswith(("complex", "float16"))])
MEMBERS = st.recursive(
    st.one_of(SCALARS, st.tuples(SCALARS, st.integers(1, 4)).map(list)),
    lambda inner: st.lists(inner, min_size=1, max_size=4).map(
        lambda kinds: {f"m{i}": kind for i, kind in enumerate(kinds)}
    ),
    max_leaves=8,
).filter(lambda made: isinstance(made, dict))


def declared(members: object, name: str) -> str:
    """A member in C."""
    if isinstance(members, dict):
        return f"struct {{ {' '.join(declared(kind, each) for each, kind in members.items())} }} {name};"
    dtype, extent = members if isinstance(members, list) else (members, None)
    return f"{C_TYPES[str(dtype)]} {name}{'' if extent is None else f'[{extent}]'};"


@settings(max_examples=25)
@given(MEMBERS)
def test_structures_lie_as_clang_lays_them_out(members: dict[str, object]) -> None:
    """Made-up structures: what clang says of one leads back to the dtype that it was made from."""
    dtype = structured_dtype(members)
    text = declared(members, "made").removesuffix(" made;").replace("struct {", "struct s {", 1) + ";\n"
    reader = SourceReader(files=(Source(name="k.c", text=text),), language="c", toolchain=find_toolchain())
    layout = record_layout(reader, "struct s")
    assert (layout and layout.dtype()) == dtype


def test_separate_members_are_views() -> None:
    array = np.zeros(4, numpy_dtype("{a: {x: float32}, v: [int8, 3]}"))
    members = separate_members("p", array)
    assert (
        list(members)
        == ["p.a.x", "p.v"]
        == [f"p.{name}" for name in members_of("{a: {x: float32}, v: [int8, 3]}")]
    )
    members["p.a.x"][2] = 5
    assert array["a"]["x"][2] == 5


def test_numbers_lie_where_members_do() -> None:
    dtype = numpy_dtype("{a: {x: int8, y: float32}, v: [float64, 2]}")
    array = np.arange(3 * dtype.itemsize, dtype=np.uint8).view(dtype)
    raw = array.view(np.uint8)
    for numbers in numbers_in("p", dtype):
        member = np.ascontiguousarray(separate_members("p", array)[numbers.name]).reshape(-1)
        places = numbers.places(np.arange(member.size))
        found = [raw[at : at + numbers.item_bytes].tobytes() for at in places]
        assert found == [each.tobytes() for each in member]


@needs.pocl
@pytest.mark.usefixtures("no_oclgrind")
def test_an_opencl_kernel_of_structures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 4)
    (tmp_path / "shift.cl").write_text(
        "typedef struct { float x; int id; uchar kind; } cell;\n"
        "__kernel void shift(__global cell *c, const float by, const int n)\n"
        "{ int i = get_global_id(0); if (i < n && c[i].kind) { c[i].x += by; c[i].id++; } }\n"
    )
    made = first_spec(tmp_path / "shift.cl")
    assert "dtype: {x: float32, id: int32, kind: uint8}" in made.text
    (tmp_path / "shift.yaml").write_text(made.text.replace("1048576", "4096"))
    (loaded,) = load_spec(tmp_path / "shift.yaml")
    report = check_spec(loaded)
    assert report.ok
    assert report.faults is not None
    # What lies behind the last one is zero, so that a bound one too far changes nothing.
    assert {fault.kind for fault in report.faults.missed} <= {"bound"}
    assert report.faults.caught >= 3


PUSH = """
#include <missing/library.h>
namespace sim {
struct Particle { float x, y, z; int id; double m[3]; };
__global__ void push(const Particle *in, Particle *out, float dt, int n) {
    const int i = blockIdx.x * BLOCK_X + threadIdx.x;
    if (i < n) {
        Particle p = in[i];
        p.x += dt * (float)p.m[0];
        p.id += 1;
        out[i] = p;
    }
}
}
"""
PARTICLE = "{x: float32, y: float32, z: float32, id: int32, m: [float64, 3]}"


def cuda_spec(folder: Path, source: str = PUSH) -> str:
    """A first spec of it, with the source beside it."""
    (folder / "k.cu").write_text(source)
    return first_spec(folder / "k.cu").text


def loaded(folder: Path, text: str) -> LoadedSpec:
    (folder / "k.yaml").write_text(text)
    (found,) = load_spec(folder / "k.yaml")
    return found


@needs.nvrtc
@pytest.mark.integration
def test_a_cuda_kernel_of_structures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 4)
    text = cuda_spec(tmp_path, PUSH.replace("#include <missing/library.h>", ""))
    assert f"{{name: in, dtype: {PARTICLE}, shape: [n]}}" in text
    assert f"{{name: out, dtype: {PARTICLE}, shape: [n], role: output}}" in text
    # More than a block, so that its number counts.
    report = check_spec(loaded(tmp_path, text.replace("problems: [{n: 67}]", "problems: [{n: 300}]")))
    assert report.ok, report.lines
    assert report.faults is not None
    assert report.faults.enough


@pytest.mark.integration
def test_members_of_cuda_structures_lie_where_the_compiler_puts_them(tmp_path: Path) -> None:
    text = cuda_spec(tmp_path)
    for old, new, says in (
        ("m[3]", "m[4]", r"k.yaml:6:\d+: argument 'in' is .* whose member 'm' is not \[float64, 3\]"),
        ("struct Particle", "struct __align__(16) Particle", r"takes 48 bytes, and by the spec 40"),
        ("float x, y, z; int id", "int id; float x, y, z", r"'x' lies at byte 4, and by the spec at byte 0"),
    ):
        (tmp_path / "k.cu").write_text(PUSH.replace(old, new))
        with pytest.raises(SpecError, match=says):
            loaded(tmp_path, text)


def test_arrays_of_structures_behind_a_cuda_kernels_structure_are_refused(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "struct c { float x; int i; };\nstruct g { c *cells; };\n"
        "__global__ void k(g p) { p.cells[0].i = 1; }\n"
    )
    with pytest.raises(SpecError, match=r"k.yaml:5:.*p.cells.* the cuda backend does not take"):
        loaded(
            tmp_path,
            "kernel: {source: k.cu, entry: k}\nproblem: {n: 8}\ntarget: sm_90\narguments:\n"
            "  - name: p\n    struct: g\n    by: value\n    members:\n"
            "      - {name: cells, dtype: {x: float32, i: int32}, shape: [n], role: inout}\n"
            "launch: {grid: [1], block: [1]}\n",
        )


@pytest.mark.integration
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "struct V { float x, y; V operator+(const V &o) const { return {x + o.x, y + o.y}; } };\n"
            "struct C { V at; enum Way : unsigned char { OFF, ON } on; void go() { at.x += 1; } };\n"
            "void k(C *c, int n, const V &by, V &sum, C &last)\n"
            "{ for (int i = 0; i < n; i++) { sum = sum + c[i].at; c[i].at.y += by.x * c[i].on; c[i].go(); }"
            " last = c[n - 1]; }\n",
            [
                "{name: c, dtype: {at: {x: float32, y: float32}, on: uint8}, shape: [n], role: inout}",
                "{name: sum, dtype: float32, shape: [1, 2], role: inout, init: normal}",
                "{name: last, dtype: {at: {x: float32, y: float32}, on: uint8}, shape: [1], role: output}",
            ],
        ),
        (
            "typedef union { unsigned u; float f; } fu;\n"
            "struct c { fu v; unsigned a : 3, b : 5; int id; };\n"
            "void k(struct c *c, int n) { for (int i = 0; i < n; i++) { c[i].v.f *= 2; c[i].b += c[i].id; } }\n",
            ["{name: c, dtype: {v: {u: uint32}, a: uint32, id: int32}, shape: [n], role: inout}"],
        ),
    ],
    ids=["references", "unions and bits"],
)
def test_first_specs_of_whole_structures_check(tmp_path: Path, text: str, says: list[str]) -> None:
    source = tmp_path / ("k.cpp" if "operator" in text else "k.c")
    source.write_text(text)
    made = first_spec(source, entry="k").text
    assert [each for each in says if each not in made] == []
    (tmp_path / "k.yaml").write_text(made)
    (loaded,) = load_spec(tmp_path / "k.yaml")
    found = check_spec(loaded)
    assert found.ok
    assert found.faults is not None
    assert found.faults.missed == ()


def test_rows_of_structures_have_their_extent(tmp_path: Path) -> None:
    """As C passes ``complex_t x[][4]``."""
    (tmp_path / "k.c").write_text(
        "typedef struct { double real, imag; } pair;\ntypedef struct { float x; int id; } part;\n"
        "void f(int n, pair x[][4], part p[][3])\n{\n    for (int j = 0; j < n; j++)\n"
        "        for (int i = 0; i < 4; i++) {\n            x[j][i].real = x[j][i].imag;\n"
        "            p[j][1].x = p[j][2].id;\n        }\n}\n"
    )
    text = first_spec(tmp_path / "k.c").text
    assert "name: x, dtype: float64, shape: [n, 4, 2]" in text
    assert "name: p, dtype: {x: float32, id: int32}, shape: [n, 3]" in text
