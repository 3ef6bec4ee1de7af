"""Runs with time left end when nothing better has come for long and none is expected; others use their budget up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from instants import InterruptAt
from run_events import events

from tuner.api import load
from tuner.cli.text import print_result
from tuner.core.types import EXPECTED, Resolved
from tuner.driver.audit import audit
from tuner.driver.options import Further, Options
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.plan import convergence
from tuner.driver.plan.convergence import LATEST, UNLIKELY, long_silent, nothing_expected
from tuner.driver.runs import begin, resume
from tuner.report import Follower
from tuner.report.data import collect
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]
MINUTES = 10.0
NO_STATISTICS = {"importance": None, "passes": None}
FEW, LEAST_S = 40, 100.0
"""Evaluations and seconds waited for at least, in place of more."""


def bowl(resolved: Resolved) -> float:
    """Four times as fast as the first at STEP 20 and WIDTH 12."""
    step, width = int(resolved.macros["STEP"]), int(resolved.macros["WIDTH"])
    return 1e-3 * (1 + ((step - 20) / 16) ** 2 + ((width - 12) / 10) ** 2)


class Slow:
    """A machine on which verifying takes two seconds, on a clock of its own."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.backend = SimulatedBackend(seconds=bowl, on_event=self._event)

    def clock(self) -> float:
        return self.now_s

    def _event(self, name: str) -> None:
        self.now_s += 2.0 if name == "verify" else 0.01


@pytest.fixture(autouse=True)
def _sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convergence, "SILENT", FEW)
    monkeypatch.setattr(convergence, "LEAST_S", LEAST_S)


@pytest.fixture
def specs(scale_spec: SpecWriter) -> Callable[..., LoadedSpec]:
    def make(**search: Any) -> LoadedSpec:
        path = scale_spec()
        document = yaml.safe_load(path.read_text())
        parameters = {"STEP": {"low": 1, "high": 40}, "WIDTH": {"low": 1, "high": 30}}
        document["space"] = {"parameters": parameters, "passes": "off"}
        given = {"strategy": "auto", "ablate": "off", "budget": {"minutes": MINUTES}, **search}
        document["search"] = given
        path.write_text(yaml.safe_dump(document))
        (loaded,) = load_spec(path)
        return loaded

    return make


def tuned(spec: LoadedSpec, path: Path, **options: Any) -> tuple[Outcome, Slow]:
    slow = Slow()
    return begin(spec, path, Options(workers=1, **options), backend=slow.backend, clock=slow.clock), slow


def seen(path: Path, kind: str) -> list[Any]:
    return [body for one, _, body in events(path) if one == kind]


def test_a_long_run_ends_when_nothing_better_comes(
    specs: Callable[..., LoadedSpec], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.run"
    found, slow = tuned(specs(), path)
    summary = found.summary
    assert summary.stopped_by == "converged"
    assert LEAST_S < summary.wall_s < MINUTES * 60 / 2
    # Confirmed as ever, with the best that there is.
    assert summary.improved
    assert dict(summary.configuration) == {"STEP": 20, "WIDTH": 12}
    assert seen(path, "verdict")
    (simpler,) = seen(path, "simplify")
    assert simpler["reason"] == "converged"
    data = found.to_json()
    assert data["stopped_by"] == "converged"
    assert data["unspent_s"] == pytest.approx(MINUTES * 60 - summary.wall_s)
    assert "nothing better in the last" in data["message"]
    print_result(load(path), "scale.yaml")
    shown = capsys.readouterr().out
    assert "ended by   converged after" in shown
    assert "minutes of the budget are left" in shown
    follower = Follower(path)
    follower.update()
    assert collect(follower, statistics=NO_STATISTICS)["result"]["unspent_s"] == data["unspent_s"]
    assert audit(path, backend=slow.backend).clean


def test_it_is_given_more_time_and_searches_on(specs: Callable[..., LoadedSpec], tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    first, slow = tuned(specs(), path)
    before = first.summary.trials["total"]
    again = resume(path, backend=slow.backend, clock=slow.clock, further=Further(minutes=5))
    assert again.summary.stopped_by == "minutes"
    assert again.summary.trials["total"] > before + 50
    assert "unspent_s" not in again.to_json()
    assert audit(path, backend=slow.backend).clean


@pytest.mark.integration
@pytest.mark.parametrize(
    ("search", "options", "stopped_by"),
    [
        ({"stop": "budget"}, {"minutes": 5}, "minutes"),
        ({}, {"evaluations": 150}, "evaluations"),
        # It says nothing of what it expects.
        ({"strategy": "random"}, {"minutes": 5}, "minutes"),
    ],
)
def test_a_budget_is_used_up_where_that_is_wanted(
    specs: Callable[..., LoadedSpec],
    tmp_path: Path,
    search: dict[str, Any],
    options: dict[str, Any],
    stopped_by: str,
) -> None:
    found, _ = tuned(specs(**search), tmp_path / "a.run", **options)
    assert found.summary.stopped_by == stopped_by


@pytest.mark.integration
def test_a_run_that_was_killed_ends_at_the_same_trial(
    specs: Callable[..., LoadedSpec], tmp_path: Path
) -> None:
    spec, path = specs(), tmp_path / "b.run"
    whole, _ = tuned(spec, tmp_path / "a.run")
    slow = Slow()
    begin(
        spec,
        path,
        Options(workers=1),
        backend=slow.backend,
        clock=slow.clock,
        observers=[cut := InterruptAt(count=250)],
        interruption=cut.interruption,
    )
    done = resume(path, backend=slow.backend, clock=slow.clock)
    assert done.summary.stopped_by == "converged"
    assert done.summary.trials == whole.summary.trials
    assert audit(path, backend=slow.backend).clean


@pytest.mark.parametrize(
    ("evaluations", "gained", "silent"),
    [
        (FEW - 1, 0, False),
        (FEW, 0, True),
        (2 * FEW, FEW, True),
        (100, 60, False),  # as many again as it took
        (120, 60, True),
    ],
)
def test_long_is_as_long_as_it_took(evaluations: int, gained: int, silent: bool) -> None:
    assert long_silent(evaluations, gained) is silent


@pytest.mark.parametrize(
    ("expected", "nothing"),
    [
        ([UNLIKELY - 1] * LATEST, True),
        ([*[UNLIKELY - 1] * (LATEST - 1), UNLIKELY + 1], False),
        ([*[UNLIKELY - 1] * (LATEST - 1), None], True),
        ([*[UNLIKELY - 1] * (LATEST // 2 - 1), *[None] * LATEST], False),
        ([None] * LATEST, False),
        (["-50"] * LATEST, False),
        ([True] * LATEST, False),
    ],
)
def test_nothing_is_expected_where_a_model_says_so(expected: Sequence[object], nothing: bool) -> None:
    assert nothing_expected(expected) is nothing


def test_a_model_says_what_it_expects(specs: Callable[..., LoadedSpec], tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    tuned(specs(), path, evaluations=60)
    notes = [p["note"] for body in seen(path, "ask") for p in body["proposals"]]
    by_model = [n for n in notes if n["how"] in ("model", "local")]
    assert len(by_model) > 40
    assert all(isinstance(n[EXPECTED], float) for n in by_model)
