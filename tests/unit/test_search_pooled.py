"""A model that ranks the whole space beside a searcher that moves: when it may, what it is worth, replay."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tuner.core.expressions import parse
from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import Resolved, Status
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.recorders.record import RunRecord
from tuner.search import conformance
from tuner.search.pooled import RANKED, WATCHED, PooledSearcher, Worth
from tuner.search.registry import create
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend


def wide() -> Space:
    return Space(
        [
            Parameter.choice("BX", list(range(16, 257, 16))),
            Parameter.choice("BY", [1, 2, 4, 8, 16]),
            Parameter.choice("TX", [1, 2, 3, 4, 5, 6, 7, 8]),
            Parameter.choice("ORDER", ["row", "column", "tiled"]),
            Parameter.choice("PAD", [False, True]),
        ],
        [parse("BX * BY <= 1024")],
    )


def score(configuration: Mapping[str, Any]) -> float:
    c = configuration
    value = 0.5 * abs(math.log2(c["BX"] * c["BY"]) - 8) + 0.3 * abs(c["TX"] - 6)
    value += 0.4 if c["BX"] % 64 else 0.0
    return value + {"row": 0.2, "column": 0.6, "tiled": 0.0}[c["ORDER"]] + 0.1 * c["PAD"]


def pooled(space: Space) -> PooledSearcher:
    return PooledSearcher(create("evolution", space), space)


def until_good(
    make: Callable[[Space], Any], seed: int, *, worth: Callable[..., float] = score, most: int = 200
) -> list[object]:
    """How each proposal was made, up to the first good one."""
    space = wide()
    searcher, made = make(space), []
    for trial in range(1, most + 1):
        (proposal,) = searcher.ask(1, stream(seed, "ask", trial))
        made.append(proposal.note.get("how"))
        found = worth(proposal.configuration)
        if found < 0.02:
            break
        searcher.tell([Observation(trial=trial, proposal=proposal, status=Status.OK, score=found)])
    return made


@pytest.mark.integration
def test_ranking_the_space_needs_fewer_than_evolution_alone() -> None:
    plain = [len(until_good(lambda s: create("evolution", s), seed)) for seed in range(5)]
    ranked = [len(until_good(pooled, seed)) for seed in range(5)]
    assert np.mean(ranked) < 0.7 * np.mean(plain)


def test_a_model_that_knows_nothing_proposes_next_to_nothing() -> None:
    noise: dict[str, float] = {}

    def blind(configuration: Mapping[str, Any]) -> float:
        key = repr(sorted(configuration.items()))
        return noise.setdefault(key, 0.5 + float(stream(len(noise), "noise").random()))

    made = until_good(pooled, 0, worth=blind, most=90)
    assert len(made) == 90
    assert made.count(RANKED) < 30


@pytest.mark.integration
def test_a_tenth_is_drawn_evenly_all_the_same() -> None:
    made = [how for s in range(3) for how in until_good(pooled, s, worth=lambda c: 0.1 + score(c), most=70)]
    chosen = made.count(RANKED) + made.count(WATCHED)
    assert chosen > 120
    assert 0.04 < made.count(WATCHED) / chosen < 0.18


def test_worth_is_a_rank_test_and_failures_are_worst() -> None:
    worth = Worth()
    for i in range(12):
        worth.tell("uniform", float(i))
    assert worth.part == 0.5
    for _ in range(8):
        worth.tell(RANKED, -1.0)
    assert worth.part == 0.875
    assert worth.deviations == pytest.approx(3.703, abs=1e-3)
    failing = Worth()
    for i in range(12):
        failing.tell("uniform", float(i))
    for _ in range(8):
        failing.tell(RANKED, None)
    assert failing.part == 0.125
    assert failing.deviations == pytest.approx(-worth.deviations)
    # What the searcher proposes by itself later is no even draw.
    failing.tell("step", -5.0)
    assert failing.deviations == pytest.approx(-worth.deviations)


@pytest.mark.integration
def test_it_keeps_the_rules_of_searchers() -> None:
    small = Space([Parameter.integer("A", low=1, high=4), Parameter.choice("B", ["x", "y", "z"])])
    conformance.check_all(pooled, wide(), small=small)
    large = Space([Parameter.integer(f"P{i}", low=0, high=999) for i in range(6)], [parse("P0 + P1 < 1500")])
    assert large.listing() is None
    conformance.check_proposals(pooled, large, trials=30, batch=2)
    conformance.check_adopt(pooled, large, trials=30)


KERNEL = """
void scale(const float *restrict a, float *restrict b, int n) {
    for (int i = 0; i < n; i++) b[i] = 2.0f * a[i];
}
"""


def seconds(resolved: Resolved) -> float:
    a, b, c = (math.log2(int(resolved.macros[name])) for name in ("ALPHA", "BETA", "GAMMA"))
    return 1e-3 * math.exp(0.4 * abs(a - 5) + 0.3 * abs(b - 2) + 0.05 * c)


@pytest.fixture
def spec(scale_spec: Callable[..., Path]) -> Callable[..., LoadedSpec]:
    def make(**search: Any) -> LoadedSpec:
        path = scale_spec(strategy="evolution", evaluations=45)
        document = yaml.safe_load(path.read_text())
        (path.parent / "scale.c").write_text(KERNEL)
        values = [1, 2, 4, 8, 16, 32, 64, 128]
        document["space"] = {"parameters": dict.fromkeys(("ALPHA", "BETA", "GAMMA", "DELTA"), values)}
        document["search"].update(search)
        path.write_text(yaml.safe_dump(document))
        (loaded,) = load_spec(path)
        return loaded

    return make


@pytest.mark.integration
def test_a_run_says_what_the_ranking_did_and_replays(spec: Callable[..., LoadedSpec], tmp_path: Path) -> None:
    found = begin(
        spec(), tmp_path / "a.run", Options(seed=5, workers=1), backend=SimulatedBackend(seconds=seconds)
    )
    saved = found.summary.savings
    assert saved is not None
    assert saved.ranked > 15
    assert saved.audits > 0
    assert saved.fit_s > 0
    assert found.to_json()["cost_model"]["ranked"] == saved.ranked
    assert found.path is not None
    with RunRecord.read(found.path) as record:
        asks = [e.body for e in record.events() if e.kind == "ask"]
    hows = [p["note"].get("how") for body in asks for p in body["proposals"]]
    assert hows.count(RANKED) == saved.ranked
    assert hows.count(WATCHED) == saved.audits
    assert audit(found.path).clean


def test_without_the_model_it_is_evolution_alone(spec: Callable[..., LoadedSpec], tmp_path: Path) -> None:
    plain = SimulatedBackend(seconds=seconds)
    found = begin(spec(cost_model="off"), tmp_path / "a.run", Options(seed=5, workers=1), backend=plain)
    assert found.summary.savings is None
    assert found.path is not None
    with RunRecord.read(found.path) as record:
        events = list(record.events())
    assert not events[0].body["settings"]["ranked"]
    hows = {p["note"]["how"] for e in events if e.kind == "ask" for p in e.body["proposals"]}
    assert hows == {"uniform", "step"}
