"""Whether a spec's source as it is now is slower than what a run recorded, measured here and now.

Recorded times are not compared with: they belong to another machine or another day. What the run recorded is built
again from its record and timed beside the present source, in fresh processes, interleaved. May not write anything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core import claims, statistics
from tuner.core.errors import BaselineError, MachineError, SpecError, UsageError
from tuner.core.protocols import Backend, Evaluation, Session
from tuner.core.streams import stream
from tuner.core.types import BASELINE, BuildRequest, Resolved, Status, Variant
from tuner.driver.opening import open_lineup
from tuner.driver.outcome.outcome import outcome
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.work.environment import check_flags
from tuner.evaluators import registry as backends
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec

__all__ = ["Regression", "compare_with_run"]

THAN = ("winner", "baseline")

_FIRST_PROCESS = 300_000
"""Process numbers of their own: inputs that neither a run nor a re-measurement used."""
_MEASURED_S = 0.04
_CALLS = (7, 2048)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """What a comparison found.

    Attributes:
        kernel: its name.
        status: of the present source: ``ok``, or why it has no time.
        message: one line when it is not ``ok``.
        same_code: both build to the same object code, so nothing was timed.
        slowdown: present over recorded time, with its 95% interval; 1 where the code is the same, NaN without a time.
        recorded_s, present_s: median seconds of a call in each process, geometric means over problems.
        configured: the configuration of the present source: ``winner`` or ``default``.
    """

    kernel: str
    status: Status
    message: str = ""
    same_code: bool = False
    slowdown: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    recorded_s: tuple[float, ...] = ()
    present_s: tuple[float, ...] = ()
    configured: str = "winner"

    def slower(self, tolerance: float) -> bool:
        """Whether it is certain (97.5%) that the present source is slower by more than the tolerance."""
        return self.slowdown[1] > 1 + tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    variant: Variant
    resolved: Resolved


def compare_with_run(
    spec: LoadedSpec, run: Path, *, than: str = "winner", processes: int = 12, backend: Backend | None = None
) -> Regression:
    """Times the present source of a spec beside what a run of it recorded.

    The present source gets the run's winning configuration, where the winner is the source as given and the space
    still has that configuration; else its default.

    Args:
        spec: the present one.
        run: a record of the same kernel.
        than: ``winner``, or ``baseline``, the source as it was with its default.
        processes: fresh processes for each of both.
        backend: instead of the spec's own by name.

    Raises:
        UsageError: the record is of another kernel or unfinished, or an argument cannot be.
        BaselineError: what was recorded does not build or verify here.
        MachineError: nothing can be timed here.
    """
    if than not in THAN:
        raise UsageError(f"than is {than!r}", "one of " + ", ".join(THAN))
    if isinstance(processes, bool) or processes < claims.MIN_PROCESSES:
        raise UsageError(f"processes is {processes!r}", f"give at least {claims.MIN_PROCESSES}")
    backend = backends.given(backend, spec.task.backend)
    recorded, present, configured = _candidates(spec, run, than, backend)
    evaluation = backend.prepare(spec.task_with(seed=spec.search.seed), workers=1)
    try:
        if not evaluation.times:
            raise MachineError(
                f"the {backend.name} backend has no device in reach", "run this where there is one"
            )
        return _compare(
            spec, evaluation, recorded, present, configured=configured, processes=processes, run=run
        )
    finally:
        evaluation.close()


def _candidates(
    spec: LoadedSpec, run: Path, than: str, backend: Backend
) -> tuple[_Candidate, _Candidate, str]:
    with RunRecord.read(run) as record:
        state, before, lineup = open_lineup(record)
    if before.name != spec.name or before.task.backend != spec.task.backend:
        raise UsageError(
            f"{run} is a run of {before.name} on {before.task.backend}, the spec is of {spec.name} on "
            f"{spec.task.backend}",
            "name a run of this spec",
        )
    if state.end is None:
        raise UsageError(f"{run} has not ended", "finish it with tune --resume")
    number = outcome(run, state).summary.best.number if than == "winner" else BASELINE
    variant, resolved = lineup.of_trial(number)
    space = spec.space(backend.pass_catalogue() if spec.wants_passes else None)
    check_flags(backend, spec)
    now, configured = space.resolve(space.default()), "default"
    if than == "winner" and state.trials[number].variant == ORIGINAL:
        try:
            now, configured = space.resolve(state.trials[number].proposal.configuration), "winner"
        except SpecError:
            # The space has changed since: what is left to compare is the source with its default.
            configured = "default"
    recorded = _Candidate(variant=variant, resolved=resolved)
    return recorded, _Candidate(variant=spec.task.kernel.variant, resolved=now), configured


def _compare(
    spec: LoadedSpec,
    evaluation: Evaluation,
    recorded: _Candidate,
    present: _Candidate,
    *,
    configured: str,
    processes: int,
    run: Path,
) -> Regression:
    both = (recorded, present)
    requests = [BuildRequest(trial=i, variant=c.variant, resolved=c.resolved) for i, c in enumerate(both)]
    builds = evaluation.build(requests)
    if builds[0].status is not Status.OK:
        raise BaselineError(f"what {run} recorded does not build here: {builds[0].message}", "tune again")
    common: dict[str, Any] = {"kernel": spec.name, "configured": configured}
    if builds[1].status is not Status.OK:
        return Regression(status=builds[1].status, message=builds[1].message, **common)
    if builds[0].key == builds[1].key:
        return Regression(status=Status.OK, same_code=True, slowdown=(1.0, 1.0, 1.0), **common)
    report = evaluation.set_baseline(builds[0], recorded.resolved)
    if report.status is not Status.OK:
        raise BaselineError(f"what {run} recorded does not verify here: {report.message}", "tune again")
    calls = [min(max(math.ceil(_MEASURED_S / max(s, 1e-9)), _CALLS[0]), _CALLS[1]) for s in report.call_s]
    times: tuple[list[float], list[float]] = ([], [])
    for process in range(processes):
        number = _FIRST_PROCESS + process
        for which in stream(spec.search.seed, "order/regression", number).permutation(2):
            session = evaluation.open(builds[which], both[which].resolved, purpose="confirm", number=number)
            try:
                failure = _time(session, spec, calls, times[which])
            finally:
                session.close()
            if failure is not None:
                return _failed(which, failure, run, common)
    interval = statistics.log_ratio_interval(times[1], times[0], 0.95)
    slowdown = (interval.value, interval.low, interval.high)
    return Regression(
        status=Status.OK, slowdown=slowdown, recorded_s=tuple(times[0]), present_s=tuple(times[1]), **common
    )


def _time(
    session: Session, spec: LoadedSpec, calls: list[int], times: list[float]
) -> tuple[Status, str] | None:
    """Verifies and times one process; its status and message where it fails."""
    verdict = session.verify()
    if verdict.status is not Status.OK:
        return verdict.status, verdict.message
    weights = [p.weight for p in spec.task.problems]
    total = 0.0
    for problem, weight in enumerate(weights):
        measured = session.measure(problem=problem, calls=calls[problem])
        if measured.status is not Status.OK:
            return measured.status, measured.message
        total += weight / sum(weights) * math.log(statistics.median(measured.times_s))
    times.append(math.exp(total))
    return None


def _failed(which: int, failure: tuple[Status, str], run: Path, common: dict[str, Any]) -> Regression:
    status, message = failure
    if status is Status.LOST:
        raise MachineError(f"a process could not be measured: {message}", "try again on a quieter machine")
    if which == 0:
        raise BaselineError(f"what {run} recorded does not verify here: {message}", "tune again")
    return Regression(status=status, message=message, **common)
