"""What a spec allows and hardly means: a macro that nothing names, a baseline that its constraints rule out.

Directives that are ignored here are such too. Says so in one line each; may not refuse anything.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence

from tuner.core.errors import SpecError
from tuner.core.expressions import Expression
from tuner.core.types import Task, Value
from tuner.spaces.checks import holds
from tuner.spec.tunables import Tunables

__all__ = ["doubts", "has_openmp"]

_LOOKED_AT = 1 << 14
"""Combinations of a constraint's own names that are tried; a larger constraint is not looked at."""

_WORD = re.compile(r"[A-Za-z_]\w*")

_DEFINED = re.compile(r"(?:^|\s)-[DU]\s*([A-Za-z_]\w*)")

_OPENMP = re.compile(
    r"^[ \t]*#[ \t]*pragma[ \t]+omp[ \t]+(?!simd\b|declare[ \t]+simd\b)[^\n\\]*", re.MULTILINE
)
"""OpenMP but for what -fopenmp-simd honours."""

_ASKS = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<omp\.h>", re.MULTILINE)


def doubts(task: Task, tunables: Tunables) -> tuple[str, ...]:
    """One line for each thing that is probably a slip.

    Args:
        task: of the spec.
        tunables: its space.
    """
    return (
        *_unused(task, tunables),
        *_ruled_out(tunables),
        *_not_computed(tunables),
        *_twice(tunables),
        *_ignored(task),
    )


def _unused(task: Task, tunables: Tunables) -> Iterator[str]:
    """Parameters whose every value gives the same candidate."""
    if task.backend == "recorded" or task.kernel.include:
        # What was recorded has no source, and headers outside the spec's folder are not read here.
        return
    named = {word for source in task.kernel.variant.files for word in _WORD.findall(source.text)}
    named |= set(_WORD.findall(task.kernel.entry + task.kernel.wrapper))
    named |= {word for parcel in task.kernel.parcels for word in _WORD.findall(parcel.kind)}
    for expression in _expressions(task):
        named |= expression.names
    for choices in tunables.flags.values():
        named |= {word for choice in choices for word in _WORD.findall(choice)}
    for parameter in tunables.parameters:
        if parameter.name not in named and len(parameter.values) > 1:
            where = "source, flags, launch or arguments" if task.launch else "source, flags or arguments"
            yield f"space.parameters.{parameter.name}: nothing in {where} names it, so it changes nothing"


def _expressions(task: Task) -> Iterator[Expression]:
    for argument in task.arguments:
        yield from argument.shape or ()
        if argument.value is not None:
            yield argument.value
    if task.launch is not None:
        yield from (*task.launch.grid, *task.launch.block)
        if task.launch.shared_bytes is not None:
            yield task.launch.shared_bytes


def _ruled_out(tunables: Tunables) -> Iterator[str]:
    """The baseline is the source with its defaults whether the constraints hold for them or not."""
    env: dict[str, Value] = {p.name: p.default for p in tunables.parameters}
    env |= {group: choices[0] for group, choices in tunables.flags.items()} | dict(tunables.sizes)
    for constraint in tunables.constraints:
        if not holds(constraint, env):
            values = ", ".join(f"{n} = {env[n]!r}" for n in sorted(constraint.names) if n in env)
            yield (
                f"space.constraints: {constraint.text!r} does not hold for the baseline ({values}), "
                "which is measured all the same; give defaults for which it holds to search around it"
            )


def _not_computed(tunables: Tunables) -> Iterator[str]:
    """A constraint that cannot be computed rules a combination out, which may not be what was meant."""
    values: dict[str, Sequence[Value]] = {p.name: p.values for p in tunables.parameters}
    values |= dict(tunables.flags) | {n: (size,) for n, size in tunables.sizes.items()}
    for constraint in tunables.constraints:
        names = sorted(constraint.names & set(values))
        total = math.prod(len(values[n]) for n in names)
        if total > _LOOKED_AT:
            continue
        reasons = [
            reason
            for combination in itertools.product(*(values[n] for n in names))
            if (reason := _reason(constraint, dict(zip(names, combination, strict=True))))
        ]
        if reasons:
            yield (
                f"space.constraints: {constraint.text!r} cannot be computed for {len(reasons):,} of {total:,} "
                f"combinations ({reasons[0]}), which are ruled out"
            )


def _twice(tunables: Tunables) -> Iterator[str]:
    """A macro that flags define as well: what the configuration says of it is not what is built."""
    macros = {p.name for p in tunables.parameters if p.macro}
    for group, choices in tunables.flags.items():
        for choice in choices:
            for name in _DEFINED.findall(choice):
                if name in macros:
                    yield f"space.flags.{group}: {choice!r} sets {name}, which is a parameter as well; rename one"


def _ignored(task: Task) -> Iterator[str]:
    """Directives of OpenMP: whoever builds the application with them measures against another baseline."""
    if task.backend != "host" or task.kernel.compiler is not None:
        # The build's own command says whether they count.
        return
    if task.kernel.openmp:
        yield from _of_teams(task)
        return
    for source in task.kernel.variant.files:
        found = _OPENMP.search(source.text)
        if found is not None:
            line = source.text.count("\n", 0, found.start()) + 1
            yield (
                f"{source.name}:{line}: {' '.join(found[0].split())!r} is ignored, and the baseline is one thread's; "
                "to have it honoured, write openmp: true under kernel and measure: {threads: …}"
            )


def _of_teams(task: Task) -> Iterator[str]:
    if task.measure.threads == 1:
        yield "measure.threads: 1 thread is a team of one; say how many the application has"
    if task.verify.rtol == 0 and task.verify.atol == 0:
        yield (
            "verify: rtol and atol are 0, and what several threads add up differs in its last bits from run to run; "
            "allow some, for example rtol: 1.0e-6"
        )


def has_openmp(text: str) -> bool:
    """Whether a source has directives that one thread's build ignores, or asks the OpenMP library something."""
    return bool(_OPENMP.search(text) or _ASKS.search(text))


def _reason(constraint: Expression, env: dict[str, Value]) -> str:
    try:
        constraint.evaluate(env)
    except SpecError as error:
        return " ".join(part for part in (error.message, error.hint) if part)
    return ""
