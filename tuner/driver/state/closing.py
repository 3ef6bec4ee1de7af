"""What the events of a run's end do to its state: choosing, confirming, comparing, taking the winner apart.

Part of :mod:`tuner.driver.state.fold`; may not decide anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tuner.core.types import Status
from tuner.driver.state.claimed import CLAIMS, Claimed
from tuner.driver.state.dissection import Dissection
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import FinalSample, Look
from tuner.spaces.space import PASSES

__all__ = ["APPLY"]


def _apply_stop(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.search_stop = body["reason"]
    state.searched_s = state.clock_s
    state.finalists = tuple(body["finalists"])


def _apply_final(state: RunState, number: int | None, body: Mapping[str, Any]) -> None:
    assert number is not None
    status = Status(body["status"])
    state.finals[body["purpose"]].append(
        FinalSample(
            trial=number,
            number=body["number"],
            status=status,
            medians_s=tuple(body["medians_s"] or ()),
            cost_s=body["cost_s"],
            waited_s=math.fsum(
                float(m["notes"].get("waited_s", 0.0)) for m in body.get("measurements") or ()
            ),
            message=body.get("message", ""),
            looks=_looks(body),
        )
    )
    if status is not Status.OK:
        state.out_of_final.add(number)


def _looks(body: Mapping[str, Any]) -> dict[int, Look]:
    return {
        m["problem"]: Look(
            seen_s=body["medians_s"][m["problem"]],
            fresh_s=m["notes"]["fresh_s"],
            slack_s=m["notes"]["fresh_slack_s"],
        )
        for m in body.get("measurements") or ()
        if body["medians_s"] and "fresh_s" in m["notes"]
    }


def _apply_choice(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    held = state.held
    if held is not None and held.chosen == body["chosen"]:
        _restore(state, held)
        return
    state.chosen, state.choice = body["chosen"], body
    state.finals["confirm"] = []
    if state.verdict is not None:
        # Of one whose gain was not there on new inputs.
        state.verdict, state.verdicts = None, 0


def _apply_verdict(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.verdict = body
    state.verdicts += 1
    if "unseen" in body:
        assert state.chosen is not None
        state.out_of_final.add(state.chosen)


def _apply_extend(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    """More budget: the search, or only its end, is open again; what was claimed is held."""
    verdict = state.verdict
    if verdict is not None and verdict["claim"] in CLAIMS and state.chosen is not None:
        state.held = Claimed(
            chosen=state.chosen,
            choice=state.choice,
            verdict=verdict,
            verdicts=state.verdicts,
            samples=tuple(state.finals["confirm"]),
            dissection=state.dissection,
        )
    state.decided += verdict is not None and verdict["speedup"] is not None
    state.extended += 1
    state.settings = replace(
        state.settings,
        minutes=body["minutes"],
        evaluations=body["evaluations"],
        searches=body["searches"],
        confirm_share=body["confirm_share"],
        from_s=state.clock_s,
        from_evaluations=state.evaluations,
        shared=None,
    )
    state.exchanges.evaluations = state.settings.evaluations
    state.end = state.search_stop = state.simplified = state.reduction = state.final_lane = None
    state.exhausted = False
    state.finalists = ()
    state.finals["choose"] = []
    _undecided(state)


def _undecided(state: RunState) -> None:
    state.finals["confirm"] = []
    state.chosen, state.choice = None, {}
    state.verdict, state.verdicts, state.dissection = None, 0, None


def _restore(state: RunState, held: Claimed) -> None:
    state.chosen, state.choice = held.chosen, held.choice
    state.verdict, state.verdicts = held.verdict, held.verdicts
    state.finals["confirm"] = list(held.samples)
    state.dissection = held.dissection


def _apply_other(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.others.append(body)


def _apply_compared(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.compared.append(body)


def _apply_shorten(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    """What a pipeline does not need is no part of the winner: its code is the same to the byte."""
    assert state.chosen is not None
    trial = state.trials[state.chosen]
    made = {**trial.proposal.configuration, PASSES: body["passes"]}
    trial.searched = trial.as_searched
    trial.proposal = replace(trial.proposal, configuration=made)


def _apply_dissect(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.dissection = Dissection(items=body["items"], begun_s=state.clock_s, built_s=state.clock_s)


def _apply_without(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    assert state.dissection is not None
    state.dissection.take_build(body)


def _apply_weighed(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    assert state.dissection is not None
    state.dissection.weighed.append(body)


APPLY = {
    "extend": _apply_extend,
    "stop": _apply_stop,
    "final": _apply_final,
    "choice": _apply_choice,
    "verdict": _apply_verdict,
    "other": _apply_other,
    "compared": _apply_compared,
    "shorten": _apply_shorten,
    "dissect": _apply_dissect,
    "without": _apply_without,
    "weighed": _apply_weighed,
}
"""By kind of event."""
