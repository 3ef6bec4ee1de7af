"""Configurations as rows of numbers for models, and back. May not know which configurations are valid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tuner.spaces.parameters import Kind, Parameter

__all__ = ["Encoder"]

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.integer]


class Encoder:
    """How each dimension becomes columns between 0 and 1.

    - ordered: one column, the value's rank over the highest rank. For integers that is linear in the value,
      for powers of two linear in its logarithm.
    - boolean, or two unordered values: one column, 0 or 1 (false is 0).
    - more unordered values: one column for each, 1 for the chosen one.
    - a single value: no column, for it tells nothing.

    Attributes:
        columns: a name for each column: ``NAME`` or ``NAME=value``.
    """

    def __init__(self, dimensions: Sequence[Parameter]) -> None:
        self._dimensions = tuple(dimensions)
        columns: list[str] = []
        self._starts: list[int] = []
        for dimension in self._dimensions:
            self._starts.append(len(columns))
            if _one_hot(dimension):
                columns += [f"{dimension.name}={value}" for value in dimension.values]
            elif len(dimension.values) > 1:
                columns.append(dimension.name)
        self.columns = tuple(columns)

    def encode(self, positions: Positions) -> Floats:
        """Columns for positions of values.

        Args:
            positions: ``[n, d]``, one column for each dimension.

        Returns:
            ``[n, len(columns)]``.
        """
        rows = np.zeros((len(positions), len(self.columns)))
        for i, (dimension, start) in enumerate(zip(self._dimensions, self._starts, strict=True)):
            size = len(dimension.values)
            if _one_hot(dimension):
                rows[np.arange(len(positions)), start + positions[:, i].astype(np.int64)] = 1.0
            elif size > 1:
                rows[:, start] = positions[:, i] / (size - 1)
                if _reversed_boolean(dimension):
                    rows[:, start] = 1.0 - rows[:, start]
        return rows


def _one_hot(dimension: Parameter) -> bool:
    return not dimension.ordered and len(dimension.values) > 2


def _reversed_boolean(dimension: Parameter) -> bool:
    return dimension.kind is Kind.BOOLEAN and dimension.values[0] is True
