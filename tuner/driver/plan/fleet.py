"""What comes next in a run over several devices: one decision at a time, and all that may be under way.

Pure, like the plan for one device. A decision comes before whatever else has happened, so the events between two
decisions may come in any order and are recorded in the order in which they came; every decision follows from the
events before it. A candidate is timed on one device, raced against who was best when it was placed there, and its score
is taken over the baseline's time on that device, so equal devices need not be quite equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tuner.core.types import BASELINE, Status
from tuner.driver.plan import evolving, final, light, ordering, pruning, sharing
from tuner.driver.plan.actions import (
    Action,
    Ask,
    Await,
    BuildTrials,
    Control,
    Decide,
    Dissect,
    Finished,
    Judge,
    Recall,
)
from tuner.driver.plan.upcoming import (
    control_calls,
    end_body,
    given_up,
    not_built,
    stop_reason,
    trial_action,
)
from tuner.driver.state.lanes import Lane
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState

__all__ = ["decision", "effects"]


def decision(state: RunState) -> Action | None:
    """What is to be decided or proposed now; ``None`` where only something from outside leads on."""
    if state.end is not None:
        return Finished()
    # Before what is beyond the budget is closed: of a pool the best are to be kept, not the first.
    asked = pruning.judge_asked(state)
    if asked is not None:
        unplaced = _unplaced(state)
        demand = _demand(state, unplaced - len(asked.trials), len(state.queue) - unplaced)
        return replace(asked, keep=max(1, demand))
    # Asked after every event, with most of the queue on devices: one look at it serves all that follows.
    trials, away = state.trials, state.away
    loose = [(before, trials[n]) for before, n in enumerate(state.queue) if n not in away]
    ended = _ended(state, loose)
    if ended is not None:
        return ended
    waiting = [trial for _, trial in loose if trial.lane is None]
    if ordering.applies(state):
        given = _in_order(state)
    else:
        given = _judge_built(state) or _placement(state, [t for t in waiting if t.build is not None])
    if given is not None:
        return given
    if state.search_stop is None:
        return _search(state, len(waiting))
    if state.queue:
        return None
    action = final.next_action(state)
    if isinstance(action, Decide | Dissect):
        return action
    if state.final_lane is None:
        lane = _freest(state, calibrated=True)
        return None if lane is None else Decide(kind="settle", body={"lane": lane.number})
    return None


def effects(state: RunState) -> list[Action]:
    """All that may be under way where nothing is to be decided."""
    found: list[Action] = []
    unbuilt = tuple(n for n in state.queue if state.trials[n].build is None)
    if unbuilt:
        found.append(BuildTrials(trials=unbuilt))
    for number in state.queue:
        trial = state.trials[number]
        if trial.lane is None or trial.build is None:
            continue
        action = trial_action(state, trial)
        if not isinstance(action, Decide):
            found.append(action)
    if state.trials[BASELINE].status is Status.OK:
        found += [
            Control(number=len(lane.controls) + lane.failed, calls=control_calls(state), lane=lane.number)
            for lane in state.lanes.values()
            if lane.usable and not lane.trials and _wants_control(state, lane)
        ]
    waits = _waits_for_models(state)
    if waits is not None:
        found.append(waits)
    if state.trials[BASELINE].status is Status.OK and not state.queue:
        shared = sharing.share_action(state)
        found += [] if shared is None else [shared]
    if state.search_stop is not None and not state.queue and state.final_lane is not None:
        action = final.next_action(state)
        if not isinstance(action, Decide | Finished):
            found.append(action)
    return found


def _ended(state: RunState, loose: Sequence[tuple[int, TrialState]]) -> Decide | None:
    """The end of the first trial that has one, of those that are not being evaluated; with places in the queue."""
    left = math.inf if state.limit is None else state.limit - state.evaluations
    failed = state.baseline is not None and state.baseline["status"] != Status.OK
    late = state.clock_s >= state.search_deadline_s
    for before, trial in loose:
        number = trial.number
        if trial.build is None:
            if before >= left or trial.judged:
                ended = not_built(state, trial)
                if ended is not None:
                    return ended
            continue
        # While it is on a device only what came from there can end it.
        if trial.lane is not None and trial.verify is None and not (failed and number == BASELINE):
            continue
        if trial.verify is None and not late and _only_waits(state, trial):
            continue
        action = trial_action(state, trial)
        if isinstance(action, Decide):
            return action
    return None


def _only_waits(state: RunState, trial: TrialState) -> bool:
    """Whether a built trial plainly has nothing before it but its turn on a device; false: it has to be looked at."""
    build = trial.build
    # What was only put in order is looked at no closer.
    judged = trial.judged and not state.settings.ordered
    if trial.number == BASELINE or judged or build is None or build["status"] != Status.OK:
        return False
    return state.keys.get(build["key"], trial.number) == trial.number


def _judge_built(state: RunState) -> Judge | None:
    """Builds that the cost model has to look at, when a device has room for one."""
    built = pruning.judge_built(state)
    if built is None or _freest(state, calibrated=True) is None:
        return None
    trials = tuple(n for n in built.trials if state.trials[n].lane is None)
    return replace(built, trials=trials) if trials else None


def _in_order(state: RunState) -> Judge | Decide | None:
    """What is given up, looked at, or placed, where the likeliest of what is built is timed first."""
    ready = ordering.waiting(state)
    dropped = given_up(state, ready)
    if dropped is not None or not ready or _freest(state, calibrated=True) is None:
        return dropped
    if state.limit is not None and state.evaluations + _placed(state) >= state.limit:
        return None
    judge = ordering.judge(state, ready)
    return judge or _placement(state, [ordering.chosen(ready, follows=state.order.follows)])


def _placed(state: RunState) -> int:
    return sum(len(lane.trials) for lane in state.lanes.values())


def _waits_for_models(state: RunState) -> Await | None:
    """What a search that has nothing to do until a model has replied waits for."""
    if state.settings.evolution is None or state.queue or state.search_stop is not None:
        return None
    if state.trials[BASELINE].status is not Status.OK or evolving.search_over(state) is not None:
        return None
    action = evolving.search_action(state)
    return action if isinstance(action, Await) else None


def _placement(state: RunState, waiting: Sequence[TrialState]) -> Decide | None:
    """One of the built candidates that are on no device, for the free device with the least to do."""
    if not waiting:
        return None
    first = waiting[0].number == BASELINE
    free = _freest(state, calibrated=not first)
    if free is None:
        return None
    for trial in waiting:
        assert trial.build is not None
        # Equal work is done once: who builds to what is being timed waits for its time.
        if trial.build["key"] not in state.running:
            rival = None if first else BASELINE if state.best is None else state.best
            return Decide(kind="place", trial=trial.number, body={"lane": free.number, "rival": rival})
    return None


def _freest(state: RunState, *, calibrated: bool) -> Lane | None:
    """The device with the least to do of those that can be given a trial, the first of equals."""
    found = None
    least = math.inf
    for lane in state.lanes.values():
        # First what most devices fail on: this is asked for every trial, with all devices.
        count = len(lane.trials)
        if count > lane.ahead or count >= least or not lane.usable:
            continue
        if calibrated and (not lane.calibrated or _wants_control(state, lane)):
            continue
        if not count:
            return lane
        found, least = lane, count
    return found


def _wants_control(state: RunState, lane: Lane) -> bool:
    return not lane.calibrated or lane.since_control + len(lane.trials) >= state.settings.control_every


def _search(state: RunState, ready: int) -> Action | None:
    if state.queue and state.trials[BASELINE].status is None:
        return None
    if state.trials[BASELINE].status is not Status.OK:
        return Decide(kind="end", body=end_body(state, "baseline"))
    evolves = state.settings.evolution is not None
    if evolves and state.queue:
        # A variant's rung is judged whole.
        return None
    shared = sharing.share_action(state)
    if shared is not None:
        return None
    if state.settings.recall and state.recalled is None:
        return Recall(first=state.next_trial)
    reason = evolving.search_over(state) if evolves else stop_reason(state)
    if reason is None and light.reached(state):
        reason = "speed_of_light"
    if reason is not None:
        if state.queue:
            return None
        last = evolving.minimise_action(state, reason) if evolves else None
        return last or Decide(kind="stop", body={"reason": reason, "finalists": final.finalists(state)})
    if evolves:
        action = evolving.search_action(state)
        return None if isinstance(action, Await) else action
    return _ask(state, ready)


def _ask(state: RunState, ready: int) -> Ask | None:
    """As many proposals as devices have room for, and a few to be ready for those that come free."""
    placed, coming = len(state.queue) - ready, len(state.queue)
    if ordering.applies(state):
        waiting = ordering.waiting(state)
        coming -= len(waiting)
        ready -= ordering.behind(state, waiting)
    wanted = _demand(state, ready, placed)
    if state.limit is not None:
        wanted = min(wanted, state.limit - state.evaluations - coming)
    wanted = int(min(wanted, state.settings.proposals - state.next_trial))
    return Ask(first=state.next_trial, count=pruning.pool_size(state, wanted)) if wanted > 0 else None


def _unplaced(state: RunState) -> int:
    return sum([state.trials[n].lane is None for n in state.queue])


def _demand(state: RunState, ready: int, placed: int) -> int:
    """How many candidates are wanted more than there are; 0 while enough are ready.

    Args:
        state: of the run.
        ready: candidates that wait for a device, or for their build.
        placed: candidates that are on a device.
    """
    stock = state.stock
    if not state.settings.stocked:
        # Of records of earlier versions: who was being built counted as ready for a device that had room already.
        if ready > stock.spare // 2:
            return 0
        return sum(lane.room for lane in state.lanes.values() if lane.usable) + stock.spare - ready
    room = max(0, stock.room - placed)
    return 0 if ready - room > stock.spare // 2 else room + stock.spare - ready
