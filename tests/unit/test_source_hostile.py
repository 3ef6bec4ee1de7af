"""Programs in which what operators go by is not what it seems: refused, and what is left gives the same bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import needs
import pytest
from same_results import FUSED, PLAIN, program_of, same, variants_of

from tuner.spaces.source.edits import EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS

SIZES = {"parameters": [{"name": "SIZE", "values": [2, 4], "default": 4}]}
TWO = {
    "parameters": [{"name": "ONE", "values": [4], "default": 4}, {"name": "TWO", "values": [4], "default": 4}]
}


def loop(text: str, *, params: str = "float *a, const float *b, int n, int m", before: str = "") -> str:
    """A function of a few statements."""
    return f"{before}\nvoid f({params})\n{{\n{text}\n}}\n"


NARROW_CAST = loop("for (int i = 0; i < n; i++) a[(unsigned char)(i * 3)] = b[i];")
NARROW_CONST = loop(
    "for (int i = 0; i < n; i++) { const unsigned char at = i * 3; a[at] = a[at] * 0.5f + b[i]; }"
)
STALE_CONST = loop("const int c = m; m = m - 1; for (int i = 0; i < n; i++) a[i + c] = a[i + m] * 0.5f;")
STALE_COUNTER = loop(
    "int i; for (i = 0; i < 3; i++) a[100 + i] = b[i]; const int at = i;"
    " for (i = 0; i < m; i++) for (int j = 0; j < n; j++) a[at + j] = a[i + j] * 0.5f;"
)
ROUNDED_SUM = loop(
    "for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) out[0] += b[i * m + j] * 3.3f;",
    params="int *out, const float *b, int n, int m",
)
LASTING = loop("for (int i = 0; i < n; i++) { static float s = 0.0f; s = s * 0.5f + b[i]; a[i] = s; }")
COUNTER_AFTER = loop(
    "int i, j = 77; for (i = 0; i < n; i++) for (j = 0; j < m; j++) a[i * m + j] = b[i * m + j]; a[0] = j;"
)
SIGNLESS_BOUND = loop(
    "for (int i = lo; i < n; i++) a[i] = b[i] * 2.0f;",
    params="float *a, const float *b, unsigned lo, unsigned n",
)
NARROW_COUNTER = loop(
    "for (unsigned char i = 0; i < n; i++) a[i] = b[i];", params="float *a, const float *b, unsigned char n"
)
FRACTION_BOUND = loop("for (int i = 0; i < x; i++) a[i] = b[i];", params="float *a, const float *b, double x")
PROMISED = loop(
    "#pragma clang loop vectorize(assume_safety)\nfor (int i = 1; i < n; i++) a[i] = b[i];\n"
    "for (int i = 1; i < n; i++) c[i] = c[i - 1] * 0.5f + b[i];",
    params="float *a, float *c, const float *b, int n",
)
MIXED_BRANCHES = loop(
    "for (int i = 0; i < n; i++) if (a[i] + b[i] + c[i] > 3.0f) a[i] = b[i]; else a[i] = c[i];",
    params="double *a, const int *b, const float *c, int n",
)
CUT_BRANCH = loop(
    "for (int i = 0; i < n; i++) if (a[i] + b[i] > 3.0f) a[i] = b[i];", params="int *a, const float *b, int n"
)
GUARDED = loop("for (int i = 0; i < n; i++) if (i > 0 && a[i - 1] > 0.0f) a[i - 1] = 0.5f;")
HIDDEN = loop(
    "for (int i = 0; i < n; i++) { float s = 0.0f; for (int j = 0; j < m; j++) { float s = b[j]; c[j] = s; }"
    " s += b[i]; a[i] = s; }",
    params="float *a, const float *b, float *c, int n, int m",
)
HIDDEN_TYPE = loop(
    "for (int i = 0; i < n; i++) { double t = b[i]; for (int j = 0; j < m; j++) a[j] += t * t; }"
    " for (int i = 0; i < n; i++) { float t = b[i]; a[i] += t; }",
    params="double *a, const float *b, int n, int m",
)
INNER_ARRAY = loop("for (int i = 0; i < n; i++) { float t[4]; t[0] = b[i]; a[i] = t[0] * 2.0f; }")
ADDED_PRODUCT = loop(
    "for (int i = 0; i < n; i++) a[i] = x * y + b[i];",
    params="float *a, const float *b, float x, float y, int n",
)
LONG_FRACTION = loop(
    "for (int i = 0; i < n; i++) a[i] = x * 1.1L + a[i];", params="double *a, double x, int n"
)
ROWS = loop(
    "float t[4][4]; for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) t[i][j] = b[i * 4 + j];"
    " for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) a[i * 4 + j] = t[i][j];"
)
MACRO = loop(
    "for (int i = 0; i < n; i++) { a[i + OFF] = b[i]; m2 = (m2 + 3) % 7; }",
    params="float *a, const float *b, int n, int m2",
    before="#define OFF m2",
)
CAPTURED = loop(
    "for (int i = 0; i < n; i++) { const int at = x[i]; for (int j = 0; j < m; j++) a[i * m + j] += b[j] * at; }",
    params="float *a, const float *b, const float *x, int n, int m",
)
MAYBE_NOWHERE = loop("if (n > 9) *a = b[0];")
MACRO_OF_COUNTER = loop("for (int i = 0; i < n; i++) a[i] = b[NEXT];", before="#define NEXT i + 1")
MACRO_OF_ARRAY = loop(
    "float t[4][5]; for (int i = 0; i < 4; i++) for (int j = 0; j < 5; j++) T(i, j) = b[i * 5 + j];"
    " for (int i = 0; i < 4; i++) for (int j = 0; j < 5; j++) a[i * 5 + j] = t[i][j];",
    before="#define T(i, j) t[i][j]",
)
ILLEGAL: dict[str, tuple[str, dict[str, Any], str]] = {
    "a subscript that wraps around": (NARROW_CAST, {"op": "reverse", "loop": "i"}, "not affine"),
    "a constant that wraps around": (NARROW_CONST, {"op": "reverse", "loop": "i"}, "not affine"),
    "a constant older than what it was made of": (STALE_CONST, {"op": "reverse", "loop": "i"}, "a ties"),
    "a constant made of a counter": (STALE_COUNTER, {"op": "reverse", "loop": "j"}, "a ties"),
    "a whole number that fractions are added to": (
        ROUNDED_SUM,
        {"op": "interchange", "loops": ["i", "j"]},
        "out ties",
    ),
    "a variable that lasts": (LASTING, {"op": "reverse", "loop": "i"}, "s keeps its value"),
    "copies of a variable that lasts": (
        LASTING,
        {"op": "unroll_copies", "loop": "i", "count": 2},
        "s keeps its value",
    ),
    "a counter that is looked at afterwards": (
        COUNTER_AFTER,
        {"op": "interchange", "loops": ["i", "j"]},
        "j is used",
    ),
    "a bound without sign": (SIGNLESS_BOUND, {"op": "reverse", "loop": "i"}, "loses its sign"),
    "copies up to a bound without sign": (
        SIGNLESS_BOUND,
        {"op": "unroll_copies", "loop": "i", "count": 4},
        "loses its",
    ),
    "tiles of a counter that wraps around": (
        NARROW_COUNTER,
        {"op": "strip_mine", "loops": ["i"], **SIZES},
        "wraps",
    ),
    "a bound that is no whole number": (FRACTION_BOUND, {"op": "reverse", "loop": "i"}, "no whole number"),
    "a promise for two loops that held for one": (PROMISED, {"op": "fuse", "loop": "i"}, "promised"),
    "a selection of whole numbers and fractions": (
        MIXED_BRANCHES,
        {"op": "if_convert", "at": 0},
        "several types",
    ),
    "a selection that rounds whole numbers": (CUT_BRANCH, {"op": "if_convert", "at": 0}, "several types"),
    "an element that half a condition guards": (GUARDED, {"op": "if_convert", "at": 0}, "guard"),
    "a name with two meanings": (
        HIDDEN,
        {"op": "accumulate_in_place", "loop": "i", "variable": "s"},
        "declared again",
    ),
    "a name with two types": (
        HIDDEN_TYPE,
        {"op": "hoist", "loop": "j", "expression": "t * t"},
        "does not hold",
    ),
    "an array of one iteration": (
        INNER_ARRAY,
        {"op": "scalar_replace", "loop": "i", "array": "t"},
        "declared inside",
    ),
    "a product rounded with its sum": (
        ADDED_PRODUCT,
        {"op": "hoist", "loop": "i", "expression": "x * y"},
        "not hold",
    ),
    "a product in more bits": (
        LONG_FRACTION,
        {"op": "hoist", "loop": "i", "expression": "x * 1.1L"},
        "does not hold",
    ),
    "a row as a value": (ROWS, {"op": "hoist", "loop": "j#2", "expression": "t[i]"}, "does not hold"),
    "a place that is only there at times": (MAYBE_NOWHERE, {"op": "if_convert", "at": 0}, "effects"),
    "copies with a macro of the counter": (
        MACRO_OF_COUNTER,
        {"op": "unroll_copies", "loop": "i", "count": 2},
        "NEXT",
    ),
    "a layout that a macro knows": (
        MACRO_OF_ARRAY,
        {"op": "swap_layout", "array": "t"},
        "the function names T, a macro",
    ),
    "a macro that stands for a variable": (
        MACRO,
        {"op": "fission", "loop": "i", "at": 1},
        "the function names OFF, a macro",
    ),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_deceptive_kernels_are_refused(name: str) -> None:
    """With one line that says why."""
    text, edit, reason = ILLEGAL[name]
    with pytest.raises(EditRefused) as caught:
        apply_edits(program_of(text, "f"), [{"function": "f", **edit}])
    assert reason in caught.value.reason
    assert "\n" not in caught.value.reason


ROW_SIZES = {"parameters": [{"name": "ROWS_I", "values": [2, 4], "default": 4}]}
ACROSS_ROWS = loop(
    "for (int i = 0; i < n - 1; i++) {\n#pragma clang loop vectorize(assume_safety)\n"
    "for (int j = 0; j < n - 1; j++) a[(i + 1) * n + j + 1] = 0.5f * a[i * n + j]; }",
    params="float *a, int n",
)
WITHIN_ROWS = ACROSS_ROWS.replace("a[(i + 1) * n + j + 1]", "a[i * n + j]")


def jammed(text: str) -> str:
    edit = {"function": "f", "op": "unroll_and_jam", "loops": ["i"], **ROW_SIZES}
    (file,) = apply_edits(program_of(text, "f"), [edit]).variant.files
    return file.text


def test_a_promise_stays_where_it_can_be_shown_anew() -> None:
    """Rows of a block together are independent along the row where each row is by itself, and only there."""
    assert "assume_safety" in jammed(WITHIN_ROWS)
    with pytest.raises(EditRefused, match="promised to be free of dependences, several of its iterations"):
        jammed(ACROSS_ROWS)
    unpromised = ACROSS_ROWS.replace("#pragma clang loop vectorize(assume_safety)\n", "")
    assert "ROWS_I" in jammed(unpromised), "it is legal, but for what the compiler was promised"


def test_selections_of_one_type_are_still_made() -> None:
    """Whole numbers of one type, and fractions of any where one is stored."""
    for params, stored in (
        ("int *a, const short *b, int n", "a[i] = b[i]"),
        ("double *a, const float *b, int n", "a[i] = b[i]"),
        ("float *a, const double *b, int n", "a[i] += b[i]"),
    ):
        text = loop(f"for (int i = 0; i < n; i++) if (a[i] < b[i]) {stored};", params=params)
        assert (
            "?"
            in apply_edits(program_of(text, "f"), [{"op": "if_convert", "function": "f", "at": 0}])
            .variant.files[0]
            .text
        )


@needs.cc
@pytest.mark.parametrize(
    "text",
    [
        ROUNDED_SUM, COUNTER_AFTER, PROMISED, MIXED_BRANCHES, CUT_BRANCH, HIDDEN_TYPE, INNER_ARRAY, CAPTURED,
        STALE_CONST, STALE_COUNTER,
    ],
)  # fmt: skip
@pytest.mark.integration
def test_remaining_variants_give_the_same(text: str, tmp_path: Path) -> None:
    program = program_of(text, "f")
    variants = variants_of(program, 7)
    assert variants
    assert same(program, "f", variants, tmp_path, trials=30, how=PLAIN) == ""


@needs.cc
@pytest.mark.skipif(" fma " not in Path("/proc/cpuinfo").read_text(), reason="the processor has no FMA")
@pytest.mark.parametrize(
    "statement",
    [
        "a[i] = x[0] * (y[0] * 1.1f) + b[i]",
        "a[i] -= x[0] * (y[0] * 1.1f)",
        "a[i] = b[i] * 1.3f - -(x[0] * (y[0] * 1.1f))",
    ],
)
def test_products_are_rounded_as_they_were(statement: str, tmp_path: Path) -> None:
    """Where the compiler rounds a product and its sum once it does so in every variant."""
    params = "float *restrict a, const float *b, const float *x, const float *y, int n"
    program = program_of(loop(f"for (int i = 0; i < n; i++) {statement};", params=params), "f")
    variants = variants_of(program, 7)
    assert {"hoist", "vector_block"} & {v.variant.edits[0]["op"] for v in variants if v.variant.edits}
    assert same(program, "f", variants, tmp_path, trials=30, how=FUSED) == ""


@needs.cc
def test_sums_of_a_loop_without_a_sign_have_nothing_left_over_below_its_start(tmp_path: Path) -> None:
    """What whole vectors leave over would be counted from below zero where it ends before its start."""
    text = loop(
        "float s = 0.0f; for (unsigned i = 7; i < n; i++) s += b[i]; a[0] = s;",
        params="float *a, const float *b, unsigned n",
    )
    program = program_of(text, "f")
    (site, *_) = OPERATORS["partial_sums"].sites(program.functions["f"], True)
    made = apply_edits(program, [{"op": "partial_sums", "function": "f", **site}])
    assert same(program, "f", [made], tmp_path, trials=40) == ""
