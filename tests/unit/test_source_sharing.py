"""Loops that no threads may share, whatever subscripts say: for what their names mean, and how their sums add up."""

from __future__ import annotations

import pytest
from preprocessed_kernels import preprocessed

from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.edits import Refused, apply_edit
from tuner.spaces.source.regions import read_program

ARGUMENTS = (
    "const float *__restrict a, float *__restrict c, int *__restrict h, const int *__restrict x, int n"
)
TOTAL = "for (int i = 0; i < n; i++) s += {}; c[0] = s;"


def shared(
    body: str, *, above: str = "", language: str = "c", headers: tuple[Source, ...] = (), seen: bool = False
) -> str:
    name = "f.c" if language == "c" else "f.cpp"
    text = f"{above}\nvoid f({ARGUMENTS})\n{{\n{body}\n}}\n"
    kernel = Kernel(
        name="f",
        entry="f",
        language=language,
        variant=Variant(files=(Source(name=name, text=text),)),
        folder=".",
        openmp=True,
        headers=headers,
    )
    edit = {"op": "parallelise", "function": "f", "loop": "i", "schedule": "static", "reassociate": True}
    program = read_program(kernel)
    if seen:
        kernel = preprocessed(kernel)
        program = read_program(kernel).with_preprocessed(kernel.preprocessed[0])
    return apply_edit(program, edit).sources()[0].text


SCALED = "s = a[0]; for (int i = 0; i < n; i++) c[i] = a[i] * s;"


@pytest.mark.parametrize(
    "above",
    [
        "static float s;\n#pragma omp threadprivate(s)",
        "static __thread float s;",
        "static _Thread_local float s;",
        "static volatile float s;",
    ],
)
def test_variables_that_each_thread_has_its_own_of_are_no_others_to_read(above: str) -> None:
    with pytest.raises(Refused, match="s is not one steady variable"):
        shared(SCALED, above=above)


def test_also_behind_macros() -> None:
    above = "#define OWN _Thread_local\nstatic OWN float s;"
    with pytest.raises(Refused, match="what loop i uses is not known behind #define OWN _Thread_local"):
        shared(SCALED, above=above)
    with pytest.raises(Refused, match="s is not one steady variable"):
        shared(SCALED, above=above, seen=True)
    asked = "#define PRAGMA(text) _Pragma(#text)\nstatic float s;\nPRAGMA(omp threadprivate(s))"
    with pytest.raises(Refused, match="the function names PRAGMA, a macro"):
        shared(SCALED, above=asked)


def test_also_of_the_function_of_a_header_and_of_the_library() -> None:
    with pytest.raises(Refused, match="s is not one steady variable"):
        shared(f"static _Thread_local float s; {SCALED}")
    header = Source(name="own.h", text="extern _Thread_local float s;\n")
    with pytest.raises(Refused, match="s is not one steady variable"):
        shared(SCALED, above='#include "own.h"', headers=(header,), seen=True)
    with pytest.raises(Refused, match="errno is not one steady variable"):
        shared("for (int i = 0; i < n; i++) { c[i] = sqrtf(a[i]); if (errno) h[i] = 1; }")
    assert "#pragma omp parallel for" in shared(SCALED, above="static float s;")


def test_a_declaration_that_makes_no_variable_is_none_of_each_iteration() -> None:
    with pytest.raises(Refused, match="all have the one s"):
        shared("for (int i = 0; i < n; i++) { extern float s; s = a[i]; c[i] = s; }", above="float s;")


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("int s = 0;", "a[i]"),
        ("short s = 0;", "a[i] * 0.5f"),
        ("_Bool s = 0;", "x[i]"),
        ("const float *s = a;", "x[i]"),
        ("some s = 0;", "a[i]"),
    ],
)
def test_parts_that_do_not_add_up_to_the_sum_are_no_reduction(declared: str, value: str) -> None:
    with pytest.raises(Refused, match="do not add up to it"):
        shared(f"{declared} {TOTAL.format(value)}")


@pytest.mark.parametrize(
    ("declared", "value"),
    [("float s = 0;", "a[i]"), ("real s = 0;", "a[i]"), ("unsigned char s = 0;", "x[i]"), ("long s = 0;", "x[i]")],
)  # fmt: skip
def test_others_are(declared: str, value: str) -> None:
    text = shared(f"{declared} {TOTAL.format(value)}", above="typedef double real;")
    assert "reduction(+ : s)" in text


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < n; i++) { W w; c[i] = a[i]; }",
        "for (int i = 0; i < n; i++) c[i] = (W)a[i] + 1;",
        "W w; for (int i = 0; i < n; i++) w += a[i];",
        "for (int i = 0; i < n; i++) c[i] = all + a[i];",
    ],
)
def test_class_operators_are_unknown(body: str) -> None:
    above = (
        "static int made;\nstruct W { W(float = 0) { made++; } void operator+=(float); operator float(); };\n"
        "static W all;"
    )
    with pytest.raises(Refused, match="values of W, whose operations may be functions"):
        shared(body, above=above, language="c++")


def test_numbers_of_cpp_are_plain() -> None:
    text = shared(
        "for (int i = 0; i < n; i++) { const auto v = a[i]; real w = (real)x[i]; c[i] = v * w; }",
        above="using real = float;",
        language="c++",
    )
    assert "#pragma omp parallel for schedule(static)" in text
