"""Where loops may be cut and gathering may become sweeping, and where not."""

from __future__ import annotations

from typing import Any

import pytest
from same_results import program_of

from tuner.spaces.source.edits import EditRefused, apply_edits
from tuner.spaces.source.regions import Program

SOLVE = """void f(float *x, const float *l, %s int n)
{
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++)
            x[j] -= l[j * n + k] * %s;
        x[j] /= l[j * n + j];%s
    }
}
"""
CLOSURE = """void f(float *p, %s n)
{
    for (%s k = 0; k < n; k++)
        for (%s j = 0; j < %s; j++)
            p[j] = p[j] + p[k];
}
"""
TRIANGLE = """void f(float *c, const float *a, int n)
{
    for (int t = 0; t < n; t += TILE)
        for (int i = t; i < (t + TILE < n ? t + TILE : n); i++)
            for (int j = %s; j < %s; j++)
                c[i * n + j] = a[j * n + i];
}
"""


def program(text: str) -> Program:
    return program_of(text, "f")


def made(text: str, *edits: dict[str, Any]) -> str:
    """The variant's text, without its white space."""
    found = apply_edits(program(text), [{"function": "f", **e} for e in edits])
    return " ".join(found.variant.files[0].text.split())


def triangle(start: str, limit: str) -> str:
    """A triangle over rows that are tiled by an edit."""
    lines = TRIANGLE % (start, limit)
    return lines.replace("for (int t = 0; t < n; t += TILE)\n        ", "").replace(
        "for (int i = t; i < (t + TILE < n ? t + TILE : n); i++)", "for (int i = 0; i < n; i++)"
    )


def strip() -> dict[str, Any]:
    return {
        "op": "strip_mine",
        "loops": ["i"],
        "parameters": [{"name": "TILE_I", "values": [8, 16], "default": 8}],
    }


SQUARE = {"op": "square", "loop": "j", "row": "i", "tile": "i_tile"}


def test_a_substitution_gathers_or_sweeps() -> None:
    text = made(SOLVE % ("", "x[k]", ""), {"op": "sweep", "loop": "j"})
    assert "x[j] /= l[j * n + j]; for (int j_later = j + 1; j_later < n; j_later++)" in text
    assert "x[j_later] -= l[j_later * n + j] * x[j];" in text


@pytest.mark.parametrize(
    ("parameters", "factor", "more", "reason"),
    [
        # What it takes is only known after the iteration before.
        ("float *z,", "z[j] * x[k]", " z[j + 1] = x[j];", "ties"),
        # What it takes is not of earlier iterations alone.
        ("", "x[n - 1 - k]", "", "ties"),
    ],
)
def test_values_made_too_late_are_refused(parameters: str, factor: str, more: str, reason: str) -> None:
    with pytest.raises(EditRefused, match=reason):
        made(SOLVE % (parameters, factor, more), {"op": "sweep", "loop": "j"})


def test_a_loop_is_cut_where_it_meets_one_around_it() -> None:
    text = made(CLOSURE % ("int", "int", "int", "n"), {"op": "split_around", "loop": "j", "around": "k"})
    low, high = "for (int j = 0; j < k; j++)", "for (int j = k + 1; j < n; j++)"
    assert low in text
    assert high in text
    assert "p[k] = p[k] + p[k];" in text[text.index(low) : text.index(high)]


@pytest.mark.parametrize(
    ("kind", "limit", "reason"),
    [("int", "n - 1", "same range"), ("long", "n", "different types")],
)
def test_a_loop_that_may_not_meet_it_is_not_cut(kind: str, limit: str, reason: str) -> None:
    with pytest.raises(EditRefused, match=reason):
        made(CLOSURE % ("int", "int", kind, limit), {"op": "split_around", "loop": "j", "around": "k"})


def test_the_rectangle_of_a_tile_lies_below_its_first_row() -> None:
    text = made(triangle("0", "i + 1"), strip(), SQUARE)
    assert "for (int j = 0; j < i_tile + 1; j++)" in text
    assert "for (int j = i_tile + 1; j < i + 1; j++)" in text


def test_the_rectangle_of_a_tile_lies_behind_its_last_row() -> None:
    text = made(triangle("i + 1", "n"), strip(), SQUARE)
    assert "for (int j = i + 1; j < (i_tile + TILE_I < n ? i_tile + TILE_I : n); j++)" in text
    assert "for (int j = i_tile + TILE_I; j < n; j++)" in text


@pytest.mark.parametrize(
    ("start", "limit"), [("0", "n - i"), ("0", "2 * i"), ("0", "n"), ("i", "i + 4"), ("n - i", "n")]
)
def test_ranges_not_growing_by_one_are_refused(start: str, limit: str) -> None:
    with pytest.raises(EditRefused, match="grow"):
        made(triangle(start, limit), strip(), SQUARE)
