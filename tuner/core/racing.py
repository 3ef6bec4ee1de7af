"""Racing rounds of one candidate: how often it is called, and when it is dropped.

Pure, so a worker far away decides as the driver does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core import statistics
from tuner.core.places import by_place

__all__ = ["Race", "composite", "least_calls"]

CALLS_AT_MOST = 256
"""Calls of one batch, whatever the kernel's speed."""

WINDOW = 64
"""How many of a trial's last calls it is raced with: a kernel of a microsecond has thousands, which say no more."""


FEWEST_CALLS = 2
"""Of a process, however long a call takes: the first one also pays for memory that it is the first to touch."""


def least_calls(wanted: int, call_s: float, enough_s: float) -> int:
    """How many calls a process has to make at least: fewer than wanted where calls are long, which scatter little.

    Args:
        wanted: where calls are short.
        call_s: of one call, as far as is known.
        enough_s: seconds of calls that are enough however few calls they are.
    """
    return min(wanted, max(FEWEST_CALLS, math.ceil(enough_s / max(call_s, 1e-9))))


def composite(times_s: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """Weighted geometric means over problems of the j-th of the last calls: one series to race with.

    Args:
        times_s: seconds of single calls by problem, in order.
        weights: of the problems, summing to 1.
    """
    series = [times[-WINDOW:] for times in times_s]
    length = min(len(s) for s in series)
    if len(series) == len(weights) == 1:
        return [math.exp(weights[0] * math.log(value)) for value in series[0]]
    return [
        math.exp(sum(w * math.log(s[j]) for w, s in zip(weights, series, strict=True))) for j in range(length)
    ]


@by_place
@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """All that the rounds of one candidate depend on.

    Attributes:
        weights: of the problems, summing to 1.
        rounds_s, rounds_calls: least timed seconds and calls of each round.
        enough_s: timed seconds that are enough for a later round, however few calls they are.
        call_s: rough seconds of a call of the baseline by problem.
        base_log: logarithm of the baseline's time on this device, as last measured.
        incumbent: calls of the one to beat in units of the baseline; ``None`` where nothing is dropped.
    """

    weights: tuple[float, ...]
    rounds_s: tuple[float, ...]
    rounds_calls: tuple[int, ...]
    enough_s: float
    call_s: tuple[float, ...]
    base_log: float = 0.0
    incumbent: tuple[float, ...] | None = None

    def calls(self, times_s: Sequence[Sequence[float]], done: int) -> tuple[int, ...]:
        """Calls for each problem so that the round times at least its seconds, by the best estimate so far.

        The first round has its least calls whatever they take, as fewer would drop nothing.

        Args:
            times_s: of the candidate so far, by problem.
            done: rounds so far.
        """
        calls = []
        for known, rough_s in zip(times_s, self.call_s, strict=True):
            call_s = statistics.median(known) if known else rough_s
            wanted = math.ceil(self.rounds_s[done] / max(call_s, 1e-9))
            least = self.rounds_calls[done]
            if done:
                least = least_calls(least, call_s, self.enough_s)
            calls.append(min(max(wanted, least), CALLS_AT_MOST))
        return tuple(calls)

    def keep(self, times_s: Sequence[Sequence[float]]) -> bool:
        """Whether the candidate may still be better than the incumbent."""
        if self.incumbent is None:
            return True
        unit = math.exp(-self.base_log)
        candidate = [value * unit for value in composite(times_s, self.weights)]
        return statistics.race(candidate, self.incumbent).keep
