"""Other input distributions that the verification tries, made from the values that the spec asks for.

Each gives arrays of the same type and shape. Floating values may leave the range of the spec, integers never do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["DISTRIBUTIONS", "NONFINITE", "PERTURBED", "perturb", "redistribute", "redistribute_integers"]

Array = NDArray[Any]

DISTRIBUTIONS = ("given", "scaled", "shifted", "lowered", "structured", "extreme")
"""Input distributions with finite values: as the spec says; times ten; plus five; minus five; special structure
(identity, diagonal, constant, sorted, zeros and ones); large and small magnitudes mixed."""

NONFINITE = "nonfinite"
"""The distribution with a few NaN and infinities; only for ``nonfinite: propagate``."""

PERTURBED = "perturbed"
"""Recorded values, each floating one a little nearer to zero: other values that mean the same to the kernel."""

_NEARER = 2.0**-10

_EXTREME = {"float16": 64.0, "float32": 1000.0, "float64": 2000.0}
# Over the argument at which exp overflows, yet far enough below the type's largest value for sums of cubes
# (squares for float16) to stay finite.


def redistribute(given: Array, distribution: str, rng: np.random.Generator) -> Array:
    """Floating or complex values in another distribution; finite ones stay finite except in :data:`NONFINITE`.

    Args:
        given: as the spec says; not changed.
        distribution: one of :data:`DISTRIBUTIONS`, or :data:`NONFINITE`.
        rng: what else is drawn.
    """
    if distribution == "scaled":
        return _affine(given, factor=10, offset=0)
    if distribution == "shifted":
        return _affine(given, factor=1, offset=5)
    if distribution == "lowered":
        # Where the spec asks for no negative values a kernel need not take them.
        return _affine(given, factor=1, offset=-5) if (given.real < 0).any() else given
    if distribution == "structured":
        return _structured(given, rng)
    if distribution == "extreme":
        return _extreme(given, rng)
    if distribution == NONFINITE:
        result = given.copy()
        places = rng.choice(given.size, size=min(3, given.size), replace=False)
        result.reshape(-1)[places] = [np.nan, np.inf, -np.inf][: places.size]
        return result
    return given


def _affine(given: Array, *, factor: int, offset: int) -> Array:
    with np.errstate(over="ignore"):
        result: Array = given * given.dtype.type(factor) + given.dtype.type(offset)
    if given.dtype.kind == "f":
        largest = np.finfo(given.dtype).max
        np.clip(result, -largest, largest, out=result)
    return result


def _structured(given: Array, rng: np.random.Generator) -> Array:
    choice = int(rng.integers(5))
    if choice < 2 and given.ndim >= 2:
        identity = np.broadcast_to(np.eye(*given.shape[-2:], dtype=np.bool_), given.shape)
        return np.where(identity, given if choice else 1, 0).astype(given.dtype)
    if choice == 2:
        return np.full_like(given, given.reshape(-1)[0])
    if choice == 3:
        return np.sort(given, axis=None).reshape(given.shape)
    return rng.integers(0, 2, size=given.shape).astype(given.dtype)


def _extreme(given: Array, rng: np.random.Generator) -> Array:
    """Magnitudes up to the safe limit, half of them even and half over six decades; signs stay."""
    largest = _EXTREME[given.real.dtype.name]
    magnitude = rng.random(given.shape)
    spread = rng.random(given.shape) < 0.5
    magnitude = largest * np.where(spread, 10.0 ** (6.0 * magnitude - 6.0), magnitude)
    if given.dtype.kind == "c":
        return (np.exp(1j * np.angle(given)) * magnitude).astype(given.dtype)
    return np.copysign(magnitude, given).astype(given.dtype)


def redistribute_integers(given: Array, distribution: str, rng: np.random.Generator) -> Array:
    """Other arrangements of values that were drawn: nothing leaves the range that the spec gave."""
    if distribution == "structured":
        if rng.random() < 0.5:
            return np.full_like(given, given.reshape(-1)[0])
        return np.sort(given, axis=None).reshape(given.shape)
    if distribution == "extreme":
        ends: Array = np.where(rng.random(given.shape) < 0.5, given.min(), given.max())
        return ends.astype(given.dtype)
    return given


def perturb(given: Array, rng: np.random.Generator) -> Array:
    """Floating values nearer to zero by up to a thousandth; signs, zeros, NaN and infinities stay, integers too.

    Nearer and never farther: what indexes or bounds something keeps within what it was.
    """
    if given.dtype.names is not None:
        result = given.copy()
        for member in given.dtype.names:
            result[member] = perturb(given[member], rng)
        return result
    if given.dtype.kind not in "fc":
        return given
    result = given.copy()
    parts = result.view(result.real.dtype)
    factors = rng.random(parts.shape, dtype=np.float32)
    factors *= -_NEARER
    factors += 1.0
    # One of an absurd size is left as it is rather than warned about.
    with np.errstate(all="ignore"):
        parts *= factors.astype(parts.dtype, copy=False)
    return result
