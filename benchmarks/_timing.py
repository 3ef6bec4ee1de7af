"""Builds and times of variants beside a run: what a benchmark asks without the driver, over one baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median

from _shared_times import SharedTimes

from tuner.core.protocols import Evaluation
from tuner.core.types import BASELINE, Build, BuildRequest, Configuration, Resolved, Status, Variant
from tuner.driver.work.lineup import Lineup
from tuner.spaces.source.edits import Applied
from tuner.spec.load import LoadedSpec

__all__ = ["Timing"]

CALLS = 10
NO_TRIAL = -1

Looked = Mapping[str, float] | None


class Timing:
    """Of one kernel's variants, as one process of a run would time them.

    Args:
        backend: shares its times.
        spec, lineup: of a record of the kernel.
    """

    def __init__(self, backend: SharedTimes, spec: LoadedSpec, lineup: Lineup) -> None:
        self._lineup = lineup
        self._problems = range(len(spec.task.problems))
        self._evaluation: Evaluation = backend.prepare(spec.task, workers=1)
        resolved = lineup.of_trial(BASELINE)[1]
        request = BuildRequest(trial=BASELINE, variant=lineup.variant(0), resolved=resolved)
        (self._baseline,) = self._evaluation.build([request])
        self._evaluation.set_baseline(self._baseline, resolved)
        _, times = self._times(self._baseline, resolved)
        self._base = times

    def build(self, variant: Variant, resolved: Resolved) -> Build:
        """A variant's build."""
        (build,) = self._evaluation.build([BuildRequest(trial=NO_TRIAL, variant=variant, resolved=resolved)])
        return build

    def score(self, build: Build, resolved: Resolved) -> tuple[Status, float | None]:
        """What becomes of a build, and its log time over the baseline's; ``None`` for what fails."""
        if build.status is not Status.OK:
            return build.status, None
        status, times = self._times(build, resolved)
        if status is not Status.OK:
            return status, None
        return status, fmean(math.log(a / b) for a, b in zip(times, self._base, strict=True))

    def first(self, made: Applied, configuration: Configuration) -> float | None:
        """The score of an advised variant at its first trial."""
        begun = self._lineup.breeding.begun(made, configuration)
        return None if begun is None else self.score(self.build(*begun), begun[1])[1]

    def examine(self, offered: Sequence[tuple[Applied, Configuration]]) -> list[Looked]:
        """As a run does it before it advises anything."""
        known = {self._baseline.key}
        found: list[Looked] = []
        for made, configuration in offered:
            begun = self._lineup.breeding.begun(made, configuration)
            build = None if begun is None else self.build(*begun)
            fresh = build is not None and build.status is Status.OK and build.key not in known
            found.append(build.features if build is not None and fresh else None)
            known |= {build.key} if build is not None else set()
        return found

    def _times(self, build: Build, resolved: Resolved) -> tuple[Status, list[float]]:
        session = self._evaluation.open(build, resolved, purpose="search", number=1)
        try:
            verdict = session.verify()
            if verdict.status is not Status.OK:
                return verdict.status, []
            made = [session.measure(problem=n, calls=CALLS) for n in self._problems]
        finally:
            session.close()
        failed = next((m.status for m in made if m.status is not Status.OK), Status.OK)
        return failed, [median(m.times_s) for m in made] if failed is Status.OK else []
