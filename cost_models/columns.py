"""Features by name as the columns of a matrix. May not know what a feature means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Columns"]

Floats = NDArray[np.float64]

_MOST = 48
_ABSENT = -1.0


class Columns:
    """Chooses columns from what is known and puts further rows into the same columns.

    A feature becomes a column where rows differ in it and no earlier one says the same; of more than 48 those in which
    the most rows differ from the commonest value. One that a row lacks counts as -1, below every count and size.

    Args:
        known: features of the rows that are learnt from.

    Attributes:
        names: of the columns.
    """

    def __init__(self, known: Sequence[Mapping[str, float]]) -> None:
        names = sorted({name for features in known for name in features})
        whole = _matrix(known, names)
        found: dict[bytes, int] = {}
        for j in range(len(names)):
            column = np.ascontiguousarray(whole[:, j])
            if column.size and np.any(column != column[0]):
                found.setdefault(column.tobytes(), j)
        odd = {
            j: len(whole) - int(np.unique(whole[:, j], return_counts=True)[1].max()) for j in found.values()
        }
        kept = sorted(sorted(odd, key=lambda j: (-odd[j], j))[:_MOST])
        self.names = tuple(names[j] for j in kept)

    def rows(self, features: Sequence[Mapping[str, float]]) -> Floats:
        """``[n, columns]``."""
        return _matrix(features, self.names)


def _matrix(features: Sequence[Mapping[str, float]], names: Sequence[str]) -> Floats:
    made = np.array([[one.get(name, _ABSENT) for name in names] for one in features], dtype=np.float64)
    return np.nan_to_num(made.reshape(len(features), len(names)), nan=_ABSENT, posinf=1e300, neginf=-1e300)
