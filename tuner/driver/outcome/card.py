"""A result as a small card of HTML, for notebooks. Follows the notebook's own colours; loads and runs nothing."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.core.types import Status
from tuner.driver.outcome.changes import changes_of
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.outcome.result import Summary

__all__ = ["result_card"]

WIDTH, HEIGHT = 320, 64
VALUE_LONGEST = 120


def result_card(outcome: Outcome, rows: Sequence[Mapping[str, Any]]) -> str:
    """The answer, what changed, and the best so far as a line.

    Args:
        outcome: of the run.
        rows: its trials as :func:`tuner.driver.outcome.frames.read_rows` gives them; may be empty.
    """
    summary = outcome.summary
    figure, words = _answer(outcome)
    table = _table(summary)
    counts = ", ".join(f"{n} {status}" for status, n in summary.trials.items() if status != "total" and n)
    counts = f" ({counts})" if counts else ""
    return (
        "<div style='border:1px solid rgba(128,128,128,.45);border-radius:8px;padding:.7em 1em;max-width:46em'>"
        f"<div><b>{html.escape(outcome.kernel)}</b> on {html.escape(outcome.device or outcome.backend)}</div>"
        f"<div style='font-size:2em;font-weight:700;line-height:1.3'>{figure}</div>"
        f"<div>{html.escape(words)}</div>{table}{_line(rows)}"
        f"<div style='opacity:.7'>{summary.trials['total']} trials{html.escape(counts)} in {summary.wall_s:.0f} s; "
        f"{html.escape(str(outcome.path))}</div></div>"
    )


def _table(summary: Summary) -> str:
    """What changed; of many sizes, and of what gains nothing by itself, the names."""
    found, values = changes_of(summary), summary.changes
    rows = [(name, _short(values[name])) for name in found.first]
    for label, names in (("sizes", found.sizes), ("no gain of their own", found.vain)):
        if names:
            rows.append((label, ", ".join(f"{name} {_short(values[name])}" for name in names)))
    shown = "".join(
        f"<tr><td style='text-align:left;vertical-align:top'><code>{html.escape(name)}</code></td>"
        f"<td style='text-align:left'><code>{html.escape(value)}</code></td></tr>"
        for name, value in rows
    )
    return f"<table style='margin:.4em 0'>{shown}</table>" if shown else ""


def _answer(outcome: Outcome) -> tuple[str, str]:
    summary = outcome.summary
    value, low, high = summary.speedup
    if summary.improved:
        return (
            f"{value:.2f}&times;",
            f"as fast as the baseline, 95% interval {low:.2f} to {high:.2f}, confirmed",
        )
    if outcome.interrupted:
        return "&ndash;", "interrupted: nothing is claimed"
    if summary.trials["total"] == 1:
        return "&ndash;", summary.nothing_tried
    if summary.unconfirmed is not None:
        run = outcome.path or Path()
        return "1&times;", summary.unconfirmed.described(summary.search_speedup, run)
    words = {
        "negligible": "faster by less than 1%: negligible",
        "not_confirmed": "not confirmed",
    }
    return "1&times;", words.get(summary.claim, "no improvement found")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= VALUE_LONGEST else f"{text[:VALUE_LONGEST]}… ({len(text)} characters)"


def _line(rows: Sequence[Mapping[str, Any]]) -> str:
    """Best so far over the trials, on a log scale, as SVG."""
    best, curve = 0.0, []
    for row in rows:
        if row["status"] == Status.OK and not row["raced"] and row["score"] is not None:
            best = min(best, row["score"])
        curve.append(-best)
    if len(curve) < 2 or curve[-1] <= 0:
        return ""
    points = []
    for i, value in enumerate(curve):
        if i in (0, len(curve) - 1) or value != curve[i - 1]:
            x = (WIDTH - 2) * i / (len(curve) - 1) + 1
            before = curve[max(0, i - 1)]
            points += [f"{x:.1f},{_y(before / curve[-1])}", f"{x:.1f},{_y(value / curve[-1])}"]
    said = f"best so far: from 1 to {math.exp(curve[-1]):.2f} times the baseline's speed over {len(curve)} trials"
    return (
        f"<svg role='img' aria-label='{said}' width='{WIDTH}' height='{HEIGHT}' viewBox='0 0 {WIDTH} {HEIGHT}'>"
        f"<polyline points='{' '.join(points)}' fill='none' stroke='currentColor' stroke-width='2'/></svg>"
    )


def _y(share: float) -> str:
    return f"{HEIGHT - 4 - share * (HEIGHT - 8):.1f}"
