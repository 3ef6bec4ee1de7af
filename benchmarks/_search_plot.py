"""One plot of fractions of the optimum over evaluations, as SVG written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

__all__ = ["write_plot"]

_COLOURS = ("#1b6ca8", "#d1495b", "#66a182", "#edae49", "#8d6a9f", "#5c5c5c", "#00798c", "#a44a3f")
_WIDTH, _HEIGHT, _EDGE = 760, 440, 56


def write_plot(path: Path, curves: Mapping[str, Sequence[float]]) -> None:
    """Writes the curves; the vertical axis goes from 0.5 to 1.

    Args:
        path: the SVG file.
        curves: fractions after 1, 2, … evaluations by strategy.
    """
    longest = max(len(c) for c in curves.values())

    def place(evaluation: int, fraction: float) -> str:
        x = _EDGE + (_WIDTH - 200 - _EDGE) * evaluation / longest
        y = _HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * (max(fraction, 0.5) - 0.5) / 0.5
        return f"{x:.1f},{y:.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for tick in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        left, right = place(0, tick), place(longest, tick)
        (x1, y1), (x2, _) = left.split(","), right.split(",")
        parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y1}" stroke="#ddd"/>')
        parts.append(f'<text x="{float(x1) - 8}" y="{float(y1) + 4}" text-anchor="end">{tick:.1f}</text>')
    for tick in range(0, longest + 1, max(1, longest // 8)):
        x, y = place(tick, 0.5).split(",")
        parts.append(f'<text x="{x}" y="{float(y) + 18}" text-anchor="middle">{tick}</text>')
    parts.append(f'<text x="{_EDGE}" y="24">fraction of the optimum over unique evaluations</text>')
    for number, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        points = " ".join(place(i + 1, value) for i, value in enumerate(curve))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        y = _EDGE + 18 * number
        parts.append(f'<rect x="{_WIDTH - 186}" y="{y - 9}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{_WIDTH - 168}" y="{y + 2}">{escape(name)}</text>')
    parts.append("</svg>")
    path.write_text("\n".join(parts) + "\n")
