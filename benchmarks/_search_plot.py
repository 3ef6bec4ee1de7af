"""One plot as SVG written by hand: fractions of the optimum over evaluations, and beside it the paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["write_plot"]

_COLOURS = (
    *("#1b6ca8", "#d1495b", "#66a182", "#edae49", "#8d6a9f"),
    *("#5c5c5c", "#00798c", "#a44a3f", "#3d5a3d", "#b07aa1"),
)
_DASHES = ("", "6 3", "2 3")
_HEIGHT, _EDGE, _PLOT, _NAMES, _SIDE, _ROW = 440, 56, 500, 250, 300, 15


def write_plot(
    path: Path, curves: Mapping[str, Sequence[float]], paired: Mapping[str, Mapping[str, Any]]
) -> None:
    """Writes the curves, names, and where there are any the differences with their intervals.

    Args:
        path: the SVG file.
        curves: fractions after 1, 2, … evaluations by strategy; the axis goes from 0.5 to 1.
        paired: the first strategy minus others, mean and interval by budget.
    """
    height = max(_HEIGHT, 2 * _EDGE + _ROW * (len(curves) + 1), 2 * _EDGE + _rows(paired) * _ROW)
    width = _PLOT + _NAMES + (_SIDE + _NAMES if paired else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        *_curves(curves),
        *(_differences(next(iter(curves)), paired, height) if paired else ()),
        "</svg>",
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts) + "\n")


def _curves(curves: Mapping[str, Sequence[float]]) -> list[str]:
    longest = max(len(c) for c in curves.values())

    def place(evaluation: int, fraction: float) -> str:
        x = _EDGE + (_PLOT - _EDGE - 8) * evaluation / longest
        y = _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * (max(fraction, 0.5) - 0.5) / 0.5
        return f"{x:.1f},{y:.1f}"

    parts = [f'<text x="{_EDGE}" y="24">fraction of the optimum over unique evaluations</text>']
    for tick in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        (x1, y1), (x2, _) = place(0, tick).split(","), place(longest, tick).split(",")
        parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y1}" stroke="#ddd"/>')
        parts.append(f'<text x="{float(x1) - 8}" y="{float(y1) + 4}" text-anchor="end">{tick:.1f}</text>')
    for tick in range(0, longest + 1, max(1, longest // 8)):
        x, y = place(tick, 0.5).split(",")
        parts.append(f'<text x="{x}" y="{float(y) + 18}" text-anchor="middle">{tick}</text>')
    for number, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
        style = f'stroke="{colour}" stroke-width="{1.8 if number else 3}" stroke-dasharray="{dash}"'
        points = " ".join(place(i + 1, value) for i, value in enumerate(curve))
        parts.append(f'<polyline points="{points}" fill="none" {style}/>')
        x, y = _PLOT + 8, _EDGE + _ROW * number
        parts.append(f'<line x1="{x}" y1="{y}" x2="{x + 20}" y2="{y}" {style}/>')
        parts.append(f'<text x="{x + 26}" y="{y + 4}">{escape(name)}</text>')
    return parts


def _rows(paired: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(len(found) for found in paired.values()) + len(paired)


def _differences(first: str, paired: Mapping[str, Mapping[str, Any]], height: int) -> list[str]:
    """A bar for each interval, a dot for its mean; right of zero the first strategy is ahead."""
    ends = [abs(end) for found in paired.values() for _, low, high in found.values() for end in (low, high)]
    reach = min(max(ends, default=0.0), 1.0) or 1.0
    left, right = _PLOT + _NAMES + _NAMES, _PLOT + _NAMES + _NAMES + _SIDE - 16

    def across(value: float) -> float:
        return left + (right - left) * (min(max(value, -reach), reach) + reach) / (2 * reach)

    zero = across(0.0)
    parts = [
        f'<text x="{left - _NAMES + 16}" y="24">{escape(first)} minus…, mean and 95% interval</text>',
        f'<line x1="{zero:.1f}" y1="{_EDGE - 12}" x2="{zero:.1f}" y2="{height - _EDGE + 12}" stroke="#888"/>',
    ]
    for value in (-reach, 0.0, reach):
        x, y = across(value), height - _EDGE + 28
        parts.append(f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{value:.2f}</text>')
    y = _EDGE
    for number, (name, found) in enumerate(paired.items(), start=1):
        colour = _COLOURS[number % len(_COLOURS)]
        for budget, (mean, low, high) in found.items():
            label = f"{name} at {budget}"
            parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{escape(label)}</text>')
            parts.append(
                f'<line x1="{across(low):.1f}" y1="{y}" x2="{across(high):.1f}" y2="{y}" stroke="{colour}" '
                'stroke-width="2"/>'
            )
            parts.append(f'<circle cx="{across(mean):.1f}" cy="{y}" r="3" fill="{colour}"/>')
            y += _ROW
        y += _ROW
    return parts
