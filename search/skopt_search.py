"""scikit-optimize's Gaussian process and forest for parameters and flags; the pipeline stays the incumbent's.

Its ``Optimizer`` is not used: it refits at every tell and proposes outside of the valid set. Its models are fitted
once for a batch and score the listed valid set by expected improvement.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.protocols import Observation
from tuner.core.types import Configuration, Proposal
from tuner.search.base import SearcherBase
from tuner.search.blas import one_thread
from tuner.search.domain import Domain, Point
from tuner.search.nearness import axis_distances, chance, failure_rates
from tuner.search.surrogate import standardise
from tuner.spaces.space import Space

__all__ = ["SkoptSearcher", "make_forest", "make_gp"]

_STARTUP = 10
_CANDIDATES = 1024
_PENDING = 32
_RIVALS = 3


class SkoptSearcher(SearcherBase):
    """Expected improvement under one of scikit-optimize's regressors.

    Failures lower the expected improvement near them. Of a batch, and near pending proposals, later choices are
    discounted by how close they are.

    Args:
        space: what is searched.
        name: the searcher's name.
        estimator: ``"GP"`` or ``"ET"`` (extremely randomised trees).
        trials: how many observations the model is fitted on at most: the best and the latest.
    """

    def __init__(self, space: Space, *, name: str, estimator: str, trials: int) -> None:
        super().__init__(space)
        self.name = name
        self._estimator = estimator
        self._most = trials
        with warnings.catch_warnings():
            # Its imports warn by themselves with some versions of scikit-learn.
            warnings.simplefilter("ignore")
            self._skopt = importlib.import_module("skopt")
            self._utils = importlib.import_module("skopt.utils")
            self._acquisition = importlib.import_module("skopt.acquisition")

    def _propose(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        pipeline = self.incumbent_pipeline
        known = [self.history.placed[i] for i in self.history.telling(self._most)]
        scored = sum(o.score is not None for o, _ in known)
        if len(known) < _STARTUP or scored < 2:
            points = self.pool.draw(rng, count, pipeline=pipeline)
            return [self._proposal(p, pipeline) for p in points]
        seed = int(rng.integers(1 << 31))
        candidates = self.pool.draw(rng, max(_CANDIDATES, 4 * count), pipeline=pipeline)
        best = self.history.best
        around = None if best is None else self.domain.point(best.proposal.configuration)
        if around is not None:
            extra = dict.fromkeys([*candidates, *self.pool.neighbours(around, pipeline=pipeline)])
            candidates = list(extra)
        if not candidates:
            return []
        values = self._values(known, candidates, seed)
        return self._pick(candidates, values, count, pipeline)

    def _values(
        self, known: list[tuple[Observation, Point]], candidates: list[Point], seed: int
    ) -> NDArray[np.float64]:
        """Expected improvement times the chance of not failing."""
        coding = _Coding(self.domain)
        failed = np.array([o.score is None for o, _ in known])
        rows = coding.encode([p for _, p in known])
        scores = standardise(np.array([o.score for o, _ in known if o.score is not None]))
        # A model that is told nothing of failures extrapolates good scores into them, by more than the chance of
        # failing takes away: they count as poor as the worst tenth that worked.
        targets = np.full(len(known), np.quantile(scores, 0.9))
        targets[~failed] = scores
        model = self._model(rows.shape[1], seed)
        wanted = coding.encode(candidates)
        with one_thread(), warnings.catch_warnings():
            # Length scales at their bounds and the like: of no use to the user of a tuner.
            warnings.simplefilter("ignore")
            model.fit(rows, targets)
            improvement = self._acquisition.gaussian_ei(wanted, model, y_opt=float(scores.min()))
        values = np.asarray(improvement, dtype=np.float64)
        if not failed.any():
            return values
        tried = self.domain.array(p for _, p in known) * self.domain.scale
        wished = self.domain.array(candidates) * self.domain.scale
        rates = failure_rates(tried, self.domain.ordered, failed)
        return values * chance(axis_distances(wished, tried, self.domain.ordered), failed, rates)

    def _model(self, width: int, seed: int) -> Any:
        if self._estimator == "GP":
            dimensions = [(0.0, 1.0)] * width
            return self._utils.cook_estimator(
                "GP", space=dimensions, random_state=seed, n_restarts_optimizer=0
            )
        return self._utils.cook_estimator(
            self._estimator, random_state=seed, n_jobs=1, n_estimators=60, min_samples_leaf=2
        )

    def _pick(
        self, candidates: list[Point], values: NDArray[np.float64], count: int, pipeline: str | None
    ) -> list[Proposal]:
        points = self.domain.array(candidates)
        discount = np.ones(len(candidates))
        for proposal in list(self.history.pending.values())[-_PENDING:]:
            pending = self.domain.point(proposal.configuration)
            if pending is not None:
                discount *= self._far(points, pending)
        proposals: list[Proposal] = []
        left = np.ones(len(candidates), dtype=bool)
        for _ in range(min(count, len(candidates))):
            worth = np.where(left, values * discount, -1.0)
            order = np.argsort(-worth, kind="stable")[: 1 + _RIVALS]
            first = int(order[0])
            rivals = tuple(
                (self.domain.configuration(candidates[i], pipeline), float(worth[i]))
                for i in order[1:]
                if left[i]
            )
            proposals.append(self._proposal(candidates[first], pipeline, float(worth[first]), rivals))
            left[first] = False
            discount *= self._far(points, candidates[first])
        return proposals

    def _far(self, points: NDArray[np.int64], point: Point) -> NDArray[np.float64]:
        apart = self.domain.distances(points, np.array(point, dtype=np.float64))
        return np.asarray(1.0 - np.exp(-2.0 * apart))

    def _proposal(
        self,
        point: Point,
        pipeline: str | None,
        value: float | None = None,
        rivals: tuple[tuple[Configuration, float], ...] = (),
    ) -> Proposal:
        best = self.history.best
        note: dict[str, Any] = {"how": "uniform"} if value is None else {"how": "model", "value": value}
        return Proposal(
            configuration=self.domain.configuration(point, pipeline),
            origin=self.name,
            parent=None if best is None or value is None else best.trial,
            note=note,
            rivals=rivals,
        )


class _Coding:
    """Columns from 0 to 1: one for an ordered axis, one for each value of any other."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def encode(self, points: list[Point]) -> NDArray[np.float64]:
        table = self._domain.array(points)
        columns = [np.zeros((len(table), 1))]
        for i, axis in enumerate(self._domain.axes):
            if axis.size < 2:
                continue
            if axis.ordered or axis.size == 2:
                columns.append(table[:, i : i + 1] / (axis.size - 1))
            else:
                columns.append((table[:, i : i + 1] == np.arange(axis.size)).astype(np.float64))
        return np.hstack(columns[1:] or columns)


def make_gp(space: Space) -> SkoptSearcher:
    """The factory behind the name ``skopt-gp``.

    Raises:
        ImportError: scikit-optimize is not installed.
    """
    return SkoptSearcher(space, name="skopt-gp", estimator="GP", trials=150)


def make_forest(space: Space) -> SkoptSearcher:
    """The factory behind the name ``skopt-forest``.

    Raises:
        ImportError: scikit-optimize is not installed.
    """
    return SkoptSearcher(space, name="skopt-forest", estimator="ET", trials=400)
