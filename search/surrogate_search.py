"""The searcher ``surrogate``: expected improvement of a Gaussian process over the whole valid set.

Where the set is too large to score whole, a fresh sample of it at each fit is scored beside the neighbours of the best.
May not look at any clock or budget; pipelines stay the incumbent's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.core.protocols import Observation
from tuner.core.types import EXPECTED, Configuration, Proposal, Value
from tuner.search.bandit import Bandit
from tuner.search.base import SearcherBase
from tuner.search.blas import one_thread
from tuner.search.domain import Point
from tuner.search.scalarise import scalarised, weights
from tuner.search.scored_set import Fitter, ScoredSet
from tuner.search.warm import Source
from tuner.spaces.space import Space

__all__ = ["SurrogateSearcher", "make"]

_STARTUP = 6
_SCORED = 3
_APART = 2
_SPREAD = 60
_PENDING = 32
_RIVALS = 3
_ELITE = 4
_NEIGHBOURS = 64
_VARIED = 96
_LOCAL_FROM = 30
_CENTRES = 3
_STEPS = 2
_EVERYWHERE, _BESIDE = "model", "local"

Floats = NDArray[np.float64]


class SurrogateSearcher(SearcherBase):
    """Gaussian process, expected improvement and the chance of not failing, for parameters, geometry and flags.

    Args:
        space: what is searched.
        name: the searcher's name.
        origin: what its proposals say they come from.
    """

    def __init__(self, space: Space, *, name: str = "surrogate", origin: str = "surrogate") -> None:
        super().__init__(space)
        self.name = name
        self._origin = origin
        self._fitter = Fitter(self.domain, _STARTUP)
        self._moves = Bandit((_EVERYWHERE, _BESIDE))

    def warm_start(self, observations: Sequence[Observation]) -> None:
        """Learns from a run of the same kernel elsewhere; before anything else.

        The first point is then the source's best, and up to the thirtieth trial the model is of what remains beside a
        multiple of what the source says; two early points are far from all others all the same.
        """
        with one_thread():
            source = Source(self.domain, observations)
            if source.usable:
                self._fitter.learn_from(source)

    def drawn(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        """Untried configurations drawn evenly; changes nothing."""
        pipeline = self.incumbent_pipeline
        points = self.pool.draw(rng, count, pipeline=pipeline)
        return [self._proposal(p, pipeline, {"how": "even"}) for p in points]

    def tell(self, observations: Sequence[Observation]) -> None:
        """Learns what became of trials, and which kind of move they were."""
        super().tell(observations)
        for observation in observations:
            self._moves.credit(str(observation.proposal.note.get("how")), observation)

    def _propose(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        pipeline = self.incumbent_pipeline
        placed = self.history.placed
        sources = self._fitter.trusted(placed).each
        trusting = bool(sources)
        number = len(placed) + len(self.history.pending)
        # Before all others but the baseline a source's best, which the model alone need not put first.
        first = trusting and number < 2 and not self.pool.tried(sources[0].best[0], pipeline)
        if first or (trusting and number < _STARTUP and number % 3 == _APART):
            return self._spread(count, rng, pipeline)
        startup, least = (1, 1) if trusting else (_STARTUP, _SCORED)
        if len(placed) < startup or sum(o.score is not None for o, _ in placed) < least:
            return self._spread(count, rng, pipeline)
        weighted = weights(rng, 1 + max(len(o.others) for o, _ in placed))
        with one_thread():
            found = self._by_model(self._fitter.at(placed), count, rng, pipeline, weighted)
        return found or self._spread(count, rng, pipeline)

    def _spread(self, count: int, rng: np.random.Generator, pipeline: str | None) -> list[Proposal]:
        """Of a handful of random points each time the one farthest from all that is tried or on its way."""
        near = [point for _, point in self.history.placed] + self._running()
        taken: list[Point] = []
        for _ in range(count):
            copied = self._copied(len(near), pipeline, taken)
            if copied is not None:
                taken.append(copied)
                near.append(copied)
                continue
            drawn = self.pool.draw(rng, _SPREAD, pipeline=pipeline, without=frozenset(taken))
            if not drawn:
                break
            best = drawn[0]
            if near:
                rows = self._fitter.features.encode(self.domain.array(drawn))
                known = self._fitter.features.encode(self.domain.array(near[-_SPREAD:]))
                apart = np.abs(rows[:, None, :] - known[None, :, :]).sum(axis=2).min(axis=1)
                best = drawn[int(apart.argmax())]
            taken.append(best)
            near.append(best)
        return [self._proposal(p, pipeline, {"how": "spread"}) for p in taken]

    def _copied(self, number: int, pipeline: str | None, taken: list[Point]) -> Point | None:
        """The best point of a source that is untried, for all but every third of the first points."""
        sources = self._fitter.trusted(self.history.placed).each
        if not sources or number % 3 == _APART:
            return None
        source = sources[number % len(sources)]
        for point in source.best:
            if point not in taken and not self.pool.tried(point, pipeline) and self.domain.valid(point):
                return point
        return None

    def _by_model(
        self,
        model: ScoredSet,
        count: int,
        rng: np.random.Generator,
        pipeline: str | None,
        weighted: tuple[float, ...],
    ) -> list[Proposal]:
        model.believe(self._running())
        elite = self._elite(_ELITE, weighted)
        local = [] if model.whole else self._local(elite, rng, pipeline)
        proposals: list[Proposal] = []
        taken: set[Point] = set()
        running = Counter(str(p.note.get("how")) for p in self.history.pending.values())
        while len(proposals) < count:
            beside = model.values_at(local, weighted) if local else np.zeros(0)
            values = np.concatenate([model.values(weighted), beside])
            how, ranked = self._move(running), list[tuple[Point, float]]()
            if how == _BESIDE:
                near = np.where(self._near(elite[:_CENTRES], model.points, local), values, -np.inf)
                ranked = self._best(model.points, local, near, taken, pipeline)
            if not ranked:
                how, ranked = _EVERYWHERE, self._best(model.points, local, values, taken, pipeline)
            if not ranked:
                break
            point, value = ranked[0]
            rivals = tuple((self.domain.configuration(p, pipeline), v) for p, v in ranked[1:])
            proposals.append(self._proposal(point, pipeline, {"how": how, EXPECTED: value}, rivals))
            taken.add(point)
            running[how] += 1
            if len(proposals) < count:
                model.believe([point])
        model.forget()
        return proposals

    def _move(self, running: Mapping[str, int]) -> str:
        """Anywhere at first, then anywhere or close to the best, by what has paid lately."""
        if len(self.history.placed) < _LOCAL_FROM:
            return _EVERYWHERE
        return self._moves.choose((_EVERYWHERE, _BESIDE), running)

    def _best(
        self,
        points: NDArray[np.int64],
        local: list[Point],
        values: Floats,
        taken: set[Point],
        pipeline: str | None,
    ) -> list[tuple[Point, float]]:
        """The untried points of the highest values, best first: a proposal and its rivals."""
        found: dict[Point, float] = {}
        looked, total = 0, len(values)
        reach = min(total, 64)
        while looked < total and len(found) <= _RIVALS:
            top = np.argpartition(-values, reach - 1)[:reach] if reach < total else np.arange(total)
            order = top[np.lexsort((top, -values[top]))]
            for i in order[looked:]:
                if values[i] == -np.inf:
                    return list(found.items())
                point = tuple(points[i].tolist()) if i < len(points) else local[i - len(points)]
                if point not in found and point not in taken and not self.pool.tried(point, pipeline):
                    found[point] = float(values[i])
                    if len(found) > _RIVALS:
                        break
            looked, reach = reach, min(total, 4 * reach)
        return list(found.items())

    def _elite(self, count: int, weighted: tuple[float, ...]) -> list[Point]:
        """The best distinct points under the weights, best first."""
        if len(weighted) == 1:
            return self.history.elite(count)
        scored = [(o, p) for o, p in self.history.placed if o.score is not None]
        worth = scalarised([(o.score or 0.0, *o.others) for o, _ in scored], weighted)
        return list(dict.fromkeys(scored[i][1] for i in np.argsort(worth, kind="stable")))[:count]

    def _near(self, centres: list[Point], points: NDArray[np.int64], local: list[Point]) -> NDArray[np.bool_]:
        """Which candidates differ from one of the best few in at most two axes.

        The model is fitted to the whole space; close to the best it is asked again for what it values less there.
        """
        rows = np.vstack([points, self.domain.array(local)]) if local else points
        near = np.zeros(len(rows), dtype=bool)
        for centre in centres:
            near |= (rows != np.array(centre)).sum(axis=1) <= _STEPS
        return near

    def _local(self, best: list[Point], rng: np.random.Generator, pipeline: str | None) -> list[Point]:
        """Untried points one step from the best and crosses of the best, for spaces that are not scored whole."""
        elite = [p for p in best if self.domain.valid(p)]
        found: dict[Point, None] = {}
        for point in elite:
            found.update(dict.fromkeys(self.pool.neighbours(point, pipeline=pipeline)[:_NEIGHBOURS]))
        for _ in range(_VARIED if elite else 0):
            point = self._vary(elite, rng)
            if not self.pool.tried(point, pipeline) and self.domain.valid(point):
                found[point] = None
        return list(found)

    def _vary(self, elite: list[Point], rng: np.random.Generator) -> Point:
        first, second = (elite[int(i)] for i in rng.integers(len(elite), size=2))
        mixed = [b if r < 0.5 else a for a, b, r in zip(first, second, rng.random(len(first)), strict=True)]
        for i in rng.integers(len(mixed), size=1 + int(rng.integers(3))):
            axis = self.domain.axes[i]
            step = 1 + int(abs(rng.normal()) * 0.1 * axis.size)
            moved = mixed[i] + (step if rng.random() < 0.5 else -step)
            mixed[i] = min(axis.size - 1, max(0, moved)) if axis.ordered else int(rng.integers(axis.size))
        return tuple(mixed)

    def _running(self) -> list[Point]:
        latest = list(self.history.pending.values())[-_PENDING:]
        return [p for p in (self.domain.point(q.configuration) for q in latest) if p is not None]

    def _proposal(
        self,
        point: Point,
        pipeline: str | None,
        note: dict[str, Value],
        rivals: tuple[tuple[Configuration, float], ...] = (),
    ) -> Proposal:
        best = self.history.best
        return Proposal(
            configuration=self.domain.configuration(point, pipeline),
            origin=self._origin,
            parent=None if best is None or note["how"] == "spread" else best.trial,
            note=note,
            rivals=rivals,
        )


def make(space: Space) -> SurrogateSearcher:
    """The factory behind the name ``surrogate``."""
    return SurrogateSearcher(space)
