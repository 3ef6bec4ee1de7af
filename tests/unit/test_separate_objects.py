"""Which parameters of a loop's function are restrict: those to objects that nothing else in the loop leads to."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import needs
import pytest
from made_aliases import MARK, made_program

from tuner.core.errors import UsageError
from tuner.core.types import Source
from tuner.spec.reading.outlining import outline
from tuner.spec.reading.signature import SourceReader

C = """\
#include <math.h>
#include <stdlib.h>
#include <string.h>
typedef double *vec, row[4];
extern double A[100], *held;
static double B[100];
void outside(double *);
static void keep(double *x) { held = x; }
static void fill(double *x, int n) { for (int i = 0; i < n; i++) x[i] = i; }
static double *table(int n) { double *made = malloc(n * 8); if (!made) exit(1); memset(made, 0, n * 8); return made; }
static double flux(double a, double b) { return a * b + B[0]; }
static double *same(double *x) { return x + 1; }
static double *of_all(int n) { held = malloc(n * 8); return held; }
static int deep(double *x, int n) { return n ? deep(x, n - 1) : x[0] > 0; }
"""
TWO = "double *x = malloc(n * 8), *y = malloc(n * 8);"
OF_C = [
    # What the compiler knows in the function: x and y are known to be separate, or one of them.
    (TWO, "x[i] = y[i] + A[i];", "x y"),
    ("double *x = table(n), *y = aligned_alloc(64, n * 64);", "x[i] = flux(y[i], sqrt(y[i + 1]));", "x y"),
    (
        "double *x, *y; x = calloc(n, 8); y = __builtin_assume_aligned(malloc(n * 8), 8);",
        "x[i] = y[i];",
        "x y",
    ),
    ("double *y = __builtin_alloca(n * 8), x[n]; x[0] = 0;", "x[i] = y[i];", "x y"),
    (TWO + " fill(x, n); outside(y);", "x[i] = y[i] + A[i];", "x y"),
    (TWO + " fill(x, n); outside(y);", "x[i] = y[i] + p[i];", "x"),
    (TWO + " keep(x);", "x[i] = y[i] + held[i];", "y"),
    (TWO + " keep(x);", "x[i] = y[i]; fill(A, n);", "x y"),
    (TWO + " fill(y, n);", "x[i] = y[i]; outside(x);", "y"),
    (TWO, "x[i] = y[i]; if (deep(y, 2)) x[i]++;", "x"),
    (TWO + " outside(y);", "x[i] = y[i]; n -= deep(x, 2);", ""),
    ("double *x = malloc(n * 8), *y = of_all(n);", "x[i] = y[i];", "x"),
    ("double x[100], y[4][n];", "x[i] = y[i & 3][i];", "x y"),
    ("double x[100], y[4][n]; outside(x);", "x[i] = y[i & 3][i] + held[i];", "y"),
    ("double x[100], y[4][n], *q = &y[1][2];", "x[i] = y[i & 3][i] + q[i];", "x"),
    ("static double x[100]; double y[9];", "x[i] = y[i];", "x y"),
    ("static double x[100]; double y[9];", "x[i] = y[i] + held[i];", "y"),
    ("static double *x; if (!x) x = malloc(n * 8); double *y = malloc(n * 8);", "x[i] = y[i];", "y"),
    ("row x = {1}; vec y = malloc(n * 8);", "y[i] = x[i & 3];", "x y"),
    ("const double x[3] = {1, 2}; const double *const y = malloc(n * 8);", "A[i] = x[0] + y[i];", "x y"),
    ("double (*x)[300] = malloc(99), (*const y)[n] = malloc(n * n * 8);", "x[i][1] = y[i][2];", "x y"),
    ("double **x = malloc(99), *y = malloc(9); x[0] = y;", "x[i][i] = y[i];", "x"),
    ("double *x[4] = {p}, *y = malloc(n * 8);", "x[i & 3][i] = y[i];", "x y"),
    # A pointer that is set more than once, copied or reached by its address.
    (TWO + " for (int t = 0; t < n; t++) { vec z = x; x = y; y = z; }", "x[i] = y[i];", ""),
    ("double *x = malloc(n * 8), *y = x + 5;", "x[i] = y[i];", ""),
    ("double *x = malloc(n * 8), *y = same(x);", "x[i] = y[i];", ""),
    (TWO + " double *z = x;", "x[i] = y[i]; if (z) z = y; z[i] = 1;", ""),
    (TWO + " double *z = malloc(9); memcpy(&z, &x, 8);", "x[i] = y[i] + z[i];", "y"),
    (TWO + " size_t z = (size_t)x;", "x[i] = y[i] + *(double *)(z + i);", "y"),
    (TWO + " double *z = ({ double *t = x; t; });", "x[i] = y[i] + z[i];", "y"),
    (TWO + " struct { double *m; } s = {x}; double *z = s.m;", "x[i] = y[i] + z[i];", "y"),
    (TWO + " double *s[2] = {x}, *z = s[n & 1];", "x[i] = y[i] + z[i];", "y"),
    ("double *y = malloc(9), *x = n > 3 ? malloc(9) : y;", "x[i] = y[i];", ""),
    ("double *y = malloc(9), *x = n > 3 ? malloc(9) : calloc(9, 1);", "x[i] = y[i];", "x y"),
    ("double *x = p, *y = malloc(9); if (n > 3) x = malloc(9);", "x[i] = y[i];", "y"),
    ("double b[9], *x = b, *y = malloc(9); if (n > 9) x = malloc(n);", "x[i] = y[i];", "x y"),
    ("double b[9], *x = b, *y = malloc(9); if (n > 9) x = malloc(n);", "x[i] = y[i] + b[0];", "y"),
    ("double *x = B, *y = malloc(9);", "x[i] = y[i];", "x y"),
    ("double *x = B, *y = malloc(9);", "x[i] = y[i] + B[0];", "y"),
    ("double *x = B, *y = malloc(9);", "x[i] = flux(y[i], 1);", "y"),
    (
        "vec x, y; posix_memalign((void **)&x, 64, n); posix_memalign((void **)&y, 64, n);",
        "x[i] = y[i];",
        "x y",
    ),
    (TWO + " again: ;", "x[i] = y[i]; if (x[0] > 4) { y = x; goto again; }", "y_at"),
    # The loop derives pointers, or moves them.
    (TWO, "double *q = same(x); q[i] = y[i];", "x y"),
    (TWO + " double *q;", "q = i & 1 ? x + i : y; q[0] = y[i];", "x y"),
    (TWO, "*x++ = *y++;", "x y"),
    # Parameters of the function.
    ("double *x = malloc(9);", "x[i] = p[i];", "x"),
    ("", "p[i] = r[i];", "r"),
    ("fill(r, n); outside(r);", "p[i] = r[i];", "r"),
    ("double *q = r + 5;", "q[i] = r[i];", ""),
    ("double *restrict x = p, *q = p + 1;", "q[i] = x[i];", ""),
    # Addresses of what the loop changes.
    ("double s = 0; int k = 2;", "s += p[i]; k++;", "s_at"),
    ("div_t s = {0}; double *x = malloc(9);", "s.rem += x[i];", "s_at x"),
    ("double s = 0; outside(&s);", "s += p[i];", ""),
    ("double s = 0; outside(&s);", "s += held[i];", ""),
]
OF_LIBRARY = "#include <algorithm>\n#include <cstdlib>\n#include <vector>\n"
OF_CLASSES = """\
extern double *held;
void outside(double *);
void by_reference(double *&);
struct kept { kept(); double v; static double all[9]; };
namespace lib { void fill(double *); }
using namespace lib;
namespace own { static void fill(double *x) { x[0] = 1; } }
"""
NEW = "double *x = new double[n], *y = new double[n]();"
OF_CPP = [
    (
        NEW + " std::vector<double> v(n); double *z = v.data();",
        "x[i] = std::max(y[i], x[i + 1]) + std::abs(y[i + 1]) + z[i];",
        "x y",
    ),
    ("auto *x = new double[n]; double y[4][5] = {}, z[3] = {};", "x[i] = y[i & 3][1] + z[1];", "x"),
    ("double *x = new double[n]; double *y = new (x) double[n];", "x[i] = y[i];", ""),
    (NEW + " double *&z = x; z = y;", "x[i] = y[i];", ""),
    (NEW + " by_reference(x);", "x[i] = y[i];", "y"),
    (NEW + " double &z = x[3];", "x[i] = y[i] + z;", "y"),
    (NEW, "double &z = x[i]; z = y[i];", "x y"),
    (NEW + " auto f = [&] { held = x; }; f();", "y[i] = x[i] + held[i];", "y"),
    ("kept *x = new kept[n]; double *y = new double[n];", "y[i] = x[i].v + held[i];", "y"),
    ("double *x, *y; y = (x = new double[n]);", "y[i] = x[i];", ""),
    ("double *x, *y = new double[n]; (x = y) += 1;", "y[i] = x[i];", ""),
    ("kept s; double *x = s.all; auto *y = new double[9];", "x[i] = y[i] + kept::all[i];", "y"),
    ("double *x = new double[n]; fill(x);", "x[i] = p[i];", ""),
    ("double *x = static_cast<double *>(std::malloc(n)); double y[3];", "x[i] = y[i];", "x"),
]


def reader_of(text: str, suffix: str) -> SourceReader:
    language = "c" if suffix == "c" else "c++"
    return SourceReader(files=(Source(name=f"k.{suffix}", text=text),), language=language)


def heads_of(suffix: str, loops: Sequence[tuple[str, str]]) -> list[str]:
    """The heads of the functions of loops with a body, behind statements: all in one file, which is read once."""
    text, word = (C, "restrict") if suffix == "c" else (OF_CLASSES, "__restrict")
    every = " ".join(before + body for before, body in loops)
    text = ("#include <new>\n" if "new (" in every else "") + text
    text = (OF_LIBRARY if "std::" in every else "") + text
    lines = []
    for number, (before, body) in enumerate(loops):
        # Headers have nothing of this name in theirs: clang prints all that does.
        text += f"double around_{number:02}(int n, double *p, double *{word} r) {{ {before}\n"
        lines.append(text.count("\n") + 1)
        text += f"for (int i = 0; i < n; i++) {{ {body} }}\n"
        text += f"return {'s' if 'double s =' in before else '0'}; }}\n"
    reader = reader_of(text, suffix)
    made = (outline(reader, f"around_{number:02}", line) for number, line in enumerate(lines))
    return [each.opening.split("\n")[0] for each in made]


def restricted(head: str) -> set[str]:
    """Names of the parameters that are restrict."""
    found = [each for each in head[head.index("(") :].split(", ") if "restrict" in each]
    return {re.findall(r"\w+", re.sub(r"\[[^]]*\]", "", each))[-1] for each in found}


@pytest.mark.parametrize(("suffix", "loops"), [("c", OF_C), ("cc", OF_CPP)])
@pytest.mark.integration
def test_parameters_that_compilers_know_to_be_separate_are_restrict(
    suffix: str, loops: list[tuple[str, str, str]]
) -> None:
    found = {}
    for headers in ("std::", "new (", ""):
        of_them = [loop for loop in loops if loop not in found and headers in loop[0] + loop[1]]
        found |= dict(zip(of_them, heads_of(suffix, [loop[:2] for loop in of_them]), strict=True))
    assert {loop: restricted(head) for loop, head in found.items()} == {
        loop: set(loop[2].split()) for loop in loops
    }


@pytest.mark.integration
def test_the_word_stands_where_it_belongs_to_the_parameter() -> None:
    heads = {
        ("c", "double x[4][n]"): "double x[__restrict__ 4][n]",
        ("c", "double *x[4][3]"): "double * x[__restrict__ 4][3]",
        ("c", "double (*const x)[n] = malloc(n)"): "double (*const __restrict__ x)[n]",
        ("c", "vec x = malloc(n)"): "double *__restrict__ x",
        ("c", "row x"): "double x[__restrict__ 4]",
        ("c", "double (*x[3])[n]"): "double (*x[__restrict__ 3])[n]",
        ("cc", "double x[4][3]"): "double x[4][3]",
        ("cc", "double *x[4]"): "double * x[4]",
        ("cc", "auto x = new double[n][5]"): "double (*__restrict__ x)[5]",
        ("cc", "double **const x = new double *[n]"): "double **const __restrict__ x",
    }
    found = {}
    for suffix in ("c", "cc"):
        of_it = [each for each in heads if each[0] == suffix]
        made = heads_of(suffix, [(f"{each[1]};", "p[i] += x[i & 3] != 0;") for each in of_it])
        found |= dict(zip(of_it, made, strict=True))
    assert {each: head for each, head in found.items() if heads[each] not in head} == {}


def test_dialects_without_the_keyword_have_the_word(tmp_path: Path) -> None:
    text = "void *malloc(unsigned long); double f(int n) { int i; double *x = malloc(n), y[4] = {0};\n"
    text += "for (i = 0; i < n; i++) x[i] = y[i & 3];\nreturn x[0]; }\n"
    made = outline(
        SourceReader(files=(Source(name="k.c", text=text),), language="c", flags=("-std=gnu89",)), "f", 2
    )
    assert restricted(made.opening.split("\n")[0]) == {"x", "y"}
    assert made.put_back(made.text) == text
    assert made.put_back(made.text.replace("= y[i & 3]", "= y[i & 1]")) == text.replace("i & 3", "i & 1")


@needs.cc
@pytest.mark.integration
@pytest.mark.parametrize(("language", "seed"), [("c", 1001), ("c++", 1002)])
def test_programs_that_reach_memory_in_many_ways_do_the_same(
    language: str, seed: int, tmp_path: Path
) -> None:
    """Their loops one after the other in functions of their own, built so that the promises are used."""
    given = text = made_program(seed, 6, language)
    suffix = "c" if language == "c" else "cc"
    heads = []
    for number in range(6):
        lines = text.splitlines()
        line = next(i for i, each in enumerate(lines, 1) if each.endswith(MARK.format(number)))
        try:
            made = outline(reader_of(text, suffix), f"f{number}", line)
        except UsageError:
            continue
        text = made.text
        heads.append(made.opening.split("\n")[0])
    assert len(heads) > 3
    assert sum(bool(restricted(re.sub(r"\w+_at\b", "", head))) for head in heads) > 2
    wanted = said(given, tmp_path, suffix, "-O1")
    assert said(text, tmp_path, suffix, "-O3", "-fno-inline") == wanted


def said(text: str, folder: Path, suffix: str, *flags: str) -> bytes:
    """What a program prints."""
    (folder / f"k.{suffix}").write_text(text)
    usual, named = ("cc", "gcc") if suffix == "c" else ("c++", "g++")
    command = [named if shutil.which(named) else usual, *flags, "-w", f"k.{suffix}", "-o", "k"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run([folder / "k"], capture_output=True, check=True).stdout
