"""The state of a run as a fold over its events: how each kind of event changes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tuner.core.types import BASELINE, Stage, Status
from tuner.driver.state import evolution, finals
from tuner.driver.state.advice import Advice
from tuner.driver.state.bounds import disproves
from tuner.driver.state.evolution import dismiss, judge, outclassed, reduced, review
from tuner.driver.state.exchanges import Exchanges
from tuner.driver.state.judged import KEEP, PASS, Judged
from tuner.driver.state.lanes import Lane
from tuner.driver.state.lineage import ORIGINAL, VariantState
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import RunSettings
from tuner.driver.state.trials import TrialState, proposal_from_json
from tuner.recorders.record import Recorded

__all__ = ["KINDS", "apply"]

STEPS = ("ask", "variant", "promote", "minimise", "control", "remarks", "consult")
"""Events that count as steps: those of the search that neither belong to a trial nor come from outside."""


def apply(state: RunState, event: Recorded) -> None:
    """Takes in one event; events come in order.

    Raises:
        KeyError: for a kind of event that this version does not know.
    """
    state.seq = event.seq
    body = event.body
    before_s, state.clock_s = state.clock_s, max(state.clock_s, float(body.get("clock_s", 0.0)))
    state.passed_s = state.clock_s - before_s
    _APPLY[event.kind](state, event.trial, body)
    state.exchanges.steps += event.kind in STEPS


def _apply_start(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.start = body
    state.settings = RunSettings.from_json(body["settings"])
    proposal = proposal_from_json(body["baseline"], state._blob)
    state.trials[BASELINE] = TrialState(number=BASELINE, proposal=proposal)
    state.queue = [BASELINE]
    evolution = state.settings.evolution
    state.stock.grows = state.settings.stocked and evolution is None
    original = VariantState(number=ORIGINAL, trials=[BASELINE])
    if evolution is not None:
        original.digest, original.structure = body["variant"]["digest"], body["variant"]["structure"]
        original.cell = tuple(body["variant"]["cell"])
        original.rung, original.target = evolution.given, evolution.rung(evolution.given)
        original.patience = evolution.dull
    state.variants = {ORIGINAL: original}
    state.exchanges = Exchanges(
        settings=state.settings.llm,
        proposers=state.settings.proposers,
        evaluations=state.settings.evaluations,
        first=1 if evolution is None else evolution.first,
    )


def _apply_ask(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    own = state.variants[body.get("variant", ORIGINAL)]
    own.told = len(own.finished)
    own.asks.append((own.told, tuple(range(body["first"], body["first"] + len(body["proposals"])))))
    for offset, value in enumerate(body["proposals"]):
        number = body["first"] + offset
        proposal = proposal_from_json(value, state._blob)
        asked_s = float(body.get("ask_s", 0.0)) / len(body["proposals"])
        state.trials[number] = TrialState(
            number=number, proposal=proposal, variant=own.number, asked_s=asked_s
        )
        state.queue.append(number)
        own.trials.append(number)
    if state.settings.ranked:
        state.fit_s += float(body["ask_s"])
    state.order.sought(float(body.get("ask_s", 0.0)))
    own.exhausted = not body["proposals"]
    state.exhausted = own.exhausted and state.settings.evolution is None
    judge(state, own)


def _apply_recall(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.recalled = body["sources"]
    state.firsts = tuple(proposal_from_json(value, state._blob) for value in body.get("firsts", ()))
    state.advice = tuple(Advice.from_json(value, state._blob) for value in body.get("advice", ()))
    # Of records of earlier versions, which tried all of them at once.
    _take_proposals(state, body)


def _apply_simplify(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.simplified = body
    _take_proposals(state, body)


def _take_proposals(state: RunState, body: Mapping[str, Any]) -> None:
    """Trials of the source as given that no searcher asked for."""
    own = state.variants[ORIGINAL]
    for offset, value in enumerate(body["proposals"]):
        number = body["first"] + offset
        state.trials[number] = TrialState(number=number, proposal=proposal_from_json(value, state._blob))
        state.queue.append(number)
        own.trials.append(number)


def _apply_remarks(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.exchanges.remarks[body.get("variant", ORIGINAL)] = body["remarks"]


def _apply_consult(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.exchanges.begin(body)


def _apply_reply(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.exchanges.end(body)


def _apply_waited(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    """Only the clock went on."""


def _apply_judge(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    judged = {
        number: Judged.from_json(one) for number, one in zip(body["trials"], body["judged"], strict=True)
    }
    for number, one in judged.items():
        state.trials[number].judged[body["stage"]] = one
        state.trials[number].judged_at = state.tried
    state.judgings[body["stage"]] = body
    state.fit_s += float(body["cost_s"])
    if state.settings.ordered:
        state.order.follows, state.order.doubt = not body["why"], body["why"]
        state.order.sought(float(body["cost_s"]))
    if body["stage"] != Stage.ASK:
        return
    state.screens = body["cut"] is not None or body["failing_cut"] is not None
    if state.screens:
        state.kept += [one.verdict in (KEEP, PASS) for one in judged.values()]
        # The most promising first: a run may end before all are tried.
        rest = [n for n in state.queue if n not in judged]
        state.queue = rest + sorted(judged, key=lambda n: (judged[n].place, n))


def _apply_build(state: RunState, number: int | None, body: Mapping[str, Any]) -> None:
    assert number is not None
    trial = state.trials[number]
    trial.build = body
    # Of builds side by side the first bears what all took.
    trial.built_s = state.passed_s
    trial.stage = Stage.BUILD
    if number == BASELINE:
        state.order.codes.add(body["key"])
    else:
        _found(state, trial, body)


def _found(state: RunState, trial: TrialState, body: Mapping[str, Any]) -> None:
    """What a build says of how long finding new code takes."""
    if trial.attempt:
        return
    # Where devices go on meanwhile many things pass at once: there the compiler's own seconds count.
    own_s = math.fsum(body.get("seconds", {}).values()) / state.settings.batch
    state.order.sought(own_s if state.settings.fleet else state.passed_s)
    if body["status"] == Status.OK:
        state.order.built(body["key"])


def _apply_baseline(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.baseline = body
    state.prepared_s = state.passed_s


def _apply_verify(state: RunState, number: int | None, body: Mapping[str, Any]) -> None:
    assert number is not None
    if state.trials[number].lane is None:
        state.order.taken()
    state.trials[number].verify = body
    state.away.discard(number)
    state.trials[number].ran_s += state.passed_s
    if number == BASELINE:
        state.prepared_s += state.passed_s
    state.trials[number].stage = Stage.VERIFY


def _apply_samples(state: RunState, number: int | None, body: Mapping[str, Any]) -> None:
    assert number is not None
    state.trials[number].rounds.append(body["measurements"])
    state.trials[number].ran_s += state.passed_s
    state.trials[number].stage = Stage.MEASURE


def _apply_control(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.control_cost_s = max(state.control_cost_s, float(body["cost_s"]))
    lane = state.lanes.get(body.get("lane", -1))
    if lane is not None:
        lane.controlled(body["medians_s"])
        state.count_lanes()
        return
    state.since_control = 0
    if body["medians_s"] is not None:
        state.controls.append(tuple(body["medians_s"]))


def _apply_lane(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    lane = Lane(number=body["lane"], device=body["device"], node=body.get("node", ""))
    state.lanes[lane.number] = lane
    state.count_lanes()


def _apply_lane_lost(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    lane = state.lanes[body["lane"]]
    lane.alive, lane.lost = False, body.get("reason", "")
    for number in lane.trials:
        state.back(state.trials[number])
        state.trials[number].set_back()
    lane.trials = []
    state.count_lanes()
    if state.final_lane == lane.number:
        # Samples of two devices do not go together: what was begun on this one begins anew on another.
        state.final_lane = None
        purpose = "choose" if state.chosen is None else "confirm"
        state.finals[purpose], state.verdict, state.verdicts = [], None, 0
        state.compared = []
        if state.dissection is not None:
            state.dissection.weighed.clear()


def _apply_place(state: RunState, number: int | None, body: Mapping[str, Any]) -> None:
    assert number is not None
    trial = state.trials[number]
    trial.rival, trial.placed_s = body["rival"], state.clock_s
    state.placed(trial, body["lane"])
    state.order.taken()


def _apply_settle(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.final_lane = body["lane"]


def _apply_trial(state: RunState, number: int | None, body: Mapping[str, Any]) -> None:
    assert number is not None
    trial = state.trials[number]
    trial.status = Status(body["status"])
    trial.stage = Stage(body["stage"])
    trial.raced = body["raced"]
    trial.score = body["score"]
    trial.of = body["of"]
    trial.message = body["message"]
    medians = body["medians_s"]
    trial.medians_s = None if medians is None else tuple(medians)
    if disproves((state.start or {}).get("light"), number, trial.status, medians):
        state.light_disproved = True
    lane = None if trial.lane is None else state.lanes[trial.lane]
    ran_s = trial.ran_s
    if lane is not None:
        _evaluated(state, trial, lane)
        ran_s = float((trial.verify or {}).get("busy_s", 0.0))
    if ran_s and number != BASELINE:
        state.order.ran(ran_s)
    if body["again"]:
        trial.forget()
        return
    state.queue.remove(number)
    state.finished.append(number)
    own = state.variants[trial.variant]
    own.finish(number, trial.score, duplicate=trial.status is Status.DUPLICATE)
    own.outclassed = outclassed(state, own)
    dismiss(state, own)
    judge(state, own)
    review(state, own)
    if state.reduction is not None and state.reduction.trying == own.number:
        reduced(state, trial, state.reduction)
    if trial.status not in (Status.DUPLICATE, Status.PRUNED):
        state.evaluations += 1
        state.tried += trial.status is not Status.LOST
        if trial.build is not None and trial.build["key"]:
            state.keys.setdefault(trial.build["key"], number)
    if trial.rounds and lane is not None:
        lane.since_control += 1
    elif trial.rounds:
        state.since_control += 1
    if number == BASELINE and trial.status is Status.OK:
        state.controls_of(trial.lane).append(tuple(body["medians_s"]))
    if trial.status is Status.OK and not trial.raced and trial.score is not None:
        best = None if state.best is None else state.trials[state.best].score
        if best is None or trial.score < best:
            state.best = number


def _evaluated(state: RunState, trial: TrialState, lane: Lane) -> None:
    lane.ended(trial.number, trial.placed_s, state.clock_s)
    state.back(trial)
    said = trial.verify or {}
    state.stock.evaluated(
        lane,
        state.lanes.values(),
        idle_s=said.get("idle_s", 0.0),
        busy_s=said.get("busy_s", 0.0),
        asked_s=trial.asked_s,
    )


def _apply_share(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    best = None if state.best is None else state.trials[state.best].score
    if body["last"]:
        state.last_share = True
        state.granted = state.evaluations
        return
    state.marks.append(0.0 if best is None else best)
    state.granted = state.evaluations + int(body["evaluations"] or 0)
    state.granted_trials = math.inf if body["proposals"] is None else state.next_trial + body["proposals"]
    state.granted_s = state.clock_s + float(body["search_s"] or 0.0)


def _apply_end(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.end = body
    state.interrupted = False


def _apply_interrupt(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.interrupted = True


def _apply_resume(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.interrupted = False


def _apply_abandoned(state: RunState, number: int | None, body: Mapping[str, Any]) -> None:
    assert number is not None
    state.trials[number].forget()


_APPLY = {
    **evolution.APPLY,
    **finals.APPLY,
    "start": _apply_start,
    "ask": _apply_ask,
    "remarks": _apply_remarks,
    "consult": _apply_consult,
    "reply": _apply_reply,
    "waited": _apply_waited,
    "recall": _apply_recall,
    "simplify": _apply_simplify,
    "judge": _apply_judge,
    "build": _apply_build,
    "baseline": _apply_baseline,
    "verify": _apply_verify,
    "samples": _apply_samples,
    "control": _apply_control,
    "lane": _apply_lane,
    "lane_lost": _apply_lane_lost,
    "place": _apply_place,
    "settle": _apply_settle,
    "share": _apply_share,
    "trial": _apply_trial,
    "end": _apply_end,
    "interrupt": _apply_interrupt,
    "resume": _apply_resume,
    "abandoned": _apply_abandoned,
}

KINDS = frozenset(_APPLY)
"""Of events that a run record may hold."""
