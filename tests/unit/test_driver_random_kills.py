"""The tuner killed at any of its instants, many times: a resumed run ends as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from instants import Instants, killed_runs

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

    def run(path: Path, instants: Instants) -> None:
        backend = SimulatedBackend(seconds=seconds, on_event=instants.at)
        begin(spec, path, Options(seed=4, workers=2), backend=backend, observers=[instants])

    whole = begin(
        spec, folder / "whole.run", Options(seed=4, workers=2), backend=SimulatedBackend(seconds=seconds)
    )
    for path in killed_runs(run, folder, count, seed=1):
        before = hashes(path)
        result = resume(path, backend=SimulatedBackend(seconds=seconds))
        assert hashes(path)[: len(before)] == before
        assert result.summary.speedup == whole.summary.speedup
        assert result.summary.best.number == whole.summary.best.number
        assert audit(path).differences == []


@pytest.mark.parametrize(
    "kills",
    [pytest.param(6, marks=pytest.mark.integration), pytest.param(300, marks=pytest.mark.measured)],
)
def test_kills_at_any_instant(scale_spec: Callable[..., Path], tmp_path: Path, kills: int) -> None:
    survive(scale_spec, tmp_path, kills)
