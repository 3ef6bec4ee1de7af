"""Pareto fronts of a few objectives, all of them to be made small. May not weigh one against another."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["front"]


def front(values: Sequence[Sequence[float]]) -> list[int]:
    """Which of the rows no other row is at least as good as in everything and better in something, in order.

    Of equal rows the first counts.

    Args:
        values: ``[n, objectives]``, finite.

    >>> front([(1.0, 5.0), (2.0, 2.0), (3.0, 2.0), (2.0, 2.0), (4.0, 1.0)])
    [0, 1, 4]
    """
    order = sorted(range(len(values)), key=lambda i: (tuple(values[i]), i))
    kept: list[int] = []
    for i in order:
        # Sorted, so nothing that comes later can beat what is kept.
        if not any(all(a <= b for a, b in zip(values[k], values[i], strict=True)) for k in kept):
            kept.append(i)
    return sorted(kept)
