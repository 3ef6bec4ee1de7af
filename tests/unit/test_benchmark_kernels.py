"""The fourteen PolyBench-style kernels: specs that load, regions that can be changed, baselines that verify."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tuner.driver.check import check_spec
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import read_program
from tuner.spaces.source.syntax import For
from tuner.spaces.source.walks import subtrees
from tuner.spec.load import load_spec

KERNELS = Path(__file__).resolve().parents[2] / "benchmarks" / "kernels"
NAMES = (
    *("2mm", "atax", "bicg", "correlation", "fdtd-2d", "floyd-warshall", "gemm"),
    *("heat-3d", "jacobi-2d", "lu", "mvt", "seidel-2d", "syrk", "trmm"),
)


def test_there_are_fourteen() -> None:
    """No more and no less."""
    assert sorted(p.stem for p in KERNELS.glob("*.yaml")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_source_is_understood(name: str) -> None:
    """Every loop is read, and some operator has places to try."""
    task = load_spec(KERNELS / f"{name}.yaml")[0].task
    text = task.kernel.variant.files[0].text
    (function,) = read_program(task.kernel).functions.values()
    assert len([part for part in subtrees(function.body) if isinstance(part, For)]) == text.count("for (")
    assert any(list(o.sites(function, False)) for o in OPERATORS.values())


# The others are baselines in `test_source_recipes_run`, and mvt in `test_remix_proposer`.
@pytest.mark.integration
@pytest.mark.parametrize("name", ["2mm", "bicg", "fdtd-2d", "heat-3d"])
def test_the_baseline_verifies(name: str, tmp_path: Path) -> None:
    """As ``tuner check`` says; the faults that it plants decide nothing of that, nor what edits there are."""
    text = (KERNELS / f"{name}.yaml").read_text()
    assert "  source: {evolve: true}\n" in text
    (tmp_path / f"{name}.yaml").write_text(text.replace("  source: {evolve: true}\n", ""))
    shutil.copy(KERNELS / f"{name}.c", tmp_path)
    report = check_spec(load_spec(tmp_path / f"{name}.yaml")[0], faults=False)
    assert report.ok, report.lines
