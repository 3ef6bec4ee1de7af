"""Does one job at a time with an evaluation of its own: the part of an executor that runs beside the device."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from tuner.core.errors import MachineError
from tuner.core.executors import BaselineJob, BuildJob, Evaluated, EvaluateJob, Fresh, FreshJob, Job
from tuner.core.protocols import BaselineReport, Evaluation, Session
from tuner.core.types import Build, Measurement, Resolved, Status

__all__ = ["Worker", "fresh_process", "measure_problems"]

_PAUSES_S = (0.5, 3.0)
"""Between tries: what keeps a machine's clocks apart, a hypervisor with other work, may last for seconds."""


class Worker:
    """An evaluation that takes jobs.

    Args:
        evaluation: of the run's task; the worker closes it.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._baseline: tuple[Build, Resolved] | None = None
        self._ended_s: float | None = None

    def perform(
        self, job: Job, baseline: tuple[Build, Resolved] | None
    ) -> list[Build] | BaselineReport | Evaluated | Fresh:
        """Does a job.

        Args:
            job: any.
            baseline: build and values of the baseline; run first where it has not been here.

        Raises:
            MachineError: the device is gone, or the baseline does not verify on it.
        """
        began_s = time.monotonic()
        idle_s = 0.0 if self._ended_s is None else began_s - self._ended_s
        try:
            result = self._performed(job, baseline)
        finally:
            self._ended_s = time.monotonic()
        if isinstance(result, Evaluated):
            return replace(result, idle_s=idle_s, busy_s=self._ended_s - began_s)
        return result

    def close(self) -> None:
        """Ends the evaluation's processes."""
        self._evaluation.close()

    def _performed(
        self, job: Job, baseline: tuple[Build, Resolved] | None
    ) -> list[Build] | BaselineReport | Evaluated | Fresh:
        match job:
            case BuildJob():
                return self._evaluation.build(job.requests)
            case BaselineJob():
                return self._set_baseline(baseline)
            case EvaluateJob():
                self._ready(baseline)
                return self._evaluate(job)
            case FreshJob():
                self._ready(baseline)
                return self._fresh(job)

    def _set_baseline(self, baseline: tuple[Build, Resolved] | None) -> BaselineReport:
        assert baseline is not None
        report = self._evaluation.set_baseline(*baseline)
        if report.status is Status.OK:
            self._baseline = baseline
        return report

    def _ready(self, baseline: tuple[Build, Resolved] | None) -> None:
        if self._baseline is not None:
            return
        report = self._set_baseline(baseline)
        if report.status is not Status.OK:
            raise MachineError(
                f"the baseline does not verify on this device: {report.message}",
                "tuner check, on that machine, says more",
            )

    def _evaluate(self, job: EvaluateJob) -> Evaluated:
        session = self._evaluation.open(job.build, job.resolved, purpose="search", number=0)
        try:
            verdict = session.verify()
            if verdict.status is not Status.OK:
                return Evaluated(verdict=verdict)
            rounds: list[tuple[Measurement, ...]] = []
            times: list[list[float]] = [[] for _ in job.race.weights]
            while len(rounds) < len(job.race.rounds_s):
                if rounds and not job.race.keep(times):
                    break
                measured = measure_problems(session, job.race.calls(times, len(rounds)))
                rounds.append(tuple(measured))
                if measured[-1].status is not Status.OK:
                    break
                for known, measurement in zip(times, measured, strict=True):
                    known += measurement.times_s
            return Evaluated(verdict=verdict, rounds=tuple(rounds))
        finally:
            session.close()

    def _fresh(self, job: FreshJob) -> Fresh:
        started = time.monotonic()
        build = job.build
        if build is None:
            assert self._baseline is not None
            build = self._baseline[0]
        status, measurements, message = fresh_process(
            self._evaluation, build, job.resolved, job.purpose, job.number, job.calls, job.retries
        )
        cost_s = time.monotonic() - started
        return Fresh(status=status, measurements=tuple(measurements), message=message, cost_s=cost_s)


def fresh_process(
    evaluation: Evaluation,
    build: Build,
    resolved: Resolved,
    purpose: str,
    number: int,
    calls: Sequence[int],
    retries: int,
) -> tuple[Status, list[Measurement], str]:
    """Verifies and times a candidate in a process of its own, a machine's fault tried again.

    Returns:
        The status, the measurements by problem up to the first failure, and a line on what failed.
    """
    status, measurements, message = Status.LOST, list[Measurement](), ""
    for attempt in range(retries + 1):
        if status is Status.REFUSED:
            time.sleep(_PAUSES_S[min(attempt, len(_PAUSES_S)) - 1])
        session = evaluation.open(build, resolved, purpose=purpose, number=number)
        try:
            verdict = session.verify()
            if verdict.status is not Status.OK:
                status, measurements, message = verdict.status, [], verdict.message
            else:
                measurements = measure_problems(session, calls)
                status = measurements[-1].status
                message = measurements[-1].message
        finally:
            session.close()
        # A refusal may be an interrupt between two clock readings: one who cheats is refused every time.
        if status not in (Status.LOST, Status.REFUSED):
            break
    return status, measurements, message


def measure_problems(session: Session, calls: Sequence[int]) -> list[Measurement]:
    """Times one batch of each problem, up to the first that fails."""
    measurements = []
    for problem, count in enumerate(calls):
        measurement = session.measure(problem=problem, calls=count)
        measurements.append(measurement)
        if measurement.status is not Status.OK:
            break
    return measurements
