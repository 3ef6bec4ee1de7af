"""Bodies of events that say what came of work: the same for one device and for many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core import statistics
from tuner.core.protocols import BaselineReport
from tuner.core.types import Build, Measurement, Status, Verdict

__all__ = ["baseline", "built", "fresh", "lesser", "measurement", "medians", "samples", "verdict"]


def built(build: Build, code: str | None, clock_s: float) -> dict[str, Any]:
    """Of ``build``; ``code`` is a reference to the object code where it is kept."""
    return {
        **lesser(build, clock_s),
        "code": code,
        "features": dict(build.features),
        "seconds": dict(build.seconds),
    }


def lesser(build: Build, clock_s: float) -> dict[str, Any]:
    """Of ``without``: what tells the code, which is not kept."""
    return {
        "status": build.status.value,
        "message": build.message,
        "digest": build.digest,
        "key": build.key,
        "clock_s": clock_s,
    }


def baseline(report: BaselineReport, clock_s: float) -> dict[str, Any]:
    """Of ``baseline``."""
    return {
        "status": report.status.value,
        "message": report.message,
        "reference": report.reference,
        "own_error": dict(report.own_error),
        "call_s": list(report.call_s),
        "notes": dict(report.notes),
        "clock_s": clock_s,
    }


def verdict(found: Verdict, clock_s: float) -> dict[str, Any]:
    """Of ``verify``."""
    return {
        "status": found.status.value,
        "message": found.message,
        "detail": dict(found.detail),
        "wall_s": found.wall_s,
        "clock_s": clock_s,
    }


def samples(number: int, measurements: Sequence[Measurement], clock_s: float) -> dict[str, Any]:
    """Of ``samples``: one round."""
    return {
        "round": number,
        "measurements": [measurement(m) for m in measurements],
        "clock_s": clock_s,
    }


def fresh(
    status: Status, measurements: Sequence[Measurement], message: str, cost_s: float, clock_s: float
) -> dict[str, Any]:
    """What events of a process of its own have in common."""
    return {
        "status": status.value,
        "message": message,
        "medians_s": medians(status, measurements),
        "cost_s": cost_s,
        "clock_s": clock_s,
    }


def medians(status: Status, measurements: Sequence[Measurement]) -> list[float] | None:
    """The median of each problem; ``None`` where something failed."""
    if status is not Status.OK:
        return None
    return [statistics.median(m.times_s) for m in measurements]


def measurement(given: Measurement) -> Mapping[str, Any]:
    """One measurement in plain JSON."""
    return {
        "status": given.status.value,
        "problem": given.problem,
        "times_s": list(given.times_s),
        "claimed_s": given.claimed_s,
        "observed_s": given.observed_s,
        "wall_s": given.wall_s,
        "message": given.message,
        "notes": dict(given.notes),
    }
