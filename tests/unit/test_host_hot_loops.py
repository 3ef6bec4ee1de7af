"""Innermost loops of machine code as text: those that lie deepest come first, and no more than a page of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tuner.evaluators.host.hot_loops import MOST_LINES, innermost_loops
from tuner.evaluators.host.toolchain import find_toolchain


def compiled(folder: Path, text: str) -> bytes:
    (folder / "k.c").write_text(text)
    clang = find_toolchain().clang
    subprocess.run([clang, "-O2", "-mavx2", "-c", "k.c", "-o", "k.o"], cwd=folder, check=True)
    return (folder / "k.o").read_bytes()


def test_the_loop_of_vectors_comes_first_with_what_it_computes_with(tmp_path: Path) -> None:
    """Beside it the loop of the other function, which lies in none."""
    text = """
    void nest(float *restrict y, const float *restrict x, int n) {
        for (int k = 0; k < n; k++)
            for (int i = 0; i < 4096; i++)
                y[i] += x[k * 4096 + i];
    }
    double sum(const double *x, int n) {
        double s = 0;
        #pragma clang loop unroll(disable)
        for (int i = 0; i < n; i++) s += x[i];
        return s;
    }
    """
    lines = innermost_loops(compiled(tmp_path, text)).splitlines()
    heads = [n for n, line in enumerate(lines) if line.startswith("loop ")]
    assert lines[heads[0]].startswith("loop at depth 2, ")
    assert "256-bit vector" in lines[heads[0]]
    assert lines[heads[1] - 1].strip().startswith("j")
    assert lines[heads[-1]].startswith("loop at depth 1, ")
    assert "1 scalar floating-point" in lines[heads[-1]]


@pytest.mark.parametrize("text", ["int one(void) { return 1; }", "int x;"])
def test_code_without_loops_has_none(tmp_path: Path, text: str) -> None:
    assert innermost_loops(compiled(tmp_path, text)) == ""


def test_a_long_loop_is_cut_in_the_middle(tmp_path: Path) -> None:
    body = "".join(f"x[i] = x[i] / {n} + y[(i * {n}) % 64];" for n in range(3, 90))
    text = f"void k(double *x, double *y, int n) {{ for (int i = 0; i < n; i++) {{ {body} }} }}"
    lines = innermost_loops(compiled(tmp_path, text)).splitlines()
    assert len(lines) <= MOST_LINES
    assert any(" more ..." in line for line in lines)
    assert lines[-1].strip().startswith("j")
    assert innermost_loops(b"no object") == ""
