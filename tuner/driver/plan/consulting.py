"""When a run asks a model, makes use of a reply, or asks another proposer. Pure, like the plan; waits for nobody."""

from __future__ import annotations

from collections import Counter

from tuner.driver.plan.actions import Action, Await, Consult, Examine, Propose, Receive
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.run import RunState
from tuner.search.llm.exchange import Model
from tuner.search.llm.offspring import origin

__all__ = ["breeding_action", "due_action", "spent", "waiting_action"]


def due_action(state: RunState, *, in_time: bool) -> Action | None:
    """A reply that came; or, while there is time for new variants, the request for a better one."""
    exchanges = state.exchanges
    unread = exchanges.unread
    if unread is not None:
        return Receive(number=state.proposed, call=unread.number)
    if in_time and exchanges.correct is not None:
        before = exchanges.calls[exchanges.correct]
        return Consult(number=len(exchanges.calls), model=before.model, before=before.number)
    return None


def breeding_action(state: RunState) -> Action | None:
    """Who makes a new variant: a model, which is asked and not waited for, or a proposer; ``None``: nobody can."""
    exchanges, evolution = state.exchanges, state.settings.evolution
    assert evolution is not None
    models = {origin(m.name): m.name for m in _models(state)}
    proposers = exchanges.proposers if state.barren < evolution.barren else ()
    arms = [*models, *proposers]
    if not arms:
        return None
    running = Counter(origin(c.model) for c in exchanges.waiting)
    arm = exchanges.arms.choose(arms, running) if len(arms) > 1 else arms[0]
    if arm not in models:
        return Propose(number=state.proposed, proposer=arm)
    unexamined = _unexamined(state)
    if unexamined is not None:
        return Examine(variant=unexamined)
    return Consult(number=len(exchanges.calls), model=models[arm])


def _unexamined(state: RunState) -> int | None:
    """A variant that may be shown to a model and of which the compiler's remarks are not known yet."""
    for number, variant in state.variants.items():
        ready = number == ORIGINAL or (variant.reached and variant.best is not None)
        if ready and variant.purpose == "propose" and number not in state.exchanges.remarks:
            return number
    return None


def waiting_action(state: RunState, until_s: float) -> Action | None:
    """Waiting for replies, where there are any to come."""
    return Await(until_s=until_s) if state.exchanges.waiting else None


def spent(state: RunState) -> str | None:
    """The budget for models that is used up and ends the search; ``None`` while a model can be or is being asked."""
    exchanges = state.exchanges
    settings = exchanges.settings
    if settings is None or settings.when_spent != "stop" or exchanges.waiting or exchanges.unread is not None:
        return None
    if exchanges.out_of_calls:
        return "calls"
    if all(name in exchanges.over for name in exchanges.models):
        return exchanges.over[exchanges.models[0]]
    return None


def _models(state: RunState) -> list[Model]:
    """Models that can be asked now."""
    exchanges = state.exchanges
    settings = exchanges.settings
    if settings is None or exchanges.out_of_calls or len(exchanges.waiting) >= settings.concurrent:
        return []
    return [
        m for m in settings.models if origin(m.name) not in exchanges.over and not exchanges.failing(m.name)
    ]
