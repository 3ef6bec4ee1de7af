"""Expressions whose value follows from which recording is replayed. Text only."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.expressions import Expression, parse

__all__ = ["INDEX", "by_recording"]

INDEX = "recording"
"""The size that tells recordings apart in expressions; they count from 1."""


def by_recording(values: Sequence[int | float]) -> Expression:
    """An expression that is the value of each recording: its number stands in the size :data:`INDEX`."""
    if all(v == values[0] for v in values):
        return parse(repr(values[0]))
    return parse(" + ".join(f"({INDEX} == {i + 1}) * {v!r}" for i, v in enumerate(values)))
