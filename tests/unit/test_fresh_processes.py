"""Timing in fresh processes: what a machine did to one measurement is no word on the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from spec_files import spec_in

from tuner.core.types import BuildRequest, Resolved, Source, Status, Variant
from tuner.evaluators.executors import worker
from tuner.evaluators.host import timing
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.evaluation import HostEvaluation

KERNEL = "void twice(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }"
SPEC = """
kernel: {source: twice.c, entry: twice}
problem: {n: 4096}
arguments:
  - {name: x, dtype: float32, shape: [n], init: normal}
  - {name: y, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space: {flags: {fast: ["", "-ffast-math"]}}
"""
VARIANT = Variant(files=(Source(name="twice.c", text=KERNEL),))
PLAIN = Resolved(macros={}, scalars={}, flags=(), pipeline=None)


@pytest.fixture
def evaluation(tmp_path: Path) -> Iterator[HostEvaluation]:
    spec = spec_in(tmp_path, "twice.c", KERNEL, SPEC)
    made = HostBackend().prepare(spec.task, workers=1)
    yield made
    made.close()


@pytest.mark.parametrize("over_after", [2, 9])
def test_a_machine_whose_clocks_are_apart_is_given_time(
    evaluation: HostEvaluation, monkeypatch: pytest.MonkeyPatch, over_after: int
) -> None:
    """The processor's account of a process runs ahead of its own clock until some pauses have passed."""
    request = BuildRequest(trial=0, variant=VARIANT, resolved=PLAIN)
    (build,) = evaluation.build([request])
    assert evaluation.set_baseline(build, PLAIN).status is Status.OK
    pauses: list[float] = []
    account, ahead = timing._cpu, [0.0]

    def disturbed(runner: timing.Runner, during: str) -> float:
        ahead[0] += 0.05 if len(pauses) < over_after else 0.0
        return account(runner, during) + ahead[0]

    monkeypatch.setattr(timing, "_cpu", disturbed)
    monkeypatch.setattr(worker, "time", SimpleNamespace(sleep=pauses.append))
    status, measurements, message = worker.fresh_process(evaluation, build, PLAIN, "confirm", 1000, [8], 2)
    if over_after > 2:
        assert status is Status.REFUSED
        assert "cannot be believed" in message
        assert pauses == [0.5, 3.0]
    else:
        assert status is Status.OK, message
        assert len(measurements) == 1
        assert pauses == [0.5, 3.0][:over_after]
