"""Variables that hide others, and those that OpenMP makes private: under names and in places of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import needs
import pytest
from same_results import program_of, same

from tuner.spaces.source.edits import Edit, EditRefused, Refused, apply_edit, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program

RENAME: Edit = {"op": "rename_hidden", "function": "f"}
DECLARE: Edit = {"op": "declare_privates", "function": "f"}


def program(body: str, params: str = "double *a, double *c, int n, int m") -> Program:
    return program_of(f"void f({params})\n{{\n{body}\n}}\n", "f")


def threaded(body: str) -> Program:
    read = program(body)
    (function,) = read.functions.values()
    return read.with_function("f", replace(function, openmp=True))


def edited(read: Program, edit: Edit) -> str:
    return " ".join(apply_edit(read, edit).sources()[0].text.split())


HIDING = {
    "a counter": """
    int i, s = 0;
    for (i = 0; i < n; i++) s += i;
    for (int i = 1; i < n; i++) a[i] = a[i - 1] + s;
    a[i] = s;""",
    "three, one in the other": """
    int k = 2;
    for (int i = 0; i < n; i++) {
        int k = i + 1;
        c[i] += k;
        for (int j = 0; j < m; j++) { int k = j; for (k = 0; k < 3; k++) a[i] += k * j; c[i] += k; }
        if (k > 3) { double k = 0.5; a[i] *= k; }
    }
    c[0] += k;""",
    "a parameter, and side by side": """
    { int m = 3; a[0] += m; }
    for (int m = 0; m < n; m++) { a[m] += m; int n = 2; c[m] += n; }
    a[1] += n + m;""",
}


@needs.cc
@pytest.mark.parametrize("case", HIDING)
def test_hidden_variables_have_names_of_their_own(case: str, tmp_path: Path) -> None:
    read = program(HIDING[case])
    made = apply_edits(read, [RENAME])
    assert same(read, "f", [made], tmp_path, trials=20) == ""
    assert not list(OPERATORS["rename_hidden"].sites(made.program.functions["f"], False))


def test_a_function_may_be_long() -> None:
    lines = "\n".join(f"a[{n % 8}] += {n} * i;" for n in range(3000))
    read = program(f"int i = 2;\n{lines}\nfor (int i = 0; i < n; i++) c[i] = i;\n{lines}")
    assert "for (int i_2 = 0; i_2 < n; i_2++)" in edited(read, RENAME)


def test_loops_are_open_once_their_counters_have_other_names() -> None:
    read = program(HIDING["a counter"])
    strip: Edit = {
        "op": "strip_mine",
        "function": "f",
        "loops": ["i"],
        "parameters": [{"name": "T", "values": [4], "default": 4}],
    }
    with pytest.raises(EditRefused, match="i is declared again"):
        apply_edits(read, [strip])
    assert "i_2" in apply_edits(read, [RENAME, {**strip, "loops": ["i#2"]}]).variant.files[0].text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("double m = 3; { int m = 4; __typeof__(m) t = 2; c[0] = t * m; }", "text that is not read"),
        ("double k = 3; { char k = sizeof(k); c[0] = k; }", "given a value by its own name"),
        (
            "double max = 3; { double max = 0;\n#pragma omp simd reduction(max:max)\n"
            "for (int i = 0; i < n; i++) max = a[i] > max ? a[i] : max; c[0] = max; }",
            "text that is not read",
        ),
        (
            "int j = 1; { int j;\n#pragma omp simd lastprivate(j)\nfor (j = 0; j < n; j++) a[j] = 1; c[0] = j; }",
            "text that is not read",
        ),
        ("int i = 1; { extern int i; a[i] = 2; }", "declared elsewhere"),
        ("int i = 1; a[i] = 2;", "no name is declared again"),
        ("int i = 1; { int i = i + 1; a[i] = 2; }", "given a value by its own name"),
        (
            "int i = 1; for (int i = 0; i < n; i++) { switch (i) { case 0: a[0] = 1; } }",
            "text that is not read",
        ),
    ],
)
def test_variables_that_cannot_be_renamed_stay(body: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        edited(program(body), RENAME)


def test_private_variables_are_locals_where_they_get_their_value() -> None:
    text = edited(
        threaded(
            """
    int i, j, k; double t, u;
    #pragma omp parallel for private(j, k, t) firstprivate(u)
    for (i = 0; i < n; i++)
        for (j = 0; j < m; j++) { k = i * m + j; t = a[k]; c[k] = t * u; }"""
        ),
        DECLARE,
    )
    assert "private(j, k, t) firstprivate(u)" in text
    assert (
        "for (i = 0; i < n; i++) { for (int j_2 = 0; j_2 < m; j_2++) { const int k_2 = i * m + j_2;" in text
    )
    assert "double t_2 = a[k_2]; c[k_2] = t_2 * u;" in text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "double t;\n#pragma omp parallel for lastprivate(t) // private(t)\nLOOP", id="in a comment"
        ),
        pytest.param(
            "{ double t = a[1]; c[1] = t; }\n#pragma omp parallel for private(t)\nLOOP", id="another one"
        ),
        pytest.param(
            "double t, *p = &t; *p = 1;\n#pragma omp parallel for private(t)\nLOOP", id="its address"
        ),
        pytest.param(
            "double t;\n#pragma omp parallel for private(t)\nLOOP\nif (n < 0) goto out; a[0] = 1; out: ;",
            id="jumps",
        ),
        pytest.param(
            "double t; int j;\n#pragma omp parallel for collapse(2) private(t, j)\nLOOP",
            id="loops dealt together",
        ),
    ],
)
def test_what_is_not_a_private_variable_for_sure_stays(text: str) -> None:
    loop = "for (int i = 0; i < n; i++) { t = a[i]; c[i] = t; }"
    with pytest.raises(Refused, match="no loop has private variables"):
        edited(threaded(text.replace("LOOP", loop)), DECLARE)


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param("c[i] = t; t = a[i];", id="read first"),
        pytest.param("if (i % 2) t = a[i]; c[i] = t;", id="given on a condition"),
        pytest.param("t += a[i]; c[i] = t;", id="added to"),
        pytest.param("for (int k = t; k < n; k++) t = a[k];", id="read by a head"),
    ],
)
def test_private_variables_without_a_value_first_stay(inside: str) -> None:
    loop = f"double t; int i;\n#pragma omp parallel for private(t)\nfor (i = 0; i < n; i++) {{ {inside} }}"
    with pytest.raises(Refused, match="no loop has private variables"):
        edited(threaded(loop), DECLARE)


def test_without_openmp_a_private_variable_keeps_its_last_value() -> None:
    loop = "double t; int i;\n#pragma omp parallel for private(t)\nfor (i = 0; i < n; i++) { t = a[i]; c[i] = t; }"
    with pytest.raises(Refused, match="not built with OpenMP"):
        edited(program(f"{loop} a[0] = t;"), DECLARE)


def test_a_directive_of_several_lines_is_printed_as_one() -> None:
    pragma = "#pragma omp simd \\\n    safelen(4) \\\n    lastprivate(k)"
    read = program(f"int i = 0, k;\n{pragma}\nfor (k = 0; k < n; k++) {{ int i = 2; a[k] = i; }}")
    assert "#pragma omp simd safelen(4) lastprivate(k) for" in edited(read, RENAME)
