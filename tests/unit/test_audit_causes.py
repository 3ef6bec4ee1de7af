"""Of a record whose proposal was changed, an audit names that one: what a searcher proposes later goes on from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_runs as made
import pytest

from tuner.cli.text import print_audit
from tuner.core.types import Resolved
from tuner.driver.audit import AuditReport, audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

SPEC = """\
kernel: {{source: scale.c, entry: scale}}
arguments:
  - {{name: a, dtype: float32, shape: [n]}}
  - {{name: b, dtype: float32, shape: [n], role: output}}
  - {{name: n, dtype: int32, value: n}}
problem: {{n: 64}}
space: {{parameters: {{STEP: {{low: 1, high: 40}}, WIDTH: {{low: 1, high: 40}}}}, passes: off}}
search: {{strategy: {strategy}, budget: {{evaluations: 30}}}}
"""

Change = Callable[[str, dict[str, Any]], dict[str, Any]]


def seconds(resolved: Resolved) -> float:
    step, width = (int(resolved.macros[name]) for name in ("STEP", "WIDTH"))
    return 1e-3 * (1 + 0.01 * abs(step - 30) + 0.01 * abs(width - 7))


def ran(folder: Path, strategy: str) -> Path:
    (folder / "scale.c").write_text(
        "void scale(const float *a, float *b, int n) { b[0] = a[0] * STEP * WIDTH; }\n"
    )
    (folder / "scale.yaml").write_text(SPEC.format(strategy=strategy))
    (spec,) = load_spec(folder / "scale.yaml")
    begin(spec, folder / "a.run", Options(seed=1, workers=1), backend=SimulatedBackend(seconds=seconds))
    return folder / "a.run"


def second_ask(run: Path) -> int:
    """The event's number."""
    with RunRecord.read(run) as record:
        return [event.seq for event in record.events() if event.kind == "ask"][1]


def audited(run: Path, *changes: Change) -> AuditReport:
    """The audit of the run with its second ask, and more, written by hand; the chain of hashes is whole."""
    asks = 0

    def change(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        nonlocal asks
        asks += kind == "ask"
        if kind == "ask" and asks == 2:
            body = {**body, "proposals": [with_step(p) for p in body["proposals"]]}
        for further in changes:
            body = further(kind, body)
        return body

    target = run.with_name("forged.run")
    made.rewritten(run, target, change)
    return audit(target)


def with_step(proposal: dict[str, Any]) -> dict[str, Any]:
    values = proposal["configuration"]
    return {**proposal, "configuration": {**values, "STEP": values["STEP"] % 40 + 1}}


@pytest.mark.parametrize("strategy", ["random", "evolution", "auto"])
@pytest.mark.integration
def test_the_first_difference_is_the_cause(
    strategy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was one line for each of thirty asks, all alike."""
    run = ran(tmp_path, strategy)
    report = audited(run)
    (cause,) = report.differences
    at = second_ask(run)
    assert cause.startswith(
        f"event {at} (ask): the searcher proposes something else from the same observations"
    )
    assert "in the record trial 2's STEP is " in cause
    assert not report.clean
    followers = [line for line in report.not_rederived if "later asks of the same searcher" in line]
    assert len(followers) == (0 if strategy == "random" else 1)
    assert all(f"may follow from event {at}: event" in line for line in followers)
    print_audit(report)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0].strip() for line in lines].count("differs") == 1


@pytest.mark.integration
def test_unforced_differences_are_reported(tmp_path: Path) -> None:
    """A decision is derived from the record alone: a claim that was written anew does not follow from a proposal."""

    def claimed(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "speedup": [9.0, 8.0, 10.0]} if kind == "verdict" else body

    report = audited(ran(tmp_path, "evolution"), claimed)
    assert len(report.differences) == 2
    assert "(verdict)" in report.differences[1]


@pytest.mark.integration
def test_a_proposal_outside_the_space_is_wrong_whatever_came_before(tmp_path: Path) -> None:
    asks = 0

    def outside(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        nonlocal asks
        asks += kind == "ask"
        if kind != "ask" or asks != 6:
            return body
        return {
            **body,
            "proposals": [
                {**p, "configuration": {**p["configuration"], "STEP": 99}} for p in body["proposals"]
            ],
        }

    report = audited(ran(tmp_path, "evolution"), outside)
    assert len(report.differences) == 2
    assert "STEP = 99 is out of range" in report.differences[1]
