"""What the report says of runs whose truth is known: the answer, importance, passes, lineage, failures, costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import made_runs as made
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.core.errors import RecordError
from tuner.recorders.record import RunRecord
from tuner.report import Follower
from tuner.report.data import collect

NONE = {"importance": None, "passes": None}
"""For tests that need neither: they take most of the time."""


def read(path: Path, statistics: dict[str, Any] | None = NONE) -> dict[str, Any]:
    follower = Follower(path)
    follower.update()
    return collect(follower, statistics=statistics)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = made.made_run(tmp_path_factory.mktemp("recorded"), 250, few=True).path
    return path


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = made.simulated_run(tmp_path_factory.mktemp("evolved"), evolve=True)
    return path


@pytest.fixture(scope="module")
def passes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first run of some in which two pipelines differ by the pass that pays alone: what is tried is a draw."""
    for seed in range(6, 12):
        folder = tmp_path_factory.mktemp("passes")
        path: Path = made.simulated_run(folder, evolve=False, evaluations=100, strategy="passes", seed=seed)
        if any(r["name"] == "loop-interchange" for r in read(path, None)["passes"]["pairs"]):
            return path
    raise AssertionError("no run tried the pass that pays by itself")


@pytest.mark.integration
def test_the_answer_is_the_results(recorded: Path) -> None:
    """What stands first on the page is what ``--json`` says, to five digits."""
    data = read(recorded)
    answer, result = data["answer"], data["result"]
    assert answer["improved"] is result["improved"] is True
    assert answer["speed"][0] == pytest.approx(result["speedup"]["value"], rel=1e-4)
    assert answer["speed"][1:] == pytest.approx(result["speedup"]["ci95"], rel=1e-4)
    assert answer["trial"] == result["best"]["trial"]
    changed = {c["name"]: c["to"] for c in answer["changes"]}
    assert changed.items() <= result["best"]["configuration"].items()
    assert answer["processes"] == 12
    confirm = {row["trial"]: len(row["times_s"]) for row in data["finals"]["confirm"]}
    assert confirm == {0: 12, answer["trial"]: 12}
    assert data["finals"]["choose"]


@pytest.mark.integration
def test_importance_finds_what_moves_the_time(recorded: Path) -> None:
    """Shares follow the formula of the times: the block's width and the layout first, the stages next to nothing."""
    found = read(recorded, None)["importance"]
    shares = {row["name"]: row["share"] for row in found["main"]}
    assert {"BLOCK_X", "LAYOUT"} == set(sorted(shares, key=lambda n: -shares[n])[:2])
    assert shares["STAGES"] < 0.03 < shares["LAYOUT"]
    assert sum(shares.values()) < 1.15
    assert found["fit"] > 0.5
    curve = next(row for row in found["main"] if row["name"] == "BLOCK_X")
    assert curve["values"][curve["speed"].index(max(curve["speed"]))] == 64
    assert all(0 <= pair["share"] < 0.2 for pair in found["pairs"])
    assert found["pairs"] == sorted(found["pairs"], key=lambda p: -p["share"])


@pytest.mark.integration
def test_too_few_trials_say_nothing(tmp_path: Path) -> None:
    """A forest over five trials would say something; it is not asked."""
    data = read(made.made_run(tmp_path, 5, few=True).path, None)
    assert data["importance"] is None
    assert data["passes"] is None


@pytest.mark.integration
def test_failures_are_counted_by_cause(recorded: Path) -> None:
    """Every failed trial is in one group, and the trial named first has that status."""
    data = read(recorded)
    counts = {group["status"]: group["count"] for group in data["failures"]}
    statuses = data["result"]["trials"]
    assert counts == {name: statuses[name] for name in counts}
    assert {"build_error", "crashed", "wrong_result"} >= counts.keys()
    assert sum(counts.values()) == statuses["total"] - statuses["ok"] - statuses["duplicate"]
    trials = data["trials"]
    for group in data["failures"]:
        place = trials["number"].index(group["messages"][0]["first"])
        assert trials["statuses"][trials["status"][place]] == group["status"]


@pytest.mark.integration
def test_columns_hold_every_trial(recorded: Path) -> None:
    """Each column is as long as the run; values decode to the configuration that was tried."""
    data = read(recorded)
    trials, tunables = data["trials"], data["tunables"]
    assert sorted(trials["number"]) == list(range(data["result"]["trials"]["total"]))
    lengths = {len(c) for c in (trials["status"], trials["speed"], trials["clock_s"], *trials["values"])}
    assert lengths == {len(trials["number"])}
    place = trials["number"].index(data["answer"]["trial"])
    decoded = {
        t["name"]: t["values"][column[place]] for t, column in zip(tunables, trials["values"], strict=True)
    }
    assert decoded == data["result"]["best"]["configuration"]
    assert trials["clock_s"] == sorted(trials["clock_s"])


@pytest.mark.integration
def test_a_pass_that_pays_is_seen_to(passes: Path) -> None:
    """One pass takes a fifth of the time: measured pairs and the regression both say so, and of no other."""
    found = read(passes, None)["passes"]
    pair = next(r for r in found["pairs"] if r["name"] == "loop-interchange")
    assert pair["worth"] == pytest.approx(1.25, rel=0.05)
    assert found["pairs"][0]["name"] == "loop-interchange"
    others = [r for r in found["pairs"] if r["name"] != "loop-interchange" and r["pairs"] > 2]
    assert all(0.9 < r["worth"] < 1.1 for r in others)
    edit = found["associations"][0]
    assert (edit["change"], edit["name"]) == ("added", "loop-interchange")
    assert 1.1 < edit["least"] <= edit["worth"] <= edit["most"] < 1.4
    states = {step["name"]: step["state"] for step in found["steps"]}
    assert states["loop-interchange"] == "added"


@pytest.mark.integration
def test_lineage_tells_who_was_made_of_whom(evolved: Path) -> None:
    """Every variant but the first has parents and a difference; the winner's line leads to the source as given."""
    found = read(evolved)["variants"]
    rows = {row["number"]: row for row in found["rows"]}
    assert rows[0]["parents"] == []
    assert found["ancestors"][0] == found["winner"]
    assert found["ancestors"][-1] == 0
    for number, row in rows.items():
        if number:
            assert set(row["parents"]) <= set(range(number))
            assert row["diff"].startswith("--- a/product.c")
    winner = rows[found["winner"]]
    assert winner["edits"]
    assert winner["whole"].count("\n+") > 1


@pytest.mark.integration
def test_refused_edits_are_told_with_their_reasons(evolved: Path, tmp_path: Path) -> None:
    """Most often first; what they do not tell is counted. Records from before there were operators have none."""
    found = read(evolved)["refusals"]
    counts = [reason["count"] for reason in found["reasons"]]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) + found["others"] == found["refused"] <= found["tried"]
    assert all(reason["operators"] for reason in found["reasons"])

    def before(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        for reason in body.get("refusals", {}).get("reasons", []):
            del reason["operators"]
        return body

    made.rewritten(evolved, tmp_path / "before.run", before)
    assert [r["operators"] for r in read(tmp_path / "before.run")["refusals"]["reasons"]] == [[]] * len(
        counts
    )


@pytest.mark.parametrize(
    "refusals", [[], {"tried": "many"}, {"tried": 1, "refused": 1, "reasons": [1], "unread": {}}]
)
@pytest.mark.integration
def test_refusals_that_no_run_writes_are_found(evolved: Path, tmp_path: Path, refusals: object) -> None:
    def change(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "refusals": refusals} if kind == "start" else body

    made.rewritten(evolved, tmp_path / "changed.run", change)
    with pytest.raises(RecordError):
        read(tmp_path / "changed.run")


@pytest.mark.integration
def test_a_run_that_does_not_evolve_has_no_lineage(passes: Path) -> None:
    """And says so by leaving the section out."""
    assert read(passes)["variants"] is None


def test_costs_add_up(recorded: Path) -> None:
    """No part is negative, and what took no compiler at all is not said to have pruned."""
    costs = read(recorded)["costs"]
    assert all(value >= 0 for value in costs["parts"].values())
    assert costs["llm"] is None
    assert costs["screening"] == []


def test_judgements_of_a_cost_model_are_scored(recorded: Path, tmp_path: Path) -> None:
    """A model that ranks as the times do has a rank correlation near 1; what it pruned is worth its seconds."""
    follower = Follower(recorded)
    follower.update()
    scored = [
        (n, t.score) for n, t in follower.state.trials.items() if t.status == "ok" and t.score is not None
    ]
    ranked = sorted(scored, key=lambda s: s[1])
    judged = [{"verdict": "keep", "place": i / len(ranked)} for i in range(len(ranked))]
    judged[0]["verdict"] = "audit"
    follower.judgements = [
        {"stage": "ask", "trials": [n for n, _ in ranked], "judged": judged},
        {"stage": "ask", "trials": [10_000, 10_001], "judged": [{"verdict": "prune", "place": 1.0}] * 2},
    ]
    (row,) = collect(follower, statistics=NONE)["costs"]["screening"]
    assert row["rank_correlation"] > 0.99
    assert row["verdicts"] == {"audit": 1, "keep": len(ranked) - 1, "prune": 2}
    assert row["saved_s"] > 0


def test_exchanges_with_models_are_summed(recorded: Path) -> None:
    """By model, tokens and money."""
    follower = Follower(recorded)
    follower.update()
    follower.exchanges = [
        {"model": "a", "prompt_tokens": 10, "completion_tokens": 5, "usd": 0.5},
        {"model": "a", "prompt_tokens": 1, "completion_tokens": 2, "usd": 0.25},
        {"model": "b", "prompt_tokens": 7, "completion_tokens": None, "usd": None},
    ]
    rows = {row["model"]: row for row in collect(follower, statistics=NONE)["costs"]["llm"]["models"]}
    assert rows["a"] == {
        "model": "a",
        "calls": 2,
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "usd": 0.75,
    }
    assert rows["b"]["calls"] == 1


@pytest.mark.integration
@settings(
    deadline=None,
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(share=st.floats(0.001, 1.0))
def test_a_run_can_be_looked_at_at_any_moment(
    evolved: Path, tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    """Whatever has been committed so far makes a page: the record may end behind any event."""
    with RunRecord.read(evolved) as record:
        count = max(1, round(share * record.head.seq))
    target = tmp_path_factory.mktemp("part") / "part.run"
    made.rewritten(evolved, target, lambda kind, body: body, first=count)
    data = read(target)
    json.dumps(data, allow_nan=False)
    assert data["seq"] == count
    assert data["ended"] is (share > 0.999 or data["phase"] == "done")


@pytest.mark.integration
def test_following_comes_to_the_same_as_reading_at_once(recorded: Path, tmp_path: Path) -> None:
    """A reader that looks after every few events ends with what one look at the end gives."""
    target = tmp_path / "growing.run"
    with RunRecord.read(recorded) as source:
        events = list(source.events())
        names = made._references([dict(e.body) for e in events])
        blobs = [source.blob(n) for n in names]
    with RunRecord.create(target) as record:
        from tuner.recorders.record import Event

        follower = Follower(target)
        assert not follower.update()
        assert not follower.begun
        for first in range(0, len(events), 97):
            part = [Event(kind=e.kind, body=e.body, trial=e.trial) for e in events[first : first + 97]]
            record.append(part, blobs if first == 0 else ())
            assert follower.update()
            assert not follower.update()
    one, whole = collect(follower), read(recorded, None)
    for name in ("answer", "trials", "finals", "failures", "controls", "costs", "importance"):
        assert one[name] == whole[name], name


def test_a_file_that_is_no_record_is_refused(tmp_path: Path) -> None:
    """With one line that says so."""
    path = tmp_path / "x.run"
    path.write_text("no record")
    with pytest.raises(RecordError):
        Follower(path)
