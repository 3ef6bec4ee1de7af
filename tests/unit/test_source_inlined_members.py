"""Functions that name members in the place of their calls: what is made, what is refused and why."""

from __future__ import annotations

import re

import pytest
from same_results import program_of

from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.regions import read_program

HEAD = """
struct Field { int nx, ny; double *u; double h, dt; };
struct Body { double p[3], m; int kind; };
struct World { int n; volatile int ready; struct Body *b; struct Field in, *out; double width[3]; };
"""


def inlined(helpers: str, lines: str, *, language: str = "c", times: int = 1, calls: str = "g") -> Applied:
    """Calls in a function of structures."""
    text = (
        f"{HEAD}{helpers}\nvoid f(struct Field *a, struct World *w, double *x, int n)\n{{\n    {lines}\n}}\n"
    )
    variant = Variant(files=(Source(name="f.c", text=text),))
    kernel = Kernel(name="f", entry="f", language=language, variant=variant, folder=".")
    edits = [
        {"op": "inline_by_members", "function": "f", "call": c} for c in calls.split() for _ in range(times)
    ]
    return apply_edits(read_program(kernel), edits)


def body(made: Applied) -> str:
    """What the function consists of, on one line, members without parentheses."""
    text = re.sub(r"\((\w+(?:(?:->|\.)\w+)+)\)", r"\1", made.variant.files[0].text)
    return " ".join(text[text.index("void f(") :].split()).split("{", 1)[1].rsplit("}", 1)[0].strip()


AT = "double g(const struct Field *f, int i) { return f->u[i * f->nx]; }"
MADE = {
    "a load in one case": (
        AT,
        "x[0] = n > 0 ? g(a, n - 1) : 0.0;",
        "x[0] = n > 0 ? a->u[(n - 1) * a->nx] : 0.0;",
    ),
    "a load behind &&": (
        AT,
        "if (n > 0 && g(a, n) > 1) x[0] = 1;",
        "if (n > 0 && a->u[n * a->nx] > 1) { x[0] = 1; }",
    ),
    "a loop's limit": (
        "int g(const struct Field *f) { return f->nx; }",
        "for (int i = 0; i < g(a); i++) a->nx -= 1;",
        "for (int i = 0; i < a->nx; i++) { a->nx -= 1; }",
    ),
    "a member's address": (AT, "x[0] = g(&w->in, n);", "x[0] = w->in.u[n * w->in.nx];"),
    "a pointer that is a member": (AT, "x[0] = g(w->out, n);", "x[0] = w->out->u[n * w->out->nx];"),
    "elements of structures": (
        "double g(const struct World *w, int i) { return w->b[i].m * w->b[i + 1].p[2]; }",
        "x[n] = g(w, n);",
        "const double g_value = (w->b[n].m) * (w->b[n + 1].p)[2]; x[n] = g_value;",
    ),
    "a setter reads its arguments first": (
        "void g(struct Field *f, int n, int m) { f->nx = m; f->ny = n; }",
        "g(a, a->nx, a->ny);",
        "const int n_2 = a->nx; const int m = a->ny; a->nx = m; a->ny = n_2;",
    ),
    "a setter may change the pointer that it was given": (
        "void g(struct World *v, struct Field *f) { v->out = &v->in; f->nx = 1; }",
        "g(w, w->out);",
        "struct Field *f = w->out; w->out = &w->in; f->nx = 1;",
    ),
    "conversions stay": (
        "float g(const struct Field *f, double t) { return f->h * t; }",
        "x[0] = 2 * g(a, n);",
        "const double t = n; const float g_value = a->h * t; x[0] = 2 * g_value;",
    ),
    "a conversion in one case": (
        "float g(const struct Field *f) { return f->h; }",
        "x[0] = n ? g(a) : 1;",
        "x[0] = n ? (float)a->h : 1;",
    ),
    "a volatile member is read once": (
        "int g(int i) { return i + i; }",
        "x[0] = g(w->ready);",
        "const int i = w->ready; x[0] = i + i;",
    ),
    "a load rounds nothing": (
        AT,
        "x[0] = g(a, n) * a->h + g(a, 0);",
        "x[0] = a->u[n * a->nx] * a->h + g(a, 0);",
    ),
    "a sum rounds by itself": (
        "double g(const struct Field *f) { return f->h * f->dt; }",
        "x[0] = g(a) + a->h;",
        "const double g_value = a->h * a->dt; x[0] = g_value + a->h;",
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_replacements_of_calls(name: str) -> None:
    helper, call, found = MADE[name]
    assert body(inlined(helper, call)) == found


REFERRING = {
    "a structure": (
        "double g(const Field &f, int i) { return f.u[i]; }",
        "x[n] = g(*a, n);",
        "x[n] = a->u[n];",
    ),
    "a variable": (
        "void g(double &s, double v) { s += v; }",
        "double t = 0; g(t, t);",
        "double t = 0; const double v = t; t += v;",
    ),
    "a number that changes": (
        "void g(int &k, int v) { k = v; k += v; }",
        "int c = n; g(c, c + 1);",
        "int c = n; const int v = c + 1; c = v; c += v;",
    ),
    "a value": (
        "double g(const double &s, const int &i) { return s * i; }",
        "x[n] = g(n, n + 1);",
        "const double s = n; const double g_value = s * (n + 1); x[n] = g_value;",
    ),
    "a member": (
        "void g(double &s, double v) { s += v; }",
        "g(a->dt, a->h);",
        "const double v = a->h; a->dt += v;",
    ),
}


@pytest.mark.parametrize("name", REFERRING)
def test_references_are_what_they_refer_to(name: str) -> None:
    helper, call, found = REFERRING[name]
    assert body(inlined(helper, call, language="c++")) == found


def test_functions_that_call_others_are_opened_one_after_the_other() -> None:
    helpers = (
        "int at(const struct Field *f, int i, int j) { return i * f->nx + j; }\n"
        "double g(const struct Field *f, int i, int j) { return f->u[at(f, i, j)]; }"
    )
    made = inlined(helpers, "x[at(a, n, 0)] = g(a, n, 1);", calls="g at at")
    assert body(made) == "x[n * a->nx + 0] = a->u[n * a->nx + 1];"


def test_calls_in_a_value_that_stands_in_one_case_are_opened_there() -> None:
    helpers = (
        "int at(const struct Field *f, int i) { return i * f->nx; }\n"
        "double g(const struct Field *f, int i) { return f->u[at(f, i)]; }"
    )
    made = inlined(helpers, "x[0] = n > 3 ? g(a, n) : 0;", calls="g at")
    assert body(made) == "x[0] = n > 3 ? a->u[n * a->nx] : 0;"


STAY = {
    "rounding": (
        "double g(const struct Field *f) { return f->h * f->dt; }",
        "x[0] = n ? g(a) : 0;",
        "g is called in some cases only, and its value may round there",
    ),
    "statements": (
        "double g(const struct Field *f, int i) { double s = f->u[i]; s *= f->h; return s; }",
        "x[0] = n ? g(a, 1) : 0;",
        "g is called in some cases only, and is more than one expression",
    ),
    "a macro's argument": (
        "#define TWICE(v) v * 2\nint g(const struct Field *f) { return f->nx + 1; }",
        "x[0] = n ? TWICE(g(a)) : 0;",
        "the function names TWICE, a macro",
    ),
    "changed beside it": (
        AT,
        "x[0] = g(a, 0) + (a->nx = 3);",
        "g reads what the statement that calls it may change",
    ),
    "storing beside others": (
        "int g(struct Field *f) { f->nx = 1; return f->ny; }",
        "x[0] = g(a) + a->nx;",
        "g stores, and is called among other things",
    ),
    "a global": (
        "struct Field *kept;\nint g(void) { kept->nx = 1; return 2; }",
        "struct Field *kept = a; x[0] = g() + kept->nx;",
        "kept means something else in g",
    ),
    "kept values": (
        "int g(struct Field *f) { static int k; k += f->nx; return k; }",
        "x[0] = g(a);",
        "g keeps values between calls",
    ),
    "itself": (
        "int g(const struct Field *f, int n) { return n < 1 ? f->nx : g(f, n - 1); }",
        "x[0] = g(a, n);",
        "g calls itself",
    ),
}


@pytest.mark.parametrize("name", STAY)
def test_calls_that_stay(name: str) -> None:
    helper, call, reason = STAY[name]
    with pytest.raises(EditRefused, match=reason):
        inlined(helper, call)


STAY_IN_CPP = {
    "a reference changes beside it": (
        "int g(int &k) { k = 1; return k; }",
        "int c = n; x[0] = g(c) + c;",
        "g changes what k refers to, and is called among other things",
    ),
    "another call changes its argument": (
        "int k(int &v) { v++; return v; }\nint g(int i) { return i / 2; }",
        "int c = n; x[0] = k(c) + g(c);",
        "g reads what the statement that calls it may change",
    ),
    "of another type": (
        "void g(double &s, double v) { s += v; }",
        "float t = 0; g(t, 1);",
        "what s of g refers to is not known",
    ),
    "lies elsewhere afterwards": (
        "void g(Field &f, int &k) { f.nx = 2; f.u = f.u + 1; k = 1; }",
        "g(*w->out, w->out->nx);",
        "may change where its argument",
    ),
    "an operator": (
        "struct P { int *p; P operator->() { return *this; } };\nint g(const Field &f) { return f.nx; }",
        "x[0] = g(*a);",
        "an operator of the project's own may stand for a member",
    ),
    "returned references": (
        "double &g(Field &f, int i) { return f.u[i]; }",
        "g(*a, 1) = 2;",
        "g is no other function of the sources",
    ),
    "templates": (
        "template <typename T> T g(const T *u, int i) { return u[i]; }",
        "x[0] = g(a->u, n);",
        "g is no other function of the sources",
    ),
    "lambdas": (
        "",
        "auto g = [&](int i) { return a->u[i]; }; x[0] = g(n);",
        "g is no other function of the sources",
    ),
    "overloads": (
        "int g(int i) { return i; }\nint g(double i) { return 2; }",
        "x[0] = g(n);",
        "g is no other function of the sources",
    ),
}


@pytest.mark.parametrize("name", STAY_IN_CPP)
def test_calls_that_stay_in_cpp(name: str) -> None:
    helper, call, reason = STAY_IN_CPP[name]
    with pytest.raises(EditRefused, match=reason):
        inlined(helper, call, language="c++")


def test_another_call_that_changes_an_argument_keeps_the_older_operator_away() -> None:
    text = (
        "static int k(int &v) { v++; return v; }\nstatic int g(int i) { return i / 2; }\n"
        "void f(int *x, int n) { int c = n; x[0] = k(c) + g(c); }\n"
    )
    program = program_of(text, "f", "c++")
    with pytest.raises(EditRefused, match="may change"):
        apply_edits(program, [{"op": "inline_call", "function": "f", "call": "g"}])
