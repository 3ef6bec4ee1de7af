"""The state of a run as a fold over its events: how each kind of event changes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tuner.core.claims import NEGLIGIBLE
from tuner.core.types import BASELINE, Stage, Status
from tuner.driver.state import closing, devices, evolution
from tuner.driver.state.advice import Advice
from tuner.driver.state.bounds import disproves
from tuner.driver.state.evolution import judge, outclassed, reduced
from tuner.driver.state.exchanges import Exchanges
from tuner.driver.state.judged import KEEP, PASS, Judged
from tuner.driver.state.lineage import ORIGINAL, VariantState
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import RunSettings
from tuner.driver.state.trials import TrialState, proposal_from_json
from tuner.driver.state.version import of_another
from tuner.recorders.record import Recorded

__all__ = ["KINDS", "apply"]

STEPS = ("ask", "variant", "promote", "minimise", "control", "remarks", "consult")
"""Events that count as steps: those of the search that neither belong to a trial nor come from outside."""


def apply(state: RunState, event: Recorded) -> None:
    """Takes in one event; events come in order. What only another version knows says nothing.

    Raises:
        KeyError: for a kind of event that there is not, in a record of this version.
    """
    if event.kind not in _APPLY and state.start is not None and of_another(state.start):
        return
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
    state.turns.begin(state.queue)
    evolution = state.settings.evolution
    state.stock.grows = state.settings.stocked and evolution is None
    state.stock.follows = state.settings.stocked
    original = VariantState(number=ORIGINAL, trials=[BASELINE])
    if evolution is not None:
        original.digest, original.structure = body["variant"]["digest"], body["variant"]["structure"]
        original.cell = tuple(body["variant"]["cell"])
        original.target = evolution.rung(0)
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
        asked_s = float(body["ask_s"]) / len(body["proposals"])
        state.trials[number] = TrialState(
            number=number, proposal=proposal, variant=own.number, asked_s=asked_s, proposed_s=state.clock_s
        )
        state.queue.append(number)
        state.turns.begin((number,))
        own.trials.append(number)
    if state.settings.ranked:
        state.fit_s += float(body["ask_s"])
    own.exhausted = not body["proposals"]
    state.exhausted = own.exhausted and state.settings.evolution is None
    judge(state, own)


def _apply_recall(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.recalled = body["sources"]
    state.firsts = tuple(proposal_from_json(value, state._blob) for value in body["firsts"])
    state.advice = tuple(Advice.from_json(value, state._blob) for value in body.get("advice", ()))
    state.expected = body.get("expected", {})


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
        state.turns.begin((number,))
        own.trials.append(number)


def _apply_remarks(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.exchanges.remarks[body.get("variant", ORIGINAL)] = body["remarks"]


def _apply_consult(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.exchanges.begin(body)


def _apply_reply(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.exchanges.end(body)


def _apply_waited(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    """The clock went on, and nothing came."""
    state.exchanges.waited = True


def _apply_judge(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    judged = {
        number: Judged.from_json(one) for number, one in zip(body["trials"], body["judged"], strict=True)
    }
    for number, one in judged.items():
        state.trials[number].judged[body["stage"]] = one
    state.turns.judged(judged)
    state.judgings[body["stage"]] = body
    state.fit_s += float(body["cost_s"])
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
    if not trial.attempt:
        state.stock.built(state.clock_s - trial.proposed_s)
    new = body["status"] == Status.OK and state.keys.get(body["key"], number) == number
    state.turns.built(number, body["key"], plain=new and number != BASELINE and not trial.judged)


def _apply_baseline(state: RunState, _: int | None, body: Mapping[str, Any]) -> None:
    state.baseline = body
    state.prepared_s = state.passed_s


def _apply_verify(state: RunState, number: int | None, body: Mapping[str, Any]) -> None:
    assert number is not None
    state.trials[number].verify = body
    state.turns.answered(number)
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
        state.stock.count(state.lanes.values())
        return
    state.since_control = 0
    if body["medians_s"] is not None:
        state.controls.append(tuple(body["medians_s"]))


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
    if lane is not None:
        devices.evaluated(state, trial, lane)
    if body["again"]:
        _start_over(state, trial)
        return
    state.queue.remove(number)
    state.turns.ended(number)
    state.finished.append(number)
    own = state.variants[trial.variant]
    own.finish(number, trial.score, duplicate=trial.status is Status.DUPLICATE)
    own.outclassed = outclassed(state, own)
    judge(state, own)
    if state.reduction is not None and state.reduction.trying == own.number:
        reduced(state, trial, state.reduction)
    if trial.status not in (Status.DUPLICATE, Status.PRUNED):
        state.evaluations += 1
        state.tried += trial.status is not Status.LOST
        key = trial.build_key
        if key and key not in state.keys:
            state.keys[key] = number
            state.turns.known(key)
    if trial.rounds and lane is not None:
        lane.since_control += 1
    elif trial.rounds:
        state.since_control += 1
    if number == BASELINE and trial.status is Status.OK:
        state.controls_of(trial.lane).append(tuple(body["medians_s"]))
    if trial.status is Status.OK and not trial.raced and trial.score is not None:
        _take_score(state, number, trial.score)


def _take_score(state: RunState, number: int, score: float) -> None:
    """A trial that was measured whole: whether it is the best, and by as much as could be claimed."""
    best = None if state.best is None else state.trials[state.best].score
    if best is None or score < best:
        state.best = number
    if score < state.mark - math.log(NEGLIGIBLE):
        state.mark, state.gained = score, state.evaluations


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
    _start_over(state, state.trials[number])


def _start_over(state: RunState, trial: TrialState) -> None:
    trial.forget()
    state.turns.begin((trial.number,))
    if trial.judged:
        # What the cost model said of it still stands.
        state.turns.judged((trial.number,))


_APPLY = {
    **evolution.APPLY,
    **closing.APPLY,
    **devices.APPLY,
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
    "share": _apply_share,
    "trial": _apply_trial,
    "end": _apply_end,
    "interrupt": _apply_interrupt,
    "resume": _apply_resume,
    "abandoned": _apply_abandoned,
}

KINDS = frozenset(_APPLY)
"""Of events that a run record may hold."""
