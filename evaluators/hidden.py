"""Made-up problem sizes, so that a candidate written for the sizes in the spec is found out.

Chooses sizes only; what is possible for a task is the caller's to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from tuner.core.errors import SpecError
from tuner.core.types import Problem, Task, Value

__all__ = ["hidden_sizes"]

_TRIES = 2000
_LARGEST = 200
_FAVOURITES = tuple(
    n for n in range(1, _LARGEST) if n == 1 or all(n % d for d in range(2, math.isqrt(n) + 1))
)


def hidden_sizes(
    task: Task,
    rng: np.random.Generator,
    count: int,
    *,
    scalars: Mapping[str, Value],
    bytes_of: Callable[[Problem], int | None],
) -> tuple[Problem, ...]:
    """See :func:`tuner.evaluators.workloads.hidden_sizes`.

    Args:
        task: whose ``verify.assume`` bounds the sizes.
        rng: what the sizes follow from.
        count: how many at most.
        scalars: further names of the assumptions.
        bytes_of: the bytes of all arrays of a problem, ``None`` for one that cannot be.
    """
    if not task.verify.assume:
        return ()
    main = task.problems[0]
    named = frozenset().union(*(assumption.names for assumption in task.verify.assume))
    free = [name for name, value in main.sizes.items() if name in named and value > 1]
    limit = bytes_of(main)
    taken = {tuple(sorted(p.sizes.items())) for p in (*task.problems, *task.verify.problems)}
    chosen: list[Problem] = []
    for attempt in range(_TRIES if free and limit is not None else 0):
        if len(chosen) >= count:
            break
        sizes = dict(main.sizes)
        sizes.update(_draw({name: main.sizes[name] for name in free}, rng, attempt))
        key = tuple(sorted(sizes.items()))
        if key in taken or not _assumed(task, {**scalars, **sizes}):
            continue
        problem = Problem(sizes=sizes)
        size = bytes_of(problem)
        if size is not None and limit is not None and size <= limit:
            taken.add(key)
            chosen.append(problem)
    return tuple(chosen)


def _draw(main: Mapping[str, int], rng: np.random.Generator, attempt: int) -> dict[str, int]:
    """Primes first; then, for assumptions that primes cannot meet, multiples, equal sizes and shares of the main."""
    manner = 0 if attempt < _TRIES // 4 else attempt % 4
    if manner == 2:
        same = int(rng.integers(1, _LARGEST))
        return {name: min(same, value) for name, value in main.items()}
    if manner == 3:
        share = int(rng.integers(2, 65))
        return {name: max(1, value // share) for name, value in main.items()}
    sizes = {}
    for name, value in main.items():
        largest = min(value, _LARGEST)
        if manner == 0:
            fitting = [n for n in _FAVOURITES if n <= largest]
            sizes[name] = int(fitting[int(rng.integers(len(fitting)))])
        else:
            unit = 1 << int(rng.integers(0, max(1, min(value, 8 * _LARGEST).bit_length())))
            most = max(1, min(value, max(largest, 3 * unit)) // unit)
            sizes[name] = min(value, unit * int(rng.integers(1, most + 1)))
    return sizes


def _assumed(task: Task, env: Mapping[str, Value]) -> bool:
    try:
        return all(bool(assumption.evaluate(env)) for assumption in task.verify.assume)
    except SpecError:
        return False
