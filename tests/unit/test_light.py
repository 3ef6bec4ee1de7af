"""The speed of light: bounds, when it ends a search, when it refuses a time, when it is shown not to hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from run_events import events
from virtual_clock import VirtualReadings

from tuner.api import load
from tuner.cli.text import print_result
from tuner.core.errors import MachineError
from tuner.core.protocols import Peaks
from tuner.core.types import Resolved
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.runs import begin
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.peaks import host_peaks
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

PEAKS = Peaks(
    bandwidths=((1 << 14, 100e9), (1 << 20, 10e9), (1 << 26, 5e9)),
    operations={"float32": 64e9, "float64": 32e9},
)
TRAFFIC = 2 * 4 * 4096
"""Bytes of both arrays of the spec."""


@pytest.fixture
def run(scale_spec: Callable[..., Path], tmp_path: Path) -> Callable[..., Outcome]:
    def make(
        at_best: Peaks,
        seconds: Callable[[Resolved], float],
        notes: dict[str, Any] | None = None,
        **measure: Any,
    ) -> Outcome:
        path = scale_spec(evaluations=20)
        document = yaml.safe_load(path.read_text())
        document["measure"] = measure
        path.write_text(yaml.safe_dump(document))
        (spec,) = load_spec(path)
        backend = SimulatedBackend(seconds=seconds, at_best=at_best, notes=notes or {})
        outcome = begin(spec, tmp_path / "a.run", Options(seed=1, workers=1), backend=backend)
        assert outcome.path is not None
        assert audit(outcome.path, backend=backend).clean
        return outcome

    return make


def stepped(resolved: Resolved) -> float:
    """A microsecond at STEP 32, more the farther it is from there."""
    return 1e-6 * (1 + abs(int(resolved.macros["STEP"]) - 32) / 4)


def at(bound_s: float) -> Peaks:
    return Peaks(bandwidths=((1 << 10, TRAFFIC / bound_s),), operations={"float32": 64e9})


def test_a_search_ends_at_the_bound(run: Callable[..., Outcome]) -> None:
    found = run(at(1e-6), stepped)
    assert found.summary.stopped_by == "speed_of_light"
    assert found.summary.light is not None
    assert found.summary.light[1] == pytest.approx(1.0, abs=0.03)
    assert found.to_json()["light"]["bound_s"] == pytest.approx(1e-6)


@pytest.mark.integration
def test_a_bound_that_arguments_suggest_refuses_nothing(run: Callable[..., Outcome]) -> None:
    found = run(at(3e-6), stepped)
    assert found.summary.trials["refused"] == 0
    assert found.summary.stopped_by == "evaluations"
    assert found.summary.light is not None
    assert found.summary.light[1] is None  # a candidate was below it
    assert not found.summary.overstated


@pytest.mark.integration
def test_a_time_below_what_the_user_vouches_for_is_refused(run: Callable[..., Outcome]) -> None:
    peaks = Peaks(bandwidths=((1 << 10, 1e10),), operations={"float32": 64e9})
    found = run(peaks, stepped, bytes="30000 + 0 * n")
    assert found.summary.trials["refused"] > 0
    assert found.summary.best_s[0] >= 0.85 * 3e-6


WHOLE = {"partly_written": []}


@pytest.mark.integration
def test_a_time_below_what_filling_the_outputs_takes_is_refused(run: Callable[..., Outcome]) -> None:
    found = run(at(4e-6), stepped, WHOLE)
    assert found.summary.trials["refused"] > 0
    # Half of the traffic is that of the output.
    assert found.summary.best_s[0] >= 0.85 * 2e-6


@pytest.mark.integration
def test_an_honest_time_above_it_is_not(run: Callable[..., Outcome]) -> None:
    found = run(at(2e-6), stepped, WHOLE)
    assert found.summary.trials["refused"] == 0
    assert found.summary.best_s[0] < 1.1e-6


@pytest.mark.integration
def test_outputs_that_need_not_be_filled_refuse_nothing(run: Callable[..., Outcome]) -> None:
    assert run(at(4e-6), stepped, {"partly_written": ["b"]}).summary.trials["refused"] == 0


@pytest.mark.integration
def test_a_baseline_faster_than_filling_its_outputs_disproves_it(run: Callable[..., Outcome]) -> None:
    assert run(at(1e-4), stepped, WHOLE).summary.trials["refused"] == 0


@pytest.mark.integration
def test_a_baseline_below_the_bound_shows_that_it_is_wrong(
    run: Callable[..., Outcome], capsys: pytest.CaptureFixture[str]
) -> None:
    """And the result says so: whoever wrote a wrong unit would believe that impossible times are refused."""
    peaks = Peaks(bandwidths=((1 << 10, 1e10),), operations={"float32": 1e9})
    found = run(peaks, stepped, operations="1e6")
    assert found.summary.trials["refused"] == 0
    assert found.summary.trials["ok"] > 10
    assert found.summary.overstated
    assert found.path is not None
    print_result(load(found.path))
    assert "measure.operations is too large" in capsys.readouterr().out


def bound_of(outcome: Outcome) -> dict[str, Any]:
    """As the record has it from the begin."""
    assert outcome.path is not None
    (found,) = events(outcome.path)[0][2]["light"]["problems"]
    return dict(found)


def test_bounds_take_the_bandwidth_of_what_fits(run: Callable[..., Outcome]) -> None:
    assert bound_of(run(PEAKS, stepped)) == {
        "bytes": TRAFFIC,
        "operations": 0.0,
        "bound_s": pytest.approx(TRAFFIC / 100e9),
        "bandwidth_bytes_per_s": 100e9,
        "operations_per_s": 64e9,
        "written_bytes": TRAFFIC / 2,
        "written_s": pytest.approx(TRAFFIC / 2 / 100e9),
    }


def test_the_larger_of_traffic_and_operations_counts(run: Callable[..., Outcome]) -> None:
    found = bound_of(run(PEAKS, stepped, operations="1000 * n", bytes="8 * n"))
    assert found["bound_s"] == pytest.approx(1000 * 4096 / 64e9)


@pytest.fixture
def small_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The host with a cache folder of its own and caches that are walked fast; others disturb it as a test says."""

    def made(*disturbances: str) -> Any:
        backend = HostBackend()
        backend.readings = VirtualReadings(disturbances=[list(disturbances)] * 200)
        return backend

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sizes = SimpleNamespace(l1_bytes=1 << 15, l2_bytes=1 << 18, last_level_bytes=1 << 20)
    monkeypatch.setattr("tuner.evaluators.host.peaks.cache_sizes", lambda: sizes)
    return made


@pytest.mark.measured
def test_the_host_measures_itself_once(small_host: Callable[..., Any]) -> None:
    backend = HostBackend()
    assert host_peaks(backend, "native", 1, measure=False) is None
    found = host_peaks(backend, "native", 1, measure=True)
    assert found is not None
    rates = [rate for _, rate in found.bandwidths]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] > 1e8
    assert found.clock_hz is not None
    assert 2e8 < found.clock_hz < 1e10
    # Which is more cannot be asserted beside other work: nothing here says that one of them met some.
    assert min(found.operations["float32"], found.operations["float64"]) > 1e8
    again = host_peaks(backend, "native", 2, measure=False)
    assert again is not None
    assert again.operations["float32"] == pytest.approx(2 * found.operations["float32"])


@pytest.mark.integration
def test_peaks_of_a_busy_machine_are_not_kept(small_host: Callable[..., Any]) -> None:
    """They would be too low for good, and honest candidates faster than they allow."""
    backend = small_host("waited 0.050 s for a processor in 0.100 s")
    with pytest.raises(MachineError, match=r"while it does other things \(waited 0.050 s"):
        host_peaks(backend, "native", 1, measure=True)
    assert host_peaks(backend, "native", 1, measure=False) is None


def test_a_machine_that_cannot_be_measured_has_no_bound(
    scale_spec: Callable[..., Path], tmp_path: Path
) -> None:
    class Broken(SimulatedBackend):
        def peaks(self, target: str, threads: int, *, measure: bool) -> Peaks | None:
            raise MachineError("nothing can be timed here", "use another machine")

    (spec,) = load_spec(scale_spec(evaluations=4))
    found = begin(spec, tmp_path / "a.run", Options(seed=1, workers=1), backend=Broken(seconds=stepped))
    assert found.summary.light is None
    assert found.summary.stopped_by == "evaluations"
