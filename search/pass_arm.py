"""New pipelines from known ones: the variation and selection of the pass-sequence evolution.

A function of the memory and of ``rng``. May not decide for which parameters a pipeline is tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from tuner.core.errors import SpecError
from tuner.core.types import BASELINE
from tuner.search.pass_memory import NOISE, TOGETHER, Individual, PassMemory, pass_names
from tuner.spaces.edits import Edit, EditKind, random_edit, random_pass
from tuner.spaces.passes import PassSpace
from tuner.spaces.pipeline import Leaf, Pipeline

__all__ = ["OPERATORS", "PassArm"]

_STARTUP = 10
_POPULATION = 32
_ALIKE = 3
_TOURNAMENT = 3
_ATTEMPTS = 24
_DRAWS = 4
_FLOOR = 0.02

_KINDS = {
    "insert": EditKind.INSERT,
    "delete": EditKind.DELETE,
    "swap": EditKind.SWAP,
    "replace": EditKind.REPLACE,
    "option": EditKind.SET_OPTION,
}

OPERATORS = ("fresh", "prefix", "several", "crossover", "minimise", *_KINDS)
"""Ways of making a pipeline: anew, by passes in front, by two to four edits, from two, by leaving out, by one edit."""

WHOLE = "whole"
"""LLVM's own pipelines one after the other."""

_TOGETHER_SHARE = 0.7
_IDLE = 0.8
"""How likely known code is where nothing was added but what did nothing elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A new pipeline, how it was made, from which trial, and which passes it has that its parent had not."""

    pipeline: str
    operator: str
    parent: int | None
    added: tuple[str, ...]


class PassArm:
    """Suggests pipelines.

    A steady-state evolution: parents win small tournaments among the best few dozen pipelines, in which equal scores
    (mostly equal objects) are limited, so that neutral and slightly worse ones stay alive. Operators and inserted
    passes are drawn by what they brought so far.

    Args:
        passes: the pass space.
        memory: of the same searcher; read only.
    """

    def __init__(self, passes: PassSpace, memory: PassMemory) -> None:
        self._passes, self._memory = passes, memory
        self._wholes = _whole_pipelines(passes)

    def suggest(
        self,
        rng: np.random.Generator,
        *,
        without: Collection[str],
        stale: Callable[[str], float] = lambda _: 0.0,
    ) -> Variation | None:
        """A pipeline that is not in ``without`` and holds no banned pass; ``None`` when none was found.

        Args:
            rng: source of all randomness.
            without: what was tried already.
            stale: how likely a pipeline is to give known code.
        """
        for whole in self._wholes:
            if whole.pipeline not in without and not self._memory.saw(whole.pipeline):
                return whole
        population = self._population(self._memory.individuals())
        banned = self._memory.banned()
        share = _TOGETHER_SHARE * self._memory.free_share(TOGETHER)
        for _ in range(_ATTEMPTS):
            made: Variation | None
            if rng.random() < share:
                made = self._together(rng, banned)
                share = 0.0 if made is None else share
            else:
                made = self._vary(self._operator(rng, self._memory.known), population, rng)
            if made is None or made.pipeline in without or self._memory.added(made.pipeline) & banned:
                continue
            known = max(stale(made.pipeline), _IDLE if self._memory.does_nothing(made.added) else 0.0)
            if rng.random() >= known and self._passes.is_valid(made.pipeline):
                return made
        return None

    def _together(self, rng: np.random.Generator, banned: frozenset[str]) -> Variation | None:
        group = self._memory.groups.draw(rng, banned)
        if group is None or self._memory.saw(group.pipeline):
            return None
        return Variation(pipeline=group.pipeline, operator=TOGETHER, parent=BASELINE, added=group.names)

    def _operator(self, rng: np.random.Generator, known: int) -> str:
        if known < _STARTUP:
            return "fresh"
        # Known code improves nothing.
        worth = np.array(
            [self._memory.operator_value(n) * (1.0 - self._memory.free_share(n)) for n in OPERATORS]
        )
        share = worth / worth.sum() + _FLOOR
        return OPERATORS[int(rng.choice(len(OPERATORS), p=share / share.sum()))]

    def _population(self, individuals: list[Individual]) -> list[Individual]:
        alike: Counter[float] = Counter()
        kept: list[Individual] = []
        for individual in individuals:
            level = round(individual.effect / NOISE)
            alike[level] += 1
            if alike[level] <= _ALIKE:
                kept.append(individual)
            if len(kept) == _POPULATION:
                break
        return kept

    def _select(self, population: list[Individual], rng: np.random.Generator) -> Individual | None:
        if not population:
            return None
        # The population is sorted: the lowest of a few draws wins.
        return population[int(rng.integers(len(population), size=_TOURNAMENT).min())]

    def _vary(
        self, operator: str, population: list[Individual], rng: np.random.Generator
    ) -> Variation | None:
        parent = None if operator == "fresh" else self._select(population, rng)
        text = self._passes.base if parent is None else parent.pipeline
        try:
            made = self._apply(operator, text, population, rng)
        except SpecError:
            # A foreign pipeline that cannot be edited, or no edit of that kind: draw again.
            return None
        if made is None or made == text:
            return None
        more = Counter(pass_names(made)) - Counter(pass_names(text))
        added = () if operator == "fresh" else tuple(sorted(more))
        return Variation(
            pipeline=made, operator=operator, parent=None if parent is None else parent.trial, added=added
        )

    def _apply(
        self, operator: str, text: str, population: list[Individual], rng: np.random.Generator
    ) -> str | None:
        if operator == "fresh":
            return self._passes.random(rng)
        if operator == "prefix":
            return self._edited(text, EditKind.INSERT, rng, front=True, times=1 + int(rng.integers(3)))
        if operator == "several":
            return self._passes.mutate(text, rng, 2 + int(rng.integers(3)))
        if operator == "crossover":
            other = self._select(population, rng)
            return None if other is None else self._passes.crossover(text, other.pipeline, rng)
        if operator == "minimise":
            return self._shorter(text, rng)
        return self._edited(text, _KINDS[operator], rng)

    def _edited(
        self, text: str, kind: EditKind, rng: np.random.Generator, *, front: bool = False, times: int = 1
    ) -> str:
        catalogue = self._passes.catalogue
        pipeline = self._opened(text, kind, rng, front=front)
        for _ in range(times):
            if kind is EditKind.INSERT:
                leaves = pipeline.leaves()
                at = 0 if front else int(rng.integers(len(leaves) + 1))
                path = leaves[at].path if at < len(leaves) else (leaves[-1].path[0] + 1,)
                edit = Edit(kind=kind, path=(path[0],) if front else path, text=self._pass(rng))
                pipeline = edit.apply(pipeline, catalogue)
            elif kind is EditKind.DELETE:
                pipeline = self._without(pipeline, self._movable(pipeline), rng)
            else:
                pipeline = self._some_edit(pipeline, kind, rng)
        return pipeline.text

    def _opened(self, text: str, kind: EditKind, rng: np.random.Generator, *, front: bool) -> Pipeline:
        """The pipeline; where it is little more than a whole ``default<…>``, often O3 spelt out in its place."""
        pipeline = Pipeline.parse(text)
        bare = text == self._passes.base and len(pipeline.leaves()) < 2
        if not front and bare and (kind is not EditKind.INSERT or rng.random() < 0.5):
            return self._passes.starts[-1]
        return pipeline

    def _some_edit(self, pipeline: Pipeline, kind: EditKind, rng: np.random.Generator) -> Pipeline:
        for _ in range(_ATTEMPTS):
            edit, changed = random_edit(pipeline, self._passes.catalogue, rng)
            if edit.kind is kind:
                return changed
        raise SpecError(f"no {kind} applies to this pipeline")

    def _shorter(self, text: str, rng: np.random.Generator) -> str | None:
        """Without one to three of the passes that it has beyond O3."""
        pipeline = Pipeline.parse(text)
        for _ in range(1 + int(rng.integers(3))):
            extra = self._memory.added(pipeline.text)
            leaves = [leaf for leaf in self._movable(pipeline) if leaf.node.name in extra]
            if not leaves:
                break
            pipeline = self._without(pipeline, leaves, rng)
        return pipeline.text

    def _movable(self, pipeline: Pipeline) -> list[Leaf]:
        catalogue = self._passes.catalogue
        return [leaf for leaf in pipeline.leaves() if catalogue.may_change(leaf.node.name)]

    def _without(self, pipeline: Pipeline, leaves: list[Leaf], rng: np.random.Generator) -> Pipeline:
        if not leaves:
            raise SpecError("the pipeline has no pass that may be left out")
        leaf = leaves[int(rng.integers(len(leaves)))]
        return Edit(kind=EditKind.DELETE, path=leaf.path).apply(pipeline, self._passes.catalogue)

    def _pass(self, rng: np.random.Generator) -> str:
        """One of a few drawn passes, by credit."""
        drawn = [random_pass(self._passes.catalogue, rng) for _ in range(_DRAWS)]
        weights = np.array([self._memory.weight(text.partition("<")[0]) for text in drawn])
        return drawn[int(rng.choice(_DRAWS, p=weights / weights.sum()))]


def _whole_pipelines(passes: PassSpace) -> list[Variation]:
    """Two of LLVM's own pipelines in a row: the second sees loops that the first has unrolled.

    On loops of known length that alone was worth a factor of 14 (a matrix product, LLVM 23).
    """
    firsts = (f"default<O1>,{passes.base}", f"{passes.base},{passes.base}")
    texts = [text for text in firsts if passes.is_valid(text)]
    return [Variation(pipeline=text, operator=WHOLE, parent=BASELINE, added=()) for text in texts]
