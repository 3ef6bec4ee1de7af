"""How much earlier runs could say at the very most, were all of another space known, or all of the target's own model.

None of these is a method: each is told what no search can know, so that no honest one can be expected to do better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from _common import note
from _cost_left_out import alike, kernel_of
from _cost_runs import search
from _search_runs import Case
from numpy.typing import NDArray

from tuner.search import scored_set
from tuner.search.domain import Domain
from tuner.search.features import Features
from tuner.search.gaussian import Hyper, fit, normal_scores

__all__ = ["bounds"]

WITHIN = 1.05
COPIED = (1, 5, 20)
KNOWN_BEST = 96
KNOWN_OTHERS = 160

Floats = NDArray[np.float64]


def bounds(cases: Sequence[Case], seeds: int, evaluations: int) -> dict[str, Any]:
    """For each target what is left with knowledge that a search has not.

    Returns:
        by target ``cards``: for each other card the place of the first configuration within 5% in the complete ranking
        there, and how far its best is off here; ``roles``: for each other kernel the same place when the target's
        configurations are tried by their likeness to its best ones (the best of 1, 5 and 20) in threads, width, work of
        a thread and its shape, tile and shared memory; ``drawn``: the place to expect in random order; ``scales``:
        evaluations alone, and with length scales fitted to the whole target.
    """
    made: dict[str, Any] = {}
    for target in cases:
        others = [c for c in cases if c is not target]
        good = target.figures.times <= WITHIN * target.figures.optimum
        same = [c for c in others if kernel_of(c) == kernel_of(target)]
        strangers = [c for c in others if not alike(kernel_of(c), kernel_of(target))]
        made[target.name] = {
            "drawn": round((len(good) + 1) / (int(good.sum()) + 1), 1),
            "cards": {c.name: _copied(c, target) for c in same},
            "roles": {c.name: min(_by_roles(c, target, good, most) for most in COPIED) for c in strangers},
            "scales": _known_scales(target, seeds, evaluations),
        }
        note(f"{target.name}: {made[target.name]}")
    return made


def _copied(source: Case, target: Case) -> dict[str, float]:
    here = dict(zip(target.recorded.rows, target.figures.times.tolist(), strict=True))
    keys = list(source.recorded.rows)
    ranked = [here.get(keys[i], np.inf) / target.figures.optimum for i in np.argsort(source.figures.times)]
    first = next((i + 1 for i, ratio in enumerate(ranked) if ratio <= WITHIN), len(ranked))
    return {"place": first, "best_off": round(float(ranked[0]), 2)}


def _by_roles(source: Case, target: Case, good: NDArray[np.bool_], most: int) -> int:
    mine, theirs = _roles(target), _roles(source)[np.argsort(source.figures.times)[:most]]
    scale = mine.std(axis=0) + 1e-9
    apart = (((mine[:, None, :] - theirs[None]) / scale) ** 2).sum(axis=2).min(axis=1)
    return int(np.argmax(good[np.argsort(apart, kind="stable")])) + 1


def _roles(case: Case) -> Floats:
    """Logarithms of threads, width, work, shape of the work, both sides of the tile, shared bytes: ``[rows, 7]``."""
    rows = [values for values, _ in case.recorded.configurations()]

    def column(name: str) -> Floats:
        return np.array([float(row.get(name, 1.0)) for row in rows])

    if "MWG" in rows[0]:
        width, height = column("MDIMC"), column("NDIMC")
        across, down = column("MWG") / width, column("NWG") / height
        shared = 4 * column("KWG") * (column("SA") * column("MWG") + column("SB") * column("NWG"))
    else:
        width, height = column("block_size_x"), column("block_size_y")
        across, down = column("tile_size_x"), column("tile_size_y")
        border = column("filter_width") - 1
        uses = column("use_shmem") if border.any() else np.zeros(len(rows))
        shared = 4 * uses * (width * across + border) * (height * down + border)
    sides = [width * height, width, across * down, across / down, width * across, height * down, 1 + shared]
    return np.log2(np.column_stack(sides))


def _known_scales(case: Case, seeds: int, evaluations: int) -> list[float]:
    space = case.space()
    space.listing()
    domain = Domain(space)
    features, times = Features(domain), case.figures.times
    works = np.flatnonzero(np.isfinite(times))
    best = works[np.argsort(times[works])[:KNOWN_BEST]]
    chosen = np.union1d(best, np.random.default_rng(0).choice(works, KNOWN_OTHERS, replace=False))
    configurations = case.recorded.configurations()
    points = [p for i in chosen if (p := domain.point(configurations[i][0])) is not None]
    columns, scores = features.encode(domain.array(points)), normal_scores(np.log(times[chosen]))
    hyper = fit(
        columns, features.groups, scores, np.zeros(len(points), dtype=bool), Hyper.prior(features.width)
    )
    own = scored_set.Fitter._models
    found = []
    try:
        for told in (False, True):
            if told:
                setattr(scored_set.Fitter, "_models", lambda *_: (hyper,))  # noqa: B010
            counts = [
                len(search(case, space, "surrogate", s, evaluations, model=False, enough=WITHIN).rows)
                for s in range(seeds)
            ]
            found.append(round(float(np.mean(counts)), 1))
    finally:
        setattr(scored_set.Fitter, "_models", own)  # noqa: B010
    return found
