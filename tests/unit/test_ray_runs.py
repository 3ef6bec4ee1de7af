"""Runs over a real Ray cluster of several nodes on this machine: every kind, kills, nodes that join, a page's commands.

They are in one file since a cluster takes long to come up.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import pytest
from on_nodes import Broken, Held, outcome, scattered_s
from pages import ROOT, block
from pages import run as run_line
from ray_cluster import Nodes, cluster

from tuner.cli.main import main
from tuner.core.errors import MachineError
from tuner.core.executors import LaneJoined
from tuner.core.types import Status
from tuner.driver.audit import audit
from tuner.driver.imports import import_file
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.driver.state.run import RunState
from tuner.driver.work.fleets import fleets, over_cluster
from tuner.evaluators.recorded.spaces import RecordedSpace, Row, key_of
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]

pytestmark = [*needs.ray, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A node with one device, the same for all tests: each device is a process more that has to begin."""
    with cluster() as made:
        made.add(devices=1)
        yield made


FEW = "--evaluations 3 --strategy random --json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the page's ``kernel.yaml``, of a problem that takes no time."""
    for path in (ROOT / "examples" / "builds").glob("saxpy.*"):
        shutil.copy(path, tmp_path)
    text = (tmp_path / "saxpy.yaml").read_text()
    assert "n: 100000" in text
    (tmp_path / "kernel.yaml").write_text(text.replace("n: 100000", "n: 1000"))
    return tmp_path


def tuned(printed: str) -> bool:
    """Whether the one object on stdout is that of a run that came to its end with trials that were timed."""
    (line,) = [one for one in printed.splitlines() if one.startswith('{"schema_version"')]
    told = json.loads(line)
    return told["stopped_by"] in ("evaluations", "exhausted") and told["trials"]["ok"] > 1


def test_a_cluster_of_this_machine_alone(folder: Path) -> None:
    install, alone, _ = block("docs/scaling.md", "pip install")
    assert install == "pip install 'remix-tuner[ray]'"
    assert tuned(run_line(f"{alone} {FEW}", folder))


def test_a_real_kernel_over_a_cluster_that_runs(nodes: Nodes, folder: Path) -> None:
    """As the page says it."""
    _, _, joined = block("docs/scaling.md", "pip install")
    assert "HOST:6379" in joined
    assert tuned(run_line(f"{joined} {FEW}".replace("HOST:6379", nodes.address), folder))


def state_of(path: Path) -> RunState:
    with RunRecord.read(path) as record:
        return open_state(record)[0]


def used(path: Path) -> set[int | None]:
    """The devices that timed a trial."""
    return {t.lane for t in state_of(path).trials.values() if t.rounds}


def space(folder: Path, name: str, *, room: bool) -> Path:
    """A recorded space's spec: with room, times fall slowly towards a corner; without, all are equal."""
    rows, axis = {}, tuple(range(24))
    for x in axis:
        for y in axis:
            time_s = 1e-3 * (1.0 + 0.03 * math.hypot(x - 19, y - 5)) if room else 1e-3
            rows[key_of((x, y))] = Row(status=Status.OK, times_s=(time_s,) * 8, compile_s=0.1, run_s=0.01)
    made = RecordedSpace(
        kernel=name, device="A card", parameters={"X": axis, "Y": axis}, rows=rows, restrictions=()
    )
    data = folder / f"{name}.json.gz"
    data.write_bytes(gzip.compress(made.to_text().encode()))
    return import_file(data, folder).spec


def test_several_specs_share_by_expected_gain(
    nodes: Nodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [space(tmp_path, "hot", room=True), space(tmp_path, "cold", room=False)]
    parts = [("hot", paths[0].name, 0.9), ("cold", paths[1].name, 0.1)]
    kernels = [{"name": name, "spec": spec, "share": share} for name, spec, share in parts]
    (tmp_path / "kernels.json").write_text(json.dumps({"schema_version": 1, "kernels": kernels}))
    over = ["--executor", "ray", "--ray-address", nodes.address]
    options = ["--evaluations", "30", "--seed", "2", "--workers", "1", "--no-library", "--json"]
    with pytest.raises(SystemExit) as ended:
        main(["tune", *map(str, paths), *over, *options, "--out", str(tmp_path / "runs")])
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed.err
    hot, cold = json.loads(printed.out)["runs"]
    assert hot["trials"]["total"] > 2 * cold["trials"]["total"]
    for one in (hot, cold):
        assert audit(Path(one["run"])).clean


KILLED = """
import os, signal, sys
from pathlib import Path
from on_nodes import scattered_s
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.driver.work.fleets import over_cluster
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

class Killer:
    seen = 0
    def event(self, kind, body):
        self.seen += kind == "trial"
        if self.seen == 20:
            os.kill(os.getpid(), signal.SIGKILL)

backend = SimulatedBackend(seconds=scattered_s)
(spec,) = load_spec(Path(sys.argv[1]))
executor = over_cluster(backend, sys.argv[3])
begin(spec, Path(sys.argv[2]), Options(seed=3), backend=backend, executor=executor, observers=[Killer()])
"""


def test_a_driver_that_is_killed_goes_on(nodes: Nodes, scale_spec: SpecWriter, tmp_path: Path) -> None:
    path = scale_spec(strategy="exhaustive", evaluations=60)
    run = tmp_path / "a.run"
    command = [sys.executable, "-c", KILLED, str(path), str(run), nodes.address]
    ended = subprocess.run(command, env=nodes.environment(), capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    before = [n for n, t in state_of(run).trials.items() if t.status is not None]
    assert len(before) >= 20
    backend = SimulatedBackend(seconds=scattered_s)
    result = resume(run, backend=backend, executor=over_cluster(backend, nodes.address))
    (spec,) = load_spec(path)
    alone = begin(spec, tmp_path / "alone.run", Options(seed=3), backend=backend)
    assert result.summary.trials == alone.summary.trials
    assert result.summary.configuration == alone.summary.configuration
    report = audit(run, backend=backend)
    assert report.clean, report.differences


class Trouble:
    """Kills one of two nodes once both have devices that did something, and adds another; then one is told to leave.

    Evaluations wait until both have begun, and again until the new one's device has come.
    """

    def __init__(self, nodes: Nodes, held: Path) -> None:
        self.nodes, self.held = nodes, held
        self.killed = self.left = self.trials = 0
        self.lanes: set[int] = set()

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Ray adds nodes from the main thread only, which is where observers are told."""
        if kind == "verify":
            self.lanes.add(body["lane"])
        if len(self.lanes) == 2 and not self.killed:
            self.held.unlink(missing_ok=True)
        self.trials += kind == "trial"
        if self.trials == 15 and not self.killed:
            self.held.touch()
            self.nodes.remove(self.nodes.there[1], graceful=False)
            self.nodes.add(devices=1)
            self.killed += 1
        elif self.killed and not self.left and kind == "lane":
            self.nodes.remove(self.nodes.there[0], graceful=True)
            self.held.unlink()
            self.left += 1


def scattered() -> SimulatedBackend:
    return SimulatedBackend(seconds=scattered_s, outcome=outcome)


def test_nodes_killed_added_and_told_to_leave_cost_nothing(
    nodes: Nodes, scale_spec: SpecWriter, tmp_path: Path
) -> None:
    """Nodes that share a run give the result of one machine, whatever becomes of them."""
    nodes.clear()
    for _ in range(2):
        nodes.add(devices=1)
    (spec,) = load_spec(scale_spec(strategy="exhaustive", evaluations=60))
    path, held = tmp_path / "a.run", tmp_path / "held"
    held.touch()
    trouble = Trouble(nodes, held)
    # A device begins with the baseline.
    executor = over_cluster(replace(scattered(), on_event=Held(held, free=2)), nodes.address)
    many = begin(spec, path, Options(seed=3), backend=scattered(), executor=executor, observers=[trouble])
    alone = begin(spec, tmp_path / "alone.run", Options(seed=3), backend=scattered())
    assert len(trouble.lanes) >= 2
    assert (trouble.killed, trouble.left) == (1, 1)
    assert many.summary.configuration == alone.summary.configuration
    assert many.summary.trials == alone.summary.trials
    state = state_of(path)
    assert sum(not lane.alive for lane in state.lanes.values()) >= 2
    assert {n for n, lane in state.lanes.items() if lane.alive} & used(path), "what came late did a part"
    report = audit(path, backend=scattered())
    assert report.clean, report.differences


class Loss:
    """Kills processes of one node by a signal: its compile worker and devices, then its relay."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.trials = 0

    def event(self, kind: str, body: Any) -> None:
        self.trials += kind == "trial"
        if kind == "trial" and self.trials in (10, 30):
            (node, *_) = self.nodes.there
            assert self.nodes.kill(node, "_Remote" if self.trials == 10 else "Relay")


def test_processes_that_are_killed_are_started_again(
    nodes: Nodes, scale_spec: SpecWriter, tmp_path: Path
) -> None:
    """On the only node: nobody else could go on."""
    for node in nodes.there[1:]:
        nodes.remove(node, graceful=False)
    (spec,) = load_spec(scale_spec(strategy="exhaustive", evaluations=60))
    run = tmp_path / "a.run"
    backend = SimulatedBackend(seconds=scattered_s)
    executor = over_cluster(backend, nodes.address)
    many = begin(spec, run, Options(seed=3), backend=backend, executor=executor, observers=[Loss(nodes)])
    alone = begin(spec, tmp_path / "alone.run", Options(seed=3), backend=backend)
    assert many.summary.trials == alone.summary.trials
    assert many.summary.configuration == alone.summary.configuration
    state = state_of(run)
    # Each time one at least: the other may not have come up yet.
    assert sum(not lane.alive for lane in state.lanes.values()) >= 2
    report = audit(run, backend=backend)
    assert report.clean, report.differences


@pytest.fixture
def spec(scale_spec: SpecWriter) -> LoadedSpec:
    (loaded,) = load_spec(scale_spec(strategy="exhaustive", evaluations=60))
    return loaded


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


def test_each_gpu_of_a_node_is_a_device_of_its_own(nodes: Nodes, spec: LoadedSpec) -> None:
    """No card is needed: who gets which is Ray's word, and the backend only bears the name of one that has cards."""
    nodes.clear()
    nodes.add(gpus=2)
    cards = SimulatedBackend(seconds=scattered_s, name="cuda")
    executor = over_cluster(cards, nodes.address)(spec.task)
    joined: list[LaneJoined] = []
    try:
        while len(joined) < 2:
            joined += [h for h in executor.wait(60.0) if isinstance(h, LaneJoined)]
    finally:
        executor.close()
    assert sorted(one.node.rpartition(", ")[2] for one in joined) == ["GPU 0", "GPU 1"]
    assert len({one.node.rpartition(", ")[0] for one in joined}) == 1
    # One that does not come up, as on a busy machine, is started again under another number.
    assert len({one.lane for one in joined}) == 2


@pytest.mark.measured
def test_a_claim_over_the_cluster(nodes: Nodes, scale_spec: SpecWriter, tmp_path: Path) -> None:
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
        over_cluster(scattered(), nodes.address)(spec.task).close()
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
        over_cluster(scattered(), "127.0.0.1:1")(spec.task)
