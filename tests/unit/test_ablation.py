"""What each setting and pass of a winner is worth: found, timed beside the winner, replayed, resumed, never a claim."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from instants import InterruptAt

from tuner.core.executors import Executor
from tuner.core.types import Resolved, Status, Task
from tuner.driver.audit import audit
from tuner.driver.options import Further, Options
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.plan.ablation import Worth
from tuner.driver.runs import begin, resume
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.recorders.record import RunRecord
from tuner.spaces.passes import Catalogue
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]

STEPS = (1, 2, 4, 8, 16, 32, 64)
GOLDEN = Path(__file__).parents[1] / "golden"


def seconds(resolved: Resolved) -> float:
    """STEP is worth a factor of two, WIDTH a fifth, the flag group nothing, a pass of some kind a tenth."""
    time_s = 1e-3 * (1.0 if int(resolved.macros["STEP"]) == 1 else 0.5)
    time_s *= 1.2 if int(resolved.macros["WIDTH"]) == 1 else 1.0
    return time_s * (0.9 if "loop-" in (resolved.pipeline or "") else 1.0)


def spec_with(spec: Path, **changes: Any) -> Path:
    document = yaml.safe_load(spec.read_text())
    for part, values in changes.items():
        document[part] = {**document.get(part, {}), **values}
    spec.write_text(yaml.safe_dump(document))
    return spec


def run_of(spec: Path, path: Path, **more: Any) -> Outcome:
    (loaded,) = load_spec(spec)
    backend = more.pop("backend", None) or SimulatedBackend(seconds=seconds)
    return begin(loaded, path, Options(seed=3, workers=1), backend=backend, **more)


def kinds(path: Path) -> Counter[str]:
    with RunRecord.read(path) as record:
        return Counter(event.kind for event in record.events())


def by_name(found: Outcome) -> dict[str, Worth]:
    return {w.item["name"]: w for w in found.summary.ablation}


@pytest.mark.integration
def test_settings_are_worth_what_they_do_for_a_share_of_the_evaluations(
    scale_spec: SpecWriter, tmp_path: Path
) -> None:
    found = run_of(scale_spec(evaluations=60), tmp_path / "a.run")
    worths = by_name(found)
    assert found.summary.improved
    assert found.summary.trials["total"] == 60
    assert 0 < kinds(tmp_path / "a.run")["weighed"] <= 60 // 3
    assert worths["STEP"].ratio is not None
    assert worths["STEP"].ratio[1] < 2.0 < worths["STEP"].ratio[2] * 1.02
    assert worths["STEP"].ratio[0] == pytest.approx(2.0, rel=0.03)
    assert worths["WIDTH"].ratio is not None
    assert worths["WIDTH"].ratio[0] == pytest.approx(1.2, rel=0.03)
    assert worths["STEP"].processes >= 4
    assert audit(tmp_path / "a.run", backend=SimulatedBackend(seconds=seconds)).clean
    told = found.to_json()["ablation"]
    assert {t["name"] for t in told} == set(worths)


@pytest.mark.integration
def test_equal_code_is_not_timed(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """The flags change nothing in the code, so one build says that they are worth nothing."""

    def code(resolved: Resolved) -> Any:
        return dict(resolved.macros)

    backend = SimulatedBackend(seconds=seconds, same_code=code)
    spec = spec_with(scale_spec(evaluations=60), space={"flags": {"vector": ["", "-fno-vectorize"]}})
    found = run_of(spec, tmp_path / "a.run", backend=backend)
    changed = by_name(found)
    assert set(changed) <= {"STEP", "WIDTH", "vector"}
    if "vector" in changed:
        assert changed["vector"].same_code
        assert changed["vector"].processes == 0


@pytest.mark.integration
def test_off_and_short_runs_do_nothing(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """Off means off; a run of a dozen evaluations has nothing to spare."""
    short = run_of(scale_spec(evaluations=12), tmp_path / "short.run")
    assert short.summary.ablation == ()
    off = spec_with(scale_spec(evaluations=30), search={"ablate": "off"})
    assert run_of(off, tmp_path / "off.run").summary.ablation == ()
    assert not {"dissect", "without", "weighed"} & set(kinds(tmp_path / "off.run"))


def test_full_takes_every_setting_apart_with_all_processes(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """In a run that has nothing to spare."""
    full = spec_with(scale_spec(evaluations=12), search={"ablate": "full"})
    more = run_of(full, tmp_path / "full.run")
    assert {w.processes for w in more.summary.ablation if w.ratio and not w.same_code} == {8}


@pytest.mark.integration
def test_interrupted_it_goes_on_and_ends_the_same(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """At each of its steps."""
    spec = spec_with(scale_spec(evaluations=12), search={"ablate": "full"})
    whole = run_of(spec, tmp_path / "whole.run")
    for kind in ("dissect", "without", "weighed"):
        path, stop = tmp_path / f"{kind}.run", InterruptAt(kind)
        begun = run_of(spec, path, observers=[stop], interruption=stop.interruption)
        assert begun.interrupted
        backend = SimulatedBackend(seconds=seconds)
        ended = resume(path, backend=backend)
        assert [w.to_json() for w in ended.summary.ablation] == [w.to_json() for w in whole.summary.ablation]
        assert audit(path, backend=backend).clean


def test_necessary_settings_are_reported(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """A setting without which outputs are wrong fails at the verification; the rest is timed all the same."""

    def outcome(resolved: Resolved) -> Status:
        wrong = int(resolved.macros["STEP"]) == 1 and int(resolved.macros["WIDTH"]) > 1
        return Status.WRONG_RESULT if wrong else Status.OK

    spec = spec_with(scale_spec(evaluations=40), search={"ablate": "full"})
    backend = SimulatedBackend(seconds=seconds, outcome=outcome)
    worths = by_name(run_of(spec, tmp_path / "a.run", backend=backend))
    assert worths["STEP"].status is Status.WRONG_RESULT
    assert worths["STEP"].ratio is None
    assert worths["WIDTH"].ratio is not None
    assert audit(tmp_path / "a.run", backend=backend).clean


def test_settings_that_constraints_tie_go_back_together(scale_spec: SpecWriter, tmp_path: Path) -> None:
    spec = scale_spec(evaluations=60)
    spec = spec_with(spec, space={"constraints": ["STEP > 1 or WIDTH == 1"]}, search={"ablate": "full"})
    worths = by_name(run_of(spec, tmp_path / "a.run"))
    assert worths["STEP"].item["also"] == "WIDTH"
    assert worths["STEP"].ratio is not None
    assert worths["STEP"].ratio[0] == pytest.approx(2.4, rel=0.03)


@pytest.mark.integration
def test_passes_of_the_winner(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """The pipeline as a whole and each of its passes; what is worth something is what the formula says."""
    listing = (GOLDEN / "llvm23_passes.txt").read_text()
    o3 = (GOLDEN / "llvm23_o3.txt").read_text().strip()
    backend = SimulatedBackend(
        seconds=lambda r: 1e-3 * (0.8 if "gvn" in (r.pipeline or "").split("default")[0] else 1.0),
        catalogue=Catalogue.from_listing(listing, o3, "23.1.4").to_json(),
    )
    spec = scale_spec(evaluations=40, passes="{base: 'default<O3>', max_edits: 10}", strategy="auto")
    spec = spec_with(spec, search={"ablate": "full"})
    found = run_of(spec, tmp_path / "a.run", backend=backend)
    assert found.summary.improved
    worths = [w for w in found.summary.ablation if w.item["kind"] in ("pipeline", "pass")]
    assert worths[0].item["kind"] == "pipeline"
    assert worths[0].ratio is not None
    assert worths[0].ratio[0] == pytest.approx(1.25, rel=0.03)
    assert audit(tmp_path / "a.run", backend=backend).clean


def with_passes(code: Callable[[Resolved], Any], time_s: Callable[[Resolved], float]) -> SimulatedBackend:
    listing = (GOLDEN / "llvm23_passes.txt").read_text()
    o3 = (GOLDEN / "llvm23_o3.txt").read_text().strip()
    catalogue = Catalogue.from_listing(listing, o3, "23.1.4").to_json()
    return SimulatedBackend(seconds=time_s, same_code=code, catalogue=catalogue)


def test_passes_that_change_no_code_are_left_out_of_the_winner(
    scale_spec: SpecWriter, tmp_path: Path
) -> None:
    def counts(resolved: Resolved) -> bool:
        return "newgvn" in (resolved.pipeline or "")

    backend = with_passes(lambda r: [dict(r.macros), counts(r)], lambda r: 1e-3 * (0.8 if counts(r) else 1.0))
    spec = scale_spec(evaluations=40, passes="{base: 'default<O3>', max_edits: 10}", strategy="auto")
    stop = InterruptAt("shorten")
    begun = run_of(
        spec, tmp_path / "a.run", backend=backend, observers=[stop], interruption=stop.interruption
    )
    assert begun.interrupted
    found = resume(tmp_path / "a.run", backend=backend)
    assert found.summary.improved
    assert re.fullmatch(
        r"(default<O3>,)?function\(newgvn\)(,default<O3>)?", str(found.summary.configuration["passes"])
    )
    assert len(found.summary.shortened) > len("function(newgvn),default<O3>")
    # Without its one pass it is the baseline's pipeline, which is taken back as a whole.
    assert not [w for w in found.summary.ablation if w.item["kind"] == "pass"]
    assert audit(tmp_path / "a.run", backend=backend).clean
    assert audit(tmp_path / "a.run", rebuild=True, backend=backend).clean
    # Gone on with, the searcher knows the winner as it proposed it.
    resume(tmp_path / "a.run", further=Further(evaluations=20), backend=backend)
    assert audit(tmp_path / "a.run", backend=backend).clean


def test_they_are_left_out_where_several_devices_ran_it(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """Which trial wins depends on the devices' turns; that no pass of it is needed does not."""
    backend = with_passes(lambda r: dict(r.macros), seconds)

    def make(task: Task) -> Executor:
        return ThreadExecutor(lambda: backend.prepare(task, workers=1), ["simulated"] * 3, builders=2)

    spec = scale_spec(evaluations=30, passes="{base: 'default<O3>', max_edits: 10}", strategy="random")
    found = run_of(spec, tmp_path / "a.run", backend=backend, executor=make)
    assert found.summary.improved
    assert found.summary.configuration["passes"] == "default<O3>"
    assert audit(tmp_path / "a.run", backend=backend).clean


@pytest.mark.integration
def test_several_devices(scale_spec: SpecWriter, tmp_path: Path) -> None:
    def make(task: Task) -> Executor:
        prepared = SimulatedBackend(seconds=seconds)
        return ThreadExecutor(lambda: prepared.prepare(task, workers=1), ["simulated"] * 3, builders=2)

    spec = spec_with(scale_spec(evaluations=30), search={"ablate": "full"})
    found = run_of(spec, tmp_path / "a.run", executor=make)
    worths = by_name(found)
    assert worths["STEP"].ratio is not None
    assert worths["STEP"].ratio[0] == pytest.approx(2.0, rel=0.05)
    assert audit(tmp_path / "a.run", backend=SimulatedBackend(seconds=seconds)).clean


REPEATED = """
void tuner_work(long long ns);
void scale(const float *restrict a, float *restrict b, int n) {
    for (int i = 0; i < n; i++)
        b[i] = 2.0f * a[i] + (float)(WIDTH - WIDTH);
    tuner_work(STEP > 1 ? 1000 : 16000);
}
"""


@pytest.mark.integration
def test_a_real_compiler_and_real_processes(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """Whatever the search finds, each of its settings is either timed or has the same code, and the record stands."""
    spec = scale_spec(evaluations=5, few=True)
    (spec.parent / "scale.c").write_text(REPEATED)
    (loaded,) = load_spec(spec_with(spec, search={"ablate": "full"}))
    few = {"choose_processes": 2, "confirm_processes": 4, "confirm_least": 4}
    found = begin(loaded, tmp_path / "a.run", Options(seed=3, workers=2, settings=few))
    assert found.summary.improved
    worths = by_name(found)
    assert worths["STEP"].ratio is not None
    assert worths["STEP"].ratio[1] > 1.0
    assert all(w.same_code or w.processes == 8 for w in worths.values() if w.ratio)
    assert audit(tmp_path / "a.run", rebuild=True).clean


def test_a_rebuild_looks_at_what_the_winner_became_without_each(
    scale_spec: SpecWriter, tmp_path: Path
) -> None:
    spec = spec_with(scale_spec(evaluations=12), search={"ablate": "full"})
    run_of(spec, tmp_path / "a.run")
    built = kinds(tmp_path / "a.run")["without"]
    assert built
    same = audit(tmp_path / "a.run", rebuild=True, backend=SimulatedBackend(seconds=seconds))
    assert same.clean
    assert same.rebuilt is not None
    assert same.rebuilt >= built + 2

    def told(resolved: Resolved) -> Any:
        """Other code for what only taking back led to."""
        return {**resolved.macros, "same": True}

    other = audit(tmp_path / "a.run", rebuild=True, backend=SimulatedBackend(seconds=seconds, same_code=told))
    assert any("the winner without " in d and "builds to other object code" in d for d in other.differences)
