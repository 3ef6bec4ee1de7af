"""The lineage of variants: who was made of whom, by which edits, with which outcome, and how the texts differ."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.source_text import readable_text
from tuner.core.types import Source, Status
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.run import RunState
from tuner.report.trials import rounded

__all__ = ["refused_edits", "variants"]

LONGEST_DIFF = 20_000
"""Characters of one difference that are shown."""

MOST_DIFFS = 400
"""Variants whose differences are kept; the best and their ancestors go first."""


def variants(state: RunState, original: Sequence[Source]) -> dict[str, Any] | None:
    """Every variant with its parents, edits and best trial; ``None`` where the source stays as it is given.

    Args:
        state: of the run.
        original: the files as given.
    """
    if len(state.variants) < 2:
        return None
    texts = {n: {f.name: f.text for f in (v.files or original)} for n, v in state.variants.items()}
    best = state.chosen if state.chosen is not None else state.best
    winner = ORIGINAL if best is None else state.trials[best].variant
    kept = _worth_showing(state, winner)
    rows = []
    for number, variant in state.variants.items():
        parent = variant.parents[0] if variant.parents else None
        same = [t for t in variant.finished if state.trials[t].status is Status.DUPLICATE]
        rows.append(
            {
                "number": number,
                "parents": list(variant.parents),
                "origin": variant.origin,
                "purpose": variant.purpose,
                "edits": [_edit(e) for e in variant.edits],
                "speed": None if variant.score is None else rounded(math.exp(-variant.score)),
                "best": variant.best,
                "trials": len(variant.trials),
                "duplicates": len(same),
                "failed": variant.failed,
                "island": variant.island,
                "cell": list(variant.cell),
                "diff": _diff(texts[parent], texts[number]) if parent in texts and number in kept else None,
                "whole": _diff(texts[ORIGINAL], texts[number]) if number == winner else None,
            }
        )
    return {"rows": rows, "winner": winner, "ancestors": _line(state, winner)}


def refused_edits(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What operators refused in the source as given, most often first; ``None`` where the source does not evolve.

    Args:
        found: as the ``start`` event has it; records from before it did have no operators.
    """
    if found is None:
        return None
    unread = {str(name): str(text) for name, text in found["unread"].items()}
    reasons = [
        {
            "message": str(reason["message"]),
            "count": int(reason["count"]),
            "function": str(reason["function"]),
            "loops": [str(loop) for loop in reason["loops"]],
            "operators": [str(name) for name in reason.get("operators", ())],
        }
        for reason in found["reasons"]
    ]
    told = sum(int(reason["count"]) for reason in found["reasons"])
    tried, refused = int(found["tried"]), int(found["refused"])
    return {
        "tried": tried,
        "refused": refused,
        "others": refused - told,
        "reasons": reasons,
        "unread": unread,
    }


def _line(state: RunState, number: int) -> list[int]:
    """A variant and its first parents, up to the source as given."""
    line = [number]
    while state.variants[line[-1]].parents and state.variants[line[-1]].parents[0] not in line:
        line.append(state.variants[line[-1]].parents[0])
    return line


def _worth_showing(state: RunState, winner: int) -> set[int]:
    ranked = sorted(
        state.variants, key=lambda n: (math.inf if (s := state.variants[n].score) is None else s, n)
    )
    kept = set(_line(state, winner))
    for number in ranked:
        if len(kept) >= MOST_DIFFS:
            break
        kept.update(_line(state, number))
    return kept


def _edit(edit: Mapping[str, Any]) -> str:
    """An edit as one would call it: its operator and what it was told."""
    told = [f"{name} {_plain(value)}" for name, value in edit.items() if name not in ("op", "function")]
    return f"{edit.get('op', 'edit')}({', '.join(told)})"


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(_plain(v) for v in value)
    if isinstance(value, Mapping):
        # A tunable is its name; what else there is are values by name.
        return str(value.get("name") or " ".join(f"{name}={_plain(v)}" for name, v in value.items()))
    return str(value)


def _diff(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    lines: list[str] = []
    for name in sorted({*before, *after}):
        lines += difflib.unified_diff(
            before.get(name, "").split("\n"),
            after.get(name, "").split("\n"),
            f"a/{name}",
            f"b/{name}",
            lineterm="",
        )
    text = readable_text("\n".join(lines))
    if len(text) <= LONGEST_DIFF:
        return text
    return f"{text[:LONGEST_DIFF]}\n... cut after {LONGEST_DIFF} characters; tuner export writes it out"
