"""Proposals of a record beside those that are derived: whether they are the same, and what tells them apart.

Must not say what follows from that.
"""

from __future__ import annotations

from typing import Any

from tuner.core.canonical import canonical_json, digest, from_json
from tuner.core.types import Proposal
from tuner.driver.state.trials import proposal_to_json

__all__ = ["apart", "plain"]

_SHOWN = 3
_LONGEST = 40


def plain(proposals: list[Proposal]) -> list[Any]:
    """Proposals as a record would give them back."""
    return [from_json(canonical_json(proposal_to_json(p, {}, digest))) for p in proposals]


def apart(derived: list[Proposal], recorded: list[Proposal], first: int) -> str:
    """The first proposal of an ask that is not the one that is derived, and in what."""
    if len(derived) != len(recorded):
        return f"{len(derived)} in place of {len(recorded)}"
    for trial, (own, other) in enumerate(zip(derived, recorded, strict=True), first):
        if own.configuration != other.configuration:
            names = sorted({*own.configuration, *other.configuration})
            values = [(n, own.configuration.get(n), other.configuration.get(n)) for n in names]
            found = [
                f"{n} is {_plainly(theirs)} and not {_plainly(ours)}"
                for n, ours, theirs in values
                if ours != theirs
            ]
            more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            return f"in the record trial {trial}'s {', '.join(found[:_SHOWN])}{more}"
        if plain([own]) != plain([other]):
            return f"trial {trial} by the same configuration, with another origin, parent, note or rivals"
    return "the same in another order"


def _plainly(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
