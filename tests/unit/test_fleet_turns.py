"""What is noted of the queue as it changes is what looking through all of it finds, whatever happens to a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.core.executors import Executor
from tuner.core.types import BASELINE, Resolved, Status, Task
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.plan import fleet
from tuner.driver.runs import begin, resume
from tuner.driver.state.fold import apply
from tuner.driver.state.run import RunState
from tuner.driver.work.engine import Interruption
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]


def seconds(resolved: Resolved) -> float:
    return 1e-3 * (1 + abs(int(resolved.macros["WIDTH"]) - 5) / 10)


def outcome(resolved: Resolved) -> Status:
    if resolved.macros["WIDTH"] == 3:
        return Status.BUILD_ERROR
    return Status.WRONG_RESULT if resolved.macros["STEP"] == 8 else Status.OK


def code(resolved: Resolved) -> Any:
    """Every other width gives the same code."""
    return [resolved.macros["STEP"], int(resolved.macros["WIDTH"]) // 2, list(resolved.flags)]


def features(resolved: Resolved) -> dict[str, float]:
    return {"loads_count": 1e6 * seconds(resolved)}


def slow(what: str) -> None:
    """So that leaving candidates out pays, and the cost model is asked."""
    if what == "verify":
        time.sleep(0.02)


class Trouble:
    """Takes devices away and adds others, and interrupts the run after some trials."""

    def __init__(self, kept: list[ThreadExecutor], interruption: Interruption, until: int) -> None:
        self.kept, self.interruption, self.until = kept, interruption, until
        self.trials = 0

    def event(self, kind: str, body: Any) -> None:
        self.trials += kind == "trial"
        if kind != "trial":
            return
        if self.kept and self.trials in (10, 20, 30):
            self.kept[-1].lose(self.trials // 10)
            self.kept[-1].join("simulated")
        if self.trials == self.until:
            self.interruption.set()


def run(scale_spec: SpecWriter, path: Path, evaluations: int = 100) -> SimulatedBackend:
    """A run over four devices with duplicates, failures, lost devices, interruptions, and a cost model."""
    (spec,) = load_spec(scale_spec(strategy="random", evaluations=evaluations))
    backend = SimulatedBackend(
        seconds=seconds, outcome=outcome, same_code=code, features=features, on_event=slow
    )
    kept: list[ThreadExecutor] = []

    def make(task: Task) -> Executor:
        kept.append(ThreadExecutor(lambda: backend.prepare(task, workers=1), ["simulated"] * 4))
        return kept[-1]

    interruption = Interruption()
    begin(
        spec,
        path,
        Options(seed=3),
        backend=backend,
        executor=make,
        interruption=interruption,
        observers=[Trouble(kept, interruption, 40)],
    )
    # Several times, as nothing is abandoned where nothing waits at that moment.
    for until in (48, 56, 64):
        interruption = Interruption()
        troubles = [Trouble([], interruption, until)]
        resume(path, backend=backend, executor=make, interruption=interruption, observers=troubles)
    resume(path, backend=backend, executor=make)
    return backend


def compare(state: RunState) -> None:
    queue = {n: state.trials[n] for n in state.queue}
    turns = state.turns
    assert turns.unbuilt == {n for n, t in queue.items() if t.build is None}
    assert turns.waiting == {n: t.build_key for n, t in queue.items() if t.build and t.lane is None}
    assert turns.seated == sum(t.lane is not None for t in queue.values())
    assert turns.away == {
        n for n, t in queue.items() if t.lane is not None and t.verify is None and n != BASELINE
    }
    assert turns.open <= queue.keys() - turns.away
    if state.limit is None or len(queue) > state.limit - state.evaluations:
        return
    for number in queue.keys() - turns.open - turns.away:
        trial = queue[number]
        assert not trial.judged


@pytest.mark.integration
def test_queue_notes_match_the_queue_and_decisions_are_those_of_a_look_through_all_of_it(
    scale_spec: SpecWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.run"
    backend = run(scale_spec, path)
    kinds = set()
    with RunRecord.read(path) as record:
        state = RunState(record.blob)
        for event in record.events():
            apply(state, event)
            kinds.add(event.kind)
            compare(state)
        statuses = {t.status for t in state.trials.values()}
    assert kinds >= {"lane_lost", "abandoned", "judge"}
    assert statuses >= {Status.DUPLICATE, Status.BUILD_ERROR, Status.WRONG_RESULT, Status.OK}

    def everything(state: RunState, *, everything: bool) -> list[tuple[int, int]]:
        return [(before, n) for before, n in enumerate(state.queue) if n not in state.turns.away]

    monkeypatch.setattr(fleet, "_open", everything)
    report = audit(path, backend=backend)
    assert report.clean, report.differences
    assert report.decisions > 100
