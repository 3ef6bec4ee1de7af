"""Sizes that a file keeps in an array, as constants."""

from __future__ import annotations

import pytest
from same_results import program_of

from tuner.spaces.source.edits import EditRefused, apply_edits

EDIT = {"op": "read_sizes", "function": "f"}
TEXT = """\
static int sizes[3];
static double u[12][12];
void f(double *a, const int *given)
{
    for (int j = 1; j <= sizes[1] - 2; j++)
        for (int i = 0; i < sizes[0]; i++)
            u[j][i] = a[i] + sizes[2];
}
"""


def test_bounds_are_constants() -> None:
    text = apply_edits(program_of(TEXT, "f"), [EDIT]).variant.files[0].text
    assert "    const int sizes_1 = sizes[1];\n    const int sizes_0 = sizes[0];\n    for (int j = 1;" in text
    assert "j <= sizes_1 - 2;" in text
    assert "a[i] + sizes[2];" in text
    swap = {"op": "interchange", "function": "f", "loops": ["j", "i"]}
    with pytest.raises(EditRefused, match="a bound is not affine"):
        apply_edits(program_of(TEXT, "f"), [swap])
    assert apply_edits(program_of(TEXT, "f"), [EDIT, swap])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("u[j][i] =", "sizes[0] = i; u[j][i] ="),
        ("u[j][i] =", "far(); u[j][i] ="),
        ("u[j][i] =", "int *p = &sizes[0]; u[j][i] = *p +"),
        ("static int sizes[3];", "static short sizes[3];"),
        ("static int sizes[3];", "static volatile int sizes[3];"),
        ("static int sizes[3];", "extern int sizes[];"),
        ("static int sizes[3];", "static int sizes[1];"),
        ("const int *given", "const int *sizes"),
    ],
)
def test_sizes_that_may_change_stay(before: str, after: str) -> None:
    text = TEXT.replace(before, after)
    if "sizes[1];" in after:
        text = text.replace("i < sizes[0]", "i < 9")
    with pytest.raises(EditRefused, match="no bound of a loop is an element"):
        apply_edits(program_of(text, "f"), [EDIT])
