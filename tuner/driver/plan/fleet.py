"""What comes next in a run over several devices: one decision at a time, and all that may be under way.

Pure, like the plan for one device. A decision comes before whatever else has happened, so the events between two
decisions may come in any order and are recorded in the order in which they came; every decision follows from the
events before it. A candidate is timed on one device, raced against who was best when it was placed there, and its score
is taken over the baseline's time on that device, so equal devices need not be quite equal.
"""

from __future__ import annotations

from tuner.core.types import BASELINE, Status
from tuner.driver.plan import evolving, final
from tuner.driver.plan.actions import Action, Ask, BuildTrials, Control, Decide, Dissect, Finished
from tuner.driver.plan.upcoming import control_calls, end_body, stop_reason, trial_action
from tuner.driver.state.lanes import Lane
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState

__all__ = ["decision", "effects"]

SPARE = 4
"""One candidate for so many devices is kept ready, so that none waits for a proposal and a build."""


def decision(state: RunState) -> Action | None:
    """What is to be decided or proposed now; ``None`` where only something from outside leads on."""
    if state.end is not None:
        return Finished()
    for number in state.queue:
        ended = _verdict(state, state.trials[number])
        if ended is not None:
            return ended
    placement = _placement(state)
    if placement is not None:
        return placement
    if state.search_stop is None:
        return _search(state)
    if state.queue:
        return None
    action = final.next_action(state)
    if isinstance(action, Decide | Dissect):
        return action
    if state.final_lane is None:
        lane = _free_lanes(state, calibrated=True)[:1]
        return Decide(kind="settle", body={"lane": lane[0].number}) if lane else None
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
            if lane.usable and lane.trial is None and _wants_control(state, lane)
        ]
    if state.search_stop is not None and not state.queue and state.final_lane is not None:
        action = final.next_action(state)
        if not isinstance(action, Decide | Finished):
            found.append(action)
    return found


def _verdict(state: RunState, trial: TrialState) -> Decide | None:
    """The end of a trial; while it is on a device only what came from there can end it."""
    if trial.build is None:
        return None
    failed = trial.number == BASELINE and state.baseline is not None and state.baseline["status"] != Status.OK
    if trial.lane is not None and trial.verify is None and not failed:
        return None
    action = trial_action(state, trial)
    return action if isinstance(action, Decide) else None


def _placement(state: RunState) -> Decide | None:
    """A built candidate for a free device, in the order of their numbers."""
    waiting = [state.trials[n] for n in state.queue if state.trials[n].lane is None]
    waiting = [t for t in waiting if t.build is not None]
    if not waiting:
        return None
    first = waiting[0].number == BASELINE
    free = _free_lanes(state, calibrated=not first)
    if not free:
        return None
    running = {t.build["key"] for n in state.queue if (t := state.trials[n]).lane is not None and t.build}
    for trial in waiting:
        assert trial.build is not None
        # Equal work is done once: who builds to what is being timed waits for its time.
        if trial.build["key"] not in running:
            rival = None if first else BASELINE if state.best is None else state.best
            return Decide(kind="place", trial=trial.number, body={"lane": free[0].number, "rival": rival})
    return None


def _free_lanes(state: RunState, *, calibrated: bool) -> list[Lane]:
    return [
        lane
        for lane in state.lanes.values()
        if lane.usable and lane.trial is None
        if not calibrated or (lane.calibrated and not _wants_control(state, lane))
    ]


def _wants_control(state: RunState, lane: Lane) -> bool:
    return not lane.calibrated or lane.since_control >= state.settings.control_every


def _search(state: RunState) -> Action | None:
    if state.queue and state.trials[BASELINE].status is None:
        return None
    if state.trials[BASELINE].status is not Status.OK:
        return Decide(kind="end", body=end_body(state, "baseline"))
    evolves = state.settings.evolution is not None
    if evolves and state.queue:
        # A variant's rung is judged whole.
        return None
    reason = evolving.search_over(state) if evolves else stop_reason(state)
    if reason is not None:
        if state.queue:
            return None
        last = evolving.minimise_action(state, reason) if evolves else None
        return last or Decide(kind="stop", body={"reason": reason, "finalists": final.finalists(state)})
    if evolves:
        return evolving.search_action(state)
    return _ask(state)


def _ask(state: RunState) -> Ask | None:
    """As many proposals as devices are idle, and a few to be ready for those that come free."""
    lanes = [lane for lane in state.lanes.values() if lane.usable]
    ready = sum(state.trials[n].lane is None for n in state.queue)
    spare = -(-len(lanes) // SPARE)
    if ready > spare // 2:
        return None
    idle = sum(lane.trial is None for lane in lanes)
    settings = state.settings
    wanted = idle + spare - ready
    if settings.evaluations is not None:
        wanted = min(wanted, settings.evaluations - state.evaluations - len(state.queue))
    wanted = int(min(wanted, settings.proposals - state.next_trial))
    return Ask(first=state.next_trial, count=wanted) if wanted > 0 else None
