"""Makes bundles with their expectations when they are first needed, and keeps the ones used last."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tuner.core.canonical import digest_json
from tuner.core.expressions import Expression
from tuner.core.streams import seed_for
from tuner.core.types import Argument, Problem, Resolved, Task, Value
from tuner.evaluators import supply
from tuner.evaluators.host.bundles import LARGE_BYTES, Bundle, make_bundle, set_bytes
from tuner.evaluators.host.child import MESSAGE_BYTES
from tuner.evaluators.host.freshness import FRESH_SETS
from tuner.evaluators.host.harness import Signature
from tuner.evaluators.host.oracle import Oracle
from tuner.evaluators.host.reference import BaselineFailed
from tuner.evaluators.memory import needed_bytes, require_memory, said_bytes
from tuner.evaluators.redistribution import PERTURBED
from tuner.evaluators.workloads import (
    Plan,
    Workload,
    check_problem,
    make_planned,
    plan_workloads,
    timed_sets,
)

__all__ = ["Supply", "runtime_of"]

_MOST_SETS, _LEAST_SETS = 8, 2
_MOST_ENTRIES = 256
_MAPPINGS = 2
"""Of a buffer in an entry, at most: where it lies, and what it is restored from."""
_MOST_MAPPINGS = MESSAGE_BYTES // 64
"""All are told to the process in one message, in six words each."""
_MEMORY_BYTES = 64 << 20
_WINDOW_S = 0.02
_SETS_S = 1.0
"""Of the baseline's calls over all timed sets, which is what a process times: eight of a second would be too many."""
_KEPT = 4


def runtime_of(task: Task, resolved: Resolved) -> dict[str, Value]:
    """The tunables that the arguments' shapes and values depend on."""
    names: set[str] = set()
    for argument in task.arguments:
        for expression in _expressions(argument):
            names |= expression.names
    tunables: dict[str, Value] = {**resolved.macros, **resolved.scalars}
    return {name: value for name, value in sorted(tunables.items()) if name in names}


def _expressions(argument: Argument) -> list[Expression]:
    found = list(argument.shape or ())
    if argument.value is not None:
        found.append(argument.value)
    options = [
        o for v in argument.initial.options.values() for o in (v if isinstance(v, tuple | list) else (v,))
    ]
    return found + [o for o in options if isinstance(o, Expression)]


class Supply(supply.Supply[Bundle]):
    """Bundles by purpose, number and run-time scalars.

    Of a problem whose buffers take more than :data:`LARGE_BYTES` one set of inputs is timed, the very one that was
    verified if it is the same in every process (a recording's is); its recorded values are not moved.

    Args:
        task: what is tuned.
        oracle: knows what outputs have to be.
        base: the baseline's run-time scalars (:func:`runtime_of`).
        cache_bytes: of the last-level cache; timed sets take half of it at most where they can.
        align: every buffer begins at a multiple of this many bytes.
        step: told of what is about to take long where buffers are large.
    """

    def __init__(
        self,
        task: Task,
        *,
        oracle: Oracle,
        base: Mapping[str, Value],
        cache_bytes: int,
        align: int = 1,
        step: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._bytes = [check_problem(task, problem, base) for problem in task.problems]
        self._large = any(size > LARGE_BYTES for size in self._bytes)
        self._constant = self._large and len(self._bytes) == 1 and _is_constant(task)
        super().__init__(task, base=base, kept=_KEPT)
        self._oracle = oracle
        self._cache_bytes = cache_bytes
        self._align = align
        self._step = step
        self.largest_bytes = 0
        """Address space of the largest group so far."""
        self.workloads: tuple[Workload, ...] = ()
        """Of the search's verification, for checks of the verification itself; see :meth:`forget`."""

    def bytes_of(self, problem: int) -> int:
        """What the buffers of one call of a problem take."""
        return self._bytes[problem]

    def is_large(self, problem: int) -> bool:
        """Whether few of its sets fit into memory."""
        return self.bytes_of(problem) > LARGE_BYTES

    def verify(self, purpose: str, number: int, runtime: Mapping[str, Value]) -> Bundle:
        """The verification's bundle.

        Raises:
            BaselineFailed: the baseline fails on a workload that the spec asks for.
            SpecError: a workload that cannot be made.
        """

        def make(key: str, number: int) -> Bundle:
            plans = list(plan_workloads(self._task, self._base, purpose=purpose, number=number))
            return self._verification(key, plans, runtime, again=purpose == "search")

        return self._known(purpose, number, runtime, ("verify",), make)

    def timed(self, purpose: str, number: int, runtime: Mapping[str, Value], *, problem: int) -> Bundle:
        """The bundle of one problem's timed sets; raises as :meth:`verify`."""

        def make(key: str, number: int) -> Bundle:
            if self._constant:
                return self.verify(purpose, number, runtime)
            entries = 1

            def count(first: Workload) -> int:
                nonlocal entries
                size, restored = set_bytes(self._task, first), self._restored(first)
                sets, entries = self._counts(size, restored=restored, call_s=self.call_s[problem])
                return sets

            plans, workloads = self._timed_workloads(
                purpose, number, runtime, problem, count=count, vary=not self.dropped
            )
            shift = seed_for(self._task.seed, f"stagger/{purpose}", number) % 64
            return self._staggered(key, plans, workloads, runtime, shift=shift, copies=entries)

        return self._known(purpose, number, runtime, ("timed", problem), make)

    def fresh(
        self, purpose: str, number: int, runtime: Mapping[str, Value], *, problem: int, look: int
    ) -> Bundle:
        """The bundle of further sets that no timed batch repeats, others for each look; raises as :meth:`verify`."""

        def make(key: str, number: int) -> Bundle:
            # After the last one that a timed batch, or a look before this one, may use.
            first = _MOST_SETS + FRESH_SETS * look
            plans = timed_sets(
                self._task,
                problem,
                self._base,
                purpose=purpose,
                number=number,
                count=first + FRESH_SETS,
                vary=not self.dropped,
            )[first:]
            workloads = [make_planned(self._task, plan, runtime) for plan in plans]
            shift = seed_for(self._task.seed, f"stagger/fresh/{purpose}", number) % 64
            return self._staggered(key, plans, workloads, runtime, shift=shift)

        return self._known(purpose, number, runtime, ("fresh", problem, look), make)

    def forget(self) -> None:
        """Drops the workloads kept for checks."""
        self.workloads = ()

    def _key(self, purpose: str, number: int, runtime: Mapping[str, Value]) -> str:
        if self._constant:
            purpose, number = "search", 0
        return super()._key(purpose, number, runtime)

    def _added(self, group: Mapping[Any, Bundle]) -> None:
        # One that is verified and timed counts once.
        taken = {id(bundle): bundle.layout.space_bytes for bundle in group.values()}
        self.largest_bytes = max(self.largest_bytes, sum(taken.values()))

    def _discard(self, group: Mapping[Any, Bundle]) -> None:
        for bundle in group.values():
            bundle.close()

    def _verification(
        self, key: str, plans: list[Plan], runtime: Mapping[str, Value], *, again: bool
    ) -> Bundle:
        plans = [p for p in plans if not self._large or p.distribution != PERTURBED]
        while True:
            plans, placements = _place(plans, again=not self._large)
            doubled = self._oracle.kind == "float64"
            require_memory(self._task, plans, runtime, doubled=doubled)
            needed = needed_bytes(self._task, plans, runtime, doubled=doubled)
            self._step(f"making {len(plans)} sets of inputs, {said_bytes(needed)} with what they give")
            workloads = [make_planned(self._task, plan, runtime) for plan in plans]
            bundle = make_bundle(
                self._task,
                workloads,
                placements,
                key=key,
                timed=[p.timed_problem if p.distribution == "given" else None for p in plans],
                align=self._align,
            )
            try:
                self._expect(bundle, plans, workloads, runtime, again=again)
            except BaselineFailed as failed:
                bundle.close()
                plan = plans[failed.number]
                if plan.as_specified:
                    raise
                self.dropped[plan.name] = failed.message
                plans = [p for p in plans if p is not plan]
                continue
            except BaseException:
                bundle.close()
                raise
            break
        if not any(self.call_s):
            for plan, seconds in zip(plans, bundle.call_s, strict=True):
                if plan.timed_problem is not None and plan.distribution == "given":
                    self.call_s[plan.timed_problem] = seconds
            self.workloads = tuple(workloads)
        return bundle

    def _staggered(
        self,
        key: str,
        plans: Sequence[Plan],
        workloads: Sequence[Workload],
        runtime: Mapping[str, Value],
        *,
        shift: int,
        copies: int = 1,
    ) -> Bundle:
        bundle = make_bundle(
            self._task,
            workloads,
            ["stagger"] * len(workloads),
            key=key,
            timed=[plan.timed_problem for plan in plans],
            shift=shift,
            copies=copies,
            align=self._align,
        )
        try:
            self._expect(bundle, plans, workloads, runtime, again=False, later=True)
        except BaseException:
            bundle.close()
            raise
        return bundle

    def _restored(self, workload: Workload) -> int:
        """Bytes that every copy of a set adds: what is written, where something is restored before each call."""
        if Signature.of(self._task).variables or not any(
            a.role.value == "inout" for a in self._task.arguments
        ):
            return 0
        return sum(
            workload.arrays[a.name].nbytes
            for a in self._task.arguments
            if a.role.value != "input" and a.is_array
        )

    def _counts(self, size: int, *, restored: int, call_s: float) -> tuple[int, int]:
        """How many sets of inputs, and how many entries of each."""
        least = 1 if size > LARGE_BYTES else _LEAST_SETS
        in_time = math.ceil(_SETS_S / max(call_s, 1e-9))
        sets = max(least, min(_MOST_SETS, self._cache_bytes // 2 // max(size, 1), in_time))
        if not restored:
            return sets, 1
        wanted = int(_WINDOW_S / max(call_s, 1e-9) / sets) + 1
        room = max(1, (_MEMORY_BYTES - sets * size) // (sets * restored))
        buffers = sum(argument.is_array for argument in self._task.arguments)
        most = min(_MOST_ENTRIES, _MOST_MAPPINGS // (_MAPPINGS * buffers))
        return sets, max(1, min(wanted, room, most // sets))

    def _expect(
        self,
        bundle: Bundle,
        plans: Sequence[Plan],
        workloads: Sequence[Workload],
        runtime: Mapping[str, Value],
        *,
        again: bool,
        later: bool = False,
    ) -> None:
        """``later``: the reference is asked when an output differs from the baseline's."""
        specified = [plan.as_specified for plan in plans]
        originals = [] if dict(runtime) == self._base else self._originals(plans, workloads)
        scalars = self._base if originals else runtime

        def made_again() -> list[Workload]:
            return [make_planned(self._task, plan, scalars) for plan in plans]

        # What Python makes need not be the same again.
        other = self._other(plans, scalars)
        remade = made_again if later and other is not None else None
        fill = partial(self._oracle.fill, again=again, remade=remade, other=other)
        if not originals:
            fill(bundle, workloads, specified)
            return
        placements = ["start"] * len(originals)
        made = make_bundle(self._task, originals, placements, key=f"{bundle.key}/base", align=self._align)
        try:
            fill(made, originals, specified)
            bundle.expected, bundle.call_s = made.expected, made.call_s
        finally:
            made.close()


def _is_constant(task: Task) -> bool:
    """Whether every process has the same inputs: all were recorded, and nothing is held out or made up."""
    arrays = [a for a in task.arguments if a.is_array and a.role.value in ("input", "inout")]
    recorded = all(a.initial.kind == "recording" or a.by_pointer for a in arrays)
    alone = not task.verify.problems and not task.verify.assume
    return recorded and alone and not any(problem.held_out for problem in task.problems)


def _place(plans: Sequence[Plan], *, again: bool) -> tuple[list[Plan], list[str]]:
    """Which workloads lie against the guard page after them, and which against the one before.

    Every size that has several workloads gets both; where none has, the cheapest one is run ``again``.
    """
    seen: dict[str, int] = {}
    chosen: list[Plan] = list(plans)
    placements = []
    for plan in plans:
        size = _size(plan.problem)
        placements.append("start" if seen.get(size, 0) % 2 else "end")
        seen[size] = seen.get(size, 0) + 1
    if again and "start" not in placements:
        smallest = min(
            plans, key=lambda p: float(np.prod([float(v) for v in p.problem.sizes.values()] or [1.0]))
        )
        chosen.append(smallest)
        placements.append("start")
    return chosen, placements


def _size(problem: Problem) -> str:
    return digest_json(dict(problem.sizes))
