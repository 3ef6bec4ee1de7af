"""Local arrays that an attribute behind their names aligns, as fast codes have them: loops with them are open."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from same_results import program_of, same, variants_of

from tuner.spaces.source.edits import apply_edits

BODY = """
    for (int i = 0; i + 16 <= n; i += 16) {
        double t[16] DECLARED;
        for (int j = 0; j < 16; j++)
            t[j] = 2 * b[i + j];
        for (int j = 0; j < 16; j++)
            a[i + j] = t[j] + t[15 - j];
    }
"""
DECLARED = (
    "__attribute__((aligned(64)))",
    "__attribute__ ((aligned (64))) = {0.5}",
    "__attribute__((__aligned__(32))) = {\n            1.0, 2.0}",
)


def text(declared: str) -> str:
    return f"void f(int n, double *a, const double *b)\n{{{BODY.replace('DECLARED', declared)}}}\n"


@pytest.mark.parametrize("declared", DECLARED)
def test_loops_around_aligned_arrays_are_open_and_the_arrays_stay_aligned(declared: str) -> None:
    edits = [{"op": "reverse", "function": "f", "loop": "j"}]
    shown = apply_edits(program_of(text(declared), "f"), edits).program.sources(presentable=True)[0].text
    assert f"        double t[16] {declared};\n" in shown
    built = apply_edits(program_of(text(declared), "f"), edits).program.sources()[0].text
    assert f"{declared.partition('=')[0].strip()} double t[16]" in built


def test_other_attributes_are_not_moved() -> None:
    odd = text("__attribute__((cleanup(done)))")
    program = program_of(odd, "f")
    assert "double t[16] __attribute__((cleanup(done)));" in program.sources()[0].text


@needs.cc
@pytest.mark.integration
@pytest.mark.parametrize("declared", DECLARED[:2])
def test_variants_with_aligned_arrays_compute_the_same(declared: str, tmp_path: Path) -> None:
    program = program_of(text(declared), "f")
    made = variants_of(program, 1, chains=2)
    assert len(made) > 4
    assert not same(program, "f", made, tmp_path, trials=10)
