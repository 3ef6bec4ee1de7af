"""Loops with their ends cut off compute bit for bit what they did, at any size: compiled and run."""

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

COUNTERS = ("int", "long", "size_t", "short", "unsigned")
CHOICES = (
    "({0} + {1} + {2}) % {2}",
    "({0} + {2} - {1}) % {2}",
    "({2} + {0} + own_shifts[k]) % {2}",
    "{0} + {1} < {2} ? {0} + {1} : 0",
    "{0} >= {1} ? {0} - {1} : {2} - 1",
    "{0} == 0 ? {2} - 1 : {0} - 1",
    "!({0} + 1 == {2}) ? {0} + 1 : {1}",
    "{0} > {1} && {0} < {2} - {1} ? {0} + k : {0}",
)
GUARDS = (
    "{0} >= {1} && {0} < {2} - 1",
    "p > 0 && k == 1",
    "{0} == 0 || {0} == {2} - 1",
    "{0} - {1} >= 0 && q < {2}",
    "!({0} < {1})",
)


@st.composite
def boundaries(draw: st.DrawFn) -> str:
    """A nest that asks for its boundaries in several ways."""
    kinds = [draw(st.sampled_from(COUNTERS)) for _ in range(3)]
    start, less = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    limit = draw(st.sampled_from([f"j < m - {less}", f"j <= m - {less + 1}", f"j < m + {less}"]))
    # Less than nothing is a large number without sign.
    least = 1 if kinds[2] in ("int", "long", "short") else 3
    ways = [draw(st.sampled_from(CHOICES)).format("j", draw(st.integers(0, 3)), "m") for _ in range(2)]
    guard = draw(st.sampled_from(GUARDS)).format("j", draw(st.integers(0, 3)), "m")
    # A variable that moves on is none of those that are known.
    moved = draw(st.sampled_from(["", "p += k;", "q = j;"]))
    outer = draw(st.sampled_from(["(i + n - 1) % n", "i > 0 ? i - 1 : i"]))
    return (
        "#include <stddef.h>\n"
        "static const int own_shifts[3] = {-1, 0, 2};\n"
        "void f(const float *a, float *b, float *c, int n, int m)\n{\n"
        f"if (m < {least}) return;\n"
        f"for ({kinds[0]} i = 0; i < n; i++) {{\n{kinds[1]} r = {outer};\n"
        f"for ({kinds[2]} j = {start}; {limit}; j++)\nfor (int k = 0; k < 3; k++) {{\n"
        f"int p = {ways[0]};\nlong q = {ways[1]};\n{moved}\n"
        f"float t = {draw(st.sampled_from(['j > 0 ? a[j] : 0.0f', 'j + 1 < m ? 0.5f : a[k]', 'a[j]']))};\n"
        f"if ({guard}) b[r * m + p] += a[q] + t; else c[i * m + j] -= t;\n"
        "}\n}\n}\n"
    )


def peeled(program: Program, edits: tuple[dict[str, object], ...] = ()) -> list[Applied]:
    """Every loop by itself."""
    found = []
    for site in OPERATORS["peel_ends"].sites(apply_edits(program, edits).program.functions["f"], False):
        try:
            found.append(apply_edits(program, [*edits, {"op": "peel_ends", "function": "f", **site}]))
        except EditRefused:
            continue
    return found


@pytest.mark.integration
@needs.cc
@given(texts=st.lists(boundaries(), min_size=2, max_size=2))
@settings(deadline=None, max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_loop_without_its_ends_is_the_loop(texts: list[str], tmp_path: Path) -> None:
    """Sizes from none on, so that ends meet or are all there is."""
    for text in texts:
        program = program_of(text, "f")
        variants = peeled(program)
        variants += [v for once in variants for v in peeled(program, once.variant.edits)]
        if not variants:
            continue
        assert all(v.checked for v in variants)
        folder = tmp_path / os.urandom(4).hex()
        folder.mkdir()
        assert not (found := same(program, "f", variants, folder, trials=60)), f"{found}\n{text}"
