"""How events of devices change the state of a run: they come and go, and trials are placed on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.driver.state.lanes import Lane
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState

__all__ = ["APPLY", "evaluated"]


def _apply_lane(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    lane = Lane(number=body["lane"], device=body["device"], node=body["node"])
    state.lanes[lane.number] = lane
    state.stock.count(state.lanes.values())


def _apply_lane_lost(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    lane = state.lanes[body["lane"]]
    lane.alive, lane.lost = False, body["reason"]
    for number in lane.trials:
        state.back(state.trials[number])
        state.trials[number].set_back()
        state.turns.built(number, state.trials[number].build_key, plain=False)
    lane.trials = []
    state.stock.count(state.lanes.values())
    if state.final_lane == lane.number:
        # Samples of two devices do not go together: what was begun on this one begins anew on another.
        state.final_lane = None
        purpose = "choose" if state.chosen is None else "confirm"
        state.finals[purpose], state.verdict, state.verdicts = [], None, 0
        state.compared = []
        if state.dissection is not None:
            state.dissection.weighed.clear()


def _apply_place(state: RunState, number: int | None, body: Mapping[str, Any]) -> None:
    assert number is not None
    trial = state.trials[number]
    trial.rival, trial.placed_s = body["rival"], state.clock_s
    state.placed(trial, body["lane"])


def _apply_settle(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.final_lane = body["lane"]


def evaluated(state: RunState, trial: TrialState, lane: Lane) -> None:
    """Takes in that a trial has ended which was on a device."""
    lane.ended(trial.number, trial.placed_s, state.clock_s)
    state.back(trial)
    said = trial.verify or {}
    state.stock.evaluated(
        lane,
        state.lanes.values(),
        idle_s=said.get("idle_s", 0.0),
        busy_s=said.get("busy_s", 0.0),
        asked_s=trial.asked_s,
        clock_s=state.clock_s,
    )


APPLY = {
    "lane": _apply_lane,
    "lane_lost": _apply_lane_lost,
    "place": _apply_place,
    "settle": _apply_settle,
}
"""What takes in each kind of event, as :mod:`tuner.driver.state.fold` calls it."""
