"""Members of structures: which are read, which stay text, and which edits of loops over them are legal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from preprocessed_kernels import preprocessed

from tuner.core.types import Kernel, Source, Variant
from tuner.search.cooking import Attempt
from tuner.search.opening import opened
from tuner.spaces.source.edits import EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program, read_program
from tuner.spaces.source.syntax import Opaque
from tuner.spaces.source.walks import subtrees

BODY = "typedef struct { float x, y, z, mass; } body;\n"
CELL = "struct pair { float u, v; };\nstruct cell { float x; int k; struct pair p; float f[5]; short w; };\n"
MEMBERS: dict[str, Any] = {"op": "read_members", "function": "f"}
SUFFIXES = {"c": "c", "c++": "cpp", "opencl": "cl", "cuda": "cu"}


def program(text: str, language: str = "c", *, seen: bool = False) -> Program:
    """A kernel ``f``, which the preprocessor may have seen."""
    variant = Variant(files=(Source(name=f"f.{SUFFIXES[language]}", text=text),))
    given = Kernel(name="f", entry="f", language=language, variant=variant, folder=".")
    if not seen:
        return read_program(given)
    given = preprocessed(given)
    return read_program(given).with_preprocessed(given.preprocessed[0])


def kernel(body: str, params: str, types: str = BODY, language: str = "c", *, seen: bool = False) -> Program:
    """The statements of a loop over ``i``, after some definitions."""
    head = {"opencl": "__kernel void", "cuda": "__global__ void"}.get(language, "void")
    return program(
        f"{types}{head} f({params}, int n)\n{{\nfor (int i = 1; i < n; i++) {{ {body} }}\n}}\n",
        language,
        seen=seen,
    )


def texts(given: Program) -> list[str]:
    """What is text after members have been read."""
    try:
        given = apply_edits(given, [MEMBERS]).program
    except EditRefused:
        pass
    return [n.text for n in subtrees(given.functions["f"].body) if isinstance(n, Opaque)]


READ = {
    "element": kernel("a[i].x = b[i].y;", "body *a, const body *b"),
    "tag": kernel("a[i].x = a[i].p.v;", "struct cell *a", CELL),
    "array in a structure": kernel("a[i].f[i % 5] += a[i].f[0];", "struct cell *a", CELL),
    "one structure": kernel("a->x += a->f[2]; (*a).k = i; a[0].k += 1;", "struct cell *a", CELL),
    "by value": kernel("out[i] = b.x * i;", "body b, float *out"),
    "local": kernel("body h = a[i]; h.x += 1.0f; a[i] = h;", "body *a"),
    "first values": kernel("body h = {1.0f, 2.0f}; h.x += out[i]; out[i] = h.x;", "float *out"),
    "first values of its type": kernel("body h = (body){0.0f}; out[i] = h.x;", "float *out"),
    "local array": kernel("float h[4] = {0.0f}; h[i & 3] += out[i]; out[i] = h[1];", "float *out"),
    "two names of one type": kernel(
        "a[i].x = 1.0f;",
        "point *a",
        "struct s { float x; };\ntypedef struct s point_s;\ntypedef point_s point;\n",
    ),
    "members of named types": kernel(
        "a[i].x += 1;", "s *a", "typedef float real;\ntypedef struct { real x; } s;\n"
    ),
    "numbers of one type or another": kernel(
        "s h = {a[i].x, 2.0f}; h.y += a[i].y; a[i] = h;",
        "s *a",
        "#ifdef D\ntypedef double real;\n#else\ntypedef float real;\n#endif\ntypedef struct { real x, y; } s;\n",
        seen=True,
    ),
    "numbers behind a macro": kernel(
        "s h = {a[i].x, 2.0f}; h.y += a[i].y; a[i] = h;",
        "s *a",
        "#ifndef REAL\n#define REAL float\n#endif\ntypedef struct { REAL x, y; } s;\n",
        seen=True,
    ),
    "structure in a structure": kernel(
        "a[i].p.x = a[i].q.y;", "s *a", "typedef struct { struct { float x, y; } p, q; } s;\n"
    ),
    "beside a union": kernel(
        "a[i].y = a[i].y + 1;", "s *a", "typedef struct { union { int i; float f; } u; float y; } s;\n"
    ),
    "member called as a variable": kernel(
        "a[i].i = i; a[i].a = a[i].i;", "s *a", "typedef struct { int i, a; } s;\n"
    ),
    "packed": kernel(
        "a[i].c = a[i].x > 0;", "s *a", "typedef struct { char c; float x; } __attribute__((packed)) s;\n"
    ),
    "C++": kernel("a[i].x = b[i].y;", "body *a, const body *b", "struct body { float x, y; };\n", "c++"),
    "reference to an element": kernel(
        "body &h = a[i]; auto &g = b[i]; h.x += g.y; const float z = h.z; a[i].y = z;",
        "body *a, const body *b",
        BODY,
        "c++",
    ),
    "OpenCL": kernel(
        "float4 v = a[i]; v.x += a[i].w; float4 u = (float4)(v.x, 0.0f, 1.0f, v.y); a[i] = u;",
        "__global float4 *a",
        "",
        "opencl",
    ),
    "OpenCL structure": kernel(
        "a[i].p.x = a[i].k;", "__global s *a", "typedef struct { float4 p; int k; } s;\n", "opencl"
    ),
    "several components": kernel(
        "float3 d = a[i].xyz - a[0].xyz; a[i].lo += d.xy * a[i].s3; a[i].s01 = a[i].hi;",
        "__global float4 *a",
        "",
        "opencl",
    ),
    "CUDA": kernel(
        "float4 v = a[i]; float3 u = make_float3(v.x, v.y, 0.0f); a[i].z = u.x;", "float4 *a", "", "cuda"
    ),
}
LEFT = {
    "union": kernel("a[i].x = a[i].k;", "u *a", "typedef union { float x; int k; } u;\n"),
    "union in a structure": kernel(
        "a[i].u.f = 1.0f;", "s *a", "typedef struct { union { int i; float f; } u; } s;\n"
    ),
    "without a name": kernel(
        "a[i].f = 1.0f;", "s *a", "typedef struct { union { int i; float f; }; float y; } s;\n"
    ),
    "bits": kernel("a[i].k = 3;", "s *a", "typedef struct { unsigned k : 3; unsigned m : 5; } s;\n"),
    "volatile member": kernel("a[i].x = 3;", "s *a", "typedef struct { volatile float x; } s;\n"),
    "volatile structure": kernel("a[i].x = 3;", "volatile body *a"),
    "atomic": kernel("a[i].x = 3;", "s *a", "typedef struct { _Atomic int x; } s;\n"),
    "pointer": kernel("a->p[i] = 1.0f;", "s *a", "typedef struct { float *p; int n; } s;\n"),
    "pointer in a pointer": kernel(
        "a[i].next->x = 1.0f;", "struct s *a", "struct s { float x; struct s *next; };\n"
    ),
    "pointer to pointers": kernel("a[i]->x = 1.0f;", "body **a"),
    "not defined": kernel("a[i].x = 1.0f;", "body *a", '#include "elsewhere.h"\n'),
    "defined twice": kernel(
        "a[i].x = 1.0f;",
        "s *a",
        "#ifdef D\ntypedef struct { double x; } s;\n#else\ntypedef struct { int x; } s;\n#endif\n",
    ),
    "conditional member": kernel(
        "a[i].x = 1.0f;", "s *a", "typedef struct {\n#ifdef D\ndouble x;\n#else\nfloat x;\n#endif\n} s;\n"
    ),
    "member behind a macro": kernel(
        "a[i].X = 1.0f;", "s *a", "#define X y\ntypedef struct { float X, z; } s;\n"
    ),
    "type behind a macro": kernel("a[i].x = 1.0f;", "s *a", "typedef struct { float x; } t;\n#define s t\n"),
    "variable behind a macro": kernel("b[i].x = 1.0f;", "body *a", f"#define b a\n{BODY}"),
    "one type or another": kernel(
        "a[i].x = 1.0f;",
        "s *a",
        "#ifdef D\ntypedef float *real;\n#else\ntypedef float real;\n#endif\ntypedef struct { real x, y; } s;\n",
    ),
    "type or another behind a macro": kernel(
        "a[i].x = 1.0f;",
        "s *a",
        "#ifdef D\n#define REAL volatile int\n#else\n#define REAL float\n#endif\ntypedef struct { REAL x, y; } s;\n",
    ),
    "hidden type": program(
        f"{BODY}void f(float *o, int n)\n{{\nstruct body {{ int x; }};\nbody b;\nb.x = n;\n}}\n", "c++"
    ),
    "two variables": program(
        f"{BODY}typedef struct {{ int x; }} other;\nvoid f(float *o, int n)\n"
        "{\n{ body b; b.x = n; }\n{ other b; b.x = n; }\n}\n"
    ),
    "two arrays": program(
        f"{BODY}typedef struct {{ int x; }} other;\nvoid f(float *o, int n)\n"
        "{\n{ body b[2]; b[0].x = n; }\n{ other b[2]; b[0].x = n; }\n}\n"
    ),
    "declared as text": program(
        f"{BODY}void f(body *a, int n)\n{{\n{{ int (*a)(void) = 0; a->x = n; }}\n}}\n"
    ),
    "whole array": kernel("g(a[i].f);", "struct cell *a", CELL),
    "address": kernel("float *p = &a[i].f[0];", "s *a", "typedef struct { float f[]; } s;\n"),
    "called": kernel("g().x = 1.0f;", "body *a"),
    "size": kernel("out[i] = sizeof(a[0].x);", "body *a, int *out"),
    "method": kernel(
        "a[i].x = a[i].y;", "s *a", "struct s { float x, y; float sum() { return x + y; } };\n", "c++"
    ),
    "constructor": kernel("a[i].x = 1;", "s *a", "struct s { float x; s(); };\n", "c++"),
    "first value of a member": kernel("a[i].x = 1;", "s *a", "struct s { float x = 3; };\n", "c++"),
    "base class": kernel(
        "a[i].x = 1;", "s *a", "struct t { float x; };\nstruct s : t { float y; };\n", "c++"
    ),
    "class": kernel("a[i].x = 1;", "s *a", "class s { public: float x; };\n", "c++"),
    "static member": kernel("a[i].x = 1;", "s *a", "struct s { static float x; };\n", "c++"),
    "reference": kernel("a.x += i;", "body &a", BODY, "c++"),
    "reference member": kernel("a[i].x = 1;", "s *a", "struct s { float &x; };\n", "c++"),
    "reference to a variable": kernel(
        "body h = a[i]; body &g = h; g.x = 1; a[i] = h;", "body *a", BODY, "c++"
    ),
    "reference of another type": kernel(
        "const s &h = a[i]; a[i].x = h.y;", "body *a", f"{BODY}struct s {{ float y; s(body); }};\n", "c++"
    ),
    "reference that is given away": kernel(
        "body &h = a[i]; h.x = 1; g(h, [&] { h.y = 2; });", "body *a", BODY, "c++"
    ),
    "reference behind a macro": kernel(
        "body &h = a[i]; M.x = 1.0f;", "body *a", f"#define M h\n{BODY}", "c++"
    ),
    "overloaded": kernel(
        "a[i].x = 1;", "s *a", "struct s { float x; };\ns operator+(s a, s b) { return a; }\n", "c++"
    ),
    "template": kernel("a[i].x = 1;", "s<float> *a", "template <typename T> struct s { T x; };\n", "c++"),
    "namespace": kernel(
        "a[i].x = 1;", "s *a", "namespace m { struct s { float x; }; }\nusing m::s;\n", "c++"
    ),
    "swizzle of CUDA": kernel("a[i].xy = a[i].zw;", "float4 *a", "", "cuda"),
    "component that is not there": kernel("a[i].w = 1.0f;", "__global float3 *a", "", "opencl"),
    "number that is not there": kernel("a[i].s4 = 1.0f;", "__global float4 *a", "", "opencl"),
    "vector of the compiler": kernel(
        "a[i].x = 1.0f;", "float4 *a", "typedef float float4 __attribute__((ext_vector_type(4)));\n"
    ),
    "list that names members": kernel("body h = {.y = 1.0f}; a[i] = h;", "body *a"),
    "list of different members": kernel(
        "s h = {0}; a[i] = h;", "s *a", "typedef struct { char c; float x; } s;\n"
    ),
    "list of constants": kernel(
        "s h = {1.0f, 2.0f}; a[i] = h;", "s *a", "typedef struct { const float x; float y; } s;\n"
    ),
    "list of itself": kernel("float h[2] = {h[1], 1.0f}; a[i] = h[0];", "float *a"),
    "list of vectors": kernel(
        "float2 u = a[i]; float4 h = {u, u}; b[i] = h;", "float2 *a, float4 *b", "", "cuda"
    ),
    "lasting list": kernel("static float h[2] = {0.0f}; a[i] = h[0];", "float *a"),
    "list of effects": kernel("float h[2] = {g(a), 1.0f}; a[i] = h[0];", "float *a"),
    "own maker of vectors": kernel(
        "float3 u = make_float3(1.0f, 2.0f, 3.0f); a[i] = u;",
        "float3 *a",
        "__device__ float3 make_float3(float x, float y, float z);\n",
        "cuda",
    ),
}


@pytest.mark.parametrize("name", READ)
def test_members_are_read(name: str) -> None:
    """Nothing is left as text, and what is read is written as C that says the same."""
    assert texts(READ[name]) == []
    made = apply_edits(READ[name], [MEMBERS])
    assert made.checked
    seen = READ[name].units is not None
    again = program(made.variant.files[0].text, READ[name].language, seen=seen)
    assert texts(again) == []


@pytest.mark.parametrize("name", LEFT)
def test_unknown_members_stay_text(name: str) -> None:
    assert texts(LEFT[name]) or "maker" in name
    if "list" not in name and "maker" not in name:
        reason = r"no members of structures or first values that can be read|the function names \w+, a macro"
        with pytest.raises(EditRefused, match=reason):
            apply_edits(LEFT[name], [MEMBERS])


def test_lists_that_are_left_have_their_own_text() -> None:
    for name in [n for n in LEFT if "list" in n or "maker" in n]:
        text = LEFT[name].sources()[0].text
        try:
            made = apply_edits(LEFT[name], [MEMBERS]).variant.files[0].text
        except EditRefused:
            continue
        assert text[text.index(" = ") : text.index(";", text.index(" = "))] in made


LIST = "body h = {out[i], 2.0f};"


def test_lists_become_assignments() -> None:
    made = apply_edits(kernel(f"{LIST} out[i] = h.x;", "float *out"), [MEMBERS]).variant.files[0].text
    assert "body h;\n" in made
    for line in ("h.x = out[i];", "h.y = 2.0f;", "h.z = 0;", "h.mass = 0;"):
        assert line in made
    text = "float h[LONG] = {out[i], 2.0f}; out[i] = h[1];"
    made = apply_edits(kernel(text, "float *out", "#define LONG 7\n"), [MEMBERS]).variant.files[0].text
    assert "h[0] = out[i];" in made
    assert "for (int at = 2; at < LONG; at++)" in made


REVERSE = {"op": "reverse", "loop": "i"}
FISSION = {"op": "fission", "loop": "i", "at": 1}
HOIST = {"op": "hoist", "loop": "i", "expression": "b->x"}
TILE = {"op": "strip_mine", "loops": ["i"], "parameters": [{"name": "T", "values": [4], "default": 4}]}
UNION = "typedef struct { union { int i; float f; } u; float y; } s;\n"
# Statements of a loop, parameters, types, an edit, and what its refusal says: nothing where it is legal.
LEGAL: dict[str, tuple[str, str, str, dict[str, Any], str]] = {
    "the same member": ("a[i].x = a[i - 1].x;", "body *a", BODY, REVERSE, "a.x ties"),
    "different members": ("a[i].x = a[i - 1].y;", "body *a", BODY, REVERSE, ""),
    "the whole and a member": (
        "a[i] = b[i]; a[i].x = a[i - 1].x;",
        "body *a, body *b",
        BODY,
        REVERSE,
        "ties",
    ),
    "copies": ("a[i] = a[i - 1];", "body *a", BODY, REVERSE, "ties"),
    "copy beside a member": ("b[i].x = a[i].x; a[i + 1] = b[i];", "body *a, body *b", BODY, FISSION, "ties"),
    "member of what is copied": (
        "a[i].y = 1.0f; b[i] = a[i - 1];",
        "body *a, body *b",
        BODY,
        REVERSE,
        "ties",
    ),
    "copy of others": ("a[i].y = 1.0f; b[i] = c[i - 1];", "body *a, body *b, body *c", BODY, REVERSE, ""),
    "inner structure": ("a[i].p.u = a[i - 1].p.v;", "struct cell *a", CELL, REVERSE, ""),
    "inner structure as a whole": ("a[i].p = a[i - 1].p;", "struct cell *a", CELL, REVERSE, "ties"),
    "part of a whole": (
        "a[i].p.u = a[i - 1].x; b[i].p = a[i - 1].p;",
        "struct cell *a, struct cell *b",
        CELL,
        REVERSE,
        "ties",
    ),
    "array in one structure": ("a->f[i] = a->f[i - 1];", "struct cell *a", CELL, REVERSE, "a.f ties"),
    "array in one structure, apart": ("a->f[i] = a->f[i] + 1.0f;", "struct cell *a", CELL, REVERSE, ""),
    "rows of structures": ("a[i].f[1] = a[i - 1].f[2];", "struct cell *a", CELL, REVERSE, ""),
    "rows of structures, copied": (
        "a[i].f[1] = a[i - 1].f[2]; b[i] = a[i];",
        "struct cell *a, struct cell *b",
        CELL,
        REVERSE,
        "ties",
    ),
    "arrow and subscript": ("a->x = a[i - 1].x;", "body *a", BODY, REVERSE, "ties"),
    "star and arrow": ("(*a).x = 0.5f * a->x + i;", "body *a", BODY, REVERSE, "ties"),
    "one structure by value": ("a[i] = b.x; b.x = a[i] + 1.0f;", "float *a, body b", BODY, REVERSE, "ties"),
    "local copy": ("body h = a[i]; h.x += 1.0f; a[i] = h;", "body *a", BODY, REVERSE, ""),
    "local copy of the last one": (
        "body h = a[i - 1]; h.x += 1.0f; a[i] = h;",
        "body *a",
        BODY,
        REVERSE,
        "ties",
    ),
    "address of a member": (
        "float *p = &a[i].x; *p = 1.0f;",
        "body *a",
        BODY,
        REVERSE,
        "pointer",
    ),
    "cast of the array": ("a[i].x = ((float *)a)[i - 1];", "body *a", BODY, REVERSE, "named array"),
    "cast to another structure": (
        "a[i].x = ((struct cell *)a)[i].x;",
        "body *a",
        BODY + CELL,
        REVERSE,
        "type or structure is not known",
    ),
    "union": ("a[i].u.f = 1.0f; a[i].u.i += 1;", "s *a", UNION, REVERSE, "loop i holds a member of a union"),
    "given away": ("a[i].x = 1.0f; g(&a[i]);", "body *a", BODY, REVERSE, "effects|known"),
    "given away whole": ("a[i].x = 1.0f; g(a[i]);", "body *a", BODY, REVERSE, "effects"),
    "counter of a loop": (
        "for (a->k = 0; a->k < n; a->k++) b[i] += 1.0f;",
        "struct cell *a, float *b",
        CELL,
        REVERSE,
        "a `for` loop that does not count",
    ),
    "bound that changes": (
        "for (int j = 0; j < a->k; j++) a->k = 3;",
        "struct cell *a",
        CELL,
        {**REVERSE, "loop": "j"},
        "changes inside",
    ),
    "bound beside what changes": (
        "for (int j = 0; j < a->k; j++) b[j].k = 3;",
        "const struct cell *a, struct cell *b",
        CELL,
        {**REVERSE, "loop": "j"},
        "",
    ),
    "bound that is a fraction": (
        "for (int j = 0; j < a->x; j++) b[j] = 3;",
        "body *a, float *b",
        BODY,
        {**TILE, "loops": ["j"]},
        "whole number",
    ),
    "hoisted": ("a[i].x = b->x;", "body *a, const body *b", BODY, HOIST, ""),
    "hoisted, but written": ("a[i].x = b->x; b->y = i;", "body *a, body *b", BODY, HOIST, "changes"),
    "hoisted, but copied": (
        "a[i].x = b->x; *b = a[i];",
        "body *a, body *b",
        BODY,
        HOIST,
        "changes|plain place",
    ),
    "scaled subscript": ("a[2 * i].x = a[2 * i - 1].x;", "body *a", BODY, REVERSE, ""),
    "bound of a copy": (
        "struct cell h = a[i]; for (int j = 0; j < h.k; j++) b[j].k = 3;",
        "const struct cell *a, struct cell *b",
        CELL,
        {**REVERSE, "loop": "j"},
        "",
    ),
    "bound that a call may change": (
        "for (int j = 0; j < a->k; j++) g(j);",
        "struct cell *a",
        CELL,
        {**TILE, "loops": ["j"]},
        "call in loop j may change",
    ),
    "bound that a pointer may lead to": (
        "for (int j = 0; j < a->k; j++) { int *s = &a->k; *s -= 1; }",
        "struct cell *a",
        CELL,
        {"op": "unroll_copies", "loop": "j", "count": 2},
        "a pointer in loop j may",
    ),
    "bound beside a copy of its pointer": (
        "struct cell *p = a; for (int j = 0; j < a->k; j++) p->k -= 1;",
        "struct cell *a",
        CELL,
        {"op": "unroll_copies", "loop": "j", "count": 2},
        "a pointer in loop j may",
    ),
    "bound whose address is taken": (
        "int m = n; int *s = &m; for (int j = 0; j < m; j++) s[0] -= 1;",
        "struct cell *a",
        CELL,
        {"op": "unroll_copies", "loop": "j", "count": 2},
        "a pointer in loop j may",
    ),
    "bound behind a pointer": (
        "struct cell *p = a; for (int j = 0; j < p->k; j++) a->k -= 1;",
        "struct cell *a",
        CELL,
        {"op": "unroll_copies", "loop": "j", "count": 2},
        "points or refers to",
    ),
    "bound behind a pointer beside fractions": (
        "struct cell *p = a; for (int j = 0; j < p->k; j++) a[j].x -= 1;",
        "struct cell *a",
        CELL,
        {"op": "unroll_copies", "loop": "j", "count": 2},
        "",
    ),
    "subscript that is a member": (
        "a[p->k].x = i;",
        "body *a, const struct cell *p",
        BODY + CELL,
        REVERSE,
        "ties",
    ),
    "subscript by a member of each": (
        "a[p[i].k].x = i;",
        "body *a, const struct cell *p",
        BODY + CELL,
        REVERSE,
        "affine",
    ),
    "member in the place of arrays": (
        "a[i].x = 1.0f;",
        "body *a",
        BODY,
        {"op": "pack", "loop": "i", "array": "a"},
        "does not know members",
    ),
    "vectors of members": (
        "a[i].x = a[i].y;",
        "body *a",
        BODY,
        {"op": "stream_stores", "loop": "i", "parameters": [{"name": "L", "values": [4], "default": 4}]},
        "does not know members",
    ),
}


@pytest.mark.parametrize("name", LEGAL)
def test_edits_of_loops_over_structures(name: str) -> None:
    body, params, types, edit, reason = LEGAL[name]
    given = kernel(body, params, types)
    edits = [{**edit, "function": "f"}]
    if texts(given) != [n.text for n in subtrees(given.functions["f"].body) if isinstance(n, Opaque)]:
        edits.insert(0, MEMBERS)
    if not reason:
        assert apply_edits(given, edits).checked
        return
    with pytest.raises(EditRefused, match=reason):
        apply_edits(given, edits)


def test_pointers_to_elements_are_followed() -> None:
    given = kernel("struct cell *c = &a[i]; c->x += c->f[2]; c->k = 1;", "struct cell *a", CELL)
    made = apply_edits(given, [MEMBERS, {"op": "forward_pointer", "function": "f", "pointer": "c"}])
    assert "a[c_at].x += a[c_at].f[2];" in made.variant.files[0].text


def test_references_to_elements_become_pointers_that_are_followed() -> None:
    given = READ["reference to an element"]
    edits = [MEMBERS, *({"op": "forward_pointer", "function": "f", "pointer": name} for name in "hg")]
    made = apply_edits(given, edits[:1]).variant.files[0].text
    assert "body *h = &a[i];" in made
    assert "const body *g = &b[i];" in made
    assert "h->x += g->y;" in made
    assert "a[h_at].x += b[g_at].y;" in apply_edits(given, edits).variant.files[0].text


@pytest.mark.parametrize("loop", ["for (k = 0; k < n; k++) a[k].x = 1;", "a[i].x = sizeof(k);"])
def test_references_that_names_alone_do_not_show_stay(loop: str) -> None:
    given = kernel(f"int &k = m[i]; {loop}", "body *a, int *m", BODY, "c++")
    assert "int &k = m[i];" in apply_edits(given, [MEMBERS]).variant.files[0].text


def test_a_reference_of_which_each_thread_has_its_own_is_refused() -> None:
    loop = "#pragma omp parallel for private(k)\nfor (int j = 0; j < k; j++) a[j].x = k;"
    given = kernel(f"int &k = m[i]; {loop}", "body *a, int *m", BODY, "c++")
    with pytest.raises(EditRefused, match="k refers to what has another name"):
        apply_edits(given, [MEMBERS])


def test_members_are_read_where_a_source_is_opened() -> None:
    attempt = Attempt(program=READ["local"], edits=(), rng=np.random.default_rng(0), reassociate=False)
    found = opened(attempt, {})
    assert found is not None
    assert MEMBERS in found.edits


def test_a_structure_that_another_name_changes_is_copied_for_a_call() -> None:
    types = f"{BODY}static float g(body v, float *p) {{ *p = 2.0f; return v.x; }}\n"
    types = types.replace("*p = 2.0f", "p[0] = 2.0f")
    given = kernel("body h = a[i]; float *q = &h.x; out[i] = g(h, q);", "const body *a, float *out", types)
    made = apply_edits(given, [MEMBERS, {"op": "inline_call", "function": "f", "call": "g"}])
    assert "const body v = h;" in made.variant.files[0].text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("a[i].xy = a[i - 1].zw;", "a ties"),
        ("a[i].s0 = 1.0f; b[i].x = a[i - 1].x;", "a.x ties"),
        ("a[i].x = 1.0f; b[i] = a[i - 1].lo;", "a.x ties"),
        ("a[i].x = 1.0f; b[i].x = a[i - 1].y;", ""),
        ("a[i].xy += b[i].yx;", ""),
        ("p.lo = b[i]; b[i].x = p.z;", "ties"),
    ],
)
def test_several_components_are_the_whole_vector(body: str, reason: str) -> None:
    given = kernel(body, "__global float4 *a, __global float2 *b, float4 p", "", "opencl")
    edits = [MEMBERS, {**REVERSE, "function": "f"}]
    if not reason:
        assert apply_edits(given, edits).checked
        return
    with pytest.raises(EditRefused, match=reason):
        apply_edits(given, edits)


def test_members_of_elements_are_kept_in_variables() -> None:
    given = kernel(
        "for (int j = 0; j < n; j++) { a[i].x += b[j].y; a[i].y = b[j].x; }", "body *a, const body *b"
    )
    edit = {"op": "scalar_replace", "function": "f", "loop": "j", "array": "a", "member": "a[i].x"}
    assert edit | {"assumes": ["elements exist"]} in [
        {"op": "scalar_replace", "function": "f", **site}
        for site in OPERATORS["scalar_replace"].sites(
            apply_edits(given, [MEMBERS]).program.functions["f"], False
        )
    ]
    text = apply_edits(given, [MEMBERS, edit]).variant.files[0].text
    for line in (
        "float a_x_value = a[i].x;",
        "a_x_value += b[j].y;",
        "a[i].y = b[j].x;",
        "a[i].x = a_x_value;",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("a[i].x += a[j].x;", "uses a.j..x as well"),
        ("a[i].x += 1.0f; c[j] = a[i];", r"uses a.i. as well"),
        ("a[i].x += 1.0f; a[j] = c[j];", r"uses a.j. as well"),
        ("a[i].y += a[i].x;", "does not write a.i..x"),
        ("a[(int)a[i].x].x += 1.0f; a[i].x += 1.0f;", "as well|affine"),
        ("int k = j; a[k].x += 1.0f;", "affine"),
    ],
)
def test_members_stay_where_another_place_may_be_the_same(body: str, reason: str) -> None:
    given = kernel(f"for (int j = 0; j < n; j++) {{ {body} }}", "body *a, body *c")
    edit = {"op": "scalar_replace", "function": "f", "loop": "j", "array": "a", "member": "a[i].x"}
    with pytest.raises(EditRefused, match=reason):
        apply_edits(given, [MEMBERS, edit])


HELPERS = f"""{BODY}typedef struct {{ float x, y; }} vec;
static float apart(body a, const body *b)
{{
    float dx = b->x - a.x;
    return dx * dx + a.mass;
}}
static float most(const body *a, int i) {{ if (a[i].x > a[i].y) return a[i].x; return a[i].y; }}
static vec scaled(vec v, float s) {{ return (vec){{v.x * s, v.y * s}}; }}
"""


@pytest.mark.parametrize(
    ("body", "call", "op", "lines"),
    [
        (
            "out[i] = apart(a[i], &a[i - 1]);",
            "apart",
            "inline_call",
            ["const body a_2 = a[i];", "float result = dx * dx"],
        ),
        ("out[i] = most(a, i);", "most", "inline_call", ["a[i].x > a[i].y", "result = a[i].x;"]),
        (
            "vec v = {out[i], 2.0f}; vec w = scaled(v, 3.0f); out[i] = w.y;",
            "scaled",
            "inline_call",
            ["result.x = v.x * s;", "vec w = result;"],
        ),
    ],
)
def test_functions_that_take_structures_are_inlined(body: str, call: str, op: str, lines: list[str]) -> None:
    """Their members are read once those of the caller are."""
    given = kernel(body, "const body *a, float *out", HELPERS)
    inline = {"op": op, "function": "f", "call": call}
    with pytest.raises(EditRefused):
        apply_edits(given, [inline])
    made = apply_edits(given, [MEMBERS, inline])
    text = made.variant.files[0].text
    for line in lines:
        assert line in text
    assert not [n for n in subtrees(made.program.functions["f"].body) if isinstance(n, Opaque)]


def test_statement_expressions_keep_their_parentheses() -> None:
    """Without them a value in braces is no expression."""
    given = program(f"{BODY}void f(body *a, int n)\n{{\na[0].x = ({{ n++; n; }}) + a[1].x;\n}}\n")
    made = apply_edits(given, [MEMBERS]).variant.files[0].text
    assert "({ n++; n; }) + a[1].x" in made.replace("(({", "({").replace("}))", "})")


@pytest.mark.parametrize(
    "line", ["for (int j = 0; j < m; j++) z = 3;", "for (int j = 0; j < z; j++) m -= 1;"]
)
def test_bounds_that_a_reference_may_change_are_not_copied(line: str) -> None:
    """One has two names."""
    given = program(f"void f(float *a, int n)\n{{\nint m = n; int &z = m;\n{line}\na[0] = m;\n}}\n", "c++")
    with pytest.raises(EditRefused, match="may"):
        apply_edits(given, [{"op": "unroll_copies", "function": "f", "loop": "j", "count": 2}])


@pytest.mark.parametrize("use", ["g(z)", "g(&q.x)"])
def test_constants_that_choose_a_function_keep_their_lists(use: str) -> None:
    """In C++ another function may be meant by what is not constant."""
    body = f"const float z[2] = {{a[i].x, 1.0f}}; const point q = {{a[i].x, 2.0f}}; a[i].y = {use};"
    types = "typedef struct { float x, y; } point;\nfloat g(const float *p);\nfloat g(float *p);\n"
    given = kernel(body, "point *a", types, "c++")
    made = apply_edits(given, [MEMBERS]).variant.files[0].text
    kept = [line.strip() for line in made.splitlines() if line.strip().startswith("const ")]
    name = "q" if "q" in use else "z"
    wanted = {"q": "const point q = {a[i].x, 2.0f};", "z": "const float z[2] = {a[i].x, 1.0f};"}
    assert wanted[name] in kept


@pytest.mark.parametrize(
    "test",
    [
        "a[i] + e < n && k > (m)",
        "-e < n || k > (m)",
        "*p < n & k > (m)",
        "g(-e < n, k > (m))",
        "g(1, -e < n, k > (m))",
    ],
)
def test_comparisons_are_no_template(test: str) -> None:
    """``e < n && k > (m)`` looks like a call of one in C++, whose result would be added."""
    params = "int *a, int *p, int n, int e, int k, int m"
    line = f"for (int i = 0; i < n; i++) if ({test}) a[i] = 1;"
    given = program(f"void f({params})\n{{\n{line}\n}}\n", "c++")
    made = apply_edits(given, [{"op": "restrict", "function": "f"}])
    assert f"if ({test})" in made.variant.files[0].text


def test_references_stand_for_their_targets() -> None:
    """The loop writes what it reads by another name."""
    line = "for (int j = 0; j < 3; j++) for (int i = 0; i < n; i++) w[i] ^= k + j;"
    given = program(f"void f(int *w, int n)\n{{\nint &k = w[0];\n{line}\n}}\n", "c++")
    with pytest.raises(EditRefused, match="another name"):
        apply_edits(given, [{"op": "interchange", "function": "f", "loops": ["j", "i"]}])
