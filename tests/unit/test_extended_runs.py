"""Runs that are given more budget, or only confirmed, after they ended or were interrupted."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import product_runs
import pytest
from commands import run_tuner
from run_events import events

from tuner import api
from tuner.core.claims import confirm_verdict
from tuner.core.errors import UsageError
from tuner.core.types import Resolved, Status
from tuner.driver.audit import audit
from tuner.driver.options import Further, Options
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.records import find_newest
from tuner.driver.runs import begin, resume
from tuner.driver.work.engine import Interruption
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]


def landscape(resolved: Resolved) -> float:
    """Best at STEP 8 and WIDTH 5; twice as fast as the default."""
    step, width = int(resolved.macros["STEP"]), int(resolved.macros["WIDTH"])
    return 1e-3 * (0.5 + 0.1 * abs(math.log2(step) - 3) + 0.05 * abs(width - 5))


def backend(**more: Any) -> SimulatedBackend:
    return SimulatedBackend(**{"seconds": landscape, **more})


@pytest.fixture
def spec(scale_spec: SpecWriter) -> LoadedSpec:
    (loaded,) = load_spec(scale_spec(evaluations=12))
    return loaded


def bodies(path: Path, kind: str) -> list[Any]:
    return [body for one, _, body in events(path) if one == kind]


def trials(path: Path) -> list[int | None]:
    return [trial for kind, trial, _ in events(path) if kind == "trial"]


def evaluations(result: Outcome) -> int:
    counts = result.summary.trials
    return counts["total"] - counts["duplicate"] - counts["pruned"]


def ended(spec: LoadedSpec, path: Path, **more: Any) -> Outcome:
    return begin(spec, path, Options(**more), backend=backend())


def interrupted(spec: LoadedSpec, path: Path, trial: int) -> Outcome:
    interruption = Interruption()

    class Stop:
        def event(self, kind: str, body: Mapping[str, Any]) -> None:
            if kind == "trial" and body["trial"] == trial:
                interruption.set()

    options = Options(evaluations=40)
    return begin(spec, path, options, backend=backend(), observers=[Stop()], interruption=interruption)


def test_a_run_that_ended_searches_on_from_where_it_was(spec: LoadedSpec, tmp_path: Path) -> None:
    path = tmp_path / "scale-1.run"
    first = ended(spec, path)
    before = [body["proposals"] for body in bodies(path, "ask")]
    second = resume(path, backend=backend(), further=Further(evaluations=20))
    assert evaluations(first) == 12
    assert evaluations(second) == 32
    assert [body["proposals"] for body in bodies(path, "ask")][: len(before)] == before
    assert second.summary.improved
    assert second.summary.speedup[0] >= first.summary.speedup[0] * 0.98
    assert second.to_json()["extended"] == 1
    assert audit(path, backend=backend()).clean
    assert api.load(path).to_json() == second.to_json()


def test_an_interrupted_run_goes_on_with_the_budget_that_is_said(spec: LoadedSpec, tmp_path: Path) -> None:
    path = tmp_path / "scale-1.run"
    assert interrupted(spec, path, 5).interrupted
    done = resume(path, backend=backend(), further=Further(evaluations=3))
    assert not done.interrupted
    assert evaluations(done) <= 6 + 3
    assert len(trials(path)) > 6
    assert audit(path, backend=backend()).clean


def test_what_an_interrupted_run_found_is_confirmed_without_searching_on(
    spec: LoadedSpec, tmp_path: Path
) -> None:
    path = tmp_path / "scale-1.run"
    interrupted(spec, path, 5)
    asked = bodies(path, "ask")
    done = resume(path, backend=backend(), further=Further(searches=False))
    assert done.summary.improved
    assert done.summary.stopped_by == "confirm"
    assert bodies(path, "ask") == asked
    assert audit(path, backend=backend()).clean


def test_more_time_is_counted_from_where_the_run_was(spec: LoadedSpec, tmp_path: Path) -> None:
    """A long run has used up its shares of the time: a short one after it still searches, and confirms."""
    path, now = tmp_path / "scale-1.run", [0.0]

    def event(name: str) -> None:
        now[0] += 2.0 if name == "verify" else 0.1

    slow = backend(on_event=event)
    options = Options(minutes=10, evaluations=12, strategy="random")
    begin(spec, path, options, backend=slow, clock=lambda: now[0])
    now[0] += 1e6
    before = len(trials(path))
    done = resume(path, backend=slow, clock=lambda: now[0], further=Further(minutes=3))
    assert len(trials(path)) > before + 10
    assert done.summary.improved
    (extended,) = bodies(path, "extend")
    assert done.summary.wall_s <= extended["clock_s"] + 3 * 60 + 5
    assert audit(path, backend=slow).clean


def test_a_claim_stands_where_what_came_later_fails(spec: LoadedSpec, tmp_path: Path) -> None:
    path = tmp_path / "scale-1.run"
    first = ended(spec, path)
    winner = first.summary.best.number
    macros = {name: first.summary.configuration[name] for name in ("STEP", "WIDTH")}
    best_s = landscape(Resolved(macros=macros, scalars={}, flags=(), pipeline=None))
    late = [False]

    def outcome(resolved: Resolved) -> Status:
        return Status.WRONG_RESULT if late[0] and landscape(resolved) < best_s * 0.999 else Status.OK

    failing = backend(outcome=outcome)
    found = resume(path, backend=failing, further=Further(evaluations=25), observers=[_At("stop", late)])
    finalists = bodies(path, "stop")[-1]["finalists"]
    assert winner in finalists
    assert finalists[0] != winner
    assert found.summary.best.number == winner
    assert found.summary.speedup == first.summary.speedup
    assert audit(path, backend=backend()).clean


def test_a_claim_stands_while_the_run_goes_further(spec: LoadedSpec, tmp_path: Path) -> None:
    path = tmp_path / "scale-1.run"
    first = ended(spec, path)
    interruption = Interruption()

    class Stop:
        def event(self, kind: str, body: Mapping[str, Any]) -> None:
            if kind == "extend":
                interruption.set()

    cut = resume(
        path,
        backend=backend(),
        further=Further(evaluations=20),
        observers=[Stop()],
        interruption=interruption,
    )
    assert cut.interrupted
    assert cut.summary.claim == "improved"
    assert cut.summary.speedup == first.summary.speedup
    assert api.load(path).configuration == first.summary.configuration


class _At:
    """Sets a flag at the last event of a kind."""

    def __init__(self, kind: str, flag: list[bool]) -> None:
        self._kind, self._flag, self._extended = kind, flag, False

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        self._extended = self._extended or kind == "extend"
        if self._extended and kind == self._kind:
            self._flag[0] = True


def test_each_further_confirmation_has_half_of_the_error_of_the_one_before() -> None:
    baseline = [1.0, 1.02, 0.98, 1.01, 0.99, 1.03]
    candidate = [0.9, 0.95, 0.93, 0.97, 0.91, 0.96]
    found = [confirm_verdict(baseline, candidate, before=n).interval for n in range(6)]
    widths = [math.log(i.high / i.low) for i in found if i is not None]
    assert len(widths) == 6
    assert widths == sorted(widths)
    assert widths[0] < widths[1]


def test_inputs_of_confirming_are_never_those_of_before(spec: LoadedSpec, tmp_path: Path) -> None:
    path = tmp_path / "scale-1.run"
    ended(spec, path)
    for _ in range(2):
        resume(path, backend=backend(), further=Further(evaluations=10))
    finals = [(trial, body) for kind, trial, body in events(path) if kind == "final"]
    numbers = [(trial, body["number"]) for trial, body in finals if body["purpose"] == "confirm"]
    assert len(numbers) == len(set(numbers))


def test_a_run_over_several_devices_goes_further(spec: LoadedSpec, tmp_path: Path) -> None:
    def devices(task: Any) -> ThreadExecutor:
        return ThreadExecutor(lambda: backend().prepare(task, workers=1), ["simulated"] * 3, builders=2)

    path = tmp_path / "scale-1.run"
    first = begin(spec, path, Options(), backend=backend(), executor=devices)
    second = resume(path, backend=backend(), executor=devices, further=Further(evaluations=15))
    assert evaluations(first) == 12
    assert evaluations(second) == 27
    assert second.summary.improved
    assert audit(path, backend=backend()).clean


def test_a_run_over_variants_goes_further(tmp_path: Path) -> None:
    (tmp_path / "product.c").write_text(product_runs.KERNEL)
    (tmp_path / "spec.yaml").write_text(product_runs.SPEC)
    (spec,) = load_spec(tmp_path / "spec.yaml")
    path = tmp_path / "product-1.run"
    options = Options(evaluations=20)
    first = begin(spec, path, options, backend=product_runs.backend())
    second = resume(path, backend=product_runs.backend(), further=Further(evaluations=40))
    assert evaluations(second) > evaluations(first) + 20
    assert second.summary.speedup[0] >= first.summary.speedup[0] * 0.98
    assert audit(path, backend=product_runs.backend()).clean


def test_the_newest_run_that_ended_is_found_where_more_is_asked_for(spec: LoadedSpec, tmp_path: Path) -> None:
    path = tmp_path / "scale-1.run"
    ended(spec, path)
    with pytest.raises(UsageError, match=r"no unfinished run of scale in .*--minutes \+5 one that has ended"):
        find_newest(tmp_path, spec)
    assert find_newest(tmp_path, spec, ended=True) == path


def test_confirming_what_needs_none_or_cannot_be_is_said(spec: LoadedSpec, tmp_path: Path) -> None:
    claimed, flat = tmp_path / "a.run", tmp_path / "b.run"
    first = ended(spec, claimed)
    assert api.confirm(claimed).to_json() == first.to_json()
    begin(spec, flat, Options(), backend=backend(seconds=lambda _: 1e-3, call_noise=0.0, process_noise=0.0))
    with pytest.raises(UsageError, match="nothing that can be confirmed looks faster"):
        api.confirm(flat)


def test_on_the_command_line(scale_spec: SpecWriter, tmp_path: Path) -> None:
    path = scale_spec(evaluations=6)
    run = ("tune", str(path), "--out", str(tmp_path / "runs"), "--no-library", "--json")
    first = run_tuner(*run)
    assert first.returncode == 0
    more = run_tuner(*run, "--resume", "--evaluations", "+4")
    assert more.returncode == 0
    result = json.loads(more.stdout)
    assert result["run"] == json.loads(first.stdout)["run"]
    assert result["extended"] == 1
    for words, said in (
        (("--evaluations", "+4"), "a budget with + is more for a run that there is"),
        (("--evaluations", "2.5"), "no whole number"),
        (("--resume", "--minutes", "+1", "--evaluations", "5"), "one budget has a + and the other none"),
        (("--minutes", "x"), "no number"),
    ):
        refused = run_tuner(*run, *words)
        assert refused.returncode == 2
        assert said in refused.stderr
