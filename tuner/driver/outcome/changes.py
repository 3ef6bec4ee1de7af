"""What a winner sets otherwise than the baseline, in the order in which it is of use to a person. May not print."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuner.core.types import Status
from tuner.driver.outcome.result import Summary
from tuner.driver.plan.ablation import Worth

__all__ = ["Changes", "changes_of", "settings_worth"]

FEW = 3
"""As many settings of a kind stand by themselves."""
SURE = 0.01
"""A call that takes longer or shorter by less than this is as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Names of settings.

    Attributes:
        first: to be shown one by one: what is surely worth something, most first, then what is not known to be.
        sizes: of the winner's edits, of which nothing is known: the spec does not have them, and there may be dozens.
        vain: without any one of which a call takes as long, as far as can be told.
    """

    first: tuple[str, ...]
    sizes: tuple[str, ...] = ()
    vain: tuple[str, ...] = ()


def settings_worth(summary: Summary) -> dict[str, Worth]:
    """What came of taking settings back, by their names, where that was tried."""
    return {
        w.item["name"]: w
        for w in summary.ablation
        if w.item["kind"] != "pass" and w.status is not Status.PRUNED
    }


def changes_of(summary: Summary) -> Changes:
    """The winner's changes; nothing is left out."""
    worths, changes = settings_worth(summary), summary.changes
    known = sorted((n for n in changes if _matters(worths.get(n))), key=lambda n: -_height(worths[n]))
    vain = [n for n in changes if n in worths and n not in known]
    unknown = [n for n in changes if n not in worths]
    sizes = [n for n in unknown if n not in summary.baseline.proposal.configuration]
    if len(vain) <= FEW:
        known, vain = known + vain, []
    if len(sizes) <= FEW:
        sizes = []
    first = (*known, *(n for n in unknown if n not in sizes))
    return Changes(first=first, sizes=tuple(sizes), vain=tuple(vain))


def _matters(worth: Worth | None) -> bool:
    """Whether a call surely takes another time without it, or fails."""
    if worth is None:
        return False
    if worth.ratio is None:
        return True
    value, low, high = worth.ratio
    return (low > 1 or high < 1) and abs(math.log(value)) > SURE


def _height(worth: Worth) -> float:
    return math.inf if worth.ratio is None else worth.ratio[0]
