"""What a winner changes, as text for people: what is worth something first, the rest in short; ``--json`` has all."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.driver.outcome.result import Lineage, Summary
    from tuner.driver.plan.ablation import Worth

__all__ = ["print_winner"]

PIPELINE_SHOWN = 160
WIDTH = 118
"""Of lines that name several things."""
INDENT = " " * 13
NAMED = 24
"""Settings in a list at most; the others are counted."""


def print_winner(summary: Summary) -> None:
    """Edits of the source and settings."""
    if summary.evolution is not None and summary.evolution.edits:
        _print_edits(summary.evolution)
    _print_changes(summary)
    found = summary.simplest
    if found is not None:
        less, more = found["changes"]["best"], found["changes"]["fastest"]
        print(
            f"  simplest   {less} changed where trial {found['trial']} has {more}; the two cannot be told apart "
            f"(it took {found['ratio']:.3f} times as long)"
        )


def _print_edits(lineage: Lineage) -> None:
    nothing = (None,) * len(lineage.edits)
    gains, intervals = lineage.gains or nothing, lineage.intervals or nothing
    rows = list(zip(lineage.edits, gains, intervals, strict=True))
    weighed = [(edit, gain, interval) for edit, gain, interval in rows if gain is not None]
    # What nothing works without is infinite; what may be worth nothing comes last.
    weighed.sort(key=lambda row: (row[2] is not None and row[2][0] <= 1, -row[1]))
    others = ", ".join(_edit(edit) for edit, gain, _ in rows if gain is None)
    taken = f"; {lineage.left_out} that did not pay were left out" if lineage.left_out else ""
    begun = f"  source     variant {lineage.variant}: "
    if not weighed:
        print(_wrapped(f"{begun}{others}{taken}"))
        return
    print(f"{begun}{len(rows)} edits{taken}" if len(rows) > 1 else f"{begun}1 edit{taken}")
    for edit, gain, interval in weighed:
        print(f"{INDENT}{_edit(edit)}{_gain(gain, interval)}")
    if others:
        print(_wrapped(f"{INDENT}not weighed: {others}"))


def _gain(gain: float, interval: tuple[float, float] | None) -> str:
    """What an edit of the winner is worth: how many times as long a call takes without it."""
    if math.isinf(gain):
        return " (needed)"
    within = "" if interval is None else f" [{interval[0]:.2f}, {interval[1]:.2f}]"
    return f" (without it {gain:.2f} times as long{within})"


def _edit(edit: Mapping[str, Any]) -> str:
    loops = ", ".join([edit["loop"]] if "loop" in edit else edit.get("loops", ()))
    return f"{edit['op']}({loops})" if loops else str(edit["op"])


def _print_changes(summary: Summary) -> None:
    """Settings: what is worth something, what is not known to be, and what is worth nothing by itself."""
    from tuner.driver.outcome.changes import changes_of, settings_worth

    values, worths, found = summary.changes, settings_worth(summary), changes_of(summary)
    for name in found.first:
        print(f"  {name:10} {_shown(values[name])}{_without(worths.get(name))}")
    if found.sizes:
        print(_wrapped(f"  sizes      {_listed(found.sizes, values)}"))
    if found.vain:
        said = _range([worths[n] for n in found.vain])
        print(_wrapped(f"  no gain    from {len(found.vain)} others, each taken back: {said}"))
        print(_wrapped(f"{INDENT}{_listed(found.vain, values)}"))


def _range(worths: Sequence[Worth]) -> str:
    timed = [w.ratio[0] for w in worths if w.ratio is not None and not w.same_code]
    same = sum(w.same_code for w in worths)
    parts = [f"{min(timed):.2f} to {max(timed):.2f} times as long, none surely over 1%"] if timed else []
    parts += [f"{same} {'changes' if same == 1 else 'change'} no code"] if same else []
    return "; ".join(parts)


def _listed(names: Sequence[str], values: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{name} {_shown(values[name])}" for name in names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more; --json has all of them"


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= PIPELINE_SHOWN else f"{len(text)} characters; tuner export writes it out"


def _without(worth: Worth | None) -> str:
    """How many times as long a call takes with this alone as it was before."""
    if worth is None:
        return ""
    if worth.ratio is None:
        return f"  (without it {worth.status.value})"
    if worth.same_code:
        return "  (the same code without it)"
    value, low, high = worth.ratio
    return f"  (without it {value:.2f} times as long [{low:.2f}, {high:.2f}])"


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False
    )
