"""The backend ``recorded``: builds, verdicts and times come from the data that the spec's source file holds.

Nothing is compiled and nothing is run. Times are drawn with replacement from the recorded repeats by named streams, so
a session gives the same times however often and wherever it is opened. What compiling and running took then stands in
``seconds`` and ``notes`` as virtual seconds; no clock advances by it. May not look at what a search proposes next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.canonical import canonical_json, digest
from tuner.core.errors import SpecError
from tuner.core.protocols import BaselineReport
from tuner.core.statistics import median
from tuner.core.streams import seed_for, stream
from tuner.core.types import Build, BuildRequest, Measurement, Resolved, Status, Task, Value, Variant, Verdict
from tuner.evaluators.recorded.formats import read_space
from tuner.evaluators.recorded.spaces import RecordedSpace, Row

__all__ = ["RecordedBackend"]

_AT_BUILD = frozenset({Status.BUILD_ERROR, Status.REFUSED, Status.OUT_OF_RESOURCES})


class RecordedBackend:
    """A :class:`tuner.core.protocols.Backend`; see there."""

    name = "recorded"

    def environment(self, target: str) -> Mapping[str, Any]:
        """Nothing of this machine matters."""
        return {"device": "recorded measurements" if target == "native" else target, "target": target}

    def check_flags(self, flags: Sequence[str]) -> None:
        """Nothing is compiled, so no flag can be honoured.

        Raises:
            SpecError: for any flag.
        """
        if flags:
            raise SpecError(
                f"the recorded backend cannot honour {flags[0]!r}", "make the flag's choices a parameter"
            )

    def pass_catalogue(self, target: str = "native") -> Mapping[str, Any] | None:
        """There are no passes."""
        return None

    def prepare(self, task: Task, *, workers: int) -> RecordedEvaluation:
        """Reads the data.

        Raises:
            SpecError: the source is no recorded space, or holds other parameters than the spec.
        """
        first = task.kernel.variant.files[0]
        if len(task.problems) != 1:
            raise SpecError("a recorded space is of one problem", "give one problem, or none")
        return RecordedEvaluation(task, read_space(first.text, name=first.name.split(".")[0]))


class RecordedEvaluation:
    """A :class:`tuner.core.protocols.Evaluation` over one recorded space."""

    times = True

    def __init__(self, task: Task, space: RecordedSpace) -> None:
        self._task, self._space = task, space
        self.objectives = ("time", "energy") if space.has_energy else ("time",)

    def build(self, requests: Sequence[BuildRequest]) -> list[Build]:
        """What compiling gave; a configuration that was not recorded is refused."""
        return [self._build(r.resolved) for r in requests]

    def _build(self, resolved: Resolved) -> Build:
        values = _values(resolved)
        self._check(values)
        row = self._space.row(values)
        if row is None:
            return Build(status=Status.REFUSED, message="this configuration is not in the recorded data")
        seconds = {"recorded_compile": row.compile_s}
        if row.status in _AT_BUILD:
            return Build(status=row.status, message="as recorded", seconds=seconds)
        code = canonical_json(values).encode()
        return Build(status=Status.OK, code=code, digest=digest(code), key=digest(code), seconds=seconds)

    def build_with(self, command: Sequence[str], resolved: Resolved) -> Build:
        """Refused: nothing is compiled here."""
        return Build(status=Status.REFUSED, message="recorded times are of one compiler's code only")

    def set_baseline(self, build: Build, resolved: Resolved) -> BaselineReport:
        """The baseline's recorded time."""
        row = self._row(resolved)
        if row.status is not Status.OK:
            return BaselineReport(status=row.status, message=f"recorded as {row.status}")
        return BaselineReport(
            status=Status.OK,
            reference="recorded",
            call_s=(median(row.times_s),),
            notes={"kernel": self._space.kernel, "device": self._space.device},
        )

    def remarks(self, build: Build, resolved: Resolved, variant: Variant | None = None) -> Mapping[str, str]:
        """How much was recorded, and where."""
        rows = self._space.rows.values()
        worked = sum(row.status is Status.OK for row in rows)
        return {
            "recorded": f"{len(rows)} configurations, {worked} of which worked",
            "device": self._space.device or "not said",
        }

    def open(self, build: Build, resolved: Resolved, *, purpose: str, number: int) -> RecordedSession:
        """A session that draws from the repeats of one configuration."""
        seed = seed_for(self._task.seed, f"{purpose}/{build.key}", number)
        return RecordedSession(self._row(resolved), seed)

    def close(self) -> None:
        """Nothing is open."""

    def _row(self, resolved: Resolved) -> Row:
        return self._space.row(_values(resolved)) or Row(status=Status.REFUSED)

    def _check(self, values: Mapping[str, Value]) -> None:
        odd = sorted(set(values) ^ set(self._space.parameters))
        if odd:
            raise SpecError(
                f"the recorded data and the spec differ in the parameter {odd[0]!r}",
                "space.parameters has to name those of the data: " + ", ".join(self._space.parameters),
            )


class RecordedSession:
    """A :class:`tuner.core.protocols.Session` of one row."""

    def __init__(self, row: Row, seed: int) -> None:
        self._row, self._seed, self._batches = row, seed, 0

    def verify(self) -> Verdict:
        """What running it gave."""
        status = self._row.status
        message = "" if status is Status.OK else "as recorded"
        return Verdict(status=status, message=message, detail={"virtual_s": self._row.run_s})

    def measure(self, *, problem: int, calls: int) -> Measurement:
        """``calls`` of the recorded repeats, drawn with replacement."""
        repeats = self._row.times_s
        drawn = stream(self._seed, f"calls/{problem}", self._batches).integers(len(repeats), size=calls)
        self._batches += 1
        times = tuple(repeats[int(i)] for i in drawn)
        total, energy = sum(times), self._row.energy_j
        return Measurement(
            status=Status.OK,
            problem=problem,
            times_s=times,
            claimed_s=total,
            observed_s=total,
            wall_s=total,
            notes={"virtual_s": total, **({} if energy is None else {"energy_j": energy})},
        )

    def close(self) -> None:
        """Nothing is open."""


def _values(resolved: Resolved) -> dict[str, Value]:
    return {**resolved.macros, **resolved.scalars}
