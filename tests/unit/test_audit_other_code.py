"""Proposals of a run that was made by other searchers than today's are not called forged, only not derived again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import made_runs as made
import pytest
from spec_files import spec_in

from tuner.driver.audit import AuditReport, audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.recorders.record import RunRecord
from tuner.testing import SimulatedBackend

SPEC = """\
kernel: {source: scale.c, entry: scale}
arguments:
  - {name: a, dtype: float32, shape: [n]}
  - {name: b, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
problem: {n: 64}
space: {parameters: {STEP: {low: 1, high: 40}}, passes: off}
search: {strategy: random, budget: {evaluations: 8}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    spec = spec_in(
        folder, "scale.c", "void scale(const float *a, float *b, int n) { b[0] = a[0] * STEP; }\n", SPEC
    )
    backend = SimulatedBackend(seconds=lambda resolved: 1e-3 / int(resolved.macros["STEP"]))
    begin(spec, folder / "scale.run", Options(seed=1, workers=1), backend=backend)
    return folder / "scale.run"


def with_other_proposals(run: Path, target: Path, code: str) -> AuditReport:
    """The audit of the run with other last proposals, said to be of some version of the searchers."""
    with RunRecord.read(run) as record:
        asks = [event.body["first"] for event in record.events() if event.kind == "ask"]

    def change(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        if kind == "start":
            return {**body, "search_code": code}
        if kind == "ask" and body["first"] == asks[-1]:
            return {**body, "proposals": [with_step(p) for p in body["proposals"]]}
        return body

    made.rewritten(run, target, change)
    return audit(target)


def with_step(proposal: dict[str, Any]) -> dict[str, Any]:
    """The same proposal, one step further."""
    values = proposal["configuration"]
    return {**proposal, "configuration": {**values, "STEP": values["STEP"] % 40 + 1}}


def code_of(run: Path) -> str:
    """What the run says of the code that proposed."""
    with RunRecord.read(run) as record:
        return str(next(iter(record.events())).body["search_code"])


def test_a_run_says_what_code_proposed(run: Path) -> None:
    assert re.fullmatch("[0-9a-f]{64}", code_of(run))
    assert audit(run).clean


def test_other_proposals_of_the_same_code_differ(run: Path, tmp_path: Path) -> None:
    report = with_other_proposals(run, tmp_path / "forged.run", code_of(run))
    assert not report.clean
    assert "(ask)" in report.differences[0]


def test_other_proposals_of_other_code_are_not_derived_again(run: Path, tmp_path: Path) -> None:
    report = with_other_proposals(run, tmp_path / "older.run", "0" * 64)
    assert report.clean
    assert "made by other searchers" in report.not_rederived[0]
