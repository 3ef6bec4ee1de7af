"""What earlier runs found is tried beside a searcher's own proposals, while it pays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import Status
from tuner.search import conformance
from tuner.search.recalling import ORIGIN, RecallingSearcher
from tuner.search.registry import create
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space

FIRST = [{"A": 7, "B": b} for b in ("x", "y", "z")]


def space() -> Space:
    return Space([Parameter.integer("A", low=1, high=9), Parameter.choice("B", ["x", "y", "z"])])


def recalling(own: Space) -> RecallingSearcher:
    return RecallingSearcher(create("random", own), FIRST)


def told(score: Callable[[Mapping[str, Any]], float | None], trials: int = 12, ask: int = 1) -> list[str]:
    """Where proposals came from, in order."""
    searcher, made = recalling(space()), []
    for trial in range(1, trials + 1):
        for proposal in searcher.ask(ask, stream(3, "ask", trial)):
            made.append(proposal.origin)
            found = score(proposal.configuration)
            status = Status.CRASHED if found is None else Status.OK
            searcher.tell([Observation(trial=len(made), proposal=proposal, status=status, score=found)])
    return made


def test_paying_settings_return_in_every_other_trial() -> None:
    rank = {"x": -1.0, "y": -2.0, "z": -3.0}
    made = told(lambda c: rank[c["B"]] if c["A"] == 7 else 0.0)
    assert made[:6] == ["random", ORIGIN] * 3
    assert ORIGIN not in made[6:]


@pytest.mark.parametrize("worse", [1.0, 0.0, None])
def test_the_first_that_disappoints_is_the_last(worse: float | None) -> None:
    made = told(lambda c: worse if c["A"] == 7 else 0.0)
    assert made.count(ORIGIN) == 1


def test_from_the_third_on_only_the_best_so_far_goes_on() -> None:
    rank = {"x": -2.0, "y": -1.0, "z": -3.0}
    assert told(lambda c: rank[c["B"]] if c["A"] == 7 else 0.0).count(ORIGIN) == 3
    rank = {"x": -3.0, "y": -2.0, "z": -1.0}
    first = [*FIRST, {"A": 8, "B": "x"}]
    searcher = RecallingSearcher(create("random", space()), first)
    origins = []
    for trial in range(1, 15):
        (proposal,) = searcher.ask(1, stream(0, "ask", trial))
        origins.append(proposal.origin)
        good = proposal.origin == ORIGIN
        found = rank[str(proposal.configuration["B"])] if good else 0.0
        searcher.tell([Observation(trial=trial, proposal=proposal, status=Status.OK, score=found)])
    assert origins.count(ORIGIN) == 3


def test_a_source_that_disappoints_does_not_end_another() -> None:
    searcher = RecallingSearcher(create("random", space()), FIRST, [0, 1, 0])
    rank = {"x": 1.0, "y": -1.0, "z": -2.0}
    tried = []
    for trial in range(1, 13):
        (proposal,) = searcher.ask(1, stream(3, "ask", trial))
        good = proposal.origin == ORIGIN
        if good:
            tried.append(str(proposal.configuration["B"]))
        found = rank[str(proposal.configuration["B"])] if good else 0.0
        searcher.tell([Observation(trial=trial, proposal=proposal, status=Status.OK, score=found)])
    assert tried == ["x", "y"]


def test_a_batch_has_one_try_and_waits_for_it() -> None:
    searcher = recalling(space())
    first = searcher.ask(4, stream(0, "ask", 1))
    assert [p.origin for p in first] == ["random"] * 4
    searcher.tell(
        [Observation(trial=i, proposal=p, status=Status.OK, score=0.0) for i, p in enumerate(first)]
    )
    second = searcher.ask(4, stream(0, "ask", 2))
    assert [p.origin for p in second] == [ORIGIN, "random", "random", "random"]
    assert ORIGIN not in [p.origin for p in searcher.ask(4, stream(0, "ask", 3))]


def test_it_keeps_the_rules_of_searchers() -> None:
    conformance.check_all(recalling, space())


def test_a_try_no_better_than_the_baseline_ends_its_source_however_bad_the_own_ones_were() -> None:
    for score, tries in ((0.2, 1), (-0.2, 3)):
        made = told(lambda c, score=score: score if c["A"] == 7 else 3.0)
        assert made.count(ORIGIN) == tries
