"""Which of several new variants of the source to try, by the code that they build to.

Two ways, neither of which decides anything: what is unlike all code that was timed, which shows early what a kernel
needs, and what may be fastest by what the run's own trials were worth.

Source: brood selection, Tackett, "Recombination, selection, and the genetic construction of computer programs" (1994);
the first way is farthest-first traversal, Gonzalez, "Clustering to minimize the maximum intercluster distance" (1985).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.core.streams import stream
from tuner.cost_models.boosting import Shape, fit_ensemble, squares

__all__ = ["Timed", "reachable", "unlike"]

Floats = NDArray[np.float64]
Features = Mapping[str, float]

_SHAPE = Shape(rounds=60, depth=3, columns=0.4)
_MEMBERS = 8
_SEEN = 0.7
"""Part of the trials that a member is fitted to."""

_LEAST = 5
"""Variants, the source as given among them, that can tell anything."""

_MOST = 256
"""Trials that are learnt from, the latest: all of a long run would take seconds."""

_WORST = 1.5
"""How much worse than the baseline a trial counts at most, as a logarithm."""

_FLAT = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A trial of the run.

    Attributes:
        variant: its number.
        features: static features of its build.
        score: logarithm of its time over the baseline's.
    """

    variant: int
    features: Features
    score: float


def unlike(known: Sequence[Features], asked: Sequence[Features]) -> Floats:
    """How far each build is from the nearest that is known, ``[n]``, in standard deviations of features' logarithms.

    Args:
        known: features of what was timed, at least one.
        asked: features of what may be tried.
    """
    names = sorted({name for one in known for name in one})
    seen, new = _columns(names, known), _columns(names, asked)
    spread = np.concatenate([seen, new]).std(axis=0)
    varied = spread > _FLAT
    apart = (new[:, None, varied] - seen[None, :, varied]) / spread[varied]
    return np.asarray(np.sqrt((apart**2).sum(axis=2)).min(axis=1))


def reachable(known: Sequence[Timed], asked: Sequence[Features]) -> Floats | None:
    """The score that each build may reach, ``[n]``: what is expected of it, less what the members disagree by.

    All of a variant's trials together weigh as much as those of another.

    Args:
        known: what was timed, in order.
        asked: features of what may be tried.

    Returns:
        ``None`` where too few variants were timed.
    """
    known = known[-_MOST:]
    trials = Counter(one.variant for one in known)
    names = sorted({name for one in known for name in one.features})
    if len(trials) < _LEAST or not names or not asked:
        return None
    targets = np.array([min(one.score, _WORST) for one in known])
    share = np.array([1.0 / trials[one.variant] for one in known])
    rng = stream(0, "culling")
    weights = (rng.random((_MEMBERS, len(known))) < _SEEN) * share
    start = np.full(_MEMBERS, np.average(targets, weights=share))
    rows = _columns(names, [one.features for one in known])
    fitted = fit_ensemble(rows, squares(targets), weights, rng, start=start, shape=_SHAPE)
    made = fitted.predict(_columns(names, asked))
    return np.asarray(made.mean(axis=0) - made.std(axis=0))


def _columns(names: Sequence[str], builds: Sequence[Features]) -> Floats:
    return np.asarray(np.log1p([[max(one.get(n, 0.0), 0.0) for n in names] for one in builds]))
