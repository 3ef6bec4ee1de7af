"""How far rounding takes an output of few elements, by the kernel as given on other inputs of the same distribution.

The largest error in a long array says how far rounding goes there. The error of one sum says little: by luck it may be
a hundredth of what sums of such numbers are usually off by, and a candidate that adds them in another order has no such
luck. Inputs that are drawn anew round anew. Those that are moved by a unit in the last place, as in Monte Carlo
arithmetic (Parker, Pierce and Eggert, 2000), hardly do: next to a sum of 10^5 such terms the unit of a term is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.evaluators.redistribution import PERTURBED
from tuner.evaluators.verification import own_error
from tuner.evaluators.workloads import Workload

__all__ = ["Other", "Rounding", "sane_error"]

Array = NDArray[Any]
Outputs = Mapping[str, Array]
Run = Callable[[Sequence[Workload]], Sequence[tuple[Outputs, Outputs | None]]]
"""Gives the baseline's and the reference's outputs; fewer, or none, where one of them fails."""
Other = Callable[[int, int], Workload]
"""The workload at a place, with the values of another draw, from 0."""

_ENOUGH = 16
"""Errors by which the largest is known: of the same distribution one in a million lies beyond four times that."""
_LEAST = 2
_SECONDS = 3.0
"""For all draws but the first :data:`_LEAST`."""
_BYTES_A_SECOND = 1e8
"""At which inputs are drawn, copied and widened."""
_AT_ONCE, _AT_ONCE_BYTES = 32, 32 << 20
"""Workloads that run in one process, and what their arrays take."""
_SANE, _SANE_HALF = 1e-2, 1e-1
_OUTLIER = 8.0
"""Times the median of the errors beyond which one says nothing of the others: rounding has tipped something over."""
_VARIES = 16.0
"""Times the median of the magnitudes from which an output is taken to be off in proportion to what it is."""
_Pair = tuple[float, float]
"""An error and the magnitude of the result."""


def sane_error(scale: float, dtype: np.dtype[Any]) -> float:
    """What a result in higher precision may be off by and still be the same computation.

    Args:
        scale: of the values, their root mean square.
        dtype: that the baseline computes in.
    """
    return scale * (_SANE_HALF if dtype == np.float16 else _SANE)


class Rounding:
    """The baseline's largest errors on inputs like those that candidates are compared on."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[str, list[_Pair]]] = {}

    def errors(
        self,
        workloads: Sequence[Workload],
        outputs: Sequence[tuple[Outputs, Outputs | None]],
        *,
        other: Other,
        run: Run,
        call_s: float,
    ) -> list[dict[str, float]]:
        """The largest errors on inputs like those of each workload, by outputs of few elements.

        Args:
            workloads: on which outputs have to be known.
            outputs: the baseline's and the reference's on each, zero where nothing is written.
            other: makes them with other values.
            run: gives both on other workloads.
            call_s: of the baseline on all workloads together, in seconds.
        """
        few = [_few(*pair) for pair in outputs]
        found = [dict(self._known.get(_like(w), {})) for w in workloads]
        # What is not off at all is exact, and stays so.
        lacking = {
            _like(workloads[i]) or i: i
            for i, pairs in reversed([*enumerate(few)])
            if any(error and name not in found[i] for name, (error, _) in pairs.items())
        }
        asked = sorted(lacking.values())
        least = min((outputs[i][0][n].size for i in asked for n in few[i]), default=_ENOUGH)
        size = sum(array.nbytes for i in asked for array in workloads[i].arrays.values())
        for i, outputs_of in _pairs(asked, _draws(least, size, call_s) if asked else 0, size, other, run):
            for name, (error, scale) in _few(*outputs_of).items():
                if error <= sane_error(scale, outputs_of[0][name].dtype):
                    found[i].setdefault(name, []).append((error, scale))
        for like, i in lacking.items():
            if found[i] and like == _like(workloads[i]):
                self._known[like] = found[i]
        found = [self._known.get(_like(w), each) for w, each in zip(workloads, found, strict=True)]
        return [
            {name: _usual(each.get(name, []), scale) for name, (error, scale) in pairs.items() if error}
            for each, pairs in zip(found, few, strict=True)
        ]


def _usual(pairs: Sequence[_Pair], scale: float) -> float:
    """How large errors are of a result of some magnitude, by those of others; 0 where there are none."""
    if not pairs:
        return 0.0
    errors, scales = np.array(pairs).T
    if scales.max() > _VARIES * np.median(scales):
        errors = scale * np.divide(errors, scales, out=np.zeros_like(errors), where=scales > 0)
    return float(min(errors.max(), _OUTLIER * np.median(errors)))


def _like(workload: Workload) -> Hashable:
    """What inputs that are drawn alike have in common; nothing for one of a kind."""
    if workload.distribution not in ("given", PERTURBED):
        return None
    return ("given", *sorted(workload.problem.sizes.items()))


def _few(baseline: Outputs, reference: Outputs | None) -> dict[str, _Pair]:
    """The baseline's errors in floating outputs of few elements, with their magnitudes."""
    if reference is None:
        return {}
    return {
        name: (own_error(reference[name], values), _scale(reference[name]))
        for name, values in baseline.items()
        if values.dtype.kind in "fc" and values.size < _ENOUGH
    }


def _scale(values: Array) -> float:
    magnitude = np.abs(values[np.isfinite(values)])
    largest = magnitude.max(initial=0.0)
    return float(largest * np.sqrt(np.mean(np.square(magnitude / largest)))) if largest else 0.0


def _draws(elements: int, size: int, call_s: float) -> int:
    """How many draws, by the elements of the shortest output, the bytes of a draw and the baseline's calls on it."""
    in_time = int(_SECONDS / (2 * call_s + size / _BYTES_A_SECOND + 1e-3))
    return min(-(-_ENOUGH // max(elements, 1)), max(in_time, _LEAST))


def _pairs(
    places: Sequence[int], draws: int, size: int, other: Other, run: Run
) -> Iterator[tuple[int, tuple[Outputs, Outputs | None]]]:
    """What comes out of workloads with other values, by place, several draws at once where they are small."""
    room = max(min(_AT_ONCE_BYTES // max(size, 1), _AT_ONCE // max(len(places), 1)), 1)
    for begin in range(0, draws, room):
        chosen = [(draw, i) for draw in range(begin, min(begin + room, draws)) for i in places]
        pairs = run([other(draw, i) for draw, i in chosen])
        yield from ((i, pair) for (_, i), pair in zip(chosen, pairs, strict=False))
