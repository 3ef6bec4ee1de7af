"""Small sizes to verify a launch with: odd where the kernel looks after the rest of a block, and few enough threads.

May not compile or run anything.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence

from tuner.core.errors import SpecError
from tuner.core.expressions import Expression, parse
from tuner.spec.first.host_arithmetic import Node, names_of, shown

__all__ = ["evaluated", "fitting_size", "in_memory", "small_sizes", "within"]

_ODD = (67, 129, 35, 41, 53, 75)
_ODD_OF_MANY = (17, 9, 5, 7, 11, 13)
"""Most of them are bounds of loops around one another."""
_FEW = 3
_WIDE = (64, 128, 32, 96, 160, 64)
_MOST_THREADS = 1 << 16
_MOST_ELEMENTS = 1 << 19
"""Half of what is emulated at most: inputs are scaled and shifted, and arrays of the host may be of doubles."""
_MOST_GIVEN = 1 << 28
"""Elements of all arrays of a problem: what a card holds and a host makes in a minute."""
_MOST_BYTES = 64 << 20
"""What the arguments of a host's kernel take together: a check makes them, and what they become, several times."""
_MOST_GROWN = 1 << 24
"""More than sizes are made larger for."""
_ROUNDS = 24


def small_sizes(
    sizes: Mapping[str, int | None],
    *,
    free: Collection[str],
    wide: bool,
    grid: Sequence[Node],
    block: Mapping[str, int],
    arrays: Sequence[Node],
) -> dict[str, int] | None:
    """One for each size; ``None`` where no blocks would be left with any.

    Args:
        sizes: names with the host's values; never more than these.
        free: those that need not be multiples of anything.
        wide: whether the kernel reads several elements at once, so that even the free ones are to be multiples.
        grid: blocks by axis.
        block: threads, under the names that the grid has for them.
        arrays: elements of each.
    """
    start = _WIDE if wide else _ODD if len(sizes) <= _FEW else _ODD_OF_MANY
    found = {
        name: start[i % len(start)] if name in free else 2 * max(block.values(), default=64)
        for i, name in enumerate(sizes)
    }
    found = {name: min(value, sizes[name] or value) for name, value in found.items()}
    for _ in range(_ROUNDS):
        work = _work(grid, block, arrays, found)
        if work is None:
            return None
        if work[0] < 1:
            grown = {n: min(2 * v, sizes[n] or 2 * v) for n, v in found.items() if n not in free}
            if all(found[name] == value or value > _MOST_THREADS for name, value in grown.items()):
                return None
            found.update(grown)
            continue
        if work[1] <= _MOST_THREADS and work[2] <= _MOST_ELEMENTS:
            break
        # Multiples only where the others are small, and as long as there are blocks and elements.
        for name in sorted(found, key=lambda n: (n in free, found[n]), reverse=True):
            # Half of an odd one, and odd again.
            half = found[name] // 2 if wide or name not in free else found[name] // 2 | 1
            less = _work(grid, block, arrays, {**found, name: half})
            if found[name] > (32 if wide else 3) and less and less[0] >= 1 and less[1:] < work[1:]:
                found[name] = half
                break
        else:
            break
    return found


def _work(
    grid: Sequence[Node], block: Mapping[str, int], arrays: Sequence[Node], sizes: Mapping[str, int]
) -> tuple[float, float, float] | None:
    """Blocks along an axis or elements of an array, the fewest; threads; elements of all arrays."""
    blocks, elements = (evaluated(nodes, {**block, **sizes}) for nodes in (grid, arrays))
    if blocks is None or elements is None:
        return None
    return min([*blocks, *elements], default=1), math.prod(blocks) * math.prod(block.values()), sum(elements)


def fitting_size(
    size: int, unknown: Collection[str], known: Mapping[str, int], arrays: Sequence[str], whole: Sequence[str]
) -> int:
    """One size for those of which nothing is known, halved until arrays and whole numbers made of it are possible.

    Args:
        size: to begin with.
        unknown: names that get it.
        known: other sizes.
        arrays: elements of each, as a spec has them.
        whole: expressions whose values are to fit an ``int32``.
    """
    while size > 1:
        values = {**known, **dict.fromkeys(unknown, size)}
        elements, numbers = _values(arrays, values), _values(whole, values)
        if sum(elements) <= _MOST_GIVEN and all(abs(number) < 1 << 31 for number in numbers):
            break
        size //= 2
    return size


def within(
    sizes: Mapping[str, int], limits: Collection[tuple[str, str]], known: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The sizes, smaller where something else would reach further than it may; larger where that cannot be mended so.

    Args:
        sizes: by name.
        limits: how far something reaches and how far it may, as expressions of sizes; what both depend on stays.
        known: numbers that stay as they are, of sizes too.

    >>> within({"n": 2048, "m": 100}, [("n + 1", "40"), ("2 * m", "n")])
    {'n': 39, 'm': 19}
    >>> within({"n": 10, "m": 100}, [("m + 12 + k", "n"), ("7", "n")], {"k": -1})
    {'n': 12, 'm': 1}
    """
    known = known or {}
    found = {**sizes, **known}
    parts = [(parse(reached), parse(most)) for reached, most in sorted(limits)]
    parts = [(r, m) for r, m in parts if r.names | m.names <= found.keys()]
    # What cannot be made smaller first: nothing may grow past another limit.
    parts.sort(key=lambda part: bool(part[0].names - part[1].names))
    for _ in range(_ROUNDS):
        before = dict(found)
        for reached, most in parts:
            _mend(found, known, reached, most)
        if found == before:
            break
    return {name: found[name] for name in sizes}


def _mend(sizes: dict[str, int], known: Collection[str], reached: Expression, most: Expression) -> None:
    """Makes the largest sizes smaller that only say how far something reaches; else one larger of the others."""

    def fits(**changed: int) -> bool:
        values = {**sizes, **changed}
        return reached.evaluate(values) <= most.evaluate(values)

    def capped(cap: int) -> dict[str, int]:
        return {name: min(sizes[name], cap) for name in reached.names.difference(most.names, known)}

    if not fits():
        caps = range(2, max((sizes[name] for name in capped(1)), default=2))
        sizes |= capped(1 + bisect_left(caps, True, key=lambda cap: not fits(**capped(cap))))
    for name in sorted(most.names.difference(reached.names, known)):
        if not fits():
            grown = bisect_left(range(_MOST_GROWN), True, key=lambda size: fits(**{name: size}))
            sizes |= {name: grown} if grown < _MOST_GROWN else {}


def in_memory(sizes: Mapping[str, int], arrays: Sequence[str]) -> dict[str, int]:
    """The sizes, of which the largest are halved until all arrays fit.

    Args:
        sizes: by name.
        arrays: bytes of each, as expressions of sizes.

    >>> in_memory({"n": 4096, "m": 64}, ["8 * n * n * n", "8 * m"])
    {'n': 128, 'm': 64}
    """
    found = dict(sizes)
    while (taken := sum(_values(arrays, found))) > _MOST_BYTES:
        halved = {name: {**found, name: size // 2} for name, size in found.items() if size > 1}
        moving = [name for name, less in halved.items() if sum(_values(arrays, less)) < taken]
        if not moving:
            break
        largest = max(moving, key=lambda name: found[name])
        found[largest] //= 2
    return found


def _values(texts: Sequence[str], values: Mapping[str, int]) -> list[float]:
    """What those expressions are that name nothing else."""
    parts = [parse(text) for text in texts]
    return [float(part.evaluate(values)) for part in parts if part.names <= values.keys()]


def evaluated(nodes: Sequence[Node], values: Mapping[str, int]) -> list[float] | None:
    """What the expressions are, other names being 64; ``None`` where one is none."""
    found = []
    for node in nodes:
        try:
            found.append(float(parse(shown(node)).evaluate({**dict.fromkeys(names_of(node), 64), **values})))
        except (SpecError, ArithmeticError, KeyError):
            return None
    return found
