"""Searches over recorded pass trials: what was built and timed once is searched again, with the cost model and without.

A pool is the run record of a random search without the model. Every code counts once, with the time measured then. May
not build or time anything, so that many seeds cost minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from _cost_runs import recorded_runs

from tuner.core.protocols import Known
from tuner.core.streams import stream
from tuner.core.types import Status
from tuner.cost_models.screen import FIRST, Screen, next_size
from tuner.driver.opening import open_state
from tuner.driver.state.judged import PRUNE
from tuner.driver.work.screening import verdict_of
from tuner.recorders.record import RunRecord

__all__ = ["HOW", "evaluations_over_plain", "search_pools"]

WITHIN = 0.02
LEAST = 60
"""Codes that a pool has to have."""

EARLY = 10
"""Trials before the first fit where the model only orders: an order loses nothing."""

EVENLY = 0.125
"""Part of the trials that are drawn evenly all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """A way to search a pool.

    Attributes:
        looks: new codes that are built for each that is timed; those not timed wait.
        first: trials before the model's first fit; ``None``: no model.
        prunes: whether codes are left out by the driver's rules for built candidates, instead of timed in order.
    """

    looks: int
    first: int | None = None
    prunes: bool = False


HOW = {
    "plain": How(looks=1),
    "pruned": How(looks=1, first=FIRST, prunes=True),
    "best of four": How(looks=4, first=EARLY),
    "best of all": How(looks=10**6, first=EARLY),
}


def search_pools(paths: Sequence[Path], seeds: int) -> dict[str, dict[str, Any]]:
    """By run: how many codes there are, how many within 2% of the best, and evaluations until one of those is timed.

    Returns:
        ``built`` and of those ``known`` (to code that was there), ``codes``, ``good``; by way (:data:`HOW`) and seed
        ``evaluations``, ``builds`` (of new codes), and how many searches did not find a good one (``unfound``).
    """
    found = {}
    for path in paths:
        pool = [one for one in recorded_runs(path) if one.tried]
        if len(pool) < LEAST:
            continue
        timed = {i: one.score for i, one in enumerate(pool) if one.score is not None and not one.raced}
        good = {i for i, score in timed.items() if score <= min(timed.values()) + WITHIN}
        made = {
            name: [_Search(pool, good, seed, how).run() for seed in range(seeds)] for name, how in HOW.items()
        }
        found[path.stem] = {
            **_built(path),
            "codes": len(pool),
            "good": len(good),
            "evaluations": {name: [tried for tried, _, _ in ones] for name, ones in made.items()},
            "builds": {name: [built for _, built, _ in ones] for name, ones in made.items()},
            "unfound": {name: sum(not there for *_, there in ones) for name, ones in made.items()},
        }
    return found


def evaluations_over_plain(found: dict[str, dict[str, Any]], name: str) -> dict[str, list[float]]:
    """Mean evaluations of a way to search over those in random order, by run."""
    return {
        run: [float(np.mean(one["evaluations"][name]) / np.mean(one["evaluations"]["plain"]))]
        for run, one in found.items()
    }


def _built(path: Path) -> dict[str, int]:
    with RunRecord.read(path) as record:
        state, _, _ = open_state(record)
    trials = [t for t in state.trials.values() if t.build is not None]
    return {"built": len(trials), "known": sum(t.status is Status.DUPLICATE for t in trials)}


@dataclass(slots=True)
class _Search:
    pool: Sequence[Known]
    good: set[int]
    seed: int
    how: How
    known: list[Known] = field(default_factory=list)
    order: dict[int, tuple[bool, float]] = field(default_factory=dict)

    def run(self) -> tuple[int, int, bool]:
        """Evaluations and builds until a good one was timed, and whether one was; all of the pool where none was."""
        waiting = [int(i) for i in stream(self.seed, "pool").permutation(len(self.pool))]
        drawn = stream(self.seed, "evenly")
        shelf: list[int] = []
        screen = None if self.how.first is None else Screen(first=self.how.first)
        tried = built = 0
        fit_at = self.how.first
        while waiting or shelf:
            if screen is not None and tried == fit_at:
                self._look(screen, [*shelf, *waiting])
                fit_at = next_size(tried)
            fresh, waiting = waiting[: self.how.looks], waiting[self.how.looks :]
            built += len(fresh)
            shelf += [i for i in fresh if not self._dropped(i)]
            if not shelf:
                continue
            chosen = min(shelf, key=lambda i: self.order.get(i, (False, 0.0)))
            if drawn.random() < EVENLY:
                chosen = shelf[int(drawn.integers(len(shelf)))]
            shelf.remove(chosen)
            tried += 1
            if chosen in self.good:
                return tried, built, True
            self.known.append(self.pool[chosen])
        return len(self.pool), len(self.pool), False

    def _look(self, screen: Screen, ahead: list[int]) -> None:
        """Asks the model of all that may come; between two fits it would say the same."""
        found = screen.screen(self.known, [self.pool[i].features for i in ahead], [])
        self.order = {}
        for i, guess in zip(ahead, found.guesses, strict=True):
            verdict = verdict_of(guess, found, stream(self.seed, "audit/build", i).random())
            out = verdict.verdict == PRUNE if self.how.prunes else guess.failing > 0.5
            self.order[i] = (out, guess.place)

    def _dropped(self, number: int) -> bool:
        out = self.how.prunes and self.order.get(number, (False, 0.0))[0]
        if out:
            one = self.pool[number]
            self.known.append(Known(trial=one.trial, features=one.features, tried=False))
        return out
