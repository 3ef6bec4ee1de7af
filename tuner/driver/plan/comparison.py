"""Timing other compilers' code of the same source beside the baseline (``compare:``): pure like the rest of the plan.

Runs after everything that a claim depends on. May not change what is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.core import statistics
from tuner.core.streams import stream
from tuner.core.types import Status
from tuner.driver.plan.actions import Action, BuildOther, Compare
from tuner.driver.state.run import RunState

__all__ = ["Comparison", "comparisons", "next_action"]

COMPARE_FROM = 1_000_000
"""Process numbers start here, so that the inputs are none that anything was chosen or confirmed with."""

LEAST = 4
"""Processes of each side below which nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One other compiler: its speed-up over the baseline with 95% interval, or why there is none."""

    command: str
    status: Status
    message: str = ""
    speedup: tuple[float, float, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        found = self.speedup
        return {
            "command": self.command,
            "status": self.status.value,
            "message": self.message,
            "speedup": None if found is None else {"value": found[0], "ci95": list(found[1:])},
        }


def next_action(state: RunState, calls: tuple[int, ...]) -> Action | None:
    """The next build or process; ``None`` when all is done or the time is over.

    Args:
        state: of a run whose verdict, if any, is known.
        calls: of the baseline in one process, for each problem.
    """
    if len(state.others) < len(state.settings.compare):
        return BuildOther(index=len(state.others))
    alive = [i for i, body in enumerate(state.others) if _alive(state, i, body)]
    if not alive:
        return None
    for number in range(COMPARE_FROM, COMPARE_FROM + state.settings.compare_processes):
        done = {s["other"] for s in state.compared if s["number"] == number}
        entrants: list[int | None] = [None, *alive]
        rng = stream(state.settings.seed, "order/compare", number)
        missing = [e for e in (entrants[i] for i in rng.permutation(len(entrants))) if e not in done]
        if missing and not done and not _time_left(state, len(entrants)):
            return None
        if missing:
            return Compare(other=missing[0], number=number, calls=calls)
    return None


def comparisons(state: RunState) -> tuple[Comparison, ...]:
    """What came of each command that was tried."""
    found = []
    baseline = _logs(state, None)
    for index, body in enumerate(state.others):
        command = state.settings.compare[index]
        failed = next((s for s in state.compared if s["other"] == index and s["status"] != Status.OK), body)
        if failed["status"] != Status.OK:
            status = Status(failed["status"])
            found.append(Comparison(command=command, status=status, message=failed["message"]))
            continue
        own = _logs(state, index)
        shared = sorted(baseline.keys() & own.keys())
        if len(shared) < LEAST:
            message = "too little time was left to time it"
            found.append(Comparison(command=command, status=Status.PRUNED, message=message))
            continue
        interval = statistics.log_ratio_interval(
            [math.exp(baseline[n]) for n in shared], [math.exp(own[n]) for n in shared], 0.95
        )
        found.append(
            Comparison(
                command=command, status=Status.OK, speedup=(interval.value, interval.low, interval.high)
            )
        )
    return tuple(found)


def _alive(state: RunState, index: int, body: Mapping[str, Any]) -> bool:
    failed = any(s["other"] == index and s["status"] != Status.OK for s in state.compared)
    return body["status"] == Status.OK and not failed


def _logs(state: RunState, other: int | None) -> dict[int, float]:
    """Logarithms of the weighted seconds by process number."""
    return {
        s["number"]: sum(w * math.log(m) for w, m in zip(state.settings.weights, s["medians_s"], strict=True))
        for s in state.compared
        if s["other"] == other and s["medians_s"] is not None
    }


def _time_left(state: RunState, processes: int) -> bool:
    costs = [s["cost_s"] for s in state.compared] or [s.cost_s for r in state.finals.values() for s in r]
    cost = statistics.median(costs) if costs else 0.1
    return state.clock_s + processes * cost <= state.deadline_s
