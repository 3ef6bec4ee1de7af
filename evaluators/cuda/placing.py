"""Where buffers have to lie that were recorded with pointers to them: stretches of a slab at addresses of their own.

Computes addresses only. The driver maps memory in whole granules; what lies around buffers in one stretch is guard.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.core.types import Argument, Problem, Task

__all__ = ["Placed", "Stretch", "is_pinned", "place"]

_GRANULE = 2 << 20
"""The driver's granule on every device so far; it is asked for at no smaller one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes of a slab that lie at one address, or in a module's variable.

    Attributes:
        offset, size: in the slab.
        address: where the first of them lies; 0 for a variable.
        mapped: address and bytes of the whole granules around them.
        variable: its name; empty for memory.
    """

    offset: int
    size: int
    address: int = 0
    mapped: tuple[int, int] = (0, 0)
    variable: str = ""

    def to_json(self) -> dict[str, Any]:
        """For a device worker."""
        return {
            "offset": self.offset,
            "size": self.size,
            "address": self.address,
            "mapped": list(self.mapped),
            "variable": self.variable,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Offsets of buffers in a slab by name, its stretches, and its size."""

    offsets: Mapping[str, int]
    stretches: tuple[Stretch, ...]
    size: int


def is_pinned(task: Task) -> bool:
    """Whether any buffer has to lie at a recorded address or was recorded in a variable."""
    return any(
        a.address is not None or not (a.in_variable or a.passing in ("argument", "inside"))
        for a in task.arguments
    )


def place(task: Task, sizes: Mapping[str, int], problem: Problem, guard_bytes: int) -> Placed | None:
    """The layout of a slab whose buffers lie where they were recorded; ``None`` where they may lie anywhere.

    Args:
        task: whose arguments.
        sizes: bytes of every buffer.
        problem: the recording.
        guard_bytes: mirrored beside buffers where the granule leaves room.
    """
    if not is_pinned(task):
        return None
    offsets: dict[str, int] = {}
    stretches: list[Stretch] = []
    at = 0
    for group in _by_granules(task, sizes, problem):
        first = group[0][0]
        last = max(begin + size for begin, size, _ in group)
        start, end = first // _GRANULE * _GRANULE, -(-last // _GRANULE) * _GRANULE
        low, high = max(start, first - guard_bytes), min(end, last + guard_bytes)
        for begin, _, name in group:
            offsets[name] = at + begin - low
        stretches.append(Stretch(offset=at, size=high - low, address=low, mapped=(start, end - start)))
        at = _up(at + high - low)
    for argument in task.arguments:
        if argument.passing == "global":
            offsets[argument.name] = at
            stretches.append(Stretch(offset=at, size=sizes[argument.name], variable=argument.name))
            at = _up(at + sizes[argument.name])
    return Placed(offsets=offsets, stretches=tuple(stretches), size=max(4096, at))


def _by_granules(task: Task, sizes: Mapping[str, int], problem: Problem) -> list[list[tuple[int, int, str]]]:
    """Buffers as address, bytes and name; those whose granules meet are together."""
    placed = sorted(
        (_address(a, problem), sizes[a.name], a.name) for a in task.arguments if a.address is not None
    )
    groups: list[list[tuple[int, int, str]]] = []
    end = -1
    for begin, size, name in placed:
        if begin // _GRANULE * _GRANULE >= end:
            groups.append([])
        groups[-1].append((begin, size, name))
        end = max(end, -(-(begin + size) // _GRANULE) * _GRANULE)
    return groups


def _address(argument: Argument, problem: Problem) -> int:
    assert argument.address is not None
    return argument.address.integer(problem.sizes)


def _up(value: int) -> int:
    return -(-value // 4096) * 4096
