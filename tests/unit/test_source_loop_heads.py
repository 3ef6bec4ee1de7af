"""Loops as people write their heads: with commas, with ``!=``, and left for the next round by ``continue``."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from same_results import STRIPS, WRAPPING, edits_of, program_of, same, variants_of

from tuner.spaces.source.edits import EditRefused, apply_edits

OPEN = {
    "not equal": "for (int i = 0; i != n; i++) a[i] += b[i];",
    "not equal, declared before": "int i; for (i = 0; i != n; ++i) a[i] += b[i];",
    "not equal, in a type with a name": "whole i; for (i = 0; i != n; ++i) a[i] += b[i];",
    "two counters, and another loop": (
        "int i, j; for (i = 0, j = 0; i < n; i++, j++) { int t = b[j]; while (t > 9) t -= 9; a[i] += t; }"
    ),
    "two counters": "int i, j; for (i = 0, j = n - 1; i < n; i++, j--) a[i] += b[j];",
    "the other one first": "int i, j; for (j = 3, i = 0; i < n; j += 2, i++) a[i] += b[i] * j; a[0] += j;",
    "declared there": "for (int i = 0, j = n - 1; i < n; i++, j--) a[i] += b[j];",
    "with a next round": "for (int i = 0; i < n; i++) { if (b[i] % 3) continue; a[i] += b[i]; }",
    "with several": """for (int i = 0; i < n; i++) {
        a[i] = 1;
        if (b[i] % 2) { a[i] = 3; continue; }
        int t = b[i];
        a[i] += t;
        if (a[i] > 4) continue;
        a[i] *= 2;
    }""",
    "and what the head changes": (
        "int i, j; for (i = 0, j = 0; i < n; i++, j++) { if (b[i] % 2) continue; a[i] += b[j]; } a[0] += j;"
    ),
    "a while": "int i = 0; while (i < n) { a[i] += b[i]; i++; }",
    "a while that goes on": "int i; a[0] = 1; i = 2; while (i < n) { a[i] += b[i]; i += 1; } a[1] += n;",
    "commas": "for (int i = 0; i < n; i++) a[i] += b[i], a[i] *= 2;",
}
SUMS = {
    "a number added": "for (int i = 1; i + 1 < n; i++) a[i] += b[i - 1] + b[i + 1];",
    "taken away, the other way round": "int i; for (i = 2; n >= 3 + i; i++) a[i] += b[i - 2]; a[0] += i;",
    "a number added to a step": "for (int i = 0; i + 3 < n - 1; i += 4) a[i] += b[i + 3];",
    "downwards": "for (int i = n - 1; i - 1 >= 0; i--) a[i] += b[i - 1];",
    "below a number": "for (int i = 0; i + 4 <= 12; i++) a[i]++;",
    "below a global": "limit = n; for (int i = 0; i + 1 < limit; i++) a[i] += b[i + 1];",
    "in a while": "int i = 0; while (i + 1 < n) { a[i] += b[i + 1]; i++; }",
    "without sign and with a number": "size_t m = n; for (size_t i = 1; i + 1 < m; i++) a[i] += b[i + 1];",
    "a number alone": "for (unsigned i = 0; i + 4 < 12; i++) a[i] += b[i + 4];",
    "another begun beside": "int i, m; for (i = 0, m = n; i < m - 1; i++) a[i] += b[i + 1];",
    "without sign but less than a size": "size_t m = n; for (int i = 1; i + 2 <= m; i++) a[i] += b[i + 1];",
    "without sign, declared before": "size_t i, m = n; for (i = 4; i + 3 < m; i++) a[i] += b[i]; a[0] += i;",
    "without sign, from more than 0": "size_t m = n; for (size_t i = 3; i < m; i++) a[i] += b[i - 3];",
    "without sign, from another": "unsigned m = n, k = n % 4; for (unsigned i = k; i <= m; i++) a[i] += b[i];",
    "without sign, by steps": "unsigned m = n; for (unsigned i = 0; i + 2 < m; i += 2) a[i] += b[i + 2];",
}
TEXT = {
    "left early": "for (int i = 0; i != n; i++) { if (b[i] < 0) break; a[i] += b[i]; }",
    "without sign": "for (unsigned i = 0; i != (unsigned)n; i++) a[i] += b[i];",
    "without sign, declared before": "unsigned i; for (i = 0; i != (unsigned)n; i++) a[i] += b[i];",
    "without sign in a block": "{ unsigned i; for (i = 0; i != (unsigned)n; i++) a[i] += b[i]; }",
    "of several steps": "for (int i = 0; i != n; i += 2) a[i] += b[i];",
    "a beginning from another": "int i, j; for (i = 0, j = i + 1; i < n; i++, j++) a[i] += b[j];",
    "a beginning that changes": "int i, j = 2; for (i = j, j = 0; i < n; i++, j++) a[i] += b[j];",
    "a step from another": "int i, j; for (i = 0, j = 0; i < n; i++, j += i) a[i] += j;",
    "a pragma": "int i, j;\n#pragma omp simd\nfor (i = 0, j = 0; i < n; i++, j++) a[i] += b[j];",
    "a while that is left": "int i = 0; while (i < n) { if (b[i] % 2) break; a[i] += b[i]; i++; }",
    "a while with a next round": "int i = 0; while (i < n) { if (b[i++] % 2) continue; a[i - 1] += 3; i++; }",
    "a while from before": "int i = 0; a[0] = 2; while (i < n) { a[i] += b[i]; i++; }",
    "a while from the last call": "static int i = 0; while (i < n) { a[i] += b[i]; i++; }",
    "a while with several steps": "int i = 0; while (i < n) { i += b[i] % 2; a[i] += b[i]; i++; }",
    "a pragma over a guard": "size_t m = n;\n#pragma omp simd\nfor (size_t i = 0; i + 1 < m; i++) a[i] += b[i];",
    "a size with sign": "for (unsigned i = 0; i + 1 < n; i++) a[i] += b[i];",
    "a size that changes": "size_t m = n; for (size_t i = 0; i + 1 < m; i++) { a[i] += b[i]; if (b[i] % 7) m--; }",
    "below zero without sign": "for (unsigned i = n; i - 1 >= 1u; i--) a[i - 1] += b[i - 1];",
    "from below zero": "size_t m = n; for (int i = -1; i + 2 < m; i++) a[i + 1] += b[i + 1];",
    "a number of another kind": "for (int i = 0; i + 1 < n + 1.5; i++) a[i] += b[i];",
    "a call": "for (int i = 0; i < n; g(), i++) a[i] += b[i];",
}


def function(body: str) -> str:
    declared = "#include <stddef.h>\ntypedef int whole;\nwhole limit;\n"
    return f"{declared}void f(int n, int *a, const int *b)\n{{\n    {body}\n}}\n"


@needs.cc
@pytest.mark.parametrize("name", OPEN)
def test_they_are_open_to_operators_and_compute_the_same(name: str, tmp_path: Path) -> None:
    program = program_of(function(OPEN[name]), "f")
    made = apply_edits(program, [STRIPS])
    assert not same(program, "f", [made], tmp_path, trials=20, how=WRAPPING)


@needs.cc
@pytest.mark.parametrize("name", SUMS)
def test_a_number_may_be_added_to_the_counter(name: str, tmp_path: Path) -> None:
    program = program_of(function(SUMS[name]), "f")
    made = variants_of(program, 1, chains=2)
    assert "unroll" in {str(e["op"]) for one in made for e in one.variant.edits[:1]}
    assert not same(program, "f", made, tmp_path, trials=40, how=WRAPPING)


NEST = """void f(int rows, int *a, const int *b)
{
    size_t n = rows % 7, m = rows % 5;
    for (size_t i = 1; i + 1 < n; i++)
        for (size_t j = 1; j + 1 < m; j++)
            a[i * m + j] += b[i * m + j - 1] + b[(i - 1) * m + j + 1];
}
"""


@needs.cc
def test_loops_without_sign_in_one_another_are_one_nest(tmp_path: Path) -> None:
    program = program_of(f"#include <stddef.h>\n{NEST}", "f")
    made = variants_of(program, 1, chains=1)
    assert {"interchange", "tile", "unroll_and_jam"} <= {
        str(e["op"]) for one in made for e in one.variant.edits[:1]
    }
    assert not same(program, "f", made, tmp_path, trials=40, how=WRAPPING)


@needs.cc
def test_what_is_left_over_of_loops_without_sign(tmp_path: Path) -> None:
    """From more than 0, of sizes below that, too: vectors past the caches, and sums that take turns."""
    stored = "for (size_t i = 2; i < m; i++) { double s = 1; s += 2 * x[i]; y[i] = 0; y[i] = s; }"
    added = "double s = 0; for (size_t i = 3; i < m; i++) s += x[i]; y[0] = s;"
    head = "#include <stddef.h>\nvoid f(int n, double *restrict y, const double *restrict x)\n{\n    size_t m = n;\n"
    program = program_of(f"{head}    {stored}\n}}\n", "f")
    made = variants_of(program, 1, chains=0)
    assert "stream_stores" in {str(e["op"]) for one in made for e in one.variant.edits[:1]}
    assert not same(program, "f", made, tmp_path, trials=40)
    program = program_of(f"{head}    {added}\n}}\n", "f")
    turns = {"op": "several_sums", "function": "f", "loop": "i", "count": 4, "reassociate": True}
    assert not same(program, "f", [apply_edits(program, [turns])], tmp_path, trials=40)


def test_numbers_of_the_standard_library_are_those_of_c() -> None:
    """Rows of two lengths: a version of the loops asks for what has to hold, whatever the counters' type is called."""
    loops = (
        "for (std::size_t j = 1; j + 1 < m; j++)\n"
        "        for (std::size_t i = 1; i + 1 < n; i++)\n            b[i * k + j] = a[i * k + j];"
    )
    head = "void f(std::size_t n, std::size_t m, long k, const int *a, int *b)"
    text = f"#include <cstddef>\n{head}\n{{\n    {loops}\n}}\n"
    version = {"op": "assume_rows", "function": "f", "loop": "j", "through": "j"}
    swapped = {"op": "interchange", "function": "f", "loops": ["j", "i"]}
    made = apply_edits(program_of(text, "f", "c++"), [version, swapped])
    (file,) = made.variant.files
    assert file.text.index("std::size_t i") < file.text.index("std::size_t j")


@pytest.mark.parametrize("name", TEXT)
def test_loop_heads_with_another_meaning_stay_text(name: str) -> None:
    with pytest.raises(EditRefused, match="no loop 'i'"):
        apply_edits(program_of(function(TEXT[name]), "f"), [STRIPS])


def test_a_bound_that_a_function_may_take_by_reference_is_not_steady() -> None:
    """In C++ nothing at a call says that what is handed over may change."""
    loop = "for (int i = 0; i < n; i++) { a[i] = 1; shrink(n); }"
    text = f"void shrink(int &n) {{ n--; }}\nvoid f(float *a, int n) {{ {loop} }}\n"
    copies = {"op": "unroll_copies", "function": "f", "loop": "i", "count": 2}
    with pytest.raises(EditRefused, match="may change what a bound is made of"):
        apply_edits(program_of(text, "f", "c++"), [copies])


@pytest.mark.parametrize(
    "text",
    [
        "static int g = 9, *q = &g;\nvoid f(int n, double *a)\n{{\n    {loop}{{ q[0] -= 1; a[i] += 1; }}\n}}\n",
        "extern int g;\nvoid change(void);\nvoid f(int n, double *a)\n{{\n    {loop}{{ change(); a[i] += 1; }}\n}}\n",
    ],
)
def test_variables_of_the_file_that_a_loop_may_change_bound_no_loop(text: str) -> None:
    own = edits_of(program_of(text.format(loop="for (int i = 0; i < n; i++) "), "f"))
    assert edits_of(
        program_of(text.format(loop="for (int i = 0; i < g; i++) "), "f")
    ).keys() <= own.keys() - {
        "strip_mine",
        "unroll_copies",
    }


def test_a_bound_that_is_a_fraction_is_none() -> None:
    text = "double sqrt(double);\nvoid f(int n, double *a)\n{\n    for (int i = 0; i < sqrt(n); i++) a[i] += 1;\n}\n"
    assert edits_of(program_of(text, "f")).keys() <= {"unroll", "restrict"}
