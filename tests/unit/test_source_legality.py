"""What the dependence analysis lets pass and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from same_results import program_of

from tuner.spaces.source.edits import Applied, EditRefused, apply_edit, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program

SKEWED = """void f(float *c, int n)
{
    for (int i = 1; i < n; i++)
        for (int j = 0; j < n - 1; j++)
            c[i * n + j] = c[(i - 1) * n + j + 1];
}
"""
SEIDEL = """void f(float *a, int steps, int n)
{
    for (int t = 0; t < steps; t++)
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++)
                a[i * n + j] = 0.2f * (a[(i - 1) * n + j] + a[i * n + j - 1] + a[i * n + j]
                                       + a[i * n + j + 1] + a[(i + 1) * n + j]);
}
"""
NINE = """void f(float *a, int n)
{
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            a[i * n + j] = a[(i - 1) * n + j + 1] + a[i * n + j - 1];
}
"""
PRODUCT = """void f(const float *a, const float *b, float *c, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
}
"""
TWO_LOOPS = """void f(float *a, float *b, const float *x, int n)
{
    for (int i = 0; i < n - 1; i++)
        a[i] = x[i];
    for (int i = 0; i < n - 1; i++)
        b[i] = a[%s];
}
"""
CYCLE = """void f(float *a, float *b, int n)
{
    for (int i = 1; i < n; i++) {
        a[i] = b[i - 1];
        b[i] = a[i] * 0.5f;
    }
}
"""
FORWARD = """void f(float *a, float *b, const float *x, int n)
{
    for (int i = 1; i < n; i++) {
        a[i] = x[i];
        b[i] = a[i - 1];
    }
}
"""
CHANGED = """void next(int *at);
void f(float *a, const float *x, int n)
{
    for (int i = 0; i < n; i++) {
        a[i] = x[i];
        %s
    }
}
"""
SUM = """float f(const float *x, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum;
}
"""
TRIANGLE = """void f(float *a, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            a[i * n + j] = 1.0f;
}
"""
COLUMNS = """void f(float *a, int n, int m)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            a[i * n + j] = a[i * n + j] + 1.0f;
}
"""
CALLS = """float g(float);
void f(float *a, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            a[i * n + j] = g(a[i * n + j]);
}
"""
ALIAS = """void f(float *a, int n)
{
    float *b = a + 1;
    for (int i = 0; i < n; i++) {
        a[i] = 1.0f;
        b[i] = 2.0f;
    }
}
"""
INDIRECT = """void f(float *a, const int *at, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            a[at[i] + j] = 1.0f * (float)i;
}
"""
GUARDED = """void f(float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        if (i > 0)
            a[i] = b[i - 1];
}
"""
LEAKING = """int f(float *a, int n)
{
    int i;
    for (i = 0; i < n; i++)
        a[i] = 1.0f;
    return i;
}
"""


SOLVED = """void f(double *a, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < %s; k++)
            a[i] -= 0.5 * a[%s];
}
"""


def program(text: str) -> Program:
    """A program whose entry is f."""
    return program_of(text, "f")


def sizes(*names: str) -> list[dict[str, Any]]:
    """Tunables."""
    return [{"name": n, "values": [2, 4], "default": 4} for n in names]


def edit(op: str, **arguments: Any) -> dict[str, Any]:
    """An edit of f."""
    return {"op": op, "function": "f", **arguments}


TILE_IJ = edit("tile", loops=["i", "j"], parameters=sizes("TI", "TJ"))
MACRO = """#define AT i * n + j
void f(float *a, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            a[AT] = a[0];
}
"""
ILLEGAL = {
    "a macro that hides counters": (
        MACRO,
        edit("interchange", loops=["i", "j"]),
        "the function names AT, a macro",
    ),
    "interchange of a (1, -1) dependence": (SKEWED, edit("interchange", loops=["i", "j"]), "c ties"),
    "interchange of a triangle": (TRIANGLE, edit("interchange", loops=["i", "j"]), "bounds"),
    "tiling a (1, -1) dependence": (SKEWED, TILE_IJ, "backwards along loop j"),
    "tiling seidel in time without skewing": (
        SEIDEL,
        edit("tile", loops=["t", "i", "j"], parameters=sizes("TT", "TI", "TJ")),
        "backwards",
    ),
    "tiling nine-point seidel without skewing": (NINE, TILE_IJ, "backwards along loop j"),
    "jamming a (1, -1) dependence": (
        SKEWED,
        edit("unroll_and_jam", loops=["i"], parameters=sizes("U")),
        "c ties",
    ),
    "vector lanes along a recurrence": (
        SEIDEL,
        edit("vector_block", loops=["j"], vector=True, parameters=sizes("V", "L")),
        "lanes",
    ),
    "vectorising a recurrence": (SEIDEL, edit("vectorize", loop="j", parameters=sizes("V", "L")), "a ties"),
    "reversing a recurrence": (SEIDEL, edit("reverse", loop="j"), "a ties"),
    "reversing a sum without leave": (PRODUCT, edit("reverse", loop="k"), "c ties"),
    "vectorising a sum without leave": (
        SUM,
        edit("vectorize", loop="i", parameters=sizes("V", "L")),
        "sum ties",
    ),
    "partial sums without leave": (
        SUM,
        edit("partial_sums", loop="i", parameters=sizes("V", "L")),
        "numerics",
    ),
    "fusion that reads what is not written yet": (TWO_LOOPS % "i + 1", edit("fuse", loop="i"), "a ties"),
    "fission across a cycle": (CYCLE, edit("fission", loop="i", at=1), "ties"),
    "rows that may overlap": (COLUMNS, edit("interchange", loops=["i", "j"]), "over the end of a row"),
    "an unknown call": (CALLS, edit("interchange", loops=["i", "j"]), "not known"),
    "a pointer that may alias": (ALIAS, edit("fission", loop="i", at=1), "pointer of its own"),
    "an indirect subscript": (INDIRECT, edit("interchange", loops=["i", "j"]), "not affine"),
    "a guarded load": (GUARDED, edit("if_convert", at=0), "guard"),
    "a counter used after its loop": (
        LEAKING,
        edit("strip_mine", loops=["i"], parameters=sizes("T")),
        "outside",
    ),
    "a counter that its loop changes": (
        CHANGED % "i++;",
        edit("strip_mine", loops=["i"], parameters=sizes("T")),
        "i may change in loop i",
    ),
    "a counter whose address is taken in its loop": (
        CHANGED % "next(&i);",
        edit("strip_mine", loops=["i"], parameters=sizes("T")),
        "i may change in loop i",
    ),
    "a loop that is not there": (SUM, edit("reverse", loop="q"), "no loop 'q'"),
    "a taken name": (PRODUCT, edit("strip_mine", loops=["k"], parameters=sizes("a")), "taken"),
    "one loop to swap": (PRODUCT, edit("interchange", loops=["i"]), "two loops"),
    "no such operator": (SUM, edit("improve"), "no operator"),
    "scalar replacement of several elements": (
        SEIDEL,
        edit("scalar_replace", loop="j", array="a"),
        "changes inside loop j",
    ),
    "scalar replacement of an element that is read by other subscripts": (
        SOLVED % ("i + 1", "k"),
        edit("scalar_replace", loop="k", array="a"),
        "by other subscripts",
    ),
    "scalar replacement of an element that may be read by others": (
        SOLVED % ("i", "(int)a[k]"),
        edit("scalar_replace", loop="k", array="a"),
        "subscript",
    ),
}
LEGAL = {
    "scalar replacement beside other elements": (
        SOLVED % ("i", "k"),
        edit("scalar_replace", loop="k", array="a"),
    ),
    "interchange of a product": (PRODUCT, edit("interchange", loops=["i", "j"])),
    "interchange past a sum": (PRODUCT, edit("interchange", loops=["j", "k"])),
    "tiling a product": (PRODUCT, edit("tile", loops=["i", "j", "k"], parameters=sizes("TI", "TJ", "TK"))),
    "tiling seidel in space": (SEIDEL, TILE_IJ),
    "reversing a sum with leave": (PRODUCT, edit("reverse", loop="k", reassociate=True)),
    "partial sums with leave": (
        SUM,
        edit("partial_sums", loop="i", reassociate=True, parameters=sizes("V", "L")),
    ),
    "fusion of what is written already": (TWO_LOOPS % "i", edit("fuse", loop="i")),
    "fission of a forward dependence": (FORWARD, edit("fission", loop="i", at=1)),
    "strip-mining anything": (NINE, edit("strip_mine", loops=["j"], parameters=sizes("T"))),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_transformations_are_refused_with_a_reason(name: str) -> None:
    """One line that says what stands in the way."""
    text, wanted, reason = ILLEGAL[name]
    with pytest.raises(EditRefused) as refused:
        apply_edits(program(text), [wanted])
    assert reason in refused.value.reason
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", LEGAL)
def test_legal_transformations_pass(name: str) -> None:
    """And change the text."""
    text, wanted = LEGAL[name]
    assert apply_edits(program(text), [wanted]).variant.files[0].text != text


@pytest.mark.parametrize(
    ("text", "loop", "hint"),
    [
        (PRODUCT, "k", "vectorize(enable)"),
        (PRODUCT, "j", "vectorize(assume_safety)"),
        (SUM, "i", "vectorize(enable)"),
    ],
    ids=["a sum in memory", "no sum", "a sum in a variable"],
)
def test_iterations_are_called_independent_only_where_they_are(text: str, loop: str, hint: str) -> None:
    """With leave to reorder a sum is still carried from one iteration to the next."""
    wanted = edit("vectorize", loop=loop, reassociate=True, parameters=sizes("V", "L"))
    before = [edit("interchange", loops=["j", "k"])] if loop == "j" else []
    assert hint in apply_edits(program(text), [*before, wanted]).variant.files[0].text


def test_tiles_stay_transparent() -> None:
    """A tiled nest is analysed for every tile size: its loops move where the plain ones would."""
    tiled = edit("tile", loops=["i", "j", "k"], parameters=sizes("TI", "TJ", "TK"))
    outward = edit("interchange", loops=["i_tile", "j_tile"])
    apply_edits(program(PRODUCT), [tiled, outward, edit("interchange", loops=["i", "j"])])
    with pytest.raises(EditRefused, match="c ties"):
        apply_edits(program(PRODUCT), [tiled, edit("reverse", loop="k")])


def test_tiling_twice_keeps_the_order_of_sums() -> None:
    """The points of two tiles along one loop never overlap, so tiling again is fine; reversing tiles is not."""
    once = edit("strip_mine", loops=["k"], parameters=sizes("TK"))
    twice = edit("strip_mine", loops=["k"], parameters=sizes("TK_2"))
    apply_edits(program(PRODUCT), [once, twice])


def test_unsigned_counters_are_refused_where_they_would_wrap() -> None:
    """``for (; i >= 0; i--)`` never ends for them."""
    text = SUM.replace("int i", "unsigned i").replace("int n", "unsigned n")
    with pytest.raises(EditRefused, match="unsigned"):
        apply_edits(program(text), [edit("reverse", loop="i", reassociate=True)])


def reversing(statements: list[str]) -> Applied:
    lines = "\n        ".join(statements)
    text = f"void f(int n, double (*a)[99])\n{{\n    for (int i = 0; i < n; i++) {{\n        {lines}\n    }}\n}}\n"
    edits = [{"op": "heed_rows", "function": "f"}, {"op": "reverse", "function": "f", "loop": "i"}]
    return apply_edits(program_of(text, "f"), edits)


def test_many_statements_are_told_apart_by_the_numbers_in_their_subscripts() -> None:
    """As in code that is written out for a block of five by five."""
    made = reversing([f"a[i][{k}] = a[i][{k + 1}] * {k}.5 + a[i + n][{k}];" for k in range(80)])
    assert "i--" in made.variant.files[0].text


@pytest.mark.parametrize("other", ["010", "0x8", "8u", "8"])
def test_numbers_that_are_written_in_two_ways_are_one_place(other: str) -> None:
    with pytest.raises(EditRefused, match=r"together|affine"):
        reversing(["a[i][8] = i;", f"a[i + 1][{other}] = 2;"])


def test_very_many_statements_of_one_place_are_refused() -> None:
    with pytest.raises(EditRefused, match="100 statements are too many to analyse"):
        reversing([f"a[i][i] = a[i][n] * {k};" for k in range(100)])


def test_a_loop_whose_inner_ones_are_written_out_is_not_jammed() -> None:
    """Copies of its rounds would be no more than its own unrolling."""
    read = program_of(
        "void f(const float *a, float *c, int n)\n{\n    for (int i = 0; i < n; i++) {\n        float s = 0;\n"
        "        for (int j = 0; j < n; j++)\n            s += a[j] * a[i];\n        c[i] = s;\n    }\n}\n",
        "f",
    )
    (site,) = OPERATORS["unroll_and_jam"].sites(read.functions["f"], False)
    assert site["loops"] == ["i"]
    made = apply_edit(read, {"op": "unroll_and_jam", "function": "f", **site})
    assert not any(
        "j" in found["loops"] for found in OPERATORS["unroll_and_jam"].sites(made.functions["f"], False)
    )
