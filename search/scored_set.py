"""Candidates of a space with everything the model says of them, kept up to date observation by observation.

A fit happens at fixed numbers of observations and uses those alone, so that which calls happened to ask does not
matter: a replay that adopts proposals ends with the same bits. May not draw from the searcher's random streams.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.search.domain import Domain, Point
from tuner.search.feasibility import Feasibility
from tuner.search.features import Features
from tuner.search.gaussian import Hyper, Posterior, fit, log_improvement, normal_scores
from tuner.search.scalarise import scalarised
from tuner.search.warm import REMAINS, Source, Sources

__all__ = ["Fitter", "ScoredSet"]

Floats = NDArray[np.float64]
Placed = Sequence[tuple[Observation, Point]]

_GROWTH = 1.07
_LISTED = 32_768
_KEPT = 24_576
_DRAWN = 16_384
_SAMPLED = 2_048
_TRAINED = 512
_FITTED = 192
_LEAST = 4
_BELIEVED = 64
_HALFWAY = 0.5
_HOPELESS = 1e-3
_ALONE = 30
_SURE = 100
_COMPARED = 2


class Fitter:
    """Makes the scored set for a history; keeps the fitted numbers and the latest set.

    Args:
        domain: of the space.
        startup: observations at which the first fit happens.
    """

    def __init__(self, domain: Domain, startup: int) -> None:
        self._domain = domain
        self.features = Features(domain)
        self.sources = Sources()
        self._sizes: list[int] = [startup]
        self._hypers: list[tuple[bool, Hyper]] = []
        self._trusted: list[Sources] = []
        self._latest: tuple[int, ScoredSet] | None = None

    def learn_from(self, source: Source) -> None:
        """One more source; before any observation. The first fit then happens at the first."""
        self.sources = Sources((*self.sources.each, source))
        self._sizes = [1]

    def at(self, placed: Placed) -> ScoredSet:
        """The set after these observations; at least ``startup`` of them."""
        while self._next(self._sizes[-1]) <= len(placed):
            self._sizes.append(self._next(self._sizes[-1]))
        number = len(self._sizes) - 1
        size = self._sizes[number]
        if self._latest is None or self._latest[0] != number:
            made = ScoredSet(
                self._domain,
                self.features,
                self._models(number, placed),
                size,
                self._next(size) - size,
                self.trusted(placed[:size]),
            )
            made.begin(placed[:size])
            self._latest = (number, made)
        current = self._latest[1]
        for observation, point in placed[current.told :]:
            current.tell(observation, point)
        return current

    @staticmethod
    def _next(size: int) -> int:
        return max(size + 1, int(size * _GROWTH))

    def trusted(self, placed: Placed) -> Sources:
        """The sources that no observation so far has spoken against; from some number on none.

        The target's own trials then say more than another's. A source that was left out is not taken back: what is
        tried without it hardly tests it, so that it would come to look credible again.
        """
        if not self.sources.each or len(placed) >= _ALONE:
            return Sources()
        while len(self._trusted) <= len(placed):
            before = self._trusted[-1] if self._trusted else self.sources
            self._trusted.append(self._credible(placed[: len(self._trusted)], before))
        return self._trusted[len(placed)]

    def _credible(self, placed: Placed, sources: Sources) -> Sources:
        scored = [(o.score, point) for o, point in placed if o.score is not None]
        if not sources.each or len(scored) < _COMPARED:
            return sources
        points = self._domain.array(point for _, point in scored)
        scores = np.array([score for score, _ in scored])
        return sources.credible(self.features.encode(points), self.features.groups, points, scores)

    def _models(self, number: int, placed: Placed) -> tuple[Hyper, ...]:
        """The fitted numbers, and while observations are few those expected before any as well.

        A few dozen observations leave many fits about as likely, and which is best differs from kernel to kernel.
        Beside a source there is one: what is expected there is the source's own.
        """
        fitted, size = self._hyper(number, placed), self._sizes[number]
        if size >= _SURE or self.trusted(placed[:size]).each:
            return (fitted,)
        return (fitted, Hyper.prior(self.features.width))

    def _hyper(self, number: int, placed: Placed) -> Hyper:
        """Fitted numbers of each size follow from those of the size before, whether or not those were used.

        Those with sources and those without are two sequences.
        """
        while len(self._hypers) <= number:
            size = self._sizes[len(self._hypers)]
            sources = self.trusted(placed[:size])
            warm = bool(sources.each)
            first = Hyper.prior(self.features.width, REMAINS if warm else 1.0, sources.scales)
            before = next((h for was, h in reversed(self._hypers) if was == warm), first)
            used = [pair for pair in _chosen(placed[:size], _FITTED) if pair[0].score is not None]
            enough = len(used) >= _LEAST and self.features.width > 0
            self._hypers.append((warm, self._fitted(before, used, sources) if enough else before))
        return self._hypers[number][1]

    def _fitted(self, before: Hyper, used: Placed, sources: Sources) -> Hyper:
        points = self._domain.array(point for _, point in used)
        columns = self.features.encode(points)
        rough = np.array([o.raced for o, _ in used])
        values = [_objectives(o) for o, _ in used]
        objectives = max(map(len, values))
        scores = scalarised(values, [1.0 / objectives] * objectives)
        if not sources.each:
            return fit(columns, self.features.groups, normal_scores(scores), rough, before)
        posterior = Posterior(before, self.features.groups, columns[:1], len(columns))
        posterior.begin(columns, rough)
        given, targets = sources.expected(points), sources.relative(scores)
        remaining = targets - given @ sources.multiples(posterior, targets, given)
        middle = remaining.mean()
        return fit(columns, self.features.groups, remaining - middle, rough, before, expected=sources.scales)


class ScoredSet:
    """Candidates, posterior and feasibility from one fit on.

    Args:
        domain: of the space.
        features: of the domain.
        hypers: of each model, the one that was fitted first.
        size: how many observations the fit was made on; seeds the sample of candidates of large spaces.
        room: how many observations will follow.
        sources: of a warm start; without any the model is of ranks, else of what remains beside theirs.

    Attributes:
        points: the candidates, ``[m, axes]``; some may be tried already.
        whole: whether they are all points of the space.
        told: how many observations are in.
    """

    def __init__(
        self,
        domain: Domain,
        features: Features,
        hypers: tuple[Hyper, ...],
        size: int,
        room: int,
        sources: Sources,
    ) -> None:
        self._domain, self._features, self._hypers = domain, features, hypers
        self._sources = sources
        self._given: list[Floats] = []
        self._room = room + _BELIEVED
        self.points, self.whole = _candidates(domain, size)
        self._posteriors: tuple[Posterior, ...] = ()
        self._feasibility: Feasibility
        self._known: list[tuple[float, ...]] = []
        self._believed: list[Point] = []
        self.told = 0

    def begin(self, placed: Placed) -> None:
        """Takes in the observations of the fit."""
        used = _chosen(placed, _TRAINED)
        scored = [pair for pair in used if pair[0].score is not None]
        columns = self._features.encode(self.points)
        room = len(scored) + self._room
        self._posteriors = tuple(Posterior(h, self._features.groups, columns, room) for h in self._hypers)
        if scored:
            known = self._features.encode(self._domain.array(point for _, point in scored))
            rough = np.array([o.raced for o, _ in scored])
            for posterior in self._posteriors:
                posterior.begin(known, rough)
            self._known = [_objectives(o) for o, _ in scored]
            self._given = list(self._sources.expected(self._domain.array(point for _, point in scored)))
        self._at = self._sources.expected(self.points)
        if len(self.points) > _KEPT:
            self._screen()
        self._feasibility = Feasibility(
            self._positions(self._domain.array(point for _, point in used)),
            np.array([o.score is None for o, _ in used]),
            self._domain.ordered,
            self._positions(self.points),
        )
        self.told = len(placed)

    def tell(self, observation: Observation, point: Point) -> None:
        """One more observation; nothing is believed any more."""
        self.forget()
        rows = self._domain.array([point])
        if observation.score is not None:
            column = self._features.encode(rows)[0]
            for posterior in self._posteriors:
                posterior.add(column, observation.raced)
            self._known.append(_objectives(observation))
            self._given.append(self._sources.expected(rows)[0])
        self._feasibility.add(self._positions(rows)[0], observation.score is None)
        self.told += 1

    def believe(self, points: Sequence[Point]) -> None:
        """Points on their way, beside those of before: others than these and those near them are worth more now."""
        fresh = list(points)[: _BELIEVED - len(self._believed)]
        if not fresh:
            return
        columns = self._features.encode(self._domain.array(fresh))
        for posterior in self._posteriors:
            posterior.believe(columns)
        self._believed += fresh

    def forget(self) -> None:
        """Nothing is on its way."""
        for posterior in self._posteriors:
            posterior.forget()
        self._believed = []

    def values(self, weighted: Sequence[float] = (1.0,)) -> Floats:
        """Logarithm of expected improvement times chance at every candidate, averaged over the models.

        Args:
            weighted: of the objectives, time first.
        """
        targets, multiples = self._targets(weighted)
        remaining, beside = self._remaining(targets, multiples), self._at @ multiples
        chances, best = self._feasibility.chances(), float(targets.min())
        each = []
        for posterior in self._posteriors:
            apart = self._apart(posterior, targets, remaining, multiples)
            mean, deviation = posterior.predict(remaining, apart)
            each.append(_worth(mean + beside, deviation, best, chances))
        return _averaged(each)

    def values_at(self, points: Sequence[Point], weighted: Sequence[float] = (1.0,)) -> Floats:
        """The same at other points."""
        rows = self._domain.array(points)
        targets, multiples = self._targets(weighted)
        remaining, beside = self._remaining(targets, multiples), self._sources.expected(rows) @ multiples
        chances, best = self._feasibility.chances_at(self._positions(rows)), float(targets.min())
        columns = self._features.encode(rows)
        each = []
        for posterior in self._posteriors:
            apart = self._apart(posterior, targets, remaining, multiples)
            mean, deviation = posterior.predict_at(columns, remaining, apart)
            each.append(_worth(mean + beside, deviation, best, chances))
        return _averaged(each)

    def _apart(
        self, posterior: Posterior, targets: Floats, remaining: Floats, multiples: Floats
    ) -> Floats | None:
        """How far from its mean is what is on its way: halfway to the middle of what is known.

        It was chosen for looking good, so it comes out worse than it looked. Taken at its mean it would leave those
        beside it as attractive as before, and all that are proposed meanwhile would go the same way.
        """
        if not self._believed:
            return None
        beside = self._sources.expected(self._domain.array(self._believed)) @ multiples
        return _HALFWAY * (float(np.median(targets)) - beside - posterior.expected(remaining))

    def _targets(self, weighted: Sequence[float]) -> tuple[Floats, Floats]:
        scores = scalarised(self._known, weighted)
        if not self._sources.each:
            return normal_scores(scores), np.zeros(0)
        targets = self._sources.relative(scores)
        return targets, self._sources.multiples(self._posteriors[0], targets, np.array(self._given))

    def _remaining(self, targets: Floats, multiples: Floats) -> Floats:
        return targets - np.array(self._given).reshape(len(targets), -1) @ multiples

    def _screen(self) -> None:
        """Keeps the better part of the candidates, so that what follows costs less."""
        targets, multiples = self._targets((1.0,))
        mean, deviation = self._posteriors[0].predict(self._remaining(targets, multiples))
        mean = mean + self._at @ multiples
        worth = log_improvement(mean, deviation, float(targets.min()))
        kept = np.sort(np.argpartition(-worth, _KEPT)[:_KEPT])
        self.points = self.points[kept]
        for posterior in self._posteriors:
            posterior.keep(kept)
        self._at = self._at[kept]

    def _positions(self, rows: NDArray[np.integer]) -> Floats:
        return np.asarray(rows * self._domain.scale)


def _candidates(domain: Domain, size: int) -> tuple[NDArray[np.int64], bool]:
    """All points of a space of moderate size, else a sample that differs from fit to fit."""
    if domain.rows is not None and len(domain.rows) <= _LISTED:
        return domain.rows.astype(np.int64), True
    rng = stream(0, "candidates", size)
    if domain.rows is not None:
        chosen = np.unique(rng.integers(len(domain.rows), size=_DRAWN))
        return domain.rows[chosen].astype(np.int64), False
    drawn = domain.space.sample(rng, _SAMPLED)
    return domain.array(p for p in map(domain.point, drawn) if p is not None), False


def _chosen(placed: Placed, most: int) -> list[tuple[Observation, Point]]:
    """All up to ``most``, else the best half and the latest, in order."""
    if len(placed) <= most:
        return list(placed)
    keep = set(heapq.nsmallest(most // 2, range(len(placed)), key=lambda i: (_value(placed[i][0]), i)))
    for i in range(len(placed) - 1, -1, -1):
        if len(keep) >= most:
            break
        keep.add(i)
    return [placed[i] for i in sorted(keep)]


def _value(observation: Observation) -> float:
    return math.inf if observation.score is None else observation.score


def _objectives(observation: Observation) -> tuple[float, ...]:
    return (_value(observation), *observation.others)


def _averaged(logarithms: list[Floats]) -> Floats:
    """Logarithm of the mean of what has these logarithms, element by element."""
    first, *others = logarithms
    for other in others:
        first = np.logaddexp(first, other)
    return first - math.log(len(logarithms))


def _worth(mean: Floats, deviation: Floats, best: float, chances: Floats | None) -> Floats:
    if chances is None:
        return log_improvement(mean, deviation, best)
    # Failures teach the model nothing about times, so its doubt stays large where all fails: it counts by the chance.
    kept = np.maximum(chances, _HOPELESS)
    return log_improvement(mean, deviation * kept, best) + np.log(kept)
