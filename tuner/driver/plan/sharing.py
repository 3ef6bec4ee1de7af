"""Several runs that share one budget: what each may expect of its next slice, and whose turn it is. Pure.

A slice's worth is the time of the application that it is expected to save: the kernel's share of that time, at its
best so far, times what a slice is expected to take off. That is what the slices so far took off, the latest counting
most, and a guess from before any, over the number of all: a run that finds nothing has its turn less and less often,
and never not at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tuner.driver.plan import light
from tuner.driver.plan.actions import Share
from tuner.driver.state.run import RunState

__all__ = ["chosen", "share_action", "standing"]

GUESS = 0.03
"""Log time that a slice is expected to take off before anything is known; counts as much as one slice."""

FADING = 0.7
"""How much a slice counts beside the one after it."""


def share_action(state: RunState) -> Share | None:
    """Waiting for a slice, where the run has used up what it was given; ``None`` where it goes on by itself."""
    if not state.open_share or state.exhausted or state.search_stop is not None:
        return None
    if state.next_trial >= state.settings.proposals or light.reached(state):
        return None
    limit = state.limit
    used_up = limit is not None and state.evaluations >= limit
    used_up = used_up or state.next_trial >= state.granted_trials
    return Share() if used_up or state.clock_s >= state.search_deadline_s else None


def standing(state: RunState) -> dict[str, Any]:
    """What others have to know of a run to decide whose turn it is."""
    shared = state.settings.shared
    assert shared is not None
    best = _best(state)
    gains = [before - after for before, after in pairwise([*state.marks, best])]
    taken_off = GUESS + sum(FADING**age * gain for age, gain in enumerate(reversed(gains)))
    return {
        "weight": shared.weight,
        "ratio": math.exp(best),
        "expected": taken_off / (1 + len(gains)),
        "slices": len(state.marks),
    }


def chosen(standings: Sequence[Mapping[str, Any] | None]) -> int | None:
    """Whose turn it is: first those who had none, then who is worth most; ``None``: nobody takes part any more."""
    taking = [n for n, one in enumerate(standings) if one is not None]
    if not taking:
        return None
    return max(taking, key=lambda n: (*_worth(standings[n] or {}), -n))


def _worth(one: Mapping[str, Any]) -> tuple[bool, float]:
    share = float(one["weight"] * one["ratio"])
    return one["slices"] == 0, share * (1.0 - math.exp(-one["expected"])) if one["slices"] else share


def _best(state: RunState) -> float:
    score = None if state.best is None else state.trials[state.best].score
    return 0.0 if score is None else score
