"""What the pass search tries first, and what it learns where most pipelines give equal code."""

from __future__ import annotations

from pathlib import Path

from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import BASELINE, Proposal, Status
from tuner.search.portfolio import first_pipelines, shipped
from tuner.search.registry import create
from tuner.spaces.passes import Catalogue, PassSpace
from tuner.spaces.space import Space

GOLDEN = Path(__file__).parents[1] / "golden"


def passes(base: str = "default<O3>", max_edits: int = 40) -> PassSpace:
    listing = (GOLDEN / "llvm23_passes.txt").read_text()
    o3 = (GOLDEN / "llvm23_o3.txt").read_text().strip()
    return PassSpace(Catalogue.from_listing(listing, o3, "23.1.4"), base=base, max_edits=max_edits)


def space() -> Space:
    return Space([], passes=passes())


def run(changing: set[str], trials: int) -> list[Observation]:
    """A kernel whose code only some passes change, each by a tenth; everything else is a duplicate."""
    searcher, told = create("passes", space()), list[Observation]()
    base = Proposal(configuration={"passes": "default<O3>"}, origin="baseline")
    searcher.tell([Observation(trial=BASELINE, proposal=base, status=Status.OK, score=0.0)])
    for number in range(1, trials + 1):
        (proposal,) = searcher.ask(1, stream(0, "ask", number))
        text = str(proposal.configuration["passes"])
        hits = {name for name in changing if name in text}
        status = Status.OK if hits else Status.DUPLICATE
        told.append(Observation(trial=number, proposal=proposal, status=status, score=-0.1 * len(hits)))
        searcher.tell(told[-1:])
    return told


def test_what_was_good_for_other_kernels_comes_first() -> None:
    first = first_pipelines(passes())
    told = run(set(), len(first) + 3)
    assert [o.proposal.configuration["passes"] for o in told[: len(first)]] == list(first)
    assert {o.proposal.note["operator"] for o in told[: len(first)]} == {"first"}
    assert "first" not in {o.proposal.note["operator"] for o in told[len(first) :]}


def test_all_that_is_shipped_can_be_tried_around_the_usual_base() -> None:
    """And is short enough to be read: no optimisation level is spelt out."""
    assert first_pipelines(passes()) == shipped()
    assert 4 <= len(shipped()) == len(set(shipped())) <= 12
    assert max(len(text) for text in shipped()) < 700


def test_what_is_shipped_goes_around_another_base() -> None:
    found = first_pipelines(passes("default<O2>"))
    assert all("default<O3>" not in text for text in found)
    assert "default<O2>" not in found
    assert len(found) >= 4


def test_what_is_shipped_keeps_to_the_edits_that_a_spec_allows() -> None:
    few = passes(max_edits=1)
    found = first_pipelines(few)
    assert len(found) < len(shipped())
    assert all(few.distance(text) <= 1 for text in found)


def grouped(told: list[Observation]) -> list[tuple[str, ...]]:
    """Passes of the groups in turn, with whether they stood before the base."""
    return [
        tuple(f"{name}/{str(o.proposal.configuration['passes']).endswith('default<O3>')}" for name in added)
        for o in told
        if o.proposal.note["operator"] == "together" and isinstance(added := o.proposal.note["added"], list)
    ]


def test_passes_that_do_nothing_are_found_several_at_a_time() -> None:
    groups = grouped(run({"loop-interchange", "loop-data-prefetch"}, 150))
    found = {name for group in groups for name in group}
    assert len(found) > 150
    assert len(found) > 4 * len(groups)
    assert len(set(groups)) == len(groups)


def test_groups_get_smaller_where_every_pass_changes_the_code() -> None:
    groups = grouped(run({"(", ","}, 150))
    assert len(groups[0]) > 4
    assert max(len(group) for group in groups[-3:]) <= 2


def test_rare_effective_passes_are_joined() -> None:
    told = run({"loop-interchange", "loop-data-prefetch"}, 400)
    best = min(o.score for o in told if o.score is not None)
    assert best == -0.2
