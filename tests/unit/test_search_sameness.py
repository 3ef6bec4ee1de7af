"""What the search learns of configurations that build to known code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import BASELINE, Configuration, Proposal, Status
from tuner.search.conformance import baseline
from tuner.search.domain import Domain
from tuner.search.registry import create
from tuner.search.sameness import Sameness
from tuner.spaces.parameters import Parameter
from tuner.spaces.passes import Catalogue, PassSpace
from tuner.spaces.space import Space

GOLDEN = Path(__file__).parents[1] / "golden"
O3 = "default<O3>"
TWICE = "default<O3>,default<O3>"


def space() -> Space:
    listing = (GOLDEN / "llvm23_passes.txt").read_text()
    o3 = (GOLDEN / "llvm23_o3.txt").read_text().strip()
    parameters = [Parameter.choice("A", [1, 2, 4, 8]), Parameter.choice("B", [1, 2, 4, 8])]
    passes = PassSpace(Catalogue.from_listing(listing, o3, "23.1.4"))
    return Space(parameters, flags={"math": ("", "-ffast-math")}, passes=passes)


class Kernel:
    """Numbers trials, and finds duplicates by what a configuration's code depends on."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._codes: dict[tuple[object, ...], int] = {}
        self._next = BASELINE

    def observe(self, proposal: Proposal) -> Observation:
        """The next trial."""
        code = tuple(proposal.configuration[name] for name in self._names)
        number, self._next = self._next, self._next + 1
        first = self._codes.setdefault(code, number)
        if first == number:
            return Observation(trial=number, proposal=proposal, status=Status.OK, score=0.1 * number)
        return Observation(
            trial=number, proposal=proposal, status=Status.DUPLICATE, score=0.1 * first, repeats=first
        )


def learnt(kernel: Kernel, *tried: Configuration) -> Sameness:
    """After some trials."""
    sameness = Sameness(Domain(space()))
    for configuration in tried:
        sameness.tell(kernel.observe(Proposal(configuration=configuration, origin="test")))
    return sameness


def at(a: int, b: int, math: str = "", passes: str = O3) -> dict[str, int | str]:
    """A configuration."""
    return {"A": a, "B": b, "math": math, "passes": passes}


def chance(sameness: Sameness, configuration: Configuration) -> float:
    """Of known code."""
    point = Domain(space()).point(configuration)
    assert point is not None
    return sameness.chance(point, str(configuration["passes"]))


def test_an_axis_that_never_changed_the_code_is_likely_to_change_nothing_elsewhere() -> None:
    sameness = learnt(Kernel("A"), at(1, 1), at(1, 2), at(1, 4), at(2, 1), at(2, 2), at(4, 1))
    assert chance(sameness, at(4, 2)) > 0.6
    assert chance(sameness, at(8, 1)) < 0.2


def test_flags_that_change_nothing_are_learnt_by_what_they_repeat() -> None:
    flag = "-ffast-math"
    sameness = learnt(Kernel("A", "B"), at(1, 1), at(1, 1, flag), at(2, 4), at(2, 4, flag), at(4, 4))
    assert chance(sameness, at(4, 4, flag)) > 0.5
    assert chance(sameness, at(8, 4)) < 0.2


def test_pipelines_that_gave_equal_code_count_as_one_until_they_do_not() -> None:
    kernel = Kernel("A")
    sameness = learnt(kernel, at(1, 1), at(1, 1, passes=TWICE), at(2, 1))
    assert chance(sameness, at(2, 1, passes=TWICE)) > 0.8
    other = Kernel("A", "passes")
    for _ in range(3):
        other.observe(Proposal(configuration=at(8, 8), origin="test"))
    sameness.tell(other.observe(Proposal(configuration=at(2, 1, passes=TWICE), origin="test")))
    assert chance(sameness, at(4, 1, passes=TWICE)) < 0.2
    assert sameness.kind(O3) != sameness.kind(TWICE)


def test_nothing_is_held_to_be_certain_and_unknown_pipelines_to_be_new() -> None:
    tried = [at(1, b, math) for b in (1, 2, 4, 8) for math in ("", "-ffast-math")]
    sameness = learnt(Kernel("A"), *tried, *(at(2, b) for b in (1, 2, 4, 8)))
    assert 0.8 < chance(sameness, at(2, 1, "-ffast-math")) <= 0.95
    assert chance(sameness, at(1, 1, passes="function(sroa),default<O3>")) == 0.0


def test_a_duplicate_of_an_unknown_trial_teaches_nothing() -> None:
    sameness = learnt(Kernel("A"), at(1, 1))
    proposal = Proposal(configuration=at(1, 2), origin="test")
    for repeats in (None, 77):
        sameness.tell(
            Observation(trial=9, proposal=proposal, status=Status.DUPLICATE, score=0.0, repeats=repeats)
        )
    assert chance(sameness, at(1, 4)) < 0.1


def duplicates(*names: str) -> int:
    """Of 80 trials of the default strategy, a kernel of 4 x 4 codes or fewer for each pipeline."""
    made, kernel = space(), Kernel(*names)
    searcher = create("auto", made)
    first = baseline(made)
    searcher.tell([kernel.observe(first.proposal)])
    told = []
    for number in range(1, 81):
        (proposal,) = searcher.ask(1, stream(0, "ask", number))
        told.append(kernel.observe(proposal))
        searcher.tell(told[-1:])
    return sum(o.status is Status.DUPLICATE and str(o.proposal.origin) != "auto/passes" for o in told)


@pytest.mark.integration
def test_the_default_strategy_seldom_proposes_what_builds_to_known_code() -> None:
    # Of 32 points with a pipeline four differ in code.
    assert duplicates("A", "passes") < 30


@pytest.mark.integration
def test_a_space_in_which_nothing_changes_the_code_is_searched_to_its_end() -> None:
    made = Space([Parameter.choice("A", [1, 2])], flags={"math": ("", "-ffast-math")}, passes=space().passes)
    kernel, searcher = Kernel(), create("auto", made)
    searcher.tell([kernel.observe(baseline(made).proposal)])
    seen = set()
    for number in range(1, 60):
        proposals = searcher.ask(1, stream(0, "ask", number))
        assert proposals, "known code is no reason to end a search"
        seen.add((proposals[0].configuration["A"], proposals[0].configuration["math"]))
        searcher.tell([kernel.observe(proposals[0])])
    assert len(seen) == 4


def test_kinds_that_differ_anywhere_stay_apart() -> None:
    """X as Y and Y as Z, then X unlike Z at one point: that X is as Y once more makes no Z of it."""
    sameness = Sameness(Domain(space()))
    x, y, z = O3, TWICE, "default<O1>,default<O3>"
    number = 0

    def tell(a: int, b: int, codes: dict[str, str]) -> None:
        nonlocal number
        first: dict[str, int] = {}
        for passes, code in codes.items():
            known = first.get(code)
            status = Status.OK if known is None else Status.DUPLICATE
            proposal = Proposal(configuration=at(a, b, passes=passes), origin="test")
            sameness.tell(
                Observation(trial=number, proposal=proposal, status=status, score=1.0, repeats=known)
            )
            first.setdefault(code, number)
            number += 1

    tell(1, 1, {x: "same", y: "same", z: "same"})
    assert sameness.kind(x) == sameness.kind(y) == sameness.kind(z)
    tell(2, 1, {z: "other", x: "own"})
    assert sameness.kind(x) != sameness.kind(z)
    tell(4, 1, {x: "again", y: "again"})
    assert sameness.kind(x) != sameness.kind(z)
