"""Several variants of the source in the works at once: a trial for each compile worker, or each device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from instants import InterruptAt
from product_runs import KERNEL, SPEC, backend
from run_events import decided, events
from spec_files import spec_in

from tuner.core.executors import Executor
from tuner.core.types import BASELINE, Task
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.runs import begin, resume
from tuner.driver.state.lineage import VariantState
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec, load_spec


@pytest.fixture
def spec(tmp_path: Path) -> LoadedSpec:
    return write(tmp_path)


def write(folder: Path) -> LoadedSpec:
    return spec_in(folder, "product.c", KERNEL, SPEC)


def options(**more: Any) -> Options:
    few = {"choose_processes": 2, "confirm_processes": 4}
    return Options(**{"seed": 5, "workers": 3, "evaluations": 40, "settings": few, **more})


def most_at_once(path: Path) -> int:
    """The largest number of variants with a trial that waits for its build or its turn, at the moment of a build."""
    with RunRecord.read(path) as record:
        state, _, _ = open_state(record)
    waiting: set[int] = set()
    most = 0
    for kind, trial, body in events(path):
        if kind == "ask":
            waiting |= set(range(body["first"], body["first"] + len(body["proposals"])))
        elif kind == "build" and trial != BASELINE:
            most = max(most, len({state.trials[n].variant for n in waiting}))
        elif kind == "trial" and not body["again"]:
            waiting.discard(trial if trial is not None else BASELINE)
    return most


def evaluations(path: Path) -> int:
    with RunRecord.read(path) as record:
        state, _, _ = open_state(record)
    return state.evaluations


@pytest.fixture(scope="module")
def abreast(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run with as many variants at once as workers, which tests only read."""
    folder = tmp_path_factory.mktemp("abreast")
    return begin(write(folder), folder / "a.run", options(), backend=backend())


@pytest.mark.integration
def test_each_compile_worker_has_a_variant(abreast: Outcome) -> None:
    """Which are then timed one after the other; no more evaluations are begun than there may be."""
    assert most_at_once(abreast.path) == 3
    assert abreast.summary.improved
    assert evaluations(abreast.path) <= 40
    assert audit(abreast.path, backend=backend()).differences == []


@pytest.mark.integration
def test_one_worker_has_one_variant_at_a_time(spec: LoadedSpec, tmp_path: Path) -> None:
    result = begin(spec, tmp_path / "a.run", options(workers=1, evaluations=15), backend=backend())
    assert most_at_once(result.path) == 1
    assert evaluations(result.path) <= 15
    assert audit(result.path, backend=backend()).differences == []


@pytest.mark.integration
def test_nothing_is_gathered_after_a_run_ends(abreast: Outcome, tmp_path: Path) -> None:
    """A trial that was cut short waits for its build again; that makes no room for another one beside it."""
    (spec,) = load_spec(abreast.path.parent / "product.yaml")
    path = tmp_path / "cut.run"
    # Cut short again and again, within searches and between them.
    stop = InterruptAt(count=60)
    begin(spec, path, options(), backend=backend(), observers=[stop], interruption=stop.interruption)
    for events_more in (31, 29, 27):
        stop = InterruptAt(count=events_more)
        resume(path, backend=backend(), observers=[stop], interruption=stop.interruption)
    resume(path, backend=backend())
    assert decided(path) == decided(abreast.path)


@pytest.mark.integration
def test_each_device_has_a_variant(spec: LoadedSpec, tmp_path: Path) -> None:
    def four(task: Task) -> Executor:
        return ThreadExecutor(lambda: backend().prepare(task, workers=1), ["simulated"] * 4, builders=2)

    result = begin(spec, tmp_path / "a.run", options(evaluations=24), backend=backend(), executor=four)
    assert result.summary.improved
    assert evaluations(result.path) <= 24
    assert most_at_once(result.path) >= 4
    report = audit(result.path, backend=backend())
    assert report.differences == []


def test_a_variant_that_may_have_one_trial_has_another_where_that_fails(spec: LoadedSpec) -> None:
    """With the given pipeline; not before the first is known to fail."""
    variant = VariantState(number=1, target=1, chances=3, again=True, trials=[4])
    assert variant.wanted == 1
    variant.finish(4, None, duplicate=False)
    assert (variant.wanted, variant.settled, variant.failed) == (2, False, False)
    variant.trials.append(5)
    variant.finish(5, None, duplicate=False)
    assert variant.settled
    assert variant.failed
