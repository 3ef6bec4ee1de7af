"""A run from start to end over a simulated backend: budgets, statuses, claims, interruption, resume, replay."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import made_runs
import pytest
from instants import Instants, InterruptAt, killed
from run_events import decided, events

from tuner.api import tune_spec
from tuner.core.errors import AuditError, UsageError
from tuner.core.types import Resolved, Status
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.records import find_newest
from tuner.driver.runs import begin, resume
from tuner.driver.work.engine import Interruption
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]


def landscape(resolved: Resolved) -> float:
    """Best at STEP 8 and WIDTH 5; twice as fast as the default."""
    step, width = int(resolved.macros["STEP"]), int(resolved.macros["WIDTH"])
    return 1e-3 * (0.5 + 0.1 * abs(math.log2(step) - 3) + 0.05 * abs(width - 5))


def outcome(resolved: Resolved) -> Status:
    """A corner of the space fails in several ways."""
    step, width = int(resolved.macros["STEP"]), int(resolved.macros["WIDTH"])
    if width == 3:
        return Status.WRONG_RESULT
    if step == 64:
        return Status.BUILD_ERROR
    if step == 32 and width == 7:
        return Status.CRASHED
    return Status.OK


def backend(**more: Any) -> SimulatedBackend:
    return SimulatedBackend(**{"seconds": landscape, "outcome": outcome, **more})


@pytest.fixture
def spec(scale_spec: SpecWriter) -> LoadedSpec:
    (loaded,) = load_spec(scale_spec(evaluations=40))
    return loaded


def test_finds_the_better_half_and_claims_it(spec: LoadedSpec, tmp_path: Path) -> None:
    result = begin(spec, tmp_path / "a.run", Options(seed=3), backend=backend())
    assert result.summary.improved
    assert result.summary.speedup[0] == pytest.approx(
        landscape(_resolved(1, 1)) / landscape(_resolved_of(result.summary.configuration)), rel=0.02
    )
    assert result.summary.speedup[1] > 1
    assert result.summary.stopped_by == "evaluations"
    counts = result.summary.trials
    assert counts["total"] - counts["duplicate"] - counts["pruned"] == 40
    assert counts["wrong_result"] > 0
    assert counts["build_error"] > 0
    assert audit(result.path, backend=backend()).clean


def _resolved(step: int, width: int) -> Resolved:
    return Resolved(macros={"STEP": step, "WIDTH": width}, scalars={}, flags=(), pipeline=None)


def _resolved_of(configuration: Mapping[str, Any]) -> Resolved:
    return _resolved(configuration["STEP"], configuration["WIDTH"])


def test_json_has_the_contract_fields(spec: LoadedSpec, tmp_path: Path) -> None:
    value = begin(spec, tmp_path / "a.run", Options(), backend=backend()).to_json()
    parsed = json.loads(json.dumps(value, allow_nan=False))
    assert parsed["schema_version"] == 1
    assert {
        "run",
        "kernel",
        "backend",
        "device",
        "improved",
        "baseline",
        "best",
        "speedup",
        "trials",
        "llm",
    } <= set(parsed)
    assert {"wall_s", "stopped_by"} <= set(parsed)
    assert set(parsed["best"]) == {"time_s", "ci95", "trial", "configuration", "variant"}
    assert parsed["trials"]["total"] == sum(v for k, v in parsed["trials"].items() if k != "total")


def test_nothing_better_gives_the_baseline(spec: LoadedSpec, tmp_path: Path) -> None:
    flat = backend(seconds=lambda _: 1e-3, outcome=lambda _: Status.OK)
    value = begin(spec, tmp_path / "a.run", Options(), backend=flat).to_json()
    assert value["improved"] is False
    assert value["best"]["trial"] == 0
    assert value["speedup"] == {"value": 1.0, "ci95": [1.0, 1.0]}


def test_equal_code_is_a_duplicate_and_costs_nothing(spec: LoadedSpec, tmp_path: Path) -> None:
    same = backend(same_code=lambda r: int(r.macros["WIDTH"]), outcome=lambda _: Status.OK)
    options = Options(evaluations=30, settings={"simpler": 0})
    result = begin(spec, tmp_path / "a.run", options, backend=same)
    counts = result.summary.trials
    assert counts["duplicate"] > 0
    assert counts["ok"] == 8
    assert result.summary.stopped_by == "exhausted"


def test_a_failing_baseline_claims_nothing(spec: LoadedSpec, tmp_path: Path) -> None:
    broken = backend(outcome=lambda _: Status.BUILD_ERROR)
    result = begin(spec, tmp_path / "a.run", Options(), backend=broken)
    assert result.failed
    assert result.to_json()["baseline"]["time_s"] is None


@pytest.mark.integration
def test_choosing_leaves_the_time_that_confirming_needs(spec: LoadedSpec, tmp_path: Path) -> None:
    """Fresh processes of seconds, as where a compiler's runtime starts in each: fewer of them choose."""
    now = [0.0]
    for cost_s in (1.4, 2.0):

        def slow(event: str, cost_s: float = cost_s) -> None:
            now[0] += cost_s if event == "verify" else 0.02

        options = Options(minutes=2.0, evaluations=40, settings={"finalists": 2})
        path = tmp_path / f"{cost_s}.run"
        found = begin(spec, path, options, backend=backend(on_event=slow), clock=lambda: now[0])
        assert found.summary.claim == "improved"
        assert audit(path, backend=backend()).clean


@pytest.mark.integration
def test_searching_leaves_the_time_that_choosing_and_confirming_need(
    spec: LoadedSpec, tmp_path: Path
) -> None:
    """A busy laptop and a short budget: a process takes long beside the time that is kept as a share of the whole."""
    now, cost_s = [0.0], 0.7

    def slow(event: str) -> None:
        now[0] += cost_s if event == "verify" else 0.02

    options = Options(minutes=0.5, evaluations=60)
    found = begin(spec, tmp_path / "a.run", options, backend=backend(on_event=slow), clock=lambda: now[0])
    assert found.summary.claim == "improved"
    assert found.summary.wall_s <= 0.5 * 60 + 2 * cost_s
    assert audit(found.path, backend=backend()).clean


def test_minutes_end_a_run_and_keep_time_to_confirm(spec: LoadedSpec, tmp_path: Path) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 0.01
        return now[0]

    options = Options(minutes=0.2)
    result = begin(spec, tmp_path / "a.run", options, backend=backend(), clock=clock)
    # Too short to choose by fresh processes as well, and too short for anything.
    short = begin(spec, tmp_path / "b.run", Options(minutes=0.01), backend=backend(), clock=clock)
    shorter = begin(spec, tmp_path / "c.run", Options(minutes=0.004), backend=backend(), clock=clock)
    assert result.summary.stopped_by in ("minutes", "evaluations")
    assert result.summary.wall_s <= 0.2 * 60 + 1
    assert short.summary.claim == "improved"
    assert short.summary.wall_s <= 0.01 * 60 + 0.1
    assert shorter.summary.claim in ("none", "not_confirmed")
    assert not shorter.summary.improved


@pytest.mark.integration
def test_interrupt_and_resume_end_as_one_run(spec: LoadedSpec, tmp_path: Path) -> None:
    whole = begin(spec, tmp_path / "whole.run", Options(seed=5, evaluations=16), backend=backend())
    stop = InterruptAt(count=30)
    path = tmp_path / f"{spec.name}-1.run"
    first = begin(
        spec,
        path,
        Options(seed=5, evaluations=16),
        backend=backend(),
        observers=[stop],
        interruption=stop.interruption,
    )
    assert first.interrupted
    assert first.summary.stopped_by == "interrupted"
    assert find_newest(tmp_path, spec) == path
    second = resume(path, backend=backend())
    assert not second.interrupted
    assert decided(path) == decided(whole.path)
    assert audit(path, backend=backend()).clean


def _interrupted(spec: LoadedSpec, path: Path) -> None:
    stop = InterruptAt("trial", 5)
    assert begin(
        spec, path, Options(), backend=backend(), observers=[stop], interruption=stop.interruption
    ).interrupted


def _made_older(path: Path, by_s: float) -> None:
    then = path.stat().st_mtime - by_s
    os.utime(path, (then, then))


@pytest.mark.parametrize("content", [b"", b"no record" * 1000], ids=["empty", "other"])
def test_a_newer_record_that_cannot_be_read_is_passed_over(
    content: bytes, spec: LoadedSpec, tmp_path: Path
) -> None:
    """It may be of any spec: what can go on goes on, and both are said."""
    whole, broken = tmp_path / f"{spec.name}-1.run", tmp_path / f"{spec.name}-2.run"
    _interrupted(spec, whole)
    broken.write_bytes(content)
    _made_older(whole, 60.0)
    notes: list[str] = []
    result = tune_spec(spec, Options(), out=tmp_path, go_on=True, backend=backend(), note=notes.append)
    assert result.path == whole
    assert not result.outcome.interrupted
    passed, taken = notes
    assert passed.startswith(f"passed over: {broken} ")
    assert taken == f"{whole} is the newest unfinished run that can be read, and goes on"
    # Now nothing is left that can go on, and the reason may be in the other file.
    with pytest.raises(
        UsageError, match=rf"no unfinished run of {spec.name} in .*; .*{broken.name} .*start one"
    ):
        find_newest(tmp_path, spec)


def test_a_damaged_record_of_the_run_itself_is_not_passed_over(spec: LoadedSpec, tmp_path: Path) -> None:
    """It is what was asked for: another run in its place would go on unasked."""
    older, newer = tmp_path / f"{spec.name}-1.run", tmp_path / f"{spec.name}-2.run"
    _interrupted(spec, older)
    _interrupted(spec, newer)
    _made_older(older, 60.0)
    with contextlib.closing(sqlite3.connect(newer)) as connection, connection:
        connection.execute("UPDATE event SET body = '{}' WHERE seq = 9")
    Path(f"{newer}.sha256").unlink()
    notes: list[str] = []
    with pytest.raises(AuditError, match=rf"event 9 in .*{newer.name} is missing or changed"):
        tune_spec(spec, Options(), out=tmp_path, go_on=True, backend=backend(), note=notes.append)
    assert notes == []


def test_resume_elsewhere_is_refused_unless_forced(spec: LoadedSpec, tmp_path: Path) -> None:
    interruption = Interruption()
    interruption.set()
    path = tmp_path / "a.run"
    begin(spec, path, Options(), backend=backend(), interruption=interruption)

    class Elsewhere(SimulatedBackend):
        def environment(self, target: str) -> Mapping[str, Any]:
            return {"device": "another", "target": target}

    other = Elsewhere(seconds=landscape, outcome=outcome)
    with pytest.raises(UsageError, match="another environment"):
        resume(path, backend=other)
    assert not resume(path, backend=other, force=True).interrupted
    assert [body for kind, _, body in events(path) if kind == "resume"][-1]["environment"]["backend"][
        "device"
    ] == "another"


@pytest.mark.integration
def test_killed_after_events_and_resumed_ends_the_same(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """After the first and the last of each kind; those of ``auto`` are in ``test_driver_evolving``."""
    (loaded,) = load_spec(scale_spec(evaluations=3, strategy="random"))
    options = Options(seed=2, workers=2, settings={"choose_processes": 2, "confirm_processes": 4})
    whole = begin(loaded, tmp_path / "whole.run", options, backend=backend())
    expected = decided(whole.path)
    kinds = [kind for kind, _, _ in events(whole.path)]
    last = dict(zip(kinds[:-1], range(1, len(kinds)), strict=True))
    first = dict(zip(kinds[-2::-1], range(len(kinds) - 1, 0, -1), strict=True))
    for kill_at in sorted({*first.values(), *last.values()}):
        path = tmp_path / f"killed-{kill_at}.run"
        killed(run_of(loaded, path, options), kill_at)
        result = resume(path, backend=backend())
        assert decided(path) == expected, f"killed at event {kill_at}"
        assert result.summary.speedup == whole.summary.speedup


def run_of(loaded: LoadedSpec, path: Path, options: Options) -> Callable[[Instants], object]:
    return lambda instants: begin(loaded, path, options, backend=backend(), observers=[instants])


def test_an_altered_decision_is_found(spec: LoadedSpec, tmp_path: Path) -> None:
    """A record that was written anew with a valid chain but another decision does not pass the replay."""
    result = begin(spec, tmp_path / "a.run", Options(evaluations=10), backend=backend())

    def change(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "claim": "improved", "speedup": [9.0, 8.0, 10.0]} if kind == "verdict" else body

    made_runs.rewritten(result.path, tmp_path / "forged.run", change)
    report = audit(tmp_path / "forged.run", backend=backend())
    assert not report.clean
    assert "verdict" in report.differences[0]


@pytest.mark.integration
def test_rebuild_and_remeasure(spec: LoadedSpec, tmp_path: Path) -> None:
    result = begin(spec, tmp_path / "a.run", Options(seed=3, evaluations=16), backend=backend())
    report = audit(result.path, rebuild=True, remeasure=True, backend=backend())
    assert report.clean
    assert report.rebuilt is not None
    assert report.rebuilt > 5
    assert report.claim_stands
    changed = audit(result.path, rebuild=True, backend=backend(same_code=lambda r: dict(r.macros)))
    assert not changed.clean


def test_lost_trials_are_tried_again(spec: LoadedSpec, tmp_path: Path) -> None:
    """A machine's fault costs no trial its number; one that stays lost ends as lost."""
    calls = {"n": 0}

    def lost_twice(resolved: Resolved) -> Status:
        if int(resolved.macros["WIDTH"]) == 2:
            calls["n"] += 1
            return Status.LOST
        return Status.OK

    result = begin(spec, tmp_path / "a.run", Options(evaluations=20), backend=backend(outcome=lost_twice))
    attempts = [t for k, t, b in events(result.path) if k == "trial" and b["status"] == "lost"]
    assert result.summary.trials["lost"] == len(set(attempts)) > 0
    assert len(attempts) == 3 * len(set(attempts))
    assert audit(result.path, backend=backend(outcome=lost_twice)).clean
