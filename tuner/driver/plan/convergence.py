"""When a search has converged: long nothing better, and its own model expects nothing better. Pure, like the plan.

Neither says enough alone. Counting stops searches that are without a model, or that breed variants of the source,
before their next leap; a model is sure of itself some dozen trials before it is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.core.claims import NEGLIGIBLE
from tuner.core.types import EXPECTED
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import CONVERGED

__all__ = ["LATEST", "LEAST_S", "described", "long_silent", "nothing_expected", "reached"]

LEAST_S = 300.0
"""Active seconds before which no search has converged: to wait so long costs little."""

SILENT = 300
"""Evaluations without a gain that are waited for at least. With 100 searches of recorded spaces still lost 7%."""

LATEST = 20
"""Proposals whose expectation counts: some are made close to the best, where less is expected than elsewhere."""

TRIALS = 10_000
"""More of them than any budget has, together, have to be expected to gain less than can be claimed."""

UNLIKELY = math.log(math.log(NEGLIGIBLE) / TRIALS)
"""The same for one, as a searcher says it."""


def reached(state: RunState) -> bool:
    """Whether the search has converged, where it may end for that.

    Who counts evaluations wants them all, and so does who gives a run more time after it has ended. Runs that share a
    budget leave it to each other by themselves.
    """
    settings = state.settings
    if state.simplified is not None:
        # What is tried with less changed at the end is no reason to go on.
        return bool(state.simplified["reason"] == CONVERGED)
    if settings.stop != CONVERGED or settings.evaluations is not None or state.extended:
        return False
    if settings.evolution is not None or settings.shared is not None or settings.objectives != ("time",):
        return False
    if state.clock_s < LEAST_S or not long_silent(state.evaluations, state.gained):
        return False
    return nothing_expected([state.trials[n].proposal.note.get(EXPECTED) for n in state.finished[-LATEST:]])


def described(state: RunState) -> str:
    """What the end of a run says of it, one line; empty where its search has not ended for that."""
    if state.search_stop != CONVERGED:
        return ""
    return f"nothing better in the last {state.evaluations - state.gained} evaluations, and none is expected"


def long_silent(evaluations: int, gained: int) -> bool:
    """Whether as many evaluations brought nothing as all before, and no few.

    Args:
        evaluations: so far.
        gained: at the last gain.
    """
    return evaluations - gained >= max(SILENT, gained)


def nothing_expected(expected: Sequence[object]) -> bool:
    """Whether the searcher has said of its latest proposals that they would gain nothing; of most of them at least."""
    said = [value for value in expected if isinstance(value, int | float) and not isinstance(value, bool)]
    return 2 * len(said) >= LATEST and all(value <= UNLIKELY for value in said)
