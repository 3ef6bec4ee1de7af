"""When a run asks a model, for what, and when it makes use of a reply or asks another proposer. Pure, like the plan."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from tuner.driver.plan.actions import Action, Await, Consult, Examine, Propose, Receive
from tuner.driver.state.exchanges import Call
from tuner.driver.state.lineage import ORIGINAL, VariantState
from tuner.driver.state.run import RunState
from tuner.search.history import FAILURES
from tuner.search.llm.exchange import LEADING, MOST_REPAIRS, Model, Purpose, Role
from tuner.search.llm.offspring import origin

__all__ = ["breeding_action", "due_action", "opening_action", "spent", "waiting_action"]

_OPENING = 1 / 3
"""Part of the time for searching that a run waits for its first version by a model."""

_COMPARABLE = math.log(3)
"""Log time by which a version may be behind the best to be combined with it."""

_ANOTHER_KIND = 4
"""Of so many requests to refine, one is about the best version of another kind than the best of all."""


def due_action(state: RunState, *, in_time: bool) -> Action | None:
    """A reply that came; or, while there is time for new variants, the request for a better one."""
    exchanges = state.exchanges
    unread = exchanges.unread
    if unread is not None:
        return Receive(number=state.proposed, call=unread.number)
    if in_time and exchanges.correct:
        return _repair(state, exchanges.calls[exchanges.correct[0]])
    return None


def opening_action(state: RunState, search_end_s: float) -> Action | None:
    """At the beginning: what models are to be asked, or waiting for them; ``None`` once that is over.

    A model may replace the whole algorithm, and trials of what is then left behind would be for nothing. So the first
    requests go out with the first trial, and their replies are waited for: until a version of a model is there, as
    many came to nothing as proposers may have in a row, a third of the time for searching is over, or, in a run without
    a limit of time, a call could have ended.
    """
    exchanges = state.exchanges
    settings = exchanges.settings
    over = any(c.variant is not None for c in exchanges.calls) or any(v.rung for v in state.variants.values())
    if settings is None or exchanges.waited or over:
        return None
    end_s = state.settings.part_s(search_end_s, _OPENING)
    if math.isinf(end_s):
        end_s = (exchanges.calls[0].clock_s if exchanges.calls else state.clock_s) + settings.timeout_s
    if state.clock_s >= end_s:
        return None
    requests = _requests(state, settings.concurrent)
    waiting = Await(until_s=end_s, opening=True) if exchanges.waiting else None
    return _chosen(state, requests, ()) or waiting


def breeding_action(state: RunState) -> Action | None:
    """Who makes a new variant: a model, which is asked and not waited for, or a proposer; ``None``: nobody can."""
    exchanges, evolution = state.exchanges, state.settings.evolution
    assert evolution is not None
    requests = {} if exchanges.settings is None else _requests(state, exchanges.in_flight)
    return _chosen(state, requests, exchanges.proposers if state.barren < evolution.barren else ())


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
    # Nobody asks one that does not answer, and one that lists ideas writes none of them.
    writers = [m.name for m in settings.models if m.takes(Purpose.WRITE)]
    asked = [m for m in writers if origin(m) in exchanges.over or not exchanges.failing(m)]
    budgets = [exchanges.over.get(origin(m)) for m in asked]
    return budgets[0] if budgets and all(budgets) else None


def _requests(state: RunState, most: int) -> dict[str, Action]:
    """What each model that writes versions would be asked next, while fewer than ``most`` calls are under way.

    One is under way until its version has been tried: the next request is to tell what became of it. After as many in a
    row that came to nothing as proposers may have, none is made before a variant is tuned on.
    """
    evolution = state.settings.evolution
    assert evolution is not None
    if state.exchanges.vain >= evolution.barren:
        return {}
    versions = (state.variants[c.variant] for c in state.exchanges.calls if c.variant is not None)
    untried = sum(not v.finished and not v.settled for v in versions)
    if len(state.exchanges.waiting) + untried >= most:
        return {}
    made = {origin(m.name): _request(state, m) for m in _available(state) if m.takes(Purpose.WRITE)}
    return {arm: action for arm, action in made.items() if action is not None}


def _chosen(state: RunState, requests: Mapping[str, Action], proposers: Sequence[str]) -> Action | None:
    """The request or the proposer that has gained most for its cost."""
    arms = [*requests, *proposers]
    if not arms:
        return None
    running = Counter(origin(c.model) for c in state.exchanges.waiting)
    arm = state.exchanges.arms.choose(arms, running) if len(arms) > 1 else arms[0]
    return requests[arm] if arm in requests else Propose(number=state.proposed, proposer=arm)


def _available(state: RunState) -> list[Model]:
    """Models that answer and that can be paid for."""
    exchanges = state.exchanges
    if exchanges.settings is None or exchanges.out_of_calls:
        return []
    models = exchanges.settings.models
    return [m for m in models if origin(m.name) not in exchanges.over and not exchanges.failing(m.name)]


def _asked_for(state: RunState, purpose: Purpose, otherwise: str) -> str:
    """The model whose role such requests are; where there is none, another that is named."""
    own = (m.name for m in _available(state) if m.role == Role.IDEAS and m.takes(purpose))
    return next(own, otherwise)


def _request(state: RunState, writer: Model) -> Action | None:
    """What a model is asked next in a writer's turn; ``None`` where there is nothing to ask now.

    The version that it is to start from is examined first.
    """
    exchanges, evolution = state.exchanges, state.settings.evolution
    assert evolution is not None
    if evolution.independent:
        return _sample(state, writer)
    best = _best(state)
    other = _other_kind(state, best)
    failed, idea = _failed(state), exchanges.unwritten(math.exp(-(best.score or 0.0)))
    refinable = _refinable(state, best, other)
    possible = {
        Purpose.REPAIR: failed is not None,
        Purpose.WRITE: idea is not None or not exchanges.listing,
        Purpose.REFINE: bool(refinable),
        Purpose.COMBINE: other is not None and not _combined(state, best, other),
    }
    purposes = [purpose for purpose in LEADING if possible[purpose]]
    if not purposes:
        return None
    running = Counter(c.leading.value for c in exchanges.waiting)
    purpose = Purpose(exchanges.purposes.choose(purposes, running))
    if purpose is Purpose.REPAIR:
        assert failed is not None
        return _repair(state, failed)
    if purpose is Purpose.WRITE and idea is None and _calls_left(state) > 1:
        purpose = Purpose.IDEAS
    parent = refinable[0] if purpose is Purpose.REFINE else best
    if parent.number not in exchanges.remarks:
        return Examine(variant=parent.number)
    return Consult(
        number=len(exchanges.calls),
        model=_asked_for(state, purpose, writer.name),
        purpose=purpose,
        parent=parent.number,
        other=other.number if purpose is Purpose.COMBINE and other is not None else None,
        idea=idea if purpose is Purpose.WRITE else None,
    )


def _refinable(state: RunState, best: VariantState, other: VariantState | None) -> list[VariantState]:
    """Versions that a model may be asked to refine, the one whose turn it is first; none that one is at already.

    Of four requests one is about the best version of another kind.
    """
    taken = {c.parent for c in state.exchanges.waiting if c.purpose is Purpose.REFINE}
    versions = [best] if other is None else [best, other]
    if len(state.exchanges.calls) % _ANOTHER_KIND == 0:
        versions.reverse()
    return [v for v in versions if v.number != ORIGINAL and v.number not in taken]


def _sample(state: RunState, writer: Model) -> Action:
    """A version of the source as given by itself: what is reached without learning from others."""
    if ORIGINAL not in state.exchanges.remarks:
        return Examine(variant=ORIGINAL)
    number = len(state.exchanges.calls)
    return Consult(number=number, model=writer.name, purpose=Purpose.WRITE, parent=ORIGINAL)


def _repair(state: RunState, before: Call) -> Consult:
    """A request to correct a reply, or the version that it gave."""
    return Consult(
        number=len(state.exchanges.calls),
        model=_asked_for(state, Purpose.REPAIR, before.model),
        purpose=Purpose.REPAIR,
        parent=before.parent,
        other=before.other,
        before=before.number,
    )


def _failed(state: RunState) -> Call | None:
    """The last call whose version did not work and that nobody was asked to correct."""
    for call in reversed(state.exchanges.calls):
        if call.variant is None or call.repaired or call.repairs >= MOST_REPAIRS:
            continue
        variant = state.variants[call.variant]
        over = variant.failed and variant.settled and bool(variant.finished)
        if over and state.trials[variant.finished[0]].status in FAILURES:
            return call
    return None


def _calls_left(state: RunState) -> float:
    exchanges = state.exchanges
    most = None if exchanges.settings is None else exchanges.settings.calls
    return math.inf if most is None else most - len(exchanges.calls)


def _known(state: RunState) -> list[VariantState]:
    """Versions with a result, the best first."""
    found = [
        v
        for v in state.variants.values()
        if v.purpose == "propose" and v.score is not None and not v.aside and (v.reached or not v.number)
    ]
    return sorted(found, key=lambda v: (v.score or 0.0, v.number))


def _best(state: RunState) -> VariantState:
    """The best version; the source as given where nothing is known."""
    return next(iter(_known(state)), state.variants[ORIGINAL])


def _other_kind(state: RunState, best: VariantState) -> VariantState | None:
    """The best version of another kind that is not far behind; one that a model wrote, if there is one.

    None that the best was made from, and none that was made from it: it has nothing of its own.
    """
    related = {best.number, *_ancestors(state, best)}
    near = [
        v
        for v in _known(state)
        if v.cell != best.cell
        and (v.score or 0.0) <= (best.score or 0.0) + _COMPARABLE
        and v.number
        and v.number not in related
        and best.number not in _ancestors(state, v)
    ]
    return min(near, key=lambda v: not v.origin.startswith(origin("")), default=None)


def _ancestors(state: RunState, variant: VariantState) -> set[int]:
    """Numbers of all versions that one was made from; what was written anew is of the source as given alone."""
    found: set[int] = set()
    left = [variant]
    while left:
        one = left.pop()
        anew = bool(one.edits) and all(e.get("op") == "rewrite" for e in one.edits)
        parents = set() if anew else set(one.parents) - found
        found |= parents
        left += [state.variants[n] for n in parents]
    return found


def _combined(state: RunState, best: VariantState, other: VariantState) -> bool:
    """Whether a model was asked to combine the two."""
    pair = {best.number, other.number}
    return any({c.parent, c.other} == pair for c in state.exchanges.calls)
