"""What many devices cost a search: recorded spaces searched in simulated time, one device against many.

A device is busy with a candidate for as long as compiling and running it took when it was recorded. Proposals are asked
for as the driver does it: as many as devices are idle, and one for every four devices to be ready. The searcher is told
of results in the order in which they end. No clock is read, so the figures do not depend on the machine.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _search_runs import Case, load_case

from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import Proposal, Status
from tuner.driver.state.stock import SPARE
from tuner.evaluators.recorded.spaces import key_of
from tuner.search import registry

__all__ = ["Quality", "compare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One space: times over the optimum (geometric means over seeds), and their ratio with its 95% interval."""

    space: str
    one: float
    many: float
    ratio: float
    low: float
    high: float


def compare(
    folder: Path,
    *,
    strategy: str,
    devices: int,
    seeds: Sequence[int],
    evaluations: int,
    only: Sequence[str] = (),
) -> list[Quality]:
    """Best times found with one device and with many at equal evaluations.

    Args:
        folder: of recorded spaces.
        strategy: a searcher.
        devices: of the many.
        seeds: the same for both; a change is to be judged by others than those that it was chosen by.
        evaluations: of each search.
        only: names of spaces; empty: all.
    """
    found = []
    for path in sorted(folder.glob("*.json.gz")):
        case = load_case(path)
        if only and case.name not in only:
            continue
        ones = [math.log(_best(case, strategy, 1, seed, evaluations)) for seed in seeds]
        many = [math.log(_best(case, strategy, devices, seed, evaluations)) for seed in seeds]
        apart = [m - o for m, o in zip(many, ones, strict=True)]
        middle, half = float(np.mean(apart)), _half(apart)
        found.append(
            Quality(
                space=case.name,
                one=math.exp(float(np.mean(ones))),
                many=math.exp(float(np.mean(many))),
                ratio=math.exp(middle),
                low=math.exp(middle - half),
                high=math.exp(middle + half),
            )
        )
    return found


def _half(values: Sequence[float]) -> float:
    from scipy.stats import t

    count = len(values)
    return (
        float(t.ppf(0.975, count - 1) * np.std(values, ddof=1) / math.sqrt(count)) if count > 1 else math.inf
    )


def _best(case: Case, strategy: str, devices: int, seed: int, evaluations: int) -> float:
    """The shortest time found over the optimum; where nothing worked, the longest there is."""
    best = _Search(case, strategy, seed, evaluations).over(devices)
    times = case.figures.times
    return min(best, float(times[np.isfinite(times)].max())) / case.figures.optimum


class _Search:
    """One search in simulated time."""

    def __init__(self, case: Case, strategy: str, seed: int, evaluations: int) -> None:
        space = case.space()
        self._case, self._seed, self._evaluations = case, seed, evaluations
        self._searcher: Any = registry.create(strategy, space)
        self._numbers = {key: i for i, key in enumerate(case.recorded.rows)}
        self._rows = list(case.recorded.rows.values())
        self._keys = list(case.recorded.parameters)
        self._ready: list[Proposal] = []
        self._asked = self._started = 0

    def over(self, devices: int) -> float:
        """Goes on until all evaluations have ended; gives the shortest time."""
        running: list[tuple[float, int, Proposal, int]] = []
        now_s, best, done = 0.0, math.inf, 0
        spare = -(-devices // SPARE) if devices > 1 else 0
        while True:
            self._ask(devices - len(running), spare)
            while self._ready and len(running) < devices:
                proposal = self._ready.pop(0)
                number = self._row(proposal)
                cost_s = self._case.figures.costs[number] if number >= 0 else 1.0
                heapq.heappush(running, (now_s + cost_s, self._started, proposal, number))
                self._started += 1
            if not running:
                return best
            now_s, _, proposal, number = heapq.heappop(running)
            done += 1
            status = self._rows[number].status if number >= 0 else Status.REFUSED
            time_s = float(self._case.figures.times[number]) if status is Status.OK else math.inf
            best = min(best, time_s)
            score = math.log(time_s) if status is Status.OK else None
            self._searcher.tell([Observation(trial=done, proposal=proposal, status=status, score=score)])
            if best <= self._case.figures.optimum:
                return best

    def _ask(self, idle: int, spare: int) -> None:
        if len(self._ready) > spare // 2 or not idle + spare:
            return
        count = min(idle + spare - len(self._ready), self._evaluations - self._asked)
        if count < 1:
            return
        proposals = self._searcher.ask(count, stream(self._seed, "ask", 1 + self._asked))
        self._asked += len(proposals)
        self._ready += proposals

    def _row(self, proposal: Proposal) -> int:
        key = key_of(proposal.configuration[name] for name in self._keys)
        return self._numbers.get(key, -1)
