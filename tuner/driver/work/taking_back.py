"""The winner with one setting taken back at a time: what there is to try. May not build or time anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tuner.core.canonical import canonical_json, digest
from tuner.core.types import Configuration, Value
from tuner.spaces.space import PASSES, Space
from tuner.spaces.undoing import half_undone, undone

__all__ = ["FLAGS", "PARAMETER", "PASS", "Item", "items_of", "simpler"]

PARAMETER, FLAGS, PIPELINE, PASS = "parameter", "flags", "pipeline", "pass"

MOST = 160
"""Items of one run at most: a pipeline spelt out has a hundred passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing taken back.

    Attributes:
        kind: ``parameter``, ``flags`` (a group), ``pipeline`` (all of it), ``pass``.
        name: of the parameter, the group or the pass.
        change: of a pass ``added``, ``removed``, ``changed`` or ``kept``, as the winner has it; else ``changed``.
        at: which pass of the winner's pipeline, from 0; ``None`` for anything else and for a pass that is put back.
        also: another parameter or group that has to go back with it.
        value, back: of a parameter or a group, in the winner and taken back.
        configuration: the whole configuration to build; ``None`` where it is not allowed.
        reason: why it is not allowed.
    """

    kind: str
    name: str
    change: str = "changed"
    at: int | None = None
    also: str = ""
    value: Value | None = None
    back: Value | None = None
    configuration: Configuration | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """As an event holds it: the configuration follows from the winner's, so its digest is enough."""
        made = self.configuration
        return {
            "kind": self.kind,
            "name": self.name,
            "change": self.change,
            "at": self.at,
            "also": self.also,
            "value": self.value,
            "back": self.back,
            "configuration": None if made is None else digest(canonical_json(dict(made)).encode()),
            "reason": self.reason,
        }


def items_of(space: Space, winner: Configuration, before: Configuration) -> tuple[Item, ...]:
    """What can be taken back, the most telling first: parameters and flags, the pipeline whole, single passes.

    Args:
        space: of the winner's variant.
        winner: its configuration.
        before: the value that each tunable goes back to.
    """
    found = [
        _setting(space, d.name, winner, before)
        for d in space.dimensions
        if d.name in before and winner[d.name] != before[d.name]
    ]
    if space.passes is None or winner[PASSES] == before[PASSES]:
        return tuple(found)
    made = {**winner, PASSES: before[PASSES]}
    found.append(Item(kind=PIPELINE, name=PASSES, configuration=made))
    for one in undone(space.passes, str(winner[PASSES])):
        if one.text == before[PASSES]:
            continue
        made = {**winner, PASSES: one.text}
        found.append(Item(kind=PASS, name=one.name, change=one.change, at=one.at, configuration=made))
    return tuple(found[:MOST])


def simpler(space: Space, winner: Configuration, before: Configuration) -> list[Configuration]:
    """The winner with more of it taken back than one thing at a time, what changes least first.

    Flags and pipeline together, then each of the two, then single parameters with both and without, then of the
    pipeline's edits one half and the other. Only what the constraints allow.

    Args:
        space: of the winner's variant.
        winner: its configuration.
        before: the value that each tunable goes back to.
    """
    changed = [d.name for d in space.dimensions if d.name in before and winner[d.name] != before[d.name]]
    flags = [name for name in changed if name in space.flags]
    passes = [PASSES] if space.passes is not None and winner[PASSES] != before[PASSES] else []
    settings = [name for name in changed if name not in space.flags and name not in passes]
    cheap = [*passes, *flags]
    groups = [cheap, passes, flags, *([*cheap, name] for name in settings), *([name] for name in settings)]
    found: list[Configuration] = []
    for group in groups:
        made = {**winner, **{name: before[name] for name in group}}
        if group and made not in found and space.is_valid(made):
            found.append(made)
    if passes and space.passes is not None:
        halves = half_undone(space.passes, str(winner[PASSES]))
        found += [{**winner, PASSES: text} for text in halves if text != before[PASSES]]
    return found


def _setting(space: Space, name: str, winner: Configuration, before: Configuration) -> Item:
    """One setting taken back; with another that the constraints tie to it where it may not go back alone."""
    others = [d.name for d in space.dimensions if d.name in before and winner[d.name] != before[d.name]]
    alone = {**winner, name: before[name]}
    reason, also = space.explain(alone), ""
    if reason:
        also = next((o for o in others if space.is_valid({**alone, o: before[o]})), "")
    made = {**alone, also: before[also]} if also else alone
    return Item(
        kind=FLAGS if name in space.flags else PARAMETER,
        name=name,
        also=also,
        value=winner[name],
        back=before[name],
        configuration=made if also or not reason else None,
        reason="" if also else reason,
    )
