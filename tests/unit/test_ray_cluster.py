"""Runs over a real Ray cluster of several nodes on this machine: same result, nodes killed, nodes that join."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import needs
import pytest
from ray_cluster import Nodes, cluster, scattered_s

from tuner.core.errors import MachineError
from tuner.core.executors import LaneJoined
from tuner.core.types import Resolved, Status
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.driver.work.fleets import fleets, over_cluster
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]


def slow(what: str) -> None:
    if what == "verify":
        time.sleep(0.05)


def outcome(resolved: Resolved) -> Status:
    return Status.WRONG_RESULT if int(resolved.macros["WIDTH"]) == 3 else Status.OK


def backend() -> SimulatedBackend:
    return SimulatedBackend(seconds=scattered_s, outcome=outcome, on_event=slow)


@pytest.fixture(scope="module")
def head() -> Iterator[Nodes]:
    with cluster() as made:
        yield made


@pytest.fixture
def nodes(head: Nodes) -> Iterator[Nodes]:
    """None at first."""
    yield head
    head.clear()


@pytest.fixture
def spec(scale_spec: SpecWriter) -> LoadedSpec:
    (loaded,) = load_spec(scale_spec(strategy="exhaustive", evaluations=200))
    return loaded


pytestmark = [*needs.ray, pytest.mark.filterwarnings("default")]


def test_two_nodes_give_the_result_of_one_machine(nodes: Nodes, spec: LoadedSpec, tmp_path: Path) -> None:
    nodes.add()
    nodes.add()
    path = tmp_path / "a.run"
    executor = over_cluster(backend(), nodes.address)
    many = begin(spec, path, Options(seed=3), backend=backend(), executor=executor)
    alone = begin(spec, tmp_path / "alone.run", Options(seed=3), backend=backend())
    assert many.summary.configuration == alone.summary.configuration
    assert many.summary.trials == alone.summary.trials
    with RunRecord.read(path) as record:
        state, _, _ = open_state(record)
    # One that comes up late on a busy machine may find nothing left to do.
    assert len({t.lane for t in state.trials.values() if t.rounds}) >= 2
    report = audit(path, backend=backend())
    assert report.clean, report.differences


class Trouble:
    """Takes a node away in the middle of the run, and adds another, a few times."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.killed = self.trials = 0
        self.rng = random.Random(0)

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Ray adds nodes from the main thread only, which is where observers are told."""
        self.trials += kind == "trial"
        if kind == "trial" and self.trials % 25 == 20 and self.killed < 3:
            self.nodes.remove(self.rng.choice(self.nodes.there), graceful=False)
            self.killed += 1
            self.nodes.add()


def test_nodes_killed_and_added_cost_nothing(nodes: Nodes, spec: LoadedSpec, tmp_path: Path) -> None:
    for _ in range(3):
        nodes.add()
    path = tmp_path / "a.run"
    trouble = Trouble(nodes)
    executor = over_cluster(backend(), nodes.address)
    many = begin(spec, path, Options(seed=3), backend=backend(), executor=executor, observers=[trouble])
    alone = begin(spec, tmp_path / "alone.run", Options(seed=3), backend=backend())
    assert trouble.killed >= 2
    assert many.summary.configuration == alone.summary.configuration
    assert many.summary.trials == alone.summary.trials
    assert audit(path, backend=backend()).clean


@pytest.mark.measured
def test_a_real_kernel_over_the_cluster(nodes: Nodes, scale_spec: SpecWriter, tmp_path: Path) -> None:
    nodes.add(devices=1)
    (spec,) = load_spec(scale_spec(evaluations=8))
    (executor,) = fleets(spec, "ray", nodes.address)
    path = tmp_path / "a.run"
    result = begin(spec, path, Options(seed=1), executor=executor)
    assert result.summary.trials["ok"] >= 1
    assert not result.failed
    assert audit(path).clean


def test_each_gpu_of_a_node_is_a_device_of_its_own(nodes: Nodes, spec: LoadedSpec) -> None:
    """No card is needed: who gets which is Ray's word, and the backend only bears the name of one that has cards."""
    nodes.add(gpus=2)
    cards = SimulatedBackend(seconds=scattered_s, name="cuda")
    executor = over_cluster(cards, nodes.address)(spec.task)
    joined: list[LaneJoined] = []
    until_s = time.monotonic() + 300
    try:
        while len(joined) < 2 and time.monotonic() < until_s:
            joined += [h for h in executor.wait(1.0) if isinstance(h, LaneJoined)]
    finally:
        executor.close()
    assert sorted(one.node.rpartition(", ")[2] for one in joined) == ["GPU 0", "GPU 1"]
    assert len({one.node.rpartition(", ")[0] for one in joined}) == 1
    # One that does not come up, as on a busy machine, is started again under another number.
    assert len({one.lane for one in joined}) == 2


@dataclass(frozen=True, kw_only=True)
class Broken(SimulatedBackend):
    """Where no evaluation can be made; the process of the first try is gone before it can say why."""

    tried: str

    def prepare(self, task: Any, *, workers: int) -> Any:
        if not Path(self.tried).exists():
            Path(self.tried).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("the card is on fire")


def test_a_device_that_cannot_start_is_one_line(nodes: Nodes, spec: LoadedSpec, tmp_path: Path) -> None:
    nodes.add(devices=1)
    executor = over_cluster(Broken(seconds=scattered_s, tried=str(tmp_path / "tried")), nodes.address)(
        spec.task
    )

    def until_it_joins() -> None:
        while not executor.wait(60.0):
            """Nothing has happened."""

    try:
        with pytest.raises(
            MachineError, match=r"no device of the cluster can be used: .*the card is on fire"
        ):
            until_it_joins()
    finally:
        executor.close()


def test_signals_stay_with_who_had_asked_for_them(
    nodes: Nodes, spec: LoadedSpec, capfd: pytest.CaptureFixture[str]
) -> None:
    """Ray takes SIGTERM for itself, with a stack on stderr."""
    import ray

    ray.shutdown()
    told: list[int] = []
    former = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        over_cluster(backend(), nodes.address)(spec.task).close()
        capfd.readouterr()
        os.kill(os.getpid(), signal.SIGTERM)
        assert told == [signal.SIGTERM]
        assert "SIGTERM" not in capfd.readouterr().err
    finally:
        signal.signal(signal.SIGTERM, former)


def test_no_cluster_is_one_line(spec: LoadedSpec) -> None:
    import ray

    ray.shutdown()
    with pytest.raises(MachineError, match=r"there is no Ray cluster at 127.0.0.1:1: .*ray start --head"):
        over_cluster(backend(), "127.0.0.1:1")(spec.task)
