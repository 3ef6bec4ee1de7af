"""The hot regions of an application as a table for people. Print."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tuner.cli.text import seconds_text

if TYPE_CHECKING:
    from tuner.driver.applications.app_regions import Examined
    from tuner.driver.applications.region_specs import RegionSpec
    from tuner.spec.applications import Region

__all__ = ["print_regions", "slower_apart"]

_FEW_SAMPLES = 50
_ANY = 1000
_SEEN_S = 0.5
"""Of processor time, in which a program that can be sampled is."""


def print_regions(found: Examined, recorded: Sequence[RegionSpec] = ()) -> None:
    """Which regions there are and how much of the time they take.

    Args:
        found: the application.
        recorded: what recording each of its regions showed; empty where none was tried.
    """
    rows = [_row(one) for one in found.hot.regions]
    if recorded:
        rows = [(*_row(one.region), *_calls(one)) for one in recorded]
    heads = ("region", "share", "at most", "loops", "calls", "a call", "recorded")[
        : len(rows[0]) if rows else 0
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows) if rows else ():
        left = (0, 3, 6)
        cells = [
            f"{cell:<{w}}" if i in left else f"{cell:>{w}}"
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
    refused = [line for one in recorded for line in (*one.refused, *slower_apart(one))]
    for line in (*found.doubts, *found.hot.unread, *refused):
        print(f"note: {line}", file=sys.stderr)
    _print_end(found)


def slower_apart(one: RegionSpec) -> Iterator[str]:
    """That a loop takes longer as a function of its own."""
    if one.apart > 1:
        took = (
            f"a call takes {seconds_text(one.call_s)}, as a function of its own {one.apart:.1f} times as long"
        )
        yield f"{one.name}: {took}: where it stands the compiler knows more of it, and a gain may be none there"


def _row(region: Region) -> tuple[str, ...]:
    faster = "any" if region.most is None or region.most > _ANY else f"{region.most:.2f}x"
    name = f"{region.within}: {region.name}" if region.within else region.name
    return (
        name,
        f"{100 * region.share:.1f}%",
        faster,
        ", ".join(map(str, region.loops)) or "the function itself",
    )


def _calls(one: RegionSpec) -> tuple[str, ...]:
    if one.path is None:
        return "-", "-", "no"
    how = f"the loop at {one.line}" if one.line else "the function"
    return (
        str(one.calls),
        seconds_text(one.call_s),
        how + (", with the memory around it" if one.by_address else ""),
    )


def _print_end(found: Examined) -> None:
    listing = found.listing
    unseen = not listing.samples and (listing.static or listing.ran.processor_s > _SEEN_S)
    if found.hot.regions:
        print("at most: what the whole gains if that takes no time at all")
    elif unseen:
        print("none of its processor time could be sampled: it has to be linked dynamically, without -static")
    elif found.hot.without_lines:
        print("no line of its sources is known: build it with -g and without strip, which changes no code")
    else:
        print("no loop or function of its sources takes much of its time")
    if listing.samples < _FEW_SAMPLES and not unseen:
        print(f"it was looked at {listing.samples} times only: a longer run tells more")
