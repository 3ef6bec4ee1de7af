"""The search benchmark's result as text: fractions of the optimum, and the paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["table"]


def table(result: Mapping[str, Any]) -> str:
    """What ``--json`` prints, for people: the means first, then each space, then the differences."""
    budgets = [str(b) for b in result["budgets"]]
    means: list[list[str]] = []
    each: list[list[str]] = []
    for strategy, row in result["strategies"].items():
        seeds = str(min(space["seeds"] for space in row["spaces"].values()))
        p = "-" if row["p"] is None else "{:.3f} [{:.3f}, {:.3f}]".format(*row["p"])
        means.append([strategy, "all", seeds, *_cells(row["fraction"], budgets), p, f"{row['cpu_ms']:.2f}"])
        if row["without_needles"] is not None and any(s["needle"] for s in row["spaces"].values()):
            means.append(
                [strategy, "all but needles", seeds, *_cells(row["without_needles"], budgets), "", ""]
            )
        each += [_space_line(strategy, name, space, budgets) for name, space in row["spaces"].items()]
    parts = [
        result["command"],
        _aligned([["strategy", "space", "seeds", *budgets, "P", "ms/eval"], *means, *each]),
    ]
    if result["paired"]:
        first = next(iter(result["strategies"]))
        lines = [[f"{first} minus", *budgets]]
        lines += [[other, *_differences(found, budgets)] for other, found in result["paired"].items()]
        parts.append("mean of paired differences over seeds, with its 95% interval")
        parts.append(_aligned(lines))
    return "\n\n".join(parts)


def _cells(fractions: Mapping[str, float], budgets: Sequence[str]) -> list[str]:
    return [f"{fractions[b]:.3f}" if b in fractions else "-" for b in budgets]


def _differences(found: Mapping[str, Sequence[float]], budgets: Sequence[str]) -> list[str]:
    return ["{:+.3f} [{:+.3f}, {:+.3f}]".format(*found[b]) if b in found else "-" for b in budgets]


def _space_line(strategy: str, name: str, space: Mapping[str, Any], budgets: Sequence[str]) -> list[str]:
    cells = []
    for b in budgets:
        middle, lower, upper = space["fraction"].get(b, (None, None, None))
        cells.append("-" if middle is None else f"{middle:.3f} ({lower:.3f}-{upper:.3f})")
    shown = f"{name} (needle)" if space["needle"] else name
    p = "-" if space["p"] is None else f"{space['p'][0]:.3f}"
    return [strategy, shown, str(space["seeds"]), *cells, p, f"{space['cpu_ms']:.2f}"]


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )
