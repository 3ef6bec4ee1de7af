"""Variants of the source after what won in earlier runs of other kernels, and what a run keeps for later ones.

What is advised is written down with the edits that apply here, so that a replay derives nothing of it again. May not
judge: what becomes of advice is for the plan to say.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from tuner.core.streams import stream
from tuner.core.types import BASELINE, Configuration, Task, Value, Variant
from tuner.cost_models.code_worth import Coded, code_worths
from tuner.cost_models.library import Entry, distance
from tuner.cost_models.promise import Tried, chosen, of_moves, promises, worth
from tuner.driver.state.advice import Advice
from tuner.driver.state.lineage import ORIGINAL, VariantState
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import LIBRARY
from tuner.search.evolution import Bred, Evolution
from tuner.search.offers import Winner, offers
from tuner.search.porting import stages_of
from tuner.search.recalling import SOURCE
from tuner.search.remix import RECIPE, Offspring
from tuner.spaces.source import embedding
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits, permitted
from tuner.spaces.source.identity import structure_digest
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program, read_program
from tuner.spaces.space import PASSES, Space

__all__ = ["Advised", "advise", "advised", "expected", "kept_edits"]

MOST = 4
"""Variants that earlier runs may advise."""

_LOOKED = 6
"""Earlier runs, the nearest, whose winners are carried over."""

_VARIANTS = 48
"""Variants of a run that are kept, the best."""

_DIGITS = 4
_CODE_DIGITS = 2

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


def kept_edits(state: RunState, task: Task) -> dict[str, Any]:
    """What an entry of the library says of the source: fields of :class:`Entry`. Empty where the source stays."""
    if state.settings.evolution is None:
        return {}
    program = read_program(task.kernel, launch=task.launch)
    about = {"structure": structure_digest(program), "shape": _shape(program)}
    trial = state.trials[BASELINE if state.chosen is None else state.chosen]
    variant = state.variants[trial.variant]
    best = None if state.best is None else state.trials[state.best].score
    if variant.number == ORIGINAL or best is None or best >= 0.0:
        return about
    configuration = trial.proposal.configuration
    tried = [
        v
        for v in state.variants.values()
        if v.number != ORIGINAL and (v.reached or v.vain) and v.purpose == "propose"
    ]
    tried.sort(key=lambda v: (math.inf if v.score is None else v.score, v.number))
    return {
        **about,
        "chosen": dict(configuration),
        "steps": tuple(stages_of(program, variant.edits, configuration)),
        "moves": tuple(_moves(state, variant)),
        "variants": tuple((_shape_of(task, v.variant), worth(v.score, best)) for v in tried[:_VARIANTS]),
        "paid": _paid(tried, best),
        **_codes(state, best),
    }


def _codes(state: RunState, best: float) -> dict[str, Any]:
    """What variants were built to at their first trials, what was taken from winners for a look among them."""
    found: list[tuple[Features, float]] = []
    for variant in state.variants.values():
        trial = state.trials[variant.trials[0]] if variant.trials else None
        if trial is None or trial.score is None or not trial.build or not trial.build.get("features"):
            continue
        found.append((trial.build["features"], worth(trial.score, best)))
    found = sorted(found, key=lambda one: -one[1])[:_VARIANTS]
    columns = sorted({name for features, _ in found for name in features})
    return {
        "columns": tuple(columns),
        "codes": tuple(
            (tuple(round(features.get(n, 0.0), _CODE_DIGITS) for n in columns), round(value, _DIGITS))
            for features, value in found
        ),
    }


def _paid(tried: Sequence[VariantState], best: float) -> dict[str, float]:
    """What the variants of each move were worth in the mean."""
    found: dict[str, list[float]] = {}
    for variant in tried:
        if variant.origin in OPERATORS or variant.origin.startswith(RECIPE):
            found.setdefault(variant.origin, []).append(worth(variant.score, best))
    return {move: round(fmean(worths), _DIGITS) for move, worths in sorted(found.items())}


def _shape(program: Program) -> tuple[float, ...]:
    return tuple(round(value, _DIGITS) for value in embedding.embed(program))


def _shape_of(task: Task, variant: Variant) -> tuple[float, ...]:
    return _shape(read_program(task.kernel, variant, launch=variant.launch or task.launch))


def _moves(state: RunState, variant: VariantState) -> Iterator[str]:
    """How a variant and its first parents were made, oldest first."""
    if variant.parents:
        yield from _moves(state, state.variants[variant.parents[0]])
        yield variant.origin


def advise(
    task: Task, space: Space, like: Entry, entries: Sequence[Entry], seed: int, examine: Examine
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
    """
    program = read_program(task.kernel, launch=task.launch)
    numerics = task.verify.numerics
    near = _near(like, entries)
    if not near:
        return []
    found = list(_seen_before(program, like, near, numerics))
    winners = [Winner(steps=e.steps, moves=e.moves) for _, e in near[:_LOOKED]]
    pool = offers(program, numerics, winners, stream(seed, "advice"))
    known = [Tried(shape=e.shape, apart=apart, variants=e.variants) for apart, e in near]
    shapes = [_shape_of(task, made.variant) for made in pool]
    values, sources = promises(like.shape, shapes, known)
    configuration = _agreed(space, [entry.chosen for _, entry in near[:_LOOKED]])
    best = _by_code(like, near, [(made, configuration) for made in pool], examine)
    if best is None:
        best = chosen(like.shape, shapes, values.tolist(), MOST)
    found += [
        Advised(made=pool[at], configuration=configuration, entry=entry, distance=apart)
        for at in best
        for apart, entry in [near[sources[at]]]
    ]
    return found[:MOST]


def _by_code(
    like: Entry,
    near: Sequence[tuple[float, Entry]],
    pool: Sequence[tuple[Applied, Configuration]],
    examine: Examine,
) -> list[int] | None:
    """The variants of the most promising codes, best first; ``None`` where nothing can be said by code."""
    known = [Coded(baseline=e.features, columns=e.columns, codes=e.codes) for _, e in near if e.codes]
    if not known or not like.features:
        return None
    features = dict(enumerate(examine(pool)))
    able = [(at, found) for at, found in features.items() if found]
    values = code_worths(like.features, [found for _, found in able], known)
    if values is None:
        return None
    order = np.argsort(-values, kind="stable")[:MOST]
    return [able[n][0] for n in order if values[n] > 0.0]


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
    """By code and by source; entries of earlier versions say nothing of their source."""
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
