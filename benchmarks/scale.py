"""How far one driver scales over a Ray cluster of simulated nodes, and what limits it.

An evaluation takes a given time and no processor, as on a device. Throughput is read from the middle of a run (from the
end of the first to the beginning of the last tenth of its trials), as is processor time, and set against what so many
devices could do at best. Beside it stand what part of the machine's processors nobody used meanwhile or another machine
had (steal), and how long a device stood idle between two evaluations.
Search quality at equal evaluations is taken over recorded spaces in simulated time, one device against many.

    pip install 'remix-tuner[ray]'
    python benchmarks/scale.py [--devices 1,4,16,64] [--evaluation-ms 50] [--trials 40] [--kills 10] [--json]
    python benchmarks/scale.py --quality --spaces DIR [--in-flight 16] [--seeds 20] [--first-seed 0] [--only NAME,…]
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from _common import emit, note, parser, table
from _scale_parts import Parts
from _scale_quality import compare

from tuner.core.executors import Executor, Happening, LaneJoined
from tuner.core.types import Resolved, Task
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.driver.work.fleets import over_cluster
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

KERNEL = "void scale(const float *a, float *b, int n) { for (int i = 0; i < n; i++) b[i] = A * B * a[i]; }\n"

SPEC = """
kernel: {source: scale.c, entry: scale}
problem: {n: 256}
arguments:
  - {name: a, dtype: float32, shape: [n]}
  - {name: b, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space:
  parameters: {A: {low: 1, high: 200}, B: {low: 1, high: 200}}
  passes: off
search: {strategy: random, cost_model: off, budget: {evaluations: 100}}
"""
QUICK = {"choose_processes": 1, "confirm_processes": 4, "confirm_least": 4, "control_every": 10**9}


def landscape(resolved: Resolved) -> float:
    """Seconds of a call: every candidate has its own."""
    a, b = int(resolved.macros["A"]), int(resolved.macros["B"])
    return 1e-3 * (1 + abs(a - 60) / 100 + abs(b - 120) / 150)


def simulated(pause_s: float = 0.0) -> SimulatedBackend:
    """Devices whose evaluations take the given time and next to nothing of the processors that all share here."""
    wait = Pause(pause_s) if pause_s else None
    return SimulatedBackend(seconds=landscape, on_event=wait, process_noise=0.0, call_noise=0.0)


class Pause:
    """Waits at the verification, as a device would keep its host waiting."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, what: str) -> None:
        """Called with the name of what begins."""
        if what == "verify":
            time.sleep(self.seconds)


@contextmanager
def cluster(devices: int) -> Iterator[Any]:
    """Nodes of up to 16 devices on this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Devices that the driver's processes push aside would be no devices: elsewhere they have machines of their own.
    os.environ.setdefault("RAY_worker_niceness", "0")
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False},
    )
    try:
        left = devices
        while left > 0:
            made.add_node(num_cpus=1, resources={"timing": min(16, left)})
            left -= 16
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def spec_in(folder: Path, text: str = SPEC) -> LoadedSpec:
    """A spec, with 40,000 configurations as it stands."""
    (folder / "scale.c").write_text(KERNEL)
    (folder / "scale.yaml").write_text(text)
    (spec,) = load_spec(folder / "scale.yaml")
    return spec


class Assembled:
    """An executor whose devices are there all at once: how long Ray takes to start them is another question."""

    def __init__(self, inner: Executor, devices: int) -> None:
        self._inner, self._missing = inner, devices
        self._held: list[Happening] = []
        self.set_baseline, self.submit, self.close = inner.set_baseline, inner.submit, inner.close

    def wait(self, timeout_s: float) -> list[Happening]:
        """What has happened; joined devices only once none is missing."""
        found = self._inner.wait(timeout_s)
        joined = [h for h in found if isinstance(h, LaneJoined)]
        self._missing -= len(joined)
        self._held += joined
        others = [h for h in found if not isinstance(h, LaneJoined)]
        if self._missing > 0:
            return others
        held, self._held = self._held, []
        return held + others


class Spent:
    """The driver's processor seconds at the end of each verification."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Told of every event, after the transaction that it is in."""
        if kind == "verify":
            now = os.times()
            self.at.append(now.user + now.system)


def throughput(devices: int, pause_s: float, trials: int) -> dict[str, Any]:
    """Trials a second over so many devices, the driver's own work, and what all parts take."""
    count = trials * devices
    parts = Parts(count // 10, count - count // 10)
    backend = simulated(pause_s)
    with tempfile.TemporaryDirectory() as name, cluster(devices) as made:
        spec = spec_in(Path(name))
        path = Path(name, "a.run")
        options = Options(seed=1, evaluations=count, workers=1, settings=QUICK)
        over = over_cluster(backend, made.address)
        spent = Spent()
        begin(
            spec,
            path,
            options,
            backend=simulated(),
            executor=lambda task: Assembled(over(task), devices),
            observers=[spent, parts],
        )
        with RunRecord.read(path) as record:
            events = list(record.events())
        size = path.stat().st_size
    lanes = sum(e.kind == "lane" for e in events)
    verified = [e.body for e in events if e.kind == "verify"]
    ends = [body["clock_s"] for body in verified]
    first, last = len(ends) // 10, len(ends) - len(ends) // 10
    rate = (last - first) / (ends[last] - ends[first])
    idle_s = [body["idle_s"] for body in verified[first:last]]
    return {
        "devices": lanes,
        "trials_per_s": rate,
        "ideal_per_s": devices / pause_s,
        "share_of_ideal": rate * pause_s / devices,
        "cpu_ms_per_trial": parts.ms_per_trial,
        "machine": parts.machine,
        "device_idle_ms": {"mean": 1e3 * statistics.mean(idle_s), "median": 1e3 * statistics.median(idle_s)},
        "driver_cpu_ms_per_trial": 1e3 * (spent.at[last] - spent.at[first]) / (last - first),
        "events": len(events),
        "record_bytes_per_trial": size / len(ends),
    }


def driver_limit(trials: int) -> dict[str, float]:
    """What the driver alone can do: devices without delay in threads of this process, proposals, record writes."""
    with tempfile.TemporaryDirectory() as name:
        spec = spec_in(Path(name))

        def make(task: Task) -> Executor:
            backend = simulated()
            return ThreadExecutor(lambda: backend.prepare(task, workers=1), ["simulated"] * 4, builders=1)

        path = Path(name, "a.run")
        started = time.perf_counter()
        options = Options(seed=1, evaluations=trials, workers=1, settings=QUICK)
        begin(spec, path, options, backend=simulated(), executor=make)
        whole_s = time.perf_counter() - started
        with RunRecord.read(path) as record:
            events = list(record.events())
        asks = [e.body for e in events if e.kind == "ask"]
        proposals = sum(len(b["proposals"]) for b in asks)
    return {
        "trials_per_s": trials / whole_s,
        "proposals_per_s": proposals / max(sum(b["ask_s"] for b in asks), 1e-9),
        "events_per_s": len(events) / whole_s,
    }


class Trouble:
    """Takes a node away in the middle of a run, and adds another."""

    def __init__(self, cluster: Any, nodes: list[Any], count: int) -> None:
        self.cluster, self.nodes, self.count = cluster, nodes, count
        self.killed = 0
        self.rng = random.Random(0)

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Ray adds nodes from the main thread only, which is where observers are told."""
        if kind == "trial" and self.killed < self.count and self.rng.random() < 1 / 40:
            self.cluster.remove_node(
                self.nodes.pop(self.rng.randrange(len(self.nodes))), allow_graceful=False
            )
            self.killed += 1
            self.nodes.append(self.cluster.add_node(num_cpus=1, resources={"timing": 2}))


def kills(count: int) -> dict[str, Any]:
    """Nodes killed at random instants of a run; nothing is lost and the result is the same."""
    backend = simulated(0.05)
    plain = simulated()
    with tempfile.TemporaryDirectory() as name, cluster(0) as made:
        folder = Path(name)
        text = SPEC.replace(
            "{low: 1, high: 200}, B: {low: 1, high: 200}", "{low: 50, high: 69}, B: {low: 100, high: 129}"
        )
        spec = spec_in(folder, text.replace("random", "exhaustive").replace("100}}", "700}}"))
        nodes = [made.add_node(num_cpus=1, resources={"timing": 2}) for _ in range(3)]
        trouble = Trouble(made, nodes, count)
        path = folder / "a.run"
        executor = over_cluster(backend, made.address)
        many = begin(spec, path, Options(seed=3), backend=plain, executor=executor, observers=[trouble])
        alone = begin(spec, folder / "alone.run", Options(seed=3), backend=plain)
        with RunRecord.read(path) as record:
            lost = sum(e.kind == "lane_lost" for e in record.events())
        return {
            "killed": trouble.killed,
            "devices_lost": lost,
            "same_trials": many.summary.trials == alone.summary.trials,
            "same_winner": many.summary.configuration == alone.summary.configuration,
            "audit_clean": audit(path, backend=plain).clean,
        }


def main() -> None:
    """Runs what is asked for."""
    arguments: argparse.ArgumentParser = parser(__doc__)
    arguments.add_argument("--devices", default="1,4,16,64")
    arguments.add_argument("--evaluation-ms", type=float, default=50.0)
    arguments.add_argument("--trials", type=int, default=40, help="for each device")
    arguments.add_argument("--kills", type=int, default=10)
    arguments.add_argument("--quality", action="store_true")
    arguments.add_argument("--spaces", type=Path)
    arguments.add_argument("--in-flight", type=int, default=16)
    arguments.add_argument("--seeds", type=int, default=20)
    arguments.add_argument("--first-seed", type=int, default=0)
    arguments.add_argument("--only", default="", help="spaces of --quality, with commas; all when left out")
    arguments.add_argument("--strategy", default="surrogate", help="of --quality")
    arguments.add_argument("--evaluations", type=int, default=100)
    given = arguments.parse_args()
    if given.quality:
        if given.spaces is None:
            arguments.error("--quality needs --spaces: a folder of recorded spaces")
        found = compare(
            given.spaces,
            strategy=given.strategy,
            devices=given.in_flight,
            seeds=range(given.first_seed, given.first_seed + given.seeds),
            evaluations=given.evaluations,
            only=[name for name in given.only.split(",") if name],
        )
        head = ["space", "one device", f"{given.in_flight} devices", "ratio", "95% interval"]
        rows = [
            [
                q.space,
                f"{q.one:.3f}",
                f"{q.many:.3f}",
                f"{q.ratio:.3f}",
                f"{q.low:.3f} to {q.high:.3f}",
            ]
            for q in found
        ]
        emit(given.json, {"quality": [asdict(q) for q in found]}, table(head, rows))
        return
    try:
        import ray  # noqa: F401
    except ImportError:
        sys.exit("skipped: pip install 'remix-tuner[ray]'")
    note("the driver alone")
    limit = driver_limit(2000)
    results = []
    for devices in (int(word) for word in given.devices.split(",")):
        note(f"{devices} devices")
        results.append(throughput(devices, given.evaluation_ms / 1e3, given.trials))
    note(f"{given.kills} kills")
    lost = kills(given.kills) if given.kills else {}
    body = [
        [
            int(r["devices"]),
            f"{r['trials_per_s']:.1f}",
            f"{r['ideal_per_s']:.1f}",
            f"{r['share_of_ideal']:.0%}",
            f"{r['driver_cpu_ms_per_trial']:.2f}",
            f"{r['record_bytes_per_trial']:.0f}",
            *(f"{r['cpu_ms_per_trial'].get(part, 0.0):.2f}" for part in ("relays", "devices", "ray")),
            f"{r['machine']['idle']:.0%}, {r['machine']['steal']:.0%}",
            f"{r['device_idle_ms']['mean']:.1f}, {r['device_idle_ms']['median']:.1f}",
        ]
        for r in results
    ]
    head = ["devices", "trials/s", "ideal", "share", "driver CPU ms/trial", "record bytes/trial"]
    head += ["relays' CPU", "devices'", "Ray's", "machine idle, steal", "device idle ms, median"]
    lines = "\n".join(f"{k}: {v}" for k, v in {**limit, **lost}.items())
    emit(given.json, {"scale": results, "driver": limit, "kills": lost}, table(head, body) + "\n" + lines)


if __name__ == "__main__":
    main()
