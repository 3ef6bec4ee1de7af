"""The searcher of a variant: begins with the parent's best, then varies what is new, then is the inner searcher."""

from __future__ import annotations

from tuner.core.expressions import parse
from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import Proposal, Status
from tuner.search import registry
from tuner.search.inheriting import InheritingSearcher, inherited
from tuner.spaces.parameters import Parameter
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
