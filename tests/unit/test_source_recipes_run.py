"""What recipes make of the benchmark kernels is right at odd sizes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tuner.core.types import BuildRequest, Problem, Resolved, Status, Task
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.evaluation import HostEvaluation
from tuner.search.cooking import Attempt, cook
from tuner.search.recipes import RECIPES
from tuner.spaces.source.edits import Applied, Edit, applied, apply_edits, crossover, without
from tuner.spaces.source.regions import Program, read_program
from tuner.spec.load import load_spec

KERNELS = Path(__file__).resolve().parents[2] / "benchmarks" / "kernels"
PLAIN = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
FEW = {
    "lu": ("swept", "triangle_rows"),
    "floyd-warshall": ("untied",),
    "trmm": ("triangle_product",),
    # Their recipes are run on others: it is their baselines that are verified here.
    "syrk": (),
    "correlation": (),
    "gemm": ("inner_product", "panel_product"),
    "atax": ("inner_sums", "loose", "many_sums", "reordered_sums"),
    "jacobi-2d": ("leaning", "together"),
    "seidel-2d": ("diagonal",),
    "stencil": ("streamed",),
}
WHOLE = ("gemm",)
"""Those on which every recipe is tried: each comes to something here or where it is needed."""
DRAWS = 3
"""For a recipe that has to come to something."""


@cache
def task_of(name: str) -> Task:
    """A kernel at the last of the odd sizes that its spec verifies; the verification draws others."""
    folder = KERNELS if (KERNELS / f"{name}.yaml").exists() else KERNELS.parent / "plain"
    task = load_spec(folder / f"{name}.yaml")[0].task_with(seed=3)
    return replace(task, problems=tuple(Problem(sizes=p.sizes) for p in task.verify.problems[-1:]))


@cache
def program_of(name: str) -> Program:
    """A kernel as given; what was found out about it for one recipe is known to the next."""
    return read_program(task_of(name).kernel)


@pytest.fixture
def evaluation(request: pytest.FixtureRequest) -> Iterator[HostEvaluation]:
    """Of the kernel that a test is about, its baseline set."""
    task = task_of(request.getfixturevalue("name"))
    with closing(HostBackend().prepare(task, workers=1)) as made:
        build = made.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=PLAIN)])[0]
        report = made.set_baseline(build, PLAIN)
        assert report.status is Status.OK, report.message
        yield made


def made_of(name: str, recipe: str, draws: int) -> Applied | None:
    """The first variant that a recipe makes of a kernel in some draws."""
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        made = cook(RECIPES[recipe], Attempt(program=program_of(name), edits=(), rng=rng, reassociate=True))
        if made is not None and made.edits:
            return applied(made.program, made.edits)
    return None


def wrong(evaluation: HostEvaluation, made: Applied, rng: np.random.Generator) -> str:
    """What is wrong with a variant at drawn sizes of its tunables; empty when nothing is."""
    values = {p.name: int(p.values[int(rng.integers(len(p.values)))]) for p in made.parameters}
    resolved = replace(PLAIN, macros=values)
    build = evaluation.build([BuildRequest(trial=1, variant=made.variant, resolved=resolved)])[0]
    if build.status is not Status.OK:
        return f"{build.status}: {build.message} {values}"
    with closing(evaluation.open(build, resolved, purpose="search", number=0)) as session:
        verdict = session.verify()
    return "" if verdict.status is Status.OK else f"{verdict.status}: {verdict.message} {values}"


@pytest.mark.parametrize("name", FEW)
@pytest.mark.integration
def test_recipes_are_right(name: str, evaluation: HostEvaluation) -> None:
    """Those that the kernel needs make something of it, and what any makes is right."""
    rng = np.random.default_rng(7)
    for recipe in RECIPES if name in WHOLE else FEW[name]:
        needed = recipe in FEW[name]
        made = made_of(name, recipe, DRAWS if needed else 1)
        assert made or not needed, recipe
        if made:
            assert made.checked or not needed
            text = wrong(evaluation, made, rng)
            assert not text, f"{recipe}: {text}\n{made.variant.files[0].text}"


def test_blocks_divide_the_tiles_that_they_are_in() -> None:
    """What holds of two edits' tunables holds while both are there."""
    program = program_of("gemm")
    made = cook(
        RECIPES["panel_product"],
        Attempt(program=program, edits=(), rng=np.random.default_rng(0), reassociate=False),
    )
    assert made is not None
    whole = applied(made.program, made.edits)
    assert {"TILE_I % ROWS_I == 0", "TILE_J % (VECTORS_J * LANES_J) == 0"} <= set(whole.constraints)
    tiles = next(n for n, e in enumerate(made.edits) if e["op"] == "tile")
    less = without(program, made.edits, {tiles})
    assert {p.name for p in less.parameters} >= {"ROWS_I", "VECTORS_J"}
    assert not any("TILE_" in c for c in less.constraints)
    both = crossover(program, _tiled(program), made.edits, (1, 0))
    sizes = {p.name for p in both.parameters}
    assert "TILE_I_2" in sizes
    assert "TILE_I_2 % ROWS_I == 0" in both.constraints


def _tiled(program: Program) -> list[Edit]:
    """One edit whose tunables have the names that a recipe's have as well."""
    tunable = {"name": "TILE_I", "values": [8, 16], "default": 8}
    edit = {"op": "strip_mine", "function": "gemm", "loops": ["i"], "parameters": [tunable]}
    return list(apply_edits(program, [edit]).variant.edits)
