"""Devices that say that they waited are given more ahead, others are not; a record says so, and can be audited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.core.executors import Evaluated, Happening, JobDone
from tuner.core.types import Resolved, Task
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.driver.state.fold import apply
from tuner.driver.state.lanes import Lane
from tuner.driver.state.run import RunState
from tuner.driver.state.stock import CALM, LATE_S, LEAST, MOST, MOST_BUILDING, Stock
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.recorders.record import Recorded, RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]


def width_s(resolved: Resolved) -> float:
    return 1e-3 * (1 + int(resolved.macros["WIDTH"]))


class Says(ThreadExecutor):
    """Four devices that say how long they waited for each of their evaluations, and how long those took."""

    def __init__(self, task: Task, idle_s: float, busy_s: float) -> None:
        backend = SimulatedBackend(seconds=width_s)
        self._said = {"idle_s": idle_s, "busy_s": busy_s}
        super().__init__(lambda: backend.prepare(task, workers=1), ["simulated"] * 4)

    def wait(self, timeout_s: float) -> list[Happening]:
        return [self._told(happening) for happening in super().wait(timeout_s)]

    def _told(self, happening: Happening) -> Happening:
        if isinstance(happening, JobDone) and isinstance(happening.result, Evaluated):
            return replace(happening, result=replace(happening.result, **self._said))
        return happening


def ran(scale_spec: SpecWriter, path: Path, idle_s: float, busy_s: float) -> list[Recorded]:
    (spec,) = load_spec(scale_spec(strategy="random", evaluations=90))
    backend = SimulatedBackend(seconds=width_s)
    options = Options(seed=3, settings={"control_every": 10**9})
    begin(spec, path, options, backend=backend, executor=lambda task: Says(task, idle_s, busy_s))
    assert audit(path, backend=backend).clean
    with RunRecord.read(path) as record:
        return list(record.events())


def most_ahead(path: Path, events: Sequence[Recorded]) -> tuple[int, int]:
    """The deepest stock of a device, and the highest level."""
    deepest = level = 0
    with RunRecord.read(path) as record:
        state = RunState(record.blob)
        for event in events:
            apply(state, event)
            deepest = max([deepest, *(len(lane.trials) for lane in state.lanes.values())])
            level = max(level, state.stock.level)
    return deepest, level


@pytest.mark.integration
def test_devices_that_wait_are_given_more_ahead(scale_spec: SpecWriter, tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    deepest, level = most_ahead(path, ran(scale_spec, path, idle_s=5.0, busy_s=5.0))
    assert level == MOST
    assert 2 < deepest <= 2 + MOST


@pytest.mark.integration
def test_devices_that_do_not_wait_hold_one_ahead(scale_spec: SpecWriter, tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    assert most_ahead(path, ran(scale_spec, path, idle_s=0.01, busy_s=5.0)) == (2, 0)


def test_where_the_searcher_is_what_they_wait_for_more_would_not_help() -> None:
    stock, lanes = fleet(8)
    told(stock, lanes, 10 * LEAST, idle_s=0.05, busy_s=0.05, asked_s=0.01)
    assert stock.level == 0
    told(stock, lanes, 10 * LEAST, idle_s=0.05, busy_s=0.05, asked_s=0.0001)
    assert stock.level == MOST
    assert stock.room == 8 * (2 + MOST)
    assert stock.spare == 2 * (1 + MOST)


def test_devices_that_have_long_not_waited_are_given_less_again() -> None:
    stock, lanes = fleet(8)
    told(stock, lanes, LEAST, idle_s=0.05, busy_s=0.05)
    assert stock.level == 1
    told(stock, lanes, (CALM - 1) * LEAST, idle_s=0.0, busy_s=0.05)
    assert stock.level == 1
    told(stock, lanes, LEAST, idle_s=0.0, busy_s=0.05)
    assert (stock.level, stock.room) == (0, 16)


@pytest.mark.parametrize("unlike", ["slow", "just timed the baseline", "an earlier record"])
def test_who_has_nothing_ahead_does_not_count(unlike: str) -> None:
    stock, lanes = fleet(8)
    for lane in lanes:
        lane.quick = unlike != "slow"
        lane.since_control = int(unlike != "just timed the baseline")
    stock.grows = unlike != "an earlier record"
    told(stock, lanes, 10 * LEAST, idle_s=0.05, busy_s=0.05)
    assert stock.level == 0


def test_while_builds_are_long_under_way_more_are_kept_ready() -> None:
    """Eight devices that take 0.1 s each with their waiting evaluate 8 candidates while a build takes 0.1 s."""
    stock, lanes = fleet(8)
    stock.follows = True
    clock_s = told(stock, lanes, 10 * LEAST, idle_s=0.05, busy_s=0.05, coming_s=0.1)
    assert stock.level == MOST
    assert stock.building == pytest.approx(8, rel=0.1)
    assert stock.spare == 2 * (1 + MOST) + 8
    assert stock.low == 1 + MOST + 8
    # Compilers that take longer are what is waited for, and more for them to do would not help.
    clock_s = told(stock, lanes, 10 * LEAST, idle_s=0.9, busy_s=0.1, coming_s=50.0, begin_s=clock_s)
    assert stock.building == pytest.approx(8 * LATE_S, rel=0.1)
    clock_s = told(stock, lanes, 10 * LEAST, idle_s=0.005, busy_s=0.005, coming_s=LATE_S, begin_s=clock_s)
    assert stock.building == MOST_BUILDING * 8
    told(stock, lanes, 2 * CALM * LEAST, idle_s=0.0, busy_s=0.05, coming_s=0.1, begin_s=clock_s)
    assert (stock.level, stock.building, stock.spare, stock.low) == (0, 0.0, 2, 1)


def test_runs_of_before_keep_no_more_ready_for_long_builds() -> None:
    stock, lanes = fleet(8)
    told(stock, lanes, 10 * LEAST, idle_s=0.05, busy_s=0.05, coming_s=0.1)
    assert (stock.level, stock.spare) == (MOST, 2 * (1 + MOST))


def test_who_is_lost_has_no_room() -> None:
    stock, lanes = fleet(8)
    lanes[3].alive = False
    stock.count(lanes)
    assert stock.room == 14


def fleet(devices: int) -> tuple[Stock, list[Lane]]:
    stock = Stock(grows=True)
    lanes = [
        Lane(number=number, device="d", quick=True, controls=[(1.0,)], since_control=1)
        for number in range(devices)
    ]
    stock.count(lanes)
    assert stock.room == 2 * devices
    return stock, lanes


def told(
    stock: Stock,
    lanes: list[Lane],
    count: int,
    *,
    idle_s: float,
    busy_s: float,
    asked_s: float = 0.0,
    coming_s: float = 0.0,
    begin_s: float = 0.0,
) -> float:
    """As many evaluations and builds, the devices side by side; gives the clock after them."""
    clock_s = begin_s
    for number in range(count):
        lane = lanes[number % len(lanes)]
        clock_s += (idle_s + busy_s) / len(lanes)
        stock.built(coming_s)
        stock.evaluated(lane, lanes, idle_s=idle_s, busy_s=busy_s, asked_s=asked_s, clock_s=clock_s)
    return clock_s
