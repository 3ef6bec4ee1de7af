"""What a run says that saw something faster and claims nothing: the reason, and what would help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tuner.api import Result
from tuner.cli.text import print_result
from tuner.core.types import Measurement, Resolved, Status, Task, Verdict
from tuner.driver.audit import audit
from tuner.driver.options import Further, Options
from tuner.driver.runs import begin, resume
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

FEW = {"choose_processes": 2, "simpler": 0}


def seconds(resolved: Resolved) -> float:
    return 1e-3 / float(resolved.macros["WIDTH"])


@dataclass
class Unseen:
    """An evaluation in which some candidates fail in the processes that choose and confirm, or wait there."""

    inner: Any
    fails: Callable[[Resolved], bool]
    waited_s: float = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def open(self, build: Any, resolved: Resolved, *, purpose: str, number: int) -> Any:
        session = self.inner.open(build, resolved, purpose=purpose, number=number)
        return Held(session, self.fails(resolved), self.waited_s) if purpose == "confirm" else session


@dataclass
class Held:
    inner: Any
    fails: bool
    waited_s: float

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def verify(self) -> Verdict:
        if self.fails:
            return Verdict(status=Status.WRONG_RESULT, message="out differs from the recording at 7")
        return self.inner.verify()

    def measure(self, *, problem: int, calls: int) -> Measurement:
        return replace(self.inner.measure(problem=problem, calls=calls), notes={"waited_s": self.waited_s})


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend(SimulatedBackend):
    fails: Callable[[Resolved], bool] = lambda _: False
    waited_s: float = 0.0

    def prepare(self, task: Task, *, workers: int) -> Any:
        made = SimulatedBackend.prepare(self, task, workers=workers)
        return Unseen(made, self.fails, self.waited_s)


def run(scale_spec: Callable[..., Path], tmp_path: Path, backend: Backend, **more: Any) -> Any:
    (spec,) = load_spec(scale_spec(evaluations=12))
    result = begin(spec, tmp_path / "a.run", Options(settings=FEW, **more), backend=backend)
    assert audit(tmp_path / "a.run", backend=backend).clean
    return result


def said(result: Any, capsys: pytest.CaptureFixture[str]) -> str:
    print_result(Result(result))
    return capsys.readouterr().out.splitlines()[0]


def test_a_baseline_that_fails_on_what_was_held_out_is_no_lack_of_time(
    scale_spec: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = Backend(seconds=seconds, fails=lambda r: r.macros["WIDTH"] == 1 and r.macros["STEP"] == 1)
    result = run(scale_spec, tmp_path, failing)
    line = said(result, capsys)
    assert "the kernel as given failed on inputs that the search had not seen" in line
    assert "wrong_result: out differs from the recording at 7" in line
    assert "time for" not in line
    assert result.to_json()["unconfirmed"]["reason"] == "baseline"


def test_candidates_that_fail_on_what_was_held_out_are_said_so(
    scale_spec: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(scale_spec, tmp_path, Backend(seconds=seconds, fails=lambda r: float(r.macros["WIDTH"]) > 1))
    line = said(result, capsys)
    assert "looked faster failed on inputs that the search had not seen" in line
    assert "out differs from the recording at 7" in line
    assert not result.summary.improved


def slow(scale_spec: Callable[..., Path], tmp_path: Path, waited_s: float, minutes: float) -> Any:
    now = [0.0]

    def event(name: str) -> None:
        now[0] += 6.0 if name == "verify" else 0.02

    backend = Backend(seconds=seconds, on_event=event, waited_s=waited_s)
    (spec,) = load_spec(scale_spec(evaluations=12))
    options = Options(minutes=minutes, settings=FEW)
    return begin(spec, tmp_path / "a.run", options, backend=backend, clock=lambda: now[0])


def test_short_budgets_are_reported_in_pairs_and_confirmed_afterwards(
    scale_spec: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.run"
    result = slow(scale_spec, tmp_path, 0.0, 1.0)
    line = said(result, capsys)
    assert line.startswith("scale: 6.03 times faster in the search, not confirmed: time for ")
    assert (
        f"of the 4 pairs of processes that a claim needs, 12 s a pair; tuner confirm {path} goes on" in line
    )
    trials = result.summary.trials["total"]
    backend = Backend(seconds=seconds)
    result = resume(path, backend=backend, further=Further(searches=False))
    assert result.summary.improved
    assert result.summary.stopped_by == "confirm"
    assert result.summary.trials["total"] == trials
    assert audit(path, backend=backend).clean


def test_other_tuners_that_had_the_device_are_the_reason(
    scale_spec: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = slow(scale_spec, tmp_path, 5.0, 1.0)
    line = said(result, capsys)
    assert "other tuners on this machine had the device for" in line
    assert line.endswith(f"tuner confirm {tmp_path / 'a.run'} goes on with it")
    assert result.summary.unconfirmed.waited_s >= 5.0


def test_a_claim_or_nothing_faster_has_no_reason(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    assert run(scale_spec, tmp_path, Backend(seconds=seconds)).summary.unconfirmed is None
    (tmp_path / "a.run").unlink()
    flat = run(scale_spec, tmp_path, Backend(seconds=lambda _: 1e-3))
    assert flat.summary.unconfirmed is None
    assert "unconfirmed" not in flat.to_json()
