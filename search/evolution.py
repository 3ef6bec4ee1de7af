"""Which variants to breed: an archive of what they reached, parents drawn from it, a proposer that makes offspring.

Everything here follows from the judgements told, in order, and the random streams handed in. May not build, run or
time anything, nor say how long a variant is tuned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tuner.core.types import Configuration, Kernel, Launch, Variant
from tuner.search.archive import Archive, Elite
from tuner.search.remix import (
    ExpectingProposer,
    InformedProposer,
    Offspring,
    Outcome,
    Proposer,
    RemixProposer,
)
from tuner.spaces.source.configuring import frozen
from tuner.spaces.source.descriptors import describe
from tuner.spaces.source.edits import apply_edits, without
from tuner.spaces.source.embedding import Embedding, distance, embed
from tuner.spaces.source.identity import structure_digest
from tuner.spaces.source.regions import Program, read_program

__all__ = ["Bred", "Evolution", "Judged"]

_PARENTS = 2

_ALIKE = 0.004
"""Distance under which two programs are much alike: one unrolled loop more of many, another pragma."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A variant with what it reached.

    Attributes:
        number: of the variant, for ties.
        variant: its texts and edits.
        origin: how it was made.
        parents: numbers of its parents.
        island: that it was born on.
        structure, cell: as in the archive.
        score: logarithm of its tuned time over the baseline's; ``None`` where all of it failed.
        configuration: that reached the score.
        first: whether it was not judged before.
        twin: whether its compiled code was the same as another variant's from its first trial on.
    """

    number: int
    variant: Variant
    origin: str
    parents: tuple[int, ...]
    island: int
    structure: str
    cell: tuple[int, ...]
    score: float | None
    configuration: Configuration = field(default_factory=dict)
    first: bool = True
    twin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bred:
    """An offspring with where it comes from.

    Attributes:
        offspring: the variant and its tunables.
        parents: numbers of the variants that it was made from.
        configurations: the best of each parent.
        island: of the parents.
        cell: what kind of variant it is.
    """

    offspring: Offspring
    parents: tuple[int, ...]
    configurations: tuple[Configuration, ...]
    island: int
    cell: tuple[int, ...]


class Evolution:
    """Archive and proposer of one run.

    Args:
        kernel: as given.
        numerics: ``exact``, ``reassociate`` or ``approximate``.
        islands: of the archive.
        migration: judged variants between two migrations.
        patience: variants that an island may go without getting better.
        proposers: by name, beside or instead of the remix operators.
        launch: of the kernel, where it has one.

    Raises:
        SpecError: the kernel's regions are wrong.
    """

    def __init__(
        self,
        kernel: Kernel,
        numerics: str,
        *,
        islands: int = 2,
        migration: int = 12,
        patience: int = 24,
        proposers: Mapping[str, Proposer] | None = None,
        launch: Launch | None = None,
    ) -> None:
        self._kernel = kernel
        self._original = read_program(kernel, launch=launch)
        own = proposers or {RemixProposer.name: RemixProposer(kernel, numerics, launch=launch)}
        self._proposers = dict(own)
        self._migration, self._patience = migration, patience
        self._scores: dict[int, float] = {}
        self._variants: dict[int, Variant] = {0: kernel.variant}
        self._embedded: dict[int, Embedding] = {}
        self._judged = 0
        self.archive = Archive.empty(islands)

    @property
    def original(self) -> Program:
        """The sources as given."""
        return self._original

    def describe_original(self) -> tuple[str, tuple[int, ...]]:
        """Structure and cell of the source as given."""
        return structure_digest(self._original), describe(self._original)

    def tell(self, judged: Sequence[Judged]) -> None:
        """Learns what variants have reached, in the order in which they were judged."""
        for one in judged:
            if one.first and one.number:
                outcome = Outcome(origin=one.origin, gain=self._gain(one))
                for proposer in self._proposers.values():
                    proposer.tell([outcome])
            if one.score is None:
                continue
            self._scores[one.number] = one.score
            self._variants[one.number] = one.variant
            if one.twin:
                # The same code by another way is no other kind of variant.
                continue
            self._offer(one)
            self._judged += 1
            if self._judged % self._migration == 0:
                self.archive = self.archive.migrate().restart_stagnant(self._patience)

    def expect(self, worths: Mapping[str, float]) -> None:
        """Takes in what moves were worth in other kernels; proposers that learn from that propose by it from now on."""
        for proposer in self._proposers.values():
            if isinstance(proposer, ExpectingProposer):
                proposer.expect(worths)

    def parents(self, number: int, count: int, rng: np.random.Generator) -> tuple[int, list[Elite]]:
        """Whose turn it is: an island, and different elites of it; changes nothing.

        Args:
            number: how many times parents were asked for before.
            count: of elites at most.
            rng: the only source of chance.
        """
        island = number % len(self.archive.islands)
        return island, self.archive.parents(island, count, rng)

    def adopted(
        self, offspring: Offspring, *, parent: int, island: int, configuration: Configuration
    ) -> Bred:
        """A variant that was made elsewhere, from one parent."""
        return Bred(
            offspring=offspring,
            parents=(parent,),
            configurations=(configuration,),
            island=island,
            cell=self.cell_of(offspring.variant),
        )

    def ask(
        self,
        number: int,
        rng: np.random.Generator,
        known: Collection[str],
        proposer: str = RemixProposer.name,
    ) -> Bred | None:
        """A new variant, or ``None`` where none was found; changes nothing.

        Args:
            number: how many were asked for before.
            rng: the only source of chance.
            known: structures of all variants so far.
            proposer: whom to ask, by name.
        """
        island, elites = self.parents(number, _PARENTS, rng)
        if not elites:
            return None
        parents = [self._variants[e.born] for e in elites]
        best = [e.configuration for e in elites]
        offspring = self._most_novel(self._proposers[proposer], parents, best, rng, known)
        if offspring is None:
            return None
        fixed = frozen(offspring.variant.edits)
        # Only a crossover has the second one in it.
        used = elites if offspring.origin == "crossover" else elites[:1]
        return Bred(
            offspring=offspring,
            parents=tuple(e.born for e in used),
            configurations=tuple({**e.configuration, **fixed} for e in used),
            island=island,
            cell=describe(apply_edits(self._original, offspring.variant.edits).program),
        )

    def _most_novel(
        self,
        proposer: Proposer,
        parents: Sequence[Variant],
        best: Sequence[Configuration],
        rng: np.random.Generator,
        known: Collection[str],
    ) -> Offspring | None:
        """An offspring; where it is much like a variant that is known, the less alike of two."""

        def propose(taken: Collection[str]) -> Offspring | None:
            if isinstance(proposer, InformedProposer):
                return proposer.propose_informed(parents, best, rng, taken)
            return proposer.propose(parents, rng, taken)

        first = propose(known)
        if first is None or self._apart(first) >= _ALIKE:
            return first
        second = propose({*known, first.structure})
        return second if second is not None and self._apart(second) > self._apart(first) else first

    def _apart(self, offspring: Offspring) -> float:
        """How far an offspring is from the variant that is most like it."""
        own = self._embed(offspring.variant)
        for number, variant in self._variants.items():
            if number not in self._embedded:
                self._embedded[number] = self._embed(variant)
        return min((distance(own, e) for e in self._embedded.values()), default=1.0)

    def _embed(self, variant: Variant) -> Embedding:
        # Reading a text is much cheaper than applying its edits again, which a resumed run would do for all variants.
        launch = variant.launch or self._original.entry.launch
        return embed(read_program(self._kernel, variant, launch=launch))

    def reduce(self, variant: Variant, edit: int) -> Offspring | None:
        """A variant without one of its edits and without those that no longer apply then; ``None`` if nothing goes."""
        made = without(self._original, variant.edits, {edit})
        structure = structure_digest(made.program)
        if len(made.variant.edits) >= len(variant.edits):
            return None
        return Offspring(
            variant=made.variant,
            parameters=made.parameters,
            constraints=made.constraints,
            origin="ablation",
            parents=(variant.digest,),
            structure=structure,
            checked=made.checked,
        )

    def cell_of(self, variant: Variant) -> tuple[int, ...]:
        """What kind of variant it is."""
        return describe(apply_edits(self._original, variant.edits).program)

    def _gain(self, one: Judged) -> float | None:
        if one.score is None:
            return None
        scores: Mapping[int, float] = self._scores
        return min((scores[p] for p in one.parents if p in scores), default=0.0) - one.score

    def _offer(self, one: Judged) -> None:
        assert one.score is not None
        elite = Elite(
            edits=one.variant.edits,
            structure=one.structure,
            cell=one.cell,
            score=one.score,
            configuration=one.configuration,
            born=one.number,
        )
        # The source as given is where every island begins.
        islands = range(len(self.archive.islands)) if one.number == 0 else (one.island,)
        for island in islands:
            self.archive, _ = self.archive.add(island, elite)
