"""Sizes of first specs: those that the source's own call passes, or else such that a call takes some milliseconds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.driver.first_sizes import LEAST_S, MOST_S, with_timed_sizes
from tuner.spec.first.init import first_spec

ROWS = """
void scale(int rows, int columns, float (*a)[columns], double by)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) a[i][j] *= by;
}
"""


def first(folder: Path, text: str, **others: str) -> Any:
    (folder / "a.c").write_text(text)
    for name, other in others.items():
        (folder / f"{name}.c").write_text(other)
    return first_spec(folder / "a.c", entry="scale")


def sizes(spec: Any) -> dict[str, int]:
    found: dict[str, int] = yaml.safe_load(spec.text)["problem"]
    return found


@pytest.mark.parametrize(
    "caller",
    [
        "int main(void) { static float a[300][70]; scale(300, 70, a, 2.5); return 0; }",
        """
        #define COLUMNS 70
        void fill(int rows, int columns, float *a);
        int main(void) {
            int rows = 300;
            int columns = COLUMNS + 0;
            static float a[300][COLUMNS];
            fill(rows, columns, &a[0][0]);
            scale(rows, columns, a, 2.5);
            rows = 2;
            return rows;
        }""",
        "static void two(float (*a)[70], int n) { scale(n, 70, a, 1); scale(3 * 100, 70, a, 2.5); }",
    ],
    ids=["numbers", "variables that are read before", "the call that says most"],
)
def test_sizes_and_numbers_are_those_of_the_call_in_the_source(tmp_path: Path, caller: str) -> None:
    made = first(tmp_path, f"{ROWS}\n{caller}\n")
    assert sizes(made) == {"rows": 300, "columns": 70}
    assert "value: 2.5}" in made.text
    assert "these are the source's own" in made.text
    assert made.at_scale is None


@pytest.mark.parametrize(
    "caller",
    [
        "void read(int *n); void run(float (*a)[70]) { int n = 300; read(&n); scale(n, 70, a, 1); }",
        "void run(float (*a)[70], int n) { scale(n, 70, a, 1); }",
        "void run(float (*a)[70]) { int n; for (n = 1; n < 9; n++) {} scale(n, 70, a, 1); }",
    ],
    ids=["read from somewhere", "an argument of the caller", "counted"],
)
def test_a_size_that_the_caller_does_not_know_either_is_guessed(tmp_path: Path, caller: str) -> None:
    made = first(tmp_path, f"{ROWS}\n{caller}\n")
    assert sizes(made)["columns"] == 70
    assert sizes(made)["rows"] > 1000
    assert made.at_scale is not None


def power(of: float, constant_s: float, first_spec: Any) -> tuple[Any, list[float]]:
    """With sizes by a call that takes a power of the rows."""
    asked = list[float]()

    def call_s(_: Path, text: str) -> float:
        rows = yaml.safe_load(text)["problem"]["rows"]
        asked.append(constant_s * (rows / 2048) ** of)
        return asked[-1]

    return with_timed_sizes(first_spec, Path("a.yaml"), call_s), asked


@pytest.mark.parametrize(("of", "constant_s"), [(2, 0.8e-3), (3, 40e-3), (2, 3e-3), (1, 0.8e-3), (3, 0.9)])
def test_guessed_sizes_follow_the_time_of_a_call(tmp_path: Path, of: float, constant_s: float) -> None:
    made, asked = power(of, constant_s, first(tmp_path, ROWS))
    assert LEAST_S <= asked[-1] <= MOST_S
    assert f"a call takes {asked[-1] * 1e3:.1f} ms here" in made.text


def test_sizes_stay_as_guessed_where_time_does_not_follow_them_or_nothing_runs(tmp_path: Path) -> None:
    guessed = first(tmp_path, ROWS)
    assert power(0, 25e-6, guessed)[0].text == guessed.text
    assert with_timed_sizes(guessed, Path("a.yaml"), lambda *_: None).text == guessed.text
    assert with_timed_sizes(guessed, Path("a.yaml"), lambda *_: math.inf).text == guessed.text


@pytest.mark.parametrize("base", [1.618, 4.0])
def test_sizes_of_calls_that_hardly_ever_end_are_found_between(tmp_path: Path, base: float) -> None:
    """As of recursion; the small sizes, with which a result is verified too, are no larger."""
    (tmp_path / "a.c").write_text("long fib(int n) { return n < 2 ? 1 : fib(n - 2) + fib(n - 1); }")
    guessed = first_spec(tmp_path / "a.c", entry="fib")
    asked = list[int]()

    def call_s(_: Path, text: str) -> float:
        asked.append(yaml.safe_load(text)["problem"]["n"])
        took = 1e-9 * base ** min(asked[-1], 500)
        return took if took < 1 else math.inf

    found = yaml.safe_load(with_timed_sizes(guessed, Path("a.yaml"), call_s).text)
    assert LEAST_S <= 1e-9 * base ** found["problem"]["n"] <= MOST_S
    assert found["verify"]["problems"][0]["n"] < found["problem"]["n"]
    assert len(asked) == len(set(asked)) <= 10


def test_sizes_end_where_arrays_do(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(
        "static double a[400];\nvoid f(int n) { for (int i = 0; i < n; i++) a[i] = 2 * a[i] + 1; }"
    )
    asked = list[int]()

    def call_s(_: Path, text: str) -> float:
        asked.append(yaml.safe_load(text)["problem"]["n"])
        return 1e-8 * asked[-1]

    found = yaml.safe_load(
        with_timed_sizes(first_spec(tmp_path / "a.c", entry="f"), Path("a.yaml"), call_s).text
    )
    assert found["problem"] == {"n": 400}
    assert asked == [400]


def test_sizes_end_where_memory_does(tmp_path: Path) -> None:
    """The time that is nearest is taken."""
    made, asked = power(2, 1e-9, first(tmp_path, ROWS))
    rows = sizes(made)["rows"]
    assert rows == sizes(made)["columns"] >= 2048
    assert rows * rows * 4 <= 64 << 20
    assert len(asked) <= 4
