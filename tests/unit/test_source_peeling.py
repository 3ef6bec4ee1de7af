"""Which ends of a loop are cut off, what is decided between them, and what is left as it was."""

from __future__ import annotations

import pytest
from same_results import program_of

from tuner.spaces.source.edits import EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS

LOOP = """#include <stddef.h>
%s
void f(const float *a, float *b, int n, long wide, unsigned plain)
{
    int given = 3;
    for (%s) {
        %s
    }
}
"""
UP = "int i = 0; i < n; i++"


def middle(line: str, *, head: str = UP, before: str = "") -> tuple[tuple[int, int], str]:
    """How many iterations are cut off at both ends of the loop, and its body between them."""
    program = program_of(LOOP % (before, head, line), "f")
    (site,) = OPERATORS["peel_ends"].sites(program.functions["f"], False)
    made = apply_edits(program, [{"op": "peel_ends", "function": "f", **site}])
    (loop,) = (s for s in made.program.functions["f"].body if getattr(s, "key", "") == "i")
    text = " ".join(made.variant.files[0].text.split())
    parts = text.split("for (")[1:]
    at = 1 if site["first"] else 0
    assert loop.body
    return (site["first"], site["last"]), parts[at].partition("{")[2].partition("}")[0].strip()


def sites(line: str, *, head: str = UP, before: str = "") -> list[dict[str, object]]:
    """Where it would be tried."""
    program = program_of(LOOP % (before, head, line), "f")
    return list(OPERATORS["peel_ends"].sites(program.functions["f"], False))


TABLE = "static const int around[4] = {-2, 0, 1};"


@pytest.mark.parametrize(
    ("line", "ends", "left"),
    [
        ("b[(i + 1) % n] = a[i];", (0, 1), "b[i + 1] = a[i];"),
        ("b[(i - 1 + n) % n] = a[i];", (1, 0), "b[i - 1] = a[i];"),
        ("b[(i + n - 2) % n] = a[(i + 1 + n) % n];", (2, 1), "b[i - 2] = a[i + 1];"),
        ("b[(i + 3) % (n + 1)] = a[i];", (0, 2), "b[i + 3] = a[i];"),
        ("b[(i + around[given] + n) % n] = a[i];", (2, 1), "b[i + around[given]] = a[i];"),
        ("b[i] = i > 0 ? a[i - 1] : 0.0f;", (1, 0), "b[i] = a[i - 1];"),
        ("b[i == n - 1 ? 0 : i + 1] = a[i];", (0, 1), "b[i + 1] = a[i];"),
        ("if (i > 0 && i < n - 1 && a[i] > 0.0f) b[i] = a[i];", (1, 1), "if (a[i] > 0.0f) { b[i] = a[i];"),
        ("if (i == 0 || i == n - 1) b[i] = 0.0f; else b[i] = a[i];", (1, 1), "b[i] = a[i];"),
        ("const int at = i - 2; if (at >= 0) b[at] = a[i];", (2, 0), "const int at = i - 2; b[at] = a[i];"),
        # The remainder was computed in 64 bits, and what is made of it still is.
        ("b[(i + 1) % (long)n * n] = a[i];", (0, 1), "b[(long)(i + 1) * n] = a[i];"),
    ],
)
def test_end_conditions_are_not_tested_inside(line: str, ends: tuple[int, int], left: str) -> None:
    """The fewest iterations are cut off."""
    assert middle(line, before=TABLE) == (ends, left)


@pytest.mark.parametrize(
    "line",
    [
        # Another length, values that nothing bounds, a table that may change or is not all numbers.
        "b[(i + 1) % given] = a[i];",
        "b[(i + (int)a[i]) % n] = a[i];",
        "b[(i + moving[given] + n) % n] = a[i];",
        "b[(i + half[given] + n) % n] = a[i];",
        # Numbers without sign in 32 bits wrap around.
        "b[(i + 1 + plain) % plain] = a[i];",
        # An integer for a floating-point number would divide another way.
        "b[i] = (i > 0 ? i : 0.5f) / 2;",
        # The length changes on the way.
        "if (a[i] > 2.0f) given = 4; b[i + 1 < given ? i + 1 : 0] = a[i];",
        "int at = i; at += given; b[at < n - 1 ? at : 0] = a[i];",
        # Too far from the end.
        "if (i > 9) b[i] = a[i];",
    ],
)
def test_uncertain_conditions_stay(line: str) -> None:
    """No place is offered."""
    tables = "int moving[2] = {0, 1};\nstatic const int half[2] = {0, 'a'};"
    assert sites(line, before=tables) == []


@pytest.mark.parametrize(
    "head",
    [
        "int i = n - 1; i >= 0; i--",
        "int i = 0; i < n; i += 2",
        "unsigned i = 0; i < n; i++",
        "int i = 0; i < 9; i++",
    ],
)
def test_loops_that_are_left_alone(head: str) -> None:
    """Backwards, with steps, in numbers that wrap around, and those that are short."""
    assert sites("b[i > 0 ? i - 1 : 0] = a[i];", head=head) == []


def test_ends_that_are_asked_for_have_to_help() -> None:
    """An edit that decides nothing is refused with the reason."""
    program = program_of(LOOP % ("", UP, "b[i] = a[i];"), "f")
    edit = {"op": "peel_ends", "function": "f", "loop": "i", "first": 1, "last": 1}
    with pytest.raises(EditRefused, match="no question in loop i is decided"):
        apply_edits(program, [edit])
    with pytest.raises(EditRefused, match="0 and 9 iterations cannot"):
        apply_edits(program, [{**edit, "first": 0, "last": 9}])


def test_a_length_without_sign_is_compared_before_it_is_made_less() -> None:
    """``n - 1`` of nothing would be a large number."""
    head = "void f(const float *a, float *b, unsigned long n)"
    text = f"{head}\n{{\n    for (unsigned long i = 0; i < n; i++)\n        b[i] = a[(i + 1) % n];\n}}\n"
    program = program_of(text, "f")
    (site,) = OPERATORS["peel_ends"].sites(program.functions["f"], False)
    made = apply_edits(program, [{"op": "peel_ends", "function": "f", **site}]).variant.files[0].text
    assert "for (unsigned long i = 0; i < (n > 1 ? n - 1 : 0); i++)" in made
    assert "for (unsigned long i = n > 1 ? n - 1 : 0; i < n; i++)" in made


def test_a_length_that_changes_by_itself_decides_nothing() -> None:
    """Two reads of what is volatile need not agree."""
    text = (
        "void f(const float *a, float *b, %s n)\n{\n"
        "    for (int i = 0; i < n; i++)\n        b[i] = a[(i + 1) %% n];\n}\n"
    )
    found = [
        list(OPERATORS["peel_ends"].sites(program_of(text % kind, "f").functions["f"], False))
        for kind in ("register const int", "volatile int")
    ]
    assert [len(f) for f in found] == [1, 0]
