"""What a user is told of the devices of a run: how many there are, what each did, which is slow, which is gone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.api import load
from tuner.cli.figures import Figures
from tuner.cli.text import print_result
from tuner.core.errors import UsageError
from tuner.core.executors import Executor
from tuner.core.types import Resolved, Task
from tuner.driver.imports import t4_of_run
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.driver.work.fleets import fleets
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]


def width_s(resolved: Resolved) -> float:
    return 1e-3 * (1 + int(resolved.macros["WIDTH"]))


class Uneven:
    """Three devices, of which one takes longer for everything and the third is lost in the middle of a run."""

    def __init__(self) -> None:
        self.made: ThreadExecutor | None = None
        self.count = self.trials = 0
        self.places: dict[int, int] = {}
        self.worked: set[int] = set()
        self.lost = False
        self._lock = threading.Lock()

    def __call__(self, task: Task) -> Executor:
        self.made = ThreadExecutor(lambda: self._evaluation(task), ["simulated"] * 3, builders=1)
        return self.made

    def event(self, kind: str, body: Any) -> None:
        if kind == "place":
            self.places[body["trial"]] = body["lane"]
        if kind != "trial":
            return
        self.trials += 1
        if body["trial"] in self.places and body["status"] == "ok":
            self.worked.add(self.places[body["trial"]])
        # A loaded machine may start a device late; each is to have something to show.
        if self.trials >= 60 and self.worked == {0, 1, 2} and not self.lost:
            assert self.made is not None
            self.made.lose(2)
            self.lost = True

    def _evaluation(self, task: Task) -> Any:
        with self._lock:
            self.count += 1
            slow = self.count == 3

        def pause(what: str) -> None:
            if what == "verify":
                time.sleep(0.1 if slow else 0.002)

        return SimulatedBackend(seconds=width_s, on_event=pause).prepare(task, workers=1)


@pytest.mark.integration
def test_a_result_says_what_each_device_did(
    scale_spec: SpecWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (spec,) = load_spec(scale_spec(strategy="exhaustive", evaluations=200))
    uneven, path = Uneven(), tmp_path / "a.run"
    backend = SimulatedBackend(seconds=width_s)
    begin(spec, path, Options(seed=3), backend=backend, executor=uneven, observers=[uneven])
    result = load(path)
    shares = result.to_json()["devices"]
    assert [s["lane"] for s in shares] == [0, 1, 2]
    assert sum(s["trials"] for s in shares) == result.outcome.summary.trials["ok"]
    assert [bool(s["lost"]) for s in shares] == [False, False, True]
    assert shares[0]["baseline_s"] == pytest.approx(2e-3, rel=0.1)
    json.dumps(shares, allow_nan=False)
    print_result(result)
    printed = capsys.readouterr().out
    assert "devices    3, " in printed
    assert f"lost: {shares[2]['lost']}" in printed
    figures = Figures()
    with RunRecord.read(path) as record:
        for event in record.events():
            figures.take(event.kind, {**event.body, "trial": event.trial})
    assert figures.devices() == f"2 devices (1 lost, the last because {shares[2]['lost']})"
    figures.take("resume", {"clock_s": 1e3})
    figures.take("lane_lost", {"lane": 0, "reason": "the run was resumed", "clock_s": 1e3})
    assert figures.devices().startswith("0 devices (1 lost, ")


@pytest.mark.parametrize("devices", [1, 2])
def test_a_result_names_the_devices_and_not_the_drivers_own(
    scale_spec: SpecWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str], devices: int
) -> None:
    """Unequal targets have a result each, which differ in that."""
    (spec,) = load_spec(scale_spec(strategy="random", evaluations=4))
    backend = SimulatedBackend(seconds=width_s)

    def elsewhere(task: Task) -> Executor:
        return ThreadExecutor(lambda: backend.prepare(task, workers=1), ["another card"] * devices)

    begin(spec, tmp_path / "a.run", Options(seed=3), backend=backend, executor=elsewhere)
    result = load(tmp_path / "a.run")
    assert result.to_json()["device"] == "another card"
    assert t4_of_run(tmp_path / "a.run")["metadata"]["device"] == "another card"
    print_result(result)
    assert "  device     another card\n" in capsys.readouterr().out


def test_one_device_is_nothing_to_speak_of(scale_spec: SpecWriter, tmp_path: Path) -> None:
    (spec,) = load_spec(scale_spec(strategy="random", evaluations=4))
    path = tmp_path / "a.run"
    begin(spec, path, Options(seed=3), backend=SimulatedBackend(seconds=width_s))
    assert "devices" not in load(path).to_json()


def test_the_address_of_rays_client_is_refused_with_what_works(scale_spec: SpecWriter) -> None:
    (spec,) = load_spec(scale_spec(strategy="random", evaluations=4))
    with pytest.raises(
        UsageError, match=r"Ray's client, through which no run .*; .*10\.0\.0\.1:6379, .*ray job submit"
    ):
        next(iter(fleets(spec, "ray", "ray://127.0.0.1:10001")))


@pytest.mark.parametrize(
    "address", ["", " ", "host", "host:", ":6379", "host:x", "host:65536", "tcp://host:1"]
)
def test_invalid_addresses_are_refused_at_once(scale_spec: SpecWriter, address: str) -> None:
    (spec,) = load_spec(scale_spec(strategy="random", evaluations=4))
    with pytest.raises(UsageError, match=r"--ray-address: .* is not an address; give HOST:PORT"):
        next(iter(fleets(spec, "ray", address)))
