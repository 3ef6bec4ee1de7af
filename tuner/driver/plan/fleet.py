"""What comes next in a run over several devices: one decision at a time, and all that may be under way.

Pure, like the plan for one device. A decision comes before whatever else has happened, so the events between two
decisions may come in any order and are recorded in the order in which they came; every decision follows from the
events before it. A candidate is timed on one device, raced against who was best when it was placed there, and its score
is taken over the baseline's time on that device, so equal devices need not be quite equal.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tuner.core.types import BASELINE, Status
from tuner.driver.plan import evolving, final, light, pruning, sharing
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
    Shorten,
    Verify,
)
from tuner.driver.plan.upcoming import (
    CONFIRMS,
    control_calls,
    not_built,
    stop,
    stop_reason,
    trial_action,
    trial_end,
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
        demand = _demand(state, _unplaced(state) - len(asked.trials))
        return replace(asked, keep=max(1, demand))
    ended = _ended(state)
    if ended is not None:
        return ended
    built = _judge_built(state)
    if built is not None:
        return built
    placement = _placement(state)
    if placement is not None:
        return placement
    if state.search_stop is None:
        return _search(state)
    if state.queue:
        return None
    action = final.next_action(state)
    if isinstance(action, Decide | Dissect | Shorten):
        return action
    if state.final_lane is None:
        lane = _freest(state, calibrated=True)
        return None if lane is None else Decide(kind="settle", body={"lane": lane.number})
    return None


def effects(state: RunState) -> list[Action]:
    """All that may be under way where nothing is to be decided."""
    found: list[Action] = []
    turns = state.turns
    if turns.unbuilt:
        found.append(BuildTrials(trials=tuple(n for n in state.queue if n in turns.unbuilt)))
    for number in state.queue:
        if number in turns.away:
            found.append(Verify(trial=number))
            continue
        trial = state.trials[number]
        if trial.lane is None:
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


def _ended(state: RunState) -> Decide | None:
    """The end of the first trial that has one, of those that are not being evaluated."""
    left = math.inf if state.limit is None else state.limit - state.evaluations
    failed = state.baseline is not None and state.baseline["status"] != Status.OK
    late = state.clock_s >= state.search_deadline_s
    for before, number in _open(state, everything=failed or late or len(state.queue) > left):
        trial = state.trials[number]
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
        ended = trial_end(state, trial)
        if ended is not None:
            return ended
    return None


def _open(state: RunState, *, everything: bool) -> list[tuple[int, int]]:
    """Trials that a decision may end, in order, with places in the queue; after most events it is one or none."""
    wanted, away = state.turns.open, state.turns.away
    if everything:
        return [(before, n) for before, n in enumerate(state.queue) if n not in away]
    if len(wanted) > 1:
        return [(before, n) for before, n in enumerate(state.queue) if n in wanted]
    return [(0, n) for n in wanted]


def _only_waits(state: RunState, trial: TrialState) -> bool:
    """Whether a built trial plainly has nothing before it but its turn on a device; false: it has to be looked at."""
    build = trial.build
    if trial.number == BASELINE or trial.judged or build is None or build["status"] != Status.OK:
        return False
    return state.keys.get(build["key"], trial.number) == trial.number


def _judge_built(state: RunState) -> Judge | None:
    """Builds that the cost model has to look at, when a device has room for one."""
    built = pruning.judge_built(state)
    if built is None or _freest(state, calibrated=True) is None:
        return None
    trials = tuple(n for n in built.trials if state.trials[n].lane is None)
    return replace(built, trials=trials) if trials else None


def _waits_for_models(state: RunState) -> Await | None:
    """What a search that has nothing to do until a model has replied waits for."""
    if state.settings.evolution is None or state.queue or state.search_stop is not None:
        return None
    if state.trials[BASELINE].status is not Status.OK or evolving.search_over(state) is not None:
        return None
    action = evolving.search_action(state)
    return action if isinstance(action, Await) else None


def _placement(state: RunState) -> Decide | None:
    """One of the built candidates that are on no device, for the free device with the least to do."""
    waiting = state.turns.waiting
    if not waiting:
        return None
    # The baseline is the first of all.
    first = BASELINE in waiting
    free = _freest(state, calibrated=not first)
    if free is None:
        return None
    for number in state.queue:
        # Equal work is done once: who builds to what is being timed waits for its time.
        if number in waiting and waiting[number] not in state.running:
            rival = None if first else BASELINE if state.incumbent is None else state.incumbent
            return Decide(kind="place", trial=number, body={"lane": free.number, "rival": rival})
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


def _search(state: RunState) -> Action | None:
    status = state.trials[BASELINE].status
    if state.queue and status is None:
        return None
    if status is not Status.OK:
        return Decide(kind="end", body={"stopped_by": "baseline"})
    if not state.settings.searches:
        return None if state.queue else stop(state, CONFIRMS)
    evolves = state.settings.evolution is not None
    recalls = not state.recall_over
    if evolves and state.queue:
        # A variant's rung is judged whole, beside those of other variants.
        return None if recalls else _abreast(state)
    if state.queue and not recalls and not _demand(state, _unplaced(state)):
        # So it is after most events; nothing but a proposal is possible while the queue is not empty.
        return None
    shared = sharing.share_action(state)
    if shared is not None:
        return None
    if recalls:
        return Recall()
    reason = evolving.search_over(state) if evolves else stop_reason(state)
    if reason is None and light.reached(state):
        reason = "speed_of_light"
    if reason is not None:
        if state.queue:
            return None
        last = evolving.minimise_action(state, reason) if evolves else None
        return last or stop(state, reason)
    if evolves:
        action = evolving.search_action(state)
        return None if isinstance(action, Await) else action
    return _ask(state)


def _abreast(state: RunState) -> Action | None:
    """Something of another variant for devices that have room."""
    if state.search_stop is not None or light.reached(state):
        return None
    action = evolving.abreast_action(state, _demand(state, _unplaced(state)))
    return None if isinstance(action, Await) else action


def _ask(state: RunState) -> Ask | None:
    """As many proposals as devices have room for, and a few to be ready for those that come free."""
    wanted = _demand(state, _unplaced(state))
    if state.limit is not None:
        wanted = min(wanted, state.limit - state.evaluations - len(state.queue))
    wanted = int(min(wanted, state.settings.proposals - state.next_trial))
    return Ask(first=state.next_trial, count=pruning.pool_size(state, wanted)) if wanted > 0 else None


def _unplaced(state: RunState) -> int:
    return len(state.queue) - state.turns.seated


def _demand(state: RunState, ready: int) -> int:
    """How many candidates are wanted more than there are; 0 while enough are ready.

    Args:
        state: of the run.
        ready: candidates that wait for a device, or for their build.
    """
    stock = state.stock
    if not state.settings.stocked:
        # What is being built here counts as ready.
        if ready > stock.spare // 2:
            return 0
        return sum(lane.room for lane in state.lanes.values() if lane.usable) + stock.spare - ready
    room = max(0, stock.room - state.turns.seated)
    return 0 if ready - room > stock.low else room + stock.spare - ready
