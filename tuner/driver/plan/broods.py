"""How many new variants are bred where one is wanted, for the one to be tried that its code speaks for.

Pure like the rest of the plan: it goes by what earlier broods cost, as the events tell.
"""

from __future__ import annotations

from tuner.core.types import BASELINE
from tuner.driver.plan.actions import Propose
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import REMIX

__all__ = ["brood_size"]

_AHEAD_S = 60.0
"""Active seconds that a run without a limit of time is taken to have before it, at any time."""


def brood_size(state: RunState, action: Propose) -> int:
    """How many variants to breed; 1 where the first is tried as it is.

    Only the operators' own: others' proposers may be slow, and a model's reply costs money.
    """
    settings, evolution = state.settings, state.settings.evolution
    if evolution is None or evolution.independent or action.proposer != REMIX:
        return 1
    if evolution.brood == 1 or settings.cost_model == "off" or settings.stocked:
        return 1
    whole_s = state.clock_s + _AHEAD_S if settings.minutes is None else 60.0 * settings.minutes
    left_s = evolution.brooding * whole_s - state.broods.spent_s
    return 1 + max(0, min(evolution.brood - 1, int(left_s / _each_s(state))))


def _each_s(state: RunState) -> float:
    """Seconds that one more variant may take: by those so far, before them by what building the baseline took."""
    if state.broods.drawn:
        return max(state.broods.cost_s / state.broods.drawn, 1e-3)
    seconds: dict[str, float] = (state.trials[BASELINE].build or {}).get("seconds", {})
    return max(sum(seconds.values()), 1e-3)
