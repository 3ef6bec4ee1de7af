"""Runs with the cost model: what it prunes, what is audited, what the result says, replay, kills, resumes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import made_runs
import product_runs
import pytest
import yaml
from instants import Instants, killed
from spec_files import spec_in

from tuner.core.types import Resolved, Status, Variant
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options, settings_of
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.runs import begin, resume
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

KERNEL = """
void scale(const float *restrict a, float *restrict b, int n) {
    for (int i = 0; i < n; i++) b[i] = 2.0f * a[i];
}
"""
TASK = """\
kernel: {source: scale.c, entry: scale}
problem: {n: 4096}
arguments:
  - {name: a, dtype: float32, shape: [n], init: {uniform: [-1, 1]}}
  - {name: b, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
"""
VALUES = [1, 2, 4, 8, 16, 32, 64, 128]
PLAIN = Options(seed=5, workers=1, settings={"simpler": 0})
BOTH = Options(seed=5, workers=2, evaluations=70)


def seconds(resolved: Resolved) -> float:
    a, b, c = (math.log2(int(resolved.macros[name])) for name in ("ALPHA", "BETA", "GAMMA"))
    return 1e-3 * math.exp(0.4 * abs(a - 5) + 0.3 * abs(b - 2) + 0.05 * c)


def outcome(resolved: Resolved) -> Status:
    big = int(resolved.macros["ALPHA"]) * int(resolved.macros["BETA"]) > 2048
    return Status.OUT_OF_RESOURCES if big else Status.OK


def code(resolved: Resolved) -> Mapping[str, float]:
    """What shows in the code only: the parameters come out of it, not the other way round."""
    return {"loads_count": 1000 * seconds(resolved), "text_bytes": float(int(resolved.macros["BETA"]))}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., LoadedSpec]:
    return lambda **search: write_spec(tmp_path, **search)


def write_spec(folder: Path, **search: Any) -> LoadedSpec:
    (folder / "scale.c").write_text(KERNEL)
    document = yaml.safe_load(TASK)
    document["space"] = {"parameters": dict.fromkeys(("ALPHA", "BETA", "GAMMA", "DELTA"), VALUES)}
    document["search"] = {"strategy": "random", "budget": {"evaluations": 110}, **search}
    (folder / "scale.yaml").write_text(yaml.safe_dump(document))
    (loaded,) = load_spec(folder / "scale.yaml")
    return loaded


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run that is judged before its builds, which tests only read."""
    folder = tmp_path_factory.mktemp("searched")
    # Of the few proposals for what trying less leaves of the budget some find it used up.
    return begin(write_spec(folder), folder / "a.run", PLAIN, backend=backend())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A run that is judged at both stages, which tests only read."""
    folder = tmp_path_factory.mktemp("whole")
    return begin(write_spec(folder), folder / "a.run", BOTH, backend=backend(features=code))


def backend(**more: Any) -> SimulatedBackend:
    return SimulatedBackend(**{"seconds": seconds, "outcome": outcome, **more})


def events(path: Path | None, kind: str) -> list[Mapping[str, Any]]:
    assert path is not None
    with RunRecord.read(path) as record:
        return [e.body for e in record.events() if e.kind == kind]


@pytest.mark.integration
def test_prunes_before_the_build_and_finds_more(
    searched: Outcome, write: Callable[..., LoadedSpec], tmp_path: Path
) -> None:
    found = searched
    plain = begin(write(cost_model="off"), tmp_path / "b.run", PLAIN, backend=backend())
    saved = found.summary.savings
    assert saved is not None
    assert saved.pruned["ask"] > 20
    assert saved.audits > 0
    assert saved.cut["ask"] is not None
    counts = found.summary.trials
    assert counts["pruned"] == saved.pruned["ask"] + saved.pruned["build"] + saved.passed_over
    assert counts["total"] - counts["pruned"] - counts["duplicate"] == 110
    assert found.summary.speedup[0] > plain.summary.speedup[0]
    assert audit(found.path).clean
    value = json.loads(json.dumps(found.to_json(), allow_nan=False))["cost_model"]
    assert value["pruned"] == saved.pruned
    assert 0 <= value["loss_bound"] <= 1


def test_off_means_off(write: Callable[..., LoadedSpec], tmp_path: Path) -> None:
    found = begin(write(cost_model="off"), tmp_path / "a.run", Options(seed=5, workers=1), backend=backend())
    assert found.summary.savings is None
    assert found.summary.trials["pruned"] == 0
    assert events(found.path, "judge") == []


@pytest.mark.integration
def test_audits_are_measured_although_the_model_speaks_against_them(searched: Outcome) -> None:
    found = searched
    verdicts = {
        number: one["verdict"]
        for body in events(found.path, "judge")
        if body["stage"] == "ask"
        for number, one in zip(body["trials"], body["judged"], strict=True)
    }
    assert found.path is not None
    with RunRecord.read(found.path) as record:
        statuses = {e.trial: e.body["status"] for e in record.events() if e.kind == "trial"}
    assert {statuses[n] for n, v in verdicts.items() if v in ("prune", "pass")} == {"pruned"}
    audited = {statuses[n] for n, v in verdicts.items() if v == "audit"}
    assert audited
    assert "pruned" not in audited


@pytest.mark.integration
def test_prunes_after_the_build_by_what_shows_in_the_code(
    write: Callable[..., LoadedSpec], tmp_path: Path
) -> None:
    found = begin(
        write(strategy="surrogate", budget={"evaluations": 40}),
        tmp_path / "a.run",
        Options(seed=2, workers=2),
        backend=backend(features=code),
    )
    stages = {body["stage"] for body in events(found.path, "judge")}
    assert stages == {"build"}  # a searcher with a model of its own has ranked already
    assert audit(found.path).clean


@pytest.mark.integration
def test_random_search_with_code_is_pruned_at_both_stages(whole: Outcome) -> None:
    saved = whole.summary.savings
    assert saved is not None
    assert set(saved.cut) == {"ask", "build"}
    assert audit(whole.path).clean


@pytest.mark.integration
def test_nothing_is_pruned_by_noise(write: Callable[..., LoadedSpec], tmp_path: Path) -> None:
    def noise(resolved: Resolved) -> float:
        return 1e-3 * (1 + (crc32(repr(sorted(resolved.macros.items())).encode()) % 997) / 997)

    options = Options(seed=3, workers=1, evaluations=80)
    found = begin(write(), tmp_path / "a.run", options, backend=SimulatedBackend(seconds=noise))
    saved = found.summary.savings
    assert saved is not None
    assert sum(saved.pruned.values()) == 0
    assert "out of sample" in saved.why["ask"]


@pytest.mark.integration
def test_a_killed_run_goes_on_as_it_would_have(
    whole: Outcome, write: Callable[..., LoadedSpec], tmp_path: Path
) -> None:
    path = tmp_path / "a.run"

    def run(instants: Instants) -> None:
        def measured(what: str) -> None:
            if what == "measure":
                instants.at()

        begin(write(), path, BOTH, backend=backend(features=code, on_event=measured))

    killed(run, 80)
    done = resume(path, backend=backend(features=code))
    assert not done.interrupted
    assert done.summary.trials == whole.summary.trials
    assert done.summary.speedup == whole.summary.speedup
    assert audit(path).clean


@pytest.mark.integration
def test_a_changed_judgement_is_a_difference(searched: Outcome, tmp_path: Path) -> None:
    """The record as it is has none, which the audit above finds."""

    def change(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        body = json.loads(json.dumps(body))
        if kind == "judge" and body["judged"]:
            body["judged"][0]["place"] += 0.25
        return body

    assert searched.path is not None
    made_runs.rewritten(searched.path, tmp_path / "other.run", change)
    assert audit(tmp_path / "other.run").differences


PRODUCT_SPEC = f"""\
{product_runs.TASK}space:
  parameters: {{WIDTH: [1, 2, 3, 4, 5, 6, 7, 8]}}
  passes: off
  source: {{evolve: true}}
verify: {{numerics: reassociate}}
search: {{strategy: random, budget: {{evaluations: 90}}}}
"""


@pytest.mark.integration
def test_variants_are_judged_by_their_code_only_and_the_last_ones_are_measured(tmp_path: Path) -> None:
    spec = spec_in(tmp_path, "product.c", product_runs.KERNEL, PRODUCT_SPEC)

    def time_s(resolved: Resolved) -> float:
        return 1e-3 * (1 + abs(int(resolved.macros["WIDTH"]) - 3))

    def worth(variant: Variant, resolved: Resolved) -> float:
        return 0.5 if any(e["op"] == "interchange" for e in variant.edits) else 1.0

    simulated = SimulatedBackend(
        seconds=time_s, of_variant=worth, features=lambda r: {"loads_count": 1e3 * time_s(r)}
    )
    found = begin(spec, tmp_path / "a.run", Options(seed=1, workers=2, evaluations=110), backend=simulated)
    assert {body["stage"] for body in events(found.path, "judge")} == {"build"}
    assert found.path is not None
    assert audit(found.path, backend=simulated).clean
    with RunRecord.read(found.path) as record:
        state = open_state(record)[0]
    reduced = {n for v in state.variants.values() if v.purpose == "reduce" for n in v.trials}
    assert all(not state.trials[n].judged for n in reduced)
    assert found.summary.savings is not None
    assert found.summary.savings.pruned["build"] > 0


def test_the_model_ranks_by_time_and_is_off_where_something_else_counts(
    scale_spec: Callable[..., Path], tmp_path: Path
) -> None:
    path = scale_spec()
    (plain,) = load_spec(path)
    assert settings_of(plain, Options(strategy="random")).cost_model == "auto"
    path.write_text(path.read_text() + "objective: [time, size]\n")
    (several,) = load_spec(path)
    assert settings_of(several, Options(strategy="auto")).cost_model == "off"
