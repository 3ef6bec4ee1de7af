"""A loop split in two where its second part uses what its first computes: the values are computed again."""

from __future__ import annotations

import random
from pathlib import Path

import needs
import numpy as np
import pytest
from same_results import WRAPPING, program_of, same

from tuner.search.cooking import Attempt, cook
from tuner.search.recipes import RECIPES
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits

LOOP = """\
void f(int n, int *a, int *b, int *c, int *d)
{
    for (int i = 0; i < n; i++) {
        %s
    }
}
"""


NEST = """\
void f(int n, int a[n][n], int *b, int c[n][n], int *d)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            %s
        }
}
"""


def split(body: str, at: int) -> str:
    """The two loops."""
    edit = {"op": "fission", "function": "f", "loop": "i", "at": at}
    text = apply_edits(program_of(LOOP % body, "f"), [edit]).variant.files[0].text
    return " ".join(text.partition("{")[2].rpartition("}")[0].split())


def reordered(body: str, seed: int) -> list[str]:
    """What a recipe that swaps two loops does to a nest with these statements."""
    text = NEST % body
    rng = np.random.default_rng(seed)
    start = Attempt(program=program_of(text, "f"), edits=(), rng=rng, reassociate=False)
    made = cook(RECIPES["reordered"], start)
    assert made is not None
    return [str(e["op"]) for e in made.edits]


HEAD = "for (int i = 0; i < n; i++)"


@pytest.mark.parametrize(
    ("body", "at", "made"),
    [
        (
            "const int t = a[i] * 3; b[i] = t; c[i] = t + 1;",
            2,
            "{ const int t = a[i] * 3; b[i] = t; } # { const int t = a[i] * 3; c[i] = t + 1; }",
        ),
        (
            "int t = a[i]; b[i] = a[i + 1]; c[i] = t;",
            2,
            "{ b[i] = a[i + 1]; } # { int t = a[i]; c[i] = t; }",
        ),
        (
            "int s = a[i], t = s + i; b[i] = s; c[i] = t;",
            3,
            "{ int s = a[i]; b[i] = s; } # { int s = a[i]; int t = s + i; c[i] = t; }",
        ),
        (
            "int s = a[i]; int t = s + i; int u = d[i]; b[i] = u; c[i] = t;",
            4,
            "{ int u = d[i]; b[i] = u; } # { int s = a[i]; int t = s + i; c[i] = t; }",
        ),
        # What the second part writes is read before it in both orders.
        (
            "int t = a[i]; b[i] = t; a[i] = t + 1;",
            2,
            "{ int t = a[i]; b[i] = t; } # { int t = a[i]; a[i] = t + 1; }",
        ),
    ],
)
def test_values_are_computed_again_where_they_are_used(body: str, at: int, made: str) -> None:
    assert split(body, at) == f"{HEAD} " + made.replace("#", HEAD)


@pytest.mark.parametrize(
    ("body", "at", "reason"),
    [
        ("int t = a[i]; t += 1; c[i] = t;", 2, "uses t, which the first declares and changes"),
        ("int t; t = a[i]; c[i] = t;", 2, "uses t, which the first declares and changes"),
        ("int t = a[i]; b[i] = t; c[i] = t++;", 2, "uses t, which the first declares and changes"),
        ("int t[2]; t[0] = a[i]; c[i] = t[0];", 2, "uses t, which the first declares and changes"),
        (
            "int t = a[i]; a[i] = 0; c[i] = t;",
            2,
            "the first part of i changes what t of the second is computed from",
        ),
        # Other iterations of the first part change it, or of the second what the first's is computed from.
        (
            "int t = a[i + 1]; b[i] = t; a[i + 2] = 5; c[i] = t;",
            3,
            "changes what t of the second is computed from",
        ),
        ("int t = a[i]; b[i] = t; c[i] = t; a[i + 1] = b[i];", 2, "ties"),
        (
            "int s = b[i + 1]; int t = s; b[i] = 3; c[i] = t;",
            3,
            "changes what s of the second is computed from",
        ),
    ],
)
def test_what_may_be_another_value_then_is_refused(body: str, at: int, reason: str) -> None:
    with pytest.raises(EditRefused) as refused:
        split(body, at)
    assert reason in refused.value.reason


@pytest.mark.parametrize(
    ("body", "split_up"),
    [
        ("a[j][i] = b[i]; a[j][i] += c[j]; a[j][i] += d[i];", False),
        ("int t = b[i] * 2; a[j][i] = t; c[j][i] = t + 1;", False),
        ("a[j][i] = b[i]; c[i][j] = d[j];", True),
    ],
)
def test_recipes_split_what_has_parts_and_do_not_go_back(body: str, split_up: bool) -> None:
    """Not sums in one element, nor what would be computed twice; and no swap undoes the one before."""
    for seed in range(6):
        done = reordered(body, seed)
        assert ("fission" in done) == split_up
        assert split_up or done.count("interchange") == 1


def invented(rng: random.Random) -> str:
    """Declarations and assignments in any order, each with what came before."""
    values: list[str] = []
    lines = []

    def term() -> str:
        place = rng.choice(["i", "i + 1", "i + 2", "n - i"])
        return rng.choice([*values, f"{rng.choice('abcd')}[{place}]", "i", "3"])

    for number in range(rng.randint(3, 6)):
        if number < 2 or rng.random() < 0.4:
            lines.append(f"int v{number} = {term()} + {term()} * 2;")
            values.append(f"v{number}")
        else:
            lines.append(f"{rng.choice('abcd')}[{rng.choice(['i', 'i + 1'])}] = {term()} - {term()};")
    return LOOP % "\n        ".join([*lines, f"{rng.choice('abcd')}[i] = {' + '.join(values)};"])


@pytest.mark.integration
@needs.cc
def test_results_stay_the_same(tmp_path: Path) -> None:
    rng, split_up = random.Random(11), 0
    for number in range(60):
        program = program_of(invented(rng), "f")
        made: list[Applied] = []
        for at in range(1, 7):
            try:
                made.append(apply_edits(program, [{"op": "fission", "function": "f", "loop": "i", "at": at}]))
            except EditRefused:
                continue
        split_up += len(made)
        if made:
            folder = tmp_path / str(number)
            folder.mkdir()
            assert not same(program, "f", made, folder, trials=30, how=WRAPPING)
    assert split_up > 40
