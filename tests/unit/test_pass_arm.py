"""What the pass search tries first, and what it learns where most pipelines give equal code."""

from __future__ import annotations

from pathlib import Path

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


def test_passes_alone_are_tried_while_they_cost_nothing() -> None:
    told = run({"loop-interchange", "loop-data-prefetch"}, 150)
    alone = [o for o in told if o.proposal.note["operator"] == "alone"]
    assert len(alone) > 50
    assert len({o.proposal.configuration["passes"] for o in alone}) == len(alone)


def test_passes_alone_give_way_where_each_costs_an_evaluation() -> None:
    told = run({"(", ","}, 150)
    assert sum(o.proposal.note["operator"] == "alone" for o in told) < 30


def test_rare_effective_passes_are_joined() -> None:
    told = run({"loop-interchange", "loop-data-prefetch"}, 400)
    best = min(o.score for o in told if o.score is not None)
    assert best == -0.2
