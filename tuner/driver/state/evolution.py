"""How events about variants change the state of a run: new ones, promotions, what each reached, the ablation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tuner.core import statistics
from tuner.core.types import BASELINE, Status
from tuner.driver.state.lineage import ORIGINAL, Judgement, Reduction, VariantState
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import LIBRARY, REMIX
from tuner.driver.state.trials import TrialState
from tuner.spaces.space import PASSES

__all__ = ["APPLY", "judge", "outclassed", "proven", "reduced", "spread"]

_FEWEST_CALLS = 3
"""Timed calls under which there is no interval."""


def _apply_variant(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.proposed += 1
    made = body["made"]
    number = len(state.variants)
    if "call" in body:
        state.exchanges.use(body, None if made is None else number)
    elif body.get("proposer") == LIBRARY:
        # No proposer is the better for it.
        state.advised += 1
    elif body["purpose"] == "propose":
        state.barren = 0 if made is not None else state.barren + 1
        if made is not None:
            state.exchanges.arm_of[number] = body.get("proposer", REMIX)
    if made is None:
        if state.reduction is not None:
            state.reduction.refuse()
        return
    assert state.settings.evolution is not None
    variant = VariantState.from_json(number, made, state._blob)
    variant.purpose = body["purpose"]
    variant.known = len(state.variants[variant.parents[0]].finished) if variant.parents else 0
    variant.target = state.settings.evolution.rung(0)
    variant.patience = state.settings.evolution.dull
    if variant.origin == LIBRARY:
        # It has to earn its place in the search; what won with the very same source has earned it.
        variant.aside = not state.advice[state.advised - 1].same
    given = state.trials[BASELINE].proposal.configuration.get(PASSES)
    if given is not None and (variant.seed or {}).get(PASSES) != given:
        variant.chances += 1
        variant.again = variant.purpose == "propose"
    if state.reduction is not None:
        variant.target = 1
        state.reduction.trying = number
    state.variants[number] = variant


def _apply_promote(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    variant = state.variants[body["variant"]]
    variant.dry = variant.dry + 1 if variant.is_dull else 0
    variant.rung, variant.target, variant.dull = body["rung"], body["target"], 0
    # What was advised is like any other variant from here on. Outclassed, it would be settled and promoted for ever.
    variant.aside = variant.outclassed = False
    # Chance and other parents may find what was not found before.
    state.barren = state.exchanges.vain = 0
    if len(variant.trials) >= variant.target:
        # What comes in with the one trial that every variant gets has come to the end of its rung with it.
        judge(state, variant)


def _apply_minimise(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    trial = state.trials[body["trial"]]
    assert trial.score is not None
    state.reduction = Reduction(
        reason=body["reason"],
        variant=trial.variant,
        trial=trial.number,
        score=trial.score,
        edit=len(state.variants[trial.variant].edits) - 1,
    )


def outclassed(state: RunState, variant: VariantState) -> bool:
    """Whether a new variant is so far behind the best of all that tuning will not bring it back.

    One that earlier runs advise gets one trial while it is no part of the search.
    """
    evolution, best = state.settings.evolution, state.incumbent
    if evolution is None or best is None or variant.purpose != "propose":
        return False
    if variant.aside:
        return bool(variant.finished)
    score = state.trials[best].score
    return (
        variant.number != ORIGINAL
        and variant.rung == 0
        and variant.score is not None
        and score is not None
        and variant.score > score + evolution.hopeless
    )


def proven(state: RunState) -> bool:
    """Whether some of what earlier runs advise is a part of the search: then the rest that they say may hold too."""
    return any(v.origin == LIBRARY and not v.aside for v in state.variants.values())


def judge(state: RunState, variant: VariantState) -> None:
    """Notes what a variant has reached when it has come to the end of its rung."""
    if state.settings.evolution is None or not variant.settled or len(variant.reached) > variant.rung:
        return
    if variant.aside:
        return
    first = not variant.reached
    variant.reached += [variant.score] * (variant.rung + 1 - len(variant.reached))
    if variant.purpose == "propose":
        best = None if variant.best is None else state.trials[variant.best].proposal.configuration
        state.judgements.append(
            Judgement(
                variant=variant.number,
                score=variant.score,
                configuration=best,
                first=first,
                twin=_is_twin(state, variant),
            )
        )
        if first and variant.number != ORIGINAL:
            state.exchanges.judge(variant.number, _gain(state, variant), len(variant.trials))


def _gain(state: RunState, variant: VariantState) -> float | None:
    """Logarithm of its best parent's time over its own; ``None`` where it failed."""
    if variant.score is None:
        return None
    scores = [s for n in variant.parents if (s := state.variants[n].score) is not None]
    return min(scores, default=0.0) - variant.score


def _is_twin(state: RunState, variant: VariantState) -> bool:
    """Whether all that a variant compiled to was there before, of others."""
    trials = [state.trials[n] for n in variant.finished]
    return bool(trials) and all(
        t.status is Status.DUPLICATE
        and t.of is not None
        and (other := state.variant_of(t.of)) is not variant
        and not other.aside
        for t in trials
    )


def reduced(state: RunState, trial: TrialState, reduction: Reduction) -> None:
    assert state.settings.evolution is not None
    good = trial.status is Status.OK and not trial.raced and trial.score is not None
    edit = state.variants[reduction.variant].edits[reduction.edit]
    lost: float | None = math.inf
    if trial.score is not None:
        lost = trial.score - reduction.score
    elif trial.status in (Status.PRUNED, Status.LOST):
        lost = None
    if good and (trial.score or 0.0) <= reduction.score + _pays(state, trial, lost or 0.0, reduction):
        reduction.accept(trial.number, len(state.variants[trial.variant].edits))
    else:
        reduction.refuse(edit, lost, trial.number)


def _pays(state: RunState, trial: TrialState, lost: float, reduction: Reduction) -> float:
    """Log time that an edit has to be worth: more where its worth cannot be told from nothing."""
    assert state.settings.evolution is not None
    pays, doubtful = state.settings.evolution.pays, state.settings.evolution.doubtful
    half = spread(state, trial, state.trials[reduction.trial]) if pays < lost <= doubtful else None
    return pays if half is None or lost > half else doubtful


def spread(state: RunState, one: TrialState, other: TrialState) -> float | None:
    """Half the 95% interval of the log ratio of two trials' times; ``None`` where there are too few calls."""
    halves = []
    for problem, weight in enumerate(state.settings.weights):
        times, others = one.times_s(problem), other.times_s(problem)
        if min(len(times), len(others)) < _FEWEST_CALLS:
            return None
        found = statistics.log_ratio_interval(times, others)
        halves.append(weight * math.log(found.high / found.value))
    return math.hypot(*halves)


APPLY = {"variant": _apply_variant, "promote": _apply_promote, "minimise": _apply_minimise}
"""What takes in each kind of event, as :mod:`tuner.driver.state.fold` calls it."""
