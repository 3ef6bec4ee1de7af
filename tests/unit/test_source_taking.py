"""Members of structures that are read once into locals: what is taken, what stays, and that results stay the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from same_results import program_of
from spec_files import spec_in

from tuner.core.types import BuildRequest, Resolved, Status
from tuner.evaluators.host.backend import HostBackend
from tuner.search.cooking import Attempt, try_operator
from tuner.search.opening import opened
from tuner.spaces.source.edits import EditRefused, apply_edits
from tuner.spaces.source.regions import Program, read_program

TYPES = """
typedef double real;
struct box { int lo, hi; real width[3]; };
struct grid { int nx, ny; unsigned flags : 3; volatile int live; real *u, *next; const float *k; real dt;
  struct box in, *far;
  real **rows; real change; };
struct outer { struct grid a, b; struct box *far; };
"""
TAKE: dict[str, Any] = {"op": "take_members", "function": "f"}


def program(body: str, params: str = "struct grid *g, int n", language: str = "c") -> Program:
    text = f"{TYPES}void f({params})\n{{\n{body}\n}}\n"
    return program_of(text, "f", language)


LOOP = "for (int i = 0; i < g->nx; i++) "

TAKEN = {
    "buffers and numbers": (
        LOOP + "g->next[i] = g->dt * g->u[i] * g->k[i];",
        [
            "const int g_nx = (g->nx);",
            "double *const g_next = (g->next);",
            "const double g_dt = (g->dt);",
            "const float *const g_k = (g->k);",
            "g_next[i] = g_dt * g_u[i] * g_k[i];",
        ],
    ),
    "structures in it": (
        LOOP + "g->u[i] = g->in.width[1] + g->far->hi;",
        ["double *const g_in_width = (g->in.width);", "const int g_far_hi = (g->far->hi);"],
    ),
    "rows by their addresses": (
        LOOP + "g->rows[i][0] = g->dt;",
        ["double **const g_rows = (g->rows);", "g_rows[i][0] = g_dt;"],
    ),
    "what is written stays": (
        LOOP + "{ g->u[i] = g->dt; g->change += g->u[i]; }",
        ["(g->change) += g_u[i];"],
    ),
    "before the statement": (
        "int a = 1; for (int i = 0; i < n; i++) g->u[i] = a;",
        ["int a = 1;\n    double *const g_u = (g->u);\n    for"],
    ),
    "after an early return": (
        "if (n < 1) return;\n" + LOOP + "g->u[i] = 1;",
        ["return;", "const int g_nx = (g->nx);\n    double *const g_u"],
    ),
    "with arithmetic in calls": (LOOP + "g->u[i] = fabs(g->k[i]);", ["g_u[i] = fabs(g_k[i]);"]),
}


@pytest.mark.parametrize("name", TAKEN)
def test_members_are_read_once(name: str) -> None:
    body, wanted = TAKEN[name]
    text = apply_edits(program(body), [TAKE]).variant.files[0].text
    for part in wanted:
        assert part in text, text


LOCALS = {
    "the only name": ("double *to = g->next;\n", True),
    "constant": ("const double *const to = g->next;\n", True),
    "two names": ("double *to = g->next;\ndouble *too = g->next;\n", False),
    "the member is used": ("double *to = g->next;\ng->next[0] = 1;\n", False),
    "moved": ("double *to = g->next;\nto++;\n", False),
    "assigned": ("double *to = g->next;\nto = g->u;\n", False),
    "of bytes": ("char *to = g->next;\n", False),
    "the member changes": ("double *to = g->next;\ng->far->width[0] = 1;\ng->next = g->u;\n", False),
}


@pytest.mark.parametrize("name", LOCALS)
def test_locals_that_are_the_only_name_of_a_buffer_are_arrays(name: str) -> None:
    before, known = LOCALS[name]
    made = apply_edits(program(before + LOOP + "g->u[i] = to[i];"), [TAKE]).program
    (function,) = made.functions.values()
    assert ("to" in function.taken) == known
    assert "g_u" in function.taken or "g->u" in before


def test_members_that_were_read_before_are_taken_after() -> None:
    given = program("int a = g->in.lo + g->nx; " + LOOP + "g->u[i] = g->in.width[1] * g->far->width[i] + a;")
    read = {"op": "read_members", "function": "f"}
    text = apply_edits(given, [read, TAKE]).variant.files[0].text
    for part in ("const int g_in_lo = g->in.lo;", "i < g_nx", "g_u[i] = g_in_width[1] * g_far_width[i] + a;"):
        assert part in text, text


FAR = {
    "through a pointer": "{ *g->far = g->in; g->u[i] = g->far->lo; }",
    "by a subscript": "{ g->far[0] = g->in; g->u[i] = g->far->lo; }",
    "through a local": "{ struct box *b = g->far; *b = g->in; g->u[i] = g->far->lo; }",
    "by a local's subscript": "{ struct box *b = g->far; b[0] = g->in; g->u[i] = g->far->lo; }",
    "as its first number": "{ int *p = (int *)g->far; p[0] = i; g->u[i] = g->far->lo; }",
    "as bytes": "{ void *p = g->far; *(int *)p = i; g->u[i] = g->far->lo; }",
}


@pytest.mark.parametrize("name", FAR)
def test_structures_that_are_written_as_a_whole_keep_their_members(name: str) -> None:
    given = program("for (int i = 0; i < n; i++) " + FAR[name])
    text = apply_edits(given, [TAKE]).variant.files[0].text
    assert "double *const g_u = " in text
    assert "g_far_lo" not in text, text


def test_a_structure_that_is_written_as_part_of_another_keeps_its_members() -> None:
    params = "struct outer *o, struct grid *g, real *u, int n"
    given = program("for (int i = 0; i < n; i++) { o->a = o->b; u[i] = g->dt + o->far->hi; }", params)
    with pytest.raises(EditRefused):
        apply_edits(given, [TAKE])


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("// the operator of the equation, as an operator+ would be\n", True),
        ('/* operator\n */ const char *what = "operator";\n', True),
        ("grid operator+(grid a, grid b);\n", False),
        ("int a = 1'000; grid operator+(grid a, grid b); int b = 1'000;\n", False),
    ],
)
def test_operators_named_only_in_comments_do_not_count(line: str, taken: bool) -> None:
    """One of the project's own may do anything with a structure."""
    text = f"{TYPES}{line}void f(grid *g)\n{{\n{LOOP}g->u[i] = g->dt;\n}}\n"
    whole = program_of(text, "f", "c++")
    if taken:
        assert "g_u[i] = g_dt;" in apply_edits(whole, [TAKE]).variant.files[0].text
    else:
        with pytest.raises(EditRefused, match="not known"):
            apply_edits(whole, [TAKE])


@pytest.mark.parametrize("given", ["const struct grid *g", "struct grid const *g"])
def test_arrays_in_constant_structures_are_constant(given: str) -> None:
    made = apply_edits(program(LOOP + "u[i] = g->in.width[1];", f"{given}, real *u"), [TAKE])
    assert "const double *const g_in_width = " in made.variant.files[0].text


KEPT = {
    "assigned to": LOOP + "g->nx -= 1;",
    "counted": LOOP + "g->nx++;",
    "of what is assigned to": "for (int i = 0; i < n; i++) { g->far->lo += 1; g->far = g->far; }",
    "its address is taken": "for (int i = 0; i < n; i++) *(&g->nx) += 1;",
    "the structure goes elsewhere": LOOP + "other(g);",
    "a function may write it": LOOP + "other(i);",
    "by another name": "struct grid *h = g; " + LOOP + "h->nx = 3;",
    "the structure may be null": "if (g) { " + LOOP + "g->u[i] = 1; }",
    "under a condition": "for (int i = 0; i < n; i++) if (i > 3) g->far->lo = g->far->hi;",
    "either": "int a = n > 2 ? g->nx : 0; if (a) g->u[a] = 1;",
    "of bits": "for (int i = 0; i < n; i++) n += g->flags;",
    "changing by itself": "for (int i = 0; i < n; i++) n += g->live;",
    "of another one, which may be the same": "for (int i = 0; i < n; i++) g->in.lo = g->far->lo;",
    "rows that change": "for (int i = 0; i < n; i++) g->rows[i][0] = 1; g->rows = 0;",
    "known as text": "int a[2] = {g->nx, 1}; while (n--) g->nx = 2;",
    "within a list": "int a[2] = {g->nx, g->nx++}; n = a[0];",
    "all names are listed": "#pragma omp parallel for default(none) shared(n)\n" + LOOP + "(void)0;",
    "of an element": "for (int i = 0; i < n; i++) g[i].nx = g[i].ny;",
    "the pointer moves": LOOP + "g++;",
}


@pytest.mark.parametrize("name", KEPT)
def test_members_that_may_change_stay_where_they_are(name: str) -> None:
    with pytest.raises(EditRefused):
        apply_edits(program(KEPT[name]), [TAKE])


def test_a_macro_that_names_the_structure_keeps_it() -> None:
    given = program("#define NX g->nx\n" + LOOP + "g->u[i] = NX;")
    with pytest.raises(EditRefused):
        apply_edits(given, [TAKE])


KERNEL = """
#include <math.h>
#include "grid.h"
static int at(const struct grid *g, int i, int j) { return j * g->nx + i; }
void f(struct grid *g)
{
    real change = 0;
    real *next = g->next;
    for (int i = 1; i < g->nx - 1; i++)
        for (int j = 1; j < g->ny - 1; j++)
            next[at(g, i, j)] = g->u[j * g->nx + i] + g->dt * g->k[i] * g->u[(j - 1) * g->nx + i + 1];
    for (int j = 1; j < g->ny - 1; j++)
        for (int i = 1; i < g->nx - 1; i++) change += fabs(next[j * g->nx + i]);
    g->change = change;
}
"""
SPEC = """\
kernel: {source: f.c, entry: f}
problem: {nx: 60, ny: 50}
arguments:
  - name: g
    struct: struct grid
    members:
      - {name: nx, dtype: int32, value: nx}
      - {name: ny, dtype: int32, value: ny}
      - {name: u, dtype: float64, shape: [ny, nx]}
      - {name: next, dtype: float64, shape: [ny, nx], role: inout}
      - {name: k, dtype: float32, shape: [nx]}
      - {name: dt, dtype: float64, value: 0.75}
      - {name: change, dtype: float64, value: 0, role: output}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off, source: {evolve: true}}
verify: {problems: [{nx: 13, ny: 7}]}
"""


@pytest.mark.integration
def test_loops_over_members_are_reached_and_stay_right(tmp_path: Path) -> None:
    (tmp_path / "grid.h").write_text(TYPES)
    loaded = spec_in(tmp_path, "f.c", KERNEL, SPEC)
    start = Attempt(
        program=read_program(loaded.task.kernel), edits=(), rng=np.random.default_rng(0), reassociate=False
    )
    made = opened(start, {})
    assert made is not None
    (taken,) = (edit for edit in made.edits if edit["op"] == "take_members")
    assert taken["assumes"] == ["separate buffers", "elements exist"]
    plain = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
    requests = [BuildRequest(trial=0, variant=loaded.task.kernel.variant, resolved=plain)]
    for trial, name in enumerate(("interchange", "tile", "unroll_and_jam"), 1):
        further = try_operator(made, name)
        assert further is not None, name
        applied = apply_edits(start.program, further.edits)
        resolved = replace(plain, macros={p.name: p.default for p in applied.parameters})
        requests.append(BuildRequest(trial=trial, variant=applied.variant, resolved=resolved))
    evaluation = HostBackend().prepare(loaded.task, workers=1)
    try:
        builds = evaluation.build(requests)
        report = evaluation.set_baseline(builds[0], plain)
        assert report.status is Status.OK, report.message
        for request, build in zip(requests[1:], builds[1:], strict=True):
            assert build.status is Status.OK, build.message
            session = evaluation.open(build, request.resolved, purpose="search", number=0)
            try:
                verdict = session.verify()
                assert verdict.status is Status.OK, verdict.message
            finally:
                session.close()
    finally:
        evaluation.close()
