"""Calls beside which members of structures are taken: of functions that do not write them, and of no others."""

from __future__ import annotations

from typing import Any

import pytest
from preprocessed_kernels import CONFIGURED, preprocessed

from tuner.core.types import Kernel, Source, Variant
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
LOOP = "for (int i = 0; i < g->nx; i++) "


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
    "a macro of two meanings": (
        "static int calls[4];\nstatic void count(int k) { calls[k]++; }\n#ifndef QUIET\n"
        "#define COUNT(k) do { count(k); } while (0)\n#else\n#define COUNT(k)\n#endif",
        "COUNT(2);",
    ),
    "under a condition": (
        "static int a(struct grid *g) {\n#if defined A && B > 2\nreturn g->nx;\n#elif C\nreturn g->ny;\n#else\n"
        "return 1;\n#endif\n}",
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
    asks = "#if" in before
    given = beside(before, LOOP + f"g->u[i] = g->dt;\n{call}", seen=asks)
    text = apply_edits(given, [*([CONFIGURED] if asks else []), TAKE]).variant.files[0].text
    assert "const double g_dt = (g->dt);" in text, text
    assert "g_u[i] = g_dt;" in text


def beside(
    before: str,
    body: str,
    params: str = "struct grid *g, struct grid *h, int n",
    language: str = "c",
    *,
    seen: bool = False,
) -> Program:
    """A function with others before it, which the preprocessor may have seen."""
    text = f"{TYPES}{before}\nvoid f({params})\n{{\n{body}\n}}\n"
    name = "f.c" if language == "c" else "f.cpp"
    variant = Variant(files=(Source(name=name, text=text),))
    kernel = Kernel(name="f", entry="f", language=language, variant=variant, folder=".")
    return read_program(preprocessed(kernel) if seen else kernel)


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
        "static struct grid *r(struct grid *a) { return a; }\nstatic void w(struct grid *a, struct grid *b) "
        "{ *r(a) = *b; }",
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
    "by the library, from one before": ("#include <string.h>", "memset(&g->k, 0, 16);"),
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
    "a macro of two meanings": (
        "static struct grid *all;\n#ifdef A\n#define W(v) all->dt = v\n#else\n#define W(v)\n#endif",
        "W(1);",
    ),
    "a macro of two meanings, in what is called": (
        "static struct grid *all;\n#ifdef A\n#define W(v) do { all->dt = v; } while (0)\n#else\n#define W(v)\n#endif\n"
        "static void w(void) { W(1); }",
        "w();",
    ),
    "a macro that may be a function": ("void W(int v);\n#ifdef A\n#define W(v)\n#endif", "W(1);"),
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
    "the other way of a conditional": (
        "static void w(struct grid *g) {\n#if A\ng->nx = 1;\n#elif B\ng->ny = 1;\n#else\ng->dt = 1;\n#endif\n}",
        "w(g);",
    ),
    "a conditional within a statement": (
        "static void w(struct grid *g) {\nif (g->nx)\n#ifdef A\ng->dt = 1;\n#else\n;\n#endif\n}",
        "w(g);",
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
    "a pointer that cannot be read": ("MAKE(struct grid *, all) = 0 0;", "*all = *h;"),
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


def test_calls_that_may_exit_are_not_moved_past() -> None:
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


REFERENCES = {
    "read": (
        "const grid &g, grid &h",
        "h.u[i] = g.dt * g.in.width[1] + g.far->lo;",
        ["g_dt * g_in_width[1] + g_far_lo"],
    ),
    "written by another": ("const grid &g, grid &h", "h.dt += g.dt * g.nx;", ["(g.dt) * g_nx", "i < g_nx"]),
    "handed on": ("grid &g, grid &h", "g.u[i] = size(g) * g.dt;", ["g_dt"]),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_members_by_reference_are_read_once(name: str) -> None:
    params, stmt, wanted = REFERENCES[name]
    before = "static int size(const grid &g) { return g.nx * g.ny; }"
    given = beside(before, f"for (int i = 0; i < g.nx; i++) {{ {stmt} }}", params, "c++")
    text = apply_edits(given, [TAKE]).variant.files[0].text
    for part in wanted:
        assert part in text, text


CPP = {
    "another reference": ("", "grid &o = *h; o.dt = 1;"),
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
    "an argument that is an object": (
        "struct last { grid *g; last(int n); ~last(); };\nstatic void w(last l) { }",
        "w(1);",
    ),
    "a pointer of a namespace": ("namespace { grid *all; }", "*all = *h;"),
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


FILES = {
    "reads": ('#include "grid.h"\nint size(struct grid *g) { return g->nx * g->ny; }', True),
    "writes": ('#include "grid.h"\nint size(struct grid *g) { return g->dt = g->ny; }', False),
    "writes through another one": (
        '#include "grid.h"\nstatic void w(struct grid *g) { g->dt = 1; }\n'
        "int size(struct grid *g) { w(g); return 1; }",
        False,
    ),
    "reads, beside one of the file that writes": (
        '#include "grid.h"\nstatic void own(struct grid *g) { g->nx++; }\n'
        "int size(struct grid *g) { return g->nx; }",
        True,
    ),
    "is another file's own": ('#include "grid.h"\nstatic int size(struct grid *g) { return g->nx; }', False),
}


@pytest.mark.parametrize("name", FILES)
def test_functions_of_other_sources_are_known(name: str) -> None:
    other, known = FILES[name]
    text = (
        '#include "grid.h"\nint size(struct grid *g);\nstatic int own(struct grid *g) { return g->nx; }\n'
        "void f(struct grid *g, int n)\n{\n    for (int i = 0; i < n; i++) g->u[i] = g->dt;\n"
        "    n = size(g) + own(g);\n}\n"
    )
    files = (Source(name="f.c", text=text), Source(name="size.c", text=other))
    headers = (Source(name="grid.h", text=TYPES),)
    kernel = Kernel(
        name="f", entry="f", language="c", variant=Variant(files=files), folder=".", headers=headers
    )
    try:
        made = apply_edits(read_program(preprocessed(kernel)), [CONFIGURED, TAKE]).variant.files[0].text
    except EditRefused:
        assert not known
        return
    assert ("g_dt" in made) == known, made
