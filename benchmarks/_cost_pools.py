"""Searches over recorded pass trials: what was built and timed once is searched again, with the cost model and without.

A pool is the run record of a random search without the model. Every code counts once, with the time measured then. May
not build or time anything, so that many seeds cost minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from _cost_runs import recorded_runs

from tuner.core.protocols import Known
from tuner.core.streams import stream
from tuner.core.types import Status
from tuner.cost_models.screen import EARLY, FIRST, Screen, size_for
from tuner.driver.opening import open_state
from tuner.driver.plan.ordering import MOST_WAITING, rank
from tuner.driver.state.judged import PRUNE, Judged
from tuner.driver.state.order import MOST_LOOKS, Order
from tuner.driver.work.screening import turn_of, verdict_of
from tuner.recorders.record import RunRecord

__all__ = ["HOW", "over_plain", "search_pools"]

WITHIN = 0.02
LEAST = 60
"""Codes that a pool has to have."""

RUN_S = 0.03
"""Seconds of a run where finding a code costs a multiple of it."""

LOOKS = (2.0, 3.0, 4.0)

PRICES = (0.25, 0.5, 1.0, 4.0)
"""What finding a new code costs, in runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """A way to search a pool.

    Attributes:
        orders: whether codes are timed in the model's order by the driver's rules.
        prunes: whether codes are left out by the driver's rules for built candidates.
        looks: new codes found for each that is timed; ``None``: as the driver decides.
        price: of finding a new code, in runs.
        shuffled: whether the features are those of other codes.
    """

    orders: bool = False
    prunes: bool = False
    looks: float | None = None
    price: float = 1.0
    shuffled: bool = False


HOW = {
    "plain": How(),
    "pruned": How(prunes=True),
    **{f"{n:g} found for each": How(orders=True, looks=n) for n in LOOKS},
    **{f"a code costs {p:g} runs": How(orders=True, price=p) for p in PRICES},
    "shuffled": How(orders=True, looks=MOST_LOOKS, shuffled=True),
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


def over_plain(found: dict[str, dict[str, Any]], name: str, what: str) -> dict[str, list[float]]:
    """``evaluations``, ``builds`` or ``seconds`` of a way to search over those in random order, by run."""
    return {
        run: [_mean(one, name, what, HOW[name].price) / _mean(one, "plain", what, HOW[name].price)]
        for run, one in found.items()
    }


def _mean(one: dict[str, Any], name: str, what: str, price: float) -> float:
    if what == "seconds":
        return _mean(one, name, "builds", price) * price + _mean(one, name, "evaluations", price)
    return float(np.mean(one[what][name]))


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
    judged: dict[int, Judged] = field(default_factory=dict)
    shelf: list[int] = field(default_factory=list)

    def run(self) -> tuple[int, int, bool]:
        """Evaluations and builds until a good one was timed, and whether one was; all of the pool where none was."""
        pool = self._shuffled() if self.how.shuffled else self.pool
        waiting = [int(i) for i in stream(self.seed, "pool").permutation(len(pool))]
        first = EARLY if self.how.orders else FIRST
        screen, fitted = Screen(first=first), None
        order = _Fixed(looks_fixed=self.how.looks) if self.how.looks else Order()
        tried = built = 0
        while waiting or self.shelf:
            if waiting and (not self.shelf or (order.looks > 1 and order.spare < order.looks)):
                found = waiting.pop(0)
                built += 1
                order.sought(RUN_S * self.how.price)
                order.built(str(found))
                self.shelf.append(found)
            size = size_for(tried, first)
            if size is not None and (self.how.orders or self.how.prunes):
                new = [i for i in self.shelf if size != fitted or i not in self.judged]
                fitted = size
                self._look(screen, pool, new, order)
            if (self.how.prunes and self._pruned(pool)) or not self.shelf:
                continue
            if waiting and order.looks > 1 and order.spare < order.looks:
                continue
            if order.follows and len(self.shelf) > MOST_WAITING:
                self.shelf.remove(max(self.shelf, key=self._rank))
            chosen = min(self.shelf, key=self._rank) if order.follows else self.shelf[0]
            self.shelf.remove(chosen)
            order.taken()
            order.ran(RUN_S)
            tried += 1
            if chosen in self.good:
                return tried, built, True
            self.known.append(pool[chosen])
        return len(pool), len(pool), False

    def _rank(self, number: int) -> tuple[bool, bool, float]:
        return rank(self.judged[number])

    def _look(self, screen: Screen, pool: Sequence[Known], new: Sequence[int], order: Order) -> None:
        """Asks the model, as the driver does, of what it has not seen since its last fit."""
        if not new:
            return
        found = screen.screen(self.known, [pool[i].features for i in new], [])
        for i, guess in zip(new, found.guesses, strict=True):
            drawn = stream(self.seed, "audit/build", i).random()
            if self.how.prunes:
                self.judged[i] = verdict_of(guess, found, drawn)
            else:
                before = self.judged.get(i)
                self.judged[i] = turn_of(guess, found, before, drawn * order.looks)
        if self.how.orders:
            order.follows = not found.doubt

    def _pruned(self, pool: Sequence[Known]) -> bool:
        """Leaves out what the model speaks against; whether that was all."""
        for i in self.shelf:
            if i in self.judged and self.judged[i].verdict == PRUNE:
                one = pool[i]
                self.known.append(Known(trial=one.trial, features=one.features, tried=False))
        self.shelf = [i for i in self.shelf if i not in self.judged or self.judged[i].verdict != PRUNE]
        return not self.shelf

    def _shuffled(self) -> list[Known]:
        others = stream(self.seed, "shuffled").permutation(len(self.pool))
        return [
            replace(one, features=self.pool[int(i)].features)
            for one, i in zip(self.pool, others, strict=True)
        ]


@dataclass(slots=True, kw_only=True)
class _Fixed(Order):
    looks_fixed: float = 1.0

    @property
    def looks(self) -> float:
        """As many as said, whatever they cost."""
        return self.looks_fixed if self.follows else 1.0
