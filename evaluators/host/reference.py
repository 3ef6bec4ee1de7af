"""What outputs have to be, by what the baseline and the reference gave on every workload.

The reference is the user's Python function, else the kernel built with ``double`` for ``float``, else the
baseline's own output. None of it ever reaches a candidate's process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuner.core.errors import BaselineError
from tuner.core.types import ArgumentRole, Status, Task
from tuner.evaluators.host.bundles import POISON, equal_bits, holds
from tuner.evaluators.host.expected import Expected
from tuner.evaluators.host.runner import CandidateFailed
from tuner.evaluators.python_reference import run_reference
from tuner.evaluators.rounding import Other, Rounding, sane_error
from tuner.evaluators.verification import OWN_ERROR_FACTOR, Expectation, expect, judge, same_bytes
from tuner.evaluators.workloads import Workload

__all__ = [
    "OTHER_POISON",
    "BaselineFailed",
    "Findings",
    "Outputs",
    "Reference",
    "baseline_failed",
    "masked",
]

Array = NDArray[Any]
Outputs = dict[str, Array]

Given = TypeVar("Given")
Run = Callable[[Sequence[Workload]], Sequence[Given]]

OTHER_POISON = 0xA5
"""What the second run of a baseline finds its outputs filled with."""


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
        self._rounding = Rounding()
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
        wide: Run[Outputs | None],
        workloads: Sequence[Workload],
        specified: Sequence[bool],
        *,
        rerun: Run[Outputs],
        other: Other | None,
        call_s: float,
    ) -> list[dict[str, Expected]]:
        """What the outputs of workloads have to be.

        Args:
            first: the baseline's outputs by workload, over memory filled with :data:`POISON`.
            second: the same over another filling (:data:`OTHER_POISON`).
            wide: gives the float64 build's outputs, ``None`` where it fails; asked only where they are wanted.
            workloads: on which these are.
            specified: for which of them the baseline has to agree with a Python reference.
            rerun: gives the baseline's outputs on other inputs.
            other: makes a workload with other values; none where there are none.
            call_s: of the baseline on all workloads together, in seconds.

        Raises:
            BaselineFailed: the baseline differs between equal runs, or disagrees with the Python reference.
        """
        kind = self.kind
        references = self._references(workloads, wide)
        errors: Sequence[Mapping[str, float]] = [{} for _ in workloads]
        if other is not None:
            errors = self._rounding.errors(
                workloads,
                list(zip(map(_written, first), references, strict=True)),
                other=other,
                run=lambda others: self._pairs(others, wide, rerun),
                call_s=call_s,
            )
        expected = []
        for number, workload in enumerate(workloads):
            memory = self.memory_of(workload)
            masks = {
                n: self.mask_of(a, second[number][n], memory.get(n), n) for n, a in first[number].items()
            }
            self.findings.untouched |= {
                n for n, mask in masks.items() if mask is not None and n not in memory
            }
            again = masked(second[number], masks)
            baseline = masked(first[number], masks)
            reference = references[number]
            before = self._before(workload, masks)
            if workload.outputs:
                # A replay that does not give what the application got is no replay.
                self._require_left(number, workload, memory, masks)
                recorded = masked({**baseline, **workload.outputs}, masks)
                self._agree(number, workload.name, baseline, recorded, before, "recording")
                reference = recorded if kind == "recording" else reference
            if reference is not None:
                reference = masked(reference, masks)
                if kind == "python" and specified[number]:
                    self._agree(number, workload.name, baseline, reference, before, "reference")
            found = self._expectations(workload.name, reference, baseline, before, errors[number])
            self._steady(number, workload.name, again, baseline, found)
            for name, expectation in found.items() if specified[number] else ():
                # Inputs of extreme magnitude are judged by their own error; here they would hide the usual one.
                known = self.findings.own_error.get(name, 0.0)
                self.findings.own_error[name] = max(known, expectation.own_error)
            expected.append(
                {
                    n: Expected(find=partial(_same, e), untouched=masks[n], kept=memory.get(n))
                    for n, e in found.items()
                }
            )
        return expected

    def _references(
        self, workloads: Sequence[Workload], wide: Run[Outputs | None]
    ) -> Sequence[Outputs | None]:
        """Of results in higher precision; ``None`` where there is none, as in a recording."""
        if self.kind == "python":
            return run_reference(self._task, workloads)
        return wide(workloads) if self.kind == "float64" else [None] * len(workloads)

    def _pairs(
        self, workloads: Sequence[Workload], wide: Run[Outputs | None], rerun: Run[Outputs]
    ) -> list[tuple[Outputs, Outputs | None]]:
        """The baseline's and the reference's outputs on inputs that nothing else is compared on."""
        known = dict(self.findings.fallbacks)
        try:
            return list(zip(rerun(workloads), self._references(workloads, wide), strict=True))
        except BaselineError:
            return []
        finally:
            self.findings.fallbacks = known

    def memory_of(self, workload: Workload) -> Outputs:
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

    def mask_of(
        self, first: Array, second: Array, before: Array | None, name: str
    ) -> NDArray[np.bool_] | None:
        """Elements that the baseline leaves alone; ``None`` where that is not looked at, or it writes all."""
        if before is not None:
            return equal_bits(first, before) & equal_bits(second, before)
        return None if self.role_of(name) is ArgumentRole.INOUT else _untouched(first, second)

    def role_of(self, name: str) -> ArgumentRole:
        """Of the argument that an output belongs to, of structures by member."""
        roles = [a.role for a in self._task.arguments if name == a.name or name.startswith(f"{a.name}.")]
        return roles[0] if roles else ArgumentRole.OUTPUT

    def _expectations(
        self,
        label: str,
        reference: Outputs | None,
        baseline: Outputs,
        before: Outputs,
        errors: Mapping[str, float],
    ) -> dict[str, Expectation]:
        """By the reference where there is one that can be believed, else by the baseline itself."""
        if reference is not None:
            known = {n: errors.get(n, 0.0) for n in baseline}
            found = {
                n: expect(n, reference[n], b, before.get(n), known_error=known[n])
                for n, b in baseline.items()
            }
            strange = (_strange(e, baseline[n], known[n]) for n, e in found.items())
            why = next(filter(None, strange), "") if self.kind == "float64" else ""
            if not why:
                return found
            self.findings.fallbacks[label] = f"the float64 build's {why}"
        return {n: expect(n, b, before=before.get(n)) for n, b in baseline.items()}

    def _before(self, workload: Workload, masks: Mapping[str, NDArray[np.bool_] | None]) -> Outputs:
        """What arrays held before the call, not a number where only what they hold after it counts."""
        known = {n: a for n, a in workload.numbers.items() if self.role_of(n) is ArgumentRole.INOUT}
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


def _same(expectation: Expectation) -> Expectation:
    return expectation


def _untouched(first: Array, second: Array) -> NDArray[np.bool_] | None:
    """Elements that kept both fillings."""
    mask = holds(first, POISON)
    if mask.any():
        mask &= holds(second, OTHER_POISON)
    return mask if mask.any() else None


def masked(outputs: Outputs, masks: Mapping[str, NDArray[np.bool_] | None]) -> Outputs:
    """The outputs in the masks' order, with zeros where nothing is written."""
    found = {}
    for name, mask in masks.items():
        values = outputs[name]
        if mask is not None:
            values = values.copy()
            values[mask] = 0
        found[name] = values
    return found


def _strange(expectation: Expectation, baseline: Array, known: float) -> str:
    """Why a float64 result cannot be the same computation; empty when it can.

    Args:
        expectation: by that result.
        baseline: what the baseline gave.
        known: its largest error on inputs like these.
    """
    name = expectation.name
    if baseline.dtype.kind in "biu":
        same = np.array_equal(expectation.values, baseline)
        return "" if same else f"{name} differs from the baseline's integers"
    if not expectation.all_finite and (np.isfinite(baseline) & ~np.isfinite(expectation.values)).any():
        return f"{name} is not finite where the baseline is"
    error, scale = expectation.own_error, expectation.rms
    if error <= max(sane_error(scale, baseline.dtype), OWN_ERROR_FACTOR * known):
        return ""
    return f"{name} is off by {error:.3g} where values are about {scale:.3g}"


def _written(outputs: Outputs) -> Outputs:
    """Those outputs of which no element may be what memory was filled with."""
    return {n: a for n, a in outputs.items() if not holds(a, POISON).any()}
