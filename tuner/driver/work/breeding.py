"""What new variants of a run come from: the archive with its proposers, models' replies, and what earlier runs advise.

Everything follows from the state alone, so a resumed or replayed run breeds the same. May not build or run anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner.core.canonical import digest
from tuner.core.errors import SpecError
from tuner.core.streams import stream
from tuner.core.types import Configuration, Resolved, Task, Variant
from tuner.driver.plan.actions import Consult, Propose, Receive, Reduce
from tuner.driver.state.evolution import proven
from tuner.driver.state.lineage import ORIGINAL, Judgement
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import LIBRARY, REMIX, RunSettings
from tuner.driver.state.trials import pack_text
from tuner.driver.work import consultant
from tuner.driver.work.advising import advised
from tuner.driver.work.joining import joined
from tuner.search import proposers
from tuner.search.edit_survey import survey
from tuner.search.evolution import Bred, Evolution, Judged
from tuner.search.inheriting import inherited
from tuner.search.remix import Offspring
from tuner.spaces.source.edits import Applied, permitted
from tuner.spaces.source.regions import read_program
from tuner.spaces.space import Space

__all__ = ["Breeding", "describe_original", "refusals_of"]


class Breeding:
    """Makes variants, as ``variant`` and ``consult`` events hold them.

    Args:
        state: of the run; read, never changed.
        space: of the source as given.
        task: of the run: its kernel as given, its launch and its numerics.
    """

    def __init__(self, state: RunState, space: Space, task: Task) -> None:
        self._state, self._space, self._task = state, space, task
        self._evolution: Evolution | None = None
        self._told = 0

    def bred(self, action: Propose | Receive | Reduce, blobs: dict[str, bytes]) -> dict[str, Any]:
        """What a ``variant`` event says that follows from the state: ``made``, for what, and by whom."""
        if isinstance(action, Reduce):
            return {"purpose": "reduce", "made": self._reduce(action, blobs)}
        if isinstance(action, Receive):
            return {"purpose": "propose", "call": action.call, **self._receive(action, blobs)}
        body: dict[str, Any] = {"purpose": "propose", "made": self._propose(action, blobs)}
        return body if action.proposer == REMIX else {**body, "proposer": action.proposer}

    def consult(self, action: Consult, blobs: dict[str, bytes]) -> dict[str, Any]:
        """A request to a model as a ``consult`` event holds it; its prompt goes to ``blobs``."""
        return consultant.consult(self._state, self.informed(), self._task, self._space, action, blobs)

    def begun(self, made: Applied | Offspring, *parents: Configuration) -> tuple[Variant, Resolved] | None:
        """What a variant would be built from at its first trial; ``None`` where its tunables do not fit."""
        try:
            seed = inherited(joined(self._space, made.parameters, made.constraints, {}), parents)
            space = joined(self._space, made.parameters, made.constraints, seed)
        except SpecError:
            return None
        return made.variant, replace(space.resolve(seed), launch=made.variant.launch)

    def _propose(self, action: Propose, blobs: dict[str, bytes]) -> dict[str, Any] | None:
        """A new variant as a ``variant`` event holds it, or ``None``; its texts go to ``blobs``."""
        state = self._state
        evolution = self.informed()
        # What earlier runs advised and one trial spoke against may be bred again, with other sizes.
        known = {v.structure for v in state.variants.values() if not v.aside}
        if action.proposer == LIBRARY:
            advice = state.advice[state.advised]
            found = advised(evolution, self._task.kernel.variant, advice, known)
            return None if found is None else self._recorded(found, blobs)
        number = action.number - state.advised
        rng = stream(state.settings.seed, "variant", number)
        bred = evolution.ask(number, rng, known, action.proposer)
        return None if bred is None else self._recorded(bred, blobs)

    def _receive(self, action: Receive, blobs: dict[str, bytes]) -> dict[str, Any]:
        """What a reply gives: ``made`` as in a ``variant`` event, and what is said of the reply."""
        taken = {d.name for d in self._space.dimensions} | set(self._space.sizes)
        call = self._state.exchanges.calls[action.call]
        bred, said = consultant.receive(self._state, self.informed(), call, taken)
        made = None if bred is None else self._recorded(bred, blobs)
        if bred is not None and made is None:
            said["problems"] = ["the tunables do not go with those of the spec"]
        return {"made": made, **said}

    def _reduce(self, action: Reduce, blobs: dict[str, bytes]) -> dict[str, Any] | None:
        """A variant without one of its edits, as a ``variant`` event holds it, or ``None``."""
        evolution = self.informed()
        parent = self._state.variants[action.variant]
        offspring = evolution.reduce(parent.variant, action.edit)
        if offspring is None:
            return None
        cell = evolution.cell_of(offspring.variant)
        made = _made(offspring, blobs, parents=(parent.number,), island=parent.island, cell=cell)
        best = self._state.trials[action.trial].proposal.configuration
        return self._with_seed(made, offspring, (best,), blobs)

    def _recorded(self, bred: Bred, blobs: dict[str, bytes]) -> dict[str, Any] | None:
        made = _made(bred.offspring, blobs, parents=bred.parents, island=bred.island, cell=bred.cell)
        return self._with_seed(made, bred.offspring, bred.configurations, blobs)

    def _with_seed(
        self,
        made: dict[str, Any],
        offspring: Offspring,
        parents: Sequence[Configuration],
        blobs: dict[str, bytes],
    ) -> dict[str, Any] | None:
        try:
            space = joined(self._space, offspring.parameters, offspring.constraints, {})
        except SpecError:
            # A tunable may have a name that the spec's own space has taken.
            return None
        seed = inherited(space, parents)
        made["seed"] = {name: pack_text(value, blobs, digest) for name, value in sorted(seed.items())}
        return made

    def informed(self) -> Evolution:
        """Archive and proposer, told of all that was judged so far."""
        if self._evolution is None:
            self._evolution = _evolution(self._task, self._state.settings, _whole(self._space))
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
        own = self._state.variants[one.variant]
        return Judged(
            number=own.number,
            variant=self._task.kernel.variant if own.number == ORIGINAL else own.variant,
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


def describe_original(task: Task, settings: RunSettings) -> dict[str, Any]:
    """The source as given, for the ``start`` event of a run that evolves it.

    Raises:
        SpecError: its regions are wrong.
        UsageError: there is no such proposer.
    """
    structure, cell = _evolution(task, settings, {}).describe_original()
    return {"digest": task.kernel.variant.digest, "structure": structure, "cell": list(cell)}


def refusals_of(task: Task, space: Space) -> dict[str, Any]:
    """What operators refuse in the source as given, for the ``start`` event: the end of the run may hang on it."""
    original = read_program(task.kernel, launch=task.launch)
    reassociate = permitted([{"reassociate": True}], task.verify.numerics)
    return survey(original, reassociate=reassociate, values=_whole(space))


def _whole(space: Space) -> dict[str, int]:
    """The spec's own tunables that the compiler is given, at their defaults."""
    return {p.name: p.default for p in space.parameters if p.macro and type(p.default) is int}


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
