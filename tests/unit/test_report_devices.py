"""Runs over several devices: the report and the displays read their events as they read any other's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.cli.figures import Figures
from tuner.core.executors import Executor
from tuner.core.types import Task
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.recorders.record import RunRecord
from tuner.report import Follower
from tuner.report.data import collect
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

NONE = {"importance": None, "passes": None}


@pytest.fixture
def run(scale_spec: Callable[..., Path], tmp_path: Path) -> Path:
    (spec,) = load_spec(scale_spec(strategy="exhaustive", evaluations=120))
    backend = SimulatedBackend(seconds=lambda r: 1e-3 * (1 + 0.1 * int(r.macros["WIDTH"])))

    def make(task: Task) -> Executor:
        return ThreadExecutor(lambda: backend.prepare(task, workers=1), ["simulated"] * 3, builders=2)

    begin(spec, tmp_path / "many.run", Options(seed=3), backend=backend, executor=make)
    return tmp_path / "many.run"


def test_each_device_is_compared_with_itself(run: Path) -> None:
    """The baseline's drift starts at 1 on every device that timed it."""
    follower = Follower(run)
    follower.update()
    data = collect(follower, statistics=NONE)
    json.dumps(data, allow_nan=False)
    firsts: dict[Any, float] = {}
    for _, ratio, device in data["controls"]:
        firsts.setdefault(device, ratio)
    assert firsts
    assert set(firsts.values()) == {1.0}
    assert len(data["trials"]["number"]) == data["result"]["trials"]["total"]


def test_the_displays_count_the_same(run: Path) -> None:
    """Whatever the order in which trials came back."""
    figures = Figures()
    with RunRecord.read(run) as record:
        for event in record.events():
            figures.take(event.kind, {**event.body, "trial": event.trial})
    follower = Follower(run)
    follower.update()
    counts = follower.outcome.summary.trials
    assert figures.total == counts["total"]
    assert figures.phase == "done"
    assert figures.in_flight == {}
