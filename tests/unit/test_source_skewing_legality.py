"""Which sweeps may be run in strips or along diagonals, how far they have to stay behind, and which may not."""

from __future__ import annotations

from typing import Any

import pytest
from same_results import program_of

from tuner.search.recipes import RECIPES, SHAPED
from tuner.spaces.source.edits import EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program

SWEEPS = """void f(float *a, float *b, int steps, int n)
{
    for (int t = 0; t < steps; t++) {
        %s
        for (int i = %d; i < n - %d; i++)
            b[i] = a[i - %d] + a[i + %d];
        for (int i = 2; i < n - 2; i++)
            a[i] = b[i];
    }
}
"""
IN_PLACE = """void f(float *a, int steps, int n)
{
    for (int t = 0; t < steps; t++)
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++)
                a[i * n + j] = 0.5f * (%s);
}
"""


def program(text: str) -> Program:
    return program_of(text, "f")


def sites(text: str, operator: str) -> list[dict[str, Any]]:
    """What an operator would try on a function."""
    return list(OPERATORS[operator].sites(program(text).functions["f"], False))


def made(text: str, operator: str, **args: Any) -> str:
    """The variant's text on one line, with what a site says but for some arguments."""
    first = sites(text, operator)[0]
    found = apply_edits(program(text), [{"op": operator, "function": "f", **first, **args}])
    return " ".join(found.variant.files[0].text.split())


@pytest.mark.parametrize(("reach", "shift", "slope"), [(1, 1, 2), (2, 2, 4)])
def test_a_sweep_stays_behind_by_as_much_as_it_reaches(reach: int, shift: int, slope: int) -> None:
    """And a strip leans by what both reach together."""
    text = SWEEPS % ("", 2, 2, reach, reach)
    (found,) = sites(text, "skew")
    assert (found["shifts"], found["slope"]) == ([0, shift], slope)
    (found,) = sites(text, "fuse_shifted")
    assert (found["loops"], found["shifts"]) == (["i", "i#2"], [0, shift])


@pytest.mark.parametrize(
    ("name", "changed"),
    [("skew", {"slope": 1}), ("skew", {"shifts": [0, 0]}), ("fuse_shifted", {"shifts": [0, 0]})],
)
def test_less_is_refused(name: str, changed: dict[str, Any]) -> None:
    """Whatever an edit says, a dependence does not turn round."""
    with pytest.raises(EditRefused, match="backwards along the rows"):
        made(SWEEPS % ("", 2, 2, 1, 1), name, **changed)


def test_statements_run_once_get_a_row() -> None:
    """A statement between the sweeps runs when a strip comes to its row."""
    text = SWEEPS % ("b[0] = 0.5f * t;", 1, 1, 1, 1)
    (found,) = sites(text, "skew")
    assert found["rows"] == ["i", "i#2"]
    assert "i_once" in made(text, "skew")


@pytest.mark.parametrize(
    "text",
    [
        # Every row needs the last one of the step before.
        SWEEPS % ("b[0] = a[n - 3];", 2, 2, 1, 1),
        # Nothing leans: plain tiles would do.
        SWEEPS % ("", 2, 2, 0, 0),
        # A variable of the step itself would leave its scope.
        SWEEPS % ("float x = a[0]; b[0] = x;", 2, 2, 1, 1),
        # A range that changes from step to step.
        (SWEEPS % ("", 2, 2, 1, 1)).replace("i < n - 2", "i < n - t"),
        (SWEEPS % ("", 2, 2, 1, 1))
        .replace("int steps, int n", "unsigned steps, unsigned n")
        .replace("int ", "unsigned "),
    ],
)
def test_where_there_are_no_strips(text: str) -> None:
    """Nothing is proposed."""
    assert sites(text, "skew") == []


@pytest.mark.parametrize(
    ("reads", "lag"),
    [
        ("a[(i - 1) * n + j] + a[i * n + j - 1]", 1),
        ("a[(i - 1) * n + j + 1] + a[i * n + j - 1]", 2),
        # Elements of one row alone wait for nothing above them.
        ("a[i * n + j - 1]", 1),
    ],
)
def test_diagonals_lean_as_far_as_a_row_looks_ahead(reads: str, lag: int) -> None:
    """Less is refused."""
    text = made(IN_PLACE % reads, "diagonals", lag=lag)
    assert "float a_diagonals[CELLS_I]" in text
    assert f"{lag} * (a_rows - 1) + a_columns" in text or lag == 1
    if lag > 1:
        with pytest.raises(EditRefused, match="within a diagonal"):
            made(IN_PLACE % reads, "diagonals", lag=lag - 1)


@pytest.mark.parametrize(
    ("reads", "reason"),
    [
        ("a[(i - 1) * n + j]", "do not wait for one another"),
        ("a[i * n + j - 1] + a[(n - 1 - i) * n + j]", "not next to the one"),
        ("a[i * n + j - 1] + a[0]", "not next to the one"),
    ],
)
def test_where_there_are_no_diagonals(reads: str, reason: str) -> None:
    """Nothing to gain, or places that do not move along."""
    with pytest.raises(EditRefused, match=reason):
        made(IN_PLACE % reads, "diagonals", lag=2)


def test_recipes_for_a_shape_of_loops_are_recipes() -> None:
    assert set(RECIPES) > SHAPED
