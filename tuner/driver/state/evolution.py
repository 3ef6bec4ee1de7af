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

__all__ = ["APPLY", "CLEARLY", "dismiss", "judge", "outclassed", "proven", "reduced", "review", "spread"]

CLEARLY = 0.05
"""Log time by which a variant that earlier runs advise has to be the best of all to get more than one trial."""

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
    if state.settings.evolution.probation and variant.origin == LIBRARY:
        # It has to earn its place in the search; what won with the very same source has earned it.
        variant.aside = not state.advice[state.advised - 1].same
    given = state.trials[BASELINE].proposal.configuration.get(PASSES)
    if state.settings.evolution.plainly and given is not None and (variant.seed or {}).get(PASSES) != given:
        variant.chances += 1
        variant.again = state.settings.evolution.abreast and variant.purpose == "propose"
    if state.reduction is not None:
        variant.target = 1
        state.reduction.trying = number
    state.variants[number] = variant


def _apply_promote(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    variant = state.variants[body["variant"]]
    variant.rung, variant.target, variant.dull = body["rung"], body["target"], 0
    assert state.settings.evolution is not None
    if state.settings.evolution.probation:
        # What was advised is like any other variant from here on.
        variant.aside = variant.vain = False
    if state.settings.evolution.purse:
        # It would be settled at once, promoted again, and so on; as older records have it.
        variant.outclassed = False
    # Chance and other parents may find what was not found before.
    state.barren = 0
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

    One that earlier runs advise gets one trial; what becomes of it is for the plan to say.
    """
    evolution, best = state.settings.evolution, state.incumbent
    if evolution is None or best is None or variant.purpose != "propose":
        return False
    if variant.aside and evolution.probation:
        return bool(variant.finished)
    advised = variant.origin == LIBRARY and variant.rung == 0 and not evolution.probation
    if variant.score is None:
        return advised and bool(evolution.purse)
    score = state.trials[best].score
    if advised:
        others = (v.score for v in state.variants.values() if v is not variant and v.score is not None)
        return variant.score >= min(others, default=0.0) - (CLEARLY if evolution.purse else 0.0)
    return (
        variant.number != ORIGINAL
        and variant.rung == 0
        and score is not None
        and variant.score > score + evolution.hopeless
    )


def dismiss(state: RunState, own: VariantState) -> None:
    """Puts aside what earlier runs advise where its first trial is no better than what the search has by itself."""
    evolution = state.settings.evolution
    if evolution is None or not evolution.purse or evolution.probation:
        return
    if own.origin != LIBRARY or len(own.finished) != 1:
        return
    others = (v.score for v in state.variants.values() if v.origin != LIBRARY and v.score is not None)
    own.aside = own.score is None or own.score >= min(others, default=0.0)


def proven(state: RunState) -> bool:
    """Whether some of what earlier runs advise is a part of the search: then the rest that they say may hold too."""
    return any(v.origin == LIBRARY and not v.aside for v in state.variants.values())


def review(state: RunState, own: VariantState) -> None:
    """Notes which of the variants that earlier runs advise are not, or no longer, the best of all."""
    if own.origin != LIBRARY:
        return
    own.vain = own.vain or (len(own.finished) == 1 and (own.score is None or own.outclassed))
    for variant in state.variants.values():
        waiting = variant.finished and len(variant.finished) == len(variant.trials) and not variant.settled
        if variant is not own and variant.origin == LIBRARY and waiting:
            variant.outclassed = outclassed(state, variant)
            judge(state, variant)


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
