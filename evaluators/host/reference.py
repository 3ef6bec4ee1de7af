"""What outputs have to be: runs the baseline and the reference on every workload, and keeps the answers here.

The reference is the user's Python function, else the kernel built with ``double`` for ``float``, else the
baseline's own output. None of it ever reaches a candidate's process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.arrays import sparse_copy
from tuner.core.errors import BaselineError
from tuner.core.types import ArgumentRole, Status, Task
from tuner.evaluators.host.bundles import POISON, Bundle, Expected, equal_bits, holds, make_bundle
from tuner.evaluators.host.runner import CandidateFailed, Runner
from tuner.evaluators.python_reference import run_reference
from tuner.evaluators.verification import Expectation, expect, judge, same_bytes
from tuner.evaluators.workloads import Workload

__all__ = ["OTHER_POISON", "BaselineFailed", "Findings", "Oracle", "Reference", "baseline_failed"]

Array = NDArray[Any]
Outputs = dict[str, Array]

OTHER_POISON = 0xA5
"""What the second run of a baseline finds its outputs filled with."""
_LIMIT = "measure.limit_s in the spec"
_SANE, _SANE_HALF = 1e-2, 1e-1


class BaselineFailed(BaselineError):
    """The baseline does not run, or is not right.

    Attributes:
        status: what a trial with it would have.
        number: the workload's place among those given.
    """

    def __init__(self, status: Status, message: str, number: int) -> None:
        super().__init__(message)
        self.status = status
        self.number = number


def baseline_failed(failed: CandidateFailed, number: int) -> BaselineFailed:
    """The baseline's failure, with the cure where it took too long."""
    cure = "; measure.limit_s allows more" if failed.status is Status.TIMED_OUT else ""
    return BaselineFailed(failed.status, f"{failed.message}{cure}", number)


@dataclass(slots=True, kw_only=True)
class Findings:
    """What filling bundles has shown so far.

    Attributes:
        own_error: the baseline's largest error by output, absolute, on inputs as the spec gives them.
        fallbacks: why the float64 reference was not used for a workload, by its name.
        unstable: outputs that differ (within the tolerance) between equal runs.
        untouched: outputs of which the baseline leaves elements alone.
    """

    own_error: dict[str, float] = field(default_factory=dict)
    fallbacks: dict[str, str] = field(default_factory=dict)
    unstable: set[str] = field(default_factory=set)
    untouched: set[str] = field(default_factory=set)


class Reference:
    """Says what outputs have to be, given what the baseline and the reference gave; runs neither on a device.

    Args:
        task: what is tuned.
        has_double: whether there is a float64 build.
    """

    def __init__(self, task: Task, *, has_double: bool) -> None:
        self._task = task
        self._has_double = has_double
        self.findings = Findings()

    def notes(self) -> dict[str, Any]:
        """What is said of the baseline, for the record."""
        found = self.findings
        return {
            "fallbacks": dict(found.fallbacks),
            "deterministic": not found.unstable,
            "unstable": sorted(found.unstable),
            "partly_written": sorted(found.untouched),
        }

    @property
    def kind(self) -> str:
        """``python``, ``recording``, ``float64`` or ``baseline``."""
        if self._task.verify.reference.kind in ("python", "recording"):
            return self._task.verify.reference.kind
        return "float64" if self._has_double else "baseline"

    def settle(
        self,
        first: Sequence[Outputs],
        second: Sequence[Outputs],
        wide: Callable[[], Sequence[Outputs | None]],
        workloads: Sequence[Workload],
        specified: Sequence[bool],
    ) -> list[dict[str, Expected]]:
        """What the outputs of workloads have to be.

        Args:
            first: the baseline's outputs by workload, over memory filled with :data:`POISON`.
            second: the same over another filling (:data:`OTHER_POISON`).
            wide: gives the float64 build's outputs, ``None`` where it fails; asked only where they are wanted.
            workloads: on which these are.
            specified: for which of them the baseline has to agree with a Python reference.

        Raises:
            BaselineFailed: the baseline differs between equal runs, or disagrees with the Python reference.
        """
        kind = self.kind
        references: Sequence[Outputs | None] = [None] * len(workloads)
        if kind == "python":
            references = run_reference(self._task, workloads)
        elif kind == "float64":
            references = wide()
        expected = []
        for number, workload in enumerate(workloads):
            memory = self._memory(workload)
            masks = {n: self._mask(a, second[number][n], memory.get(n), n) for n, a in first[number].items()}
            self.findings.untouched |= {
                n for n, mask in masks.items() if mask is not None and n not in memory
            }
            again = _masked(second[number], masks)
            baseline = _masked(first[number], masks)
            reference = references[number]
            before = self._before(workload, masks)
            if workload.outputs:
                # A replay that does not give what the application got is no replay.
                self._require_left(number, workload, memory, masks)
                recorded = _masked({**baseline, **workload.outputs}, masks)
                self._agree(number, workload.name, baseline, recorded, before, "recording")
                reference = recorded if kind == "recording" else reference
            if reference is not None:
                reference = _masked(reference, masks)
                if kind == "python" and specified[number]:
                    self._agree(number, workload.name, baseline, reference, before, "reference")
            found = self._expectations(workload.name, reference, baseline, before)
            self._steady(number, workload.name, again, baseline, found)
            for name, expectation in found.items() if specified[number] else ():
                # Inputs of extreme magnitude are judged by their own error; here they would hide the usual one.
                known = self.findings.own_error.get(name, 0.0)
                self.findings.own_error[name] = max(known, expectation.own_error)
            expected.append(
                {n: Expected(expectation=e, untouched=masks[n], kept=memory.get(n)) for n, e in found.items()}
            )
        return expected

    def _memory(self, workload: Workload) -> Outputs:
        """Recorded memory before the call, of numbers that are compared by their size."""
        names = {a.name for a in self._task.arguments if a.passing == "memory" and "float" in a.dtype}
        return {n: a for n, a in workload.arrays.items() if n in names}

    def _require_left(
        self,
        number: int,
        workload: Workload,
        memory: Outputs,
        masks: Mapping[str, NDArray[np.bool_] | None],
    ) -> None:
        """What the kernel as given leaves alone in a replay, it left alone in the application too."""
        for name, before in memory.items():
            changed, mask = ~equal_bits(workload.outputs[name], before), masks[name]
            if mask is not None and (changed & mask).any():
                what = f"the application changed what the kernel as given leaves alone, in {name}"
                raise BaselineFailed(Status.WRONG_RESULT, f"{what} in {workload.name}", number)

    def _mask(self, first: Array, second: Array, before: Array | None, name: str) -> NDArray[np.bool_] | None:
        """Elements that the baseline leaves alone; ``None`` where that is not looked at, or it writes all."""
        if before is not None:
            return equal_bits(first, before) & equal_bits(second, before)
        return None if self._role(name) is ArgumentRole.INOUT else _untouched(first, second)

    def _role(self, name: str) -> ArgumentRole:
        roles = [a.role for a in self._task.arguments if name == a.name or name.startswith(f"{a.name}.")]
        return roles[0] if roles else ArgumentRole.OUTPUT

    def _expectations(
        self, label: str, reference: Outputs | None, baseline: Outputs, before: Outputs
    ) -> dict[str, Expectation]:
        """By the reference where there is one that can be believed, else by the baseline itself."""
        if reference is not None:
            found = {n: expect(n, reference[n], b, before.get(n)) for n, b in baseline.items()}
            strange = [(n, _strange(e, baseline[n])) for n, e in found.items() if self.kind == "float64"]
            why = next((f"{name} {text}" for name, text in strange if text), "")
            if not why:
                return found
            self.findings.fallbacks[label] = f"the float64 build's {why}"
        return {n: expect(n, b, before=before.get(n)) for n, b in baseline.items()}

    def _before(self, workload: Workload, masks: Mapping[str, NDArray[np.bool_] | None]) -> Outputs:
        """What arrays held before the call, not a number where only what they hold after it counts."""
        known = {n: a for n, a in workload.numbers.items() if self._role(n) is ArgumentRole.INOUT}
        return known | {n: np.where(mask, 0.0, np.nan) for n, mask in masks.items() if mask is not None}

    def _agree(
        self, number: int, label: str, baseline: Outputs, reference: Outputs, before: Outputs, what: str
    ) -> None:
        for name, values in baseline.items():
            expectation = Expectation(name=name, values=reference[name], before=before.get(name))
            mismatch = judge(values, expectation, self._task.verify).mismatch
            if mismatch is not None:
                text = f"the kernel as given disagrees with the {what}: {mismatch.message} in {label}"
                raise BaselineFailed(Status.WRONG_RESULT, text, number)

    def _steady(
        self,
        number: int,
        label: str,
        again: Outputs,
        baseline: Outputs,
        expectations: Mapping[str, Expectation],
    ) -> None:
        for name, values in again.items():
            if same_bytes(values, baseline[name]):
                continue
            self.findings.unstable.add(name)
            mismatch = judge(values, expectations[name], self._task.verify).mismatch
            what = "" if mismatch is None else f": {mismatch.message}"
            # What is read before it is written is not a number in one of the two runs.
            if mismatch is not None or (np.isfinite(values) != np.isfinite(baseline[name])).any():
                text = (
                    f"the kernel as given gives another {name} when it is run again in {label}{what}"
                    "; an array that is read before it is written needs role inout, and a `static` variable of a "
                    "function is no argument"
                )
                raise BaselineFailed(Status.WRONG_RESULT, text, number)


class Oracle(Reference):
    """Knows the baseline and the reference on the host.

    Args:
        task: what is tuned.
        start: makes a child with the baseline (``False``) or the float64 reference (``True``) loaded, for a bundle.
        has_double: whether there is a float64 build.
        align: every buffer of the float64 build begins at a multiple of this many bytes.
    """

    def __init__(
        self, task: Task, *, start: Callable[[bool, Bundle], Runner], has_double: bool, align: int = 1
    ) -> None:
        super().__init__(task, has_double=has_double)
        self._start, self._align = start, align
        self.step: Callable[[str], None] = lambda _: None
        """Told of what is about to take long."""

    def fill(
        self, bundle: Bundle, workloads: Sequence[Workload], specified: Sequence[bool], *, again: bool = True
    ) -> None:
        """Sets what a bundle's outputs have to be, and how long the baseline takes.

        Args:
            bundle: made of the workloads.
            workloads: one for each set of inputs.
            specified: for which of them the baseline has to agree with a Python reference.
            again: whether the baseline has to give the same twice here. Where not, it runs a second time only if that
                says something: it did not always give the same so far, or left elements alone.

        Raises:
            BaselineFailed: it does not run, differs between equal runs, or disagrees with the Python reference.
        """
        limit_s = self._task.measure.limit_s
        self.step(f"waiting for the kernel as given, of which a call may take {limit_s:g} s ({_LIMIT})")
        first, second, took = self._baseline(bundle, again=again)
        self.step("comparing what the kernel as given gives with the reference")
        bundle.expected = self.settle(first, second, lambda: self._double(workloads), workloads, specified)
        bundle.call_s = took

    def _baseline(self, bundle: Bundle, *, again: bool) -> tuple[list[Outputs], list[Outputs], list[float]]:
        """Outputs over two different fillings, and the shorter time of each call."""
        count = len(bundle.labels)
        rounds: list[list[Outputs]] = []
        took = [float("inf")] * count
        runner: Runner | None = None
        done = 0
        try:
            runner = self._start(False, bundle)
            attached = runner.attach(bundle)
            for poison in (POISON, OTHER_POISON):
                attached.memory.poison(poison)
                for done in range(count):
                    seconds = runner.run(attached, [done], [self._task.measure.limit_s])[0]
                    took[done] = min(took[done], seconds)
                runner.stop()
                rounds.append(_copies(bundle, attached.memory))
                runner.resume()
                if not again and not self.findings.unstable and self._all_written(rounds[0]):
                    break
        except CandidateFailed as failed:
            raise baseline_failed(failed, done) from None
        finally:
            if runner is not None:
                runner.close()
        return rounds[0], rounds[-1], took

    def _all_written(self, outputs: Sequence[Outputs]) -> bool:
        """Whether nothing in outputs can be what they were filled with."""
        return not any(
            holds(array, POISON).any()
            for each in outputs
            for name, array in each.items()
            if self._role(name) is not ArgumentRole.INOUT
        )

    def _double(self, workloads: Sequence[Workload]) -> list[Outputs | None]:
        """The float64 build's outputs; ``None`` from the first workload on that it fails on."""
        self.step("waiting for the kernel as given in double precision")
        results: list[Outputs | None] = []
        placements = ["start"] * len(workloads)
        bundle = make_bundle(self._task, workloads, placements, key="wide", wide=True, align=self._align)
        runner: Runner | None = None
        try:
            runner = self._start(True, bundle)
            attached = runner.attach(bundle)
            attached.memory.poison()
            for number in range(len(workloads)):
                runner.run(attached, [number], [self._task.measure.limit_s])
                results.append({n: a.copy() for n, a in bundle.outputs_of(number, attached.memory).items()})
        except CandidateFailed as failed:
            name = workloads[len(results)].name
            self.findings.fallbacks[name] = f"the float64 build fails: {failed.message}"
        finally:
            if runner is not None:
                runner.close()
            bundle.close()
        return results + [None] * (len(workloads) - len(results))


def _copies(bundle: Bundle, memory: Any) -> list[Outputs]:
    numbers = range(len(bundle.labels))
    return [{n: sparse_copy(a) for n, a in bundle.outputs_of(i, memory).items()} for i in numbers]


def _untouched(first: Array, second: Array) -> NDArray[np.bool_] | None:
    """Elements that kept both fillings."""
    mask = holds(first, POISON)
    if mask.any():
        mask &= holds(second, OTHER_POISON)
    return mask if mask.any() else None


def _masked(outputs: Outputs, masks: Mapping[str, NDArray[np.bool_] | None]) -> Outputs:
    """The outputs in the masks' order, with zeros where nothing is written."""
    found = {}
    for name, mask in masks.items():
        values = outputs[name]
        if mask is not None:
            values = values.copy()
            values[mask] = 0
        found[name] = values
    return found


def _strange(expectation: Expectation, baseline: Array) -> str:
    """Why a float64 result cannot be the same computation; empty when it can."""
    if baseline.dtype.kind in "biu":
        same = np.array_equal(expectation.values, baseline)
        return "" if same else "differs from the baseline's integers"
    if not expectation.all_finite and (np.isfinite(baseline) & ~np.isfinite(expectation.values)).any():
        return "is not finite where the baseline is"
    sane = _SANE_HALF if baseline.dtype == np.float16 else _SANE
    error, scale = expectation.own_error, expectation.rms
    return f"is off by {error:.3g} where values are about {scale:.3g}" if error > sane * scale else ""
