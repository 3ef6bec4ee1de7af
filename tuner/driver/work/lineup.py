"""The variants of a run with everything that hangs on each: texts, space and searcher; and what breeds new ones.

The source as given is variant 0; a run that does not evolve has no other. Everything is made again from the state
alone, so a resumed or replayed run has the same. May not build or run anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner.core.canonical import digest
from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.core.protocols import Observation, Searcher
from tuner.core.streams import stream
from tuner.core.types import BASELINE, Configuration, Proposal, Resolved, Status, Task, Variant
from tuner.driver.plan.actions import Consult, Judge, Propose, Receive, Reduce
from tuner.driver.plan.simplest import ORIGIN
from tuner.driver.state.evolution import proven
from tuner.driver.state.lineage import ORIGINAL, Judgement, VariantState
from tuner.driver.state.observations import observations
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import LIBRARY, REMIX, RunSettings
from tuner.driver.state.trials import pack_text
from tuner.driver.work import consultant
from tuner.driver.work.advising import advised
from tuner.driver.work.screening import Screener
from tuner.driver.work.taking_back import Item, items_of, simpler
from tuner.search import proposers
from tuner.search.evolution import Bred, Evolution, Judged
from tuner.search.inheriting import InheritingSearcher, inherited
from tuner.search.recalling import SOURCE, RecallingSearcher
from tuner.search.remix import Offspring
from tuner.spaces.parameters import Parameter
from tuner.spaces.source.edits import Applied
from tuner.spaces.space import Space

__all__ = ["Lineup", "describe_original"]

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
        self._evolution: Evolution | None = None
        self._told = 0
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
            found = self._joined(own.parameters, own.constraints, own.seed or {})
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

    def propose(self, action: Propose, blobs: dict[str, bytes]) -> dict[str, Any] | None:
        """A new variant as a ``variant`` event holds it, or ``None``; its texts go to ``blobs``."""
        state = self._state
        evolution = self._informed()
        settings = state.settings.evolution
        assert settings is not None
        # What earlier runs advised and one trial spoke against may be bred again, with other sizes.
        known = {v.structure for v in state.variants.values() if not (v.aside if settings.purse else v.vain)}
        if action.proposer == LIBRARY:
            advice = state.advice[state.advised]
            found = advised(evolution, self._task.kernel.variant, advice, known)
            return None if found is None else self._recorded(found, blobs)
        number = action.number - (state.advised if settings.purse else 0)
        rng = stream(state.settings.seed, "variant", number)
        bred = evolution.ask(number, rng, known, action.proposer)
        return None if bred is None else self._recorded(bred, blobs)

    def bred(self, action: Propose | Receive | Reduce, blobs: dict[str, bytes]) -> dict[str, Any]:
        """What a ``variant`` event says that follows from the state: ``made``, for what, and by whom."""
        if isinstance(action, Reduce):
            return {"purpose": "reduce", "made": self.reduce(action, blobs)}
        if isinstance(action, Receive):
            return {"purpose": "propose", "call": action.call, **self.receive(action, blobs)}
        body: dict[str, Any] = {"purpose": "propose", "made": self.propose(action, blobs)}
        return body if action.proposer == REMIX else {**body, "proposer": action.proposer}

    def consult(self, action: Consult, blobs: dict[str, bytes]) -> dict[str, Any]:
        """A request to a model as a ``consult`` event holds it; its prompt goes to ``blobs``."""
        return consultant.consult(self._state, self._informed(), self._task, action, blobs)

    def receive(self, action: Receive, blobs: dict[str, bytes]) -> dict[str, Any]:
        """What a reply gives: ``made`` as in a ``variant`` event, ``problems``, and whether those are ``final``."""
        base = self._space
        taken = {d.name for d in base.dimensions} | set(base.sizes)
        call = self._state.exchanges.calls[action.call]
        bred, problems, final = consultant.receive(self._state, self._informed(), call, taken)
        made = None if bred is None else self._recorded(bred, blobs)
        if bred is not None and made is None:
            problems = ["the tunables do not go with those of the spec"]
        return {"made": made, "problems": problems, "final": final}

    def _recorded(self, bred: Bred, blobs: dict[str, bytes]) -> dict[str, Any] | None:
        made = _made(bred.offspring, blobs, parents=bred.parents, island=bred.island, cell=bred.cell)
        return self._with_seed(made, bred.offspring, bred.configurations, blobs)

    def begun(self, made: Applied, configuration: Configuration) -> tuple[Variant, Resolved] | None:
        """What an advised variant would be built from at its first trial; ``None`` where its tunables do not fit."""
        try:
            seed = inherited(self._joined(made.parameters, made.constraints, {}), (configuration,))
            space = self._joined(made.parameters, made.constraints, seed)
        except SpecError:
            return None
        return made.variant, replace(space.resolve(seed), launch=made.variant.launch)

    def reduce(self, action: Reduce, blobs: dict[str, bytes]) -> dict[str, Any] | None:
        """A variant without one of its edits, as a ``variant`` event holds it, or ``None``."""
        evolution = self._informed()
        parent = self._state.variants[action.variant]
        offspring = evolution.reduce(parent.variant, action.edit)
        if offspring is None:
            return None
        cell = evolution.cell_of(offspring.variant)
        made = _made(offspring, blobs, parents=(parent.number,), island=parent.island, cell=cell)
        best = self._state.trials[action.trial].proposal.configuration
        return self._with_seed(made, offspring, (best,), blobs)

    def _with_seed(
        self,
        made: dict[str, Any],
        offspring: Offspring,
        parents: Sequence[Configuration],
        blobs: dict[str, bytes],
    ) -> dict[str, Any] | None:
        try:
            space = self._joined(offspring.parameters, offspring.constraints, {})
        except SpecError:
            # A tunable may have a name that the spec's own space has taken.
            return None
        seed = inherited(space, parents)
        made["seed"] = {name: pack_text(value, blobs, digest) for name, value in sorted(seed.items())}
        return made

    def _joined(
        self, parameters: Sequence[Parameter], constraints: Sequence[str], seed: Configuration
    ) -> Space:
        base = self._space

        def begun(parameter: Parameter) -> Parameter:
            return replace(parameter, default=seed.get(parameter.name, parameter.default))

        flags = {
            name: tuple(sorted(choices, key=lambda c: c != seed.get(name, choices[0])))
            for name, choices in base.flags.items()
        }
        return Space(
            tuple(begun(p) for p in (*base.parameters, *parameters)),
            (*base.constraints, *(parse(text) for text in constraints)),
            flags=flags,
            passes=base.passes,
            sizes=base.sizes,
        )

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
                    # Records of earlier versions do not tell the sources apart.
                    [int(p.note.get(SOURCE) or 0) for p in firsts],
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
            plainly = evolution is not None and evolution.plainly
            if evolution is not None and evolution.independent and own.purpose == "propose":
                searcher = self._make(space)
            else:
                searcher = InheritingSearcher(
                    lambda: self._make(space), space, own.seed or {}, new, prior, plainly=plainly
                )
        return searcher

    def _restored(self, number: int) -> Searcher:
        """A searcher as the asks so far have left it."""
        own, searcher, told = self._state.variants[number], self.fresh(number), 0
        for upto, trials in own.asks:
            searcher.tell(observations(self._state, own.finished[told:upto]))
            searcher.adopt([self._state.trials[n].proposal for n in trials])
            told = upto
        return searcher

    def _informed(self) -> Evolution:
        """Archive and proposer, told of all that was judged so far."""
        if self._evolution is None:
            tunables = {p.name: p.default for p in self._space.parameters if p.macro}
            whole = {n: v for n, v in tunables.items() if type(v) is int}
            self._evolution = _evolution(self._task, self._state.settings, whole)
        settings = self._state.settings.evolution
        assert settings is not None
        if settings.independent:
            # Only the source as given is known, so that everything is drawn from it alone.
            if not self._told and self._state.judgements:
                self._told = 1
                self._evolution.tell([self._judged(self._state.judgements[0])])
            return self._evolution
        fresh, self._told = self._state.judgements[self._told :], len(self._state.judgements)
        self._evolution.tell([self._judged(one) for one in fresh])
        if self._state.expected and proven(self._state):
            self._evolution.expect(self._state.expected)
        return self._evolution

    def _judged(self, one: Judgement) -> Judged:
        own: VariantState = self._state.variants[one.variant]
        return Judged(
            number=own.number,
            variant=self.variant(own.number),
            origin=own.origin,
            parents=own.parents,
            island=own.island,
            structure=own.structure,
            cell=own.cell,
            score=one.score,
            configuration=one.configuration or {},
            first=one.first,
            twin=one.twin,
        )


def _forget_oldest(kept: dict[int, Any], most: int = KEPT) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]


def describe_original(task: Task, settings: RunSettings) -> dict[str, Any]:
    """The source as given, for the ``start`` event of a run that evolves it.

    Raises:
        SpecError: its regions are wrong.
        UsageError: there is no such proposer.
    """
    structure, cell = _evolution(task, settings, {}).describe_original()
    return {"digest": task.kernel.variant.digest, "structure": structure, "cell": list(cell)}


def _evolution(task: Task, settings: RunSettings, tunables: Mapping[str, int]) -> Evolution:
    own = settings.evolution
    assert own is not None
    return Evolution(
        task.kernel,
        task.verify.numerics,
        launch=task.launch,
        islands=own.islands,
        migration=own.migration,
        patience=own.patience,
        proposers={
            n: proposers.create(
                n,
                task.kernel,
                task.verify.numerics,
                launch=task.launch,
                moves=own.moves,
                tunables=tunables,
            )
            for n in settings.proposers
        },
    )


def _made(
    offspring: Offspring,
    blobs: dict[str, bytes],
    *,
    parents: Sequence[int],
    island: int,
    cell: Sequence[int],
) -> dict[str, Any]:
    files = []
    for source in offspring.variant.files:
        data = source.text.encode()
        name = digest(data)
        blobs[name] = data
        files.append([source.name, f"blob:{name}"])
    launch = offspring.variant.launch
    return {
        "files": files,
        **({} if launch is None else {"launch": launch.to_json()}),
        "edits": [dict(e) for e in offspring.variant.edits],
        "parameters": [
            {"name": p.name, "values": list(p.values), "default": p.default} for p in offspring.parameters
        ],
        "constraints": list(offspring.constraints),
        "origin": offspring.origin,
        "parents": list(parents),
        "digest": offspring.variant.digest,
        "structure": offspring.structure,
        "cell": list(cell),
        "island": island,
        "checked": offspring.checked,
        "note": dict(offspring.note),
    }
