"""A package around one tuned C function."""

import ctypes
from pathlib import Path

import numpy as np

__all__ = ["saxpy"]

_library = ctypes.CDLL(str(Path(__file__).with_name("libsaxpy.so")))
_array = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")
_library.saxpy.argtypes = [ctypes.c_float, _array, _array, ctypes.c_int]
_library.saxpy.restype = None


def saxpy(a: float, x: np.ndarray, y: np.ndarray) -> None:
    """y += a * x, in place; both float32 of one size."""
    if x.shape != y.shape:
        raise ValueError(f"x has the shape {x.shape}, y {y.shape}")
    _library.saxpy(a, x, y, x.size)
