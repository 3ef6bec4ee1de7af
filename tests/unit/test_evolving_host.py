"""A real run that evolves a real kernel: compiled, verified, timed, exported, audited."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from product_runs import SUMS
from spec_files import spec_in

from tuner.api import replay, tune_spec
from tuner.driver.options import Options

KERNEL = f"// Product of two square matrices.{SUMS}"

SPEC = """\
kernel: {source: product.c, entry: product}
problem: {n: 96}
arguments:
  - {name: a, dtype: float32, shape: [n, n], init: {uniform: [-1, 1]}}
  - {name: b, dtype: float32, shape: [n, n], init: {uniform: [-1, 1]}}
  - {name: c, dtype: float32, shape: [n, n], role: output}
  - {name: n, dtype: int32, value: n}
space:
  passes: off
  source: {evolve: true}
verify: {numerics: exact, rtol: 1.0e-5, atol: 1.0e-5, problems: [{n: 1}, {n: 37}], assume: ["n >= 1"]}
search:
  budget: {evaluations: 36}
"""


@pytest.mark.measured
def test_a_naive_product_gains_and_is_handed_over(tmp_path: Path) -> None:
    """The exported source is the winner's, the patch makes it of the original, and a replay finds no difference."""
    spec = spec_in(tmp_path, "product.c", KERNEL, SPEC)
    few = {"choose_processes": 2, "confirm_processes": 4}
    result = tune_spec(spec, Options(seed=1, workers=2, settings=few), out=tmp_path / "runs")
    assert result.improved
    assert result.speedup > 1.5
    value = result.to_json()
    assert value["evolution"]["edits"]
    assert {t["variant"] for t in result.rows} > {0}
    report = replay(result.path, rebuild=True)
    assert report.differences == []

    out = tmp_path / "out"
    names = {p.name for p in result.export(out)}
    assert {"product.c", "product.o", "product.patch", "result.json"} <= names
    exported = (out / "product.c").read_text()
    assert exported != KERNEL
    assert _patched(KERNEL, (out / "product.patch").read_text()) == exported

    shown = subprocess.run(
        [sys.executable, "-c", "from tuner.cli.main import main; main()", "show", str(result.path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "remix operators (no LLM)" in shown.stdout
    assert json.loads((out / "result.json").read_text())["evolution"]["variant"] > 0


def _patched(text: str, patch: str) -> str:
    """The text with a unified diff of one file applied."""
    lines, made, at = text.splitlines(keepends=True), list[str](), 0
    for line in patch.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            start = int(line.split()[1].split(",")[0][1:]) - 1
            made += lines[at:start]
            at = start
        elif line.startswith("+"):
            made.append(line[1:])
        else:
            assert lines[at] == line[1:]
            at += 1
            if line.startswith(" "):
                made.append(line[1:])
    return "".join(made + lines[at:])
