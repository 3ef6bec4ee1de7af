"""How likely a configuration builds to code that is known already, learnt from trials that were found to repeat others.

Much of a space changes nothing: a flag that a kernel has no use for, an unroll factor of a loop that is not there, a
pass that finds nothing to do. Two values of an axis count as one by how often swapping them left the code as it was;
two pipelines while they gave equal code wherever both were tried. Derived from observations in the order told and from
nothing else. May not draw random numbers or rule anything out: what it says is a chance, never certainty.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuner.core.protocols import Observation
from tuner.core.types import Status
from tuner.search.domain import PASSES, Domain, Point

__all__ = ["Sameness"]

Floats = NDArray[np.float64]

_PRIOR = 0.05
_DOUBT = 2.0
_SURE = 0.95
_CARRIED = 0.9
_NEAR = 2
_LINKED = 0.5
_SIDE = 64


class Sameness:
    """Learns from duplicates and from what turned out to be none.

    Args:
        domain: of the space.
    """

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._codes: dict[int, int] = {}
        self._kinds: dict[str, int] = {}
        self._parted: set[frozenset[str]] = set()
        self._at: dict[Point, dict[str, int]] = {}
        self._points = np.zeros((0, len(domain.axes)), dtype=np.int64)
        self._texts: list[str] = []
        self._numbers: list[int] = []
        sides = [axis.size if axis.size <= _SIDE else 1 for axis in domain.axes]
        self._equal = [np.zeros((n, n)) for n in sides]
        self._seen = [np.zeros((n, n)) for n in sides]

    def tell(self, observation: Observation) -> None:
        """Learns from one observation; one of another space, or a duplicate of who knows what, is ignored."""
        configuration = observation.proposal.configuration
        point = self._domain.point(configuration)
        if point is None or observation.score is None:
            return
        duplicate = observation.status is Status.DUPLICATE
        if duplicate and observation.repeats not in self._codes:
            return
        repeated = observation.repeats if duplicate else None
        code = observation.trial if repeated is None else self._codes[repeated]
        self._codes[observation.trial] = code
        pipeline = str(configuration.get(PASSES, self._domain.base))
        self._kinds.setdefault(pipeline, len(self._kinds))
        self._compare_pipelines(point, pipeline, code)
        self._compare_points(point, pipeline, code)
        self._at.setdefault(point, {})[pipeline] = code
        self._points = np.vstack([self._points, np.array([point], dtype=np.int64).reshape(1, -1)])
        self._texts.append(pipeline)
        self._numbers.append(code)

    def chances(self, points: Sequence[Point], pipeline: str | None) -> Floats:
        """The chance of known code for each of some untried points with a pipeline, ``[n]``, 0 to 0.95."""
        text = self._domain.base if pipeline is None else pipeline
        kind = self._kinds.get(text)
        chosen = [i for i, other in enumerate(self._texts) if self._kinds[other] == kind]
        if kind is None or not chosen or not points:
            return np.zeros(len(points))
        carried = np.array([1.0 if self._texts[i] == text else _CARRIED for i in chosen])
        rows = self._domain.array(points)
        return np.asarray(
            np.minimum(_SURE, (self._likeness(rows, self._points[chosen]) * carried).max(axis=1))
        )

    def chance(self, point: Point, pipeline: str) -> float:
        """The same for one point."""
        return float(self.chances([point], pipeline)[0])

    def kind(self, pipeline: str) -> int:
        """A number that pipelines share which gave equal code wherever both were tried; -1 for an unknown one."""
        return self._kinds.get(pipeline, -1)

    def _compare_pipelines(self, point: Point, pipeline: str, code: int) -> None:
        for other, known in self._at.get(point, {}).items():
            if other == pipeline:
                continue
            together = self._kinds[other] == self._kinds[pipeline]
            if known == code and not together:
                self._join(pipeline, other)
            elif known != code and together:
                # What they share elsewhere was a matter of the parameters there.
                self._parted.add(frozenset((pipeline, other)))
                self._kinds[pipeline] = 1 + max(self._kinds.values())

    def _join(self, pipeline: str, other: str) -> None:
        """Makes two kinds one, unless some of the one are known to differ from some of the other."""
        old, new = self._kinds[pipeline], self._kinds[other]
        if any({self._kinds[text] for text in pair} == {old, new} for pair in self._parted):
            return
        for text, kind in self._kinds.items():
            if kind == old:
                self._kinds[text] = new

    def _compare_points(self, point: Point, pipeline: str, code: int) -> None:
        if not self._texts:
            return
        row, numbers = np.array(point), np.array(self._numbers)
        first = int(np.argmax(numbers == code))
        other = self._texts[first]
        if numbers[first] == code and self._kinds[other] != self._kinds[pipeline]:
            # That neither what differs in the point nor in the pipeline matters is the simplest reason.
            likeness = self._likeness(row[None, :], self._points[first : first + 1])
            if float(likeness[0, 0]) >= _LINKED:
                self._join(pipeline, other)
        kind = self._kinds[pipeline]
        same_kind = np.array([self._kinds[text] == kind for text in self._texts])
        apart = self._points != row
        count = apart.sum(axis=1)
        for i in np.flatnonzero(same_kind & (count > 0) & ((count <= _NEAR) | (numbers == code))):
            self._weigh(row, self._points[i], np.flatnonzero(apart[i]), equal=bool(numbers[i] == code))

    def _weigh(
        self, row: NDArray[np.int64], other: NDArray[np.int64], axes: NDArray[np.intp], *, equal: bool
    ) -> None:
        """One comparison: where the code is equal no axis mattered, else at least one did, by the chances so far."""
        alike = [self._alike(int(axis))[self._cell(int(axis), row, other)] for axis in axes]
        everything = float(np.prod(alike))
        for axis, chance in zip(axes, alike, strict=True):
            a, b = self._cell(int(axis), row, other)
            share = 1.0 if equal else 1.0 - (chance - everything) / (1.0 - everything)
            for cell in {(a, b), (b, a)}:
                self._seen[axis][cell] += share
                self._equal[axis][cell] += float(equal)

    def _cell(self, axis: int, row: NDArray[np.int64], other: NDArray[np.int64]) -> tuple[int, int]:
        # Axes of very many values are judged as a whole.
        if len(self._seen[axis]) < self._domain.axes[axis].size:
            return 0, 0
        return int(row[axis]), int(other[axis])

    def _alike(self, axis: int) -> Floats:
        """The chance that two values of an axis give equal code, all else equal, ``[values, values]``."""
        seen, equal = self._seen[axis], self._equal[axis]
        whole = (equal.sum() + _PRIOR * _DOUBT) / (seen.sum() + _DOUBT)
        return np.asarray((equal + whole * _DOUBT) / (seen + _DOUBT))

    def _likeness(self, rows: NDArray[np.int64], known: NDArray[np.int64]) -> Floats:
        """``[n, m]``: the chance that nothing in which two points differ matters."""
        made = np.ones((len(rows), len(known)))
        for axis in range(rows.shape[1]):
            left, right = rows[:, axis, None], known[None, :, axis]
            table = self._alike(axis)
            alike = table[0, 0] if len(table) < self._domain.axes[axis].size else table[left, right]
            made *= np.where(left == right, 1.0, alike)
        return made
