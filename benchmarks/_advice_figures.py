"""How much sooner runs with advice come near the best that is known of a kernel, with intervals over kernels and seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Tried", "figures", "goals", "needed"]

WITHIN = math.log(1.05)
DRAWS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One run: the best score (log time over the baseline's) after each of its evaluations."""

    kernel: str
    arm: str
    seed: int
    scores: Sequence[float]
    advised: int = 0


def goals(runs: Sequence[Tried]) -> dict[str, float]:
    """What counts as near the best, by kernel: 5% over the best of all of its runs, of whatever arm and seed."""
    found: dict[str, float] = {}
    for run in runs:
        found[run.kernel] = min(found.get(run.kernel, math.inf), run.scores[-1] + WITHIN)
    return found


def needed(run: Tried, goal: float, budget: int) -> int:
    """Evaluations until a run came to the goal; the budget where it did not."""
    return next((i for i, score in enumerate(run.scores[:budget], 1) if score <= goal), budget)


def figures(runs: Sequence[Tried], budget: int, base: str = "alone") -> dict[str, Any]:
    """Of every arm against one: by kernel, and over kernels with 95% intervals by resampling kernels and seeds.

    Args:
        runs: of all arms; for each kernel an arm has the same seeds.
        budget: evaluations of each run.
        base: the arm that the others are compared with.
    """
    goal = goals(runs)
    counts: dict[str, dict[str, dict[int, int]]] = {}
    reached: dict[str, int] = {}
    for run in runs:
        own = needed(run, goal[run.kernel], budget)
        counts.setdefault(run.arm, {}).setdefault(run.kernel, {})[run.seed] = own
        reached[run.arm] = reached.get(run.arm, 0) + (
            min(run.scores[:budget], default=0.0) <= goal[run.kernel]
        )
    arms = {}
    for arm, by_kernel in counts.items():
        kernels = [k for k in by_kernel if k in counts.get(base, {})]
        pairs = {k: (list(by_kernel[k].values()), list(counts[base][k].values())) for k in kernels}
        arms[arm] = {
            "runs": sum(len(v) for v in by_kernel.values()),
            "reached": reached[arm],
            "mean of ratios": _interval(pairs, _geometric),
            "ratio of means": _interval(pairs, _summed),
            "by kernel": {
                k: [round(float(np.mean(own)), 1), round(float(np.mean(alone)), 1)]
                for k, (own, alone) in pairs.items()
            },
        }
    return {"budget": budget, "goal": {k: round(v, 4) for k, v in goal.items()}, "arms": arms}


Pairs = Mapping[str, tuple[Sequence[int], Sequence[int]]]
Means = Sequence[tuple[float, float]]


def _geometric(means: Means) -> float:
    """Kernels count alike."""
    return math.exp(sum(math.log(own / alone) for own, alone in means) / len(means))


def _summed(means: Means) -> float:
    """Evaluations count alike."""
    return sum(own for own, _ in means) / sum(alone for _, alone in means)


def _interval(pairs: Pairs, of: Callable[[Means], float]) -> list[float]:
    """The figure and its bounds; kernels are drawn, and within each the seeds of both arms, each for itself."""
    rng = np.random.default_rng(0)
    both = list(pairs.values())
    if not both:
        return []
    drawn = []
    for _ in range(DRAWS):
        means = []
        for at in rng.integers(len(both), size=len(both)):
            own, alone = both[at]
            means.append(
                (
                    float(np.mean(rng.choice(own, size=len(own)))),
                    float(np.mean(rng.choice(alone, size=len(alone)))),
                )
            )
        drawn.append(of(means))
    low, high = np.quantile(drawn, [0.025, 0.975])
    whole = of([(float(np.mean(own)), float(np.mean(alone))) for own, alone in both])
    return [round(float(v), 3) for v in (whole, low, high)]
