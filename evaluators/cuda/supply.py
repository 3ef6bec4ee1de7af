"""Workloads of a device with what they must produce, which stays here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from tuner.core.streams import seed_for
from tuner.core.types import Task, Value
from tuner.evaluators import supply
from tuner.evaluators.cuda.slabs import slab_bytes
from tuner.evaluators.host.expected import Expected
from tuner.evaluators.host.freshness import FRESH_SETS
from tuner.evaluators.host.reference import BaselineFailed, Reference
from tuner.evaluators.workloads import Plan, Workload, make_planned, plan_workloads, timed_sets

__all__ = ["Group", "Runs", "Supply"]

Outputs = dict[str, NDArray[Any]]

_KEPT = 3
_MOST_SETS, _LEAST_SETS = 8, 2
_SETS_BYTES = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What the baseline gave: outputs over two fillings and rough seconds of one call, by workload."""

    first: Sequence[Outputs]
    second: Sequence[Outputs]
    call_s: Sequence[float]


@dataclass(slots=True, kw_only=True)
class Group:
    """Workloads that are run one after the other.

    Attributes:
        key: tells groups apart in caches.
        plans, workloads: in order.
        expected: by workload and output.
        call_s: rough seconds of the baseline's call by workload.
    """

    key: str
    plans: tuple[Plan, ...]
    workloads: tuple[Workload, ...]
    expected: list[dict[str, Expected]] = field(default_factory=list)
    call_s: list[float] = field(default_factory=list)


class Supply(supply.Supply[Group]):
    """Groups by purpose, number and run-time scalars.

    Args:
        task: what is tuned.
        reference: settles what outputs have to be.
        run: runs the baseline on workloads, with these values of the run-time scalars.
        double: runs the float64 build likewise; ``None`` from the first workload on that it fails on.
        base: the baseline's run-time scalars.
        cache_bytes: of the device's last-level cache.
    """

    def __init__(
        self,
        task: Task,
        *,
        reference: Reference,
        run: Callable[[Sequence[Workload]], Runs],
        double: Callable[[Sequence[Workload]], Sequence[Outputs | None]],
        base: Mapping[str, Value],
        cache_bytes: int,
    ) -> None:
        super().__init__(task, base=base, kept=_KEPT)
        self._reference = reference
        self._run = run
        self._double = double
        self._cache_bytes = cache_bytes

    def verify(self, purpose: str, number: int, runtime: Mapping[str, Value]) -> Group:
        """The verification's workloads.

        Raises:
            BaselineFailed: the baseline fails on a workload that the spec asks for.
            SpecError: a workload that cannot be made.
        """

        def make(key: str, number: int) -> Group:
            planned = plan_workloads(self._task, self._base, purpose=purpose, number=number)
            group = self._verification(key, [p for p in planned if p.name not in self.dropped], runtime)
            for plan, seconds in zip(group.plans, group.call_s, strict=True):
                if plan.timed_problem is not None and plan.distribution == "given" and purpose == "search":
                    self.call_s[plan.timed_problem] = seconds
            return group

        return self._known(purpose, number, runtime, ("verify",), make)

    def timed(self, purpose: str, number: int, runtime: Mapping[str, Value], *, problem: int) -> Group:
        """One problem's timed sets; raises as :meth:`verify`."""

        def count(first: Workload) -> int:
            return max(_LEAST_SETS, min(_MOST_SETS, _SETS_BYTES // slab_bytes(self._task, first)))

        def make(key: str, number: int) -> Group:
            plans, workloads = self._timed_workloads(purpose, number, runtime, problem, count=count)
            return self._expect(key, plans, workloads, runtime)

        return self._known(purpose, number, runtime, ("timed", problem), make)

    def fresh(self, mark: str, runtime: Mapping[str, Value], *, problem: int) -> Group:
        """One problem's further sets, for one look at one candidate; raises as :meth:`verify`.

        A device worker serves candidate after candidate, and what one of them leaves on the device another may find:
        so no two looks share a value, and nothing of them is kept.

        Args:
            mark: names the look.
            runtime: the candidate's run-time scalars.
            problem: of the task.
        """
        # The first set holds recorded values as they are, which every candidate has seen.
        plans = timed_sets(self._task, problem, self._base, purpose="search", number=0, count=1 + FRESH_SETS)[
            1:
        ]
        plans = tuple(
            replace(plan, seed=seed_for(self._task.seed, f"fresh/{mark}/{problem}", i))
            for i, plan in enumerate(plans)
        )
        workloads = [make_planned(self._task, plan, runtime) for plan in plans]
        return self._expect(f"fresh/{mark}/{problem}", plans, workloads, runtime)

    def warm_fits(self, group: Group) -> bool:
        """Whether a set stays in the cache when it has been touched."""
        return 2 * slab_bytes(self._task, group.workloads[0]) <= self._cache_bytes

    def _verification(self, key: str, plans: list[Plan], runtime: Mapping[str, Value]) -> Group:
        while True:
            workloads = [make_planned(self._task, plan, runtime) for plan in plans]
            try:
                return self._expect(key, plans, workloads, runtime)
            except BaselineFailed as failed:
                plan = plans[failed.number]
                if plan.as_specified:
                    raise
                self.dropped[plan.name] = failed.message
                plans = [p for p in plans if p is not plan]

    def _expect(
        self, key: str, plans: Sequence[Plan], workloads: Sequence[Workload], runtime: Mapping[str, Value]
    ) -> Group:
        asked: Sequence[Workload] = workloads
        if dict(runtime) != self._base:
            asked = self._originals(plans, workloads) or workloads
        runs = self._run(asked)
        expected = self._reference.settle(
            runs.first,
            runs.second,
            self._double,
            asked,
            [p.as_specified for p in plans],
            rerun=lambda others: self._run(others).first,
            other=self._other(plans, runtime if asked is workloads else self._base),
            call_s=sum(runs.call_s),
        )
        return Group(
            key=key,
            plans=tuple(plans),
            workloads=tuple(workloads),
            expected=expected,
            call_s=list(runs.call_s),
        )
