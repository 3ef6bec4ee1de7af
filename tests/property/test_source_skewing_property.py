"""Sweeps in strips and along diagonals compute bit for bit what the sweeps did, at any size: compiled and run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import needs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from same_results import program_of, same

from tuner.search.cooking import Attempt, try_operator
from tuner.spaces.source.edits import Applied, EditRefused, applied, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program

KERNELS = Path(__file__).resolve().parents[2] / "benchmarks" / "kernels"
FURTHER = ("unroll_and_jam", "strip_mine", "tile", "interchange", "fission", "fuse_shifted", "wavefront")


def variants_of(program: Program, seed: int) -> list[Applied]:
    """Every fusion, time tile and diagonal of a function, and something further done to each."""
    found: list[Applied] = []
    for label, function in program.functions.items():
        for name in ("fuse_shifted", "skew", "diagonals"):
            for site in OPERATORS[name].sites(function, False):
                try:
                    one = apply_edits(program, [{"op": name, "function": label, **site}])
                except EditRefused:
                    continue
                found += [one, *further(one, seed)]
    return found


def further(made: Applied, seed: int) -> Iterator[Applied]:
    """The variant after up to three more operators at random places."""
    rng = np.random.default_rng(seed)
    attempt = Attempt(program=made.program, edits=made.variant.edits, rng=rng, reassociate=False)
    for name in rng.choice(FURTHER, 3):
        attempt = try_operator(attempt, str(name)) or attempt
    if len(attempt.edits) > len(made.variant.edits):
        yield applied(attempt.program, attempt.edits)


@needs.cc
@pytest.mark.parametrize("name", ["fdtd-2d", "seidel-2d"])
@pytest.mark.integration
def test_the_sweeps_of_the_benchmarks_stay_the_same(name: str, tmp_path: Path) -> None:
    """Sizes from none to more than a strip, steps from none to more than a block."""
    entry = name.replace("-", "_")
    program = program_of((KERNELS / f"{name}.c").read_text(), entry)
    variants = variants_of(program, 3)
    ops = {v.variant.edits[0]["op"] for v in variants if v.variant.edits}
    assert ops >= ({"skew", "diagonals"} if name == "seidel-2d" else {"skew", "fuse_shifted"})
    assert all(v.checked for v in variants)
    assert not (text := same(program, entry, variants, tmp_path, trials=30)), text


@pytest.mark.integration
@needs.cc
@given(
    reads=st.lists(st.tuples(st.integers(-1, 1), st.integers(-2, 2)), min_size=1, max_size=4),
    low=st.tuples(st.integers(1, 2), st.integers(2, 3)),
    timed=st.booleans(),
)
@settings(
    deadline=None,
    max_examples=2,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_sweep_in_place_stays_the_same(
    reads: list[tuple[int, int]], low: tuple[int, int], timed: bool, tmp_path: Path
) -> None:
    """Along its diagonals, wherever a sweep looks; sizes and steps from none on."""
    value = " + ".join(f"a[(i + {i}) * m + j + {j}]" for i, j in [(0, -1), *reads])
    text = (
        "void f(float *a, int steps, int n, int m)\n{\n"
        + "for (int t = 0; t < steps; t++)\n" * timed
        + f"for (int i = {low[0]}; i < n - 1; i++) for (int j = {low[1]}; j < m - 2; j++)\n"
        + f"a[i * m + j] = 0.25f * ({value});\n}}\n"
    )
    program = program_of(text, "f")
    variants = [
        v for v in variants_of(program, 0) if v.variant.edits and v.variant.edits[0]["op"] == "diagonals"
    ]
    if variants:
        folder = tmp_path / os.urandom(4).hex()
        folder.mkdir()
        assert not (found := same(program, "f", variants, folder, trials=30)), found


@st.composite
def sweeps(draw: st.DrawFn) -> str:
    """Sweeps over one or two dimensions that read some neighbours, in a loop over time or not."""
    flat, timed = draw(st.booleans()), draw(st.booleans())
    near = st.integers(-2, 2)

    def place(array: str, row: int, column: int) -> str:
        return f"{array}[i + {row}]" if flat else f"{array}[(i + {row}) * m + j + {column}]"

    lines: list[str] = []
    if timed and draw(st.booleans()):
        lines.append("for (int j = 0; j < m; j++) a[j] = 0.5f * t;")
    for _ in range(draw(st.integers(1, 3))):
        target = draw(st.sampled_from("abc"))
        # Sweeps in place are what diagonals are for.
        others = st.sampled_from("abc") if draw(st.booleans()) else st.just(target)
        reads = [place(draw(others), draw(near), draw(near)) for _ in range(2)]
        low, high = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        inner = "" if flat else "for (int j = 2; j < m - 2; j++) "
        body = f"{place(target, 0, 0)} = 0.5f * {reads[0]} - 0.25f * {reads[1]};"
        lines.append(f"for (int i = {low}; i < n - {high}; i++) {inner}{body}")
    text = "\n".join(lines)
    text = f"for (int t = 0; t < steps; t++) {{\n{text}\n}}" if timed else text
    return f"void f(float *a, float *b, float *c, int steps, int n, int m)\n{{\n{text}\n}}\n"


@pytest.mark.integration
@needs.cc
@given(text=sweeps(), seed=st.integers(0, 1 << 20))
@settings(
    deadline=None,
    max_examples=2,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_sweeps_stay_the_same(text: str, seed: int, tmp_path: Path) -> None:
    """What is not refused is right."""
    program = program_of(text, "f")
    variants = variants_of(program, seed)
    if variants:
        folder = tmp_path / os.urandom(4).hex()
        folder.mkdir()
        assert not (found := same(program, "f", variants, folder, trials=40)), found
