"""The baseline of one task and what is made from it: expected outputs, and the inputs of every session.

For backends whose kernels run on bundles (:mod:`tuner.evaluators.host.bundles`). May not build or start anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tuner.core.errors import SpecError, UsageError
from tuner.core.protocols import BaselineReport
from tuner.core.streams import seed_for, stream
from tuner.core.types import Build, Resolved, Status, Task
from tuner.evaluators.accepted_outputs import AcceptedOutputs
from tuner.evaluators.host.bundles import Bundle
from tuner.evaluators.host.freshness import Freshness
from tuner.evaluators.host.oracle import Oracle
from tuner.evaluators.host.readings import Readings
from tuner.evaluators.host.reference import BaselineFailed
from tuner.evaluators.host.runner import CandidateFailed
from tuner.evaluators.host.session import FRESH_AFTER, Inputs
from tuner.evaluators.host.supply import Supply, runtime_of
from tuner.evaluators.sensitivity import check_expectations, nothing_compared
from tuner.evaluators.workloads import Workload

__all__ = ["Baseline", "Look", "refuse_constants"]

_FLUSH_FACTOR = 2.25
_PAGE = 4096
_PURPOSES = ("search", "confirm")
_LEAST_CALL_S = 1e-9

Look = Callable[[Sequence[Workload]], tuple[Sequence[str], Mapping[str, Any]]]
"""Examines the baseline further, given the workloads of its verification: warnings, and notes for the record."""


class Baseline:
    """Expectations and inputs for one task.

    Args:
        task: what is tuned.
        device: what its timing lane is called.
        readings: of the machine, while candidates are timed.
        cache_bytes: of the device's last-level cache.
        inputs: how inputs are kept from a candidate, for the record.
        align: every buffer begins at a multiple of this many bytes.
        near_bytes: of the cache that a core has for itself, where candidates run on one.
        slack_s: what a call may take longer on new inputs, beside its share; see
            :class:`tuner.evaluators.host.freshness.Freshness`.
    """

    def __init__(
        self,
        task: Task,
        *,
        device: str,
        readings: Readings,
        cache_bytes: int,
        inputs: str,
        align: int = 1,
        near_bytes: int = 0,
        slack_s: float | None = None,
    ) -> None:
        self._task = task
        self._readings = readings
        self._lane = readings.lane(device)
        self._cache_bytes = cache_bytes
        self._near_bytes = near_bytes
        self._inputs = inputs
        self._align = align
        self._freshness = Freshness() if slack_s is None else Freshness(slack_s=slack_s)
        self._accepted = AcceptedOutputs()
        self._supply: Supply | None = None
        self._digest = ""
        cold = task.measure.cache == "cold"
        self.flush_bytes = int(_FLUSH_FACTOR * cache_bytes) // _PAGE * _PAGE if cold else 0
        """What to read and write before each call; 0 for a warm cache."""
        self.step: Callable[[str], None] = lambda _: None
        """Told of what is about to take long."""

    @property
    def largest_bytes(self) -> int:
        """Address space of the largest group of bundles so far."""
        return 0 if self._supply is None else self._supply.largest_bytes

    def establish(
        self, build: Build, resolved: Resolved, oracle: Oracle, *, look: Look | None = None
    ) -> BaselineReport:
        """Runs the baseline and the reference on everything that the search will use.

        Args:
            build: the baseline's, with status ``ok``.
            resolved: its configuration.
            oracle: knows what outputs have to be.
            look: asked once the baseline is known to be sound.
        """
        self.close()
        self._digest = build.digest
        runtime = runtime_of(self._task, resolved)
        oracle.step = lambda text: self.step(text)
        self._supply = supply = Supply(
            self._task,
            oracle=oracle,
            base=runtime,
            cache_bytes=self._cache_bytes,
            align=self._align,
            step=oracle.step,
        )
        self._accepted = AcceptedOutputs()
        try:
            verify = supply.verify("search", 0, runtime)
            for problem in range(len(self._task.problems)):
                supply.timed("search", 0, runtime, problem=problem)
        except BaselineFailed as failed:
            return BaselineReport(status=failed.status, message=failed.message, reference=oracle.kind)
        expectations = [{n: e.expectation for n, e in entry.items()} for entry in verify.expected]
        blind = nothing_compared(supply.workloads, expectations, self._task.verify)
        if blind:
            return BaselineReport(status=Status.WRONG_RESULT, message=blind, reference=oracle.kind)
        warnings = check_expectations(supply.workloads, expectations, self._task.verify)
        further, notes = look(supply.workloads) if look is not None else ((), {})
        supply.forget()
        return BaselineReport(
            status=Status.OK,
            reference=oracle.kind,
            own_error=dict(oracle.findings.own_error),
            call_s=tuple(max(s, _LEAST_CALL_S) for s in supply.call_s),
            notes={
                "workloads": list(verify.labels),
                "dropped": dict(supply.dropped),
                **oracle.notes(),
                "inputs": self._inputs,
                "warnings": [*warnings, *self._large(supply), *further],
                **notes,
            },
        )

    def _large(self, supply: Supply) -> Iterator[str]:
        """What is said of problems of which few sets of inputs fit into memory."""
        for number in filter(supply.is_large, range(len(self._task.problems))):
            yield (
                f"the buffers of one call take {supply.bytes_of(number) / (1 << 30):.1f} GiB: one set of inputs is "
                "timed, and a kernel that stores its answer would not be found out"
            )

    def inputs(self, build: Build, resolved: Resolved, *, purpose: str, number: int) -> Inputs:
        """What a session of one build runs on.

        Raises:
            UsageError: there is no baseline yet, the build has failed, or the purpose is unknown.
        """
        if self._supply is None:
            raise UsageError("there is no baseline to compare with", "call set_baseline() first")
        if build.status is not Status.OK:
            raise UsageError(
                f"a build with status {build.status} cannot be run", "open builds with the status ok only"
            )
        if purpose not in _PURPOSES:
            raise UsageError(f"unknown purpose {purpose!r}", f"one of {', '.join(_PURPOSES)}")
        supply, runtime = self._supply, runtime_of(self._task, resolved)
        return Inputs(
            verify=lambda: _made(lambda: supply.verify(purpose, number, runtime)),
            timed=lambda problem: _made(lambda: supply.timed(purpose, number, runtime, problem=problem)),
            fresh=lambda problem, look: _made(
                lambda: supply.fresh(purpose, number, runtime, problem=problem, look=look)
            ),
            looks=lambda problem: not supply.is_large(problem),
            fresh_after=FRESH_AFTER[purpose],
            freshness=self._freshness,
            trusted=build.digest == self._digest,
            accepted=self._accepted,
            flush_bytes=self.flush_bytes,
            near_bytes=self._near_bytes,
            lane=self._lane,
            readings=self._readings,
        )

    def seed(self, build: Build, *, purpose: str, number: int) -> int:
        """For the addresses of a session."""
        return seed_for(self._task.seed, f"addresses/{purpose}/{build.digest}", number)

    def rng(self, build: Build, *, purpose: str, number: int) -> np.random.Generator:
        """For the order of a session's calls."""
        return stream(self._task.seed, f"order/{purpose}/{build.digest}", number)

    def close(self) -> None:
        """Gives up all bundles; safe to call twice."""
        if self._supply is not None:
            self._supply.close()
            self._supply = None


def refuse_constants(task: Task) -> None:
    """Raises ``SpecError`` where an argument is to fill a variable: bundles hold what is passed."""
    for argument in task.arguments:
        if argument.constant:
            raise SpecError(
                f"the argument {argument.name} is constant, which the {task.backend} backend does not have",
                "remove constant: a pointer is passed",
            )


def _made(make: Callable[[], Bundle]) -> Bundle:
    """A bundle; where the machine ended the reference's process, the session is lost and tried again."""
    try:
        return make()
    except BaselineFailed as failed:
        if failed.status is not Status.LOST:
            raise
        raise CandidateFailed(Status.LOST, failed.message) from None
