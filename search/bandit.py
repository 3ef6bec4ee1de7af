"""Which arm of a search has paid lately. May not draw random numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tuner.core.protocols import Observation

__all__ = ["Bandit", "CostBandit"]

_MEMORY = 0.97
_NOISE = 0.005
_EXPLORE = 0.08
_LARGEST_GAIN = 1.0
_PRIOR_GAIN = 0.05
_SPREAD = 0.2


class Bandit:
    """Improvement of the best score per evaluation for each arm, older ones counting less.

    Arms are compared by an upper confidence bound, so
    that one without luck is still tried now and then (Auer, Cesa-Bianchi, Fischer, Machine Learning 47, 2002).

    Args:
        arms: names.
    """

    def __init__(self, arms: Sequence[str]) -> None:
        self._gains = dict.fromkeys(arms, 0.0)
        self._uses = dict.fromkeys(arms, 0.0)
        self._best: float | None = None

    def tell(self, observation: Observation) -> None:
        """Credits the arm that the proposal's origin names after its last ``/``."""
        self.credit(observation.proposal.origin.rpartition("/")[2], observation)

    def credit(self, arm: str, observation: Observation) -> None:
        """Credits an arm with what became of its trial; trials of other arms only move the best."""
        score = observation.score
        gain = 0.0
        if score is not None:
            if self._best is not None and not observation.raced:
                # One lucky leap must not rule for hundreds of trials.
                gain = min(1.0, max(0.0, self._best - score - _NOISE))
            self._best = score if self._best is None else min(self._best, score)
        if arm not in self._gains:
            return
        for name in self._gains:
            self._gains[name] *= _MEMORY
            self._uses[name] *= _MEMORY
        self._gains[arm] += gain
        self._uses[arm] += 1.0

    def choose(self, arms: Sequence[str], running: Mapping[str, int]) -> str:
        """The arm to use next.

        Args:
            arms: those that still have something to propose; at least one.
            running: proposals not yet told, by arm; they count as uses that brought nothing.
        """
        uses = {name: self._uses[name] + running.get(name, 0) for name in arms}
        total = sum(uses.values())
        return max(arms, key=lambda name: self._bound(name, uses[name], total))

    def _bound(self, name: str, uses: float, total: float) -> float:
        spread = math.sqrt(2.0 * math.log(1.0 + total) / (1.0 + uses))
        return self._gains[name] / (1.0 + uses) + _EXPLORE * spread


class CostBandit:
    """Gain per cost for each proposer of variants, models and others alike; cost is time and money in one number.

    Chosen by an upper confidence bound on the ratio, as in Tran-Thanh et al., "Knapsack based optimal policies for
    budget-limited multi-armed bandits" (AAAI 2012).

    Args:
        arms: names; of equals the first is chosen.
    """

    def __init__(self, arms: Sequence[str]) -> None:
        self._gains = dict.fromkeys(arms, 0.0)
        self._costs = dict.fromkeys(arms, 0.0)
        self._uses = dict.fromkeys(arms, 0)

    def tell(self, arm: str, gain: float | None, cost: float) -> None:
        """Learns what one proposal of an arm was worth.

        Args:
            arm: a name.
            gain: logarithm of the parent's time over the variant's, both tuned; ``None`` where it failed.
            cost: in units of what a variant's first trials cost.
        """
        # As one lucky leap must not rule for the whole run, a loss is none: a worse variant is just not used.
        self._gains[arm] += min(max(gain or 0.0, 0.0), _LARGEST_GAIN)
        self._costs[arm] += max(cost, 0.0)
        self._uses[arm] += 1

    def choose(self, arms: Sequence[str], running: Mapping[str, int]) -> str:
        """The arm to use next: each of them once, then the best bound.

        Args:
            arms: that can be used; at least one.
            running: proposals not yet told, by arm; they count as uses of one unit that brought nothing.
        """
        for name in arms:
            if not self._uses[name] + running.get(name, 0):
                return name
        total = sum(self._uses.values()) + sum(running.values())
        return max(arms, key=lambda name: self._worth(name, running.get(name, 0), total))

    def _worth(self, name: str, running: int, total: int) -> float:
        uses = self._uses[name] + running
        cost = self._costs[name] + running
        spread = math.sqrt(2.0 * math.log(1.0 + total) / (1.0 + uses))
        mean = (self._gains[name] + _PRIOR_GAIN) / (cost + 1.0)
        # What is dear is tried less often, too.
        return mean + _SPREAD * spread * (uses + 1.0) / (cost + 1.0)
