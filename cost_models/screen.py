"""The cost model ``auto``: ranks candidates by boosted trees and prunes only as far as its own record allows.

Failures never enter the ranking: they have a model of their own. Fits happen at fixed numbers of trials and use those
alone, so that which calls happened to ask does not matter: a resumed run and a replay end with the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.core.protocols import Guess, Known, Screening
from tuner.core.streams import stream
from tuner.cost_models.boosting import Ensemble, Shape, fit_ensemble, logistic, ranking
from tuner.cost_models.calibration import LARGEST_CUT, cut_of, doubt_of, failing_cut_of, folds, places
from tuner.cost_models.columns import Columns

__all__ = ["EARLY", "FIRST", "Screen", "next_size", "size_for"]

Floats = NDArray[np.float64]

FIRST = 30
"""Tried trials at which the first fit happens."""

EARLY = 10
"""The same where nothing is left out for good: an order loses less by a first guess than a cut."""

_GROWTH = 1.25
_TIMED = 20
_FAILED = 6
_MEMBERS = 8
_MOST = 512
_RANKER = Shape(rounds=60, depth=3, rate=0.15, columns=0.7)
_CLASSIFIER = Shape(rounds=40, depth=3, rate=0.2, columns=0.7)


def next_size(size: int) -> int:
    """Tried trials at which the fit after that of ``size`` happens."""
    return max(size + 1, int(size * _GROWTH))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """One fit: the ranking with what places are taken from, and the chance of failing."""

    columns: Columns
    size: int
    ranker: Ensemble | None
    reference: Floats
    cut: float | None
    failing: Ensemble | None
    failing_cut: float | None
    why: str
    doubt: str


class Screen:
    """A :class:`tuner.core.protocols.CostModel`; see there.

    Args:
        first: tried trials at which the first fit happens.
    """

    def __init__(self, *, first: int = FIRST) -> None:
        self._first = first
        self._latest: _Fit | None = None

    def screen(
        self,
        known: Sequence[Known],
        candidates: Sequence[Mapping[str, float]],
        pool: Sequence[Mapping[str, float]],
    ) -> Screening:
        """Ranks candidates by the latest fit."""
        size = size_for(sum(one.tried for one in known), self._first)
        if size is None:
            why = f"fewer than {self._first} trials were tried"
            return Screening(why=why, doubt=why)
        if self._latest is None or self._latest.size != size:
            self._latest = _fit(_prefix(known, size), size, pool, self._first * _TIMED // FIRST)
        return _answer(self._latest, candidates)


def size_for(tried: int, first: int) -> int | None:
    """Tried trials that the latest fit has learnt from; ``None`` before the first."""
    if tried < first:
        return None
    size = first
    while next_size(size) <= tried:
        size = next_size(size)
    return size


def _prefix(known: Sequence[Known], size: int) -> list[Known]:
    """Up to the trial that made it ``size`` tried ones."""
    tried = 0
    for at, one in enumerate(known):
        tried += one.tried
        if tried == size:
            return list(known[: at + 1])
    return list(known)


def _fit(known: list[Known], size: int, pool: Sequence[Mapping[str, float]], least: int) -> _Fit:
    timed = _chosen([k for k in known if k.score is not None])
    failed = [k for k in known if k.tried and k.score is None][-_MOST:]
    columns = Columns([k.features for k in (*timed, *failed)])
    nothing = np.zeros((_MEMBERS, 0))
    failing, failing_cut = _fit_failing(columns, timed, failed, size)
    ranker, reference, cut, why, doubt = None, nothing, None, "", ""
    if len(timed) < least:
        why = doubt = f"fewer than {least} trials were timed"
    elif not columns.names:
        why = doubt = "candidates do not differ in any feature"
    else:
        others = pool or [k.features for k in known if not k.tried][-_MOST:]
        ranker, reference, cut, doubt = _fit_ranker(columns, timed, size, others, evenly=bool(pool))
        if cut > LARGEST_CUT:
            why = f"out of sample the best few would need {cut:.0%} of the candidates to be kept"
    return _Fit(
        columns=columns,
        size=size,
        ranker=ranker,
        reference=reference,
        cut=None if why else cut,
        failing=failing,
        failing_cut=failing_cut,
        why=why,
        doubt=doubt,
    )


def _fit_ranker(
    columns: Columns,
    timed: list[Known],
    size: int,
    others: Sequence[Mapping[str, float]],
    *,
    evenly: bool,
) -> tuple[Ensemble, Floats, float, str]:
    """The ranker, its sorted reference, the cut, and what speaks against its order.

    Where nothing can be drawn evenly, what was proposed so far stands for what may come.
    """
    rng = stream(0, "screen", size)
    rows = columns.rows([k.features for k in timed])
    scores = np.array([k.score for k in timed], dtype=np.float64)
    weights, own = folds(len(timed), _MEMBERS, rng)
    ranker = fit_ensemble(
        rows, ranking(scores), weights, rng, start=np.zeros(_MEMBERS), shape=_RANKER, ridge=0.3
    )
    made = ranker.predict(rows)
    elsewhere = ranker.predict(columns.rows(others))
    if not evenly:
        # Members differ in scale: one member's out-of-sample predictions stand beside another's only when that is
        # taken out.
        left_out = made[own, np.arange(len(timed))]
        middle = made.mean(axis=1, keepdims=True)
        spread = np.maximum(made.std(axis=1, keepdims=True), 1e-9)
        unit = (left_out - middle[own, 0]) / spread[own, 0]
        elsewhere = np.hstack([middle + spread * unit[None], elsewhere])
    reference = np.sort(elsewhere, axis=1)
    below = [
        np.searchsorted(reference[k], made[k, i]) / reference.shape[1] for i, k in enumerate(own.tolist())
    ]
    sure = np.array([not k.raced for k in timed])
    # What was raced out was clearly worse than the best: it cannot be among the best few.
    ranked = np.where(sure, scores, np.inf)
    return ranker, reference, cut_of(np.array(below), ranked), doubt_of(np.array(below), scores)


def _fit_failing(
    columns: Columns, timed: list[Known], failed: list[Known], size: int
) -> tuple[Ensemble | None, float | None]:
    if len(failed) < _FAILED or len(timed) < _TIMED or not columns.names:
        return None, None
    rng = stream(0, "failing", size)
    rows = columns.rows([k.features for k in (*timed, *failed)])
    happened = np.arange(len(rows)) >= len(timed)
    weights, own = folds(len(rows), _MEMBERS, rng)
    odds = np.log(len(failed) / len(timed))
    model = fit_ensemble(
        rows,
        logistic(happened),
        weights,
        rng,
        start=np.full(_MEMBERS, odds),
        shape=_CLASSIFIER,
    )
    chances = _chance(model.predict(rows)[own, np.arange(len(rows))])
    return model, failing_cut_of(chances, happened)


def _answer(fit: _Fit, candidates: Sequence[Mapping[str, float]]) -> Screening:
    rows = fit.columns.rows(candidates)
    count = len(candidates)
    found = np.zeros(count) if fit.ranker is None else places(fit.ranker.predict(rows), fit.reference)
    chances = np.zeros(count) if fit.failing is None else _chance(fit.failing.predict(rows)).mean(axis=0)
    return Screening(
        guesses=tuple(Guess(place=float(p), failing=float(c)) for p, c in zip(found, chances, strict=True)),
        cut=fit.cut,
        failing_cut=fit.failing_cut,
        fitted=fit.size,
        why=fit.why,
        doubt=fit.doubt,
    )


def _chance(odds: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(odds, -30.0, 30.0))))


def _chosen(timed: list[Known]) -> list[Known]:
    """All up to a number, else the best half and the latest, in order."""
    if len(timed) <= _MOST:
        return timed
    ranked = sorted(range(len(timed)), key=lambda i: (timed[i].score, i))
    keep = set(ranked[: _MOST // 2])
    for i in range(len(timed) - 1, -1, -1):
        if len(keep) == _MOST:
            break
        keep.add(i)
    return [timed[i] for i in sorted(keep)]
