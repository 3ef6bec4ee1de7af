"""Which tunables move the time, alone and together, by the variance that a random forest explains with each.

Functional ANOVA (Hutter, Hoos, Leyton-Brown, "An efficient approach for assessing hyperparameter importance", 2014) of
a forest fitted to the log times of the trials that worked: the mean prediction over everything else, as a function of
one tunable, or of two, and the share of the whole variance that it accounts for. The expectation is taken over values
drawn independently from those that the search tried. It says what moved the time among the trials of this run, no more;
``fit`` says how far the forest is to be believed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tuner.core.types import Status, Value
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState
from tuner.report.trials import rounded
from tuner.spaces.space import PASSES

__all__ = ["importance"]

LEAST_TRIALS = 12
"""Worked trials with different code below which nothing is said."""

MOST_TRIALS = 3000
"""More are thinned out: the forest gets no better and the page would wait for it."""

TREES = 32
BACKGROUND = 128
"""Draws of everything else over which a prediction is averaged."""

LEVELS = 24
"""Values of one tunable that are looked at; of a pair, the square root of as many cells as this squared."""

PAIRED = 6
"""The most important tunables, whose pairs are looked at."""

Matrix = npt.NDArray[np.float64]


def importance(state: RunState, tunables: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Shares of variance by tunable and by pair, and each tunable's own curve; ``None`` with too little to go on.

    ``main`` and ``pairs`` are shares of the forest's variance, 0 to 1. A ``curve`` holds for each value the mean
    predicted speed-up over everything else.
    """
    worked = [t for t in state.trials.values() if t.status in (Status.OK, Status.DUPLICATE)]
    worked = [t for t in worked if t.score is not None and math.isfinite(t.score)]
    factors = _factors(worked, tunables)
    if len(worked) < LEAST_TRIALS or not factors:
        return None
    rng = np.random.Generator(np.random.PCG64(0))
    if len(worked) > MOST_TRIALS:
        worked = [worked[i] for i in sorted(rng.choice(len(worked), MOST_TRIALS, replace=False))]
    scores = np.array([t.score for t in worked], dtype=np.float64)
    if float(np.ptp(scores)) < 1e-9:
        return None
    for factor in factors:
        factor.read(worked)
    model = _Model(factors, scores)
    whole = model.variance(rng)
    background = model.draw(rng, BACKGROUND)
    main = {f.name: model.main(f, background) for f in factors}
    shares = {name: _share(curve.var(weights), whole) for name, (curve, weights) in main.items()}
    ranked = sorted(factors, key=lambda f: -shares[f.name])
    pairs = [_pair(model, a, b, background, whole) for a, b in itertools.combinations(ranked[:PAIRED], 2)]
    return {
        "trials": len(worked),
        "fit": rounded(model.fit, 3),
        "main": [_row(f, shares[f.name], main[f.name][0]) for f in ranked],
        "pairs": sorted(pairs, key=lambda p: -float(p["share"])),
    }


class _Curve:
    """Mean log time over everything else, for each level of a factor or cell of a pair."""

    def __init__(self, values: Matrix) -> None:
        self.values = values

    def var(self, weights: Matrix) -> float:
        mean = float(np.average(self.values, weights=weights))
        return float(np.average((self.values - mean) ** 2, weights=weights))


class _Factor:
    """One tunable as columns: its number, or one column for each value where values have no order."""

    def __init__(self, name: str, values: Sequence[Value], *, numeric: bool) -> None:
        self.name, self.values = name, list(values)
        self._numeric = numeric
        self.levels: Sequence[int] = ()
        self.weights: Matrix = np.ones(0)
        self.codes: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def read(self, trials: Sequence[TrialState]) -> None:
        """Where each trial stands; the commonest values become the levels."""
        place = {value: i for i, value in enumerate(self.values)}
        self.codes = np.array([place[_value(t, self.name)] for t in trials], dtype=np.int64)
        counts = np.bincount(self.codes, minlength=len(self.values))
        common = np.argsort(-counts, kind="stable")[:LEVELS]
        self.levels = [int(i) for i in sorted(common) if counts[i] > 0]
        self.weights = counts[self.levels].astype(np.float64)

    def columns(self, codes: npt.NDArray[np.int64]) -> Matrix:
        """Rows by columns as the forest takes them."""
        if self._numeric:
            # Places, not numbers: a tree only asks for order, and 1, 2, 4, 1024 would be the same to it.
            return codes.astype(np.float64)[:, None]
        return np.eye(len(self.values))[codes]


class _Model:
    def __init__(self, factors: Sequence[_Factor], scores: Matrix) -> None:
        # A second for the import, paid only by who looks at a report.
        from sklearn.ensemble import RandomForestRegressor

        self._factors = list(factors)
        self._forest = RandomForestRegressor(
            n_estimators=TREES,
            min_samples_leaf=2,
            max_features=1.0,
            bootstrap=True,
            oob_score=True,
            random_state=0,
            n_jobs=1,
        )
        self._forest.fit(self._matrix([f.codes for f in factors]), scores)
        self.fit = float(self._forest.oob_score_)

    def _matrix(self, codes: Sequence[npt.NDArray[np.int64]]) -> Matrix:
        return np.hstack([f.columns(c) for f, c in zip(self._factors, codes, strict=True)])

    def draw(self, rng: np.random.Generator, count: int) -> list[npt.NDArray[np.int64]]:
        """Values of every factor, drawn independently of one another."""
        return [rng.choice(f.codes, count) for f in self._factors]

    def variance(self, rng: np.random.Generator) -> float:
        """Of the predictions over such draws."""
        return float(np.var(self._forest.predict(self._matrix(self.draw(rng, 4096)))))

    def main(self, factor: _Factor, background: list[npt.NDArray[np.int64]]) -> tuple[_Curve, Matrix]:
        """The factor's curve and how often each of its levels occurs."""
        cells = [{factor.name: level} for level in factor.levels]
        return _Curve(self._means(cells, background)), factor.weights

    def joint(self, one: _Factor, other: _Factor, background: list[npt.NDArray[np.int64]]) -> tuple[Any, ...]:
        """The curve of two together over a thinned grid, its weights, and the levels on either side."""
        most = max(2, int(math.sqrt(LEVELS)) + 1)
        rows, columns = _thinned(one, most), _thinned(other, most)
        cells = [
            {one.name: one.levels[i], other.name: other.levels[j]}
            for i, j in itertools.product(rows, columns)
        ]
        weights = np.outer(one.weights[rows], other.weights[columns]).ravel()
        return _Curve(self._means(cells, background)), weights, rows, columns

    def _means(self, cells: list[dict[str, int]], background: list[npt.NDArray[np.int64]]) -> Matrix:
        count = len(background[0])
        codes = []
        for factor, drawn in zip(self._factors, background, strict=True):
            tiled = np.tile(drawn, len(cells))
            if cells and factor.name in cells[0]:
                tiled = np.repeat([cell[factor.name] for cell in cells], count)
            codes.append(tiled)
        predicted = self._forest.predict(self._matrix(codes))
        means: Matrix = predicted.reshape(len(cells), count).mean(axis=1)
        return means


def _thinned(factor: _Factor, most: int) -> list[int]:
    """At most so many places among the levels, first and last included."""
    count = len(factor.levels)
    if count <= most:
        return list(range(count))
    return sorted({round(i * (count - 1) / (most - 1)) for i in range(most)})


def _pair(
    model: _Model,
    one: _Factor,
    other: _Factor,
    background: list[npt.NDArray[np.int64]],
    whole: float,
) -> dict[str, Any]:
    """What two do together beyond what each does alone."""
    curve, weights, rows, columns = model.joint(one, other, background)
    grid = curve.values.reshape(len(rows), len(columns))
    row_weights, column_weights = one.weights[rows], other.weights[columns]
    middle = np.average(curve.values, weights=weights)
    alone = np.average(grid, axis=1, weights=column_weights)[:, None]
    beside = np.average(grid, axis=0, weights=row_weights)[None, :]
    rest = _Curve((grid - alone - beside + middle).ravel())
    return {
        "names": [one.name, other.name],
        "share": _share(rest.var(weights), whole),
        "rows": [one.values[one.levels[i]] for i in rows],
        "columns": [other.values[other.levels[j]] for j in columns],
        "speed": [[rounded(math.exp(-v), 4) for v in line] for line in grid],
    }


def _share(part: float, whole: float) -> float:
    return rounded(min(1.0, part / whole), 4) or 0.0 if whole > 0 else 0.0


def _row(factor: _Factor, share: float, curve: _Curve) -> dict[str, Any]:
    return {
        "name": factor.name,
        "share": share,
        "values": [factor.values[i] for i in factor.levels],
        "speed": [rounded(math.exp(-v), 4) for v in curve.values],
        "counts": [int(w) for w in factor.weights],
    }


MISSING = "(not in this variant)"


def _value(trial: TrialState, name: str) -> Value:
    if name == VARIANT:
        return trial.variant
    if name == PASSES:
        return trial.proposal.configuration.get(PASSES, "")
    return trial.proposal.configuration.get(name, MISSING)


VARIANT = "source variant"


def _factors(trials: Sequence[TrialState], tunables: Sequence[Mapping[str, Any]]) -> list[_Factor]:
    """Every tunable with more than one value, and which variant of the source it is."""
    factors = []
    for tunable in tunables:
        seen = {_value(t, tunable["name"]) for t in trials}
        values = [v for v in tunable["values"] if v in seen]
        missing = [MISSING] if MISSING in seen else []
        if len(seen) > 1:
            numeric = tunable["numeric"] and not missing
            factors.append(_Factor(tunable["name"], [*values, *missing], numeric=numeric))
    variants = sorted({t.variant for t in trials})
    if len(variants) > 1:
        factors.append(_Factor(VARIANT, variants, numeric=False))
    return factors
