"""Of what is built, the likeliest is timed first: which candidate's turn it is, whether more code is found before, and
what is given up.

Where a model's order is no better than chance, or before it has seen enough, candidates take their turns as they were
proposed and no more are built than are timed. Pure, like the plan: reads ``judge`` events from the state, fits nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.types import BASELINE, Stage, Status
from tuner.cost_models.screen import EARLY, size_for
from tuner.driver.plan.actions import Judge
from tuner.driver.state.judged import AUDIT, Judged
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState

__all__ = [
    "EVENLY",
    "MOST_WAITING",
    "applies",
    "behind",
    "chosen",
    "going",
    "judge",
    "looks_on",
    "outdone",
    "rank",
    "turn_of",
    "waiting",
    "waits",
]

EVENLY = 0.125
"""Part of the trials that are new codes drawn evenly and timed at once, to see what the order is worth."""

MOST_WAITING = 32
"""Codes that wait at most; of more the one that the model likes least is given up."""

DOOMED = 0.5
"""Chance of failing above which a candidate comes after all others."""


def applies(state: RunState) -> bool:
    """Whether candidates are timed in the model's order now: not the baseline, nor what comes after the search."""
    queue = state.queue
    return state.settings.ordered and state.simplified is None and bool(queue) and queue[0] != BASELINE


def waits(state: RunState, trial: TrialState) -> bool:
    """Whether a trial is built and plainly has nothing before it but its turn."""
    build = trial.build
    if build is None or build["status"] != Status.OK or trial.verify is not None or trial.lane is not None:
        return False
    return state.keys.get(build["key"], trial.number) == trial.number


def going(state: RunState) -> TrialState | None:
    """Who is under way on the one device, or needs no run of its own; as proposed, that is only the next."""
    trials = [state.trials[number] for number in state.queue]
    under_way = next((trial for trial in trials if trial.verify is not None), None)
    if under_way is not None:
        return under_way
    looked_at = trials if state.order.follows else trials[:1]
    return next((trial for trial in looked_at if not waits(state, trial)), None)


def waiting(state: RunState) -> list[TrialState]:
    """Those whose turn may come, in the order proposed: the first of each code, as long as none with it is timed."""
    found, codes = [], set(state.running)
    for number in state.queue:
        trial = state.trials[number]
        if trial.build is not None and trial.build["key"] not in codes and waits(state, trial):
            codes.add(trial.build["key"])
            found.append(trial)
    return found


def judge(state: RunState, ready: Sequence[TrialState]) -> Judge | None:
    """Those that the model has to look at before one is chosen: all after each fit, between two what is new."""
    size = size_for(state.tried, EARLY)
    if size is None:
        return None
    new = tuple(
        t.number
        for t in ready
        if t.build is not None and t.build["features"] and size_for(t.judged_at, EARLY) != size
    )
    return Judge(stage=Stage.BUILD.value, trials=new) if new else None


def rank(judged: Judged) -> tuple[bool, bool, float]:
    """Where a candidate stands: those drawn evenly first, what likely fails last, else by the model's place."""
    return judged.verdict != AUDIT, judged.failing > DOOMED, judged.place


def chosen(ready: Sequence[TrialState], *, follows: bool) -> TrialState:
    """Whose turn it is.

    Args:
        ready: at least one, in the order proposed.
        follows: whether the model's order is followed.
    """
    return min(ready, key=_rank) if follows else ready[0]


def looks_on(state: RunState, ready: Sequence[TrialState]) -> bool:
    """Whether more code is to be found before one of those that wait is timed."""
    order = state.order
    # With one for each that is timed nothing is built ahead: what waits is timed before more is found.
    return not ready or (order.looks > 1.0 and order.spare < order.looks)


def behind(state: RunState, ready: Sequence[TrialState]) -> int:
    """How many of those that wait are there for others to be chosen before them: devices still want more code."""
    order = state.order
    return max(0, len(ready) - int(order.spare / order.looks)) if order.looks > 1.0 else 0


def outdone(state: RunState, ready: Sequence[TrialState]) -> TrialState | None:
    """Who is given up because too many wait that promise more; ``None`` where none is."""
    if not state.order.follows or len(ready) <= MOST_WAITING:
        return None
    return max(ready, key=_rank)


def turn_of(trial: TrialState) -> str:
    """Why a trial that others outdid was given up."""
    place = trial.judged[Stage.BUILD.value].place
    return f"ranked at {place:.0%} of the candidates; what promised more had its turn first"


def _rank(trial: TrialState) -> tuple[bool, bool, float]:
    judged = trial.judged.get(Stage.BUILD.value)
    # What has no features cannot be ranked, and is not held back.
    return (True, False, 0.0) if judged is None else rank(judged)
