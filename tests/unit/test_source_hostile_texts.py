"""Texts that mean something else than they seem to: what is configured or called stays what the compiler sees."""

from __future__ import annotations

import pytest
from preprocessed_kernels import CONFIGURED, preprocessed, preprocessed_or_why

from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.regions import read_program

CALL = {"op": "inline_call", "function": "f", "call": "g"}
G = "static float g(float a) { return a * 2.0f; }\n"


def kernel_of(before: str, lines: str, language: str = "c", **headers: str) -> Kernel:
    """A function of three arrays; headers lie beside it."""
    text = f"{before}\nvoid f(float *x, float *y, int *z, int n)\n{{\n    {lines}\n}}\n"
    beside = [Source(name=f"{name}.h", text=t) for name, t in headers.items()]
    variant = Variant(files=(Source(name="f.c", text=text), *beside))
    return Kernel(name="f", entry="f", language=language, variant=variant, folder=".")


def made(before: str, lines: str, *edits: dict[str, object], language: str = "c", **headers: str) -> Applied:
    """Edits of the function; one that is configured is preprocessed."""
    kernel = kernel_of(before, lines, language, **headers)
    values = edits[0].get("values") if edits else None
    if isinstance(values, dict):
        kernel = preprocessed(kernel, {name: [value] for name, value in values.items()})
    return apply_edits(read_program(kernel), edits)


def body(found: Applied) -> str:
    """What the function consists of, on one line."""
    text = found.variant.files[0].text
    return " ".join(text[text.index("void f(") :].split()).split("{", 1)[1].rsplit("}", 1)[0].strip()


def refused(
    reason: str, before: str, lines: str, *edits: dict[str, object], language: str = "c", **headers: str
) -> None:
    with pytest.raises(EditRefused, match=reason):
        made(before, lines, *edits, language=language, **headers)


def test_a_guard_that_is_defined_already_keeps_its_header_out() -> None:
    header = "#ifndef H\n#define H\n#define V(p, i) (p[i] * 2.0f)\n#endif\n"
    before = '#define H\n#include "h.h"\n#ifndef V\n#define V(p, i) p[i]\n#endif\n'
    assert body(made(before, "y[0] = V(x, n);", CONFIGURED, h=header)) == "y[0] = x[n];"
    assert body(made(before[10:], "y[0] = V(x, n);", CONFIGURED, h=header)) == "y[0] = (x[n] * 2.0f);"


@pytest.mark.parametrize(
    ("condition", "number"),
    [
        ("A - 5 > 0u", 1),
        ("(A << 62) > 0", 2),
        ("0xffffffffffffffff < A", 2),
        ("A * 0x7fffffffffffffff > 0", 2),
    ],
)
def test_conditions_in_numbers_without_a_sign(condition: str, number: int) -> None:
    """There ``2 - 5`` is more than 0."""
    lines = f"\n#if {condition}\n    y[0] = 1;\n#else\n    y[0] = 2;\n#endif\n"
    found = made("#define B 1", lines, {"op": "configure", "values": {"A": 2}})
    assert body(found) == f"y[0] = {number};"


def test_branches_that_ask_for_a_name() -> None:
    """``#elifdef`` of C23, which compilers take in every C."""
    lines = "\n#ifndef B\n    y[0] = 1;\n#elifdef C\n    y[0] = 2;\n#else\n    y[0] = 3;\n#endif\n"
    assert body(made("#define B 1\n#define C 1", lines, CONFIGURED)) == "y[0] = 2;"
    assert body(made("#define A 1\n#define C 1", lines.replace("ndef B", "def B"), CONFIGURED)) == "y[0] = 2;"


@pytest.mark.parametrize("macro", ["a (a + 1)", "a b\n#define b a", "a(i) (a(i) + 1)"])
def test_a_macro_about_itself_is_not_replaced(macro: str) -> None:
    """What is left of it would be replaced again."""
    use = "y[0] = a(n);" if "(i)" in macro else "y[0] = a;"
    kernel, unseen = preprocessed_or_why(kernel_of(f"static int a;\n#define {macro}", use))
    assert "would be" in unseen or body(apply_edits(read_program(kernel), [CONFIGURED])) == "y[0] = a;"


def test_a_pointer_whose_type_has_another_name_is_one() -> None:
    """It may point into any array."""
    before = "typedef float *pointer;"
    loops = "for (int i = 0; i < n; i++) for (int j = 0; j < 3; j++) p[i] = y[i + j];"
    edit = {"op": "interchange", "function": "f", "loops": ["i", "j"]}
    refused("type that is not known", before, f"pointer p = y + 1; {loops}", edit)
    inner = loops.replace("p[i]", "{ pointer p = y + 1; p[i]").replace("j];", "j]; }")
    refused("type that is not known", before, inner, edit)


OWN = "static float g(float a) {{ return a * K; }}\n"
USE = "y[0] = g(x[n]);"


@pytest.mark.parametrize(
    ("before", "lines", "reason"),
    [
        (f"#define K 2\n{OWN}#undef K\n#define K 3\n", USE, "no other function"),
        (f"#define K 2\n{OWN}#include <r.h>\n", USE, "no other function"),
        (f"#pragma STDC FP_CONTRACT OFF\n{G}#pragma STDC FP_CONTRACT ON\n", USE, "no other function"),
        (f"typedef float T;\n{G.replace('float', 'T')}", f"typedef int T; {USE}", "T means something else"),
        (
            "static int m; static void h(void) { m += 1; }\nstatic float g(float a) { h(); return a; }\n",
            "y[0] = m + g(x[0]);",
            "among other things",
        ),
        (
            "static int k;\nstatic int g(int a) { int r = k; int k = a; return r + k; }\n",
            "y[0] = g(n) + k;",
            "k means two things",
        ),
        (
            "static int k;\nstatic int g(int a) { int r = 1; if (a > 3) { int k = a; r = k; } return r + k; }\n",
            "y[0] = g(n);",
            "k means two things",
        ),
        (G, "assert(g(x[n]));", "in any case"),
        (f"#define LAZY(c, ...) ((c) ? (__VA_ARGS__) : 0)\n{G}", "y[0] = LAZY(n, g(x[n]));", "names LAZY"),
    ],
)
def test_functions_that_stay_where_they_are(before: str, lines: str, reason: str) -> None:
    refused(reason, before.replace("{{", "{").replace("}}", "}"), lines, CALL)


@pytest.mark.parametrize(
    ("before", "lines", "reason"),
    [
        (f"{G}float g(double a);\n", "y[0] = g(1.5 * n);", "declared more than once"),
        (f"#include <o.h>\n{G}", "y[0] = g(1.5 * n);", "no other function"),
        (f"#include <cmath>\n#include <math.h>\nstatic float g(float a);\n{G}", "y[0] = g(x[0]);", ""),
        ("static auto g(float a) { if (a > 1) return a * 2; return a; }\n", USE, "not known"),
        ("static int g(int *p) { p[0] += 5; return p[0]; }\n", "static int v = g(z);", "in any case"),
        ("static constexpr int g(int a) { return a + 1; }\n", "constexpr float v = g(3);", "in any case"),
    ],
)
def test_functions_of_cpp(before: str, lines: str, reason: str) -> None:
    if reason:
        refused(reason, before, lines, CALL, language="c++")
    else:
        assert "g(" not in body(made(before, lines, CALL, language="c++"))


@pytest.mark.parametrize(
    ("lines", "language"),
    [
        ("int k = 3; auto h = [&]() { k += 2; return k; }; y[0] = g(k, z);", "c++"),
        ("int k = 3; int &r = k; y[0] = g(k, &r);", "c++"),
        ("int k = 3; int *q = &k;\n// EVOLVE-BLOCK-START\ny[0] = g(k, q);\n// EVOLVE-BLOCK-END\n", "c"),
    ],
)
def test_a_variable_that_something_else_stands_for_is_handed_over_by_value(lines: str, language: str) -> None:
    """As the parameter was: what the function stores may change the variable."""
    before = "static int g(int a, int *q) { q[0] = 7 + a; return a; }\n"
    assert "const int a = k;" in body(made(before, lines, CALL, language=language))


def test_a_number_that_is_no_int_is_converted() -> None:
    found = made("static int g(int a) { return a / 2; }", "y[0] = g(3000000000);", CALL)
    assert "const int a = 3000000000;" in body(found)


@pytest.mark.parametrize(
    "lines",
    [
        "int N = n; for (int i = 0; i < g(N); i++) { y[i] = 1; N -= 1; }",
        "int k = 3; for (int i = (k = 5); i < g(k); i++) y[i] = 2;",
    ],
)
def test_a_limit_that_does_not_stay(lines: str) -> None:
    refused("in any case", "static int g(int a) { return a / 2; }", lines, CALL)


def test_new_names_are_neither_types_nor_macros() -> None:
    """``real`` is a type in ``f``, and ``t_2`` a macro: a word of the file as it was given."""
    before = "typedef float real;\n#define t_2 (n + 1)\n"
    before += "static int g(int a) { int real = a; int t = 1; return real * t; }\n"
    found = body(made(before, "real t = x[0]; y[0] = g(n) + t;", CONFIGURED, CALL))
    assert "int real_2 = n;" in found
    assert "int t_3 = 1;" in found


def test_a_local_type_keeps_its_semicolon() -> None:
    before, lines = "static int g(int a) { return a * 2; }\n", "enum { K = 3 }; y[0] = g(n) * K;"
    assert body(made(before, lines, CALL)).startswith("enum { K = 3 };")


def test_a_variable_of_each_iteration_that_counts_a_loop() -> None:
    """Its copies cannot all be the counter of the one loop that iterations share."""
    lines = "for (int i = 0; i < n; i++) { int a = i; float s = 0; for (a = 0; a < 5; a++) s += x[a]; y[i] = s + a; }"
    sizes = [{"name": "JAM_I", "values": [1, 2], "default": 2}]
    refused(
        "counts loops and is",
        "",
        lines,
        {"op": "unroll_and_jam", "function": "f", "loops": ["i"], "parameters": sizes},
    )


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        # K is defined in a header, and could be a type as well: the grammar takes either.
        ("y[0] = n - ((K) - (n) * 2);", ("y[0] = n - ((K) - (n) * 2);", "y[0] = n - (K - n * 2);")),
        ("y[0] = (n && z[1]) - ((K) - (n) * 0.25f);", ("- ((K) - (n) * 0.25f);", "- (K - n * 0.25f);")),
        ("y[0] = n - ((x[1]) - (n) * 2);", ("y[0] = n - (x[1] - n * 2);",)),
        ("y[0] = n - ((h(n)) - (n) * 0.25f);", ("- (h(n) - n * 0.25f);",)),
        ("y[0] = (x[0] > y[1]) < (n < 3);", ("y[0] = (x[0] > y[1]) < (n < 3);",)),
    ],
)
@pytest.mark.parametrize("after", [True, False])
def test_printed_operators_bind_alike(lines: str, found: tuple[str, ...], after: bool) -> None:
    other = "z[0] = g(n);"
    text = f"{lines} {other}" if after else f"{other} {lines}"
    printed = body(made("static int g(int a) { return a; }", text, CALL))
    assert any(f in printed for f in found)


def test_a_header_that_takes_a_tunable_back() -> None:
    """It is asked for no value."""
    kernel = kernel_of('#include "h.h"', "\n#if N > 6\ny[0] = 1;\n#endif\n", h="#undef N\n#define N 5\n")
    program = read_program(preprocessed(kernel, {"N": [4, 7]}))
    assert body(apply_edits(program, [CONFIGURED])) == ""
