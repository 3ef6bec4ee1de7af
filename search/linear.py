"""Triangular systems and the normal distribution, from SciPy.

May not be used before there is something to model: SciPy takes a third of the time that a command needs to start, and
checks, short runs and whatever has no model do without it. So it is imported where it is first called.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["normal_below", "normal_quantile", "solve_lower", "solve_positive"]

Floats = NDArray[np.float64]


def solve_lower(lower: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """x of ``lower @ x = right``, where the matrix has nothing above its diagonal."""
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(lower, right, lower=True, check_finite=False))


def solve_positive(lower: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """x of ``lower @ lower.T @ x = right``."""
    from scipy.linalg import cho_solve

    return np.asarray(cho_solve((lower, True), right, check_finite=False))


def normal_below(values: Floats) -> Floats:
    """How likely a standard normal variable is below each value."""
    from scipy.special import ndtr

    return np.asarray(ndtr(values))


def normal_quantile(chances: Floats) -> Floats:
    """The values that a standard normal variable is below with these chances."""
    from scipy.special import ndtri

    return np.asarray(ndtri(chances), dtype=np.float64)
