"""Less where it is as fast: the best candidate with less changed is tried at the end of the search, and among finalists
whose times cannot be told apart the one that changes least wins. Pure, like the rest of the plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core import claims, statistics
from tuner.core.types import BASELINE, Status
from tuner.driver.plan.actions import Simplify
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState
from tuner.spaces.pipeline import Pipeline
from tuner.spaces.space import PASSES

__all__ = [
    "ORIGIN",
    "action",
    "among",
    "changes",
    "deadline_s",
    "finalists",
    "kept",
    "passed_over",
    "stands_in",
]

ORIGIN = "simpler"
"""Origin of proposals that are the best candidate with less changed."""

EVERY = 20
"""Evaluations of a budget for which one is kept for trying less; smaller budgets have none."""

TIME_SHARE = 0.03
"""Part of the time for searching that is kept for it where no evaluations are set."""

NEAR = math.log(1.05)
"""Log time by which what is simpler may be behind the best of all, in one process each, to be compared in several."""

PLACES = 2
"""Finalists' places that are kept for it."""

LEAST = 4
"""Processes of each side below which times are not called equal."""


def kept(state: RunState) -> int:
    """Evaluations that the search leaves for trying less of the best."""
    settings = state.settings
    if settings.evaluations is None or not _applies(state) or state.simplified is not None:
        return 0
    return min(settings.simpler, (settings.evaluations - settings.from_evaluations) // EVERY)


def deadline_s(state: RunState) -> float:
    """Active seconds at which the search has to end for it."""
    keeps = _applies(state) and state.settings.evaluations is None and state.simplified is None
    return (
        state.settings.part_s(state.search_deadline_s, 1 - TIME_SHARE) if keeps else state.search_deadline_s
    )


def action(state: RunState, reason: str) -> Simplify | None:
    """Trying less of the best, once, when the search is over; ``None`` where there is nothing to try it with."""
    if not _applies(state) or state.simplified is not None or state.best in (None, BASELINE):
        return None
    limit = state.settings.evaluations
    count = state.settings.simpler if limit is None else kept(state)
    if limit is not None:
        count = min(count, limit - state.evaluations)
    if count < 1 or state.clock_s >= state.search_deadline_s:
        return None
    return Simplify(first=state.next_trial, count=count, reason=reason)


def stands_in(trial: TrialState) -> bool:
    """Whether a trial is measured even where its code is that of another: less for the same speed is sought."""
    return trial.proposal.origin == ORIGIN


def changes(state: RunState, number: int) -> int:
    """What a trial changes: settings that are not the baseline's, passes that it writes out, edits of the source."""
    trial = state.trials[number]
    before = state.trials[BASELINE].proposal.configuration
    own = {p.name: p.default for p in state.variants[trial.variant].parameters}
    total = len(state.variants[trial.variant].edits)
    for name, value in trial.proposal.configuration.items():
        if value == before.get(name, own.get(name)):
            continue
        total += len(list(Pipeline.parse(str(value)).leaves())) if name == PASSES else 1
    return total


def finalists(state: RunState, found: Sequence[int]) -> list[int]:
    """The finalists with what is simpler and about as fast among them.

    Args:
        state: of the run.
        found: the best-scored trials, best first.
    """
    if state.simplified is None or not found:
        return list(found)
    best = state.trials[found[0]].score
    assert best is not None
    near = [
        number
        for number, trial in state.trials.items()
        if stands_in(trial) and trial.status is Status.OK and not trial.raced
        if trial.score is not None and trial.score < 0 and trial.score <= best + NEAR
    ]
    near = sorted(near, key=lambda n: (changes(state, n), n))[:PLACES]
    others = [n for n in found if n not in near]
    return [*others[: max(1, state.settings.finalists - len(near))], *near]


def passed_over(state: RunState) -> dict[str, Any] | None:
    """The finalist that looked faster than the winner and changes more; ``None`` where there is none.

    ``trial``; ``ratio``: how many times as long the winner took when it was chosen; ``changes`` of both.
    """
    fastest, chosen = state.choice.get("fastest"), state.chosen
    if fastest is None or chosen is None or fastest == chosen:
        return None
    less, more = changes(state, chosen), changes(state, fastest)
    if less >= more:
        # What an edit has to be worth decided, not what is simpler.
        return None
    medians = state.choice["medians"]
    ratio = medians[str(chosen)] / medians[str(fastest)]
    return {"trial": fastest, "ratio": ratio, "changes": {"best": less, "fastest": more}}


def among(state: RunState, chosen: int, by_trial: Mapping[int, Sequence[float]]) -> int:
    """Of the finalists that cannot be told from the chosen one, the one that changes least.

    Told apart are two by the interval of the ratio of their times at the level of a claim; what looks slower by as much
    as a gain has to have to be claimed is never taken for equal.

    Args:
        state: of the run.
        chosen: the fastest.
        by_trial: process medians of the finalists.
    """
    equal = [n for n, times in by_trial.items() if n == chosen or _equal(times, by_trial[chosen])]
    return min(equal, key=lambda n: (changes(state, n), statistics.median(by_trial[n]), n))


def _equal(times: Sequence[float], fastest: Sequence[float]) -> bool:
    if min(len(times), len(fastest)) < LEAST:
        return False
    if statistics.median(times) > statistics.median(fastest) * claims.NEGLIGIBLE:
        return False
    interval = statistics.log_ratio_interval(times, fastest, 1 - 2 * claims.LOOK_ALPHA)
    return interval.low <= 1


def _applies(state: RunState) -> bool:
    settings = state.settings
    alone = settings.evolution is None and settings.shared is None and not settings.fleet
    return settings.simpler > 0 and alone and settings.objectives == ("time",)
