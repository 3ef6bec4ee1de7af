"""Clocks that jump and machines that sleep: what was committed stays, what is decided stays the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.core.errors import MachineError
from tuner.core.types import Resolved, Status
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]


def landscape(resolved: Resolved) -> float:
    return 1e-3 * (1 + int(resolved.macros["WIDTH"]) / 10)


def test_the_calendar_decides_nothing(
    scale_spec: SpecWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (spec,) = load_spec(scale_spec(evaluations=12))
    options = Options(seed=4, workers=1)
    calm = begin(spec, tmp_path / "calm.run", options, backend=SimulatedBackend(seconds=landscape))
    jumps, real = random.Random(0), time.time
    monkeypatch.setattr(time, "time", lambda: real() + jumps.choice((-1e6, 0.0, 86400.0, 1e9)))
    wild = begin(spec, tmp_path / "wild.run", options, backend=SimulatedBackend(seconds=landscape))
    assert wild.summary.speedup == calm.summary.speedup
    assert wild.summary.configuration == calm.summary.configuration
    assert audit(tmp_path / "wild.run", backend=SimulatedBackend(seconds=landscape)).clean


@pytest.mark.parametrize("jump_s", [3600.0, 1e7])
def test_a_monotonic_clock_that_leaps_ends_the_search_and_nothing_more(
    scale_spec: SpecWriter, tmp_path: Path, jump_s: float
) -> None:
    """Virtual machines that were paused show it: the time budget is over, what was found is confirmed and kept."""
    (spec,) = load_spec(scale_spec(evaluations=1000))
    readings = 0

    def clock() -> float:
        nonlocal readings
        readings += 1
        return time.monotonic() + (jump_s if readings > 60 else 0.0)

    options = Options(seed=4, minutes=30.0, workers=1)
    backend = SimulatedBackend(seconds=landscape)
    result = begin(spec, tmp_path / "a.run", options, backend=backend, clock=clock)
    assert result.summary.stopped_by == "minutes"
    assert 1 < result.summary.trials["total"] < 100
    assert audit(tmp_path / "a.run", backend=backend).clean


@pytest.mark.measured
def test_a_machine_that_sleeps_costs_no_trial(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """The tuner and all of its workers stopped together in the middle of their work, several times."""
    runs = tmp_path / "runs"
    command = [
        sys.executable,
        "-c",
        "from tuner.cli.main import main; main()",
        "tune",
        scale_spec(evaluations=10),
        "--out",
        runs,
    ]
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, start_new_session=True)
    rng = random.Random(1)
    try:
        for _ in range(4):
            time.sleep(rng.uniform(0.5, 1.2))
            if process.poll() is not None:
                break
            family = _family(process.pid)
            for number in (signal.SIGSTOP, signal.SIGCONT):
                for pid in family:
                    _signal(pid, number)
                if number == signal.SIGSTOP:
                    time.sleep(0.7)
        _, complaint = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 0, complaint.decode()
    (path,) = runs.glob("*.run")
    assert audit(path).clean
    with RunRecord.read(path) as record:
        state, _, _ = open_state(record)
    assert {t.status for t in state.trials.values()} <= {Status.OK, Status.DUPLICATE}


def test_a_device_that_is_gone_ends_the_run_with_a_line_and_it_goes_on_later(
    scale_spec: SpecWriter, tmp_path: Path
) -> None:
    (spec,) = load_spec(scale_spec(evaluations=12))
    options = Options(seed=4, workers=1)
    whole = begin(spec, tmp_path / "whole.run", options, backend=SimulatedBackend(seconds=landscape))
    verified = 0

    def fall_off(what: str) -> None:
        nonlocal verified
        verified += what == "verify"
        if verified == 7:
            raise MachineError("the device cannot be opened: it is gone", "see nvidia-smi")

    path = tmp_path / "a.run"
    with pytest.raises(
        MachineError, match="it is gone; see nvidia-smi; what is committed is kept, and --resume"
    ):
        begin(spec, path, options, backend=SimulatedBackend(seconds=landscape, on_event=fall_off))
    later = resume(path, backend=SimulatedBackend(seconds=landscape))
    assert later.summary.speedup == whole.summary.speedup
    assert later.summary.trials == whole.summary.trials
    assert audit(path, backend=SimulatedBackend(seconds=landscape)).clean


def _family(pid: int) -> list[int]:
    """A process with everything below it."""
    try:
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        words = []
    return [pid, *(one for word in words for one in _family(int(word)))]


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
