"""Runs over a real Ray cluster of several nodes on this machine: same result, nodes killed, nodes that join."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import pytest
from on_nodes import Broken, Held, outcome, scattered_s
from ray_cluster import Nodes, cluster

from tuner.core.errors import MachineError
from tuner.core.executors import LaneJoined
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.driver.work.fleets import fleets, over_cluster
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]


def backend() -> SimulatedBackend:
    return SimulatedBackend(seconds=scattered_s, outcome=outcome)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """None at first; those that a test adds are there for the next ones too."""
    with cluster() as made:
        yield made


@pytest.fixture
def spec(scale_spec: SpecWriter) -> LoadedSpec:
    (loaded,) = load_spec(scale_spec(strategy="exhaustive", evaluations=60))
    return loaded


pytestmark = [*needs.ray, pytest.mark.filterwarnings("default")]


class Trouble:
    """Lets evaluations go on once two devices have done some; then takes a node away and adds another, twice."""

    def __init__(self, nodes: Nodes, held: Path) -> None:
        self.nodes, self.held = nodes, held
        self.killed = self.trials = 0
        self.lanes: set[int] = set()
        self.rng = random.Random(0)

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Ray adds nodes from the main thread only, which is where observers are told."""
        if kind == "verify":
            self.lanes.add(body["lane"])
        if len(self.lanes) == 2:
            self.held.unlink(missing_ok=True)
        self.trials += kind == "trial"
        if kind == "trial" and self.trials in (15, 30):
            self.nodes.remove(self.rng.choice(self.nodes.there), graceful=False)
            self.killed += 1
            self.nodes.add(devices=1)


def test_nodes_killed_and_added_cost_nothing(nodes: Nodes, spec: LoadedSpec, tmp_path: Path) -> None:
    """Nodes that share a run give the result of one machine, whatever becomes of them."""
    for _ in range(2):
        nodes.add(devices=1)
    path, held = tmp_path / "a.run", tmp_path / "held"
    held.touch()
    trouble = Trouble(nodes, held)
    # A device begins with the baseline.
    executor = over_cluster(replace(backend(), on_event=Held(held, free=2)), nodes.address)
    many = begin(spec, path, Options(seed=3), backend=backend(), executor=executor, observers=[trouble])
    alone = begin(spec, tmp_path / "alone.run", Options(seed=3), backend=backend())
    assert len(trouble.lanes) >= 2
    assert trouble.killed == 2
    assert many.summary.configuration == alone.summary.configuration
    assert many.summary.trials == alone.summary.trials
    report = audit(path, backend=backend())
    assert report.clean, report.differences


def test_each_gpu_of_a_node_is_a_device_of_its_own(nodes: Nodes, spec: LoadedSpec) -> None:
    """No card is needed: who gets which is Ray's word, and the backend only bears the name of one that has cards."""
    nodes.clear()
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


def test_a_device_that_cannot_start_is_one_line(nodes: Nodes, spec: LoadedSpec, tmp_path: Path) -> None:
    if not nodes.there:
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


@pytest.mark.measured
def test_a_real_kernel_over_the_cluster(nodes: Nodes, scale_spec: SpecWriter, tmp_path: Path) -> None:
    nodes.clear()
    nodes.add(devices=1)
    (spec,) = load_spec(scale_spec(evaluations=8))
    (executor,) = fleets(spec, "ray", nodes.address)
    path = tmp_path / "a.run"
    result = begin(spec, path, Options(seed=1), executor=executor)
    assert result.summary.trials["ok"] >= 1
    assert not result.failed
    assert audit(path).clean


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
