"""The numbers of the ranking beside a searcher, chosen for each kernel by the other kernels alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from _common import note
from _cost_runs import search
from _search_runs import Case

__all__ = ["SETTINGS", "alike", "kernel_of", "left_out"]

SETTINGS = tuple({"before": before, "turns": turns} for before in (10, 20) for turns in (8, 4))
"""What there is to choose from; the first is what the project uses."""

WITHIN = 1.02
RARE = 0.01


def kernel_of(case: Case) -> str:
    """The kernel that a space is of; the same on every card, and whoever recorded it."""
    return case.name.split("__")[0].removeprefix("held")


def alike(one: str, other: str) -> bool:
    """Whether two kernels count as one: versions of a kernel have names of which one begins with the other."""
    return one.startswith(other) or other.startswith(one)


def left_out(cases: Sequence[Case], strategy: str, seeds: int, evaluations: int) -> dict[str, Any]:
    """Evaluations to within 2% with the model over those without it, on spaces where few come that close.

    Returns:
        ``spaces``: for each its mean evaluations without the model, and with each setting; ``chosen``: for each kernel
        the setting that is best on all spaces of other kernels; ``ratios``: by space, with that setting; ``own``: the
        same with the project's own setting.
    """
    spaces: dict[str, Any] = {}
    kernels: dict[str, str] = {}
    for case in cases:
        if (case.figures.times <= WITHIN * case.figures.optimum).mean() >= RARE:
            continue
        space = case.space()
        space.listing()
        kernels[case.name] = kernel_of(case)

        def mean(numbers: dict[str, int] | None, case: Case = case, space: Any = space) -> float:
            counts = [
                len(
                    search(
                        case,
                        space,
                        strategy,
                        seed,
                        evaluations,
                        model=numbers is not None,
                        enough=WITHIN,
                        numbers=numbers,
                    ).rows
                )
                for seed in range(seeds)
            ]
            return float(np.mean(counts))

        spaces[case.name] = {"without": mean(None), "with": [mean(one) for one in SETTINGS]}
        note(f"{case.name}: {spaces[case.name]}")
    ratios = {name: [w / one["without"] for w in one["with"]] for name, one in spaces.items()}
    chosen: dict[str, int] = {}
    for kernel in sorted(set(kernels.values())):
        others = np.array([r for name, r in ratios.items() if not alike(kernels[name], kernel)])
        chosen[kernel] = int(others.mean(axis=0).argmin()) if len(others) else 0
    return {
        "settings": SETTINGS,
        "spaces": spaces,
        "chosen": chosen,
        "ratios": {name: ratios[name][chosen[kernels[name]]] for name in ratios},
        "own": {name: ratios[name][0] for name in ratios},
    }
