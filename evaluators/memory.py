"""Whether what a verification keeps in memory fits this machine, said before anything is made.

A kernel that asks for too much would ask the machine's own killer, which takes any process and says nothing. Reckons
low: what is refused could not have ended well. May not make any array.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.core.errors import MachineError
from tuner.core.types import ArgumentRole, Task, Value
from tuner.evaluators.distributions import dtype_of
from tuner.evaluators.workloads import Plan

__all__ = ["available_bytes", "needed_bytes", "require_memory", "said_bytes"]

_READ = {False: 2, True: 4}
"""How often an input is kept: its values, their sealed copy; both wider for a reference in double precision."""
_WRITTEN = {False: 3, True: 4}
"""How often an output is: its memory, and what two runs and the reference give; measured at 6 of 48 to 160 MB."""
_UNLIMITED = "max"


def require_memory(task: Task, plans: Sequence[Plan], runtime: Mapping[str, Value], *, doubled: bool) -> None:
    """Raises where the workloads of a verification cannot be in memory together.

    Args:
        task: what is tuned.
        plans: its workloads.
        runtime: further names of the shapes.
        doubled: whether they are made again in double precision.

    Raises:
        MachineError: they do not fit.
    """
    needed, there = needed_bytes(task, plans, runtime, doubled=doubled), available_bytes()
    if there is None or needed <= there:
        return
    largest = max(plans, key=lambda p: needed_bytes(task, [p], runtime, doubled=doubled))
    sizes = " ".join(f"{name}={value}" for name, value in largest.problem.sizes.items())
    raise MachineError(
        f"verifying at {sizes or 'this size'} takes {said_bytes(needed)} of memory or more "
        f"({len(plans)} sets of inputs and what they give), and {said_bytes(there)} are free",
        "make the problem smaller, or run where there is more memory",
    )


def needed_bytes(task: Task, plans: Sequence[Plan], runtime: Mapping[str, Value], *, doubled: bool) -> int:
    """Bytes that workloads, their copies and what they give take at least; arguments as :func:`require_memory`."""
    total = 0
    for plan in plans:
        env = {**runtime, **plan.problem.sizes}
        for argument in task.arguments:
            kind = argument.initial.kind
            if not argument.is_array or kind == "recording":
                # Recorded pages that nobody touched take nothing.
                continue
            size = math.prod(e.integer(env) for e in argument.shape or ()) * dtype_of(argument).itemsize
            if argument.role in (ArgumentRole.INPUT, ArgumentRole.INOUT) and kind != "zeros":
                total += _READ[doubled] * size
            if argument.role in (ArgumentRole.OUTPUT, ArgumentRole.INOUT):
                total += _WRITTEN[doubled] * size
    return total


def available_bytes() -> int | None:
    """Memory that this process may still take: of the machine, and of the container it runs in; ``None``: unknown."""
    found = [_of_machine(), *map(_of_group, _groups())]
    known = [size for size in found if size is not None]
    return min(known) if known else None


def said_bytes(size: int) -> str:
    """A size for people.

    >>> said_bytes(3 << 30), said_bytes(200 << 20)
    ('3.0 GiB', '200 MiB')
    """
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.0f} MiB"


def _of_machine() -> int | None:
    for line in (_text(Path("/proc/meminfo")) or "").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) << 10
    return None


def _groups() -> list[Path]:
    """The control groups that this process is in, where there is version 2 of them."""
    for line in (_text(Path("/proc/self/cgroup")) or "").splitlines():
        if line.startswith("0::/"):
            own = Path("/sys/fs/cgroup") / line[4:]
            return [own, *(p for p in own.parents if len(p.parts) > 3)]
    return []


def _of_group(folder: Path) -> int | None:
    most, taken = _text(folder / "memory.max"), _text(folder / "memory.current")
    if most is None or taken is None or most.strip() == _UNLIMITED:
        return None
    return max(0, int(most) - int(taken))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
