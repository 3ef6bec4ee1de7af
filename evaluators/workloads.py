"""The inputs that candidates run on: which workloads there are, and how each is made.

A plan is a few words and a seed; a workload is its arrays. Every value follows from the task's seed, the purpose
and the plan, so a workload is made again rather than kept. Nothing here runs a kernel or knows what it must
produce.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.dtypes import separate_members
from tuner.core.errors import MachineError, SpecError, UsageError
from tuner.core.streams import seed_for, stream
from tuner.core.types import Argument, ArgumentRole, Initial, Problem, Task, Value
from tuner.evaluators.distributions import ArrayMaker, cast_scalar, dtype_of
from tuner.evaluators.hidden import hidden_sizes as _search_hidden
from tuner.evaluators.redistribution import DISTRIBUTIONS, NONFINITE, PERTURBED

__all__ = [
    "DISTRIBUTIONS",
    "NONFINITE",
    "Plan",
    "Workload",
    "check_problem",
    "drawn_anew",
    "hidden_sizes",
    "initial_kinds",
    "make_planned",
    "make_workload",
    "plan_workloads",
    "timed_sets",
]

PURPOSES = ("search", "confirm")

HIDDEN_COUNT = 2
"""How many sizes the verification makes up itself where ``verify.assume`` bounds them."""

_MAX_BYTES = 1 << 40
_WRITTEN = (ArgumentRole.OUTPUT, ArgumentRole.INOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One set of inputs.

    Attributes:
        name: for people.
        problem: its sizes.
        scalars: the value of each by-value argument, rounded to its type.
        arrays: the initial content of every array argument, C-contiguous; outputs and scratch are zero-filled.
        outputs: what a recording holds of the arrays that the kernel may write, of structures by member; empty where
            nothing is recorded.
        distribution: of the floating inputs.
    """

    name: str
    problem: Problem
    scalars: Mapping[str, int | float]
    arrays: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    distribution: str = "given"

    @property
    def numbers(self) -> dict[str, NDArray[Any]]:
        """The arrays, of structures one for each member."""
        found: dict[str, NDArray[Any]] = {}
        for name, array in self.arrays.items():
            found |= separate_members(name, array)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A workload that is not made yet; see :func:`make_planned`.

    Attributes:
        name: for people, for example ``"nx=67 ny=129, shifted"``.
        problem: its sizes.
        distribution: of the floating inputs.
        seed: of its values.
        timed_problem: which of the task's problems this is, or ``None`` for a size that is only verified.
        hidden: whether the size was made up here, so that no candidate can have been written for it.
    """

    name: str
    problem: Problem
    distribution: str
    seed: int
    timed_problem: int | None = None
    hidden: bool = False

    @property
    def as_specified(self) -> bool:
        """Whether the spec itself asks for these inputs: the baseline has to get those right.

        With the others a baseline that fails (a log of zero, say) only loses a check.
        """
        return self.distribution == "given" and not self.hidden


def make_planned(task: Task, plan: Plan, runtime_scalars: Mapping[str, Value]) -> Workload:
    """The workload of a plan; arguments and errors as :func:`make_workload`."""
    made = make_workload(task, plan.problem, runtime_scalars, seed=plan.seed, distribution=plan.distribution)
    return replace(made, name=plan.name)


def make_workload(
    task: Task,
    problem: Problem,
    runtime_scalars: Mapping[str, Value],
    *,
    seed: int,
    distribution: str = "given",
) -> Workload:
    """Makes the inputs of one problem size.

    Args:
        task: whose arguments.
        problem: the sizes.
        runtime_scalars: further names of expressions: parameters with ``macro: false``, and macros where an
            expression uses them.
        seed: everything random follows from it, but for arguments with ``fixed: true``, which follow from the
            task's seed.
        distribution: one of :data:`DISTRIBUTIONS` or :data:`NONFINITE`.

    Raises:
        SpecError: sizes, values or initial values that are impossible.
        UsageError: an unknown distribution.
        MachineError: an array is larger than the memory.
    """
    if distribution not in (*DISTRIBUTIONS, NONFINITE, PERTURBED):
        raise UsageError(
            f"unknown distribution {distribution!r}", f"one of {', '.join(DISTRIBUTIONS)}, {NONFINITE}"
        )
    maker = _maker(task, problem, runtime_scalars, seed=seed, distribution=distribution)
    scalars: dict[str, int | float] = {}
    arrays: dict[str, NDArray[Any]] = {}
    outputs: dict[str, NDArray[Any]] = {}
    for argument in task.arguments:
        if argument.is_array:
            try:
                arrays[argument.name] = _array(argument, maker)
            except MemoryError:
                raise MachineError(
                    f"the array {argument.name!r} does not fit this machine's memory with {_label(problem)}",
                    "make the problem smaller",
                ) from None
            if distribution == "given" and _is_recorded(argument) and argument.role in _WRITTEN:
                shape = arrays[argument.name].shape
                outputs |= separate_members(argument.name, maker.recorded(argument, shape, after=True))
        else:
            scalars[argument.name] = _scalar(argument, maker)
    name = f"{_label(problem)}, {distribution}"
    return Workload(
        name=name,
        problem=problem,
        scalars=scalars,
        arrays=arrays,
        outputs=outputs,
        distribution=distribution,
    )


def check_problem(task: Task, problem: Problem, runtime_scalars: Mapping[str, Value]) -> int:
    """Whether a problem size can be made at all, without making it.

    Returns:
        The bytes of all arrays together.

    Raises:
        SpecError: a shape that is not positive or too large, a scalar that does not fit its type, a CSR matrix
            that cannot be, an initial file of another size.
    """
    maker = _maker(task, problem, runtime_scalars, seed=0, distribution="given")
    total = 0
    for argument in task.arguments:
        if not argument.is_array:
            _scalar(argument, maker)
            continue
        shape = _shape(argument, maker.env)
        total += math.prod(shape) * dtype_of(argument).itemsize
        if _csr_matrix(argument) is not None:
            rows, _, nonzeros = maker.csr_sizes(argument)
            expected = rows + 1 if argument.initial.options.get("part") == "row_pointers" else nonzeros
            if math.prod(shape) != expected:
                raise SpecError(
                    f"argument {argument.name!r} has {math.prod(shape)} elements, the csr {expected}",
                    "make its shape the part's: rows + 1 row pointers, or one column for each nonzero",
                )
        elif argument.initial.kind == "file" and _has_values(argument):
            maker.make(argument, shape)
    if total > _MAX_BYTES:
        raise SpecError(f"the arrays of {_label(problem)} take {total} bytes", "use smaller sizes")
    return total


def plan_workloads(
    task: Task, runtime_scalars: Mapping[str, Value], *, purpose: str, number: int
) -> tuple[Plan, ...]:
    """The workloads that a candidate has to get right before it is timed.

    Every main problem once as given, in confirming processes on what was held out of it; every size of
    ``verify.problems`` as given and in the other distributions; where ``verify.assume`` bounds sizes, two hidden
    ones as given. Without ``verify.problems`` the other distributions are tried on the hidden sizes, else on the
    first main problem. In the search all of them are tried on each size, the same for every candidate; a confirming
    process takes one for each size by turns, and its own hidden sizes.

    Args:
        task: what to verify.
        runtime_scalars: the baseline's; they decide which hidden sizes are possible.
        purpose: ``"search"`` or ``"confirm"``, which share no seed.
        number: which process of that purpose; the inputs of the search do not depend on it.

    Raises:
        SpecError: a problem that cannot be made.
        UsageError: an unknown purpose.
    """
    role, number = _role(purpose, number)
    plans: list[Plan] = []

    def add(problem: Problem, distribution: str, timed: int | None, hidden: bool) -> None:
        name = f"{_label(problem)}, {distribution}" + (", hidden" if hidden else "")
        seed = seed_for(task.seed, f"{role}/verify/{len(plans)}", number)
        plan = Plan(
            name=name,
            problem=problem,
            distribution=distribution,
            seed=seed,
            timed_problem=timed,
            hidden=hidden,
        )
        plans.append(plan)

    for problem in (*task.problems, *task.verify.problems):
        check_problem(task, problem, runtime_scalars)
    for index, problem in enumerate(task.problems):
        add(_seen_by(purpose, number, problem), "given", index, False)
    for problem in task.verify.problems:
        add(problem, "given", None, False)
    rng = stream(task.seed, f"{role}/hidden", number)
    hidden = hidden_sizes(task, rng, HIDDEN_COUNT, runtime_scalars=runtime_scalars)
    for problem in hidden:
        add(problem, "given", None, True)
    others = _other_distributions(task)
    small = task.verify.problems or hidden
    bases: list[tuple[Problem, int | None]] = [(p, None) for p in small] or [(task.problems[0], 0)]
    for index, (problem, timed) in enumerate(bases):
        turn = (number + index) % len(others) if others else 0
        for distribution in others if purpose == "search" else others[turn : turn + 1]:
            add(problem, distribution, timed, not task.verify.problems and timed is None)
    return tuple(plans)


def timed_sets(
    task: Task,
    problem_index: int,
    runtime_scalars: Mapping[str, Value],
    *,
    purpose: str,
    number: int,
    count: int,
    vary: bool = True,
) -> tuple[Plan, ...]:
    """The sets of inputs that a timed batch cycles through: as given, with fresh values each.

    Recorded values have no fresh ones: after the first set they are perturbed, unless ``vary`` is false. Other
    arguments as :func:`plan_workloads`; no seed is shared with the verification, with another problem or, in
    confirming, with another process.

    Raises:
        SpecError: a problem that cannot be made.
        UsageError: an unknown purpose or problem.
    """
    role, number = _role(purpose, number)
    if not 0 <= problem_index < len(task.problems):
        raise UsageError(f"there is no problem {problem_index}", f"0 to {len(task.problems) - 1}")
    problem = _seen_by(purpose, number, task.problems[problem_index])
    check_problem(task, problem, runtime_scalars)
    return tuple(
        Plan(
            name=f"{_label(problem)}, timed set {i}",
            problem=problem,
            distribution=_again(task) if i and vary else "given",
            seed=seed_for(task.seed, f"{role}/timed/{problem_index}/{i}", number),
            timed_problem=problem_index,
        )
        for i in range(count)
    )


def drawn_anew(task: Task, plan: Plan, draw: int) -> Plan:
    """A plan for other values of the same distribution, which no candidate gets; recorded ones are perturbed."""
    distribution = _again(task) if plan.distribution == "given" else plan.distribution
    return replace(plan, seed=seed_for(task.seed, f"drawn/{plan.name}", draw), distribution=distribution)


def _again(task: Task) -> str:
    """The distribution of further values as given: what was recorded has no fresh ones."""
    return PERTURBED if any(map(_may_vary, task.arguments)) else "given"


def hidden_sizes(
    task: Task, rng: np.random.Generator, count: int, *, runtime_scalars: Mapping[str, Value] | None = None
) -> tuple[Problem, ...]:
    """Small sizes that satisfy ``verify.assume``, preferably odd and prime; none where nothing is assumed.

    A size that no assumption names keeps the first main problem's value; none is larger than there, nor are all
    arrays together. Sizes of the spec are not chosen.

    Args:
        task: whose assumptions.
        rng: what the sizes follow from.
        count: how many at most; fewer, or none, where few sizes satisfy the assumptions.
        runtime_scalars: further names of expressions.
    """
    scalars = runtime_scalars or {}

    def bytes_of(problem: Problem) -> int | None:
        try:
            return check_problem(task, problem, scalars)
        except SpecError:
            return None

    return _search_hidden(task, rng, count, scalars=scalars, bytes_of=bytes_of)


def _seen_by(purpose: str, number: int, problem: Problem) -> Problem:
    """Confirming processes take what was held out from the search by turns."""
    if purpose != "confirm" or not problem.held_out:
        return problem
    return replace(problem, sizes=problem.held_out[number % len(problem.held_out)], held_out=())


def _role(purpose: str, number: int) -> tuple[str, int]:
    if purpose not in PURPOSES:
        raise UsageError(f"unknown purpose {purpose!r}", "search or confirm")
    return purpose, number if purpose == "confirm" else 0


def _other_distributions(task: Task) -> tuple[str, ...]:
    """The distributions that change anything for this task, without ``given``."""
    varied = [a.initial for a in task.arguments if a.is_array and _has_values(a) and not a.fixed]
    kinds = {kind for each in varied for kind in initial_kinds(each)}
    if "recording" in kinds:
        return (PERTURBED,) if any(_may_vary(a) and "float" in a.dtype for a in task.arguments) else ()
    if kinds & {"uniform", "normal"}:
        return DISTRIBUTIONS[1:] + ((NONFINITE,) if task.verify.nonfinite == "propagate" else ())
    if "randint" in kinds:
        return ("structured", "extreme")
    return ("structured",) if kinds & {"permutation", "csr"} else ()


def initial_kinds(initial: Initial) -> set[str]:
    """How values are made, those of members among them."""
    return {part.kind for part in (initial, *initial.options.values()) if isinstance(part, Initial)}


def _maker(
    task: Task, problem: Problem, runtime_scalars: Mapping[str, Value], *, seed: int, distribution: str
) -> ArrayMaker:
    matrices = {_csr_matrix(a) for a in task.arguments if a.fixed}
    return ArrayMaker(
        env={**runtime_scalars, **problem.sizes},
        sizes=problem.sizes,
        folder=str(Path(task.kernel.folder)),
        seed=seed,
        fixed_seed=seed_for(task.seed, "fixed"),
        fixed_matrices=frozenset(m for m in matrices if m is not None),
        distribution=distribution,
    )


def _array(argument: Argument, maker: ArrayMaker) -> NDArray[Any]:
    shape = _shape(argument, maker.env)
    if not _has_values(argument):
        return np.zeros(shape, dtype_of(argument))
    return maker.make(argument, shape)


def _has_values(argument: Argument) -> bool:
    return argument.role in (ArgumentRole.INPUT, ArgumentRole.INOUT)


def _is_recorded(argument: Argument) -> bool:
    return argument.is_array and argument.initial.kind == "recording"


def _may_vary(argument: Argument) -> bool:
    """Whether what was recorded may be changed a little: not memory, which holds anything."""
    return _is_recorded(argument) and argument.passing != "memory"


def _csr_matrix(argument: Argument) -> str | None:
    if argument.initial.kind != "csr" or not _has_values(argument):
        return None
    return str(argument.initial.options.get("matrix", ""))


def _scalar(argument: Argument, maker: ArrayMaker) -> int | float:
    if argument.value is None:
        raise SpecError(f"argument {argument.name!r} has neither a shape nor a value", "give it one of them")
    if argument.passing == "address" and "recording" not in maker.sizes:
        hint = "tuner record SPEC --build COMMAND -o SPEC records it"
        raise SpecError(f"what {argument.name!r} leads to is known from a recording alone", hint)
    return cast_scalar(argument.name, argument.value.evaluate(maker.env), dtype_of(argument))


def _shape(argument: Argument, env: Mapping[str, Value]) -> tuple[int, ...]:
    shape = tuple(extent.integer(env) for extent in argument.shape or ())
    if not shape or any(extent < 1 for extent in shape):
        raise SpecError(f"argument {argument.name!r} has shape {list(shape)}", "every extent is at least 1")
    if math.prod(shape) * dtype_of(argument).itemsize > _MAX_BYTES:
        raise SpecError(
            f"argument {argument.name!r} with shape {list(shape)} is too large", "use smaller sizes"
        )
    return shape


def _label(problem: Problem) -> str:
    return " ".join(f"{name}={value}" for name, value in problem.sizes.items()) or "the problem"
