"""Boosted oblivious trees in NumPy: many members fitted at once, each with weights of its own.

A member that a row has no weight in never saw that row, so its prediction there is out of sample. All members' trees
grow together in one pass over the data, which makes ten folds of 300 rows cost as little as one fit. No thread, no
library, no hidden seed: equal input gives equal bits, which a replay depends on. May not know what the columns mean.

Source: Friedman, "Greedy function approximation" (2001); symmetric trees as in Prokhorenkova et al., "CatBoost"
(2018); ranking after Burges, "From RankNet to LambdaRank to LambdaMART" (2010).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ensemble", "Shape", "fit_ensemble", "logistic", "ranking", "squares"]

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]
Gradient = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""Predictions and weights ``[members, n]`` in; descent directions and curvatures of the same shape out."""

_BINS = 16
_RIDGE = 1.0
_TOP = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large an ensemble is.

    Attributes:
        rounds: trees of a member.
        depth: levels of a tree, each one question for all of its leaves.
        rate: how much of a tree's answer counts.
        columns: part of the columns that a tree may ask about.
    """

    rounds: int = 80
    depth: int = 4
    rate: float = 0.12
    columns: float = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """Fitted members.

    Attributes:
        features: asked about, ``[rounds, depth, members]``.
        thresholds: in the columns' units: a row goes right where its value is above.
        leaves: answers, ``[rounds, members, 2**depth]``.
        start: what each member predicts before its first tree, ``[members]``.
    """

    features: Whole
    thresholds: Floats
    leaves: Floats
    start: Floats

    def predict(self, columns: Floats) -> Floats:
        """Every member's prediction, ``[members, n]`` for ``[n, columns]``."""
        rounds, depth, members = self.features.shape
        made = np.repeat(self.start[:, None], len(columns), axis=1)
        if not len(columns):
            return made
        rows = np.arange(members)[:, None]
        turned = np.ascontiguousarray(columns.T)
        for r in range(rounds):
            leaf = np.zeros((members, len(columns)), dtype=np.intp)
            for level in range(depth):
                leaf <<= 1
                leaf |= turned[self.features[r, level]] > self.thresholds[r, level][:, None]
            made += self.leaves[r][rows, leaf]
        return made


def squares(targets: Floats) -> Gradient:
    """Least squares of targets ``[n]``."""

    def gradient(made: Floats, weights: Floats) -> tuple[Floats, Floats]:
        return weights * (targets[None] - made), weights

    return gradient


def logistic(happened: NDArray[np.bool_]) -> Gradient:
    """Log odds of an event ``[n]``."""

    def gradient(made: Floats, weights: Floats) -> tuple[Floats, Floats]:
        chance = 1.0 / (1.0 + np.exp(-np.clip(made, -30.0, 30.0)))
        return weights * (happened[None] - chance), weights * np.maximum(chance * (1.0 - chance), 1e-3)

    return gradient


def ranking(targets: Floats) -> Gradient:
    """Pairs of a good row and any worse one, weighted by what swapping them would cost at the top of the list.

    Args:
        targets: ``[n]``, low is good; predictions come out in the same direction.
    """
    order = np.argsort(targets, kind="stable")
    place = np.empty(len(targets), dtype=np.intp)
    place[order] = np.arange(len(targets))
    top = order[: min(_TOP, len(targets) - 1)]
    worth = 1.0 / np.log2(2.0 + place)
    gain = np.abs(worth[top][:, None] - worth[None])
    worse = targets[top][:, None] < targets[None]
    gain = np.where(worse, gain, 0.0)

    def gradient(made: Floats, weights: Floats) -> tuple[Floats, Floats]:
        pull, bend = np.zeros_like(made), np.full_like(made, 1e-3)
        for k in range(len(made)):
            apart = made[k][None] - made[k][top][:, None]
            lost = 1.0 / (1.0 + np.exp(np.clip(apart, -30.0, 30.0)))
            pair = gain * weights[k][None] * weights[k][top][:, None]
            push, curve = pair * lost, pair * lost * (1.0 - lost)
            pull[k] += push.sum(axis=0)
            bend[k] += curve.sum(axis=0)
            np.add.at(pull[k], top, -push.sum(axis=1))
            np.add.at(bend[k], top, curve.sum(axis=1))
        return pull, bend

    return gradient


def fit_ensemble(
    columns: Floats,
    gradient: Gradient,
    weights: Floats,
    rng: np.random.Generator,
    *,
    start: Floats,
    shape: Shape,
    ridge: float = _RIDGE,
) -> Ensemble:
    """Fits all members.

    Args:
        columns: ``[n, columns]``, finite.
        gradient: of what is to be made small.
        weights: ``[members, n]``, 0 for rows that a member may not see.
        rng: chooses the columns of each tree.
        start: what each member begins with, ``[members]``.
        shape: of the ensemble.
        ridge: rows of prior weight in each leaf.
    """
    members, count = weights.shape
    width = columns.shape[1]
    codes, edges = _binned(columns)
    bins = edges.shape[1] + 1
    flat = codes + np.arange(width)[None] * bins
    features = np.zeros((shape.rounds, shape.depth, members), dtype=np.intp)
    thresholds = np.zeros((shape.rounds, shape.depth, members))
    leaves = np.zeros((shape.rounds, members, 2**shape.depth))
    made = np.repeat(start[:, None], count, axis=1)
    rows = np.arange(members)[:, None]
    turned = np.ascontiguousarray(codes.T)
    real = np.isfinite(edges).ravel()
    for r in range(shape.rounds):
        pull, bend = gradient(made, weights)
        allowed = rng.random((members, width)) < shape.columns
        closed = ~(np.repeat(allowed, bins - 1, axis=1) & real[None])
        leaf = np.zeros((members, count), dtype=np.intp)
        for level in range(shape.depth):
            best = _split(flat, leaf, pull, bend, 2**level, width, bins, closed, ridge)
            feature, cut = best // (bins - 1), best % (bins - 1)
            features[r, level], thresholds[r, level] = feature, edges[feature, cut]
            leaf = 2 * leaf + (turned[feature] > cut[:, None])
        size = 2**shape.depth
        place = (rows * size + leaf).ravel()
        total = np.bincount(place, pull.ravel(), members * size).reshape(members, size)
        curve = np.bincount(place, bend.ravel(), members * size).reshape(members, size)
        leaves[r] = shape.rate * total / (curve + ridge)
        made += leaves[r][rows, leaf]
    return Ensemble(features=features, thresholds=thresholds, leaves=leaves, start=start)


def _binned(columns: Floats) -> tuple[Whole, Floats]:
    """Bin numbers ``[n, columns]`` and the upper edges of all bins but the last, infinite where there are fewer."""
    found = []
    for column in columns.T:
        values = np.unique(column)
        if len(values) > _BINS:
            at = np.unique(np.quantile(column, np.linspace(0, 1, _BINS + 1)[1:-1], method="lower"))
            values = np.append(at, np.inf)
            middles = at
        else:
            middles = (values[1:] + values[:-1]) / 2
        found.append(middles)
    longest = max([1, *(len(m) for m in found)])
    edges = np.full((columns.shape[1], longest), np.inf)
    for j, middles in enumerate(found):
        edges[j, : len(middles)] = middles
    codes = np.stack(
        [np.searchsorted(edges[j], columns[:, j], side="left") for j in range(columns.shape[1])], axis=1
    )
    return codes.astype(np.intp), edges


def _split(
    flat: Whole,
    leaf: Whole,
    pull: Floats,
    bend: Floats,
    size: int,
    width: int,
    bins: int,
    closed: NDArray[np.bool_],
    ridge: float,
) -> Whole:
    """The best question for each member, as feature times (bins - 1) plus bin."""
    members = len(leaf)
    cells = width * bins
    base = (np.arange(members)[:, None] * size + leaf) * cells
    place = (base[:, :, None] + flat[None]).ravel()
    length = members * size * cells
    shape = (members, size, width, bins)
    total = np.bincount(place, np.repeat(pull.ravel(), width), length).reshape(shape).cumsum(axis=3)
    curve = np.bincount(place, np.repeat(bend.ravel(), width), length).reshape(shape).cumsum(axis=3)
    left, left_curve = total[..., :-1], curve[..., :-1]
    right, right_curve = total[..., -1:] - left, curve[..., -1:] - left_curve
    gain = (left * left / (left_curve + ridge) + right * right / (right_curve + ridge)).sum(axis=1)
    gain = gain.reshape(members, width * (bins - 1))
    gain[closed] = -1.0
    return np.asarray(gain.argmax(axis=1))
