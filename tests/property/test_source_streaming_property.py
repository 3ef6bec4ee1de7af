"""Loops whose results go past the caches compute bit for bit what they did, at any size and place: compiled and run."""

from __future__ import annotations

import os
from pathlib import Path

import needs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from same_results import program_of, same

from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program

FIRST = ("unroll_and_jam", "tile", "interchange", "restrict")


def everywhere(program: Program, before: Applied | None, name: str) -> list[Applied]:
    """What an operator makes of a program at each place where it applies."""
    edits = [] if before is None else list(before.variant.edits)
    function = (program if before is None else before.program).functions["f"]
    found = []
    for site in OPERATORS[name].sites(function, False):
        try:
            found.append(apply_edits(program, [*edits, {"op": name, "function": "f", **site}]))
        except EditRefused:
            continue
    return found


def streamed(program: Program) -> list[Applied]:
    """Every place by itself, and after one other operator."""
    found = everywhere(program, None, "stream_stores")
    for name in FIRST:
        for before in everywhere(program, None, name):
            found += everywhere(program, before, "stream_stores")
    return found


@st.composite
def stores(draw: st.DrawFn) -> str:
    """Nests that write one or two arrays from a third: rectangles and triangles, scalars and columns on the way."""
    low, high = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    limit = draw(st.sampled_from([f"m - {high}", "i", f"i + {high}"]))
    reads = [f"a[(i + {draw(st.integers(-2, 2))}) * m + j + {draw(st.integers(-2, 2))}]" for _ in range(2)]
    value = f"0.5f * {reads[0]} - {reads[1]}"
    scalar, named = draw(st.booleans()), draw(st.booleans())
    place = "p" if named else "i * m + j"
    lines = ["const int p = i * m + j;"] * named + [f"const float t = {value};"] * scalar
    lines.append(f"b[{place}] = {'t' if scalar else value};")
    if draw(st.booleans()):
        lines.append(f"c[{place}] = 0.25f * a[{place}];")
    inner = "\n".join(lines)
    return (
        "void f(const float *a, float *b, float *c, int n, int m)\n{\n"
        f"for (int i = 2; i < n; i++) {{\nfor (int j = {low}; j < {limit}; j++) {{\n{inner}\n}}\n}}\n}}\n"
    )


TWO = """void f(const float *a, float *b, float *c, int n, int m)
{
    for (int i = 2; i < n; i++)
        for (int j = 0; j < m; j++) {
            b[i * m + j] = 0.5f * a[i * m + j];
            c[i * m + j] = a[i * m + j] - 1.0f;
        }
}
"""


@needs.cc
def test_two_results_of_one_loop(tmp_path: Path) -> None:
    """Each has a vector of its own on its way."""
    program = program_of(TWO, "f")
    variants = streamed(program)
    assert variants
    assert variants[0].variant.files[0].text.count("__builtin_nontemporal_store") == 2
    assert not (found := same(program, "f", variants, tmp_path, trials=40)), found


@needs.cc
@given(text=stores())
@settings(
    deadline=None,
    max_examples=4,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@pytest.mark.integration
def test_streamed_values_are_the_stored_ones(text: str, tmp_path: Path) -> None:
    """Rows of any length begin and end anywhere in a vector."""
    program = program_of(text, "f")
    variants = streamed(program)
    assert variants or "j < m" not in text
    if variants:
        assert all("__builtin_nontemporal_store" in v.variant.files[0].text for v in variants)
        assert all(v.checked for v in variants)
        folder = tmp_path / os.urandom(4).hex()
        folder.mkdir()
        assert not (found := same(program, "f", variants, folder, trials=40)), f"{found}\n{text}"
