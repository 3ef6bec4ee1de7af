"""Trials as searchers are told of them. May not decide what a searcher makes of them."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.protocols import Observation
from tuner.driver.state import objectives
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState

__all__ = ["observations", "untold"]


def untold(state: RunState, variant: int = ORIGINAL) -> list[Observation]:
    """What a variant's searcher has not been told yet, in the order of completion; marks it as told."""
    own = state.variants[variant]
    numbers, own.told = own.finished[own.told :], len(own.finished)
    return observations(state, numbers)


def observations(state: RunState, numbers: Sequence[int]) -> list[Observation]:
    """Trials as searchers are told of them."""
    return [_observation(state, state.trials[n]) for n in numbers]


def _observation(state: RunState, trial: TrialState) -> Observation:
    build = trial.build or {}
    assert trial.status is not None
    return Observation(
        trial=trial.number,
        proposal=trial.as_searched,
        status=trial.status,
        score=trial.score,
        raced=trial.raced,
        others=objectives.others(state, trial),
        features=build.get("features", {}),
        message=trial.message,
        repeats=trial.of,
    )
