"""How much sooner runs with advice come near the best that is known of a kernel, over kernels and seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Tried", "figures", "goals", "needed"]

DRAWS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One run: the best score (log time over the baseline's) after each of its evaluations."""

    kernel: str
    arm: str
    seed: int
    scores: Sequence[float]
    advised: int = 0


def goals(runs: Sequence[Tried], within: float = 0.05) -> dict[str, float]:
    """What counts as near the best, by kernel: 5% over the best of all of its runs, of whatever arm and seed."""
    found: dict[str, float] = {}
    for run in runs:
        found[run.kernel] = min(found.get(run.kernel, math.inf), run.scores[-1] + math.log1p(within))
    return found


def needed(run: Tried, goal: float, budget: int) -> int:
    """Evaluations until a run came to the goal; the budget where it did not."""
    return next((i for i, score in enumerate(run.scores[:budget], 1) if score <= goal), budget)


def figures(
    runs: Sequence[Tried],
    budget: int,
    within: float = 0.05,
    *,
    best_of: Sequence[Tried] = (),
    base: str = "alone",
) -> dict[str, Any]:
    """Of every arm against one: by kernel, and over kernels with 95% intervals by resampling kernels and seeds.

    Args:
        runs: of all arms.
        budget: evaluations of each run.
        within: how much slower than the best is near enough.
        best_of: further runs that may hold a kernel's best.
        base: the arm that the others are compared with, seed by seed.
    """
    goal = goals([*runs, *best_of], within)
    counts: dict[str, dict[str, dict[int, int]]] = {}
    reached: dict[str, int] = {}
    for run in runs:
        at = goal[run.kernel]
        counts.setdefault(run.arm, {}).setdefault(run.kernel, {})[run.seed] = needed(run, at, budget)
        reached[run.arm] = reached.get(run.arm, 0) + (min(run.scores[:budget], default=0.0) <= at)
    arms = {}
    for arm, by_kernel in counts.items():
        pairs = {k: _pairs(own, counts.get(base, {}).get(k, {})) for k, own in by_kernel.items()}
        pairs = {k: found for k, found in pairs.items() if found}
        arms[arm] = {
            "runs": sum(len(v) for v in by_kernel.values()),
            "reached": reached[arm],
            "mean of ratios": _interval(pairs, _geometric),
            "ratio of means": _interval(pairs, _summed),
            "by kernel": {
                k: [round(float(v), 1) for v in np.mean(found, axis=0)] for k, found in pairs.items()
            },
        }
    return {
        "budget": budget,
        "within": within,
        "goal": {k: round(v, 4) for k, v in goal.items()},
        "arms": arms,
    }


def _pairs(own: Mapping[int, int], base: Mapping[int, int]) -> list[tuple[int, int]]:
    """Both arms' evaluations with each seed that both have."""
    return [(own[seed], base[seed]) for seed in own if seed in base]


Pairs = Mapping[str, Sequence[tuple[int, int]]]
Means = Sequence[tuple[float, float]]


def _geometric(means: Means) -> float:
    """Kernels count alike."""
    return math.exp(sum(math.log(own / alone) for own, alone in means) / len(means))


def _summed(means: Means) -> float:
    """Evaluations count alike."""
    return sum(own for own, _ in means) / sum(alone for _, alone in means)


def _interval(pairs: Pairs, of: Callable[[Means], float]) -> list[float]:
    """The figure and its bounds; kernels are drawn, and within each the seeds."""
    rng = np.random.default_rng(0)
    both = [np.array(found, dtype=float) for found in pairs.values()]
    if not both:
        return []
    drawn = []
    for _ in range(DRAWS):
        chosen = [both[at] for at in rng.integers(len(both), size=len(both))]
        drawn.append(of([tuple(one[rng.integers(len(one), size=len(one))].mean(axis=0)) for one in chosen]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    whole = of([tuple(one.mean(axis=0)) for one in both])
    return [round(float(v), 3) for v in (whole, low, high)]
