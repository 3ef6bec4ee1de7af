"""The remix proposer: new variants from old ones with source transformations. It is not an LLM and needs none.

What it proposes is a pure function of the outcomes it was told, the parents and the random stream. May not build, run
or time anything.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tuner.core.canonical import canonical_json
from tuner.core.types import Configuration, Kernel, Launch, Variant
from tuner.search.cooking import Attempt, cook, try_operator
from tuner.search.opening import opened
from tuner.search.recipes import SHAPED, recipes_for
from tuner.spaces.parameters import Parameter
from tuner.spaces.source.configuring import configuring
from tuner.spaces.source.edits import (
    Applied,
    Edit,
    applied,
    apply_edits,
    crossover,
    each_without,
    permitted,
    without,
)
from tuner.spaces.source.identity import structure_digest
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program, read_program

__all__ = [
    "RECIPE",
    "ExpectingProposer",
    "InformedProposer",
    "Offspring",
    "Outcome",
    "Proposer",
    "RemixProposer",
]

RECIPE = "recipe/"
"""How names of moves begin that are recipes."""

_UNCHECKED_SHARE = 0.03
_PRIOR_TRIES = 2.0
_PRIOR_GAIN = 0.05
_KEPT = 64
_UNTRIED = 3.0
_FITTING = 4.0
_APPLIES_NOWHERE = 0.05
_GIVES_KNOWN = 0.5
_RECIPE_SHARE = 8.0
_OPENED_SHARE = 0.75
_DEFAULTS_SHARE = 0.7
_UNEXPECTED = 0.2
"""What a move is taken to be worth that no earlier run has tried."""
_SHARPNESS = 4.0
_PAID = 0.05
"""Gain from which a move has paid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offspring:
    """A proposed variant.

    Attributes:
        variant: its files and edits.
        parameters: all tunables that its edits added.
        constraints: on those.
        origin: how it was made: an operator's or recipe's name, ``crossover`` or ``drop``.
        parents: digests of the variants that it was made from.
        structure: :func:`tuner.spaces.source.identity.structure_digest`.
        checked: whether every edit is shown to keep results; else only the verification stands in between.
        note: what the edits assume; plain JSON.
    """

    variant: Variant
    parameters: tuple[Parameter, ...]
    constraints: tuple[str, ...]
    origin: str
    parents: tuple[str, ...]
    structure: str
    checked: bool
    note: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of an offspring.

    Attributes:
        origin: as in the offspring.
        gain: logarithm of its parent's time over its own, both tuned; ``None`` where it failed.
    """

    origin: str
    gain: float | None


@runtime_checkable
class Proposer(Protocol):
    """Proposes variants. Entry point group ``tuner.proposers``; made with a kernel and a numerics policy."""

    name: str

    def propose(
        self, parents: Sequence[Variant], rng: np.random.Generator, known: Collection[str] = ()
    ) -> Offspring | None:
        """One new variant, or ``None`` where none was found.

        Args:
            parents: at least one; the first counts most. A variant without edits is the original.
            rng: the only source of chance.
            known: structures that are not wanted again.
        """
        ...

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Learns what paid."""
        ...


@runtime_checkable
class InformedProposer(Proposer, Protocol):
    """A :class:`Proposer` that also looks at what its parents' spaces were found to be best at."""

    def propose_informed(
        self,
        parents: Sequence[Variant],
        configurations: Sequence[Configuration],
        rng: np.random.Generator,
        known: Collection[str] = (),
    ) -> Offspring | None:
        """As :meth:`Proposer.propose`.

        Args:
            parents: as there.
            configurations: the best one of each parent.
            rng: as there.
            known: as there.
        """
        ...


@runtime_checkable
class ExpectingProposer(Proposer, Protocol):
    """A :class:`Proposer` that learns from what moves were worth in other kernels."""

    def expect(self, worths: Mapping[str, float]) -> None:
        """Takes them in.

        Args:
            worths: by move, -1 to 1: parts of the gains that those kernels had.
        """
        ...


class RemixProposer:
    """An :class:`InformedProposer` that needs no LLM.

    Args:
        kernel: as given.
        numerics: ``exact``, ``reassociate`` or ``approximate``, as in the spec.
        attempts: how often a move is tried before it gives up.
        launch: of the kernel, where it has one.
        tunables: the spec's own that the compiler is given, with their defaults.

    Raises:
        SpecError: the kernel's regions are wrong.
    """

    name = "remix"

    def __init__(
        self,
        kernel: Kernel,
        numerics: str = "exact",
        *,
        attempts: int = 96,
        launch: Launch | None = None,
        tunables: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._tunables = dict(tunables)
        self._original = read_program(kernel, launch=launch)
        self._reassociate = permitted([{"reassociate": True}], numerics)
        self._numerics = numerics
        self._openmp = self._original.entry.openmp
        self._recipes = recipes_for(self._original.language, openmp=self._openmp)
        self._attempts = attempts
        self._gains: dict[str, list[float]] = {}
        self._expected: Mapping[str, float] = {}
        self._kept: dict[str, Applied] = {}
        self._lesser: dict[str, dict[str, int]] = {}

    @property
    def weights(self) -> Mapping[str, float]:
        """How often each move is tried, relative to the others."""
        language = self._original.language
        operators = [
            n
            for n, o in OPERATORS.items()
            if not o.opens and language in o.languages and (not o.openmp or self._openmp)
        ]
        names = [*operators, *(f"{RECIPE}{r}" for r in self._recipes), "crossover", "drop"]
        return MappingProxyType({n: self._weight(n) for n in names})

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Learns what paid: the mean positive gain of a move raises its weight, failures lower it."""
        for outcome in outcomes:
            gain = 0.0 if outcome.gain is None else min(max(outcome.gain, 0.0), 2.0)
            self._gains.setdefault(outcome.origin, []).append(gain)

    def expect(self, worths: Mapping[str, float]) -> None:
        """Moves that paid in other kernels are likelier from now on, as long as what is expected comes true here."""
        self._expected = dict(worths)

    def propose(
        self, parents: Sequence[Variant], rng: np.random.Generator, known: Collection[str] = ()
    ) -> Offspring | None:
        """One new variant that differs in structure from all that are known and from its parents."""
        return self.propose_informed(parents, (), rng, known)

    def propose_informed(
        self,
        parents: Sequence[Variant],
        configurations: Sequence[Configuration],
        rng: np.random.Generator,
        known: Collection[str] = (),
    ) -> Offspring | None:
        """The same; conditionals are decided as the first parent's configuration has it, or by the defaults."""
        best = configurations[0] if configurations else {}
        bases = [self._read(p.edits) for p in parents]
        seen = set(known) | {structure_digest(b.program) for b in bases} | {structure_digest(self._original)}
        weights = dict(self.weights)
        if len(bases) < 2:
            weights.pop("crossover")
        for _ in range(self._attempts):
            names = list(weights)
            chances = np.array([weights[n] for n in names])
            move = names[int(rng.choice(len(names), p=chances / chances.sum()))]
            made = self._move(move, bases, best, rng)
            if made is None:
                # It may be a matter of chance, but rather that it applies nowhere.
                weights[move] *= _APPLIES_NOWHERE
                continue
            structure = structure_digest(made.program)
            if structure in seen or not permitted(made.variant.edits, self._numerics):
                weights[move] *= _GIVES_KNOWN
                continue
            return self._plain(made, move, parents, structure)
        return None

    def _plain(self, made: Applied, move: str, parents: Sequence[Variant], structure: str) -> Offspring:
        """The offspring; where its new edits only undo one of the parent's, by leaving that one out instead."""
        edits = parents[0].edits
        if move in ("drop", "crossover") or not edits:
            return _offspring(made, move, parents, structure)
        number = self._structures_without(edits).get(structure)
        if number is None:
            return _offspring(made, move, parents, structure)
        found = _offspring(without(self._original, edits, {number}), "drop", parents, structure)
        return replace(found, note={**found.note, "undoes": edits[number]["op"], "by": move})

    def _structures_without(self, edits: Sequence[Edit]) -> Mapping[str, int]:
        """What a parent is without each of its edits, by structure; kept, as it costs more than an offspring."""
        key = canonical_json([dict(e) for e in edits])
        found = self._lesser.pop(key, None)
        if found is None:
            found = {}
            for number, shorter in enumerate(each_without(self._original, edits)):
                found.setdefault(structure_digest(shorter.program), number)
        self._lesser[key] = found
        if len(self._lesser) > _KEPT:
            del self._lesser[next(iter(self._lesser))]
        return found

    def _weight(self, name: str) -> float:
        return self._learnt(name) * self._foreseen(name)

    def _foreseen(self, name: str) -> float:
        """By how much other kernels make a move likelier that was not tried here; what was tried speaks for itself."""
        if not self._expected or self._gains.get(name):
            return 1.0
        ahead = self._expected.get(name, _UNEXPECTED) - _UNEXPECTED
        return math.exp(_SHARPNESS * self._trust() * ahead)

    def _trust(self) -> float:
        """1; half for each move that was expected to pay and did not, since the last one that did."""
        found = 0
        for move, gains in self._gains.items():
            if self._expected.get(move, 0.0) > _UNEXPECTED:
                found = 0 if max(gains) > _PAID else found + 1
        return 0.5**found

    def _learnt(self, name: str) -> float:
        gains = self._gains.get(name, [])
        mean = (sum(gains) + _PRIOR_TRIES * _PRIOR_GAIN) / (len(gains) + _PRIOR_TRIES)
        if not gains and name.startswith(RECIPE):
            # Every recipe is looked at early: what a kernel needs shows at the first try.
            fitting = name.removeprefix(RECIPE) in SHAPED
            mean *= _UNTRIED * (_FITTING if fitting else 1.0)
        operator = OPERATORS.get(name)
        if operator is not None and operator.raw:
            return _UNCHECKED_SHARE * mean
        return mean * (_RECIPE_SHARE if name.startswith(RECIPE) else 1.0)

    def _read(self, edits: Sequence[Edit]) -> Applied:
        """A parent's program; the last few are kept, because parents come back."""
        key = canonical_json([dict(e) for e in edits])
        found = self._kept.pop(key, None)
        self._kept[key] = found = found or apply_edits(self._original, edits)
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return found

    def _move(
        self, move: str, bases: Sequence[Applied], best: Configuration, rng: np.random.Generator
    ) -> Applied | None:
        base = bases[0]
        edits = base.variant.edits
        if move == "drop":
            return without(self._original, edits, {int(rng.integers(len(edits)))}) if edits else None
        if move == "crossover":
            other = bases[1 + int(rng.integers(len(bases) - 1))].variant.edits
            cut = (int(rng.integers(len(edits) + 1)), int(rng.integers(len(other) + 1)))
            return crossover(self._original, edits, other, cut)
        attempt = Attempt(program=base.program, edits=(), rng=rng, reassociate=self._reassociate)
        recipe = self._recipes.get(move.removeprefix(RECIPE)) if move.startswith(RECIPE) else None
        starts = [(attempt, edits)]
        if recipe is not None:
            starts.append((replace(attempt, program=self._original), ()))
            if move not in self._gains:
                # What a recipe is worth shows where no other one has been before, so its first try begins there.
                starts.reverse()
        for start, before in self._opened(starts, best, rng):
            made = try_operator(start, move) if recipe is None else cook(recipe, start)
            if made is not None and len(made.edits) > len(start.edits):
                return applied(made.program, (*before, *made.edits))
            if made is not None and not start.edits:
                return None
        return None

    def _opened(
        self, starts: Sequence[tuple[Attempt, Sequence[Edit]]], best: Configuration, rng: np.random.Generator
    ) -> Iterator[tuple[Attempt, Sequence[Edit]]]:
        """Each beginning, mostly with what hides its loops out of the way first."""
        for start, before in starts:
            found = opened(start, self._values(start.program, best, rng))
            if found is not None and rng.random() < _OPENED_SHARE:
                yield found, before
            yield start, before

    def _values(self, program: Program, best: Configuration, rng: np.random.Generator) -> dict[str, int]:
        """The tunables that conditionals hang on: their defaults, or what the parent is best at."""
        edit = configuring(program, self._tunables)
        defaults: dict[str, int] = {} if edit is None else dict(edit["values"])
        found = {n: v for n, v in best.items() if n in defaults and type(v) is int}
        values = {**defaults, **found}
        return defaults if values != defaults and rng.random() < _DEFAULTS_SHARE else values


def _offspring(made: Applied, move: str, parents: Sequence[Variant], structure: str) -> Offspring:
    assumed = {a for e in made.variant.edits for a in e.get("assumes", ())}
    return Offspring(
        variant=made.variant,
        parameters=made.parameters,
        constraints=made.constraints,
        origin=move,
        parents=tuple(p.digest for p in parents),
        structure=structure,
        checked=made.checked,
        note={"assumes": sorted(assumed)} if assumed else {},
    )
