"""The best so far of a run as a curve, with the noise that each of its steps was seen with. Only reads a record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from tuner.core import statistics
from tuner.core.types import Status
from tuner.driver.state.fold import apply
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState
from tuner.recorders.record import RunRecord

__all__ = ["best_so_far", "spread"]

DIGITS = 5


def best_so_far(path: Path) -> dict[str, list[float]]:
    """A point for each trial that took the lead, and one for the end of the search.

    Returns:
        ``done`` trials before it, ``clock_s`` active seconds, ``speed`` over the baseline as the search saw it,
        ``spread`` half its 95% interval in log time.

    Raises:
        RecordError: it is no run record.
    """
    points: list[tuple[float, float, float, float]] = []
    with RunRecord.read(path) as record:
        state = RunState(record.blob)
        for event in record.events():
            before = state.best
            apply(state, event)
            if event.kind == "trial" and state.best is not None and state.best != before:
                points.append(_point(state, len(state.finished) - 1))
            if event.kind == "stop" and points:
                points.append(_point(state, len(state.finished) - 1))
    names = ("done", "clock_s", "speed", "spread")
    return {name: [float(f"{p[i]:.{DIGITS}g}") for p in points] for i, name in enumerate(names)}


def _point(state: RunState, done: int) -> tuple[float, float, float, float]:
    assert state.best is not None
    trial = state.trials[state.best]
    noise = spread(trial, state.settings.weights) or 0.0
    return float(done), state.clock_s, math.exp(-(trial.score or 0.0)), noise


def spread(trial: TrialState, weights: Sequence[float]) -> float | None:
    """Half the width of the 95% interval of a trial's median, in log time; ``None`` where it was not timed."""
    if trial.status is not Status.OK or not trial.rounds:
        return None
    total = 0.0
    for problem, weight in enumerate(weights):
        times = trial.times_s(problem)
        if not times:
            return None
        interval = statistics.median_interval(times)
        total += weight * math.log(interval.high / interval.low) / 2
    return total
