"""What comes next, as a pure function of the run's state: no clock, no randomness but the run's own streams.

The order of one candidate is the design's: ask, build, same object?, verify, measure in racing rounds; then, for
the few best, choose and confirm (:mod:`tuner.driver.plan.final`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from tuner.core import statistics
from tuner.core.racing import Race, composite
from tuner.core.types import BASELINE, Stage, Status
from tuner.driver.plan import convergence, evolving, final, light, pruning, sharing, simplest
from tuner.driver.plan.actions import (
    Action,
    Ask,
    BuildTrials,
    Control,
    Decide,
    Finished,
    Measure,
    Recall,
    SetBaseline,
    Verify,
)
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import CONVERGED
from tuner.driver.state.trials import TrialState

__all__ = [
    "CONFIRMS",
    "control_calls",
    "next_action",
    "not_built",
    "race_of",
    "stop",
    "stop_reason",
    "trial_action",
    "trial_end",
]

CONTROL_WINDOW = 3
"""How many of the last control measurements the drift is taken from (their median)."""


CONFIRMS = "confirm"
"""Reason for the end of a search where only confirming what was found before was asked for."""


def next_action(state: RunState) -> Action:
    """What the run has to do now."""
    if state.end is not None:
        return Finished()
    if state.queue:
        return _gathered(state) or _queue_action(state)
    if state.search_stop is None:
        return _search_action(state)
    return final.next_action(state)


def _gathered(state: RunState) -> Action | None:
    """One more trial, of another variant, beside those that wait for their build; ``None`` once each worker has one."""
    if state.settings.evolution is None or state.search_stop is not None or not state.recall_over:
        return None
    if not state.settings.searches:
        return None
    waiting = [state.trials[n] for n in state.queue]
    if any(t.build is not None or t.attempt or t.number == BASELINE for t in waiting):
        return None
    if any(state.variants[t.variant].aside for t in waiting):
        return None
    return evolving.abreast_action(state, state.settings.batch - len(state.queue))


def _queue_action(state: RunState) -> Action:
    judge = pruning.judge_asked(state)
    if judge is not None:
        return judge
    unbuilt = tuple(n for n in state.queue if state.trials[n].build is None)
    for number in unbuilt:
        closed = not_built(state, state.trials[number])
        if closed is not None:
            return closed
    # A batch is built whole before its first trial goes on: builds run in parallel, timing does not.
    if unbuilt:
        return BuildTrials(trials=unbuilt)
    judge = pruning.judge_built(state)
    if judge is not None:
        return judge
    return trial_action(state, state.trials[state.queue[0]])


def _search_action(state: RunState) -> Action:
    if state.trials[BASELINE].status is not Status.OK:
        return Decide(kind="end", body={"stopped_by": "baseline"})
    if not state.settings.searches:
        return stop(state, CONFIRMS)
    shared = sharing.share_action(state)
    if shared is not None:
        return shared
    if not state.recall_over:
        return Recall()
    evolves = state.settings.evolution is not None
    reason = evolving.search_over(state) if evolves else stop_reason(state)
    if reason is None and light.reached(state):
        reason = "speed_of_light"
    if reason is not None:
        last = evolving.minimise_action(state, reason) if evolves else simplest.action(state, reason)
        return last or stop(state, reason)
    if state.since_control >= state.settings.control_every:
        return Control(number=len(state.controls), calls=control_calls(state))
    if evolves:
        action = evolving.search_action(state)
        assert action is not None
        return action
    left = math.inf if state.limit is None else state.limit - simplest.kept(state) - state.evaluations
    count = int(min(state.settings.batch, left, state.settings.proposals - state.next_trial))
    return Ask(first=state.next_trial, count=pruning.pool_size(state, count))


def stop(state: RunState, reason: str) -> Decide:
    """The end of the search, with those among which one is chosen."""
    return Decide(kind="stop", body={"reason": reason, "finalists": final.finalists(state)})


def not_built(state: RunState, trial: TrialState) -> Decide | None:
    """The end of a trial that is not worth its build; ``None`` where it is built."""
    message = pruning.why_not_built(state, trial)
    return _close(state, trial, Status.PRUNED, message=message) if message else None


def stop_reason(state: RunState) -> str | None:
    """Why the search is over; ``None`` where it is not."""
    settings = state.settings
    if (
        state.limit is not None
        and state.evaluations >= state.limit - simplest.kept(state)
        and not state.open_share
    ):
        return "evaluations"
    if state.clock_s >= simplest.deadline_s(state) and not state.open_share:
        return "minutes"
    if state.exhausted or state.next_trial >= settings.proposals:
        return "exhausted"
    return CONVERGED if convergence.reached(state) else None


def trial_action(state: RunState, trial: TrialState) -> Action:
    """What has to be done with a trial that is built."""
    ended = trial_end(state, trial)
    if ended is not None:
        return ended
    if trial.number == BASELINE and state.baseline is None:
        return SetBaseline()
    if trial.verify is None:
        return Verify(trial=trial.number)
    done = len(trial.rounds)
    calls = race_of(state, trial).calls(_times(state, trial), done)
    return Measure(trial=trial.number, round=done, calls=calls)


def trial_end(state: RunState, trial: TrialState) -> Decide | None:
    """The end of a trial that is built; ``None`` where something is to be done with it."""
    assert trial.build is not None
    if trial.build["status"] != Status.OK:
        return _close(state, trial, Status(trial.build["status"]), message=trial.build["message"])
    first = state.keys.get(trial.build["key"], trial.number)
    # A winner with less changed is measured even where its code is the same: then the change did nothing.
    stands_in = simplest.stands_in(trial) or state.variant_of(trial.number).purpose == "reduce"
    if first != trial.number and not stands_in:
        return _duplicate(trial, state.trials[first])
    if trial.number == BASELINE and state.baseline is None:
        return None
    if trial.number == BASELINE and state.baseline is not None and state.baseline["status"] != Status.OK:
        return _close(state, trial, Status(state.baseline["status"]), message=state.baseline["message"])
    if (
        state.clock_s >= state.search_deadline_s
        and not state.open_share
        and trial.number != BASELINE
        and trial.verify is None
        and trial.lane is None
    ):
        return _close(state, trial, Status.PRUNED, message="the time for searching was over")
    message = pruning.why_not_run(trial)
    if message and trial.verify is None:
        return _close(state, trial, Status.PRUNED, message=message)
    if trial.verify is None:
        return None
    if trial.verify["status"] != Status.OK:
        return _close(state, trial, Status(trial.verify["status"]), message=trial.verify["message"])
    return _measured_end(state, trial) if trial.rounds else None


def _measured_end(state: RunState, trial: TrialState) -> Decide | None:
    for measurement in trial.rounds[-1]:
        if measurement["status"] != Status.OK:
            return _close(state, trial, Status(measurement["status"]), message=measurement["message"])
    if len(trial.rounds) == len(state.settings.rounds_s):
        return _close(state, trial, Status.OK)
    if not _reduces_nothing(state, trial) and not race_of(state, trial).keep(_times(state, trial)):
        return _close(state, trial, Status.OK, raced=True)
    return None


def race_of(state: RunState, trial: TrialState) -> Race:
    """What the trial's rounds depend on; the one to beat is the best so far, or who it was when it was placed."""
    settings = state.settings
    assert state.baseline is not None
    # With several objectives a slow candidate may still be the best in another: nothing is raced out.
    races = trial.number != BASELINE and len(settings.objectives) == 1
    return Race(
        weights=settings.weights,
        rounds_s=settings.rounds_s,
        rounds_calls=settings.rounds_calls,
        enough_s=settings.enough_s,
        call_s=tuple(state.baseline["call_s"]),
        base_log=_control_log(state, trial.lane) if races else 0.0,
        incumbent=_incumbent(state, trial) if races else None,
    )


def _incumbent(state: RunState, trial: TrialState) -> tuple[float, ...]:
    rival = state.incumbent if trial.rival is None else trial.rival
    best = state.trials[BASELINE if rival is None else rival]
    score = best.score
    assert score is not None
    if best.series is None:
        own = composite(_times(state, best), state.settings.weights)
        middle = math.log(statistics.median(own))
        best.series = tuple(value * math.exp(score - middle) for value in own)
    return best.series


def _times(state: RunState, trial: TrialState) -> list[list[float]]:
    return [trial.times_s(p) for p in range(len(state.settings.weights))]


def _control_log(state: RunState, lane: int | None) -> float:
    return _middle_log(tuple(state.controls_of(lane)[-CONTROL_WINDOW:]), state.settings.weights)


@functools.lru_cache(maxsize=1024)
def _middle_log(recent: tuple[tuple[float, ...], ...], weights: tuple[float, ...]) -> float:
    """Of the last control measurements of a device, asked for several times a trial."""
    return sum(
        weight * math.log(statistics.median([c[p] for c in recent])) for p, weight in enumerate(weights)
    )


def _medians(state: RunState, trial: TrialState) -> list[float] | None:
    if not trial.rounds:
        return None
    return [statistics.median(trial.times_s(p)) for p in range(len(state.settings.weights))]


def _reduces_nothing(state: RunState, trial: TrialState) -> bool:
    """Whether a trial is the winner without an edit, and compiles to the very code of the winner."""
    reduction = state.reduction
    if reduction is None or reduction.trying != trial.variant:
        return False
    winner = state.trials[reduction.trial].build
    return trial.build is not None and winner is not None and trial.build["key"] == winner["key"]


def _score(state: RunState, trial: TrialState, medians: Sequence[float]) -> float:
    if _reduces_nothing(state, trial):
        # Two times of one code differ by noise, which would keep the edit and put a worth on it.
        score = state.trials[state.reduction.trial].score if state.reduction is not None else None
        assert score is not None
        return score
    logs = sum(w * math.log(m) for w, m in zip(state.settings.weights, medians, strict=True))
    return logs - _control_log(state, trial.lane)


def control_calls(state: RunState) -> tuple[int, ...]:
    """Calls of a control measurement of the baseline."""
    baseline = state.trials[BASELINE]
    return race_of(state, baseline).calls(_times(state, baseline), 0)


def _duplicate(trial: TrialState, first: TrialState) -> Decide:
    return Decide(
        kind="trial",
        trial=trial.number,
        body=_trial_body(
            Status.DUPLICATE,
            Stage.BUILD,
            score=first.score,
            raced=first.raced,
            of=first.number,
            message=f"the same code as trial {first.number}, which was {first.status}",
        ),
    )


def _close(
    state: RunState, trial: TrialState, status: Status, *, message: str = "", raced: bool = False
) -> Decide:
    medians = _medians(state, trial) if status is Status.OK else None
    if medians is not None:
        cheats = light.impossible(state, trial, medians)
        if cheats:
            status, message, medians = Status.REFUSED, cheats, None
    score: float | None = None
    if medians is not None:
        score = 0.0 if trial.number == BASELINE else _score(state, trial, medians)
    # Clocks may disagree once by an interrupt between two readings: one who cheats is refused every time.
    doubtful = status is Status.REFUSED and trial.stage is Stage.MEASURE
    again = (status is Status.LOST or doubtful) and trial.attempt < state.settings.lost_retries
    body = _trial_body(status, trial.stage, score=score, raced=raced, message=message, again=again)
    return Decide(kind="trial", trial=trial.number, body=body | {"medians_s": medians})


def _trial_body(
    status: Status,
    stage: Stage,
    *,
    score: float | None,
    raced: bool = False,
    of: int | None = None,
    message: str = "",
    again: bool = False,
) -> dict[str, Any]:
    return {
        "status": status.value,
        "stage": stage.value,
        "score": score,
        "raced": raced,
        "of": of,
        "message": message,
        "again": again,
        "medians_s": None,
    }
