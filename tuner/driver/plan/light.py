"""What the speed of light means for a run: when it ends the search and which times it refuses.

Pure, like the plan: the bound itself is part of the run's first event (:mod:`tuner.driver.state.bounds`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.core.types import BASELINE
from tuner.driver.state.bounds import IMPOSSIBLE, ratios
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState

__all__ = ["impossible", "ratio_to_light", "reached"]

REACHED = 1.03
"""A time within so many times the bound is as good as can be."""


def ratio_to_light(state: RunState, medians: Sequence[float] | None) -> float | None:
    """Weighted geometric mean over problems of time over bound; ``None`` where there is no bound that holds."""
    light = (state.start or {}).get("light")
    if light is None or medians is None or state.light_disproved:
        return None
    found = ratios(light, medians)
    if len(found) != len(medians):
        return None
    return math.exp(sum(w * math.log(r) for w, r in zip(state.settings.weights, found, strict=True)))


def reached(state: RunState) -> bool:
    """Whether the best trial is as fast as the machine allows."""
    if state.best is None or state.settings.objectives != ("time",):
        return False
    found = ratio_to_light(state, state.trials[state.best].medians_s)
    return found is not None and found <= REACHED


def impossible(state: RunState, trial: TrialState, medians: Sequence[float]) -> str:
    """Why a time cannot be true, one line; empty where it can.

    A baseline below the bound shows that the bound is wrong, whoever vouched for it.
    """
    light = (state.start or {}).get("light")
    if light is None or trial.number == BASELINE:
        return ""
    if light["declared"] and not state.light_disproved:
        what = "the bytes and operations that the spec gives"
        return _below(medians, [p["bound_s"] for p in light["problems"]], what)
    if not light["declared"] and _writes_all(state):
        written_s = [p["written_s"] for p in light["problems"]]
        before = state.trials[BASELINE].medians_s
        if before is not None and not _below(before, written_s, ""):
            return _below(medians, written_s, "writing its outputs, which the kernel as given fills")
    return ""


def _writes_all(state: RunState) -> bool:
    """Whether the kernel as given was seen to write every element of every output on all that it ran on."""
    notes = (state.baseline or {}).get("notes", {})
    return bool(notes.get("partly_written", ["unknown"]) == [])


def _below(medians: Sequence[float], bounds_s: Sequence[float], what: str) -> str:
    for median, bound_s in zip(medians, bounds_s, strict=True):
        if median < IMPOSSIBLE * bound_s:
            return (
                f"{median * 1e3:.3g} ms a call, but this machine needs {bound_s * 1e3:.3g} ms for {what}: "
                f"it cannot have done the work"
            )
    return ""
