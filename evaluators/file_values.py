"""Values of arguments from files beside the spec: .npy as ``numpy.save`` writes it, .bin as it lies in memory.

May not unpickle anything.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.errors import SpecError

__all__ = ["check_file", "check_fitting", "read_file"]

Array = NDArray[Any]


def read_file(name: str, dtype: np.dtype[Any], path: Path, shape: tuple[int, ...]) -> Array:
    """The values that a file holds for an argument.

    Args:
        name: the argument's.
        dtype: of its elements.
        path: of the file.
        shape: of the argument.

    Raises:
        SpecError: there is no such file, or it holds something else.
    """
    values = _opened(name, dtype, path, shape)
    return np.array(values).reshape(shape)


def check_file(name: str, dtype: np.dtype[Any], path: Path, shape: tuple[int, ...]) -> None:
    """Whether :func:`read_file` would do, by the file's size and header alone."""
    _opened(name, dtype, path, shape)


def check_fitting(
    name: str, dtype: np.dtype[Any], values: Array, shape: tuple[int, ...], origin: str
) -> None:
    """Values from elsewhere have the argument's type and shape; one dimension with all elements will do.

    Raises:
        SpecError: they have not.
    """
    if values.dtype != dtype:
        raise SpecError(
            f"argument {name!r} is {dtype}, {origin} holds {values.dtype}",
            "save the file with the argument's dtype",
        )
    if values.shape != shape and not (values.ndim == 1 and values.size == math.prod(shape)):
        raise SpecError(
            f"argument {name!r} has shape {list(shape)}, {origin} {list(values.shape)}",
            "give the argument the shape of the values",
        )


def _opened(name: str, dtype: np.dtype[Any], path: Path, shape: tuple[int, ...]) -> Array:
    """Mapped, so that a header that promises too much costs nothing."""
    if path.suffix not in (".npy", ".bin"):
        raise SpecError(
            f"argument {name!r}: {path.name} is no .npy and no .bin file",
            "write it with numpy.save, or the bare elements with the suffix .bin",
        )
    try:
        if path.suffix == ".bin":
            _check_size(name, math.prod(shape) * dtype.itemsize, path)
            return np.memmap(path, dtype, mode="r", shape=shape)
        values: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise SpecError(
            f"argument {name!r}: {path.name} cannot be read: {error.strerror or error}",
            "name a .npy or .bin file beside the spec",
        ) from None
    except (ValueError, EOFError) as error:
        if isinstance(error, SpecError):
            raise
        raise SpecError(
            f"argument {name!r}: {path.name} is no array of numbers as numpy.save writes it",
            "save it anew; bare elements have the suffix .bin",
        ) from None
    check_fitting(name, dtype, values, shape, path.name)
    return values


def _check_size(name: str, expected_bytes: int, path: Path) -> None:
    size_bytes = path.stat().st_size
    if size_bytes != expected_bytes:
        raise SpecError(
            f"argument {name!r} takes {expected_bytes} bytes, {path.name} has {size_bytes}",
            "make the shape fit the file, or the file the shape",
        )
