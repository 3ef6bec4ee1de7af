"""The tuner's own evaluator for whole texts of a kernel's source: built with the spec's baseline flags, verified and
timed in the sandbox.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

from tuner.core.errors import UsageError
from tuner.core.protocols import Backend, Evaluation
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Status, Variant
from tuner.evaluators import registry as backends
from tuner.spec.load import LoadedSpec

__all__ = ["Judge", "Judged"]

_BATCH_S = 0.05
_LEAST_CALLS, _MOST_CALLS = 5, 500
_BATCHES = 3
_PROCESSES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What became of a text: its speed-up where it is right, else why it is not."""

    status: Status
    speedup: float = 0.0
    message: str = ""


class Judge:
    """Of one kernel.

    Attributes:
        tried: texts and what became of each.
        given: texts that are the source as given.

    Args:
        spec: of the kernel.
        seed: of the inputs.
        backend: instead of the spec's own.

    Raises:
        UsageError: the source as given fails.
    """

    def __init__(self, spec: LoadedSpec, seed: int, backend: Backend | None = None) -> None:
        task = spec.task_with(seed=seed)
        backend = backends.given(backend, task.backend)
        space = spec.space(backend.pass_catalogue() if spec.wants_passes else None)
        self.tried: dict[str, Judged] = {}
        self._original = task.kernel.variant
        self.given = {self.text}
        self._resolved = space.resolve(space.default())
        self._evaluation: Evaluation = backend.prepare(task, workers=1)
        self._baseline = self._build(self._original, self._resolved)
        report = self._evaluation.set_baseline(self._baseline, self._resolved)
        if report.status is not Status.OK:
            raise UsageError(f"{spec.name}: the source as given fails ({report.message})", "see tuner check")
        batches = (int(_BATCH_S / max(seconds, 1e-9)) for seconds in report.call_s)
        self._calls = [min(max(calls, _LEAST_CALLS), _MOST_CALLS) for calls in batches]

    @property
    def text(self) -> str:
        """The source as given."""
        return self._original.files[0].text

    @property
    def right(self) -> int:
        """How many texts were right, without those that are the source as given."""
        return sum(j.status is Status.OK for text, j in self.tried.items() if text not in self.given)

    def judge(self, text: str) -> Judged:
        """Builds, verifies and times a text; one that was tried before has its first verdict."""
        if text not in self.tried:
            build = self._build(self._variant(text), self._resolved)
            found = Judged(status=build.status, message=build.message)
            if build.status is Status.OK:
                found = self._timed(build, self._resolved, "search", len(self.tried) + 1)
            self.tried[text] = found
        return self.tried[text]

    def confirmed(self, variant: Variant | str, resolved: Resolved | None = None) -> list[float]:
        """The speed-up in each of several fresh processes on new inputs; empty where it is wrong in one."""
        if isinstance(variant, str):
            variant = self._variant(variant)
        resolved = resolved or self._resolved
        build = self._build(variant, resolved)
        if build.status is not Status.OK:
            return []
        found = [self._timed(build, resolved, "confirm", n) for n in range(_PROCESSES)]
        return [j.speedup for j in found] if all(j.status is Status.OK for j in found) else []

    def best(self) -> list[float]:
        """Of the three fastest that are right the first that is right on new inputs too; that of the source as given
        where there is none."""
        right = [(j.speedup, text) for text, j in self.tried.items() if j.status is Status.OK]
        for _, text in sorted(right, reverse=True)[:3]:
            times = self.confirmed(text)
            if times:
                return times
        return [1.0] * _PROCESSES

    def close(self) -> None:
        """Ends its processes."""
        self._evaluation.close()

    def _variant(self, text: str) -> Variant:
        first, *rest = self._original.files
        # Without an edit it would be the source as given.
        return Variant(files=(replace(first, text=text), *rest), edits=({"op": "text"},))

    def _build(self, variant: Variant, resolved: Resolved) -> Build:
        (build,) = self._evaluation.build([BuildRequest(trial=BASELINE, variant=variant, resolved=resolved)])
        return build

    def _timed(self, build: Build, resolved: Resolved, purpose: str, number: int) -> Judged:
        """Beside the source as given, which is timed before and after it."""
        before = self._times(self._baseline, self._resolved, purpose, number)
        found = self._times(build, resolved, purpose, number)
        after = self._times(self._baseline, self._resolved, purpose, number)
        if isinstance(found, Judged):
            return found
        if isinstance(before, Judged) or isinstance(after, Judged):
            return Judged(status=Status.LOST, message="the source as given could not be timed")
        logs = [math.log(b * a) / 2 - math.log(t) for b, a, t in zip(before, after, found, strict=True)]
        return Judged(status=Status.OK, speedup=math.exp(statistics.fmean(logs)))

    def _times(self, build: Build, resolved: Resolved, purpose: str, number: int) -> list[float] | Judged:
        session = self._evaluation.open(build, resolved, purpose=purpose, number=number)
        try:
            verdict = session.verify()
            if verdict.status is not Status.OK:
                return Judged(status=verdict.status, message=verdict.message)
            times = []
            for problem, calls in enumerate(self._calls):
                made = [session.measure(problem=problem, calls=calls) for _ in range(_BATCHES)]
                failed = next((m for m in made if m.status is not Status.OK), None)
                if failed is not None:
                    return Judged(status=failed.status, message=failed.message)
                times.append(min(statistics.median(m.times_s) for m in made))
            return times
        finally:
            session.close()
