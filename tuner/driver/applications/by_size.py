"""Winners of several runs side by side: those for one kernel part its calls by the sizes that they were timed at.

May not open a record or run the application.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from tuner.core.errors import UsageError
from tuner.driver.applications.in_place import FunctionWinner, ImageWinner, Winner, WinnerInPlace
from tuner.recorders.recordings.points import Key, rows, shown_sizes, telling

__all__ = ["by_size"]

Named: TypeAlias = tuple[Path, WinnerInPlace]


def by_size(named: Sequence[Named], *, note: Callable[[str], None]) -> tuple[WinnerInPlace, ...]:
    """Winners as they are put in place together, those for one kernel next to each other.

    Args:
        named: winners with the runs that they come from. One that was nowhere faster marks the sizes at which the
            kernel stays as it is.
        note: told of runs that are left out.

    Raises:
        UsageError: two of them want the same calls.
    """
    groups: dict[Hashable, list[Named]] = {}
    for path, winner in named:
        groups.setdefault(winner.replaces, []).append((path, winner))
    return tuple(winner for group in groups.values() for winner in _parted(group, note))


def _parted(group: Sequence[Named], note: Callable[[str], None]) -> Sequence[WinnerInPlace]:
    keys = telling([point for _, winner in group for point in winner.points])
    group = _by_device(group)
    gaining = [(path, winner) for path, winner in group if _gains(winner)]
    if not gaining:
        for path, winner in group:
            note(f"{winner.kernel} stays as it is: {path} claims no gain")
        return ()
    known: dict[frozenset[tuple[str, tuple[int, ...]]], Path] = {}
    for path, winner in gaining:
        other = known.setdefault(_places(winner, keys), path)
        if other is not path:
            raise UsageError(
                f"{other} and {path} both replace {winner.kernel}, and were timed at the same sizes",
                "name one of them",
            )
    covered = frozenset().union(*known)
    kept = []
    for path, winner in group:
        if _gains(winner) or not _places(winner, keys) <= covered:
            kept.append(winner)
        else:
            note(f"{path} is left out: it claims no gain, and another run does at its sizes")
    return (
        [_with_keys(winner, keys) for winner in _numbered(kept)] if len(kept) > 1 else [_alone(kept[0], keys)]
    )


def _by_device(group: Sequence[Named]) -> Sequence[Named]:
    """OpenCL's winners for different devices each take their own's launches alone."""
    devices = {winner.recording.device for _, winner in group if isinstance(winner, Winner)}
    if len(devices) < 2:
        return group
    return [
        (path, replace(w, device=w.recording.device) if isinstance(w, Winner) else w) for path, w in group
    ]


def _places(winner: WinnerInPlace, keys: Sequence[Key]) -> frozenset[tuple[str, tuple[int, ...]]]:
    return frozenset((winner.device, row[1:]) for row in rows(winner.points, keys))


def _numbered(winners: Sequence[WinnerInPlace]) -> Sequence[WinnerInPlace]:
    """Functions share one library, which has to know all of them."""
    functions = [replace(w, number=i) for i, w in enumerate(winners) if isinstance(w, FunctionWinner)]
    return [replace(one, beside=tuple(functions)) for one in functions] or winners


def _with_keys(winner: WinnerInPlace, keys: tuple[Key, ...]) -> WinnerInPlace:
    sizes = shown_sizes(winner.points, keys, winner.names)
    if isinstance(winner, Winner | ImageWinner):
        return replace(winner, keys=keys, sizes=sizes, absent=f"{winner.absent} with sizes nearest to these")
    return replace(winner, sizes=sizes) if isinstance(winner, FunctionWinner) else winner


def _alone(winner: WinnerInPlace, keys: tuple[Key, ...]) -> WinnerInPlace:
    return replace(winner, keys=keys) if isinstance(winner, Winner | ImageWinner) else winner


def _gains(winner: WinnerInPlace) -> bool:
    return any(point.taken for point in winner.points)
