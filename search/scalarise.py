"""Several objectives as one, anew for each proposal, so that the proposals together go along the whole front.

The augmented Chebyshev distance of ranks under random weights (Knowles, ParEGO, IEEE Transactions on Evolutionary
Computation 10(1), 2006). May not look at configurations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["scalarised", "weights"]

Floats = NDArray[np.float64]

_LEVELS = 10
_SUM = 0.05


def weights(rng: np.random.Generator, objectives: int) -> tuple[float, ...]:
    """Weights that sum to 1, uniform on a grid of tenths; drawn only where there are two objectives and more.

    >>> weights(np.random.default_rng(0), 1)
    (1.0,)
    """
    if objectives == 1:
        return (1.0,)
    cuts = np.sort(rng.integers(0, _LEVELS + 1, size=objectives - 1))
    return tuple(float(w) / _LEVELS for w in np.diff([0, *cuts, _LEVELS]))


def scalarised(values: Sequence[Sequence[float]], weighted: Sequence[float]) -> Floats:
    """One number for each row, lower is better.

    Args:
        values: ``[n]`` rows of the objectives, time first; a row that lacks the others counts as worst in them.
        weighted: of the objectives.
    """
    width = len(weighted)
    if width == 1:
        return np.array([row[0] for row in values], dtype=np.float64)
    # It takes a second to import, and few runs have several objectives.
    from scipy.stats import rankdata

    table = np.array([[*row, *[np.inf] * (width - len(row))] for row in values], dtype=np.float64)
    ranks = rankdata(table, method="average", axis=0) / len(table)
    each = ranks * np.asarray(weighted)
    return np.asarray(each.max(axis=1) + _SUM * each.sum(axis=1))
