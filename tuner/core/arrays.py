"""Arrays that are mostly zero, copied so that the zeros take no memory. Pure functions."""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["copy_sparse", "sparse_copy", "zeros"]

_PIECE = 1 << 14
"""Bytes of what is looked at at once: some pages."""

_LARGE = 64 << 20


def zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros, of which only the pages that are written to take memory: large ones are kept from huge pages."""
    size = math.prod(shape) * dtype.itemsize
    if size <= _LARGE:
        return np.zeros(shape, dtype)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype).reshape(shape)


def sparse_copy(array: NDArray[Any]) -> NDArray[Any]:
    """A C-contiguous copy; where it is large, pages of zeros are the system's until they are written to."""
    made = zeros(array.shape, array.dtype)
    copy_sparse(np.ascontiguousarray(array).reshape(-1).view(np.uint8), made.reshape(-1).view(np.uint8))
    return made


def copy_sparse(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    """Copies bytes over zeros, leaving pieces alone that are zero.

    Args:
        source: one axis.
        target: of its size, all zero.
    """
    whole = source.size // _PIECE * _PIECE
    pieces = source[:whole].reshape(-1, _PIECE)
    goals = target[:whole].reshape(-1, _PIECE)
    for number in np.flatnonzero(pieces.any(axis=1)):
        goals[number] = pieces[number]
    target[whole:] = source[whole:]
