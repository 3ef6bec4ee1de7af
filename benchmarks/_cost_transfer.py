"""What earlier runs of the same kernel on other cards are worth, what misleading ones cost, and other kernels' ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from _common import note
from _cost_left_out import alike, kernel_of
from _cost_runs import search
from _search_runs import Case

from tuner.core.streams import stream
from tuner.core.types import Configuration
from tuner.cost_models.library import SHARE, TRIED, Entry, adapted
from tuner.spaces.space import Space

__all__ = ["ratios", "transfer"]

WITHIN = 1.05
SOURCES = 3
KNOWN = 200
REPEATS = 3
"""Runs of each source; seeds share them, since they cost more than what is measured."""

ARMS = ("alone", "helped", "misled", "strangers")


class _Library:
    """Runs of a searcher over recorded spaces, as a library would hold them; made when they are asked for."""

    def __init__(self, strategy: str) -> None:
        self._strategy = strategy
        self._runs: dict[tuple[str, int], list[tuple[Configuration, float]]] = {}

    def entry(self, case: Case, seed: int, *, upside_down: bool) -> Entry:
        """One finished run; ``upside_down``: with its worst for its best."""
        key = case.name, seed % REPEATS
        if key not in self._runs:
            space = case.space()
            space.listing()
            done = search(case, space, self._strategy, 1000 + key[1], KNOWN, model=False, enough=0.0)
            known, times = case.recorded.configurations(), case.figures.times
            self._runs[key] = [
                (known[r][0], float(np.log(times[r]))) for r in done.rows if r >= 0 and np.isfinite(times[r])
            ]
        best = sorted(self._runs[key], key=lambda pair: pair[1], reverse=upside_down)[:TRIED]
        return Entry(
            kernel=case.name,
            backend="recorded",
            language="recorded",
            device=case.name,
            features={},
            names=tuple(case.recorded.parameters),
            best=tuple((dict(c), s) for c, s in best),
            edits=(),
            speedup=1.0,
        )


def transfer(cases: Sequence[Case], strategy: str, seeds: int, evaluations: int) -> dict[str, Any]:
    """Evaluations to within 5% with advice, over those of the same search alone, for each target.

    Sources are runs of 200 evaluations by the same searcher: up to three of the same kernel on other cards
    (``helped``), the same with their worst for their best (``misled``), up to three of other kernels (``strangers``).
    """
    library = _Library(strategy)
    rows: dict[str, Any] = {}
    for target in cases:
        kernel = kernel_of(target)
        same = [c for c in cases if c is not target and kernel_of(c) == kernel]
        others = [c for c in cases if not alike(kernel_of(c), kernel)]
        if not same:
            continue
        space = target.space()
        space.listing()
        counts: dict[str, list[int]] = {arm: [] for arm in ARMS}
        for seed in range(seeds):
            for arm in ARMS:
                of = {"alone": [], "strangers": others}.get(arm, same)
                first = _advice(library, space, of, seed, upside_down=arm == "misled")
                done = search(
                    target, space, strategy, seed, evaluations, model=False, enough=WITHIN, first=first
                )
                counts[arm].append(len(done.rows))
        rows[target.name] = {arm: float(np.mean(c)) for arm, c in counts.items()} | {"sources": len(same)}
        note(f"{target.name}: {rows[target.name]}")
    return rows


def _advice(
    library: _Library, space: Space, of: Sequence[Case], seed: int, *, upside_down: bool
) -> list[tuple[Configuration, int]]:
    if not of:
        return []
    drawn = stream(seed, "sources").permutation(len(of))[:SOURCES]
    entries = [library.entry(of[i], seed, upside_down=upside_down) for i in drawn]
    most = min(TRIED * len(entries), int(KNOWN * SHARE))
    return [(configuration, number) for configuration, number in adapted(space, entries, most)]


def ratios(rows: dict[str, Any], over: Callable[[dict[str, list[float]]], Any]) -> dict[str, Any]:
    """Each arm over the search alone, by targets."""
    return {
        arm: over({name: [row[arm] / row["alone"]] for name, row in rows.items()})
        for arm in ARMS
        if arm != "alone"
    }
