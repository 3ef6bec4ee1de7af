"""The speed of light: what one call takes at least on this machine, by its traffic and its operations.

Bytes and operations that the spec gives under ``measure`` are taken at their word: a candidate clearly faster than they
allow cannot have done the work. Without them every element of every array counts once, which a kernel need not touch:
that bound may end a search but never refuses anything, and the first candidate below it shows that it does not hold.

One part of it is proven, where the kernel as given has been seen to write every element of its outputs: each call finds
them spoiled, and what is not written again is a wrong result. A candidate faster than that traffic allows is refused.
Of inputs nothing follows: which of them a result needs depends on their values (docs/decisions/bounds-that-refuse.md).
May not know a run's state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.dtypes import element_of, members_of, numpy_dtype
from tuner.core.errors import MachineError, SpecError
from tuner.core.protocols import Backend, KnowsPeaks, Peaks
from tuner.core.types import BASELINE, ArgumentRole, Status, Task

__all__ = ["IMPOSSIBLE", "bounds", "disproves", "light_of", "ratios"]

IMPOSSIBLE = 0.85
"""A time below this part of a bound that the user vouches for, or that is proven, is no noise."""


def light_of(task: Task, backend: Backend, *, measure: bool = False) -> dict[str, Any] | None:
    """The bound of each problem, as the ``start`` event holds it; ``None`` where nothing can be said.

    Args:
        task: with its sizes.
        backend: that may know its peaks.
        measure: also where that has to be measured first, which takes seconds.
    """
    declared = task.measure.bytes is not None or task.measure.operations is not None
    if not isinstance(backend, KnowsPeaks):
        return None
    try:
        peaks = backend.peaks(task.target, task.measure.threads, measure=measure or declared)
        if peaks is None:
            return None
        clock = {} if peaks.clock_hz is None else {"clock_hz": peaks.clock_hz}
        return {"declared": declared, "problems": bounds(task, peaks), **clock}
    except (MachineError, SpecError):
        return None


def bounds(task: Task, peaks: Peaks) -> list[dict[str, float]]:
    """For each problem ``bytes``, ``operations``, ``bound_s`` and the two rates that the bound rests on.

    ``written_bytes`` and ``written_s`` are of the outputs alone.

    Traffic goes at the bandwidth of the largest measured footprint that is no larger than the arrays: the next larger
    one is slower, so this is never too slow. With cold caches the largest footprint counts.

    Raises:
        SpecError: an expression cannot be computed.
    """
    made = []
    for problem in task.problems:
        env = dict(problem.sizes)
        footprint = written = 0
        for argument in task.arguments:
            # Of recorded memory a kernel touches what it touches.
            if argument.shape is not None and argument.passing != "memory":
                count = math.prod(part.integer(env) for part in argument.shape)
                footprint += count * numpy_dtype(argument.dtype).itemsize
                if argument.role is ArgumentRole.OUTPUT:
                    written += count * numpy_dtype(argument.dtype).itemsize
        given = task.measure
        declared = given.bytes is not None or given.operations is not None
        operations = 0.0 if given.operations is None else float(given.operations.evaluate(env))
        moved = 0.0 if declared else float(footprint)
        if given.bytes is not None:
            moved = float(given.bytes.evaluate(env))
        bandwidth = _bandwidth(peaks, footprint, cold=given.cache == "cold")
        # The faster of the dtypes, unless all floats are wide: a bound has to hold.
        peak = _peak(task, peaks)
        bound_s = max(moved / bandwidth, operations / peak)
        # Stores may stay in a cache that is cold for loads, so no less than the rate of so small a footprint holds.
        written_s = written / _bandwidth(peaks, written, cold=False)
        made.append(
            {
                "bytes": moved,
                "operations": operations,
                "bound_s": bound_s,
                "bandwidth_bytes_per_s": bandwidth,
                "operations_per_s": peak,
                "written_bytes": float(written),
                "written_s": written_s,
            }
        )
    return made


def _bandwidth(peaks: Peaks, footprint: int, *, cold: bool) -> float:
    if cold:
        return peaks.bandwidths[-1][1]
    fitting = [rate for size, rate in peaks.bandwidths if size <= footprint]
    return fitting[-1] if fitting else peaks.bandwidths[0][1]


def _peak(task: Task, peaks: Peaks) -> float:
    kinds = (element_of(kind)[0] for a in task.arguments for kind in members_of(a.dtype).values())
    floats = {kind for kind in kinds if kind.startswith("float")}
    if floats == {"float64"} and task.verify.numerics != "approximate":
        return peaks.operations["float64"]
    return max(peaks.operations.values())


def ratios(light: Mapping[str, Any], medians: Sequence[float]) -> list[float]:
    """Time over bound for each problem that has a bound."""
    pairs = zip(medians, light["problems"], strict=True)
    return [m / p["bound_s"] for m, p in pairs if p["bound_s"] > 0]


def disproves(light: Mapping[str, Any] | None, number: int, status: Status, medians: Any) -> bool:
    """Whether a finished trial shows that the bound does not hold."""
    if light is None or medians is None or status is not Status.OK:
        return False
    below = any(r < IMPOSSIBLE for r in ratios(light, medians))
    return below and (number == BASELINE or not light["declared"])
