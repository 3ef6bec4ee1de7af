"""Boosted trees: what they learn, that members do not see what they may not, that equal input gives equal bits."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.cost_models.boosting import Shape, fit_ensemble, logistic, ranking, squares
from tuner.cost_models.calibration import folds

SHAPE = Shape(rounds=60, depth=3, rate=0.15)


def data(count: int = 240, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 8, size=(count, 5)).astype(float)
    targets = (
        np.abs(columns[:, 0] - 3) + 0.5 * columns[:, 1] * (columns[:, 2] > 4) + 0.05 * rng.normal(size=count)
    )
    return columns, targets


def rank_agreement(one: np.ndarray, other: np.ndarray) -> float:
    first, second = np.argsort(np.argsort(one)), np.argsort(np.argsort(other))
    return float(np.corrcoef(first, second)[0, 1])


@pytest.mark.parametrize("loss", [squares, ranking])
def test_held_out_points_are_predicted(loss) -> None:
    columns, targets = data()
    weights, own = folds(len(targets), 6, np.random.default_rng(1))
    found = fit_ensemble(
        columns, loss(targets), weights, np.random.default_rng(2), start=np.zeros(6), shape=SHAPE, ridge=0.3
    )
    left_out = found.predict(columns)[own, np.arange(len(targets))]
    assert rank_agreement(left_out, targets) > 0.7


def test_ranking_puts_good_rows_low() -> None:
    columns, targets = data()
    found = fit_ensemble(
        columns,
        ranking(targets),
        np.ones((1, len(targets))),
        np.random.default_rng(0),
        start=np.zeros(1),
        shape=SHAPE,
        ridge=0.3,
    )
    fresh, truth = data(seed=1)
    order = np.argsort(found.predict(fresh)[0])
    assert truth[order[:24]].mean() < np.quantile(truth, 0.2)


def test_a_member_does_not_see_rows_without_weight() -> None:
    columns, targets = data()
    weights = np.ones((2, len(targets)))
    weights[1, :40] = 0.0
    spoilt = targets.copy()
    spoilt[:40] += 100.0
    made = [
        fit_ensemble(columns, squares(t), weights, np.random.default_rng(0), start=np.zeros(2), shape=SHAPE)
        for t in (targets, spoilt)
    ]
    one, other = (m.predict(columns) for m in made)
    assert np.array_equal(one[1], other[1])
    assert not np.allclose(one[0], other[0])


def test_equal_input_gives_equal_bits() -> None:
    columns, targets = data()
    weights, _ = folds(len(targets), 4, np.random.default_rng(1))
    made = [
        fit_ensemble(
            columns, ranking(targets), weights, np.random.default_rng(3), start=np.zeros(4), shape=SHAPE
        )
        for _ in range(2)
    ]
    assert np.array_equal(made[0].leaves, made[1].leaves)
    assert np.array_equal(made[0].predict(columns), made[1].predict(columns))


def test_chances_of_an_event() -> None:
    columns, _ = data()
    happened = columns[:, 3] > 5
    found = fit_ensemble(
        columns,
        logistic(happened),
        np.ones((1, len(happened))),
        np.random.default_rng(0),
        start=np.full(1, np.log(happened.mean() / (1 - happened.mean()))),
        shape=SHAPE,
    )
    fresh, _ = data(seed=2)
    odds = found.predict(fresh)[0]
    assert odds[fresh[:, 3] > 5].min() > odds[fresh[:, 3] <= 5].max()


def test_nothing_to_predict() -> None:
    columns, targets = data(30)
    found = fit_ensemble(
        columns, squares(targets), np.ones((2, 30)), np.random.default_rng(0), start=np.zeros(2), shape=SHAPE
    )
    assert found.predict(columns[:0]).shape == (2, 0)


def test_many_values_and_constant_columns() -> None:
    rng = np.random.default_rng(5)
    columns = np.column_stack([rng.normal(size=300), np.full(300, 7.0)])
    targets = np.sin(columns[:, 0])
    found = fit_ensemble(
        columns, squares(targets), np.ones((1, 300)), np.random.default_rng(0), start=np.zeros(1), shape=SHAPE
    )
    assert rank_agreement(found.predict(columns)[0], targets) > 0.8
