"""Trials as columns: what the page draws ten thousand of has to be small."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.types import Configuration, Status, Value
from tuner.driver.state.trials import TrialState
from tuner.report.follow import Follower
from tuner.spaces.space import PASSES

__all__ = ["dimensions", "rounded", "trial_columns"]

MESSAGE_LONGEST = 400
"""Characters of a message that are shown."""

STATUSES = tuple(s.value for s in Status)


class Texts:
    """Each text once, by number."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The text's number."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found


def rounded(value: float | None, digits: int = 5) -> float | None:
    """A number of so many digits; ``None`` for what JSON cannot say."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def dimensions(configurations: Sequence[Configuration]) -> list[dict[str, Any]]:
    """The tunables that occur, pipelines apart: name, values in order, whether all are numbers.

    Tunables that only some variants have are there as well.
    """
    values: dict[str, dict[Value, None]] = {}
    for configuration in configurations:
        for name, value in configuration.items():
            if name != PASSES:
                values.setdefault(name, {})[value] = None
    found = []
    for name, seen in values.items():
        numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in seen)
        ordered = sorted(seen, key=_order) if numeric else list(seen)
        found.append({"name": name, "values": ordered, "numeric": numeric})
    return found


def _order(value: Value) -> float:
    return float(value)


def trial_columns(follower: Follower, tunables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Every finished trial, in the order in which they finished.

    ``speed`` is how many times faster than the baseline the search saw it, ``spread`` half an interval in log time,
    ``values`` for each tunable the place of its value (-1: the variant has no such tunable).
    Pipelines are left out: a run holds thousands of long ones, and
    :mod:`tuner.report.passes` keeps those that matter.
    """
    trials, done = follower.state.trials, follower.finished
    numbers = sorted(done, key=lambda n: done[n].order)
    rows = [trials[n] for n in numbers]
    messages, origins = Texts(), Texts()
    places = [{value: i for i, value in enumerate(t["values"])} for t in tunables]
    names = [t["name"] for t in tunables]
    return {
        "number": numbers,
        "status": [STATUSES.index(t.status.value) if t.status else -1 for t in rows],
        "raced": [int(t.raced) for t in rows],
        "speed": [rounded(_speed(t)) for t in rows],
        "spread": [rounded(done[n].spread, 3) for n in numbers],
        "clock_s": [rounded(done[n].clock_s) for n in numbers],
        "cost_s": [rounded(_cost_s(follower, n), 4) for n in numbers],
        "variant": [t.variant for t in rows],
        "parent": [t.proposal.parent for t in rows],
        "of": [t.of for t in rows],
        "origin": [origins.number(t.proposal.origin) for t in rows],
        "message": [messages.number(t.message[:MESSAGE_LONGEST]) for t in rows],
        "values": [
            [place.get(t.proposal.configuration.get(name, _ABSENT), -1) for t in rows]
            for name, place in zip(names, places, strict=True)
        ],
        "statuses": list(STATUSES),
        "origins": origins.texts,
        "messages": messages.texts,
    }


_ABSENT = "\0 no such tunable"


def _speed(trial: TrialState) -> float | None:
    return None if trial.score is None else math.exp(-trial.score)


def _cost_s(follower: Follower, number: int) -> float:
    finished = follower.finished[number]
    return finished.compile_s + finished.verify_s + finished.timed_s
