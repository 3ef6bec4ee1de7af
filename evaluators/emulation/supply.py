"""What is emulated: workloads that are small enough, in memory that a child can map, with what they must produce."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.core.errors import SpecError
from tuner.core.types import Task, Value
from tuner.evaluators import supply
from tuner.evaluators.emulation.launch import REPORT, extended_task, extended_workload, with_words
from tuner.evaluators.host.bundles import Bundle, make_bundle
from tuner.evaluators.host.oracle import Oracle
from tuner.evaluators.host.reference import BaselineFailed
from tuner.evaluators.workloads import Plan, Workload, check_problem, make_planned, plan_workloads
from tuner.spaces.launch import Geometry, geometry

__all__ = ["MOST_BYTES", "MOST_THREADS", "Group", "Supply", "with_launches"]

MOST_THREADS = 1 << 17
MOST_BYTES = 8 << 20
_KEPT = 3
_ORDERS = 3


@dataclass(slots=True, kw_only=True)
class Group:
    """One bundle with its plans.

    Attributes:
        bundle: with words of zero; :func:`with_launches` puts a candidate's in.
        plans: one for each entry.
        workloads: the user's, without what the emulation adds.
        orders: in which order threads run, by entry.
    """

    bundle: Bundle
    plans: tuple[Plan, ...]
    workloads: tuple[Workload, ...]
    orders: tuple[int, ...]


Words = Callable[[Group, Mapping[str, Value]], Sequence[Sequence[int]]]


def with_launches(group: Group, words: Sequence[Sequence[int]]) -> Bundle:
    """The same memory with the words of one candidate's launches."""
    scalars = [with_words(w.scalars, row) for w, row in zip(group.workloads, words, strict=True)]
    return replace(group.bundle, scalars=tuple(scalars))


class Supply(supply.Supply[Group]):
    """Groups by purpose, number and run-time scalars.

    Args:
        task: the user's.
        base: the baseline's run-time scalars.
        configuration: the baseline's tunables, for its geometry.
    """

    def __init__(self, task: Task, *, base: Mapping[str, Value], configuration: Mapping[str, Value]) -> None:
        super().__init__(task, base=base, kept=_KEPT)
        self._extended = extended_task(task)
        self._configuration = dict(configuration)

    def plans(self, purpose: str, number: int) -> list[Plan]:
        """The plans whose sizes are small enough.

        Raises:
            SpecError: there is none.
        """
        chosen = []
        for plan in plan_workloads(self._task, self._base, purpose=purpose, number=number):
            why = self.dropped.get(plan.name) or self._too_large(plan)
            if why:
                self.dropped[plan.name] = why
            else:
                chosen.append(plan)
        if not chosen:
            why = "; ".join(f"{name}: {reason}" for name, reason in self.dropped.items())
            raise SpecError(
                f"no problem size is small enough to be emulated: {why or 'there is none'}",
                "add small sizes under `verify.problems`, for example odd ones",
            )
        return chosen

    def group(
        self, purpose: str, number: int, runtime: Mapping[str, Value], plans: Sequence[Plan] | None = None
    ) -> Group:
        """The workloads of one purpose; expectations are :meth:`ready`'s.

        Args:
            purpose: ``search`` or ``confirm``.
            number: which confirming process.
            runtime: the candidate's run-time scalars.
            plans: instead of all that are small enough; such a group is the caller's to close.
        """
        if plans is not None:
            return self._make(plans, runtime, f"{self._key(purpose, number, runtime)}/emulated")

        def make(key: str, number: int) -> Group:
            return self._make(self.plans(purpose, number), runtime, key)

        return self._known(purpose, number, runtime, ("emulated",), make)

    def ready(
        self, purpose: str, number: int, runtime: Mapping[str, Value], *, words: Words, oracle: Oracle
    ) -> Group:
        """The workloads of one purpose with what their outputs have to be.

        A workload that the spec does not ask for and that the baseline fails on
        is dropped.

        Args:
            purpose: ``search`` or ``confirm``.
            number: which confirming process.
            runtime: the candidate's run-time scalars.
            words: gives the baseline's launches on a group, with run-time scalars in the place of its own.
            oracle: knows the baseline.

        Raises:
            BaselineFailed: the baseline fails on a workload that the spec asks for.
            SpecError: no size is small enough.
        """
        while True:
            group = self.group(purpose, number, runtime)
            if group.bundle.expected:
                return group
            try:
                self._expect(group, purpose, number, runtime, words, oracle)
                return group
            except BaselineFailed as failed:
                plan = group.plans[failed.number]
                if plan.as_specified:
                    raise
                self.dropped[plan.name] = failed.message
                self.close()

    def _expect(
        self,
        group: Group,
        purpose: str,
        number: int,
        runtime: Mapping[str, Value],
        words: Words,
        oracle: Oracle,
    ) -> None:
        if dict(runtime) != self._base:
            base = self.ready(purpose, number, self._base, words=words, oracle=oracle)
            if self._same(base.workloads, group.workloads):
                group.bundle.expected, group.bundle.call_s = base.bundle.expected, base.bundle.call_s
                return
        filled = with_launches(group, words(group, runtime))
        oracle.fill(filled, group.workloads, [p.as_specified for p in group.plans])
        group.bundle.expected, group.bundle.call_s = filled.expected, filled.call_s

    def size_bytes(self, plan: Plan) -> int:
        """Bytes of all arrays."""
        return check_problem(self._task, plan.problem, self._base)

    def geometry(self, plan: Plan) -> Geometry:
        """The baseline's geometry on a plan's sizes; errors as :func:`tuner.spaces.launch.geometry`."""
        assert self._task.launch is not None
        return geometry(self._task.launch, self._configuration, plan.problem.sizes)

    def _discard(self, group: Mapping[Any, Group]) -> None:
        for made in group.values():
            made.bundle.close()

    def _too_large(self, plan: Plan) -> str:
        size = self.size_bytes(plan)
        if size > MOST_BYTES:
            return f"its arrays take {size} bytes; {MOST_BYTES} are emulated at most"
        shape = self.geometry(plan)
        threads = shape.threads * int(np.prod([float(g) for g in shape.grid]))
        if threads > MOST_THREADS:
            return f"the baseline has {threads} threads; {MOST_THREADS} are emulated at most"
        return ""

    def _make(self, plans: Sequence[Plan], runtime: Mapping[str, Value], key: str) -> Group:
        chosen, orders = list(plans), [i % _ORDERS if i % _ORDERS < 2 else 2 + i for i in range(len(plans))]
        smallest = min(range(len(plans)), key=lambda i: self.size_bytes(plans[i]))
        for order in range(_ORDERS):
            if orders[smallest] != order:
                chosen.append(plans[smallest])
                orders.append(order)
        workloads = [make_planned(self._task, plan, runtime) for plan in chosen]
        empty = [extended_workload(w) for w in workloads]
        bundle = make_bundle(
            self._extended,
            [replace(w, scalars=with_words(w.scalars, ())) for w in empty],
            # Page-aligned, as device memory is aligned at least to 256 bytes; bounds are checked exactly.
            ["start"] * len(empty),
            key=key,
        )
        # The report is no output of the kernel: nothing is expected of it.
        outputs = tuple({n: kind for n, kind in o.items() if n != REPORT} for o in bundle.outputs)
        return Group(
            bundle=replace(bundle, outputs=outputs),
            plans=tuple(chosen),
            workloads=tuple(workloads),
            orders=tuple(orders),
        )
