"""Whether refused edits of the source are why a run found nothing in it, in words for whose kernel it is.

From what the ``start`` event says of the source as given; records from before it did say nothing. May not look at a
source again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.driver.state.run import RunState

__all__ = ["KEY", "describe_refusals", "mostly_refused", "refusals"]

KEY = "refusals"
"""Where the ``start`` event has it."""

_MOSTLY = 2 / 3
_LOOPS_NAMED = 4
_MOST_REASONS = 3
_LONGEST = 140


def refusals(state: RunState, *, edited: bool) -> Mapping[str, Any] | None:
    """What operators refused in the source as given; ``None`` where it is changed by what is claimed.

    Args:
        state: of the run.
        edited: whether a gain is claimed for a variant with edits.
    """
    found: Mapping[str, Any] | None = (state.start or {}).get(KEY)
    if found is None or edited or state.end is None or state.end["stopped_by"] == "baseline":
        return None
    # A stranger's record may say anything here: what cannot be put into words is found while it is read.
    describe_refusals(found)
    return found


def mostly_refused(found: Mapping[str, Any]) -> bool:
    """Whether operators can do little with a source, by what :func:`tuner.search.edit_survey.survey` says of it."""
    # With no place for any edit there is nothing that could have been refused, and nothing is proposed either.
    return bool(found["refused"] >= _MOSTLY * found["tried"])


def describe_refusals(found: Mapping[str, Any]) -> list[str]:
    """One or two lines, none where nothing is refused: how many were, then why most of them were, and where."""
    unread = found["unread"]
    if not found["tried"]:
        texts = "; ".join(f"{name} holds {text}" for name, text in unread.items())
        return [f"operators found no loop in the source to change{': ' + texts if texts else ''}"]
    if not found["reasons"]:
        return []
    several = len({r["function"] for r in found["reasons"]}) > 1
    reasons = [_reason(r, several=several) for r in found["reasons"][:_MOST_REASONS]]
    head = f"{found['refused']} of {found['tried']} edits of the source as given, most often: {reasons[0]}"
    more = reasons[1:]
    while len(more) > 1 and sum(map(len, more)) > _LONGEST:
        more.pop()
    return [head, f"also: {'; '.join(more)}"] if more else [head]


def _reason(reason: Mapping[str, Any], *, several: bool) -> str:
    """Why, how often, and the loops."""
    message, function = reason["message"], reason["function"]
    loops = [loop for loop in reason["loops"] if f"loop {loop} " not in f"{message} "]
    named = ", ".join(loops[:_LOOPS_NAMED]) + (", …" if len(loops) > _LOOPS_NAMED else "")
    also = "also " if len(loops) < len(reason["loops"]) else ""
    where = f", {also}loop{'s' if len(loops) > 1 else ''} {named}" if loops else ""
    inside = f" in {function}" if several else ""
    return f"{message} ({reason['count']}{where}{inside})"
