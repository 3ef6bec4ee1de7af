"""Sizes at which winners of one kernel were timed, by which each of an application's calls gets the nearest one's.

The distance of a call from such a point is that of wisdom files: the largest ratio of two sizes. Numbers that are the
same at all points tell nothing. May not know of a device or a compiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["AXIS", "BYTES", "SIGNED", "UNSIGNED", "Key", "Point", "rows", "shown_sizes", "telling"]

AXIS, SIGNED, UNSIGNED, BYTES = range(4)
"""What a number of a call is: work-items along an axis, a whole-number argument, the bytes of a buffer."""

Key: TypeAlias = tuple[int, int]
"""One of those, and which axis or argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A problem that a run was timed on.

    Attributes:
        sizes: its numbers.
        taken: whether the winner takes calls like it; else it was no faster there, and they stay as they are.
    """

    sizes: Mapping[Key, int]
    taken: bool = True


def telling(points: Iterable[Point]) -> tuple[Key, ...]:
    """The numbers that all points have, and that differ among them."""
    sizes = [point.sizes for point in points]
    shared = [key for key in (sizes[0] if sizes else ()) if all(key in one for one in sizes)]
    return tuple(sorted(key for key in shared if len({one[key] for one in sizes}) > 1))


def rows(points: Sequence[Point], keys: Sequence[Key]) -> tuple[tuple[int, ...], ...]:
    """For the library: whether a point is taken, then its numbers; equal points once, and one where there is none.

    Points of equal numbers differ in their data: one that the winner takes goes before one that it does not.
    """
    found = [(int(one.taken), *(one.sizes[key] for key in keys)) for one in points] or [(1,)]
    unique = dict.fromkeys(sorted(found, key=lambda row: -row[0]))
    first: dict[tuple[int, ...], tuple[int, ...]] = {}
    for row in unique:
        first.setdefault(row[1:], row)
    return tuple(first.values())


def shown_sizes(
    points: Sequence[Point], keys: Sequence[Key], names: Mapping[Key, str]
) -> dict[str, tuple[int, ...]]:
    """What tells a winner's points from the others', by name."""
    return {names[key]: tuple(sorted({one.sizes[key] for one in points})) for key in keys}
