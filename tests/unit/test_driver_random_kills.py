"""The tuner killed at random instants, many times: a resumed run ends as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.core.types import Resolved
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend


def seconds(resolved: Resolved) -> float:
    return 1e-3 * (1 + int(resolved.macros["STEP"]) % 7 / 20 + int(resolved.macros["WIDTH"]) / 50)


def hashes(path: Path) -> list[str]:
    with RunRecord.read(path) as record:
        return [event.hash for event in record.events()]


def survive(write: Callable[..., Path], folder: Path, count: int) -> None:
    (spec,) = load_spec(write())
    options = Options(seed=4, workers=2)
    started = time.monotonic()
    whole = begin(spec, folder / "whole.run", options, backend=SimulatedBackend(seconds=seconds))
    length_s = time.monotonic() - started
    rng, kills = random.Random(1), 0
    for turn in range(10 * count):
        path = folder / f"{turn}.run"
        child = os.fork()
        if child == 0:
            try:
                begin(spec, path, options, backend=SimulatedBackend(seconds=seconds))
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0, length_s))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        # How long a run takes depends on what else the machine does, so the instants follow it.
        if not os.WIFSIGNALED(status):
            length_s *= 0.9
            continue
        if not path.exists() or not (before := hashes(path)):
            length_s *= 1.05
            continue
        kills += 1
        result = resume(path, backend=SimulatedBackend(seconds=seconds))
        assert hashes(path)[: len(before)] == before
        assert result.summary.speedup == whole.summary.speedup
        assert result.summary.best.number == whole.summary.best.number
        assert audit(path).differences == []
        path.unlink()
        if kills == count:
            return
    raise AssertionError(f"only {kills} of {count} kills hit a run")


def test_some_kills_at_random_instants(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    survive(scale_spec, tmp_path, 8)


@pytest.mark.integration
def test_three_hundred_kills_at_random_instants(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    survive(scale_spec, tmp_path, 300)
