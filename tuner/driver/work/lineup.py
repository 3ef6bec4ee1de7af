"""The variants of a run with everything that hangs on each: texts, space and searcher.

The source as given is variant 0; a run that does not evolve has no other. Everything is made again from the state
alone, so a resumed or replayed run has the same. May not build or run anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tuner.core.protocols import Observation, Searcher
from tuner.core.types import BASELINE, Proposal, Resolved, Status, Task, Variant
from tuner.driver.plan.actions import Judge
from tuner.driver.plan.simplest import ORIGIN
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.observations import observations
from tuner.driver.state.run import RunState
from tuner.driver.work.breeding import Breeding
from tuner.driver.work.joining import joined
from tuner.driver.work.screening import Screener
from tuner.driver.work.taking_back import Item, items_of, simpler
from tuner.search.inheriting import InheritingSearcher
from tuner.search.recalling import SOURCE, RecallingSearcher
from tuner.spaces.space import PASSES, Space
from tuner.spaces.undoing import shortest

__all__ = ["Lineup"]

KEPT = 24
"""Spaces and searchers at hand; others are made again from the state when they are wanted."""


KEPT_CANDIDATES = 512
"""Candidates at hand: what is built is run soon after, and with many devices there are hundreds in between."""


class Lineup:
    """What the engine, a replay and an audit need of the variants.

    Args:
        state: of the run; read, never changed but for what is told.
        space: of the source as given.
        task: of the run: its kernel as given, its launch and its numerics.
        make: makes a fresh searcher of a space; for the source as given (``None``) one that may be warm.

    Attributes:
        breeding: what new variants come from.
    """

    def __init__(
        self,
        state: RunState,
        space: Space,
        task: Task,
        make: Callable[[Space | None], Searcher],
    ) -> None:
        self._state = state
        self._space = space
        self._task = task
        self._spaces: dict[int, Space] = {}
        self._make = make
        self._searchers: dict[int, Searcher] = {}
        self.breeding = Breeding(state, space, task)
        self._screener = Screener(state, space, task.launch)
        self._items: tuple[int, tuple[Item, ...]] | None = None
        self._candidates: dict[int, tuple[Variant, Resolved]] = {}

    def variant(self, number: int) -> Variant:
        """A variant's texts and edits."""
        return self._task.kernel.variant if number == ORIGINAL else self._state.variants[number].variant

    def space(self, number: int) -> Space:
        """A variant's space: the spec's, with the variant's own tunables and with defaults that it begins with."""
        if number == ORIGINAL:
            return self._space
        found = self._spaces.pop(number, None)
        if found is None:
            own = self._state.variants[number]
            found = joined(self._space, own.parameters, own.constraints, own.seed or {})
        self._spaces[number] = found
        _forget_oldest(self._spaces)
        return found

    def of_trial(self, number: int) -> tuple[Variant, Resolved]:
        """What a trial is built from."""
        found = self._candidates.get(number)
        if found is None:
            trial = self._state.trials[number]
            variant = self.variant(trial.variant)
            resolved = self.space(trial.variant).resolve(trial.proposal.configuration)
            found = self._candidates[number] = variant, replace(resolved, launch=variant.launch)
            _forget_oldest(self._candidates, KEPT_CANDIDATES)
        return found

    def simpler(self, count: int) -> list[Proposal]:
        """The best trial with less changed, what changes least first."""
        best = self._state.best
        assert best is not None
        trial = self._state.trials[best]
        before = self._state.trials[BASELINE].proposal.configuration
        found = simpler(self.space(trial.variant), trial.proposal.configuration, before)
        # What was timed itself takes part in the choice anyhow; what only had the code of another does not.
        timed = [t.proposal.configuration for t in self._state.trials.values() if t.status is Status.OK]
        new = [configuration for configuration in found if configuration not in timed]
        return [Proposal(configuration=c, origin=ORIGIN) for c in new[:count]]

    def shorten(self, same: Callable[[Variant, Resolved], bool]) -> dict[str, Any]:
        """The winner's pipeline without what does not change its code, as a ``shorten`` event holds it.

        Args:
            same: whether a candidate's code is the winner's.
        """
        chosen = self._state.chosen
        assert chosen is not None
        trial = self._state.trials[chosen]
        space, variant = self.space(trial.variant), self.variant(trial.variant)
        before = str(trial.proposal.configuration[PASSES])
        found: list[bool] = []

        def keeps(text: str) -> bool:
            configuration = {**trial.proposal.configuration, PASSES: text}
            if not space.is_valid(configuration):
                return False
            resolved = replace(space.resolve(configuration), launch=variant.launch)
            found.append(same(variant, resolved))
            return found[-1]

        assert space.passes is not None
        passes = shortest(space.passes, before, keeps)
        self._candidates.pop(chosen, None)
        return {"before": before, "passes": passes, "same": found}

    def dissect(self) -> dict[str, Any]:
        """What of the winner can be taken back, as a ``dissect`` event holds it."""
        return {"items": [item.to_json() for item in self._taken_back()]}

    def without(self, item: int) -> tuple[Variant, Resolved]:
        """What the winner with an item taken back is built from."""
        chosen = self._state.chosen
        assert chosen is not None
        trial = self._state.trials[chosen]
        configuration = self._taken_back()[item].configuration
        assert configuration is not None
        variant = self.variant(trial.variant)
        resolved = self.space(trial.variant).resolve(configuration)
        return variant, replace(resolved, launch=variant.launch)

    def _taken_back(self) -> tuple[Item, ...]:
        chosen = self._state.chosen
        assert chosen is not None
        if self._items is None or self._items[0] != chosen:
            trial = self._state.trials[chosen]
            # A tunable that an edit brought goes back to the value that the edit began with.
            own = {p.name: p.default for p in self._state.variants[trial.variant].parameters}
            before = {**own, **self._state.trials[BASELINE].proposal.configuration}
            items = items_of(self.space(trial.variant), trial.proposal.configuration, before)
            self._items = chosen, items
        return self._items[1]

    def judge(self, action: Judge) -> dict[str, Any]:
        """What the cost model thinks of trials, as a ``judge`` event holds it without its clocks."""
        return self._screener.judge(action)

    def searcher(self, number: int) -> Searcher:
        """A variant's searcher, told of all but what :meth:`RunState.untold` has for it, proposals adopted."""
        found = self._searchers.pop(number, None) or self._restored(number)
        self._searchers[number] = found
        _forget_oldest(self._searchers)
        return found

    def fresh(self, number: int) -> Searcher:
        """A variant's searcher before its first ask."""
        own = self._state.variants[number]
        searcher: Searcher
        if number == ORIGINAL:
            searcher = self._make(None)
            if self._state.firsts:
                firsts = self._state.firsts
                searcher = RecallingSearcher(
                    searcher,
                    [p.configuration for p in firsts],
                    [int(p.note[SOURCE]) for p in firsts],
                )
        else:
            space = self.space(number)
            older = {p.name for n in own.parents for p in self._state.variants[n].parameters}
            new = [p.name for p in own.parameters if p.name not in older]
            prior: tuple[Observation, ...] = ()
            if own.parents:
                first = self._state.variants[own.parents[0]]
                prior = tuple(observations(self._state, first.finished[: own.known]))
            evolution = self._state.settings.evolution
            if evolution is not None and evolution.independent and own.purpose == "propose":
                searcher = self._make(space)
            else:
                searcher = InheritingSearcher(lambda: self._make(space), space, own.seed or {}, new, prior)
        return searcher

    def _restored(self, number: int) -> Searcher:
        """A searcher as the asks so far have left it."""
        own, searcher, told = self._state.variants[number], self.fresh(number), 0
        for upto, trials in own.asks:
            searcher.tell(observations(self._state, own.finished[told:upto]))
            searcher.adopt([self._state.trials[n].as_searched for n in trials])
            told = upto
        return searcher


def _forget_oldest(kept: dict[int, Any], most: int = KEPT) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]
