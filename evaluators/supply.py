"""Sets of workloads with what they must produce, made when they are first needed; the ones used last are kept.

The inputs of the search are made once; every confirming process has inputs of its own. What holds them is a backend's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

from tuner.core.canonical import digest_json
from tuner.core.errors import SpecError
from tuner.core.types import Task, Value
from tuner.evaluators.rounding import Other
from tuner.evaluators.verification import same_bytes
from tuner.evaluators.workloads import Plan, Workload, drawn_anew, initial_kinds, make_planned, timed_sets

__all__ = ["Supply"]

Made = TypeVar("Made")
Use = tuple[str, *tuple[int, ...]]
"""What something is for: ``verify``, or a kind with the problem and the look."""


class Supply(Generic[Made]):
    """What is made by purpose, number, run-time scalars and use.

    Args:
        task: what is tuned.
        base: the baseline's run-time scalars.
        kept: of how many purposes, numbers and run-time scalars, beside the search's with the baseline's own.
    """

    def __init__(self, task: Task, *, base: Mapping[str, Value], kept: int) -> None:
        self._task = task
        self._base = dict(base)
        self._kept = kept
        self._made: OrderedDict[str, dict[Use, Made]] = OrderedDict()
        self._pinned = self._key("search", 0, self._base)
        self.call_s: list[float] = [0.0] * len(task.problems)
        """Rough seconds of the baseline's call by problem; known once the search's verification is made."""
        self.dropped: dict[str, str] = {}
        """Workloads that are left out though no spec asks for them, as the baseline fails on them, and why."""

    def close(self) -> None:
        """Gives all memory back."""
        for made in self._made.values():
            self._discard(made)
        self._made.clear()

    def _known(
        self,
        purpose: str,
        number: int,
        runtime: Mapping[str, Value],
        use: Use,
        make: Callable[[str, int], Made],
    ) -> Made:
        """What is kept for a use, or what is made now: under a key of its own, for a number that search has not."""
        number = number if purpose == "confirm" else 0
        key = self._key(purpose, number, runtime)
        group = self._made.setdefault(key, {})
        self._made.move_to_end(key)
        while len(self._made) > self._kept + 1:
            self._discard(self._made.pop(next(k for k in self._made if k != self._pinned)))
        if use not in group:
            group[use] = make("/".join([key, *map(str, use)]), number)
            self._added(group)
        return group[use]

    def _key(self, purpose: str, number: int, runtime: Mapping[str, Value]) -> str:
        return digest_json([purpose, number, dict(runtime)])

    def _added(self, group: Mapping[Use, Made]) -> None:
        """Told of all that is kept for one purpose, number and set of run-time scalars when something is new."""

    def _discard(self, group: Mapping[Use, Made]) -> None:
        """Told of the same when it is kept no longer."""

    def _timed_workloads(
        self,
        purpose: str,
        number: int,
        runtime: Mapping[str, Value],
        problem: int,
        *,
        count: Callable[[Workload], int],
        vary: bool = True,
    ) -> tuple[Sequence[Plan], list[Workload]]:
        """The timed sets of a problem, as many as the first one says."""
        plans_of = partial(
            timed_sets, self._task, problem, self._base, purpose=purpose, number=number, vary=vary
        )
        first = make_planned(self._task, plans_of(count=1)[0], runtime)
        plans = plans_of(count=count(first))
        return plans, [first, *(make_planned(self._task, plan, runtime) for plan in plans[1:])]

    def _other(self, plans: Sequence[Plan], scalars: Mapping[str, Value]) -> Other | None:
        """Makes workloads with other values; nothing where Python makes them, in a process for each."""
        if any("python" in initial_kinds(a.initial) for a in self._task.arguments):
            return None
        return lambda draw, place: make_planned(
            self._task, drawn_anew(self._task, plans[place], draw), scalars
        )

    def _originals(self, plans: Sequence[Plan], workloads: Sequence[Workload]) -> list[Workload]:
        """The same workloads with the baseline's run-time scalars; none where inputs depend on those.

        A run-time parameter says how, not what: the baseline's own setting tells what is expected, unless the inputs
        themselves depend on the parameter.
        """
        try:
            made = [make_planned(self._task, plan, self._base) for plan in plans]
        except SpecError:
            return []
        return made if self._same(workloads, made) else []

    def _same(self, some: Sequence[Workload], others: Sequence[Workload]) -> bool:
        """Whether workloads have the same inputs."""
        compared = [a.name for a in self._task.arguments if a.is_array and a.role.value != "scratch"]
        return len(some) == len(others) and all(
            same_bytes(one.arrays[name], other.arrays[name])
            for one, other in zip(some, others, strict=True)
            for name in compared
        )
