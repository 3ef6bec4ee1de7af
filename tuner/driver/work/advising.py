"""Variants of the source after what won in earlier runs of other kernels.

What is advised is written down with the edits that apply here, so that a replay derives nothing of it again. May not
judge: what becomes of advice is for the plan to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuner.core.streams import stream
from tuner.core.types import Configuration, Task, Value, Variant
from tuner.cost_models.code_worth import Coded, code_worths
from tuner.cost_models.library import Entry, distance
from tuner.cost_models.promise import Tried, chosen, of_moves, promises
from tuner.driver.state.advice import Advice
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.settings import LIBRARY
from tuner.driver.work.keeping import shape_of
from tuner.search.evolution import Bred, Evolution
from tuner.search.offers import Winner, offers
from tuner.search.recalling import SOURCE
from tuner.search.remix import Offspring
from tuner.spaces.source import embedding
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits, permitted
from tuner.spaces.source.identity import structure_digest
from tuner.spaces.source.regions import Program, read_program
from tuner.spaces.space import PASSES, Space

__all__ = ["Advised", "Examine", "Pool", "advise", "advised", "expected"]

MOST = 4
"""Variants that earlier runs may advise."""

_LOOKED = 6
"""Earlier runs, the nearest, whose winners are carried over."""

_TOLD = 16
"""Earlier runs, the nearest, whose code says what code is worth."""

Features = Mapping[str, float]

Examine = Callable[[Sequence[tuple[Applied, Configuration]]], Sequence[Features | None]]
"""Static features of what variants build to with the configurations that they begin with.

``None`` for one that does not build or builds to known code; of equal codes the first has the features.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advised:
    """A variant with the earlier run that says most of it, how far that is from this one, and whether it is its own."""

    made: Applied
    configuration: Configuration
    entry: Entry
    distance: float
    same: bool = False


def advise(
    task: Task,
    space: Space,
    like: Entry,
    entries: Sequence[Entry],
    seed: int,
    examine: Examine,
    going: Callable[[], bool],
) -> list[Advised]:
    """Variants by what earlier runs found, the most promising first, :data:`MOST` at most.

    A run of the same source gives its winner as it was. For the rest many variants are made
    (:mod:`tuner.search.offers`), built and ordered by what code like theirs was worth; where code says nothing, by what
    variants were worth whose edits moved their sources alike.

    Args:
        task: of this run.
        space: of its source as given.
        like: what an entry would say of this run so far.
        entries: of the library.
        seed: of the run.
        examine: builds variants.
        going: whether there is time left to make variants.
    """
    pool = Pool.of(task, space, like, entries, seed, going)
    if not pool.near:
        return []
    program = read_program(task.kernel, launch=task.launch)
    found = list(_seen_before(program, like, pool.near, task.verify.numerics))
    best = pool.by_code(examine)
    if best is None:
        best = pool.by_source()
    return [*found, *(pool.advised(at) for at in best)][:MOST]


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Variants that may be advised, none of them timed.

    Attributes:
        like: this run.
        near: earlier runs that tried variants, with their distances, nearest first.
        made: the variants.
        shapes: their sources' numbers.
        configuration: that all of them begin with, as far as they have its tunables.
    """

    like: Entry
    near: Sequence[tuple[float, Entry]]
    made: Sequence[Applied] = ()
    shapes: Sequence[tuple[float, ...]] = ()
    configuration: Configuration = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        task: Task,
        space: Space,
        like: Entry,
        entries: Sequence[Entry],
        seed: int,
        going: Callable[[], bool] = lambda: True,
    ) -> Pool:
        """Arguments as :func:`advise`; empty where no earlier run can say anything."""
        near = _near(like, entries)
        if not near:
            return cls(like=like, near=())
        program = read_program(task.kernel, launch=task.launch)
        winners = [Winner(steps=e.steps, moves=e.moves) for _, e in near[:_LOOKED]]
        made = offers(program, task.verify.numerics, winners, stream(seed, "advice"), going)
        return cls(
            like=like,
            near=near,
            made=made,
            shapes=[shape_of(task, one.variant) for one in made],
            configuration=_agreed(space, [entry.chosen for _, entry in near[:_LOOKED]]),
        )

    def by_code(self, examine: Examine, most: int = MOST) -> list[int] | None:
        """The variants of the most promising codes, best first; ``None`` where nothing can be said by code."""
        told = [e for _, e in self.near[:_TOLD] if e.codes]
        if not told or not self.like.features:
            return None
        # There may not be time for all.
        likely = np.argsort(-self._promises[0], kind="stable").tolist()
        features = examine([(self.made[at], self.configuration) for at in likely])
        able = [(at, found) for at, found in zip(likely, features, strict=True) if found is not None]
        if not able:
            return []
        known = [Coded(baseline=e.features, columns=e.columns, codes=e.codes) for e in told]
        values = code_worths(self.like.features, [found for _, found in able], known)
        if values is None:
            return None
        order = np.argsort(-values, kind="stable")[:most]
        return [able[n][0] for n in order if values[n] > 0.0]

    def by_source(self) -> list[int]:
        """Those that move their source like what was good elsewhere, best first, no near copies of one another."""
        values, _ = self._promises
        return chosen(self.like.shape, self.shapes, values.tolist(), MOST)

    def advised(self, at: int) -> Advised:
        """A variant with the run that says most of its source."""
        apart, entry = self.near[self._promises[1][at]]
        return Advised(made=self.made[at], configuration=self.configuration, entry=entry, distance=apart)

    @cached_property
    def _promises(self) -> tuple[NDArray[np.float64], list[int]]:
        known = [Tried(shape=e.shape, apart=apart, variants=e.variants) for apart, e in self.near]
        return promises(self.like.shape, self.shapes, known)


def expected(like: Entry, entries: Sequence[Entry]) -> dict[str, float]:
    """What each move may be worth here, by what it was worth in earlier runs; those of near kernels count most."""
    return of_moves([(apart, entry.paid) for apart, entry in _near(like, entries)])


def _near(like: Entry, entries: Sequence[Entry]) -> list[tuple[float, Entry]]:
    """Runs that tried variants, with their distances, nearest first."""
    able = [e for e in entries if (e.backend, e.language) == (like.backend, like.language) and e.variants]
    return sorted(((_apart(like, entry), entry) for entry in able), key=lambda one: one[0])


def _agreed(space: Space, winners: Sequence[Configuration]) -> Configuration:
    """What most winners have of the space of the source as given; of as many the nearest's.

    Tunables of other variants may have the names of this one's and mean something else.
    """
    found: dict[str, Value] = {}
    for name in (*(d.name for d in space.dimensions), PASSES):
        values = Counter(winner[name] for winner in winners if name in winner)
        if values:
            found[name] = values.most_common(1)[0][0]
    return found


def _apart(like: Entry, entry: Entry) -> float:
    """By code and by source."""
    shapes = 1.0
    if like.shape and len(like.shape) == len(entry.shape):
        shapes = embedding.distance(like.shape, entry.shape)
    return distance(like, entry) + shapes


def _seen_before(
    program: Program, like: Entry, near: Sequence[tuple[float, Entry]], numerics: str
) -> Iterator[Advised]:
    """The winner of the nearest run of the same source, where this run may have it."""
    for apart, entry in near:
        if like.structure != entry.structure or not entry.edits or not permitted(entry.edits, numerics):
            continue
        try:
            made = apply_edits(program, entry.edits)
        except EditRefused:
            continue
        yield Advised(made=made, configuration=entry.chosen, entry=entry, distance=apart, same=True)
        return


def advised(evolution: Evolution, given: Variant, advice: Advice, known: Collection[str]) -> Bred | None:
    """The variant of a piece of advice; ``None`` where it does not apply or is known.

    Args:
        evolution: of the run.
        given: the source as given.
        advice: of a ``recall`` event.
        known: structures of all variants so far.
    """
    try:
        made = apply_edits(evolution.original, advice.edits)
    except EditRefused:
        return None
    structure = structure_digest(made.program)
    if structure in known:
        return None
    offspring = Offspring(
        variant=made.variant,
        parameters=made.parameters,
        constraints=made.constraints,
        origin=LIBRARY,
        parents=(given.digest,),
        structure=structure,
        checked=made.checked,
        note={SOURCE: advice.source},
    )
    configuration = advice.proposal.configuration
    return evolution.adopted(offspring, parent=ORIGINAL, island=0, configuration=configuration)
