"""Rows that are found by their addresses: operators know their elements, and results stay the same."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from same_results import edits_of, program_of
from spec_files import spec_in

from tuner.core.types import BuildRequest, Resolved, Status
from tuner.evaluators.host.backend import HostBackend
from tuner.search.cooking import Attempt
from tuner.search.opening import opened
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program, read_program

SWEEP = "for (int i = 1; i < n - 1; i++)\n    for (int j = 1; j < n - 1; j++)\n        "
ASSUMED = ["separate buffers", "elements lie in their rows"]
VIEWS = "double (*u)[7][9] = (double (*)[7][9])p;\n    const real (*w)[3 * 3] = (const real (*)[9])q;\n    "
PARAMS = "double **u, const double *const *k, double *v, int n"


def program(body: str, params: str = PARAMS, language: str = "c") -> Program:
    text = f"void f({params})\n{{\n{body}\n}}\n"
    return program_of(text, "f", language)


def heeded(body: str, params: str = PARAMS, language: str = "c") -> frozenset[str]:
    """The parameters whose elements are known."""
    made = apply_edits(program(body, params, language), [{"op": "heed_rows", "function": "f"}])
    (function,) = made.program.functions.values()
    return function.rows


@pytest.mark.parametrize(
    ("body", "params", "known"),
    [
        (SWEEP + "u[i][j] = k[i][j] + v[j];", PARAMS, {"u", "k"}),
        (SWEEP + "u[i][j] = k[i][j];", "double (*u)[n], double k[9][9], int n", {"u"}),
        (SWEEP + "u[i][j] = k[i][j];", "double *u[], double *const *restrict k, int n", {"u", "k"}),
        (SWEEP + "u[0][i][j] = 1;", "double ***u, int n", {"u"}),
        (SWEEP + "u[i][j] = k[i][j];\nu[0] = u[1];", PARAMS, {"k"}),
        (SWEEP + "u[i][j] = k[i][j];\nexchange(u[1]);", PARAMS, {"k"}),
        (SWEEP + "u[i][j] = *k[i];", PARAMS, {"u"}),
        (SWEEP + 'u[i][j] = 1;\nasm("" : : "r"(k));', PARAMS, {"u"}),
    ],
)
def test_elements_of_rows_are_known(body: str, params: str, known: set[str]) -> None:
    """Where they are all that a parameter is used for."""
    assert heeded(body, params) == known


@pytest.mark.parametrize("language", ["c", "c++"])
@pytest.mark.parametrize(
    ("body", "known"),
    [
        (SWEEP + "u[1][i][j] = w[i][j];", {"u", "w"}),
        ("use(p);\n" + SWEEP + "u[1][i][j] = w[i][j];", {"w"}),
        (SWEEP + "u[1][i][j] = w[i][j];\nu = 0;", {"w"}),
        (SWEEP + "u[1][i][j] = w[i][j];\ndouble (*v)[9] = (double (*)[9])p;\nv[0][0] = 1;", {"w"}),
        (SWEEP + "u[1][i][j] = w[0][i];\nw++;", {"u"}),
    ],
)
def test_elements_of_a_parameter_s_rows_are_known(body: str, known: set[str], language: str) -> None:
    """Where a local pointer is all that leads to them, as programs write that allocate arrays as one block."""
    assert heeded(VIEWS + body, "void *p, const real *q, int n", language) == known


@pytest.mark.parametrize("rows", ["[n]", "[7][n + 1]", "[sizeof(n)]"])
def test_pointers_to_rows_whose_length_has_names_are_text(rows: str) -> None:
    """Nothing would rename what is in a type."""
    with pytest.raises(EditRefused, match="rows that stay"):
        heeded(f"double (*u){rows} = (double (*){rows})p;\n{SWEEP}u[i][j] = 1;", "void *p, int n")


def test_a_pointer_to_rows_is_printed_as_it_stands() -> None:
    edits = [
        {"op": "heed_rows", "function": "f"},
        {"op": "interchange", "function": "f", "loops": ["i", "j"]},
    ]
    made = apply_edits(program(VIEWS + SWEEP + "u[1][i][j] = w[i][j];", "void *p, real *q, int n"), edits)
    text = made.variant.files[0].text
    assert "double (*u)[7][9] = (double (*)[7][9])p;" in text
    assert "for (int j = 1; j < n - 1; j++) {\n        for (int i = 1;" in text


@pytest.mark.parametrize(
    ("body", "params"),
    [
        (SWEEP + "u[i][j] = 1;", "double u[9][9], int n"),
        (SWEEP + "u[i][j] = 1;", "volatile double **u, int n"),
        (SWEEP + "u[i * n + j] = 1;", "double *u, int n"),
        (SWEEP + "*(u[i] + j) = 1;", "double **u, int n"),
        (SWEEP + "(*u)(i, j);", "void (*u)(int, int), int n"),
    ],
)
def test_nothing_to_heed(body: str, params: str) -> None:
    with pytest.raises(EditRefused, match="rows that stay"):
        heeded(body, params)


def test_as_many_edits_as_with_flat_arrays() -> None:
    flat = program(
        "for (int i = 1; i < n - 1; i++) for (int j = 1; j < n - 1; j++)"
        " v[i * n + j] = u[i * n - n + j] + u[i * n + n + j];",
        "double *u, double *v, int n",
    )
    rows = program(SWEEP + "v[i][j] = u[i - 1][j] + u[i + 1][j];", "double **u, double **v, int n")
    heeding = apply_edits(rows, [{"op": "heed_rows", "function": "f"}]).program
    # What `restrict` promises is said already.
    assert set(edits_of(flat) - edits_of(heeding)) == {"restrict"}
    assert set(edits_of(flat) - edits_of(rows)) > {"restrict"}


def test_rows_are_heeded_where_a_source_is_opened() -> None:
    start = Attempt(
        program=program(SWEEP + "u[i][j] = 1;"), edits=(), rng=np.random.default_rng(0), reassociate=False
    )
    made = opened(start, {})
    assert made is not None
    assert made.edits[-1] == {"op": "heed_rows", "function": "f", "assumes": ASSUMED}


FORWARD = {"op": "forward_row", "function": "f", "pointer": "r"}
ROW = "for (int i = 0; i < n; i++) {\n    "


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (ROW + "double *r = u[i];\n    for (int j = 0; j < n; j++) r[j] = v[j];\n}", "u[r_at][j] = v[j];"),
        (
            ROW + "const double *const r = k[i + 1];\n    v[i] = r[0] + r[i];\n}",
            "v[i] = k[r_at][0] + k[r_at][i];",
        ),
        ("double *r = u[0];\nfor (int j = 0; j < n; j++) r[j] = 1;", "u[0][j] = 1;"),
        (ROW + "double *r = u[i], *s = u[i + 1];\n    r[0] = s[0];\n}", "u[r_at][0] = s[0];"),
        (
            "double *r = u[n - 1];\nn = 3;\nr[0] = 1;\nreturn;",
            "r_at = n - 1;\n    n = 3;\n    u[r_at][0] = 1;",
        ),
    ],
)
def test_local_pointers_to_rows_are_seen_through(body: str, wanted: str) -> None:
    assert wanted in apply_edits(program(body), [FORWARD]).variant.files[0].text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("double *r = u[0];\nu[0] = u[1];\nr[0] = 1;", "used for more than elements"),
        ("double *r = u[0];\nswap(&u[0], &u[1]);\nr[0] = 1;", "used for more than elements"),
        ("double *r = u[0];\nexchange();\nr[0] = 1;", "may change where rows lie"),
        ("double *r = u[0];\nr++;\nr[0] = 1;", "r "),
        ("double *r = u[0];\nr = v;\nr[0] = 1;", "r changes"),
        ("double *r = u[0];\nif (r) r[0] = 1;", "without a subscript"),
        ("float *r = (float *)u[0];\nr[0] = 1;", "does not begin as a row"),
        ("double *r = v;\nr[0] = 1;", "does not begin as a row"),
        ("double **r = u;\nr[0][0] = 1;", "plain pointer"),
        ("double *r = u[next()];\nr[0] = 1;", "does not begin as a row"),
        ("double *r = u[0];\n{ double u[4][4];\nr[0] = u[1][1]; }", "declared again"),
        ("volatile double *r = u[0];\nr[0] = 1;", "plain pointer"),
        # A table that is not the caller's, or that may be any.
        ("double **t = table();\ndouble *r = u[0];\nt[0] = v;\nr[0] = 1;", "may change where rows lie"),
        ("double **t = table();\ndouble *r = u[0];\n*t = v;\nr[0] = 1;", "may change where rows lie"),
        ("double *r = u[0];\nrows[0] = v;\nr[0] = 1;", "may change where rows lie"),
        ("k = table();\ndouble *r = u[0];\nk[0] = v;\nr[0] = 1;", "may change where rows lie"),
    ],
)
def test_local_pointers_that_stay(body: str, reason: str) -> None:
    with pytest.raises(EditRefused, match=reason):
        apply_edits(program(body), [FORWARD])


@pytest.mark.parametrize(
    "edit", [FORWARD, {"op": "forward_pointer", "function": "f", "pointer": "r", "assumes": []}]
)
def test_pointers_that_outlast_a_call_stay(edit: dict[str, object]) -> None:
    """In C++ they begin at what the first call was given, and stay there."""
    body = (
        "static double *r = u[0];\nr[0] = 1;" if edit is FORWARD else "static double *r = v + 1;\nr[0] = 1;"
    )
    with pytest.raises(EditRefused, match="from one call to the next"):
        apply_edits(program(body, language="c++"), [edit])


KERNELS = {
    "in place": """
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            c[i][j] = 0.25 * (c[i - 1][j] + c[i][j - 1] + a[i][j] + b[j][i]);
""",
    "rows": """
    for (int i = 0; i < n - 1; i++) {
        const double *row = a[i];
        double *const to = c[i], *next = c[i + 1];
        for (int j = 0; j < n; j++) {
            to[j] = row[j] * b[0][j];
            next[j] += to[j];
        }
    }
""",
}
SPEC = """
kernel: {source: f.c, entry: f}
problem: {n: 24}
arguments:
  - {name: a, dtype: float64, shape: [n, n], rows: pointers}
  - {name: b, dtype: float64, shape: [n, n], rows: pointers}
  - {name: c, dtype: float64, shape: [n, n], rows: pointers, role: inout}
  - {name: n, dtype: int32, value: n}
space: {passes: off, source: {evolve: true}}
verify: {problems: [{n: 7}, {n: 19}]}
"""


MEMBERS = """  - name: g
    struct: grid
    members:
      - {name: a, dtype: float64, shape: [n, n], rows: pointers}
      - {name: b, dtype: float64, shape: [n, n], rows: pointers}
      - {name: c, dtype: float64, shape: [n, n], rows: pointers, role: inout}
      - {name: n, dtype: int32, value: n}
"""
TYPE = "typedef struct { double **c; const double **a; int n; double **b; } grid;\n"


def in_a_structure(body: str) -> str:
    """The kernel with its arguments as members."""
    named = re.sub(r"(?<![A-Za-z])([abcn])(?![A-Za-z])", r"g->\1", body)
    return f"{TYPE}void f(grid *g)\n{{{named}}}\n"


def moved(program: Program, most: int) -> list[Applied]:
    """Variants: what opens the way, then each checked operator once at each of some places."""
    rng = np.random.default_rng(0)
    start = Attempt(program=program, edits=(), rng=rng, reassociate=False)
    way = opened(start, {})
    assert way is not None
    assert "heed_rows" in [e["op"] for e in way.edits]
    made = []
    for label, function in way.program.functions.items():
        for name, operator in OPERATORS.items():
            if not operator.checked or "c" not in operator.languages or operator.openmp or operator.opens:
                continue
            sites = list(operator.sites(function, False))
            for number in rng.permutation(len(sites))[:most]:
                try:
                    edit = {"op": name, "function": label, **sites[int(number)]}
                    made.append(apply_edits(program, [*way.edits, edit]))
                except EditRefused:
                    continue
    return made


@pytest.mark.parametrize(("name", "members"), [("in place", False), ("rows", True)])
@pytest.mark.integration
def test_results_stay_the_same(name: str, members: bool, tmp_path: Path) -> None:
    """Real kernels, built, called with their rows' addresses and compared."""
    params = "const double *const *a, const double *const *b, double **c, int n"
    plain, arguments = f"void f({params})\n{{{KERNELS[name]}}}\n", SPEC.index("  - {name: a")
    spec_text = SPEC[:arguments] + MEMBERS + SPEC[SPEC.index("space:") :]
    spec = spec_in(
        tmp_path, "f.c", in_a_structure(KERNELS[name]) if members else plain, spec_text if members else SPEC
    )
    variants = moved(read_program(spec.task.kernel), most=1)
    assert len({v.variant.edits[-1]["op"] for v in variants}) > 6
    evaluation = HostBackend().prepare(spec.task, workers=1)
    try:
        plain = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
        given = BuildRequest(trial=0, variant=spec.task.kernel.variant, resolved=plain)
        report = evaluation.set_baseline(evaluation.build([given])[0], plain)
        assert report.status is Status.OK, report.message
        for number, made in enumerate(variants):
            values = {p.name: int(p.default) for p in made.parameters}
            resolved = Resolved(macros=values, scalars={}, flags=(), pipeline=None)
            request = BuildRequest(trial=number + 1, variant=made.variant, resolved=resolved)
            (build,) = evaluation.build([request])
            assert build.status is Status.OK, f"{build.message}\n{made.variant.files[0].text}"
            session = evaluation.open(build, resolved, purpose="search", number=0)
            try:
                verdict = session.verify()
            finally:
                session.close()
            assert verdict.status is Status.OK, f"{verdict.message}\n{made.variant.files[0].text}"
    finally:
        evaluation.close()
