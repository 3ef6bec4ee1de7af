"""What a run over variants does next: successive halving on what variants reach when tuned; then the winner's ablation.

A new variant gets a trial or a few of an inner search over its own space. The better half (or third: ``growth``) goes
on to twice (three times) as many, the better half of those again, so each rung gets about the same share of the budget.
Towards the end the best few are tuned on. Pure, like the plan.

Source: Li et al., "A system for massively parallel hyperparameter tuning" (asynchronous successive halving, 2020).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.core.types import BASELINE, Status
from tuner.driver.plan import consulting
from tuner.driver.plan.actions import Action, Ask, Await, Decide, Propose, Reduce
from tuner.driver.state.lineage import HOPELESS, ORIGINAL, VariantState
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import LIBRARY

FREE = (Status.DUPLICATE, Status.PRUNED)
"""What a trial may come to that is no evaluation."""

OWN = 5
"""Variants of its own, the source as given included, that a run knows before one that earlier runs advise comes in."""

CLEARLY = 0.05
"""Log time by which a variant that earlier runs advise has to be the best of all to get more than one trial."""

LAST = 3
"""How many variants are tuned on when no new ones are wanted."""

TUNED = 4
"""The rung up to which they are where a search ends because its budget for models is used up."""

__all__ = ["OWN", "abreast_action", "minimise_action", "search_action", "search_end_s", "search_over"]

FINAL_PROCESSES = 3.5
"""Time kept at the end, in processes of the source as given for each that confirming needs at least."""


def search_over(state: RunState) -> str | None:
    """Why the search has to end, with what is kept for the winner's ablation left over; ``None`` if it has not."""
    settings, evolution = state.settings, state.settings.evolution
    assert evolution is not None
    if state.reduction is not None:
        return state.reduction.reason
    share = 1 - evolution.reserve
    if state.evaluations >= _ceil(settings.part(share)):
        return "evaluations"
    if state.clock_s >= settings.part_s(search_end_s(state), share):
        return "minutes"
    if state.next_trial >= settings.proposals:
        return "exhausted"
    if not state.queue and search_action(state) is None:
        return consulting.spent(state) or _nothing_left(state)
    return None


def _nothing_left(state: RunState) -> str:
    """Why nothing is left to try: nobody makes new variants, or there is no budget for them."""
    if _early(state) or consulting.breeding_action(state) is None:
        return "exhausted"
    return "evaluations" if _in_time(state) else "minutes"


def search_end_s(state: RunState) -> float:
    """Active seconds at which searching has to end so that there is time to confirm what it found.

    A process of the source as given may take longer than a hundred of the winner's, which shows at the controls.
    """
    settings = state.settings
    if math.isinf(settings.deadline_s):
        return settings.deadline_s
    needed_s = FINAL_PROCESSES * settings.confirm_least * state.control_cost_s
    kept_s = max(settings.claim_deadline_s - settings.search_deadline_s, needed_s)
    return settings.claim_deadline_s - min(kept_s, state.most_kept_s)


def search_action(state: RunState) -> Action | None:
    """A variant's next trials, its promotion, or a new variant; ``None`` when there is nothing left to try.

    Beside trials that are in the works ``None`` only means that nothing more can begin before one of them is done.
    """
    evolution = state.settings.evolution
    assert evolution is not None
    early = _early(state)
    due = consulting.due_action(state, in_time=_in_time(state))
    if due is not None:
        return due
    opening = consulting.opening_action(state, search_end_s(state)) if early else None
    if opening is not None:
        return None if state.queue and isinstance(opening, Await) else opening
    admitted = _admission(state, early=early)
    if admitted is not None:
        return admitted
    # On one device what earlier runs advise is tried by itself: what the run gathers of its own stays as it is.
    beside = state.settings.fleet or not state.queue
    advised = _advised(state) if early and beside else None
    if advised is not None:
        return advised
    for variant in state.variants.values():
        if not variant.settled and not _in_work(variant):
            return _ask(state, variant)
    if not early and _in_time(state):
        # What a model was asked for is waited for before its share of the evaluations goes elsewhere.
        waiting = consulting.waiting_action(state, _exploring_end_s(state))
        if waiting is not None:
            return None if state.queue else waiting
    spent = consulting.spent(state) is not None
    promoted = _promotion(state, early=early and state.barren < evolution.barren and not spent)
    if promoted is None and spent:
        promoted = _most_promising(state)
        if promoted is None or promoted.rung >= TUNED:
            return None
    if promoted is None and early:
        bred = consulting.breeding_action(state)
        if bred is not None:
            return bred
    promoted = promoted or _most_promising(state)
    if promoted is None:
        waits = early and not state.queue
        return consulting.waiting_action(state, _exploring_end_s(state)) if waits else None
    rung = promoted.rung + 1
    body = {"variant": promoted.number, "rung": rung, "target": evolution.rung(rung)}
    return Decide(kind="promote", body=body)


def _advised(state: RunState) -> Action | None:
    """The next variant that earlier runs advise; ``None`` when there are no more, or too many were in vain."""
    own = [v for v in state.variants.values() if v.origin == LIBRARY]
    untried = next((v for v in own if not v.finished and not v.settled and not _in_work(v)), None)
    if untried is not None:
        return _ask(state, untried)
    if state.advised < len(state.advice) and _affordable(state, own):
        return Propose(number=state.proposed, proposer=LIBRARY)
    return None


def _affordable(state: RunState, own: Sequence[VariantState]) -> bool:
    """Whether one more variant of earlier runs may be in vain: what leads costs nothing, what does not a trial."""
    evolution = state.settings.evolution
    assert evolution is not None
    leading = _leading(state)
    vain = [v for v in own if v.aside and v.finished and v is not leading]
    lost = sum(state.trials[v.finished[0]].status not in FREE for v in vain)
    return lost < 1 + int(evolution.purse * state.evaluations)


def _leading(state: RunState) -> VariantState | None:
    """What earlier runs advise that is clearly better than all variants of the search, the best; it may join them."""
    waiting = [v for v in state.variants.values() if v.aside and v.score is not None]
    best = min(waiting, key=lambda v: (v.score or 0.0, v.number), default=None)
    return None if best is None or (best.score or 0.0) >= _best_inside(state) - CLEARLY else best


def _best_inside(state: RunState) -> float:
    """The best score of what is part of the search."""
    return min((v.score for v in state.variants.values() if not v.aside and v.score is not None), default=0.0)


def _admission(state: RunState, *, early: bool) -> Decide | None:
    """An advised variant that leads comes in once the search knows a few of its own.

    The source as given alone says little: nearly everything is faster. Where no new variants are wanted any more, or
    nobody can make one, there is nobody to wait for.
    """
    evolution = state.settings.evolution
    assert evolution is not None
    leading = _leading(state)
    if leading is None:
        return None
    known = sum(bool(v.reached) for v in state.variants.values())
    if early and known < OWN and consulting.breeding_action(state) is not None:
        return None
    return Decide(kind="promote", body={"variant": leading.number, "rung": 0, "target": evolution.rung(0)})


def minimise_action(state: RunState, reason: str) -> Action | None:
    """The next step of taking the winner apart; ``None`` when that is done or there is no room for it."""
    settings, reduction = state.settings, state.reduction
    spent = settings.evaluations is not None and state.evaluations >= settings.evaluations
    if spent or state.clock_s >= search_end_s(state):
        return None
    if reduction is None:
        winner = state.best
        if winner in (None, BASELINE) or state.trials[winner or BASELINE].variant == ORIGINAL:
            return None
        return Decide(kind="minimise", body={"reason": reason, "trial": winner})
    if reduction.trying is not None:
        variant = state.variants[reduction.trying]
        if not variant.settled:
            return _ask(state, variant)
        return None
    if reduction.edit < 0:
        return None
    return Reduce(
        number=state.proposed, variant=reduction.variant, trial=reduction.trial, edit=reduction.edit
    )


def _early(state: RunState) -> bool:
    """Whether there is budget for new variants."""
    settings, evolution = state.settings, state.settings.evolution
    assert evolution is not None
    share = evolution.explore * (1 - evolution.reserve)
    return state.evaluations + len(state.queue) < settings.part(share) and _in_time(state)


def _in_time(state: RunState) -> bool:
    """Whether there is time for new variants."""
    evolution = state.settings.evolution
    assert evolution is not None
    return state.clock_s < _exploring_end_s(state)


def _exploring_end_s(state: RunState) -> float:
    """Active seconds at which new variants are no longer wanted."""
    evolution = state.settings.evolution
    assert evolution is not None
    return state.settings.part_s(search_end_s(state), evolution.explore * (1 - evolution.reserve))


def _ask(state: RunState, variant: VariantState) -> Ask:
    settings = state.settings
    begun = state.evaluations + len(state.queue)
    left = math.inf if settings.evaluations is None else settings.evaluations - begun
    count = min(settings.batch, left, variant.wanted - len(variant.trials))
    if variant.origin == LIBRARY and not variant.finished:
        count = min(count, 1)
    elif variant.score is None and len(variant.trials) < variant.chances:
        allowed = HOPELESS if len(variant.trials) < HOPELESS else variant.chances
        count = min(count, allowed - len(variant.trials))
    return Ask(first=state.next_trial, count=int(count), variant=variant.number)


def _reached(variant: VariantState, rung: int) -> float:
    score = variant.reached[rung]
    return math.inf if score is None else score


def _promotion(state: RunState, *, early: bool) -> VariantState | None:
    """The best variant of the highest rung among whose upper part is one that has not gone on."""
    evolution = state.settings.evolution
    assert evolution is not None
    variants = list(state.variants.values())
    for rung in range(evolution.rungs - 2, -1, -1):
        known = [v for v in variants if len(v.reached) > rung]
        if rung == 0 and len(known) < evolution.least and early:
            return None
        ranked = sorted(known, key=lambda v: (_reached(v, rung), v.number))
        for variant in ranked[: len(known) // evolution.growth]:
            if variant.rung == rung and _can_go_on(variant):
                return variant
    return None


def _most_promising(state: RunState) -> VariantState | None:
    """The one whose best is best, so long as its trials have not come to many times those of the others.

    Those that only repeat themselves are left to others, whose search may find something new.
    """
    ready = [v for v in state.variants.values() if _can_go_on(v) and not v.ran_dry]
    if not ready:
        return None
    ranked = sorted(ready, key=lambda v: (math.inf if v.score is None else v.score, v.number))[:LAST]
    return min(ranked, key=lambda v: (v.rung, ranked.index(v)))


def _can_go_on(variant: VariantState) -> bool:
    ready = not variant.exhausted and not variant.aside and not _in_work(variant)
    return variant.score is not None and ready


def abreast_action(state: RunState, room: float) -> Action | None:
    """What may begin beside the trials in the works; ``None`` where nothing may.

    Args:
        state: of the run.
        room: how many more trials are wanted at once.
    """
    settings, evolution = state.settings, state.settings.evolution
    if evolution is None or room < 1 or state.reduction is not None:
        return None
    begun = state.evaluations + len(state.queue)
    share = 1 - evolution.reserve
    if begun >= _ceil(settings.part(share)):
        return None
    if state.clock_s >= settings.part_s(search_end_s(state), share):
        return None
    return search_action(state)


def _in_work(variant: VariantState) -> bool:
    """Whether some of its trials are not done."""
    return len(variant.finished) < len(variant.trials)


def _ceil(evaluations: float) -> float:
    return evaluations if math.isinf(evaluations) else math.ceil(evaluations)
