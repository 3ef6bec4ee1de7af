"""What each of several devices did in a run: which timed what, how fast, and what became of it. Decides nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuner.core import statistics
from tuner.driver.state.lanes import Lane
from tuner.driver.state.run import RunState

__all__ = ["DeviceShare", "device_shares"]

SLOW = 1.5
"""A device is called slow when an evaluation takes it so many times as long as the others (median)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShare:
    """One device's part of a run.

    Attributes:
        number: of the device in the run's events (``lane``).
        device: its name.
        node: the machine that it is in.
        trials: candidates whose times are its.
        evaluation_s: seconds of one evaluation on it, the median of its last; ``None`` where it ended none.
        baseline_s: the baseline's time on it, by which its trials are normalised; ``None`` where it was not timed.
        slow: whether its evaluations take much longer than the others'.
        lost: why it is gone; empty while it is there.
    """

    number: int
    device: str
    node: str
    trials: int
    evaluation_s: float | None
    baseline_s: float | None
    slow: bool
    lost: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "lane": self.number,
            "device": self.device,
            "node": self.node,
            "trials": self.trials,
            "evaluation_s": self.evaluation_s,
            "baseline_s": self.baseline_s,
            "slow": self.slow,
            "lost": self.lost,
        }


def device_shares(state: RunState) -> tuple[DeviceShare, ...]:
    """By number; empty for a run that had no more than one device."""
    lanes = [*state.lanes.values()]
    if len(lanes) < 2:
        return ()
    timed = Counter(t.lane for t in state.trials.values() if t.rounds)
    took = {lane.number: statistics.median(lane.took_s) for lane in lanes if lane.took_s}
    return tuple(
        DeviceShare(
            number=lane.number,
            device=lane.device,
            node=lane.node,
            trials=timed[lane.number],
            evaluation_s=took.get(lane.number),
            baseline_s=_baseline_s(state, lane),
            slow=_slow(took, lane.number),
            lost=lane.lost,
        )
        for lane in lanes
    )


def _slow(took: dict[int, float], number: int) -> bool:
    others = [seconds for other, seconds in took.items() if other != number]
    return number in took and bool(others) and took[number] > SLOW * statistics.median(others)


def _baseline_s(state: RunState, lane: Lane) -> float | None:
    if not lane.controls:
        return None
    by_problem: Sequence[Sequence[float]] = [*zip(*lane.controls, strict=True)]
    pairs = zip(state.settings.weights, by_problem, strict=True)
    return math.exp(sum(w * math.log(statistics.median(times)) for w, times in pairs))
