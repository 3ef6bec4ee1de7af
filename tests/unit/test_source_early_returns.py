"""Functions that return early, and calls in conditions, casts and heads of loops: what is made, what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import needs
import pytest
from same_results import program_of

from tuner.core.types import Kernel, Source, Variant
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.regions import read_program

CALL = {"op": "inline_call", "function": "f", "call": "g"}


def inlined(helpers: str, lines: str, *, language: str = "c", times: int = 1) -> Applied:
    """Calls of ``g`` in a function of two arrays."""
    text = f"{helpers}\nvoid f(float *x, float *y, int n)\n{{\n    {lines}\n}}\n"
    variant = Variant(files=(Source(name="f.c", text=text),))
    kernel = Kernel(name="f", entry="f", language=language, variant=variant, folder=".")
    return apply_edits(read_program(kernel), [CALL] * times)


def body(made: Applied) -> str:
    """What the function consists of, on one line."""
    text = made.variant.files[0].text
    return " ".join(text[text.index("void f(") :].split()).split("{", 1)[1].rsplit("}", 1)[0].strip()


@pytest.mark.parametrize(
    ("helper", "call", "found"),
    [
        (
            "int g(int v, int high) { if (v < 0) return 0; if (v > high) { return high; } return v; }",
            "y[0] = x[g(n, 9)];",
            "const int g_value = n < 0 ? 0 : n > 9 ? 9 : n; y[0] = x[g_value];",
        ),
        (
            "float g(float a, int b) { if (a > 1.0f) return b; else return -a; }",
            "float v = g(y[0], n);",
            "const float a = y[0]; float v = a > 1.0f ? (float)n : -a;",
        ),
        (
            "float g(float a, int b) { if (b) return 0.0f; if (b > 2) return 1e3; return a; }",
            "float v = g(y[0], n);",
            "const float a = y[0]; float v = n ? 0.0f : n > 2 ? (float)1e3 : a;",
        ),
        (
            "float g(long a, float b) { if (b > 1.0f) return a; return 0.1; }",
            "float v = g(n, y[0]);",
            "const long a = n; const float b = y[0]; float v = b > 1.0f ? (float)a : (float)0.1;",
        ),
        (
            "float g(const float *p, int i) { float s = p[0]; if (i < 0) return s; s *= p[i]; return s; }",
            "y[0] = g(x, n);",
            "float s = x[0]; float g_result; if (n < 0) { g_result = s; } else { s *= x[n]; g_result = s; } "
            "y[0] = g_result;",
        ),
        (
            "void g(float *p, int i) { if (i < 0) return; p[i] = 1.0f; }",
            "g(x, n);",
            "if (!(n < 0)) { x[n] = 1.0f; }",
        ),
        (
            "int g(int a) { return a > 2; }",
            "if (g(n)) { y[0] = 1.0f; } else if (n > 5) { y[1] = 2.0f; }",
            "const int g_value = n > 2; if (g_value) { y[0] = 1.0f; } else if (n > 5) { y[1] = 2.0f; }",
        ),
        (
            "int g(int a) { return a / 2; }",
            "for (int i = g(n); i < n; i++) y[i] = 1.0f;",
            "for (int i = n / 2; i < n; i++) { y[i] = 1.0f; }",
        ),
        (
            "int g(int a) { return a / 2; }",
            "for (int i = 0; i < g(n); i++) y[i] = 1.0f;",
            "for (int i = 0; i < n / 2; i++) { y[i] = 1.0f; }",
        ),
        (
            "float g(const float *p) { return p[1]; }",
            "y[0] = (float)(2.0 * (double)g(x));",
            "y[0] = (float)(2.0 * (double)x[1]);",
        ),
        (
            "short g(int a, short b) { return a + b; }",
            "y[0] = g(n + 1, n * 2);",
            "const short b = n * 2; const short g_value = n + 1 + b; y[0] = g_value;",
        ),
        (
            "int g(int a) { a += 1; return a; }",
            "y[0] = g(n + 1) * g(n);",
            "int a = n + 1; a += 1; y[0] = a * g(n);",
        ),
        (
            "int g(int a, int b) { return a + a * b; }",
            "int *p = &n; y[0] = g(n, 3 * (n + 1) - 2);",
            "int *p = &n; const int a = n; const int b = 3 * (n + 1) - 2; y[0] = a + a * b;",
        ),
    ],
)
def test_replacements_of_calls(helper: str, call: str, found: str) -> None:
    made = inlined(helper, call)
    assert body(made) == found
    assert made.checked


@pytest.mark.parametrize(
    ("helper", "call", "reason"),
    [
        (
            "int g(int a) { for (int i = 0; i < a; i++) if (i > 3) return i; return 0; }",
            "y[0] = g(n);",
            "from within a loop",
        ),
        ("int g(int a) { if (a) { if (a > 2) return 1; a = 3; } return a; }", "y[0] = g(n);", "some ways"),
        ("int g(int a) { if (a) return 1; }", "y[0] = g(n);", "without a value"),
        ("int g(int a) { if (a) return; return 1; }", "y[0] = g(n);", "with a value and without"),
        ("int g(int a) { if (a) return a++; return 1; }", "y[0] = g(n);", "a step within"),
        ("int g(int a) { static int b; if (a) return b; return 1; }", "y[0] = g(n);", "keeps values"),
        ("int g(int a) { while (a) { return 2; } return 1; }", "y[0] = g(n);", "a `while` loop"),
        ("int g(const int a) { return a / 2; }", "if (n > 1 && g(n)) y[0] = 1.0f;", "in any case"),
        (
            "int g(const float *p) { return p[0]; }",
            "for (int i = 0; i < g(x); i++) x[i] = 1.0f;",
            "in any case",
        ),
        ("int g(int a) { return a / 2; }", "for (int i = 0; i < g(i + 1); i++) y[i] = 1.0f;", "in any case"),
        ("int g(int a) { return a / 2; }", "for (int i = 0; i < g(n); i++) n -= 1;", "in any case"),
        (
            "int g(int a) { return a / 2; }",
            "int *p = &n; for (int i = 0; i < g(n); i++) p[0] -= 1;",
            "in any case",
        ),
        (
            "extern int m; int g(int a) { return a / 2; }",
            "for (int i = 0; i < g(m); i++) y[i] = 1.0f;",
            "in any case",
        ),
        (
            "extern int m; int g(int a) { return a / m; }",
            "for (int i = 0; i < g(n); i++) y[i] = 1.0f;",
            "in any case",
        ),
        (
            "int h(void); int g(int a) { return a / h(); }",
            "for (int i = 0; i < g(n); i++) y[i] = 1.0f;",
            "in any case",
        ),
        ("int g(int a) { return a / 2; }", "for (int i = 0; i < 9; i += g(n)) y[i] = 1.0f;", "in any case"),
        ("int g(float *p) { p[0] = 1.0f; return 2; }", "if (x[0] > g(x)) y[0] = 1.0f;", "among other things"),
        (
            "float h(float *p); float g(float *p) { return p[0]; }",
            "if (h(x) > g(x)) y[0] = 1.0f;",
            "may change",
        ),
        ("int h(int *p); int g(int a) { return a + 1; }", "if (h(&n) > g(n)) y[0] = 1.0f;", "may change"),
        (
            "float g(float *p) { return p[0]; }\n#define g(p) (2.0f * (g)(p))",
            "y[0] = g(x);",
            "the function names g, a macro",
        ),
        ("float g(float *p) { return p[0]; }", "\n#pragma omp critical\ny[0] += g(x);", "in any case"),
        ("float g(float a) { return a * 2.0f; }", "float v = g(v); y[0] = v;", "in any case"),
        ("float g(float *p) { *p = 1.0f; return 2; }", "y[0] = x[0] + g(x);", "among other things"),
    ],
)
def test_calls_that_stay(helper: str, call: str, reason: str) -> None:
    with pytest.raises(EditRefused, match=reason):
        inlined(helper, call)


def test_references_of_cpp_may_change_a_limit() -> None:
    helper, call = "int g(int a) { return a / 2; } void h(int &);", "for (int i = 0; i < g(n); i++) h(n);"
    with pytest.raises(EditRefused, match="in any case"):
        inlined(helper, call, language="c++")
    assert inlined(helper.replace("&", ""), call, language="c").checked


@pytest.mark.parametrize(
    ("helper", "call", "found"),
    [
        (
            "void h(int &); int g(int v) { h(v); return v; }",
            "y[0] = g(n) + n;",
            "int v = n; h(v); y[0] = v + n;",
        ),
        (
            "void h(int &); void h(int &&); int g(int v) { return v; }",
            "h(g(n));",
            "const int g_value = n; h(g_value);",
        ),
        (
            "int h(int v) { return v; } int g(int v) { return h(v); }",
            "y[0] = g(n);",
            "const int g_value = h(n); y[0] = g_value;",
        ),
    ],
)
def test_references_of_cpp_see_values_and_no_variables(helper: str, call: str, found: str) -> None:
    """A function that takes its argument by reference would change the caller's variable in the place of a value."""
    assert body(inlined(helper, call, language="c++")) == found


HELPERS = """
static float g(const float *p, int i, double w)
{
    float s = p[i & 7];
    if (s > 2.0f)
        return w;
    else if (i < 3) {
        float t = s * p[1] + 0.3f;
        return t;
    }
    s = s * 1.7f + p[2];
    if (s < 0.5f)
        return i;
    return s * w;
}
static int h(int v, int low, long high)
{
    if (v < low)
        return low;
    if (v > high)
        return high;
    return v;
}
static int odd(unsigned v) { return v % 3; }
static void put(float *p, int i, float v)
{
    if (i < 0)
        return;
    float s = p[i];
    if (v > 3.0f) {
        p[i] = s * v;
        return;
    }
    p[i] = s - v * 0.1f;
}
void f(float *x, float *y, int n)
{
    for (int i = 0; i < h(n, 0, 20); i++) {
        float s = (float)(0.5 * g(x, i, 1.1)) + y[h(i + 2, 1, n)];
        if (odd(i - n) > 1)
            s += x[h(i - 3, 0, 5)] * s;
        put(y, i - 1, s);
        y[h(i, 2, 30)] -= g(x, i, x[i]) * s + x[i];
    }
}
"""
MAIN = """#include <stdio.h>
#include <string.h>
void f(float *x, float *y, int n);
int main(void)
{
    for (int n = -2; n < 30; n++) {
        float x[32], y[32];
        for (int i = 0; i < 32; i++) { x[i] = (i * 37 % 29) / 7.0f - 1.0f; y[i] = i / 3.0f; }
        f(x, y, n);
        for (int i = 0; i < 32; i++) { unsigned bits; memcpy(&bits, y + i, 4); printf("%x ", bits); }
    }
    return 0;
}
"""


@needs.cc
def test_every_bit_stays(tmp_path: Path) -> None:
    """Of a kernel that calls in all these places, with the contraction of products that clang does by itself."""
    names = ("g", "h", "odd", "put")
    program = program_of(HELPERS, "f")
    edits = [{"op": "inline_call", "function": "f", "call": n} for n in names]
    edits += [edits[0], edits[1], edits[1], edits[1]]
    made = apply_edits(program, edits)
    text = made.variant.files[0].text
    kernel = text[text.index("void f(") :]
    assert not any(f" {n}(" in kernel or f"[{n}(" in kernel for n in names)
    found = []
    (tmp_path / "main.c").write_text(MAIN)
    for source in (HELPERS, text):
        (tmp_path / "f.c").write_text(source)
        clang = [str(find_toolchain().clang), "-O2", "-march=native", "-w", "f.c", "main.c", "-o", "run"]
        subprocess.run(clang, cwd=tmp_path, check=True, timeout=120)
        found.append(subprocess.run([tmp_path / "run"], capture_output=True, check=True, timeout=60).stdout)
    assert found[0] == found[1]
