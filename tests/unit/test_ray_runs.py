"""Every kind of run over the devices of a real Ray cluster, and a driver that is killed and goes on."""

from __future__ import annotations

import gzip
import json
import math
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import needs
import product_runs
import pytest
import yaml
from on_nodes import Held, loads, scattered_s, steep_s
from ray_cluster import Nodes, cluster

from tuner.cli.main import main
from tuner.core.types import Status
from tuner.driver.audit import audit
from tuner.driver.imports import import_file
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.driver.state.run import RunState
from tuner.driver.work.fleets import over_cluster
from tuner.evaluators.recorded.backend import RecordedBackend
from tuner.evaluators.recorded.spaces import RecordedSpace, Row, key_of
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]

pytestmark = [*needs.ray, pytest.mark.filterwarnings("default")]

QUICK = {"choose_processes": 2, "confirm_processes": 4, "confirm_least": 4}


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """A node with two devices, the same for all tests."""
    with cluster() as made:
        made.add()
        yield made


def state_of(path: Path) -> RunState:
    with RunRecord.read(path) as record:
        return open_state(record)[0]


def used(path: Path) -> set[int | None]:
    """The devices that timed a trial."""
    return {t.lane for t in state_of(path).trials.values() if t.rounds}


def space(folder: Path, name: str, *, room: bool, energy: bool = False) -> Path:
    """A recorded space's spec: with room, times fall slowly towards a corner; without, all are equal."""
    rows, axis = {}, tuple(range(24))
    for x in axis:
        for y in axis:
            time_s = 1e-3 * (1.0 + 0.03 * math.hypot(x - 19, y - 5)) if room else 1e-3
            joules = 1.0 + 0.05 * math.hypot(x - 5, y - 5) if energy else None
            rows[key_of((x, y))] = Row(
                status=Status.OK, times_s=(time_s,) * 8, compile_s=0.1, run_s=0.01, energy_j=joules
            )
    made = RecordedSpace(
        kernel=name, device="A card", parameters={"X": axis, "Y": axis}, rows=rows, restrictions=()
    )
    data = folder / f"{name}.json.gz"
    data.write_bytes(gzip.compress(made.to_text().encode()))
    return import_file(data, folder).spec


def test_a_run_that_evolves_its_source(nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "product.c").write_text(product_runs.KERNEL)
    (tmp_path / "product.yaml").write_text(product_runs.SPEC)
    (spec,) = load_spec(tmp_path / "product.yaml")
    path = tmp_path / "a.run"
    many = begin(
        spec,
        path,
        Options(seed=3, evaluations=40, settings=QUICK),
        backend=product_runs.backend(),
        executor=over_cluster(product_runs.backend(), nodes.address),
    )
    assert many.summary.improved
    state = state_of(path)
    assert len([v for v in state.variants.values() if v.trials]) > 3
    report = audit(path, backend=product_runs.backend())
    assert report.clean, report.differences


def test_the_cost_model_judges(nodes: Nodes, scale_spec: SpecWriter, tmp_path: Path) -> None:
    path = scale_spec(strategy="random", evaluations=110)
    (path.parent / "scale.c").write_text(
        "void scale(const float *a, float *b, int n) { for (int i = 0; i < n; i++) b[i] = 2.0f * a[i]; }\n"
    )
    document = yaml.safe_load(path.read_text())
    values = [1, 2, 4, 8, 16, 32, 64, 128]
    document["space"] = {"parameters": dict.fromkeys(("ALPHA", "BETA", "GAMMA", "DELTA"), values)}
    path.write_text(yaml.safe_dump(document))
    (spec,) = load_spec(path)
    backend = SimulatedBackend(seconds=steep_s, features=loads)
    run = tmp_path / "a.run"
    given = Options(seed=3, settings=QUICK)
    begin(spec, run, given, backend=backend, executor=over_cluster(backend, nodes.address))
    with RunRecord.read(run) as record:
        stages = Counter(e.body["stage"] for e in record.events(kind="judge"))
    assert set(stages) == {"ask", "build"}
    report = audit(run, backend=backend)
    assert report.clean, report.differences


def test_several_objectives(nodes: Nodes, tmp_path: Path) -> None:
    path = space(tmp_path, "both", room=True, energy=True)
    path.write_text(path.read_text() + "objective: [time, energy]\n")
    (spec,) = load_spec(path)
    run = tmp_path / "a.run"
    given = Options(seed=1, evaluations=60, workers=1)
    result = begin(spec, run, given, executor=over_cluster(RecordedBackend(), nodes.address))
    values = [p.values for p in result.summary.pareto]
    assert len(values) > 2
    assert sorted(values, key=lambda v: v["time_s"]) == sorted(values, key=lambda v: -v["energy_j"])
    assert audit(run).clean


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


class Shift:
    """Adds a node at the tenth trial, and takes an old one away when the new one's devices have come."""

    def __init__(self, nodes: Nodes, held: Path) -> None:
        self.nodes, self.held = nodes, held
        self.trials = self.joined = 0
        self.old = nodes.there[0]

    def event(self, kind: str, body: Any) -> None:
        self.trials += kind == "trial"
        if kind == "trial" and self.trials == 10:
            self.held.touch()
            self.nodes.add()
        self.joined += kind == "lane" and self.held.exists()
        if self.joined == 2 and self.held.exists():
            self.nodes.remove(self.old, graceful=True)
            self.held.unlink()


def test_nodes_join_and_leave(nodes: Nodes, scale_spec: SpecWriter, tmp_path: Path) -> None:
    (spec,) = load_spec(scale_spec(strategy="exhaustive", evaluations=60))
    held = tmp_path / "held"
    run = tmp_path / "a.run"
    backend = SimulatedBackend(seconds=scattered_s, on_event=Held(held))
    plain = SimulatedBackend(seconds=scattered_s)
    shift = Shift(nodes, held)
    executor = over_cluster(backend, nodes.address)
    many = begin(spec, run, Options(seed=3), backend=plain, executor=executor, observers=[shift])
    alone = begin(spec, tmp_path / "alone.run", Options(seed=3), backend=plain)
    assert many.summary.trials == alone.summary.trials
    assert many.summary.configuration == alone.summary.configuration
    state = state_of(run)
    assert sum(not lane.alive for lane in state.lanes.values()) >= 2
    late = {n for n, lane in state.lanes.items() if lane.alive} & used(run)
    assert late
    report = audit(run, backend=plain)
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
