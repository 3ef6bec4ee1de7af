"""What a variant of the source may be worth, by what variants of other kernels were worth.

A variant is where its edits move the numbers of its source (:mod:`tuner.spaces.source.embedding`). Variants that move
alike, of kernels that are alike, count most (Nadaraya and Watson's regression). May not decide anything: it orders what
is tried first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Kept", "Tried", "chosen", "of_moves", "promises", "worth"]

Floats = NDArray[np.float64]

_REACH = 0.2
"""Cosine distance at which a variant counts a third."""

_NEAR = 0.5
"""Distance of kernels at which all their variants count a third."""

_ALIKE = 0.1
"""Cosine distance under which two variants are much alike."""

_DOUBT = 1e-3
_MOVES_DOUBT = 0.05
"""The same for moves: those that only far kernels tried are as good as untried."""

_UNKNOWN = 0.2
"""What a variant like nothing known is taken for, as :func:`worth` has it."""

Kept = tuple[tuple[float, ...], float]
"""A variant's numbers, and what it was worth, as an entry of the library keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """Variants of one earlier run.

    Attributes:
        shape: numbers of its source as given.
        apart: distance of its kernel.
        variants: as kept.
    """

    shape: Sequence[float]
    apart: float
    variants: Sequence[Kept]


def worth(score: float | None, best: float) -> float:
    """A variant's part of the gain that a run found, -1 to 1; 0 for one that failed.

    Args:
        score: log time over the baseline's, or ``None``.
        best: the run's best score, below 0.
    """
    return 0.0 if score is None else float(np.clip(score / best, -1.0, 1.0))


def promises(
    shape: Sequence[float], variants: Sequence[Sequence[float]], known: Sequence[Tried]
) -> tuple[Floats, list[int]]:
    """The expected worth of each variant, ``[n]``, and which earlier run says most of it.

    Args:
        shape: numbers of the source as given, ``[d]``.
        variants: of each variant, ``[n][d]``.
        known: earlier runs; those with other numbers say nothing.
    """
    moves = _moves(shape, variants)
    total, weights = np.full(len(moves), _DOUBT * _UNKNOWN), np.full(len(moves), _DOUBT)
    shares = np.zeros((len(known), len(moves)))
    for number, run in enumerate(known):
        if not run.variants or len(run.shape) != len(shape):
            continue
        theirs = _moves(run.shape, [numbers for numbers, _ in run.variants])
        near = np.exp(-(1.0 - moves @ theirs.T) / _REACH - run.apart / _NEAR)
        total += near @ np.array([value for _, value in run.variants])
        shares[number] = near.sum(axis=1)
        weights += shares[number]
    return np.asarray(total / weights), [int(n) for n in shares.argmax(axis=0)] if known else [0] * len(moves)


def of_moves(known: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """The expected worth of each move that earlier runs made variants with, -1 to 1.

    Args:
        known: of each earlier run the distance of its kernel, and what its moves were worth.
    """
    totals: dict[str, float] = {}
    weights: dict[str, float] = {}
    for apart, paid in known:
        near = math.exp(-apart / _NEAR)
        for move, value in paid.items():
            totals[move] = totals.get(move, 0.0) + near * value
            weights[move] = weights.get(move, 0.0) + near
    doubt = _MOVES_DOUBT
    return {m: (totals[m] + doubt * _UNKNOWN) / (weights[m] + doubt) for m in sorted(totals)}


def chosen(
    shape: Sequence[float], variants: Sequence[Sequence[float]], values: Sequence[float], most: int
) -> list[int]:
    """The most promising variants, best first, of those that move much alike one: where it disappoints they would too.

    Args:
        shape: numbers of the source as given, ``[d]``.
        variants: of each variant, ``[n][d]``.
        values: of each variant, from :func:`promises`; none without promise is chosen.
        most: how many at most.
    """
    moves = _moves(shape, variants)
    found: list[int] = []
    for at in np.argsort(-np.asarray(values), kind="stable"):
        apart = 1.0 - moves[found] @ moves[at]
        if len(found) < most and values[at] > 0.0 and np.all(apart >= _ALIKE):
            found.append(int(at))
    return found


def _moves(shape: Sequence[float], variants: Sequence[Sequence[float]]) -> Floats:
    """From the source as given to each variant, at length 1; zeros where nothing moves."""
    made = np.asarray(variants, dtype=np.float64).reshape(len(variants), len(shape)) - np.asarray(shape)
    lengths = np.linalg.norm(made, axis=1, keepdims=True)
    return np.asarray(made / np.where(lengths > 0.0, lengths, 1.0))
