"""What each setting and each pass of a confirmed winner is worth: the winner with one taken back, in fresh processes.

Runs after everything that a claim depends on and may not change it. Passes without which the winner's object code is
the same, to the byte, are left out of it for good. What is taken back of the rest is built first: where the code stays
the same nothing needs timing. The rest is timed beside the winner, in random order. What that may cost is a number of
processes, so that a run by evaluations alone stays the same however fast the machine is; only a run by minutes alone
goes by its clock. Pure, like the rest of the plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.core import statistics
from tuner.core.streams import stream
from tuner.core.types import BASELINE, Status
from tuner.driver.plan.actions import Action, BuildWithout, Dissect, Shorten, Weigh
from tuner.driver.state.dissection import Dissection
from tuner.driver.state.run import RunState
from tuner.spaces.space import PASSES

__all__ = ["Worth", "next_action", "worths"]

_OFF, _FULL = "off", "full"

PROCESSES_SHARE, BUILDS_SHARE = 1 / 3, 0.5
"""Processes and builds that ``auto`` may take, for each evaluation of the search."""

TIME_SHARE = 0.1
"""Part of the active time so far that ``auto`` may take where no evaluations are set; half of it for building."""

WEIGH_FROM = 2_000_000
"""Process numbers start here, so that the inputs are none that anything was chosen or confirmed with."""

LEAST, MOST = 4, 8
"""Processes of each side below which nothing is said, and at most."""

CALLS = 4
"""Least calls of one process, and the part of a confirming process's calls: the start of a process costs more."""

SHORTENING_SHARE = 0.3
"""Part of the time for all of this."""

SHORTENING = 96
"""Builds that leaving out what changes nothing may take: a pipeline spelt out has a hundred passes."""

BATCH = 16
"""Builds between two looks at the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What one thing is worth to the winner.

    Attributes:
        item: as the ``dissect`` event holds it.
        status: ``ok``, how the winner fails without it, or ``pruned`` where time was short or it is not allowed.
        same_code: whether the code is the same without it.
        ratio: how many times as long a call takes without it, with its 95% interval.
        processes: of each side behind the ratio.
    """

    item: Mapping[str, Any]
    status: Status
    message: str = ""
    same_code: bool = False
    ratio: tuple[float, float, float] | None = None
    processes: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        found = self.ratio
        shown = {k: self.item[k] for k in ("kind", "name", "change", "at", "also", "value", "back")}
        return {
            **shown,
            "status": self.status.value,
            "message": self.message,
            "same_code": self.same_code,
            "ratio": None if found is None else {"value": found[0], "ci95": list(found[1:])},
            "processes": self.processes,
        }


def next_action(state: RunState, calls: tuple[int, ...]) -> Action | None:
    """The next step; ``None`` when all is done, the time for it is over, or there is no gain to explain.

    Args:
        state: of a run whose verdict is known.
        calls: of the winner in one process, for each problem.
    """
    verdict, found = state.verdict, state.dissection
    if state.settings.ablate == _OFF or verdict is None or verdict["claim"] != "improved":
        return None
    if found is None:
        left_s = _end_s(state, state.clock_s) - state.clock_s
        if _is_long(state) and left_s > 0:
            most = _builds(state)
            builds = SHORTENING if most is None else min(SHORTENING, most)
            return Shorten(builds=builds, until_s=state.clock_s + SHORTENING_SHARE * left_s)
        enough = _processes(state) >= 2 * LEAST and left_s >= 2 * LEAST * _cost_s(state)
        return Dissect() if enough else None
    wanted = found.allowed[: _builds(state)][len(found.built) :]
    # The clock is looked at between batches alone: a batch is built at once and recorded one by one.
    at_boundary = len(found.built) % BATCH == 0
    if wanted and not (at_boundary and state.clock_s >= _build_end_s(state, found)):
        return BuildWithout(items=tuple(wanted[: BATCH - len(found.built) % BATCH]))
    return _weigh(state, found, calls)


def worths(state: RunState) -> tuple[Worth, ...]:
    """What came of each item; empty where nothing was taken back."""
    found = state.dissection
    if found is None:
        return ()
    builds = {body["item"]: body for body in found.built}
    first = _first_of_key(state, found)
    winner = _logs(state, found, None)
    return tuple(_worth(state, found, i, builds.get(i), first, winner) for i in range(len(found.items)))


def _worth(
    state: RunState,
    found: Dissection,
    index: int,
    build: Mapping[str, Any] | None,
    first: Mapping[str, int],
    winner: Mapping[int, float],
) -> Worth:
    item = found.items[index]
    if item["configuration"] is None:
        return Worth(item=item, status=Status.PRUNED, message=item["reason"])
    if build is None:
        return Worth(item=item, status=Status.PRUNED, message="there was no time or budget left to build it")
    if build["status"] != Status.OK:
        return Worth(item=item, status=Status(build["status"]), message=build["message"])
    if build["key"] == _winner_key(state):
        return Worth(item=item, status=Status.OK, same_code=True, ratio=(1.0, 1.0, 1.0))
    timed = first[build["key"]]
    failed = _failure(found, timed)
    if failed is not None:
        return Worth(item=item, status=Status(failed["status"]), message=failed["message"])
    own = _logs(state, found, timed)
    shared = sorted(winner.keys() & own.keys())
    if len(shared) < LEAST:
        return Worth(item=item, status=Status.PRUNED, message="there was no time or budget left to time it")
    interval = statistics.log_ratio_interval(
        [math.exp(own[n]) for n in shared], [math.exp(winner[n]) for n in shared], 0.95
    )
    ratio = (interval.value, interval.low, interval.high)
    return Worth(item=item, status=Status.OK, ratio=ratio, processes=len(shared))


def _is_long(state: RunState) -> bool:
    """Whether the winner has a pipeline of its own of which it is not known what may be left out."""
    assert state.chosen is not None
    own, before = (state.trials[n].proposal.configuration.get(PASSES) for n in (state.chosen, BASELINE))
    return own != before and state.trials[state.chosen].searched is None


def _weigh(state: RunState, found: Dissection, calls: tuple[int, ...]) -> Action | None:
    affordable = _affordable(state, found)
    timed = [i for i in list(_first_of_key(state, found).values())[:affordable] if _failure(found, i) is None]
    if not timed or _failure(found, None) is not None:
        return None
    rounds = max(LEAST, int(min(MOST, _processes(state) / (len(timed) + 1))))
    for number in range(WEIGH_FROM, WEIGH_FROM + rounds):
        done = {body["item"] for body in found.weighed if body["number"] == number}
        entrants: list[int | None] = [None, *timed]
        rng = stream(state.settings.seed, "order/ablate", number)
        missing = [e for e in (entrants[i] for i in rng.permutation(len(entrants))) if e not in done]
        # What was begun is brought to where it says something: what is slow without an item takes longer than thought.
        begun = 0 < number - WEIGH_FROM < LEAST
        end_s = state.deadline_s if begun else _end_s(state, found.begun_s)
        late = state.clock_s + len(entrants) * _cost_s(state) > end_s
        if missing and not done and late:
            return None
        if missing:
            fewer = tuple(max(min(c, CALLS), c // CALLS) for c in calls)
            return Weigh(item=missing[0], number=number, calls=fewer)
    return None


def _first_of_key(state: RunState, found: Dissection) -> dict[str, int]:
    """For each code that is not the winner's the first item that has it."""
    first: dict[str, int] = {}
    for body in found.built:
        if body["status"] == Status.OK and body["key"] != _winner_key(state):
            first.setdefault(body["key"], body["item"])
    return first


def _winner_key(state: RunState) -> str:
    assert state.chosen is not None
    build = state.trials[state.chosen].build
    assert build is not None
    return str(build["key"])


def _failure(found: Dissection, item: int | None) -> Mapping[str, Any] | None:
    return next((b for b in found.weighed if b["item"] == item and b["status"] != Status.OK), None)


def _logs(state: RunState, found: Dissection, item: int | None) -> dict[int, float]:
    """Logarithms of the weighted seconds by process number."""
    return {
        b["number"]: sum(w * math.log(m) for w, m in zip(state.settings.weights, b["medians_s"], strict=True))
        for b in found.weighed
        if b["item"] == item and b["medians_s"] is not None
    }


def _processes(state: RunState) -> float:
    """How many processes it may take."""
    if state.settings.ablate == _FULL or state.settings.evaluations is None:
        return math.inf
    return int(state.evaluations * PROCESSES_SHARE)


def _builds(state: RunState) -> int | None:
    """How many builds it may take; ``None`` is without limit."""
    if state.settings.ablate == _FULL or state.settings.evaluations is None:
        return None
    return int(state.evaluations * BUILDS_SHARE)


def _end_s(state: RunState, begun_s: float) -> float:
    """Active seconds at which it has to end."""
    if state.settings.ablate == _FULL or state.settings.evaluations is not None:
        return state.deadline_s
    return min(state.deadline_s, begun_s * (1 + TIME_SHARE))


def _build_end_s(state: RunState, found: Dissection) -> float:
    return found.begun_s + (_end_s(state, found.begun_s) - found.begun_s) / 2


def _affordable(state: RunState, found: Dissection) -> int:
    """How many items there are processes for, and time by what was left after the builds."""
    left_s = _end_s(state, found.begun_s) - found.built_s
    most = min(_processes(state), left_s / _cost_s(state))
    return len(found.items) if math.isinf(most) else max(0, int(most / LEAST) - 1)


def _cost_s(state: RunState) -> float:
    """Seconds that one process of the winner takes, by those that confirmed it."""
    costs = [s.cost_s for s in state.finals["confirm"] if s.trial == state.chosen]
    return max(statistics.median(costs), 1e-6) if costs else 0.1
