"""The archive: a MAP-Elites grid on each of several islands, as values that never change.

A cell keeps the best variant of its kind and a few that are slightly worse, because edits that are bad alone are good
together. Every change gives a new archive, so an archive is a fold over what was told. May not propose or measure.

Source: Mouret and Clune, "Illuminating search spaces by mapping elites" (2015); islands with migration as in Whitley,
Rana and Heckendorn, "The island model genetic algorithm" (1999).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.core.errors import UsageError
from tuner.core.types import Configuration
from tuner.spaces.source.edits import Edit

__all__ = ["Archive", "Elite"]

Cell = tuple[int, ...]
"""A descriptor, one level for each axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elite:
    """A variant that is kept.

    Attributes:
        edits: that make it of the original.
        structure: its normalised tree's digest, equal for what is the same program.
        cell: what kind of variant it is.
        score: logarithm of its tuned time over the baseline's; lower is better.
        configuration: the best that its inner search found.
        born: number of the offspring, for ties.
    """

    edits: tuple[Edit, ...]
    structure: str
    cell: Cell
    score: float
    configuration: Configuration
    born: int

    @property
    def rank(self) -> tuple[float, int]:
        """Sorts the better one first, and of equals the older."""
        return self.score, self.born


@dataclass(frozen=True, slots=True, kw_only=True)
class IslandState:
    """One island.

    Attributes:
        cells: elites by cell, best first.
        since_better: offspring since its best improved.
        restarts: how often it began anew.
    """

    cells: Mapping[Cell, tuple[Elite, ...]]
    since_better: int = 0
    restarts: int = 0

    @property
    def elites(self) -> tuple[Elite, ...]:
        """All of them, best first."""
        return tuple(sorted((e for cell in self.cells.values() for e in cell), key=lambda e: e.rank))


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """All islands.

    Attributes:
        islands: in order.
        depth: elites that a cell keeps.
        margin: how much worse than its cell's best an elite may be, in log time.
    """

    islands: tuple[IslandState, ...]
    depth: int = 3
    margin: float = 0.1

    @classmethod
    def empty(cls, islands: int, *, depth: int = 3, margin: float = 0.1) -> Archive:
        """An archive without elites.

        Raises:
            UsageError: fewer than one island or elite.
        """
        if islands < 1 or depth < 1 or margin < 0:
            raise UsageError(
                "an archive needs an island, a place in each cell and a margin that is not negative",
                "give at least 1 of each, and a margin of 0 or more",
            )
        return cls(islands=(IslandState(cells={}),) * islands, depth=depth, margin=margin)

    @property
    def best(self) -> Elite | None:
        """Of all islands."""
        found = [e for island in self.islands for e in island.elites[:1]]
        return min(found, key=lambda e: e.rank) if found else None

    def add(self, number: int, elite: Elite) -> tuple[Archive, bool]:
        """Offers a variant to an island; says whether it was kept.

        A structure that the cell has is kept once, with its better score.
        """
        island = self._island(number)
        before = island.elites[:1]
        rivals = [e for e in island.cells.get(elite.cell, ()) if e.structure != elite.structure]
        twin = [e for e in island.cells.get(elite.cell, ()) if e.structure == elite.structure]
        offered = min([elite, *twin], key=lambda e: e.rank)
        kept = sorted([*rivals, offered], key=lambda e: e.rank)[: self.depth]
        kept = [e for e in kept if e.score <= kept[0].score + self.margin]
        better = not before or elite.score < before[0].score
        state = replace(
            island,
            cells={**island.cells, elite.cell: tuple(kept)},
            since_better=0 if better else island.since_better + 1,
        )
        return self._with(number, state), elite in kept

    def parents(self, number: int, count: int, rng: np.random.Generator) -> list[Elite]:
        """Different elites of an island to make an offspring of: a cell at random, then one of its elites.

        Better cells are likelier, by the rank of their best; worse elites of a cell are likelier to be passed over.
        """
        cells = sorted(self._island(number).cells.values(), key=lambda c: c[0].rank)
        found: list[Elite] = []
        while cells and len(found) < count:
            chances = 1.0 / np.arange(1, len(cells) + 1)
            cell = cells.pop(int(rng.choice(len(cells), p=chances / chances.sum())))
            weights = 0.5 ** np.arange(len(cell))
            found.append(cell[int(rng.choice(len(cell), p=weights / weights.sum()))])
        return found

    def migrate(self) -> Archive:
        """Each island's best also goes to the next, in a ring."""
        made = self
        for number, island in enumerate(self.islands):
            for elite in island.elites[:1]:
                target = (number + 1) % len(self.islands)
                since = made.islands[target].since_better
                made, kept = made.add(target, elite)
                if not kept:
                    made = made._with(target, replace(made.islands[target], since_better=since))
        return made

    def restart_stagnant(self, patience: int) -> Archive:
        """Empties islands that have not improved for so many offspring but for the best of all islands.

        The island that holds the best of all is left alone.
        """
        best = self.best
        made = self
        for number, island in enumerate(self.islands):
            if island.since_better < patience or best is None or best in island.elites:
                continue
            fresh = IslandState(cells={best.cell: (best,)}, restarts=island.restarts + 1)
            made = made._with(number, fresh)
        return made

    def _island(self, number: int) -> IslandState:
        if not 0 <= number < len(self.islands):
            raise UsageError(f"there is no island {number}", f"0 to {len(self.islands) - 1}")
        return self.islands[number]

    def _with(self, number: int, state: IslandState) -> Archive:
        islands: Sequence[IslandState] = [state if i == number else s for i, s in enumerate(self.islands)]
        return replace(self, islands=tuple(islands))
