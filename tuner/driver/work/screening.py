"""Asks the cost model about trials: turns the state into features and its answer into verdicts.

Made from the state alone, so a replay makes the same. May not build or run anything, nor decide when it is asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from tuner.core.errors import SpecError
from tuner.core.protocols import CostModel, Guess, Known, Screening
from tuner.core.streams import stream
from tuner.core.types import Launch, Stage, Status
from tuner.cost_models.configurations import configuration_features, edit_features, geometry_features
from tuner.cost_models.screen import Screen
from tuner.driver.plan.actions import Judge
from tuner.driver.plan.pruning import not_worth, passed_over
from tuner.driver.state.judged import AUDIT, KEEP, PASS, PRUNE, Judged
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState
from tuner.search.history import FAILURES
from tuner.spaces.launch import geometry
from tuner.spaces.space import Space

__all__ = ["Screener", "near", "verdict_of"]

AUDITED = 0.125
"""The part of what would be pruned that is measured all the same."""

POOL = 512


class Screener:
    """The cost models of a run, one for each stage.

    Args:
        state: of the run; read only.
        space: of the source as given.
        launch: of the kernel, where there is one.
    """

    def __init__(self, state: RunState, space: Space, launch: Launch | None) -> None:
        self._state, self._space, self._launch = state, space, launch
        self._models: dict[str, CostModel] = {Stage.ASK.value: Screen(), Stage.BUILD.value: Screen()}
        self._made: dict[tuple[str, int], Mapping[str, float]] = {}
        self._pool: list[Mapping[str, float]] | None = None
        self._known: dict[str, list[Known]] = {Stage.ASK.value: [], Stage.BUILD.value: []}
        self._looked: dict[str, int] = dict.fromkeys(self._known, 0)

    def judge(self, action: Judge) -> dict[str, Any]:
        """The body of a ``judge`` event, without its clocks."""
        trials = [self._state.trials[n] for n in action.trials]
        priced = action.stage == Stage.BUILD and self._state.settings.priced
        why = not_worth(self._state) if priced else ""
        # What cannot pay is not fitted either: a fit is a function of trials, so none is missed by it.
        found = Screening(why=why) if why else self._screened(action.stage, trials)
        guesses = found.guesses or (Guess(place=0.0),) * len(trials)
        seed, role = self._state.settings.seed, f"audit/{action.stage}"
        # A pool stands for as many proposals as will be tried of it.
        keep = self._state.settings.batch if action.keep is None else action.keep
        share = min(1.0, keep / len(trials))
        judged = [
            verdict_of(guess, found, stream(seed, role, n).random() / share)
            for n, guess in zip(action.trials, guesses, strict=True)
        ]
        if action.stage == Stage.ASK:
            for i in passed_over(judged, keep):
                judged[i] = replace(judged[i], verdict=PASS, why="better ones of the same pool are tried")
        return {
            "stage": action.stage,
            "trials": list(action.trials),
            "seen": self._state.seq,
            "fitted": found.fitted,
            "cut": found.cut,
            "failing_cut": found.failing_cut,
            "why": found.why,
            "judged": [asdict(one) for one in judged],
        }

    def _screened(self, stage: str, trials: list[TrialState]) -> Screening:
        return self._models[stage].screen(
            self.known(stage),
            [self._features(t, stage) for t in trials],
            self._evenly() if stage == Stage.ASK else [],
        )

    def known(self, stage: str) -> list[Known]:
        """Every finished trial that says something at a stage, in the order of completion."""
        found, finished = self._known[stage], self._state.finished
        # A trial that has ended does not change, and a run over many devices asks after every few.
        for number in finished[self._looked[stage] :]:
            trial = self._state.trials[number]
            built = trial.build is not None and trial.build["status"] == Status.OK
            if stage == Stage.BUILD and (not built or trial.status is Status.DUPLICATE):
                continue
            tried = trial.score is not None or trial.status in FAILURES
            if not tried and trial.status is not Status.PRUNED:
                continue
            found.append(
                Known(
                    trial=number,
                    features=self._features(trial, stage),
                    tried=tried,
                    score=trial.score,
                    raced=trial.raced,
                )
            )
        self._looked[stage] = len(finished)
        return found

    def _features(self, trial: TrialState, stage: str) -> Mapping[str, float]:
        key = (stage, trial.number)
        if key not in self._made:
            edits = self._state.variants[trial.variant].edits
            made = self._of(trial.as_searched.configuration) | edit_features(edits)
            if stage == Stage.BUILD and trial.build is not None:
                made |= {f"build_{name}": value for name, value in trial.build["features"].items()}
            self._made[key] = made
        return self._made[key]

    def _of(self, configuration: Mapping[str, Any]) -> dict[str, float]:
        made = configuration_features(configuration)
        if self._launch is not None:
            try:
                made |= geometry_features(geometry(self._launch, configuration, self._space.sizes))
            except SpecError:
                # No launch can take it: that it fails is what the model is to learn.
                made["block_threads"] = 0.0
        return made

    def _evenly(self) -> list[Mapping[str, float]]:
        """What may be proposed; nothing where pipelines are, which cannot be drawn evenly."""
        if self._pool is None:
            drawn = []
            if self._space.passes is None:
                drawn = self._space.sample(stream(self._state.settings.seed, "pool"), POOL)
            self._pool = [self._of(c) for c in drawn]
        return self._pool


def verdict_of(guess: Guess, found: Screening, drawn: float) -> Judged:
    """What a guess comes to; ``drawn``, evenly from 0 to 1 or more, says which are measured
    although the guess speaks against them.
    """
    why = ""
    if found.failing_cut is not None and guess.failing > found.failing_cut:
        why = f"would fail with a chance of {guess.failing:.0%}"
    elif found.cut is not None and guess.place > found.cut:
        why = f"ranked at {guess.place:.0%} of the candidates; the best {found.cut:.0%} are tried"
    verdict = KEEP
    if why:
        verdict = AUDIT if drawn < AUDITED else PRUNE
    return Judged(verdict=verdict, place=guess.place, failing=guess.failing, why=why)


def near(one: Any, other: Any, least: float) -> bool:
    """Whether two plain values differ in nothing but numbers, and those by at most ``least``."""
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=0.0, abs_tol=least)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(near(one[k], other[k], least) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(near(a, b, least) for a, b in zip(one, other, strict=True))
    return bool(one == other)
