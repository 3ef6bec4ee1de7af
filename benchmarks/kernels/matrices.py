"""Matrices that a benchmark kernel needs and that no distribution gives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def dominant(n: int, seed: int) -> NDArray[np.float64]:
    """Random n x n with a dominant diagonal, so that elimination needs no pivots."""
    matrix = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, n))
    matrix[np.diag_indices(n)] += float(n)
    return matrix
