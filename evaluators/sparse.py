"""Random sparse matrices in compressed sparse row form. Structure only: the values are an array like any other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tuner.core.errors import SpecError

__all__ = ["random_csr"]

_CHUNK = 1 << 20


def random_csr(
    rows: int, columns: int, *, nonzeros: int, skew: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row pointers (``rows + 1``) and column indices (exactly ``nonzeros``, distinct and ascending in each row).

    Args:
        rows: at least 1; ``columns`` alike.
        columns: of the matrix.
        nonzeros: at most ``rows * columns``.
        skew: exponent of the power law of row lengths; 0 gives every row the same chance. Rows may be empty.
        rng: where the structure is drawn from.

    Raises:
        SpecError: the matrix has too many places to number.
    """
    if rows * columns >= 1 << 62:
        raise SpecError(f"a {rows} by {columns} matrix is too large", "make the matrix smaller")
    lengths = _row_lengths(rows, columns, nonzeros, skew, rng)
    pointers = np.zeros(rows + 1, np.int64)
    np.cumsum(lengths, out=pointers[1:])
    indices = np.empty(nonzeros, np.int64)
    # Redrawing collisions is quick only where they are rare, so rows more than half full are drawn by ranks.
    full = lengths * 2 > columns
    owner_full = np.repeat(full, lengths)
    indices[~owner_full] = _sparse_rows(np.where(full, 0, lengths), columns, rng)
    indices[owner_full] = _dense_rows(lengths[full], columns, rng)
    return pointers, indices


def _row_lengths(
    rows: int, columns: int, nonzeros: int, skew: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    weights = np.arange(1, rows + 1, dtype=np.float64) ** -skew
    rng.shuffle(weights)
    lengths = rng.multinomial(nonzeros, weights / weights.sum()).astype(np.int64)
    excess = int(np.maximum(lengths - columns, 0).sum())
    np.minimum(lengths, columns, out=lengths)
    if excess:
        order = rng.permutation(rows)
        room = columns - lengths[order]
        before = np.cumsum(room) - room
        lengths[order] += np.clip(excess - before, 0, room)
    return lengths


def _sparse_rows(lengths: NDArray[np.int64], columns: int, rng: np.random.Generator) -> NDArray[np.int64]:
    base = np.repeat(np.arange(lengths.size, dtype=np.int64) * columns, lengths)
    keys = base + rng.integers(0, columns, size=base.size)
    while True:
        keys.sort()
        repeated = np.flatnonzero(keys[1:] == keys[:-1])
        if not repeated.size:
            return keys % columns
        keys[repeated] += rng.integers(0, columns, size=repeated.size) - keys[repeated] % columns


def _dense_rows(lengths: NDArray[np.int64], columns: int, rng: np.random.Generator) -> NDArray[np.int64]:
    parts = [np.empty(0, np.int64)]
    step = max(1, _CHUNK // columns)
    for start in range(0, lengths.size, step):
        block = lengths[start : start + step]
        order = rng.random((block.size, columns)).argsort(axis=1)
        chosen = np.zeros((block.size, columns), np.bool_)
        np.put_along_axis(chosen, order, np.arange(columns) < block[:, None], axis=1)
        parts.append(np.nonzero(chosen)[1].astype(np.int64))
    return np.concatenate(parts)
