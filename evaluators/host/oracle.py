"""The baseline and its float64 build on the host: runs both for what outputs have to be.

None of it ever reaches a candidate's process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from tuner.core.arrays import sparse_copy
from tuner.core.types import ArgumentRole, Task
from tuner.evaluators.host.bundles import POISON, Bundle, holds, make_bundle
from tuner.evaluators.host.expected import Expected
from tuner.evaluators.host.reference import OTHER_POISON, Outputs, Reference, baseline_failed, masked
from tuner.evaluators.host.runner import CandidateFailed, Runner
from tuner.evaluators.rounding import Other
from tuner.evaluators.verification import Expectation, same_bytes
from tuner.evaluators.workloads import Workload

__all__ = ["Oracle"]

_LIMIT = "measure.limit_s in the spec"


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
        self,
        bundle: Bundle,
        workloads: Sequence[Workload],
        specified: Sequence[bool],
        *,
        again: bool = True,
        remade: Callable[[], Sequence[Workload]] | None = None,
        other: Other | None = None,
    ) -> None:
        """Sets what a bundle's outputs have to be, and how long the baseline takes.

        Args:
            bundle: made of the workloads.
            workloads: one for each set of inputs.
            specified: for which of them the baseline has to agree with a Python reference.
            again: whether the baseline has to give the same twice here. Where not, it runs a second time only if that
                says something: it did not always give the same so far, or left elements alone.
            remade: makes the workloads once more. The reference is asked only when an output differs from the
                baseline's then; none where the largest error is wanted, or whether the two agree.
            other: makes one of them with other values, by which it is known how far rounding goes.

        Raises:
            BaselineFailed: it does not run, differs between equal runs, or disagrees with the Python reference.
        """
        limit_s = self._task.measure.limit_s
        self.step(f"waiting for the kernel as given, of which a call may take {limit_s:g} s ({_LIMIT})")
        first, second, took = self._baseline(bundle, again=again)
        bundle.call_s = took
        settle = partial(
            self.settle, first, second, self._double, rerun=self._rerun, other=other, call_s=sum(took)
        )
        if remade is not None and self.kind in ("float64", "baseline"):
            bundle.expected = self._later(first, second, workloads, remade, settle)
        if not bundle.expected:
            self.step("comparing what the kernel as given gives with the reference")
            bundle.expected = settle(workloads, specified)

    def _later(
        self,
        first: Sequence[Outputs],
        second: Sequence[Outputs],
        workloads: Sequence[Workload],
        remade: Callable[[], Sequence[Workload]],
        settle: Callable[[Sequence[Workload], Sequence[bool]], list[dict[str, Expected]]],
    ) -> list[dict[str, Expected]]:
        """As :meth:`settle`, when an output first differs from the baseline's; nothing where two runs of it differ.

        Most candidates give what the baseline gives, bit for bit, and the reference takes several times as long.
        """

        @cache
        def settled() -> list[dict[str, Expected]]:
            # What a recording holds was compared with the baseline in the verification.
            made = [replace(workload, outputs={}) for workload in remade()]
            return settle(made, [False] * len(made))

        def find(number: int, name: str) -> Expectation:
            return settled()[number][name].expectation

        expected = []
        for number, workload in enumerate(workloads):
            memory = self.memory_of(workload)
            masks = {
                n: self.mask_of(a, second[number][n], memory.get(n), n) for n, a in first[number].items()
            }
            baseline, again = masked(first[number], masks), masked(second[number], masks)
            if not all(same_bytes(again[n], array) for n, array in baseline.items()):
                return []
            expected.append(
                {
                    n: Expected(
                        find=partial(find, number, n), baseline=a, untouched=masks[n], kept=memory.get(n)
                    )
                    for n, a in baseline.items()
                }
            )
        return expected

    def _rerun(self, workloads: Sequence[Workload]) -> list[Outputs]:
        """The baseline's outputs on inputs that no candidate gets."""
        bundle = make_bundle(
            self._task, workloads, ["start"] * len(workloads), key="other", align=self._align
        )
        try:
            return self._baseline(bundle, again=False)[0]
        finally:
            bundle.close()

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
            if self.role_of(name) is not ArgumentRole.INOUT
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
