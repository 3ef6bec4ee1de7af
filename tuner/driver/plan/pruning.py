"""What the plan does with the cost model's word: when it is asked, what is not tried, how many are proposed.

Pure, like the plan: reads ``judge`` events from the state, fits nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.core.types import BASELINE, Stage, Status
from tuner.cost_models.screen import FIRST
from tuner.driver.plan.actions import Judge
from tuner.driver.plan.simplest import stands_in
from tuner.driver.state.judged import KEEP, PASS, PRUNE, Judged
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState

__all__ = [
    "judge_asked",
    "judge_built",
    "not_worth",
    "passed_over",
    "pool_size",
    "wanted",
    "why_not_built",
    "why_not_run",
]

POOL_FACTOR = 12
"""Proposals for each that is to be built, at most."""

POOL_MOST = 64
PASSED = 4
"""How many of a pool stay after the cut for each that is tried."""

PRICED = 256
"""How many of the last trials say what building and running cost."""

MARGIN = 2.0
"""Times the cost of finding other code that a run has to take: code gets rarer as more of it is known."""

WINDOW = 96
"""How many of the last judged proposals say which part of them is kept."""


def judge_asked(state: RunState) -> Judge | None:
    """The trials that the cost model has to look at before they are built.

    A searcher with a model of its own has ranked already. A variant's configurations are few, and what its edits do
    shows in its code.
    """
    settings = state.settings
    if (
        settings.cost_model == "off"
        or state.tried < FIRST
        or settings.evolution is not None
        or settings.pool == 1
    ):
        return None
    asked = tuple(n for n in state.queue if _open(state, n, Stage.ASK) and state.trials[n].build is None)
    return Judge(stage=Stage.ASK.value, trials=asked) if asked else None


def judge_built(state: RunState) -> Judge | None:
    """The trials that the cost model has to look at before they run; only when the whole batch is built."""
    if state.settings.cost_model == "off" or state.tried < FIRST:
        return None
    built = tuple(n for n in state.queue if _open(state, n, Stage.BUILD) and _runs(state, state.trials[n]))
    return Judge(stage=Stage.BUILD.value, trials=built) if built else None


def _open(state: RunState, number: int, stage: Stage) -> bool:
    reduces = state.variant_of(number).purpose == "reduce"
    spared = reduces or stands_in(state.trials[number])
    return number != BASELINE and not spared and stage.value not in state.trials[number].judged


def _runs(state: RunState, trial: TrialState) -> bool:
    """Whether a trial is built, by code that no other trial has, and has not run yet."""
    build = trial.build
    if build is None or build["status"] != Status.OK or trial.verify is not None or not build["features"]:
        return False
    return state.keys.get(build["key"], trial.number) == trial.number


def why_not_built(state: RunState, trial: TrialState) -> str:
    """Why a trial is not worth its build; empty where it is built."""
    if trial.number == BASELINE:
        return ""
    against = _against(trial, Stage.ASK)
    limit = state.limit
    if against or limit is None:
        return against
    # Those before it in the queue come first, built or not, unless the likeliest does.
    anyone = state.settings.ordered and state.simplified is None
    before = 0 if anyone else state.queue.index(trial.number)
    return "the evaluations were used up" if state.evaluations + before >= limit else ""


def not_worth(state: RunState) -> str:
    """Why leaving built candidates out saves no time, by what the latest trials took; empty where it does.

    Another candidate has to be proposed and built in the place of one that is left out, and most lead to known code.
    """
    latest = [state.trials[n] for n in state.finished[-PRICED:]]
    ran = [one.ran_s for one in latest if one.ran_s > 0]
    new = sum(one.build is not None and one.status is not Status.DUPLICATE for one in latest)
    if not ran or not new:
        return ""
    run_s, code_s = sum(ran) / len(ran), sum(one.asked_s + one.built_s for one in latest) / new
    if run_s > MARGIN * code_s:
        return ""
    return f"a run takes {1e3 * run_s:.3g} ms, finding other code {1e3 * code_s:.3g} ms"


def why_not_run(trial: TrialState) -> str:
    """Why a built trial is not worth running; empty where it is."""
    return _against(trial, Stage.BUILD)


def _against(trial: TrialState, stage: Stage) -> str:
    judged = trial.judged.get(stage.value)
    return judged.why if judged is not None and judged.verdict in (PRUNE, PASS) else ""


def pool_size(state: RunState, count: int) -> int:
    """How many proposals to ask for so that about ``count`` of them are kept.

    A searcher that proposes nothing but what the model likes is asked for no more than before.
    """
    if not state.screens or count < 1 or state.settings.pool == 1:
        return count
    return int(min(wanted(count, state.kept), state.settings.proposals - state.next_trial))


def wanted(count: int, kept: Sequence[bool]) -> int:
    """Proposals of which about ``count * PASSED`` stay after the cut, by what became of the last ones."""
    recent = kept[-WINDOW:]
    share = (sum(recent) + 2) / (len(recent) + 2)
    return max(count, min(math.ceil(PASSED * count / share), POOL_FACTOR * count, POOL_MOST))


def passed_over(judged: Sequence[Judged], count: int) -> set[int]:
    """Positions of those that are kept by the cut but give way to the ``count`` best of the same pool."""
    ranked = sorted((one.place, i) for i, one in enumerate(judged) if one.verdict == KEEP)
    return {i for _, i in ranked[count:]}
