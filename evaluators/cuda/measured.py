"""Running and timing on a device: the baseline, the reference, and sessions over them.

Made for one task. Compiles nothing but the float64 reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.errors import UsageError
from tuner.core.protocols import BaselineReport
from tuner.core.types import Build, Resolved, Status, Task, Variant
from tuner.evaluators.accepted_outputs import AcceptedOutputs
from tuner.evaluators.cuda.compiler import CudaCompiler
from tuner.evaluators.cuda.device import Device, WorkerPool
from tuner.evaluators.cuda.loaded import Clock, Loaded, MachineClock
from tuner.evaluators.cuda.nvml import Watch
from tuner.evaluators.cuda.placing import is_pinned
from tuner.evaluators.cuda.session import CudaSession, Inputs
from tuner.evaluators.cuda.slabs import widens
from tuner.evaluators.cuda.supply import Runs, Supply
from tuner.evaluators.host.bundles import POISON
from tuner.evaluators.host.freshness import Freshness
from tuner.evaluators.host.readings import Lane
from tuner.evaluators.host.reference import OTHER_POISON, BaselineFailed, Reference, baseline_failed
from tuner.evaluators.host.runner import CandidateFailed
from tuner.evaluators.host.supply import runtime_of
from tuner.evaluators.lane import TimingLane
from tuner.evaluators.sensitivity import check_expectations, nothing_compared
from tuner.evaluators.workloads import Workload

__all__ = ["DeviceRuns"]

Outputs = dict[str, NDArray[Any]]

_FLUSH_FACTOR = 8
_LEAST_FLUSH_BYTES = 64 << 20
_FRESH_SLACK_S = 5e-6
"""Of a launch on memory that no kernel has touched before: pages are looked up anew, and events are coarse."""


class DeviceRuns:
    """What an evaluation does on its device.

    Args:
        task: what is tuned.
        compiler: that has made the builds.
        device: to run on.
        pool: of its workers.
        watch: of its clocks; NVML's own when left out.
        lane: the right to time on it; the machine's own when left out.
        clock: what the device's is compared with; the machine's own when left out.
    """

    def __init__(
        self,
        task: Task,
        compiler: CudaCompiler,
        *,
        device: Device,
        pool: WorkerPool,
        watch: Watch | None = None,
        lane: Lane | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._task = task
        self._compiler = compiler
        self._device = device
        self._pool = pool
        self._supply: Supply | None = None
        self._accepted = AcceptedOutputs()
        self._freshness = Freshness(slack_s=_FRESH_SLACK_S)
        self._baseline = ""
        self._watch = Watch(device.uuid) if watch is None else watch
        self._lane = TimingLane(device.uuid) if lane is None else lane
        self._clock = MachineClock() if clock is None else clock
        # Over twice the cache empties it; more keeps the device busy while the timed call is put into the queue.
        self._flush_bytes = max(_LEAST_FLUSH_BYTES, _FLUSH_FACTOR * device.l2_bytes)

    def know(self, build: Build, variant: Variant) -> None:
        """A build is all that a device needs."""

    def set_baseline(self, build: Build, resolved: Resolved) -> BaselineReport:
        """Runs the baseline and the reference on everything that the search will use."""
        self._baseline = build.digest
        self._freshness = Freshness(slack_s=_FRESH_SLACK_S)
        double = self._double(resolved)
        reference = Reference(self._task, has_double=double is not None)
        runtime = runtime_of(self._task, resolved)
        self._accepted = AcceptedOutputs()
        self._supply = supply = Supply(
            self._task,
            reference=reference,
            run=lambda workloads: self._run(build, resolved, workloads),
            double=lambda workloads: self._run_double(double, resolved, workloads, reference),
            base=runtime,
            cache_bytes=self._device.l2_bytes,
        )
        try:
            group = supply.verify("search", 0, runtime)
            for problem in range(len(self._task.problems)):
                supply.timed("search", 0, runtime, problem=problem)
        except BaselineFailed as failed:
            return BaselineReport(status=failed.status, message=failed.message, reference=reference.kind)
        expectations = [{n: e.expectation for n, e in entry.items()} for entry in group.expected]
        blind = nothing_compared(group.workloads, expectations, self._task.verify)
        if blind:
            return BaselineReport(status=Status.WRONG_RESULT, message=blind, reference=reference.kind)
        return BaselineReport(
            status=Status.OK,
            reference=reference.kind,
            own_error=dict(reference.findings.own_error),
            call_s=tuple(max(s, 1e-7) for s in supply.call_s),
            notes={
                "workloads": [w.name for w in group.workloads],
                "dropped": dict(supply.dropped),
                **reference.notes(),
                "inputs": "compared with what they were after every call that is checked",
                "clocks": self._watch.sample(),
                "warnings": check_expectations(group.workloads, expectations, self._task.verify),
            },
        )

    def open(
        self, build: Build, resolved: Resolved, *, purpose: str, number: int, rng: np.random.Generator
    ) -> CudaSession:
        """A session; raises ``UsageError`` where there is no baseline yet."""
        if self._supply is None:
            raise UsageError("there is no baseline to compare with", "call set_baseline() first")
        return CudaSession(
            task=self._task,
            build=build,
            made=self._compiler.made(build),
            resolved=resolved,
            inputs=Inputs(
                supply=self._supply,
                accepted=self._accepted,
                pool=self._pool,
                lane=self._lane,
                clock=self._clock,
                watch=self._watch,
                freshness=self._freshness,
                trusted=build.digest == self._baseline,
                flush_bytes=self._flush_bytes,
                arch=self._device.limits,
            ),
            purpose=purpose,
            number=number,
            runtime=runtime_of(self._task, resolved),
            rng=rng,
        )

    def close(self) -> None:
        """Ends the workers; safe to call twice."""
        self._supply = None
        self._pool.close()
        self._watch.close()

    def _double(self, resolved: Resolved) -> Build | None:
        if not widens(self._task) or is_pinned(self._task) or self._task.verify.reference.kind == "python":
            return None
        build = self._compiler.build_double(self._task, resolved)
        return build if build.status is Status.OK else None

    def _run(self, build: Build, resolved: Resolved, workloads: Sequence[Workload]) -> Runs:
        """The baseline over two fillings; raises ``BaselineFailed``."""
        rounds: list[list[Outputs]] = []
        took = [float("inf")] * len(workloads)
        number = 0
        try:
            with self._loaded(build, resolved, wide=False) as loaded:
                for byte in (POISON, OTHER_POISON):
                    outputs: list[Outputs] = []
                    for number, workload in enumerate(workloads):
                        place = f" in {workload.name}"
                        found, seconds = self._called(loaded, workload, byte=byte, place=place)
                        took[number] = min(took[number], seconds)
                        outputs.append(found)
                    rounds.append(outputs)
        except CandidateFailed as failed:
            raise baseline_failed(failed, number) from None
        return Runs(first=rounds[0], second=rounds[1], call_s=took)

    def _run_double(
        self, build: Build | None, resolved: Resolved, workloads: Sequence[Workload], reference: Reference
    ) -> list[Outputs | None]:
        """The float64 build's outputs; ``None`` from the first workload on that it fails on."""
        results: list[Outputs | None] = []
        if build is None:
            return [None] * len(workloads)
        try:
            with self._loaded(build, resolved, wide=True) as loaded:
                for workload in workloads:
                    results.append(self._called(loaded, workload)[0])
        except CandidateFailed as failed:
            name = workloads[len(results)].name
            reference.findings.fallbacks[name] = f"the float64 build fails: {failed.message}"
        return results + [None] * (len(workloads) - len(results))

    def _called(
        self, loaded: Loaded, workload: Workload, *, byte: int = POISON, place: str = ""
    ) -> tuple[Outputs, float]:
        """Outputs of one call, and its seconds; raises ``CandidateFailed``."""
        slab = loaded.place(0, workload, byte=byte)
        seconds = loaded.run(0, workload, limit_s=self._task.measure.limit_s)
        damage = slab.damage()
        if damage:
            raise CandidateFailed(Status.WRONG_RESULT, f"{damage}{place}")
        return {n: a.copy() for n, a in slab.outputs().items()}, seconds

    @contextmanager
    def _loaded(self, build: Build, resolved: Resolved, *, wide: bool) -> Iterator[Loaded]:
        """A build on a worker, which is ended where something fails."""
        worker = self._pool.take(fresh=False)
        try:
            loaded = Loaded(
                worker,
                self._task,
                code=build.code,
                made=self._compiler.made(build),
                resolved=resolved,
                arch=self._device.limits,
                wide=wide,
                clock=self._clock,
            )
            yield loaded
            loaded.close()
        except BaseException:
            worker.close()
            raise
        self._pool.give_back(worker, keep=True)
