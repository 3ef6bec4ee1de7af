"""Runs over several devices, simulated in threads: same result, fair comparison, losses, resume, replay."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from instants import InterruptAt

from tuner.core.executors import Executor, MakeExecutor
from tuner.core.types import Resolved, Status, Task
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.driver.state.run import RunState
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]


def landscape(resolved: Resolved) -> float:
    """Best at STEP 8 and WIDTH 5; twice as fast as the default."""
    step, width = int(resolved.macros["STEP"]), int(resolved.macros["WIDTH"])
    return 1e-3 * (0.5 + 0.1 * abs(math.log2(step) - 3) + 0.05 * abs(width - 5))


def outcome(resolved: Resolved) -> Status:
    step, width = int(resolved.macros["STEP"]), int(resolved.macros["WIDTH"])
    return Status.WRONG_RESULT if width == 3 else Status.BUILD_ERROR if step == 64 else Status.OK


def backend(**more: Any) -> SimulatedBackend:
    return SimulatedBackend(**{"seconds": landscape, "outcome": outcome, **more})


def devices(count: int, keep: list[ThreadExecutor] | None = None, **more: Any) -> MakeExecutor:
    """An executor of some simulated devices; what is made is appended to ``keep``."""

    def make(task: Task) -> Executor:
        made = ThreadExecutor(
            lambda: backend(**more).prepare(task, workers=1), ["simulated"] * count, builders=2
        )
        if keep is not None:
            keep.append(made)
        return made

    return make


def state_of(path: Path) -> RunState:
    with RunRecord.read(path) as record:
        return open_state(record)[0]


@pytest.fixture
def spec(scale_spec: SpecWriter) -> LoadedSpec:
    """All of 56 configurations, without the flags, which change nothing here."""
    path = scale_spec(strategy="exhaustive", evaluations=200)
    path.write_text(path.read_text().replace('  flags: {vector: ["", "-fno-vectorize"]}\n', ""))
    (loaded,) = load_spec(path)
    return loaded


_BASELINE = 3
"""Measurements that a device may make before the first of a candidate: the rounds of the baseline."""


def together(count: int) -> Callable[[str], None]:
    """Lets no device get on until each has measured a candidate: a loaded machine may start a thread late."""
    barrier, made = threading.Barrier(count, timeout=60.0), threading.local()

    def event(name: str) -> None:
        if name == "measure":
            made.count = getattr(made, "count", 0) + 1
            if made.count == _BASELINE + 1:
                barrier.wait()

    return event


@pytest.mark.integration
def test_the_whole_space_gives_the_same_winner_on_any_number_of_devices(
    spec: LoadedSpec, tmp_path: Path
) -> None:
    count = 8
    alone = begin(spec, tmp_path / "alone.run", Options(seed=3), backend=backend())
    path = tmp_path / "many.run"
    executor = devices(count, on_event=together(count))
    many = begin(spec, path, Options(seed=3), backend=backend(), executor=executor)
    assert many.summary.configuration == alone.summary.configuration
    assert many.summary.trials == alone.summary.trials
    assert many.summary.improved
    report = audit(path, backend=backend())
    assert report.clean, report.differences
    assert report.decisions > 50
    used = Counter(t.lane for t in state_of(path).trials.values() if t.rounds)
    assert len(used) == count
    # Each trial is timed on one device, and what confirms on the first.
    placed: dict[int, int] = {}
    with RunRecord.read(path) as record:
        for event in record.events():
            if event.kind == "place" and event.trial is not None:
                assert event.trial not in placed
                placed[event.trial] = event.body["lane"]
            if event.kind == "final":
                assert event.body["lane"] == 0
    assert set(placed.values()) == set(range(count))


@pytest.mark.integration
def test_devices_of_unequal_speed_give_scores_over_their_own_baseline(
    spec: LoadedSpec, tmp_path: Path
) -> None:
    """Every other device is 1.5 times as slow: its trials are not worse for that."""
    made = 0
    lock = threading.Lock()

    def make(task: Task) -> Executor:
        def evaluation() -> Any:
            nonlocal made
            with lock:
                made += 1
                factor = 1.0 if made % 2 else 1.5
            return backend(seconds=lambda r: factor * landscape(r)).prepare(task, workers=1)

        return ThreadExecutor(evaluation, ["simulated"] * 4, builders=2)

    path = tmp_path / "a.run"
    result = begin(spec, path, Options(seed=3), backend=backend(), executor=make)
    assert (result.summary.configuration["STEP"], result.summary.configuration["WIDTH"]) == (8, 5)
    state = state_of(path)
    base = landscape(Resolved(macros={"STEP": 1, "WIDTH": 1}, scalars={}, flags=(), pipeline=None))
    for trial in state.trials.values():
        if trial.status is Status.OK and trial.score is not None and not trial.raced:
            macros = {k: v for k, v in trial.proposal.configuration.items() if k != "vector"}
            true = landscape(Resolved(macros=macros, scalars={}, flags=(), pipeline=None)) / base
            assert math.exp(trial.score) == pytest.approx(true, rel=0.06)


@pytest.mark.integration
def test_lost_devices_cost_nothing_and_new_ones_join(spec: LoadedSpec, tmp_path: Path) -> None:
    kept: list[ThreadExecutor] = []

    class Trouble:
        """Every tenth trial a device is lost and another joins."""

        trials = lost = 0

        def event(self, kind: str, body: Any) -> None:
            self.trials += kind == "trial"
            if kind == "trial" and self.trials % 10 == 0 and self.lost < 6:
                kept[0].lose(self.lost)
                kept[0].join("simulated")
                self.lost += 1

    path = tmp_path / "a.run"
    slow = devices(3, kept, on_event=lambda _: time.sleep(0.002))
    result = begin(spec, path, Options(seed=3), backend=backend(), executor=slow, observers=[Trouble()])
    whole = begin(spec, tmp_path / "whole.run", Options(seed=3), backend=backend())
    assert result.summary.configuration == whole.summary.configuration
    assert result.summary.trials == whole.summary.trials
    state = state_of(path)
    assert sum(not lane.alive for lane in state.lanes.values()) >= 2
    assert audit(path, backend=backend()).clean


@pytest.mark.integration
def test_an_interrupted_run_goes_on_with_other_devices(spec: LoadedSpec, tmp_path: Path) -> None:
    stop = InterruptAt("trial", 20)
    path = tmp_path / "a.run"
    cut = begin(
        spec,
        path,
        Options(seed=3),
        backend=backend(),
        executor=devices(4),
        observers=[stop],
        interruption=stop.interruption,
    )
    assert cut.interrupted
    result = resume(path, backend=backend(), executor=devices(2))
    whole = begin(spec, tmp_path / "whole.run", Options(seed=3), backend=backend())
    assert not result.interrupted
    assert result.summary.trials == whole.summary.trials
    assert result.summary.configuration == whole.summary.configuration
    report = audit(path, backend=backend())
    assert report.clean, report.differences


@pytest.mark.parametrize("strategy", ["random", "auto"])
@pytest.mark.integration
def test_searchers_with_many_in_flight(scale_spec: SpecWriter, tmp_path: Path, strategy: str) -> None:
    (spec,) = load_spec(scale_spec(strategy=strategy, evaluations=32))
    path = tmp_path / "a.run"
    result = begin(spec, path, Options(seed=1), backend=backend(), executor=devices(8))
    counts = result.summary.trials
    assert counts["total"] - counts["duplicate"] - counts["pruned"] == 32
    assert result.summary.speedup[0] > 1.3
    report = audit(path, backend=backend())
    assert report.clean, report.differences
    assert report.proposals >= 28


@pytest.mark.integration
def test_a_budget_in_time_is_kept(spec: LoadedSpec, tmp_path: Path) -> None:
    started = 0.0

    def clock() -> float:
        nonlocal started
        started += 0.05
        return started

    path = tmp_path / "a.run"
    result = begin(
        spec, path, Options(seed=3, minutes=0.2), backend=backend(), executor=devices(3), clock=clock
    )
    assert result.summary.stopped_by == "minutes"
    report = audit(path, backend=backend())
    assert report.clean, report.differences


def wide(scale_spec: SpecWriter, extra: str = "", evaluations: int = 70) -> LoadedSpec:
    """A spec with 4,096 configurations, enough for the cost model to have something to say."""
    path = scale_spec(strategy="random", evaluations=evaluations)
    (path.parent / "scale.c").write_text(
        "void scale(const float *a, float *b, int n) { for (int i = 0; i < n; i++) b[i] = 2.0f * a[i]; }\n"
    )
    document = yaml.safe_load(path.read_text())
    values = [1, 2, 4, 8, 16, 32, 64, 128]
    document["space"] = {"parameters": dict.fromkeys(("ALPHA", "BETA", "GAMMA", "DELTA"), values)}
    path.write_text(yaml.safe_dump(document) + extra)
    (loaded,) = load_spec(path)
    return loaded


def wide_seconds(resolved: Resolved) -> float:
    a, b, c = (math.log2(int(resolved.macros[name])) for name in ("ALPHA", "BETA", "GAMMA"))
    return 1e-3 * math.exp(0.4 * abs(a - 5) + 0.3 * abs(b - 2) + 0.05 * c)


def wide_features(resolved: Resolved) -> dict[str, float]:
    return {"loads_count": 1000 * wide_seconds(resolved), "text_bytes": float(resolved.macros["BETA"])}


@pytest.mark.integration
def test_the_cost_model_is_asked_over_several_devices(scale_spec: SpecWriter, tmp_path: Path) -> None:
    more = {"seconds": wide_seconds, "outcome": lambda _: Status.OK, "features": wide_features}
    path = tmp_path / "a.run"
    result = begin(
        wide(scale_spec), path, Options(seed=3), backend=backend(**more), executor=devices(4, **more)
    )
    counts = result.summary.trials
    assert counts["total"] - counts["duplicate"] - counts["pruned"] == 70
    with RunRecord.read(path) as record:
        stages = Counter(e.body["stage"] for e in record.events(kind="judge"))
    assert set(stages) == {"ask", "build"}
    report = audit(path, backend=backend(**more))
    assert report.clean, report.differences


def test_a_quick_device_is_given_the_next_trial_ahead(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """A trial is placed before the one before it on that device has ended; a slow device gets one at a time."""
    for step_s, ahead in ((1e-4, True), (1.0, False)):
        now = 0.0

        def clock(step_s: float = step_s) -> float:
            nonlocal now
            now += step_s
            return now

        (spec,) = load_spec(scale_spec(strategy="exhaustive", evaluations=24))
        path = tmp_path / f"{ahead}.run"
        given = Options(seed=3, evaluations=12, settings={"choose_processes": 1, "confirm_processes": 4})
        begin(spec, path, given, backend=backend(), executor=devices(1), clock=clock)
        on_device: list[int] = []
        most = 0
        with RunRecord.read(path) as record:
            for event in record.events():
                if event.kind == "place" and event.trial is not None:
                    on_device.append(event.trial)
                if event.kind == "trial" and event.trial in on_device:
                    on_device.remove(event.trial)
                most = max(most, len(on_device))
        assert most == (2 if ahead else 1)
        assert audit(path, backend=backend()).clean
