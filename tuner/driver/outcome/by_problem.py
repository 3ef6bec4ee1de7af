"""What a run's winner gained on each of its problems, from the processes that confirmed it. May not claim anything."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.core import claims, statistics
from tuner.core.types import BASELINE, Status
from tuner.driver.state.run import RunState

__all__ = ["gains"]

LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemGain:
    """One problem of a run whose winner was confirmed.

    Attributes:
        baseline_s, best_s: seconds of one call: the median over processes.
        speedup: baseline over winner, with its 95% interval.
    """

    baseline_s: float
    best_s: float
    speedup: tuple[float, float, float]

    @property
    def faster(self) -> bool:
        """Whether the winner is expected to be faster here than the kernel as given."""
        return self.speedup[0] > 1.0


def gains(state: RunState) -> tuple[ProblemGain, ...]:
    """One for each problem; empty where too few processes confirmed the winner."""
    samples = [s for s in state.finals["confirm"] if s.status is Status.OK]
    baseline = {s.number: s.medians_s for s in samples if s.trial == BASELINE}
    winner = {s.number: s.medians_s for s in samples if s.trial == state.chosen}
    shared = sorted(baseline.keys() & winner.keys())
    if state.chosen is None or len(shared) < claims.MIN_PROCESSES:
        return ()
    found = []
    for problem in range(len(state.settings.weights)):
        before = [baseline[n][problem] for n in shared]
        after = [winner[n][problem] for n in shared]
        interval = statistics.log_ratio_interval(before, after, LEVEL)
        found.append(
            ProblemGain(
                baseline_s=statistics.median(before),
                best_s=statistics.median(after),
                speedup=(interval.value, interval.low, interval.high),
            )
        )
    return tuple(found)
