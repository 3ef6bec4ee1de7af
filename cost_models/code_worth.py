"""What a variant of the source may be worth by the code that it builds to, learnt from other kernels' variants.

A variant is how far its code's static features are from those of its own kernel's baseline, so that kernels of all
sizes can be compared. May not decide anything: it orders what is tried first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.core.streams import stream
from tuner.cost_models.boosting import Shape, fit_ensemble, squares

__all__ = ["Code", "Coded", "code_worths"]

Floats = NDArray[np.float64]

Code = tuple[tuple[float, ...], float]
"""A build's static features, and what the variant was worth at its first trial, as an entry of the library keeps it."""

_SHAPE = Shape(rounds=60, depth=3, columns=0.4)
_MEMBERS = 8
_SEEN = 0.7
"""Part of the variants that a member is fitted to."""

_LEAST = 4
"""Variants that can tell anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coded:
    """Builds of one earlier run.

    Attributes:
        baseline: features of its baseline.
        columns: names of the features.
        codes: as kept, a number for each column.
    """

    baseline: Mapping[str, float]
    columns: Sequence[str]
    codes: Sequence[Code]


def code_worths(
    baseline: Mapping[str, float], variants: Sequence[Mapping[str, float]], known: Sequence[Coded]
) -> Floats | None:
    """The expected worth of each variant (:func:`tuner.cost_models.promise.worth`), ``[n]``.

    Args:
        baseline: static features of this kernel's baseline.
        variants: static features of the variants' builds.
        known: earlier runs.

    Returns:
        ``None`` where the runs say too little, or where builds have no features.
    """
    names = sorted(baseline)
    worths = [value for run in known for _, value in run.codes]
    if not names or not variants or len(worths) < _LEAST:
        return None
    rows = [
        _moved(names, run.baseline, dict(zip(run.columns, values, strict=True)))
        for run in known
        for values, _ in run.codes
    ]
    rng = stream(0, "code worth")
    weights = (rng.random((_MEMBERS, len(rows))) < _SEEN).astype(np.float64)
    targets = np.array(worths)
    start = np.full(_MEMBERS, targets.mean())
    fitted = fit_ensemble(np.array(rows), squares(targets), weights, rng, start=start, shape=_SHAPE)
    asked = np.array([_moved(names, baseline, features) for features in variants])
    return np.asarray(fitted.predict(asked).mean(axis=0))


def _moved(names: Sequence[str], baseline: Mapping[str, float], features: Mapping[str, float]) -> Floats:
    """Log ratios to the baseline; what either lacks counts as 0."""
    theirs = np.array([max(features.get(n, 0.0), 0.0) for n in names])
    ours = np.array([max(baseline.get(n, 0.0), 0.0) for n in names])
    return np.asarray(np.log1p(theirs) - np.log1p(ours))
