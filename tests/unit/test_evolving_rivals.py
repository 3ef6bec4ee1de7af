"""What stands beside a run that evolves the source, who takes part in its choice, and what it tells models."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import llm_server
import pytest
from product_runs import KERNEL, SPEC, backend
from run_events import events
from spec_files import spec_in

from tuner.api import Result
from tuner.cli.text import print_result
from tuner.core.types import Resolved, Variant
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.plan.actions import Consult, Examine
from tuner.driver.plan.consulting import breeding_action
from tuner.driver.rivals import RIVALS, altered, rivals_of
from tuner.driver.runs import begin
from tuner.driver.state.exchanges import Exchanges
from tuner.driver.state.settings import Llm
from tuner.recorders.record import RunRecord
from tuner.search.llm.exchange import Model, Purpose
from tuner.spec.load import LoadedSpec

FEW = {"choose_processes": 2, "confirm_processes": 4}
EDIT = "<<<<<<< SEARCH\n            float sum = 0.0f;\n=======\n            float sum = NUMBER.0f;\n>>>>>>> REPLACE\n"


def serving() -> AbstractContextManager[llm_server.Server]:
    """A server on the loopback whose every reply is another edit."""
    return llm_server.serving(lambda number, _: llm_server.Reply(EDIT.replace("NUMBER", str(number))))


def written(folder: Path, more: str = "") -> LoadedSpec:
    return spec_in(folder, "product.c", KERNEL, SPEC + more)


@pytest.mark.parametrize(
    ("llm", "names"),
    [
        (None, ["parameters", "samples"]),
        ("off", ["parameters", "samples"]),
        ("some-model", ["parameters", "samples", "remix"]),
        ("cassette:x.run", ["parameters", "samples", "remix"]),
    ],
)
def test_remix_stands_beside_runs_that_ask_models(tmp_path: Path, llm: str | None, names: list[str]) -> None:
    assert list(rivals_of(written(tmp_path), llm)) == names


def test_only_independent_samples_ask_models_too() -> None:
    """And no rival asks a cassette, which knows one search alone."""
    asked = {n: altered(Options(llm="some-model"), r).llm for n, r in RIVALS.items()}
    assert asked == {"parameters": "off", "samples": "some-model", "remix": "off"}
    assert {altered(Options(llm="cassette:x.run"), r).llm for r in RIVALS.values()} == {"off"}


@pytest.mark.integration
def test_only_what_is_near_the_best_takes_part_in_the_choice(tmp_path: Path) -> None:
    """The source itself is at its best here with one value; nothing that is far slower is started again."""

    def tenfold(variant: Variant, resolved: Resolved) -> float:
        return 0.1 if any(e["op"] == "restrict" for e in variant.edits) else 0.9

    quiet = backend(of_variant=tenfold, process_noise=0.001, call_noise=0.001)
    options = Options(seed=4, workers=2, evaluations=30, settings=FEW)
    result = begin(written(tmp_path), tmp_path / "a.run", options, backend=quiet)
    assert result.summary.improved
    (stop,) = [b for k, _, b in events(result.path) if k == "stop"]
    scores = {n: b["score"] for k, n, b in events(result.path) if k == "trial" and b.get("score") is not None}
    best = min(scores[n] for n in stop["finalists"])
    near = [n for n in stop["finalists"] if scores[n] <= best + 0.25]
    assert near
    # A few are kept for the case that the best has only been lucky.
    assert len(stop["finalists"]) <= max(3, len(near))
    assert audit(result.path, backend=quiet).differences == []


@pytest.mark.integration
def test_the_worth_of_an_edit_has_an_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def halved(variant: Variant, resolved: Resolved) -> float:
        return 0.5 if any(e["op"] == "restrict" for e in variant.edits) else 1.0

    quiet = backend(of_variant=halved, process_noise=0.001, call_noise=0.001)
    options = Options(seed=2, workers=2, evaluations=60, settings=FEW)
    result = begin(written(tmp_path), tmp_path / "a.run", options, backend=quiet)
    gains = result.to_json()["evolution"]["gains"]
    told = [g for g in gains if g is not None and g["ci95"] is not None]
    assert told
    assert all(g["ci95"][0] < g["ratio"] < g["ci95"][1] for g in told)
    print_result(Result(result))
    said = [line for line in capsys.readouterr().out.splitlines() if "(without it" in line]
    # Settings say the same of themselves.
    assert len(said) >= sum(g is not None and not g["needed"] for g in gains)
    assert all(len(line) < 120 for line in said)


@pytest.mark.integration
def test_the_best_version_is_examined_before_a_model_is_asked_about_it(tmp_path: Path) -> None:
    """Once, and nothing else; then comes the request, which starts from it."""
    options = Options(seed=5, workers=2, evaluations=30, settings=FEW)
    result = begin(written(tmp_path), tmp_path / "a.run", options, backend=backend())
    with RunRecord.read(result.path) as record:
        state, _, _ = open_state(record)
    settings = Llm(models=(Model(name="local"),), concurrent=8)
    state.exchanges = Exchanges(settings=settings, proposers=(), evaluations=40, first=4)
    examined = []
    while isinstance(action := breeding_action(state), Examine):
        examined.append(action.variant)
        state.exchanges.remarks[action.variant] = {}
    assert isinstance(action, Consult)
    reached = [v for v in state.variants.values() if v.score is not None and v.purpose == "propose"]
    assert examined == [min(reached, key=lambda v: v.score or 0.0).number] == [action.parent]
    # While a model that takes long is at that version, it is not asked to refine the same once more.
    exchanges = state.exchanges
    asked = {"model": "local", "attempt": 0, "other": None, "island": 0, "key": "", "prompt": "", "tokens": 1}
    asked |= {"usd": 0.0, "before": None, "idea": None, "clock_s": 0.0, "over": None, "parent": action.parent}
    exchanges.begin({**asked, "number": 0, "purpose": "write"})
    exchanges.steps += 40
    exchanges.end({"call": 0, "status": "ok"})
    exchanges.use({"call": 0, "problems": ["no"], "final": True}, None)
    purposes = []
    while (more := breeding_action(state)) is not None:
        if isinstance(more, Examine):
            state.exchanges.remarks[more.variant] = {}
            continue
        assert isinstance(more, Consult)
        purposes.append((more.purpose, more.parent))
        body = {name: getattr(more, name) for name in ("number", "purpose", "parent", "other")}
        exchanges.begin({**asked, **body})
    assert len(purposes) == len(set(purposes)) > 1
    assert (Purpose.REFINE, action.parent) in purposes
    state.exchanges = Exchanges(settings=settings, proposers=(), evaluations=40, first=4)
    evolution = state.settings.evolution
    assert evolution is not None
    state.settings = replace(state.settings, evolution=replace(evolution, independent=True))
    state.exchanges.remarks[0] = {}
    sample = breeding_action(state)
    assert isinstance(sample, Consult)
    assert (sample.parent, sample.purpose) == (0, Purpose.WRITE)


@pytest.mark.integration
def test_models_are_told_what_the_compiler_says_of_the_parent(tmp_path: Path) -> None:
    """What was found out of a variant stands in each question about it; a replay finds it where it was."""
    with serving() as running:
        llm = f'  llm: {{model: local, base_url: "{running.url}", timeout_s: 120}}\n  proposers: [remix]\n'
        options = Options(seed=3, workers=2, evaluations=30, settings=FEW)
        # Trials have to take a while, or the run is over before a model has answered twice.
        slow = backend(on_event=lambda what: time.sleep(0.002))
        result = begin(written(tmp_path, llm), tmp_path / "a.run", options, backend=slow)
    remarks: dict[int, Any] = {}
    with RunRecord.read(result.path) as record:
        for event in list(record.events()):
            body = event.body
            if event.kind == "remarks":
                remarks[body.get("variant", 0)] = body["remarks"]
            if event.kind == "consult" and body["purpose"] != "repair":
                assert body["parent"] in remarks
                prompt = record.blob(body["prompt"].removeprefix("blob:")).decode()
                said = remarks[body["parent"]].get("edits")
                assert said is None or f"The compiler's report, edits: {said}" in prompt
    assert audit(result.path, backend=backend()).differences == []
