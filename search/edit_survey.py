"""Which edits of the source as given operators refuse, and why: what to tell whose kernel they found nothing in.

Looks at every place where an operator may be tried, as :class:`tuner.search.remix.RemixProposer` does. Draws nothing
that a result depends on; may not build anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tuner.search.cooking import Attempt, Place, edit_at, places
from tuner.search.opening import opened
from tuner.spaces.source.constructs import UnknownConstruct, construct, unknown_in
from tuner.spaces.source.edits import apply_edit
from tuner.spaces.source.operators import OPERATORS, Refused
from tuner.spaces.source.regions import Program
from tuner.spaces.source.syntax import Opaque, OpaqueStmt

__all__ = ["survey"]

_REASONS = 12
_MOST_PLACES = 200
"""A kernel of very many loops is not worth the time of looking at all of them twice."""

_PROMISES = ("restrict", "const", "free_sums", "launch_bounds", "read_only_loads")
"""What only tells the compiler something: that it applies does not make a source one that can be changed."""

_LOOP = re.compile(r"\bloop [\w#]+")
_QUOTED = re.compile(r"'[^']*'")


@dataclass(slots=True, kw_only=True)
class _Reason:
    """One kind of refusal: what differs in loops and quoted statements alone is the same."""

    message: str
    function: str
    count: int = 0
    loops: dict[str, None] = field(default_factory=dict)
    operators: dict[str, None] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "message": self.message,
            "count": self.count,
            "function": self.function,
            "loops": list(self.loops),
            "operators": list(self.operators),
        }


def survey(program: Program, *, reassociate: bool, values: Mapping[str, int]) -> dict[str, Any]:
    """What operators make of a source, as plain JSON.

    Args:
        program: as given.
        reassociate: whether floating-point sums may be added up in another order.
        values: of the spec's own tunables, for which conditionals are decided.

    Returns:
        ``tried`` edits, promises to the compiler apart, and how many of them were ``refused``; the commonest
        ``reasons``, each with its ``message``, ``count``, the first ``function``, all ``loops`` and ``operators``; and
        by function the first construct that operators do not know (``unread``): kind, text and line.
    """
    start = Attempt(program=program, edits=(), rng=np.random.default_rng(0), reassociate=reassociate)
    laid_open = opened(start, values)
    program = program if laid_open is None else laid_open.program
    tried, reasons = 0, dict[str, _Reason]()
    for name, operator in OPERATORS.items():
        if operator.raw or operator.opens or name in _PROMISES:
            continue
        for place in places(program, name, reassociate=reassociate):
            if tried == _MOST_PLACES:
                break
            tried += 1
            _look(program, name, place, reasons)
    found = sorted(reasons.values(), key=lambda r: -r.count)
    return {
        "tried": tried,
        "refused": sum(r.count for r in found),
        "reasons": [r.to_json() for r in found[:_REASONS]],
        "unread": _unread(program),
    }


def _look(program: Program, name: str, place: Place, reasons: dict[str, _Reason]) -> None:
    """Tries one edit, and counts why it is refused where it is."""
    try:
        apply_edit(program, edit_at(program, name, place.function, place.site))
    except Refused as refusal:
        message = str(refusal)
        kind = _QUOTED.sub("''", _LOOP.sub("loop", message))
        if isinstance(refusal, UnknownConstruct):
            message += _line(program, place.function, refusal.node)
        reason = reasons.setdefault(kind, _Reason(message=message, function=place.function))
        reason.count += 1
        reason.operators[name] = None
        keys = (place.site.get("loop"), *place.site.get("loops", ()))
        reason.loops |= {key: None for key in keys if key is not None}


def _unread(program: Program) -> dict[str, str]:
    """By function the first construct in it that operators do not know, with its kind, text and line."""
    found = {}
    for label, function in program.functions.items():
        unknown = unknown_in(function.body)
        if unknown is not None:
            line = _line(program, label, unknown)
            found[label] = f"{construct(unknown)}{line}"
    return found


def _line(program: Program, label: str, unknown: Opaque | OpaqueStmt) -> str:
    line = program.line_of(label, unknown)
    return "" if line is None else f", line {line}"
