"""What the default strategy does first, what it learns of passes, and how it shares proposals among its arms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.core.expressions import parse
from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import Proposal, Status
from tuner.search.bandit import Bandit
from tuner.search.conformance import Landscape, baseline, invented
from tuner.search.domain import Domain
from tuner.search.pass_memory import PassMemory
from tuner.search.registry import create
from tuner.spaces.parameters import Parameter
from tuner.spaces.passes import Catalogue, PassSpace
from tuner.spaces.space import Space

GOLDEN = Path(__file__).parents[1] / "golden"
PASSES = PassSpace(
    Catalogue.from_listing(
        (GOLDEN / "llvm23_passes.txt").read_text(), (GOLDEN / "llvm23_o3.txt").read_text().strip(), "23.1.4"
    )
)
FLAGS = {"math": ("", "-ffast-math"), "unroll": ("", "-funroll-loops", "-fno-unroll-loops")}


def both():
    return Space([Parameter.integer("A", low=0, high=30)], flags=FLAGS, passes=PASSES)


def told(trial, pipeline, *, a=0, score=None, status=Status.OK, **extra):
    configuration = {"A": a, "math": "", "unroll": "", "passes": pipeline}
    proposal = Proposal(configuration=configuration, origin="auto/passes", **extra)
    return Observation(trial=trial, proposal=proposal, status=status, score=score)


def test_every_flag_choice_comes_first_on_the_default_then_the_helpful_ones_together():
    def score(c):
        return (
            -0.3 * (c["math"] != "")
            - 0.1 * (c["unroll"] == "-funroll-loops")
            + 0.1 * (c["unroll"] == "-fno-unroll-loops")
        )

    run = invented(lambda s: create("auto", s), both(), trials=5, seed=0, landscape=Landscape(score=score))
    first = [o.proposal.configuration for o in run[1:5]]
    assert [(c["math"], c["unroll"]) for c in first] == [
        ("-ffast-math", ""),
        ("", "-funroll-loops"),
        ("", "-fno-unroll-loops"),
        ("-ffast-math", "-funroll-loops"),
    ]
    assert {(c["A"], c["passes"]) for c in first} == {(0, "default<O3>")}
    assert run[5].proposal.origin == "auto/parameters"


def test_all_arms_are_used_and_parents_are_trials_told():
    run = invented(lambda s: create("auto", s), both(), trials=80, seed=3, landscape=Landscape(failing=0.2))
    origins = Counter(o.proposal.origin for o in run)
    assert {"auto/screen", "auto/parameters", "auto/passes", "auto/joint"} <= set(origins)
    assert all(o.proposal.parent is None or o.proposal.parent < o.trial for o in run)


def test_without_passes_every_proposal_comes_from_parameters():
    space = Space([Parameter.integer("A", low=0, high=30)])
    run = invented(lambda s: create("auto", s), space, trials=40, seed=0, landscape=Landscape())
    assert len(run) == 31
    assert {o.proposal.origin for o in run[1:]} == {"auto/parameters"}


def test_a_default_that_breaks_the_constraints_is_not_proposed():
    space = Space([Parameter.integer("A", low=0, high=9)], [parse("A > 2")], flags=FLAGS, passes=PASSES)
    for name in ("auto", "passes", "random", "optuna-tpe", "optuna-cmaes"):
        searcher = create(name, space)
        searcher.tell([baseline(space)])
        for trial in range(1, 14):
            for proposal in searcher.ask(1, stream(0, "ask", trial)):
                assert space.is_valid(proposal.configuration), name
                searcher.tell([Landscape().observe(trial, proposal)])


def test_a_pass_that_crashes_is_banned_unless_it_was_seen_to_work():
    memory = PassMemory(Domain(both()))
    memory.tell(told(0, "default<O3>", score=0.0))
    memory.tell(told(1, "function(sroa),default<O3>", score=0.0))
    memory.tell(told(2, "function(sroa,newgvn),default<O3>", status=Status.CRASHED))
    assert memory.banned() == {"newgvn"}
    memory.tell(told(3, "function(newgvn),default<O3>", score=0.1))
    assert memory.banned() == frozenset()


def test_blame_is_shared_and_a_wrong_result_only_lowers_the_weight():
    memory = PassMemory(Domain(both()))
    memory.tell(told(1, "function(sroa,newgvn,sink),default<O3>", status=Status.TIMED_OUT))
    assert memory.banned() == frozenset()
    memory.tell(told(2, "function(sink,dse,gvn),default<O3>", status=Status.CRASHED))
    assert memory.banned() == {"sink"}
    memory.tell(told(3, "function(adce),default<O3>", status=Status.WRONG_RESULT))
    assert "adce" not in memory.banned()
    assert memory.weight("adce") < memory.weight("bdce")


@pytest.mark.integration
def test_the_evolution_stays_away_from_a_pass_that_always_crashes():
    space = Space([], passes=PASSES)

    run = invented(lambda s: create("passes", s), space, trials=200, seed=0, landscape=Crashing())
    crashes = [o.trial for o in run if o.status is Status.CRASHED]
    assert len(crashes) >= 2
    assert sum(t > 100 for t in crashes) <= 1


class Crashing(Landscape):
    """Three common passes crash the compiler wherever they stand."""

    def observe(self, trial, proposal):
        names = PassMemory(Domain(Space([], passes=PASSES))).added(proposal.configuration["passes"])
        if names & {"loop-fusion", "sroa", "loop-rotate"}:
            return Observation(trial=trial, proposal=proposal, status=Status.CRASHED)
        return Landscape().observe(trial, proposal)


@pytest.mark.parametrize(("repeats", "idle"), [(0, {"sink"}), (1, set())])
def test_passes_are_idle_only_where_the_base_is_repeated(repeats, idle):
    """Where the base was not tried, a group with the code of a pipeline that changed it is no group without effect."""
    memory = PassMemory(Domain(both()))
    memory.tell(told(0, "default<O3>", score=0.0))
    memory.tell(told(1, "function(newgvn),default<O3>", score=0.3))
    pipelines = ("function(sink),default<O3>", "default<O3>,function(sink)")
    for number, pipeline in enumerate(pipelines, 2):
        score = 0.3 if repeats else 0.0
        group = told(number, pipeline, a=number, score=score, status=Status.DUPLICATE)
        note = {"operator": "together", "added": ["sink"]}
        proposal = replace(group.proposal, note=note)
        memory.tell(replace(group, repeats=repeats, proposal=proposal))
    assert memory.groups.idle == idle


def test_effects_are_separated_from_parameters():
    memory = PassMemory(Domain(both()))
    good = "function(sroa),default<O3>"
    memory.tell(told(0, "default<O3>", score=0.0))
    memory.tell(told(1, good, score=-0.2))
    memory.tell(told(2, good, a=5, score=-1.2))
    memory.tell(told(3, "function(sink),default<O3>", a=5, score=-1.1))
    effects = {i.pipeline: i.effect for i in memory.individuals()}
    assert effects[good] == pytest.approx(-0.2)
    assert effects["function(sink),default<O3>"] == pytest.approx(-0.1)
    assert memory.individuals()[0].pipeline == good


def test_helpful_parts_are_drawn_more_often():
    memory = PassMemory(Domain(both()))
    memory.tell(told(0, "default<O3>", score=0.0))
    note = {"operator": "prefix", "added": ["sroa"]}
    before = memory.weight("sroa"), memory.operator_value("prefix")
    memory.tell(told(1, "function(sroa),default<O3>", score=-0.5, parent=0, note=note))
    assert memory.weight("sroa") > before[0]
    assert memory.operator_value("prefix") > before[1]
    note = {"operator": "insert", "added": ["sink"]}
    before = memory.weight("sink"), memory.operator_value("insert")
    memory.tell(told(2, "function(sink),default<O3>", score=0.5, parent=0, note=note))
    assert memory.weight("sink") < before[0]
    assert memory.operator_value("insert") < before[1]


def test_the_bandit_follows_what_pays_and_tries_the_rest_now_and_then():
    bandit = Bandit(["a", "b"])
    best, chosen = 0.0, Counter()
    for trial in range(100):
        arm = bandit.choose(["a", "b"], {})
        chosen[arm] += 1
        if arm == "b":
            best -= 0.05
        proposal = Proposal(configuration={"x": trial}, origin=f"auto/{arm}")
        bandit.tell(Observation(trial=trial, proposal=proposal, status=Status.OK, score=best))
    assert chosen["b"] > 2 * chosen["a"] > 0


def test_running_proposals_count_as_uses():
    bandit = Bandit(["a", "b"])
    first = bandit.choose(["a", "b"], {})
    assert bandit.choose(["a", "b"], {first: 3}) != first
