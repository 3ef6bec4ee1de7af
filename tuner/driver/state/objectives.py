"""What a run with several objectives knows of a trial beside its time, and the front of all trials.

Values are the search's own measurements; only time is ever confirmed. Pure functions of the state, so a replay derives
them again. May not weigh one objective against another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.core import statistics
from tuner.core.errors import UsageError
from tuner.core.pareto import front
from tuner.core.types import Configuration, Status
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState

__all__ = ["UNITS", "FrontPoint", "others", "pareto", "require"]

UNITS = {"time": "time_s", "energy": "energy_j", "size": "size_bytes"}
"""The objectives with the names of their values."""

_SIZES = ("text_bytes", "code_bytes")
_CURES = {
    "size": "use objective: time, or a backend whose builds have a size (host, cuda)",
    "energy": "use objective: time, or a recorded space whose every working configuration has an energy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPoint:
    """One trial of the front.

    Attributes:
        trial: its number.
        values: by the names of :data:`UNITS`.
        configuration: of the trial.
    """

    trial: int
    values: Mapping[str, float]
    configuration: Configuration

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "trial": self.trial,
            "values": dict(self.values),
            "configuration": dict(self.configuration),
        }


def require(objectives: Sequence[str], evaluation: Any, backend: str) -> None:
    """Refuses objectives that a backend has no values of.

    Raises:
        UsageError: with the first of them.
    """
    known = getattr(evaluation, "objectives", ("time",))
    for name in objectives:
        if name not in known:
            raise UsageError(f"objective: the {backend} backend cannot say the {name} here", _CURES[name])


def others(state: RunState, trial: TrialState) -> tuple[float, ...]:
    """Values beside time in the order of the settings; empty where one is missing."""
    if len(state.settings.objectives) == 1:
        return ()
    source = trial if trial.of is None else state.trials[trial.of]
    values = [_value(state, source, name) for name in state.settings.objectives[1:]]
    return tuple(v for v in values if v is not None) if None not in values else ()


def pareto(state: RunState) -> tuple[FrontPoint, ...]:
    """The front of all trials that worked, fastest first; empty where time is the only objective."""
    names = state.settings.objectives
    if len(names) == 1:
        return ()
    worked = [t for t in state.trials.values() if t.status is Status.OK]
    rows = [(t, tuple(_value(state, t, name) for name in names)) for t in worked]
    whole = [(t, tuple(v for v in row if v is not None)) for t, row in rows if None not in row]
    kept = front([row for _, row in whole])
    points = [
        FrontPoint(
            trial=trial.number,
            values={UNITS[name]: value for name, value in zip(names, row, strict=True)},
            configuration=trial.proposal.configuration,
        )
        for trial, row in (whole[i] for i in kept)
    ]
    return tuple(sorted(points, key=lambda p: (p.values["time_s"], p.trial)))


def _value(state: RunState, trial: TrialState, name: str) -> float | None:
    if name == "size":
        features = (trial.build or {}).get("features", {})
        return next((float(features[key]) for key in _SIZES if key in features), None)
    if name == "energy":
        return _weighted(state, [_energies(trial, p) for p in range(len(state.settings.weights))])
    return _weighted(state, [trial.times_s(p) for p in range(len(state.settings.weights))])


def _weighted(state: RunState, series: Sequence[Sequence[float]]) -> float | None:
    """The weighted geometric mean over problems of medians."""
    if not all(series):
        return None
    logs = (w * math.log(statistics.median(s)) for w, s in zip(state.settings.weights, series, strict=True))
    return math.exp(sum(logs))


def _energies(trial: TrialState, problem: int) -> list[float]:
    return [
        float(m["notes"]["energy_j"])
        for r in trial.rounds
        for m in r
        if m["problem"] == problem and "energy_j" in m["notes"]
    ]
