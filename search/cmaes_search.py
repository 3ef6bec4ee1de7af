"""CMA-ES for parameters and flags, by the ``cmaes`` package that Optuna's own sampler drives.

Optuna's sampler keeps its state in attributes of the trials that it proposed itself, so it can learn neither from a
record nor from others' trials. Here each generation is told from the history: its state depends on the observations
alone. The pipeline stays the incumbent's.

Source: Hansen, The CMA Evolution Strategy: A Tutorial, arXiv 1604.00772.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.protocols import Observation
from tuner.core.types import Proposal
from tuner.search.base import SearcherBase
from tuner.search.domain import Domain, Point
from tuner.spaces.space import Space

__all__ = ["CmaesSearcher", "make"]

_STARTUP = 10
_POPULATION = 6
_SIGMA = 0.3
_CALM_SIGMA = 0.15


class CmaesSearcher(SearcherBase):
    """Each full population of finished trials, whoever proposed them, is one generation.

    An ordered axis is one coordinate from 0 to 1, any other one coordinate for each value, of which the largest
    counts. Only ranks matter to CMA-ES: failures rank behind everything with a score.

    Args:
        space: what is searched.
    """

    name = "optuna-cmaes"

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self._cmaes = importlib.import_module("cmaes")
        self._coding = _Coding(self.domain)
        # One coordinate is too few for the package.
        self._usable = self._coding.width > 1
        self._population: list[tuple[NDArray[np.float64], float | None]] = []
        self._restarts = 0
        self._optimizer: Any = None

    def tell(self, observations: Sequence[Observation]) -> None:
        """Learns what became of trials; each full population moves the distribution."""
        before = len(self.history.placed)
        super().tell(observations)
        for observation, point in self.history.placed[before:]:
            if self._optimizer is not None:
                self._population.append((self._sampled(observation.proposal, point), observation.score))
                self._generation()
        if self._optimizer is None and self._usable and len(self.history.placed) >= _STARTUP:
            self._optimizer = self._start(_SIGMA)

    def _generation(self) -> None:
        optimizer = self._optimizer
        if optimizer is None or len(self._population) < optimizer.population_size:
            return
        order = sorted(
            range(len(self._population)),
            key=lambda i: (math.inf if (s := self._population[i][1]) is None else s, i),
        )
        optimizer.tell([(self._population[i][0], float(rank)) for rank, i in enumerate(order)])
        self._population.clear()
        if optimizer.should_stop():
            self._restarts += 1
            self._optimizer = self._start(_SIGMA if self._restarts % 2 else _CALM_SIGMA)

    def _propose(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        pipeline = self.incumbent_pipeline
        proposals: list[Proposal] = []
        taken: set[Point] = set()
        if self._optimizer is None:
            for point in self.pool.draw(rng, count, pipeline=pipeline):
                proposals.append(self._proposal(point, pipeline, None))
            return proposals
        self._optimizer.reseed_rng(int(rng.integers(1 << 31)))
        while len(proposals) < count:
            seen, sampled = self._optimizer.ask()
            wished = self._coding.decode(seen, sampled)
            found = self.pool.nearest(wished, rng, pipeline=pipeline, without=frozenset(taken))
            if found is None:
                break
            taken.add(found)
            exact = np.array_equal(np.round(wished), found)
            proposals.append(self._proposal(found, pipeline, sampled if exact else None))
        return proposals

    def _sampled(self, proposal: Proposal, point: Point) -> NDArray[np.float64]:
        """What was drawn for a trial, else where its point stands."""
        drawn = proposal.note.get("x")
        own = proposal.origin == self.name and isinstance(drawn, list | tuple)
        if own and len(drawn := list(drawn or ())) == self._coding.width:
            return np.array(drawn, dtype=np.float64)
        return self._coding.encode(point)

    def _start(self, sigma: float) -> Any:
        best = self.history.best
        found = None if best is None else self.domain.point(best.proposal.configuration)
        # A start in a corner would waste half of the first samples outside.
        mean = 0.8 * self._coding.encode(self.domain.start if found is None else found) + 0.1
        bounds = np.tile([0.0, 1.0], (self._coding.width, 1))
        return self._cmaes.CMAwM(
            mean=mean,
            sigma=sigma,
            bounds=bounds,
            steps=self._coding.steps,
            seed=0,
            population_size=_POPULATION,
        )

    def _proposal(self, point: Point, pipeline: str | None, sampled: NDArray[np.float64] | None) -> Proposal:
        best = self.history.best
        return Proposal(
            configuration=self.domain.configuration(point, pipeline),
            origin=self.name,
            parent=None if best is None else best.trial,
            note={"how": "uniform or repaired"}
            if sampled is None
            else {"how": "sampler", "x": sampled.tolist()},
        )


class _Coding:
    """Points as coordinates from 0 to 1 and back."""

    def __init__(self, domain: Domain) -> None:
        self._axes = domain.axes
        widths = [0 if a.size < 2 else 1 if a.ordered or a.size == 2 else a.size for a in self._axes]
        self._starts = [sum(widths[:i]) for i in range(len(widths))]
        self._widths = widths
        self.width = sum(widths)
        sizes = [
            1 if w > 1 else a.size - 1 for a, w in zip(self._axes, widths, strict=True) for _ in range(w)
        ]
        self.steps = 1.0 / np.array(sizes, dtype=np.float64)

    def encode(self, point: Point) -> NDArray[np.float64]:
        row = np.zeros(self.width)
        for axis, position, start, width in zip(self._axes, point, self._starts, self._widths, strict=True):
            if width == 1:
                row[start] = position / (axis.size - 1)
            elif width:
                row[start + position] = 1.0
        return row

    def decode(self, row: NDArray[np.float64], drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        """Whole positions; of several values chosen at once, or none, the one that was drawn largest."""
        wished = np.zeros(len(self._axes))
        for i, (axis, start, width) in enumerate(zip(self._axes, self._starts, self._widths, strict=True)):
            if width == 1:
                wished[i] = np.round(row[start] * (axis.size - 1))
            elif width:
                wished[i] = float(np.argmax(drawn[start : start + width]))
        return wished


def make(space: Space) -> CmaesSearcher:
    """The factory behind the name ``optuna-cmaes``.

    Raises:
        ImportError: the package ``cmaes`` is not installed.
    """
    return CmaesSearcher(space)
