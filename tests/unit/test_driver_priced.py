"""Built candidates are left out only where running them takes longer than finding other code would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tuner.core.types import Proposal, Status
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.plan.pruning import not_worth
from tuner.driver.runs import begin
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState
from tuner.recorders.record import RunRecord
from tuner.spaces.passes import Catalogue
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

PASSES = ("dce", "gvn", "instcombine", "licm", "simplifycfg", "sroa")


def state_of(*, asked_s: float, built_s: float, ran_s: float, repeats: int) -> RunState:
    """One new trial that ran, and some that built to known code."""
    state = RunState(lambda name: b"")
    for number in range(repeats + 1):
        state.trials[number] = TrialState(
            number=number,
            proposal=Proposal(configuration={"A": number}, origin="test"),
            asked_s=asked_s,
            built_s=built_s,
            ran_s=0.0 if number else ran_s,
            build={"status": "ok"},
            status=Status.DUPLICATE if number else Status.OK,
        )
        state.finished.append(number)
    return state


@pytest.mark.parametrize(
    ("repeats", "ran_s", "worth"),
    [(0, 0.04, True), (0, 0.02, False), (9, 0.2, False), (9, 0.4, True)],
)
def test_a_run_is_saved_where_it_takes_twice_as_long_as_other_code(
    repeats: int, ran_s: float, worth: bool
) -> None:
    why = not_worth(state_of(asked_s=0.005, built_s=0.01, ran_s=ran_s, repeats=repeats))
    assert (why == "") is worth
    if not worth:
        assert why == f"a run takes {1e3 * ran_s:.3g} ms, finding other code {15 * (repeats + 1):.3g} ms"


def test_nothing_is_said_before_anything_ran() -> None:
    assert not_worth(state_of(asked_s=1.0, built_s=1.0, ran_s=0.0, repeats=3)) == ""


def test_trial_costs_follow_from_event_clocks(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    (spec,) = load_spec(scale_spec(evaluations=8))
    done = begin(spec, tmp_path / "a.run", Options(seed=1, workers=1), backend=SimulatedBackend(seconds=flat))
    assert done.path is not None
    with RunRecord.read(done.path) as record:
        events = list(record.events())
        state, _, _ = open_state(record)
    wanted: dict[int, float] = {}
    clock_s = 0.0
    for event in events:
        now_s = max(clock_s, float(event.body.get("clock_s", 0.0)))
        if event.kind in ("verify", "samples") and event.trial is not None:
            wanted[event.trial] = wanted.get(event.trial, 0.0) + now_s - clock_s
        clock_s = now_s
    assert {n: t.ran_s for n, t in state.trials.items() if t.ran_s} == pytest.approx(
        {n: s for n, s in wanted.items() if s}
    )
    assert all(t.asked_s > 0 for n, t in state.trials.items() if n and t.proposal.origin == "random")


def flat(_: Any) -> float:
    return 1e-3


@pytest.mark.integration
def test_only_runs_over_pipelines_are_priced(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    backend = SimulatedBackend(seconds=flat, catalogue=catalogue(), features=code)
    for passes, priced in (("off", False), ('{base: "default<O3>", max_edits: 8}', True)):
        (spec,) = load_spec(scale_spec(passes=passes, evaluations=20))
        done = begin(spec, tmp_path / f"{priced}.run", Options(seed=2, workers=1), backend=backend)
        assert done.path is not None
        with RunRecord.read(done.path) as record:
            start = next(iter(record.events())).body["settings"]
        assert start["priced"] is priced
        assert audit(done.path).clean


def code(resolved: Any) -> Mapping[str, float]:
    return {"text_bytes": float(len(str(resolved.pipeline)))}


def catalogue() -> Mapping[str, Any]:
    listing = "Function passes:\n" + "".join(f"  {name}\n" for name in PASSES)
    return Catalogue.from_listing(listing, f"function({','.join(PASSES)})", "23.1.4").to_json()
