"""Runs over variants of the source: what is spent where, failures, the winner's ablation, kills, resumes, replays."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_runs
import pytest
from instants import Instants, killed
from product_runs import KERNEL, SPEC, backend, seconds
from run_events import decided, events
from spec_files import spec_in

from tuner.core.types import Resolved, Variant
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.settings import Evolution
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec, load_spec


@pytest.fixture
def spec(tmp_path: Path) -> LoadedSpec:
    return spec_in(tmp_path, "product.c", KERNEL, SPEC)


def test_a_better_variant_is_found_and_claimed(spec: LoadedSpec, tmp_path: Path) -> None:
    """The result says which variant, by which edits, and a replay derives all of it again."""
    result = begin(spec, tmp_path / "a.run", Options(seed=1, workers=2), backend=backend())
    assert result.summary.improved
    assert result.summary.speedup[1] > 1.2
    value = result.to_json()
    assert value["evolution"]["variant"] != ORIGINAL
    assert value["evolution"]["variants"] >= 4
    assert value["best"]["variant"] != events(result.path)[0][2]["variant"]["digest"]
    counts = value["trials"]
    assert counts["total"] - counts["duplicate"] - counts["pruned"] <= 60
    report = audit(result.path, rebuild=True, remeasure=True, backend=backend())
    assert report.differences == []
    assert report.proposals > 20
    assert report.claim_stands


@pytest.mark.integration
def test_edits_that_do_nothing_are_taken_out(spec: LoadedSpec, tmp_path: Path) -> None:
    """Each kept edit is one that the times depend on, or one that those rest on."""

    def only_restrict(variant: Variant, resolved: Resolved) -> float:
        return 0.5 if any(e["op"] == "restrict" for e in variant.edits) else 1.0

    quiet = backend(of_variant=only_restrict, process_noise=0.001, call_noise=0.001)
    result = begin(spec, tmp_path / "a.run", Options(seed=2, workers=2, evaluations=80), backend=quiet)
    lineage = result.summary.evolution
    assert lineage is not None
    assert [e["op"] for e in lineage.edits] == ["restrict"]
    assert lineage.left_out > 0
    kinds = [k for k, _, _ in events(result.path)]
    assert kinds.index("minimise") < kinds.index("stop")
    assert audit(result.path, backend=quiet).differences == []


@pytest.mark.integration
def test_edits_without_which_the_code_is_the_same_are_taken_out(spec: LoadedSpec, tmp_path: Path) -> None:
    """Two times of one code differ on a busy machine: no edit stays for that, and none is said to be worth it."""
    drawn = random.Random(1)

    def busy(resolved: Resolved) -> float:
        return seconds(resolved) * math.exp(0.2 * abs(drawn.gauss(0.0, 1.0)))

    def no_restrict(variant: Variant) -> list[str]:
        return [str(e["op"]) for e in variant.edits if e["op"] != "restrict"]

    def halves(variant: Variant, resolved: Resolved) -> float:
        return 0.5 ** len(no_restrict(variant))

    seen = 0
    simulated = backend(seconds=busy, of_variant=halves, same_source=no_restrict)
    # Every edit but one helps, so that there are many to look at.
    settings = {"evolution": Evolution(reserve=0.4)}
    options = Options(seed=0, workers=2, settings=settings)
    result = begin(spec, tmp_path / "a.run", options, backend=simulated)
    with RunRecord.read(result.path) as record:
        state, _, _ = open_state(record)
    reduction = state.reduction
    assert reduction is not None
    for variant in (v for v in state.variants.values() if v.purpose == "reduce"):
        parent = [str(e["op"]) for e in state.variants[variant.parents[0]].edits]
        if parent.count("restrict") == 1 and "restrict" not in [e["op"] for e in variant.edits]:
            seen += variant.score is not None
    # What is chosen in the end may be another finalist, which was not taken apart.
    assert "restrict" not in [e["op"] for e in state.variants[reduction.variant].edits]
    assert audit(result.path, backend=simulated).differences == []
    assert seen


@pytest.mark.integration
def test_variants_whose_parameters_change_nothing_are_not_tuned_for_ever(
    spec: LoadedSpec, tmp_path: Path
) -> None:
    """As tiles that are longer than the loops they cut: every configuration of a variant builds to one code."""
    alike = backend(of_variant=lambda variant, _: 0.9 ** min(3, len(variant.edits)), same_code=lambda _: [])
    options = Options(seed=0, workers=2, evaluations=40)
    result = begin(spec, tmp_path / "a.run", options, backend=alike)
    with RunRecord.read(result.path) as record:
        state, _, _ = open_state(record)
    # Three rungs: one trial, and two that duplicates end.
    assert max(len(v.trials) for v in state.variants.values()) <= 24
    assert result.summary.trials["total"] < options.evaluations * 25
    assert audit(result.path, backend=alike).differences == []


@pytest.mark.integration
def test_survivors_get_more_and_failures_little_and_each_begins_where_its_parent_stands(
    spec: LoadedSpec, tmp_path: Path
) -> None:
    result = begin(spec, tmp_path / "a.run", Options(seed=3, workers=2), backend=backend())
    with RunRecord.read(result.path) as record:
        state, _, _ = open_state(record)
    assert state.settings.evolution is not None
    searched = [v for v in state.variants.values() if v.purpose == "propose" and v.number]
    failed = [v for v in searched if v.failed]
    assert failed
    assert max(len(v.trials) for v in failed) <= 2
    promoted = [v for v in searched if v.rung]
    assert promoted
    first = [v for v in searched if v.reached and v.reached[0] is not None]
    kept = sorted(v.reached[0] for v in promoted if v.reached[0] is not None)
    assert kept[0] == min(v.reached[0] for v in first if v.reached[0] is not None)
    for variant in searched:
        assert len(variant.trials) <= state.settings.evolution.rung(variant.rung)
    for variant in state.variants.values():
        if variant.number == ORIGINAL or not variant.trials:
            continue
        begun = state.trials[variant.trials[0]].proposal
        assert begun.configuration == variant.seed
        assert begun.origin == "inherit"
        parent = state.variants[variant.parents[0]]
        seen = {state.trials[n].proposal.configuration["WIDTH"] for n in parent.trials}
        assert begun.configuration["WIDTH"] in seen


@pytest.mark.integration
def test_killed_at_events_and_resumed_ends_the_same(spec: LoadedSpec, tmp_path: Path) -> None:
    settings = {"choose_processes": 2, "confirm_processes": 4, "control_every": 8}
    options = Options(seed=5, workers=2, strategy="auto", evaluations=22, settings=settings)
    whole = begin(spec, tmp_path / "whole.run", options, backend=backend())
    expected = decided(whole.path)
    kinds = [k for k, _, _ in events(whole.path)]
    assert {"variant", "promote", "minimise"} <= set(kinds)
    for kill_at in [_middle(kinds, kind) for kind in ("variant", "minimise", "promote")]:
        path = tmp_path / f"killed-{kill_at}.run"
        killed(run_of(spec, path, options), kill_at)
        result = resume(path, backend=backend())
        assert decided(path) == expected, f"killed at event {kill_at}"
        assert result.summary.speedup == whole.summary.speedup
    # What was decided is equal, so a replay of each would tell little more than that of the last.
    assert audit(path, backend=backend()).differences == []


def run_of(loaded: LoadedSpec, path: Path, options: Options) -> Callable[[Instants], object]:
    return lambda instants: begin(loaded, path, options, backend=backend(), observers=[instants])


def _middle(kinds: list[str], kind: str) -> int:
    """The number of the event that is the middle one of its kind."""
    places = [number for number, one in enumerate(kinds, 1) if one == kind]
    return places[len(places) // 2]


@pytest.mark.integration
def test_a_changed_variant_is_found_by_the_replay(spec: LoadedSpec, tmp_path: Path) -> None:
    """A record written anew with a valid chain but other promotions does not pass."""
    result = begin(spec, tmp_path / "a.run", Options(seed=1, workers=2, evaluations=12), backend=backend())

    def change(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        if kind == "variant" and body["made"]:
            body["made"] = {**body["made"], "origin": "unroll"}
        return body

    made_runs.rewritten(result.path, tmp_path / "forged.run", change)
    report = audit(tmp_path / "forged.run", backend=backend())
    assert any("variant" in line for line in report.differences)


@pytest.mark.integration
def test_nothing_but_the_source_to_tune(tmp_path: Path) -> None:
    """No parameters, no flags, no passes: the variants' own sizes are all there is."""
    (tmp_path / "product.c").write_text(KERNEL)
    text = SPEC.replace("  parameters: {WIDTH: [1, 2, 3, 4]}\n", "").replace("random", "auto")
    (tmp_path / "product.yaml").write_text(text)
    (loaded,) = load_spec(tmp_path / "product.yaml")
    plain = backend(seconds=lambda _: 1e-3)
    result = begin(loaded, tmp_path / "a.run", Options(evaluations=24), backend=plain)
    assert result.summary.improved
    assert audit(result.path, backend=plain).differences == []
    # After the baseline there is time for trials, but none for new variants.
    now = [0.0]

    def slow(event: str) -> None:
        now[0] += 26.0 if event == "verify" else 0.01

    late = backend(seconds=lambda _: 1e-3, on_event=slow)
    short = begin(loaded, tmp_path / "b.run", Options(minutes=1.0), backend=late, clock=lambda: now[0])
    assert short.summary.trials["total"] == 1
    assert short.summary.stopped_by == "minutes"
    assert short.summary.nothing_tried == (
        "nothing was tried: the budget was over with the baseline, which took 26 s; --minutes 2 may be enough"
    )


@pytest.mark.integration
def test_a_source_without_anything_to_change(tmp_path: Path) -> None:
    """The run is then over the original alone, and ends."""
    text = "int product(int n)\n{\n    return n;\n}\n"
    (tmp_path / "product.c").write_text(text)
    spec = SPEC.split("arguments:")[0] + "arguments:\n  - {name: n, dtype: int32, value: n}\n"
    spec = spec.replace("entry: product}", "entry: product, returns: int32}")
    (tmp_path / "product.yaml").write_text(spec + "space:" + SPEC.split("space:")[1])
    (loaded,) = load_spec(tmp_path / "product.yaml")
    result = begin(loaded, tmp_path / "a.run", Options(), backend=backend())
    assert result.summary.stopped_by == "exhausted"
    assert result.summary.nothing_tried == "nothing was tried: there is no other candidate"
    assert audit(result.path, backend=backend()).differences == []


def test_without_evolving_nothing_changes(spec: LoadedSpec, tmp_path: Path) -> None:
    """Events of a run whose source stays as it is name no variant."""
    folder = tmp_path / "plain"
    folder.mkdir()
    loaded = spec_in(folder, "product.c", KERNEL, SPEC.replace("  source: {evolve: true}\n", ""))
    result = begin(loaded, tmp_path / "a.run", Options(), backend=backend())
    for kind, _, body in events(result.path):
        assert kind not in ("variant", "promote", "minimise")
        assert "variant" not in body
    assert events(result.path)[0][2]["settings"]["evolution"] is None
    assert "evolution" not in result.to_json()


@pytest.mark.integration
def test_a_slow_original_leaves_time_to_confirm(spec: LoadedSpec, tmp_path: Path) -> None:
    """Where each process of the original takes long, searching ends earlier than the share alone would have it."""
    now = [0.0]

    def seconds_and_time(resolved: Resolved) -> float:
        now[0] += 0.4
        return seconds(resolved)

    def clock() -> float:
        now[0] += 0.001
        return now[0]

    slow = backend(seconds=seconds_and_time)
    settings = {"confirm_share": 0.01, "control_every": 4, "finalists": 2}
    options = Options(seed=1, workers=2, minutes=1.0, evaluations=10_000, settings=settings)
    result = begin(spec, tmp_path / "a.run", options, backend=slow, clock=clock)
    assert result.summary.stopped_by == "minutes"
    assert result.summary.claim == "improved"
    assert result.summary.wall_s <= 62
    stops = [body for kind, _, body in events(result.path) if kind == "minimise"]
    assert stops
    assert audit(result.path, backend=backend()).differences == []
