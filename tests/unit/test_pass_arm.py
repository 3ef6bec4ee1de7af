"""What the pass search tries first, and what it learns where most pipelines give equal code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import BASELINE, Proposal, Status
from tuner.search.registry import create
from tuner.spaces.passes import Catalogue, PassSpace
from tuner.spaces.space import Space

GOLDEN = Path(__file__).parents[1] / "golden"


def space() -> Space:
    listing = (GOLDEN / "llvm23_passes.txt").read_text()
    o3 = (GOLDEN / "llvm23_o3.txt").read_text().strip()
    return Space([], passes=PassSpace(Catalogue.from_listing(listing, o3, "23.1.4")))


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


def test_whole_pipelines_come_first() -> None:
    texts = [o.proposal.configuration["passes"] for o in run(set(), 2)]
    assert texts == ["default<O1>,default<O3>", "default<O3>,default<O3>"]


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


@pytest.mark.integration
def test_rare_effective_passes_are_joined() -> None:
    told = run({"loop-interchange", "loop-data-prefetch"}, 400)
    best = min(o.score for o in told if o.score is not None)
    assert best == -0.2
