"""The state of a run as a fold over its events. Holds no clock, no process and no file: only what events said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.protocols import Observation
from tuner.core.types import BASELINE, Stage, Status
from tuner.driver import objectives
from tuner.driver.bounds import disproves
from tuner.driver.dissection import Dissection
from tuner.driver.exchanges import Exchanges
from tuner.driver.judged import KEEP, PASS, Judged
from tuner.driver.lanes import Lane
from tuner.driver.lineage import ORIGINAL, Judgement, Reduction, VariantState
from tuner.driver.settings import REMIX, RunSettings
from tuner.driver.trials import FinalSample, TrialState, proposal_from_json
from tuner.recorders.record import Recorded

__all__ = ["RunState"]

STEPS = ("ask", "variant", "promote", "minimise", "control", "remarks", "consult")
"""Events that count as steps: those of the search that neither belong to a trial nor come from outside."""


class RunState:
    """Everything that decisions may depend on. ``apply`` events in order; read the attributes."""

    def __init__(self, blob: Any) -> None:
        """``blob`` reads a blob's bytes by digest."""
        self._blob = blob
        self.start: Mapping[str, Any] | None = None
        self.settings: RunSettings
        self.clock_s = 0.0
        self.seq = 0
        self.trials: dict[int, TrialState] = {}
        self.queue: list[int] = []
        self.keys: dict[str, int] = {}
        self.baseline: Mapping[str, Any] | None = None
        self.controls: list[tuple[float, ...]] = []
        self.since_control = 0
        self.control_cost_s = 0.0
        self.exhausted = False
        self.evaluations = 0
        self.best: int | None = None
        self.search_stop: str | None = None
        self.finals: dict[str, list[FinalSample]] = {"choose": [], "confirm": []}
        self.finalists: tuple[int, ...] = ()
        self.out_of_final: set[int] = set()
        self.chosen: int | None = None
        self.verdict: Mapping[str, Any] | None = None
        self.verdicts = 0
        self.others: list[Mapping[str, Any]] = []
        self.compared: list[Mapping[str, Any]] = []
        self.dissection: Dissection | None = None
        self.end: Mapping[str, Any] | None = None
        self.interrupted = False
        self.finished: list[int] = []
        self.variants: dict[int, VariantState] = {}
        self.proposed = 0
        self.barren = 0
        self.judgements: list[Judgement] = []
        self.reduction: Reduction | None = None
        self.tried = 0
        self.screens = False
        self.kept: list[bool] = []
        self.judgings: dict[str, Mapping[str, Any]] = {}
        self.fit_s = 0.0
        self.light_disproved = False
        self.recalled: Sequence[Mapping[str, Any]] | None = None
        self.exchanges: Exchanges
        self.lanes: dict[int, Lane] = {}
        self.final_lane: int | None = None

    def controls_of(self, lane: int | None) -> list[tuple[float, ...]]:
        """The times of the baseline on a device, in order; without several devices there is one list."""
        return self.controls if lane is None else self.lanes[lane].controls

    @property
    def next_trial(self) -> int:
        """The number that the next proposal gets."""
        return len(self.trials)

    def apply(self, event: Recorded) -> None:
        """Takes in one event.

        Raises:
            KeyError: for a kind of event that this version does not know.
        """
        self.seq = event.seq
        body = event.body
        self.clock_s = max(self.clock_s, float(body.get("clock_s", 0.0)))
        _APPLY[event.kind](self, event.trial, body)
        self.exchanges.steps += event.kind in STEPS

    def text(self, reference: str) -> str:
        """The text that a reference in an event's body stands for."""
        return str(self._blob(reference.removeprefix("blob:")).decode())

    def untold(self, variant: int = ORIGINAL) -> list[Observation]:
        """What a variant's searcher has not been told yet, in the order of completion; marks it as told."""
        own = self.variants[variant]
        numbers, own.told = own.finished[own.told :], len(own.finished)
        return self.observations(numbers)

    def observations(self, numbers: Sequence[int]) -> list[Observation]:
        """Trials as searchers are told of them."""
        return [self._observation(self.trials[n]) for n in numbers]

    def variant_of(self, number: int) -> VariantState:
        """The variant that a trial belongs to."""
        return self.variants[self.trials[number].variant]

    def _observation(self, trial: TrialState) -> Observation:
        build = trial.build or {}
        assert trial.status is not None
        return Observation(
            trial=trial.number,
            proposal=trial.proposal,
            status=trial.status,
            score=trial.score,
            raced=trial.raced,
            others=objectives.others(self, trial),
            features=build.get("features", {}),
            message=trial.message,
        )

    def _apply_start(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.start = body
        self.settings = RunSettings.from_json(body["settings"])
        proposal = proposal_from_json(body["baseline"], self._blob)
        self.trials[BASELINE] = TrialState(number=BASELINE, proposal=proposal)
        self.queue = [BASELINE]
        evolution = self.settings.evolution
        original = VariantState(number=ORIGINAL, trials=[BASELINE])
        if evolution is not None:
            original.digest, original.structure = body["variant"]["digest"], body["variant"]["structure"]
            original.cell = tuple(body["variant"]["cell"])
            original.rung, original.target = 1, evolution.rung(1)
            original.patience = evolution.dull
        self.variants = {ORIGINAL: original}
        self.exchanges = Exchanges(
            settings=self.settings.llm,
            proposers=self.settings.proposers,
            evaluations=self.settings.evaluations,
            first=1 if evolution is None else evolution.first,
        )

    def _apply_ask(self, _: int | None, body: Mapping[str, Any]) -> None:
        own = self.variants[body.get("variant", ORIGINAL)]
        own.told = len(own.finished)
        own.asks.append((own.told, tuple(range(body["first"], body["first"] + len(body["proposals"])))))
        for offset, value in enumerate(body["proposals"]):
            number = body["first"] + offset
            proposal = proposal_from_json(value, self._blob)
            self.trials[number] = TrialState(number=number, proposal=proposal, variant=own.number)
            self.queue.append(number)
            own.trials.append(number)
        own.exhausted = not body["proposals"]
        self.exhausted = own.exhausted and self.settings.evolution is None
        self._judge(own)

    def _apply_recall(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.recalled = body["sources"]
        own = self.variants[ORIGINAL]
        for offset, value in enumerate(body["proposals"]):
            number = body["first"] + offset
            self.trials[number] = TrialState(number=number, proposal=proposal_from_json(value, self._blob))
            self.queue.append(number)
            own.trials.append(number)

    def _apply_variant(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.proposed += 1
        made = body["made"]
        number = len(self.variants)
        if "call" in body:
            self.exchanges.use(body, None if made is None else number)
        elif body["purpose"] == "propose":
            self.barren = 0 if made is not None else self.barren + 1
            if made is not None:
                self.exchanges.arm_of[number] = body.get("proposer", REMIX)
        if made is None:
            if self.reduction is not None:
                self.reduction.refuse()
            return
        assert self.settings.evolution is not None
        variant = VariantState.from_json(number, made, self._blob)
        variant.purpose = body["purpose"]
        variant.known = len(self.variants[variant.parents[0]].finished) if variant.parents else 0
        variant.target = self.settings.evolution.rung(0)
        variant.patience = self.settings.evolution.dull
        if self.reduction is not None:
            variant.target = 1
            self.reduction.trying = number
        self.variants[number] = variant

    def _apply_promote(self, _: int | None, body: Mapping[str, Any]) -> None:
        variant = self.variants[body["variant"]]
        variant.rung, variant.target, variant.dull = body["rung"], body["target"], 0
        # Chance and other parents may find what was not found before.
        self.barren = 0

    def _apply_minimise(self, _: int | None, body: Mapping[str, Any]) -> None:
        trial = self.trials[body["trial"]]
        assert trial.score is not None
        self.reduction = Reduction(
            reason=body["reason"],
            variant=trial.variant,
            trial=trial.number,
            score=trial.score,
            edit=len(self.variants[trial.variant].edits) - 1,
        )

    def _outclassed(self, variant: VariantState) -> bool:
        """Whether a new variant is so far behind the best of all that tuning will not bring it back."""
        evolution, best = self.settings.evolution, self.best
        if evolution is None or best is None or variant.score is None or variant.purpose != "propose":
            return False
        score = self.trials[best].score
        return (
            variant.number != ORIGINAL
            and variant.rung == 0
            and score is not None
            and variant.score > score + evolution.hopeless
        )

    def _judge(self, variant: VariantState) -> None:
        """Notes what a variant has reached when it has come to the end of its rung."""
        if self.settings.evolution is None or not variant.settled or len(variant.reached) > variant.rung:
            return
        first = not variant.reached
        variant.reached += [variant.score] * (variant.rung + 1 - len(variant.reached))
        if variant.purpose == "propose":
            best = None if variant.best is None else self.trials[variant.best].proposal.configuration
            self.judgements.append(
                Judgement(
                    variant=variant.number,
                    score=variant.score,
                    configuration=best,
                    first=first,
                    twin=self._is_twin(variant),
                )
            )
            if first and variant.number != ORIGINAL:
                self.exchanges.judge(variant.number, self._gain(variant), len(variant.trials))

    def _gain(self, variant: VariantState) -> float | None:
        """Logarithm of its best parent's time over its own; ``None`` where it failed."""
        if variant.score is None:
            return None
        scores = [s for n in variant.parents if (s := self.variants[n].score) is not None]
        return min(scores, default=0.0) - variant.score

    def _apply_remarks(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.exchanges.remarks = body["remarks"]

    def _apply_consult(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.exchanges.begin(body)

    def _apply_reply(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.exchanges.end(body)

    def _apply_waited(self, _: int | None, body: Mapping[str, Any]) -> None:
        """Only the clock went on."""

    def _is_twin(self, variant: VariantState) -> bool:
        """Whether all that a variant compiled to was there before, of others."""
        trials = [self.trials[n] for n in variant.finished]
        return bool(trials) and all(
            t.status is Status.DUPLICATE and t.of is not None and self.trials[t.of].variant != variant.number
            for t in trials
        )

    def _reduced(self, trial: TrialState, reduction: Reduction) -> None:
        assert self.settings.evolution is not None
        good = trial.status is Status.OK and not trial.raced and trial.score is not None
        edit = self.variants[reduction.variant].edits[reduction.edit]
        lost: float | None = math.inf
        if trial.score is not None:
            lost = trial.score - reduction.score
        elif trial.status in (Status.PRUNED, Status.LOST):
            lost = None
        if good and (trial.score or 0.0) <= reduction.score + self.settings.evolution.pays:
            reduction.accept(trial.number, len(self.variants[trial.variant].edits))
        else:
            reduction.refuse(edit, lost)

    def _apply_judge(self, _: int | None, body: Mapping[str, Any]) -> None:
        judged = {
            number: Judged.from_json(one) for number, one in zip(body["trials"], body["judged"], strict=True)
        }
        for number, one in judged.items():
            self.trials[number].judged[body["stage"]] = one
        self.judgings[body["stage"]] = body
        self.fit_s += float(body["cost_s"])
        if body["stage"] != Stage.ASK:
            return
        self.screens = body["cut"] is not None or body["failing_cut"] is not None
        if self.screens:
            self.kept += [one.verdict in (KEEP, PASS) for one in judged.values()]
            # The most promising first: a run may end before all are tried.
            rest = [n for n in self.queue if n not in judged]
            self.queue = rest + sorted(judged, key=lambda n: (judged[n].place, n))

    def _apply_build(self, number: int | None, body: Mapping[str, Any]) -> None:
        assert number is not None
        trial = self.trials[number]
        trial.build = body
        trial.stage = Stage.BUILD

    def _apply_baseline(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.baseline = body

    def _apply_verify(self, number: int | None, body: Mapping[str, Any]) -> None:
        assert number is not None
        self.trials[number].verify = body
        self.trials[number].stage = Stage.VERIFY

    def _apply_samples(self, number: int | None, body: Mapping[str, Any]) -> None:
        assert number is not None
        self.trials[number].rounds.append(body["measurements"])
        self.trials[number].stage = Stage.MEASURE

    def _apply_control(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.control_cost_s = max(self.control_cost_s, float(body["cost_s"]))
        lane = self.lanes.get(body.get("lane", -1))
        if lane is not None:
            lane.controlled(body["medians_s"])
            return
        self.since_control = 0
        if body["medians_s"] is not None:
            self.controls.append(tuple(body["medians_s"]))

    def _apply_lane(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.lanes[body["lane"]] = Lane(number=body["lane"], device=body["device"])

    def _apply_lane_lost(self, _: int | None, body: Mapping[str, Any]) -> None:
        lane = self.lanes[body["lane"]]
        lane.alive = False
        if lane.trial is not None:
            self.trials[lane.trial].set_back()
            lane.trial = None
        if self.final_lane == lane.number:
            # Samples of two devices do not go together: what was begun on this one begins anew on another.
            self.final_lane = None
            purpose = "choose" if self.chosen is None else "confirm"
            self.finals[purpose], self.verdict, self.verdicts = [], None, 0
            self.compared = []
            if self.dissection is not None:
                self.dissection.weighed.clear()

    def _apply_place(self, number: int | None, body: Mapping[str, Any]) -> None:
        assert number is not None
        self.lanes[body["lane"]].trial = number
        trial = self.trials[number]
        trial.lane, trial.rival = body["lane"], body["rival"]

    def _apply_settle(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.final_lane = body["lane"]

    def _apply_trial(self, number: int | None, body: Mapping[str, Any]) -> None:
        assert number is not None
        trial = self.trials[number]
        trial.status = Status(body["status"])
        trial.stage = Stage(body["stage"])
        trial.raced = body["raced"]
        trial.score = body["score"]
        trial.of = body["of"]
        trial.message = body["message"]
        medians = body["medians_s"]
        trial.medians_s = None if medians is None else tuple(medians)
        if disproves((self.start or {}).get("light"), number, trial.status, medians):
            self.light_disproved = True
        lane = None if trial.lane is None else self.lanes[trial.lane]
        if lane is not None:
            lane.trial = None
        if body["again"]:
            trial.forget()
            return
        self.queue.remove(number)
        self.finished.append(number)
        own = self.variants[trial.variant]
        own.finish(number, trial.score, duplicate=trial.status is Status.DUPLICATE)
        own.outclassed = self._outclassed(own)
        self._judge(own)
        if self.reduction is not None and self.reduction.trying == own.number:
            self._reduced(trial, self.reduction)
        if trial.status not in (Status.DUPLICATE, Status.PRUNED):
            self.evaluations += 1
            self.tried += trial.status is not Status.LOST
            if trial.build is not None and trial.build["key"]:
                self.keys.setdefault(trial.build["key"], number)
        if trial.rounds and lane is not None:
            lane.since_control += 1
        elif trial.rounds:
            self.since_control += 1
        if number == BASELINE and trial.status is Status.OK:
            self.controls_of(trial.lane).append(tuple(body["medians_s"]))
        if trial.status is Status.OK and not trial.raced and trial.score is not None:
            best = None if self.best is None else self.trials[self.best].score
            if best is None or trial.score < best:
                self.best = number

    def _apply_stop(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.search_stop = body["reason"]
        self.finalists = tuple(body["finalists"])

    def _apply_final(self, number: int | None, body: Mapping[str, Any]) -> None:
        assert number is not None
        status = Status(body["status"])
        self.finals[body["purpose"]].append(
            FinalSample(
                trial=number,
                number=body["number"],
                status=status,
                medians_s=tuple(body["medians_s"] or ()),
                cost_s=body["cost_s"],
            )
        )
        if status is not Status.OK:
            self.out_of_final.add(number)

    def _apply_choice(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.chosen = body["chosen"]
        self.finals["confirm"] = []

    def _apply_verdict(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.verdict = body
        self.verdicts += 1

    def _apply_other(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.others.append(body)

    def _apply_compared(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.compared.append(body)

    def _apply_dissect(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.dissection = Dissection(items=body["items"], begun_s=self.clock_s, built_s=self.clock_s)

    def _apply_without(self, _: int | None, body: Mapping[str, Any]) -> None:
        assert self.dissection is not None
        self.dissection.take_build(body)

    def _apply_weighed(self, _: int | None, body: Mapping[str, Any]) -> None:
        assert self.dissection is not None
        self.dissection.weighed.append(body)

    def _apply_end(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.end = body
        self.interrupted = False

    def _apply_interrupt(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.interrupted = True

    def _apply_resume(self, _: int | None, body: Mapping[str, Any]) -> None:
        self.interrupted = False

    def _apply_abandoned(self, number: int | None, body: Mapping[str, Any]) -> None:
        assert number is not None
        self.trials[number].forget()


_APPLY = {
    "start": RunState._apply_start,
    "ask": RunState._apply_ask,
    "variant": RunState._apply_variant,
    "promote": RunState._apply_promote,
    "remarks": RunState._apply_remarks,
    "consult": RunState._apply_consult,
    "reply": RunState._apply_reply,
    "waited": RunState._apply_waited,
    "minimise": RunState._apply_minimise,
    "recall": RunState._apply_recall,
    "judge": RunState._apply_judge,
    "build": RunState._apply_build,
    "baseline": RunState._apply_baseline,
    "verify": RunState._apply_verify,
    "samples": RunState._apply_samples,
    "control": RunState._apply_control,
    "lane": RunState._apply_lane,
    "lane_lost": RunState._apply_lane_lost,
    "place": RunState._apply_place,
    "settle": RunState._apply_settle,
    "trial": RunState._apply_trial,
    "stop": RunState._apply_stop,
    "final": RunState._apply_final,
    "choice": RunState._apply_choice,
    "verdict": RunState._apply_verdict,
    "other": RunState._apply_other,
    "compared": RunState._apply_compared,
    "dissect": RunState._apply_dissect,
    "without": RunState._apply_without,
    "weighed": RunState._apply_weighed,
    "end": RunState._apply_end,
    "interrupt": RunState._apply_interrupt,
    "resume": RunState._apply_resume,
    "abandoned": RunState._apply_abandoned,
}
