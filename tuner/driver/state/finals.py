"""How the events after the search change the state of a run: its end, choosing, confirming, taking the winner apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tuner.core.types import Status
from tuner.driver.state.dissection import Dissection
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import FinalSample

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
        )
    )
    if status is not Status.OK:
        state.out_of_final.add(number)


def _apply_choice(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.chosen, state.choice = body["chosen"], body
    state.finals["confirm"] = []


def _apply_verdict(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.verdict = body
    state.verdicts += 1


def _apply_other(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.others.append(body)


def _apply_compared(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.compared.append(body)


def _apply_dissect(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.dissection = Dissection(items=body["items"], begun_s=state.clock_s, built_s=state.clock_s)


def _apply_without(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    assert state.dissection is not None
    state.dissection.take_build(body)


def _apply_weighed(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    assert state.dissection is not None
    state.dissection.weighed.append(body)


APPLY = {
    "stop": _apply_stop,
    "final": _apply_final,
    "choice": _apply_choice,
    "verdict": _apply_verdict,
    "other": _apply_other,
    "compared": _apply_compared,
    "dissect": _apply_dissect,
    "without": _apply_without,
    "weighed": _apply_weighed,
}
"""By kind of event, as in :mod:`tuner.driver.state.fold`."""
