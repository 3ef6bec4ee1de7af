"""The state of a run: all that decisions may depend on, and only what events said: no clock, process or file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tuner.core.streams import stream
from tuner.core.types import BASELINE, Proposal, Status
from tuner.driver.state.advice import Advice
from tuner.driver.state.claimed import Claimed
from tuner.driver.state.dissection import Dissection
from tuner.driver.state.exchanges import Exchanges
from tuner.driver.state.lanes import Lane
from tuner.driver.state.lineage import Judgement, Reduction, VariantState
from tuner.driver.state.settings import LIBRARY, RunSettings
from tuner.driver.state.stock import Stock
from tuner.driver.state.trials import FinalSample, TrialState
from tuner.driver.state.turns import Turns

__all__ = ["ENOUGH_PAIRS", "MOST_KEPT", "RunState"]

ENOUGH_PAIRS = 1.5
"""Times the fewest pairs of processes that can claim anything: what searching and choosing leave time for."""

MOST_KEPT = 0.4
"""Part of the whole time that is kept for choosing and confirming at most."""

NEXT_SHARE = 0.4
"""What a process takes whose inputs are there already, of one that makes them: 0.3 idle, 0.4 and more under load."""


class RunState:
    """Everything that decisions may depend on; :func:`tuner.driver.state.fold.apply` takes events in."""

    def __init__(self, blob: Any) -> None:
        """``blob`` reads a blob's bytes by digest."""
        self._blob = blob
        self.start: Mapping[str, Any] | None = None
        self.settings: RunSettings
        self.clock_s = 0.0
        self.passed_s = 0.0
        self.prepared_s = 0.0
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
        self.mark = 0.0
        self.gained = 0
        self.search_stop: str | None = None
        self.finals: dict[str, list[FinalSample]] = {"choose": [], "confirm": []}
        self.finalists: tuple[int, ...] = ()
        self.out_of_final: set[int] = set()
        self.chosen: int | None = None
        self.choice: Mapping[str, Any] = {}
        self.verdict: Mapping[str, Any] | None = None
        self.verdicts = 0
        self.extended = 0
        self.decided = 0
        self.held: Claimed | None = None
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
        self.simplified: Mapping[str, Any] | None = None
        self.recalled: Sequence[Mapping[str, Any]] | None = None
        self.firsts: tuple[Proposal, ...] = ()
        self.advice: tuple[Advice, ...] = ()
        self.advised = 0
        self.expected: Mapping[str, float] = {}
        self.exchanges: Exchanges
        self.lanes: dict[int, Lane] = {}
        self.stock = Stock()
        self.running: dict[str, int] = {}
        self.turns = Turns()
        self.final_lane: int | None = None
        self.granted = 0
        self.granted_s = 0.0
        self.granted_trials = math.inf
        self.marks: list[float] = []
        self.last_share = False
        self.searched_s = 0.0

    def controls_of(self, lane: int | None) -> list[tuple[float, ...]]:
        """The times of the baseline on a device, in order; without several devices there is one list."""
        return self.controls if lane is None else self.lanes[lane].controls

    @property
    def recall_over(self) -> bool:
        """Whether earlier runs were looked at, where they are."""
        return self.recalled is not None or not self.settings.recall

    @property
    def open_share(self) -> bool:
        """Whether more of a budget that other runs share may come."""
        return self.settings.shared is not None and not self.last_share

    @property
    def limit(self) -> int | None:
        """Builds or runs that may be started by now; ``None`` without limit."""
        own = self.settings.evaluations
        return own if self.settings.shared is None or own is None else self.granted

    @property
    def search_deadline_s(self) -> float:
        """Active seconds at which searching has to end, or to wait for more."""
        settings, own = self.settings, self.settings.search_deadline_s
        if math.isinf(own):
            return own
        if settings.shared is not None:
            return self.granted_s
        return min(own, settings.claim_deadline_s - min(self._final_s, self.most_kept_s))

    @property
    def most_kept_s(self) -> float:
        """Seconds that choosing and confirming get at most, of those of the budget."""
        return MOST_KEPT * (self.settings.deadline_s - self.settings.from_s)

    @property
    def _final_s(self) -> float:
        """Seconds that choosing and confirming need, by what making the first inputs and a first look at them took.

        Inputs and what is expected of them are made anew for each number of a process.
        """
        first_s, next_s = self.process_s
        choosing_s = first_s + self.settings.finalists * next_s
        return choosing_s + ENOUGH_PAIRS * self.settings.confirm_least * (first_s + next_s)

    @property
    def process_s(self) -> tuple[float, float]:
        """Seconds that a process of choosing or confirming takes that makes its inputs, and a next one; expected."""
        first_s = self.prepared_s
        return first_s, max(self.control_cost_s, NEXT_SHARE * first_s) + self.settings.final_s

    @property
    def deadline_s(self) -> float:
        """Active seconds at which the run has to end; what is kept for choosing and confirming is never shared."""
        kept_s = self.settings.deadline_s - self.settings.search_deadline_s
        own = self.settings.deadline_s
        return own if self.settings.shared is None or math.isinf(own) else self.searched_s + kept_s

    @property
    def claim_deadline_s(self) -> float:
        """Active seconds at which choosing and confirming have to end."""
        return self.deadline_s - self.settings.ablate_s

    @property
    def incumbent(self) -> int | None:
        """The best trial of what is part of the search: others are raced against it and given up beside it.

        Not one of a variant that earlier runs advise and that is no part of it yet: such a one changes nothing.
        """
        evolution = self.settings.evolution
        if self.best is None or evolution is None or not self.variants[self.trials[self.best].variant].aside:
            return self.best
        inside = [
            t for t in map(self.trials.__getitem__, self.finished) if not self.variants[t.variant].aside
        ]
        scored = [
            (t.score, t.number)
            for t in inside
            if t.status is Status.OK and not t.raced and t.score is not None
        ]
        return min(scored)[1] if scored else None

    @property
    def next_trial(self) -> int:
        """The number that the next proposal gets."""
        return len(self.trials)

    @property
    def device(self) -> str:
        """What it was timed on, by name; empty where nobody said. It need not be what the driver has."""
        for lane in self.lanes.values():
            return lane.device
        return str(((self.start or {}).get("environment") or {}).get("backend", {}).get("device", ""))

    def chance(self, first: int, variant: int) -> np.random.Generator:
        """The random stream of a searcher's next proposals.

        What earlier runs advise takes no stream of the others': in vain, it only delays what the run does without.

        Args:
            first: number of the first trial that they get.
            variant: that they are for.
        """
        if self.settings.evolution is None:
            return stream(self.settings.seed, "ask", first)
        if self.variants[variant].origin == LIBRARY:
            return stream(self.settings.seed, "ask/advised", first)
        others = sum(len(v.trials) for v in self.variants.values() if v.origin == LIBRARY)
        return stream(self.settings.seed, "ask", first - others)

    def placed(self, trial: TrialState, lane: int) -> None:
        """A trial is on a device from now on, and of no concern until that has said something of it."""
        self.lanes[lane].trials.append(trial.number)
        trial.lane = lane
        assert trial.build is not None
        self.running[trial.build["key"]] = trial.number
        self.turns.placed(trial.number, heard=trial.number == BASELINE)

    def back(self, trial: TrialState) -> None:
        """A trial is on its device no longer."""
        assert trial.build is not None
        self.running.pop(trial.build["key"], None)
        self.turns.back(trial.number)

    def text(self, reference: str) -> str:
        """The text that a reference in an event's body stands for."""
        return str(self._blob(reference.removeprefix("blob:")).decode())

    def variant_of(self, number: int) -> VariantState:
        """The variant that a trial belongs to."""
        return self.variants[self.trials[number].variant]
