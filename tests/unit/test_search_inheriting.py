"""The searcher of a variant: begins with the parent's best, then varies what is new, then is the inner searcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.core.expressions import parse
from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import Proposal, Status
from tuner.search import registry
from tuner.search.inheriting import InheritingSearcher, inherited
from tuner.spaces.parameters import Parameter
from tuner.spaces.passes import Catalogue, PassSpace
from tuner.spaces.space import Space

SPACE = Space(
    (
        Parameter.choice("OLD", [1, 2, 3, 4], default=3),
        Parameter.choice("NEW", [8, 16, 32, 64], default=16),
    ),
    (parse("NEW >= 8 * OLD"),),
    flags={"math": ("-ffast-math", "")},
)
SEED = {"OLD": 2, "NEW": 16, "math": "-ffast-math"}


def made() -> InheritingSearcher:
    return InheritingSearcher(lambda: registry.create("surrogate", SPACE), SPACE, SEED, ["NEW"])


def observed(number: int, proposal: Proposal) -> Observation:
    return Observation(trial=number, proposal=proposal, status=Status.OK, score=0.01 * number)


def test_it_begins_with_the_parents_best_and_varies_what_is_new() -> None:
    first = made().ask(4, stream(1, "ask", 0))
    assert first[0].configuration == SEED
    for proposal in first[1:]:
        assert SPACE.is_valid(proposal.configuration)
        assert {**proposal.configuration, "NEW": 16} == SEED
    assert len({p.configuration["NEW"] for p in first}) == len(first)


def test_it_goes_on_as_the_inner_searcher_until_the_space_is_exhausted() -> None:
    searcher, seen = made(), []
    for number in range(60):
        asked = searcher.ask(2, stream(1, "ask", number))
        if not asked:
            break
        searcher.tell([observed(len(seen) + i, p) for i, p in enumerate(asked)])
        seen += asked
    keys = {tuple(sorted(p.configuration.items())) for p in seen}
    assert len(keys) == len(seen) == SPACE.count()


def test_adopting_ends_where_asking_does() -> None:
    """At whatever point a record breaks off."""
    for rounds in range(1, 7):
        asked, adopted = made(), made()
        count = 0
        for number in range(rounds):
            proposals = asked.ask(2, stream(2, "ask", number))
            adopted.adopt(proposals)
            told = [observed(count + i, p) for i, p in enumerate(proposals)]
            count += len(told)
            asked.tell(told)
            adopted.tell(told)
        rng = (stream(2, "ask", rounds) for _ in range(2))
        assert asked.ask(3, next(rng)) == adopted.ask(3, next(rng))


def test_the_parents_values_are_taken_as_far_as_the_space_has_them() -> None:
    one = {"OLD": 4, "GONE": 1, "math": ""}
    two = {"OLD": 1, "NEW": 64}
    assert inherited(SPACE, [one, two]) == {"OLD": 4, "NEW": 64, "math": ""}
    assert SPACE.is_valid(inherited(SPACE, [{"OLD": 4, "NEW": 8}]))


GOLDEN = Path(__file__).parents[1] / "golden"
CATALOGUE = Catalogue.from_listing(
    (GOLDEN / "llvm23_passes.txt").read_text(), (GOLDEN / "llvm23_o3.txt").read_text().strip(), "23.1.4"
)
PIPED = Space(SPACE.parameters, SPACE.constraints, passes=PassSpace(CATALOGUE))
PIPED_SEED = {"OLD": 2, "NEW": 16, "passes": "default<O3>,function(instcombine)"}


def tried_after(status: Status, *, together: bool = False) -> list[dict[str, object]]:
    """What comes after the parent's best, alone or with another value of what is new, came to a status."""
    searcher = InheritingSearcher(lambda: registry.create("random", PIPED), PIPED, PIPED_SEED, ["NEW"])
    first = searcher.ask(2 if together else 1, stream(1, "ask", 0))
    assert first[0].configuration == PIPED_SEED
    score = 0.0 if status is Status.OK else None
    searcher.tell([Observation(trial=i, proposal=p, status=status, score=score) for i, p in enumerate(first)])
    return [dict(p.configuration) for p in searcher.ask(2, stream(1, "ask", 1))]


@pytest.mark.parametrize("status", [Status.WRONG_RESULT, Status.CRASHED, Status.BUILD_ERROR])
@pytest.mark.parametrize("together", [False, True])
def test_failures_with_parents_passes_are_retried_with_given_ones(status: Status, together: bool) -> None:
    """Also where another value of what is new has failed beside it; what is new is varied with the given ones then."""
    plain, other = tried_after(status, together=together)
    assert plain == {**PIPED_SEED, "passes": "default<O3>"}
    assert other["passes"] == "default<O3>"


@pytest.mark.parametrize("status", [Status.OK, Status.LOST, Status.OUT_OF_RESOURCES])
def test_passes_are_kept_where_they_are_not_to_blame(status: Status) -> None:
    assert all(c["passes"] == PIPED_SEED["passes"] for c in tried_after(status))


def test_adopting_what_was_tried_with_the_given_passes_ends_where_asking_does() -> None:
    makers = [
        InheritingSearcher(lambda: registry.create("random", PIPED), PIPED, PIPED_SEED, ["NEW"])
        for _ in range(2)
    ]
    for number in range(6):
        asked = makers[0].ask(2, stream(3, "ask", number))
        makers[1].adopt(asked)
        for one in makers:
            told = [
                Observation(trial=i, proposal=p, status=Status.CRASHED, score=None)
                for i, p in enumerate(asked)
            ]
            one.tell(told)
    rng = (stream(3, "ask", 9) for _ in range(2))
    assert makers[0].ask(3, next(rng)) == makers[1].ask(3, next(rng))


WIDE = Space(
    tuple(Parameter.choice(f"T{i}", [1, 2, 4, 8, 16], default=4) for i in range(20)),
    passes=PassSpace(CATALOGUE),
)
WIDE_SEED = dict(WIDE.default())


def axes_moved(proposal: Proposal) -> int:
    return sum(proposal.configuration[name] != value for name, value in WIDE_SEED.items() if name != "passes")


def in_many_axes(score: float, rounds: int) -> list[Proposal]:
    """What is proposed from a start with a score, where everything else is worse."""
    searcher = InheritingSearcher(
        lambda: registry.create("auto", WIDE), WIDE, WIDE_SEED, [p.name for p in WIDE.parameters]
    )
    proposals = list[Proposal]()
    for number in range(rounds):
        (proposal,) = searcher.ask(1, stream(3, "ask", number))
        assert WIDE.is_valid(proposal.configuration)
        told = score + 0.1 * axes_moved(proposal)
        searcher.tell([Observation(trial=number, proposal=proposal, status=Status.OK, score=told)])
        proposals.append(proposal)
    keys = {tuple(sorted(p.configuration.items())) for p in proposals}
    assert len(keys) == len(proposals)
    return proposals


def test_a_few_of_many_new_tunables_take_other_values_at_once() -> None:
    """Or what was good of them is lost."""
    varied = [axes_moved(p) for p in in_many_axes(-1.0, 4) if p.origin == "vary"]
    assert len(varied) == 3
    assert 1 <= min(varied) <= max(varied) <= 8


def test_a_good_start_is_left_in_few_axes_and_a_bad_one_in_all() -> None:
    by_parameters = {
        score: [axes_moved(p) for p in in_many_axes(score, 30) if p.origin == "auto/parameters"]
        for score in (-1.0, 1.0)
    }
    assert max(by_parameters[-1.0]) <= 10
    assert max(by_parameters[1.0][:6]) > 10
