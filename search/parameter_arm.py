"""Proposals for parameters and flags with a given pipeline, by expected improvement of the surrogate.

A function of the history alone: may not keep anything that it could not make again from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.core.protocols import Observation
from tuner.core.types import Configuration
from tuner.search.blas import one_thread
from tuner.search.domain import PASSES, Domain, Point
from tuner.search.history import History
from tuner.search.pool import Pool
from tuner.search.surrogate import Data, Hyper, Model, fit_hyper

__all__ = ["ParameterArm"]

_TRAINING = 192
_FITTED_ON = 128
_CANDIDATES = 192
_LOCAL = 96
_GROWTH = 1.3
_PENDING = 16
_RIVALS = 3
_DRAWN = 4
_MOVED = 3.0
"""Axes that a step from a good point moves in the mean."""
_WIDE = 12
"""Axes above which a space is one of many. With fewer, steps soon lead no further, and even points do."""
_EVENLY = 32
_TRIES = 8

Chances = Callable[[Sequence[Point]], NDArray[np.float64]]
"""How likely points are to build to known code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A point with how it was found; the rivals are the best-scored others, best first."""

    point: Point
    how: str
    value: float | None = None
    rivals: tuple[tuple[Configuration, float], ...] = ()


class ParameterArm:
    """Suggests untried points.

    Args:
        domain: of the space.
        history: of the searcher that it belongs to; read only.
        pool: of the same searcher; read only.

    Attributes:
        settled: whether the search began at a good point. In a space of many axes nearly all that is drawn evenly is
            worse than it; then first points, and most candidates, are steps from the best.
    """

    def __init__(self, domain: Domain, history: History, pool: Pool) -> None:
        self._domain, self._history, self._pool = domain, history, pool
        self.settled = False
        self._hyper: dict[int, Hyper] = {}
        self._ordered = np.append(domain.ordered, False)
        self.startup = min(10, 3 + len(domain.axes))

    def suggest(
        self,
        rng: np.random.Generator,
        count: int,
        *,
        pipeline: str | None,
        without: frozenset[Point] = frozenset(),
        beside: Sequence[Configuration] = (),
        stale: Chances | None = None,
    ) -> list[Suggestion]:
        """At most ``count`` distinct untried points.

        Args:
            rng: source of all randomness.
            count: how many.
            pipeline: which the points are wanted for.
            without: points that may not come.
            beside: configurations on their way that the history does not know yet.
            stale: with the pipeline; known code cannot improve on itself.
        """
        known = [self._history.placed[i] for i in self._history.telling(_TRAINING)]
        if len(known) < self.startup or all(o.score is None for o, _ in known):
            drawn, how = self._steps(rng, count * _DRAWN, pipeline, without, best=1), "near"
            if not drawn:
                drawn, how = (
                    self._pool.draw(rng, count * _DRAWN, pipeline=pipeline, without=without),
                    "uniform",
                )
            if stale is not None and drawn:
                drawn = [drawn[i] for i in np.argsort(stale(drawn), kind="stable")]
            return [Suggestion(point=p, how=how) for p in drawn[:count]]
        numbers: dict[object, int] = {}
        data = self._data(known, numbers)
        candidates = self._candidates(rng, count, pipeline, without)
        with one_thread():
            model = Model(data, self._fitted())
            model.believe(self._pending(numbers, beside))
            fresh = np.ones(len(candidates)) if stale is None else 1.0 - stale(candidates)
            return self._pick(model, candidates, fresh, count, numbers, pipeline)

    def _pick(
        self,
        model: Model,
        candidates: list[Point],
        fresh: NDArray[np.float64],
        count: int,
        numbers: dict[object, int],
        pipeline: str | None,
    ) -> list[Suggestion]:
        found: list[Suggestion] = []
        while candidates and len(found) < count:
            rows = self._rows([(p, pipeline) for p in candidates], numbers)
            values = model.acquisition(rows) * fresh
            order = np.argsort(-values, kind="stable")[: 1 + _RIVALS]
            first = int(order[0])
            rivals = tuple(
                (self._domain.configuration(candidates[i], pipeline), float(values[i])) for i in order[1:]
            )
            found.append(
                Suggestion(
                    point=candidates[first], how="surrogate", value=float(values[first]), rivals=rivals
                )
            )
            if len(found) < count:
                model.believe(rows[first : first + 1])
                candidates = [*candidates[:first], *candidates[first + 1 :]]
                fresh = np.delete(fresh, first)
        return found

    def _fitted(self) -> Hyper:
        # Refitted each time the history has grown by a third, on a prefix of it: which calls happened to ask must
        # not matter, or a replay that adopts would differ.
        size, upto = len(self._history.placed), self.startup
        while int(upto * _GROWTH) + 1 <= size:
            upto = int(upto * _GROWTH) + 1
        if upto not in self._hyper:
            known = self._history.placed[max(0, upto - _FITTED_ON) : upto]
            self._hyper[upto] = fit_hyper(self._data(known, {}))
        return self._hyper[upto]

    def _data(self, known: list[tuple[Observation, Point]], numbers: dict[object, int]) -> Data:
        rows = self._rows([(p, o.proposal.configuration.get(PASSES)) for o, p in known], numbers)
        scores = np.array([np.nan if o.score is None else o.score for o, _ in known], dtype=np.float64)
        rough = np.array([o.raced for o, _ in known], dtype=bool)
        return Data(points=rows, ordered=self._ordered, scores=scores, rough=rough)

    def _rows(self, points: list[tuple[Point, object]], numbers: dict[object, int]) -> NDArray[np.float64]:
        """Scaled positions with the pipeline's number in the last column."""
        rows = np.empty((len(points), len(self._domain.axes) + 1))
        rows[:, :-1] = self._domain.array(p for p, _ in points) * self._domain.scale
        rows[:, -1] = [numbers.setdefault(pipeline, len(numbers)) for _, pipeline in points]
        return rows

    def _pending(self, numbers: dict[object, int], beside: Sequence[Configuration]) -> NDArray[np.float64]:
        running = [p.configuration for p in list(self._history.pending.values())[-_PENDING:]]
        points: list[tuple[Point, object]] = []
        for configuration in [*running, *beside]:
            point = self._domain.point(configuration)
            if point is not None:
                points.append((point, configuration.get(PASSES)))
        return self._rows(points, numbers)

    def _candidates(
        self, rng: np.random.Generator, count: int, pipeline: str | None, without: frozenset[Point]
    ) -> list[Point]:
        found = dict.fromkeys(
            self._pool.draw(rng, max(_CANDIDATES, 2 * count), pipeline=pipeline, without=without)
        )
        left = self._pool.left(pipeline)
        if left is not None and left <= len(found):
            return list(found)
        near = self._steps(rng, _CANDIDATES, pipeline, without, best=8)
        if near:
            # Far from all that is known the model knows little but its doubt, and in many axes nearly all is far.
            found = dict.fromkeys([*list(found)[: max(_EVENLY, 2 * count)], *near])
        elite = self._history.elite(8)
        for point in elite[:2]:
            found.update(dict.fromkeys(p for p in self._pool.neighbours(point, pipeline=pipeline)[:48]))
        if elite and self._domain.axes:
            for _ in range(_LOCAL):
                point = self._vary(elite, rng)
                if not self._pool.tried(point, pipeline) and self._domain.valid(point):
                    found[point] = None
        return [p for p in found if p not in without]

    def _steps(
        self,
        rng: np.random.Generator,
        count: int,
        pipeline: str | None,
        without: frozenset[Point],
        *,
        best: int,
    ) -> list[Point]:
        """Untried points that differ from good ones in a few of many axes; none before the search is settled."""
        if not self.settled or len(self._domain.axes) <= _WIDE:
            return []
        elite = [p for p in self._history.elite(best) if self._domain.valid(p)]
        found: dict[Point, None] = {}
        for _ in range(_TRIES * count if elite else 0):
            if len(found) >= count:
                break
            point = self._stepped(elite[int(len(elite) * rng.random() ** 2)], rng)
            tried = point in without or self._pool.tried(point, pipeline)
            if not tried and self._domain.valid(point):
                found[point] = None
        return list(found)

    def _stepped(self, point: Point, rng: np.random.Generator) -> Point:
        """Some axes moved, each as likely as any other, at least one (Regis and Shoemaker's DYCORS, 2013)."""
        axes = self._domain.axes
        moving = rng.random(len(axes)) < _MOVED / len(axes)
        moving[int(rng.integers(len(axes)))] = True
        made = list(point)
        for i in np.flatnonzero(moving):
            size = axes[i].size
            if not axes[i].ordered:
                made[i] = (made[i] + 1 + int(rng.integers(max(1, size - 1)))) % size
                continue
            step = max(1, round(abs(rng.normal()) * 0.3 * size))
            up = rng.random() < 0.5
            # Beyond an end there is nothing: then the other way.
            up = up if 0 <= made[i] + (step if up else -step) < size else not up
            made[i] = min(size - 1, max(0, made[i] + (step if up else -step)))
        return tuple(made)

    def _vary(self, elite: list[Point], rng: np.random.Generator) -> Point:
        """A good point crossed with another or with one or two axes moved."""
        point = list(elite[int(len(elite) * rng.random() ** 2)])
        if len(elite) > 1 and rng.random() < 0.3:
            other = elite[int(rng.integers(len(elite)))]
            return tuple(b if rng.random() < 0.5 else a for a, b in zip(point, other, strict=True))
        for _ in range(1 + int(rng.integers(2))):
            i = int(rng.integers(len(point)))
            axis = self._domain.axes[i]
            if axis.ordered:
                step = 1 + int(abs(rng.normal()) * 0.1 * axis.size)
                point[i] = min(axis.size - 1, max(0, point[i] + (step if rng.random() < 0.5 else -step)))
            else:
                point[i] = int(rng.integers(axis.size))
        return tuple(point)
