"""Makes bundles with their expectations when they are first needed, and keeps the ones used last.

The inputs of the search are made once; every confirming process has inputs of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tuner.core.canonical import digest_json
from tuner.core.errors import SpecError
from tuner.core.expressions import Expression
from tuner.core.streams import seed_for
from tuner.core.types import Argument, Problem, Resolved, Task, Value
from tuner.evaluators.host.bundles import LARGE_BYTES, Bundle, make_bundle, set_bytes
from tuner.evaluators.host.child import MESSAGE_BYTES
from tuner.evaluators.host.freshness import FRESH_SETS
from tuner.evaluators.host.harness import Signature
from tuner.evaluators.host.reference import BaselineFailed, Oracle
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
_KEPT = 4


@dataclass(slots=True)
class _Group:
    """Everything for one purpose, number and set of run-time scalars."""

    verify: Bundle | None = None
    timed: dict[int, Bundle] = field(default_factory=dict)
    fresh: dict[tuple[int, int], Bundle] = field(default_factory=dict)

    @property
    def bundles(self) -> list[Bundle]:
        return [b for b in (self.verify, *self.timed.values(), *self.fresh.values()) if b is not None]

    def close(self) -> None:
        for bundle in self.bundles:
            bundle.close()


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


class Supply:
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
        self._task = task
        self._oracle = oracle
        self._base = dict(base)
        self._cache_bytes = cache_bytes
        self._align = align
        self._step = step
        self._bytes = [check_problem(task, problem, self._base) for problem in task.problems]
        self._large = any(size > LARGE_BYTES for size in self._bytes)
        self._constant = self._large and len(self._bytes) == 1 and _is_constant(task)
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        self._pinned = self._key("search", 0, self._base)
        self.call_s: list[float] = [0.0] * len(task.problems)
        """Rough seconds of the baseline's call by problem; known after the first verification bundle."""
        self.largest_bytes = 0
        """Address space of the largest group so far."""
        self.dropped: dict[str, str] = {}
        """Workloads that the baseline fails on though no spec asks for them, and why."""
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
        number = number if purpose == "confirm" else 0
        group = self._group(purpose, number, runtime)
        if group.verify is None:
            plans = list(plan_workloads(self._task, self._base, purpose=purpose, number=number))
            group.verify = self._verification(purpose, number, runtime, plans)
            self._note_size(group)
        return group.verify

    def timed(self, purpose: str, number: int, runtime: Mapping[str, Value], *, problem: int) -> Bundle:
        """The bundle of one problem's timed sets; raises as :meth:`verify`."""
        number = number if purpose == "confirm" else 0
        group = self._group(purpose, number, runtime)
        if problem not in group.timed and self._constant:
            group.timed[problem] = self.verify(purpose, number, runtime)
        if problem not in group.timed:
            group.timed[problem] = self._timed_sets(purpose, number, runtime, problem)
            self._note_size(group)
        return group.timed[problem]

    def fresh(
        self, purpose: str, number: int, runtime: Mapping[str, Value], *, problem: int, look: int
    ) -> Bundle:
        """The bundle of further sets that no timed batch repeats, others for each look; raises as :meth:`verify`."""
        number = number if purpose == "confirm" else 0
        group = self._group(purpose, number, runtime)
        if (problem, look) not in group.fresh:
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
            key = f"{self._key(purpose, number, runtime)}/fresh/{problem}/{look}"
            shift = seed_for(self._task.seed, f"stagger/fresh/{purpose}", number) % 64
            group.fresh[problem, look] = self._staggered(key, plans, workloads, runtime, shift=shift)
            self._note_size(group)
        return group.fresh[problem, look]

    def forget(self) -> None:
        """Drops the workloads kept for checks."""
        self.workloads = ()

    def close(self) -> None:
        """Gives all memory back."""
        for group in self._groups.values():
            group.close()
        self._groups.clear()

    def _key(self, purpose: str, number: int, runtime: Mapping[str, Value]) -> str:
        if self._constant:
            purpose, number = "search", 0
        return digest_json([purpose, number, dict(runtime)])

    def _group(self, purpose: str, number: int, runtime: Mapping[str, Value]) -> _Group:
        key = self._key(purpose, number, runtime)
        group = self._groups.setdefault(key, _Group())
        self._groups.move_to_end(key)
        while len(self._groups) > _KEPT + 1:
            oldest = next(k for k in self._groups if k != self._pinned)
            self._groups.pop(oldest).close()
        return group

    def _note_size(self, group: _Group) -> None:
        self.largest_bytes = max(self.largest_bytes, sum(b.layout.space_bytes for b in group.bundles))

    def _verification(
        self, purpose: str, number: int, runtime: Mapping[str, Value], plans: list[Plan]
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
                key=f"{self._key(purpose, number, runtime)}/verify",
                timed=[p.timed_problem if p.distribution == "given" else None for p in plans],
                align=self._align,
            )
            try:
                self._expect(bundle, plans, workloads, runtime)
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

    def _timed_sets(self, purpose: str, number: int, runtime: Mapping[str, Value], problem: int) -> Bundle:
        def plans_of(count: int) -> Sequence[Plan]:
            return timed_sets(
                self._task,
                problem,
                self._base,
                purpose=purpose,
                number=number,
                count=count,
                vary=not self.dropped,
            )

        first = make_planned(self._task, plans_of(1)[0], runtime)
        size = set_bytes(self._task, first)
        sets, copies = self._counts(size, restored=self._restored(first), call_s=self.call_s[problem])
        plans = plans_of(sets)
        workloads = [first, *(make_planned(self._task, plan, runtime) for plan in plans[1:])]
        shift = seed_for(self._task.seed, f"stagger/{purpose}", number) % 64
        key = f"{self._key(purpose, number, runtime)}/timed/{problem}"
        return self._staggered(key, plans, workloads, runtime, shift=shift, copies=copies)

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
            self._expect(bundle, plans, workloads, runtime)
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
        sets = max(least, min(_MOST_SETS, self._cache_bytes // 2 // max(size, 1)))
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
    ) -> None:
        specified = [plan.as_specified for plan in plans]
        if dict(runtime) == self._base:
            self._oracle.fill(bundle, workloads, specified)
            return
        # A run-time parameter says how, not what: the baseline's own setting tells what is expected, unless the
        # inputs themselves depend on the parameter.
        try:
            originals = [make_planned(self._task, plan, self._base) for plan in plans]
        except SpecError:
            originals = []
        if len(originals) == len(workloads) and all(map(self._same, workloads, originals)):
            placements = ["start"] * len(originals)
            made = make_bundle(self._task, originals, placements, key=f"{bundle.key}/base", align=self._align)
            try:
                self._oracle.fill(made, originals, specified)
                bundle.expected, bundle.call_s = made.expected, made.call_s
            finally:
                made.close()
        else:
            self._oracle.fill(bundle, workloads, specified)

    def _same(self, one: Workload, other: Workload) -> bool:
        compared = [a.name for a in self._task.arguments if a.is_array and a.role.value != "scratch"]
        return all(
            one.arrays[n].shape == other.arrays[n].shape
            and one.arrays[n].tobytes() == other.arrays[n].tobytes()
            for n in compared
        )


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
