"""How far down a ranking one has to look: from where the model, out of sample, placed the best that were measured.

May not fit anything, nor know what is ranked.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_CUT", "cut_of", "doubt_of", "failing_cut_of", "folds", "places"]

Floats = NDArray[np.float64]

LARGEST_CUT = 0.6
"""A cut above it is no cut: the model abstains."""

_MARGIN = 1.25
_BEST = 8
_BEST_SHARE = 0.05
_SMALLEST = 0.1
_SURE = 0.98
_CAUGHT = 0.25
_LIKELY = 0.5
_BEYOND_CHANCE = 2.0
"""1.645 would be 5% of independent rows; of features that say nothing agreements spread 1.25 times as wide and more,
since the members share their trials (80 made-up runs of 10 to 78 trials)."""

_LEAST = 8


def folds(count: int, members: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.intp]]:
    """Weights ``[members, count]``, 0 in the fold that a member leaves out, and each row's fold."""
    own = rng.permutation(count) % members
    weights = np.ones((members, count))
    weights[own, np.arange(count)] = 0.0
    return weights, own


def places(made: Floats, reference: Floats) -> Floats:
    """Which part of a member's reference is below each of its predictions, averaged over members, ``[n]``.

    Args:
        made: predictions ``[members, n]``.
        reference: predictions ``[members, m]``, sorted.
    """
    below = [np.searchsorted(known, own) for known, own in zip(reference, made, strict=True)]
    return np.asarray(np.mean(below, axis=0) / max(1, reference.shape[1]))


def cut_of(own_places: Floats, scores: Floats) -> float:
    """The place down to which candidates are worth trying; at most 1.

    The largest place of the best few stands for the 95% quantile, which so few do not tell apart from it. With a
    model that knows nothing eight places all fall under half once in 256 times.

    Args:
        own_places: out-of-sample places of measured rows ``[n]``.
        scores: of the same rows, low is good.
    """
    count = max(_BEST, math.ceil(_BEST_SHARE * len(scores)))
    best = np.argsort(scores, kind="stable")[:count]
    return float(min(1.0, max(_SMALLEST, _MARGIN * own_places[best].max() + 1.0 / len(scores))))


def failing_cut_of(chances: Floats, failed: NDArray[np.bool_]) -> float | None:
    """The chance above which failure is as good as sure; ``None`` where too few failures lie above it.

    Args:
        chances: out-of-sample chances of failing ``[n]``.
        failed: which of them failed.
    """
    cut = max(_LIKELY, float(np.quantile(chances[~failed], _SURE)))
    caught = float((chances[failed] > cut).mean())
    return cut if caught >= _CAUGHT else None


def doubt_of(own_places: Floats, scores: Floats) -> str:
    """Why an order is no better than chance where the model did not look; empty where it is better.

    A rank test at 5% (Spearman) of out-of-sample places against what was measured.

    Args:
        own_places: out-of-sample places of measured rows ``[n]``.
        scores: of the same rows, low is good.
    """
    if len(scores) < _LEAST:
        return f"fewer than {_LEAST} trials were timed"
    if np.ptp(own_places) == 0 or np.ptp(scores) == 0:
        return "out of sample it tells no trial from another"
    agreement = float(np.corrcoef(_ranks(own_places), _ranks(scores))[0, 1])
    if agreement * math.sqrt(len(scores) - 1) < _BEYOND_CHANCE:
        return f"out of sample its order agrees with the times no more than chance ({agreement:.2f})"
    return ""


def _ranks(values: Floats) -> Floats:
    """Ranks; equal values share one. As in SciPy, whose module takes half a second to import."""
    ordered = np.sort(values)
    return (
        np.asarray(np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2
    )
