"""Whether CUDA candidates are right, found out on the host's processor: compiled, run in a sandboxed child, compared.

A child is confined as the host backend's are; the comparison is made here after it has stopped. May not time anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.core.errors import SpecError, UsageError
from tuner.core.protocols import BaselineReport
from tuner.core.streams import seed_for
from tuner.core.types import Launch, Resolved, Status, Task, Value, Variant, Verdict
from tuner.evaluators.accepted_outputs import AcceptedOutputs
from tuner.evaluators.emulation.compiler import Emulated, EmulationCompiler
from tuner.evaluators.emulation.launch import (
    ENTRY,
    MOST_ARRAYS,
    REPORT,
    REPORT_WORDS,
    barrier_counts_ended,
    extended_task,
    launch_words,
    over_limit,
)
from tuner.evaluators.emulation.reports import Report, read_report
from tuner.evaluators.emulation.supply import Group, Supply, with_launches
from tuner.evaluators.host.bundles import Bundle
from tuner.evaluators.host.harness import Signature, harness_text
from tuner.evaluators.host.oracle import Oracle
from tuner.evaluators.host.outputs import check_entries
from tuner.evaluators.host.process import Zygote
from tuner.evaluators.host.reference import BaselineFailed
from tuner.evaluators.host.runner import Attached, CandidateFailed, Limits, Runner
from tuner.evaluators.host.supply import runtime_of
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.evaluators.sensitivity import nothing_compared
from tuner.evaluators.verification import compare
from tuner.spaces.launch import Geometry, geometry

__all__ = ["Emulator"]

_PURPOSES = ("search", "confirm")
_BASELINE_S = 20.0
_MAIN_S = 3.0
_LEAST_LIMIT_S = 5.0
_SLOWER = 20.0
_MEMORY_BYTES = 2 << 30
_SHADOW = 16
_ROUNDING = 0.01
_TIMED_OUT_TEXT = "did not end under emulation"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A built candidate with its launch on every entry of a group."""

    built: Emulated
    configuration: Mapping[str, Value]
    launch: Launch
    runtime: Mapping[str, Value]


class Emulator:
    """Verifies CUDA candidates of one task without a GPU. Not thread safe.

    Call :meth:`set_baseline` once, then :meth:`verify` for each candidate.

    Args:
        task: a CUDA task with a launch.
        workers: accepted for symmetry with backends; one candidate is emulated at a time.

    Raises:
        SpecError: the task is not CUDA, has no launch, or has arguments that cannot be passed.
        MachineError: there is no usable clang.
    """

    def __init__(self, task: Task, *, workers: int = 1) -> None:
        if workers < 1:
            raise UsageError(f"{workers} workers", "at least 1")
        if task.kernel.language != "cuda" or task.launch is None:
            raise SpecError("only CUDA kernels with a `launch` are emulated", "set language and launch")
        if sum(a.is_array for a in task.arguments) > MOST_ARRAYS:
            raise SpecError(
                f"more than {MOST_ARRAYS} arrays cannot be emulated", "put several arrays into one"
            )
        if task.kernel.returns is not None:
            raise SpecError("a CUDA kernel returns nothing", "remove `returns`")
        self._task = task
        toolchain = find_toolchain()
        self._compiler = EmulationCompiler(toolchain)
        self._library = toolchain.library
        self._harness = self._compiler.object_of(harness_text(Signature.of(extended_task(task))))
        self._zygote: Zygote | None = None
        self._supply: Supply | None = None
        self._oracle: Oracle | None = None
        self._baseline: _Candidate | None = None
        self._accepted = AcceptedOutputs()

    def set_baseline(self, resolved: Resolved, variant: Variant) -> BaselineReport:
        """Fixes what is expected: the baseline is checked like a candidate, then run for its outputs.

        Raises:
            SpecError: every problem size is too large, or the Python reference cannot be used.
        """
        candidate = self._candidate(resolved, variant)
        if candidate.built.status is not Status.OK:
            return BaselineReport(status=candidate.built.status, message=candidate.built.message)
        if self._supply is not None:
            self._supply.close()
        self._baseline = candidate
        self._supply = supply = Supply(
            self._task, base=candidate.runtime, configuration=candidate.configuration
        )
        self._accepted = AcceptedOutputs()
        self._oracle = oracle = Oracle(
            self._task,
            start=lambda _, bundle: self._start(candidate.built, bundle, "baseline", 0),
            has_double=False,
        )
        failed = self._probe(supply, candidate)
        if failed is not None:
            return BaselineReport(status=failed.status, message=failed.message, reference=oracle.kind)
        try:
            group = supply.ready("search", 0, candidate.runtime, words=self._base_words, oracle=oracle)
        except BaselineFailed as error:
            return BaselineReport(status=error.status, message=error.message, reference=oracle.kind)
        expectations = [{n: e.expectation for n, e in entry.items()} for entry in group.bundle.expected]
        unsteady = nothing_compared(group.workloads, expectations, self._task.verify) or self._by_order(group)
        if unsteady:
            return BaselineReport(status=Status.WRONG_RESULT, message=unsteady, reference=oracle.kind)
        return BaselineReport(
            status=Status.OK,
            reference=oracle.kind,
            own_error=dict(oracle.findings.own_error),
            notes=self._notes(group, supply, oracle),
        )

    def verify(
        self, resolved: Resolved, variant: Variant, *, purpose: str = "search", number: int = 0
    ) -> Verdict:
        """Emulates one candidate on every workload that is small enough, and compares.

        Args:
            resolved: its configuration.
            variant: its source.
            purpose: ``search`` or ``confirm``: confirmation uses inputs that the search never saw.
            number: which confirming process; seeds its inputs.

        Raises:
            UsageError: there is no baseline yet, or the purpose is unknown.
        """
        if self._supply is None or self._oracle is None or self._baseline is None:
            raise UsageError("there is no baseline to compare with", "call set_baseline() first")
        if purpose not in _PURPOSES:
            raise UsageError(f"unknown purpose {purpose!r}", f"one of {', '.join(_PURPOSES)}")
        begin = time.perf_counter()
        candidate = self._candidate(resolved, variant)
        if candidate.built.status is not Status.OK:
            return _verdict(begin, candidate.built.status, candidate.built.message)
        try:
            group = self._supply.ready(
                purpose, number, candidate.runtime, words=self._base_words, oracle=self._oracle
            )
            words = self._words(group, candidate)
            return self._judge(candidate, group, words, begin, f"{purpose}/{number}")
        except CandidateFailed as failed:
            return _verdict(begin, failed.status, failed.message, failed.detail)

    def close(self) -> None:
        """Ends the run processes and gives all memory back; safe to call twice."""
        if self._supply is not None:
            self._supply.close()
            self._supply = None
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    def _candidate(self, resolved: Resolved, variant: Variant) -> _Candidate:
        return _Candidate(
            built=self._compiler.build(self._task, variant, resolved),
            configuration={**resolved.macros, **resolved.scalars},
            launch=resolved.launch_of(self._task),
            runtime=runtime_of(self._task, resolved),
        )

    def _probe(self, supply: Supply, candidate: _Candidate) -> CandidateFailed | None:
        """Runs the baseline once on each size, smallest first; leaves out what takes too long.

        A baseline that the emulation finds fault with on a workload that the spec asks for is no baseline; on others
        it only loses a check.
        """
        plans = sorted(supply.plans("search", 0), key=supply.size_bytes)
        group = supply.group("search", 0, candidate.runtime, plans)
        try:
            words = self._words(group, candidate)
            for number, plan in enumerate(group.plans):
                if plan.name in supply.dropped:
                    continue
                limit = _BASELINE_S if plan.timed_problem is None else _MAIN_S
                try:
                    self._run(candidate, group, words, [number], [limit], "probe")
                except CandidateFailed as failed:
                    slow = failed.status is Status.TIMED_OUT
                    others = any(p.name not in supply.dropped and p is not plan for p in group.plans)
                    # What does not end on the smallest size is not waited for on each of the others.
                    hopeless = slow and number == 0 and plan.timed_problem is None
                    if (plan.as_specified and not slow) or hopeless or not others:
                        return failed
                    supply.dropped[plan.name] = failed.message
        except CandidateFailed as failed:
            return failed
        finally:
            group.bundle.close()
        return None

    def _by_order(self, group: Group) -> str:
        """What of the baseline's outputs depends on the order in which threads run; empty where nothing does.

        Such are results without a fixed order, and values that a shuffle takes from a lane that has ended: what those
        are is undefined, and differs here from one order to another. Sums that differ in their rounding are not meant.
        """
        verify = self._task.verify
        rtol, atol = max(verify.rtol, _ROUNDING), max(verify.atol, _ROUNDING)
        policy = replace(verify, rtol=rtol, atol=atol, nonfinite="propagate")
        for number, plan in enumerate(group.plans):
            first = group.plans.index(plan)
            for name, expected in group.bundle.expected[first].items():
                values = group.bundle.expected[number][name].expectation.values
                mismatch = compare(values, expected.expectation, policy)
                if mismatch is not None:
                    return (
                        f"the kernel as given gives another {name} when its threads run in another order, in "
                        f"{group.workloads[number].name}: {mismatch.message}; "
                        "does a shuffle read a lane that has ended?"
                    )
        return ""

    def _base_words(self, group: Group, runtime: Mapping[str, Value]) -> list[list[int]]:
        assert self._baseline is not None
        return self._words(group, self._baseline, runtime)

    def _words(
        self, group: Group, candidate: _Candidate, runtime: Mapping[str, Value] | None = None
    ) -> list[list[int]]:
        rows = []
        for plan, workload, order in zip(group.plans, group.workloads, group.orders, strict=True):
            shape = _geometry(candidate, plan.problem.sizes, runtime or {})
            why = over_limit(shape, candidate.built.static_shared_bytes, self._task.target)
            if why:
                raise CandidateFailed(Status.OUT_OF_RESOURCES, why)
            rows.append(
                launch_words(
                    self._task,
                    workload,
                    shape,
                    candidate.built.statics,
                    schedule=order,
                    exited_count=barrier_counts_ended(self._task.target),
                )
            )
        return rows

    def _judge(
        self,
        candidate: _Candidate,
        group: Group,
        words: Sequence[Sequence[int]],
        begin: float,
        label: str,
    ) -> Verdict:
        limits = [max(_LEAST_LIMIT_S, _SLOWER * seconds) for seconds in group.bundle.call_s]
        numbers = range(len(group.plans))

        def compare(bundle: Bundle, attached: Attached) -> Verdict:
            failure, worst = check_entries(
                bundle,
                attached.memory,
                numbers,
                policy=self._task.verify,
                accepted=self._accepted,
                strays=False,
            )
            if failure is not None:
                return _verdict(begin, Status.WRONG_RESULT, failure.message, failure.detail)
            return _verdict(begin, Status.OK, "", {"worst": min(worst, 1e300)})

        return self._run(candidate, group, words, numbers, limits, label, compare)

    def _run(
        self,
        candidate: _Candidate,
        group: Group,
        words: Sequence[Sequence[int]],
        numbers: Sequence[int],
        limits: Sequence[float],
        label: str,
        then: Callable[[Bundle, Attached], Verdict] | None = None,
    ) -> Verdict:
        """Runs entries in a fresh child until one has a finding; ``then`` looks at the outputs while it stands still.

        Raises:
            CandidateFailed: the child died or took too long, or the emulation found a fault.
        """
        bundle = with_launches(group, words)
        runner = self._start(candidate.built, bundle, label, len(numbers))
        try:
            attached = runner.attach(bundle)
            attached.memory.poison()
            for number, limit in zip(numbers, limits, strict=True):
                try:
                    runner.run(attached, [number], [limit])
                except CandidateFailed as failed:
                    if failed.status is Status.TIMED_OUT:
                        text = f"{_TIMED_OUT_TEXT}: {failed.message}"
                        raise CandidateFailed(Status.TIMED_OUT, text) from None
                    raise
                if self._report(candidate, group, bundle, attached, number) is not None:
                    break
            runner.stop()
            for number in numbers:
                found = self._report(candidate, group, bundle, attached, number)
                if found is not None:
                    raise CandidateFailed(found.status, found.message, found.detail)
            return then(bundle, attached) if then is not None else Verdict(status=Status.OK)
        finally:
            runner.close()

    def _report(
        self, candidate: _Candidate, group: Group, bundle: Bundle, attached: Attached, number: int
    ) -> Report | None:
        region = bundle.layout.entries[number].region(REPORT)
        words = attached.memory.array(region, np.dtype(np.uint64), (REPORT_WORDS,)).tolist()
        if words[0] == (1 << 64) - 1:
            return None
        found = read_report(words, self._task, group.workloads[number], candidate.built.statics)
        if found is None:
            return None
        message = f"{found.message} in {group.workloads[number].name}"
        return Report(status=found.status, message=message, detail=found.detail)

    def _start(self, built: Emulated, bundle: Bundle, label: str, number: int) -> Runner:
        if self._zygote is None or not self._zygote.alive:
            self._zygote = Zygote(llvm=self._library, libraries=[], harness=self._harness)
        limits = Limits(memory_bytes=_MEMORY_BYTES + _SHADOW * bundle.layout.space_bytes)
        seed = seed_for(self._task.seed, f"emulation/{label}", number)
        return Runner(self._zygote, built.code, symbol=ENTRY, limits=limits, seed=seed)

    def _notes(self, group: Group, supply: Supply, oracle: Oracle) -> dict[str, Any]:
        return {
            "emulated": sorted({w.name for w in group.workloads}),
            "dropped": dict(supply.dropped),
            "deterministic": not oracle.findings.unstable,
            "unstable": sorted(oracle.findings.unstable),
            "partly_written": sorted(oracle.findings.untouched),
        }


def _verdict(begin: float, status: Status, message: str, detail: Mapping[str, Any] | None = None) -> Verdict:
    return Verdict(
        status=status, message=message, detail=dict(detail or {}), wall_s=time.perf_counter() - begin
    )


def _geometry(candidate: _Candidate, sizes: Mapping[str, int], runtime: Mapping[str, Value]) -> Geometry:
    try:
        return geometry(candidate.launch, {**candidate.configuration, **runtime}, sizes)
    except SpecError as error:
        raise CandidateFailed(Status.OUT_OF_RESOURCES, error.message) from None
