"""Members of structures that are read once into locals: what is taken, what stays, and that results stay the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuner.core.types import BuildRequest, Kernel, Resolved, Source, Status, Variant
from tuner.evaluators.host.backend import HostBackend
from tuner.search.cooking import Attempt, try_operator
from tuner.search.opening import opened
from tuner.spaces.source.edits import EditRefused, apply_edits
from tuner.spaces.source.regions import Program, read_program
from tuner.spec.load import load_spec

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
    variant = Variant(files=(Source(name="f.c", text=text),))
    return read_program(Kernel(name="f", entry="f", language=language, variant=variant, folder="."))


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
    "rows": "for (int i = 0; i < n; i++) g->rows[i][0] = 1;",
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


CALLED = {
    "reads": (
        "static real sum(const struct grid *g) { int i = 0; real s = 0; while (i < g->nx) s += g->u[i++]; return s; }",
        "g->change = sum(g);",
    ),
    "writes another member": ("static void told(struct grid *g) { g->change = 1; }", "told(g);"),
    "writes a buffer": (
        "static void clear(real *u, int n) { for (int i = 0; i < n; i++) u[i] = 0; }",
        "clear(g->u, g->nx);",
    ),
    "calls itself": (
        "static int down(struct grid *g, int n) { return n ? down(g, n - 1) : g->nx; }",
        "n = down(g, 3);",
    ),
    "calls one that reads": (
        "static int a(struct grid *g) { return g->nx; }\nstatic int b(struct grid *g) { return a(g); }",
        "n = b(g);",
    ),
    "a pointer of its own": (
        "static int far(struct grid *g) { struct box *b = g->far; return b == 0 ? 0 : b->lo; }",
        "n = far(g);",
    ),
    "goes to its end": (
        "static int to(struct grid *g) { if (g->nx < 2) goto end; return 1; end: return 0; }",
        "n = to(g);",
    ),
    "of the library": ("#include <stdio.h>", 'printf("%d\\n", g->nx);'),
    "frees a buffer": ("#include <stdlib.h>", "free(g->u);"),
    "with a comment that says weak": (
        "static int a(struct grid *g) { return g->nx; /* weak scaling */ }",
        "n = a(g);",
    ),
    "its own structure": (
        "static int own(void) { struct box b = {1, 2}, c; c = b; return c.lo; }",
        "n = own();",
    ),
}


@pytest.mark.parametrize("name", CALLED)
def test_calls_of_functions_that_write_no_member_keep_nothing_closed(name: str) -> None:
    before, call = CALLED[name]
    text = apply_edits(beside(before, LOOP + f"g->u[i] = g->dt;\n{call}"), [TAKE]).variant.files[0].text
    assert "const double g_dt = (g->dt);" in text, text
    assert "g_u[i] = g_dt;" in text


def beside(
    before: str, body: str, params: str = "struct grid *g, struct grid *h, int n", language: str = "c"
) -> Program:
    """A function with others before it."""
    text = f"{TYPES}{before}\nvoid f({params})\n{{\n{body}\n}}\n"
    name = "f.c" if language == "c" else "f.cpp"
    variant = Variant(files=(Source(name=name, text=text),))
    return read_program(Kernel(name="f", entry="f", language=language, variant=variant, folder="."))


WRITING = {
    "by name": ("static void w(struct grid *g) { g->dt = 1; }", "w(g);"),
    "of another one": ("static void w(struct grid *g) { g->dt = 1; }", "w(h);"),
    "further down": (
        "static void a(struct grid *g) { g->dt++; }\nstatic void w(struct grid *g) { a(g); }",
        "w(g);",
    ),
    "itself, further down": (
        "static void w(struct grid *g, int n) { if (n) w(g, n - 1); else g->dt = 2; }",
        "w(g, n);",
    ),
    "as a whole": ("static void w(struct grid *a, struct grid *b) { *a = *b; }", "w(g, h);"),
    "as an element": ("static void w(struct grid *a, struct grid *b) { a[0] = b[0]; }", "w(g, h);"),
    "as the last of them": ("static void w(struct grid *a, struct grid *b) { *a++ = *b; }", "w(g, h);"),
    "as what is returned": (
        "static struct grid *r(struct grid *a) { return a; }\nstatic void w(struct grid *a, struct grid *b) { *r(a) = *b; }",
        "w(g, h);",
    ),
    "either": (
        "static void w(struct grid *a, struct grid *b, struct grid *c) { *(a ? a : b) = *c; }",
        "w(g, h, h);",
    ),
    "its address": ("static void w(real *p) { *p = 1; }", "w(&g->dt);"),
    "its address, in there": (
        "static void a(real *p) { *p = 1; }\nstatic void w(struct grid *g) { a(&(g)->dt); }",
        "w(g);",
    ),
    "an address from before": (
        "static real *kept;\nvoid keep(struct grid *g) { kept = &g->dt; }\nstatic void w(void) { *kept = 1; }",
        "w();",
    ),
    "a pointer from before": (
        "static struct grid *kept;\nvoid keep(struct grid *g) { kept = g; }\nstatic void w(void) { kept->dt = 1; }",
        "w();",
    ),
    "a pointer from before, as a whole": (
        "static struct grid *kept;\nstatic void w(struct grid *g) { *kept = *g; }",
        "w(h);",
    ),
    "a variable of the file": ("struct grid all;\nstatic void w(struct grid *g) { all = *g; }", "w(h);"),
    "a variable of the file, elsewhere": (
        "static void w(struct grid *g) { extern struct grid all; all = *g; }",
        "w(h);",
    ),
    "what a function keeps": (
        "static struct grid *w(struct grid *g) { static struct grid all; if (g) all = *g; return &all; }",
        "w(h);",
    ),
    "through a cast": ("static void w(struct grid *g) { int *p = (int *)g; p[0] = 1; }", "w(g);"),
    "through bytes": ("#include <string.h>\nstatic void w(void *p, int n) { memset(p, 0, n); }", "w(g, 64);"),
    "by the library": ("#include <string.h>", "memset(g, 0, sizeof *g);"),
    "by the library, as numbers": ("#include <string.h>", "memset(&g->dt, 0, sizeof g->dt);"),
    "read in": ("#include <stdio.h>", 'sscanf("1", "%lf", &g->dt);'),
    "through an outer one": (
        "static void w(struct outer *o, struct outer *p) { o->a = p->b; }",
        "w((struct outer *)h, 0);",
    ),
    "an alias by another type's name": (
        "typedef struct grid *grid_p;\nstatic void w(grid_p a, grid_p b) { *a = *b; }",
        "w(g, h);",
    ),
    "as an array of one": (
        "typedef struct grid grid_1[1];\nstatic void w(grid_1 a, grid_1 b) { a[0] = b[0]; }",
        "w(g, h);",
    ),
    "in a union": (
        "union both { struct grid g; struct { int i[40]; } b; };\n"
        "static void w(union both *u) { u->b.i[8] = 1; }\nstatic union both *all;",
        "w(all);",
    ),
    "a macro": ("#define W(g) g->dt = 1\nstatic void w(struct grid *g) { W(g); }", "w(g);"),
    "a macro without arguments": ("static struct grid *all;\n#define W all->dt = 1", "W;"),
    "a function pointer": ("static void w(void (*f)(struct grid *), struct grid *g) { f(g); }", "w(0, g);"),
    "a function pointer of the file": ("static void (*w)(struct grid *);", "w(g);"),
    "a function pointer with a function's name": (
        "static void w(struct grid *g) { }",
        "void (*w)(struct grid *) = 0; w(g);",
    ),
    "a member": ("struct ops { void (*w)(struct grid *); };\nstatic struct ops o;", "o.w(g);"),
    "declared only": ("void w(struct grid *g);", "w(g);"),
    "not declared": ("", "w(g);"),
    "weak": ("__attribute__((weak)) void w(struct grid *g) { }", "w(g);"),
    "twice": (
        "#ifdef A\nvoid w(struct grid *g) { }\n#else\nvoid w(struct grid *g) { g->dt = 1; }\n#endif",
        "w(g);",
    ),
    "assembly": ('static void w(struct grid *g) { __asm__ volatile("" : : "r"(g) : "memory"); }', "w(g);"),
    "longjmp": ("#include <setjmp.h>\nstatic jmp_buf b;\nstatic void w(void) { longjmp(b, 1); }", "w();"),
    "setjmp": ("#include <setjmp.h>\nstatic jmp_buf b;", "if (setjmp(b)) g->dt = 1;"),
    "a variable that is cleaned up": (
        "static void c(int *p);\nstatic void w(void) { __attribute__((cleanup(c))) int n = 0; }",
        "w();",
    ),
    "a callback": (
        "#include <stdlib.h>\nstatic int c(const void *a, const void *b) { return 0; }",
        "qsort(g->u, 3, 8, c);",
    ),
    "a conditional": ("static void w(struct grid *g) {\n#ifdef A\ng->dt = 1;\n#endif\n}", "w(g);"),
    "grown": (
        "#include <stdlib.h>\nstatic void w(struct grid *g) { g = realloc(g, 99); g->dt = 1; }",
        "w(g);",
    ),
    "freed": ("#include <stdlib.h>\nstatic void w(struct grid *g) { free(g); }", "w(g);"),
    "a statement within an expression": (
        "static int w(struct grid *g) { return ({ g->dt = 1; 2; }); }",
        "n = w(g);",
    ),
    "the printing function is its own": (
        "struct grid *all;\nvoid printf(int i) { all->dt = i; }",
        "printf(1);",
    ),
    "a jump": ("", "if (n) goto end;\ng->u[0] = g->dt;\nend: n = 2;"),
    "text that writes": ("", "while (n--) g->dt = 1;"),
    "a pointer that is not known": ("static struct grid *all;", "*all = *h;"),
}


@pytest.mark.parametrize("name", WRITING)
def test_members_that_a_call_may_write_stay_where_they_are(name: str) -> None:
    before, call = WRITING[name]
    given = beside(before, "for (int i = 0; i < n; i++) g->u[i] = g->dt;\n" + call)
    try:
        text = apply_edits(given, [TAKE]).variant.files[0].text
    except EditRefused:
        return
    assert "g_dt" not in text, text


def test_what_may_end_the_program_is_not_passed_by() -> None:
    ends = "#include <stdlib.h>\nstatic void sure(struct grid *g) { if (!g->far) exit(1); }"
    text = (
        apply_edits(
            beside(
                ends, LOOP + "g->u[i] = g->dt;\nsure(g);\nfor (int i = 0; i < g->far->lo; i++) g->u[i] = 1;"
            ),
            [TAKE],
        )
        .variant.files[0]
        .text
    )
    assert "g_far_lo" not in text
    assert "g_nx" in text


CPP = {
    "a number by reference": ("static void w(double &d) { d = 1; }", "w(g->dt);"),
    "a local reference": ("", "double &d = g->dt; d = 1;"),
    "a reference that is returned": ("static double &w(grid &g) { return g.dt; }", "w(*g) = 1;"),
    "as a whole by reference": ("static void w(grid &a, grid &b) { a = b; }", "w(*g, *h);"),
    "one of several": ("static void w(grid *g) { }\nvoid w(grid *g, int n) { g->dt = n; }", "w(g);"),
    "declared with other parameters": ("static void w(long n) { }\nvoid w(int n);", "w(n);"),
    "an object's end": (
        "struct last { grid *g; ~last() { g->dt = 1; } };\nstatic void w(grid *g) { last l = {g}; }",
        "w(g);",
    ),
    "a method": ("struct does { void w(grid *g) { g->dt = 1; } };\nstatic does d;", "d.w(g);"),
    "a function within": ("", "auto w = [&] { g->dt = 1; }; w();"),
    "a pointer by reference": ("static void w(grid *&g, grid *h) { g = h; }", "w(g, h); n = g->nx;"),
}


@pytest.mark.parametrize("name", CPP)
def test_members_that_cpp_may_write_stay_where_they_are(name: str) -> None:
    before, call = CPP[name]
    given = beside(
        before, "for (int i = 0; i < n; i++) g->u[i] = g->dt;\n" + call, "grid *g, grid *h, int n", "c++"
    )
    try:
        text = apply_edits(given, [TAKE]).variant.files[0].text
    except EditRefused:
        return
    assert "g_dt" not in text, text


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


def test_loops_over_members_are_reached_and_stay_right(tmp_path: Path) -> None:
    (tmp_path / "grid.h").write_text(TYPES)
    (tmp_path / "f.c").write_text(KERNEL)
    (tmp_path / "f.yaml").write_text(SPEC)
    (loaded,) = load_spec(tmp_path / "f.yaml")
    start = Attempt(
        program=read_program(loaded.task.kernel), edits=(), rng=np.random.default_rng(0), reassociate=False
    )
    made = opened(start, {}, 9)
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
