"""How many work-items (threads) there are: grid-stride loops and sizes of groups.

Each changes the launch with the source. May not judge what is fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tuner.core.types import Launch
from tuner.spaces.source.operators.base import (
    DEVICE,
    Args,
    Keys,
    Refused,
    Site,
    argument,
    define,
    knowing_members,
    parameter,
)
from tuner.spaces.source.operators.devices.guards import (
    differing,
    is_harmless,
    limits_of,
    loses_sign,
    may_be_negative,
    reaches,
)
from tuner.spaces.source.operators.devices.threads import (
    AXES,
    Threads,
    coordinate,
    dims_of,
    filled,
    launch_of,
    numbered,
    read_threads,
    uniform_names,
    with_launch,
)
from tuner.spaces.source.syntax import Binary, Expr, For, Function, If, Name, Number, Stmt
from tuner.spaces.source.walks import names_in, subtrees, written_names

__all__ = ["OPERATORS"]

_STRIDES = (1, 2, 4, 8, 16)
_BLOCKS = {1: (32, 64, 128, 256, 512), 2: (4, 8, 16, 32)}
_MOST_ITEMS = {"opencl": 256, "cuda": 1024}


def grid_stride(function: Function, args: Args) -> Function:
    """Lets every item go on with the item that is as far away as there are items, until the problem is done.

    Args:
        function: a kernel whose items end early from a limit on.
        args: ``axis``; one of ``parameters``.
    """
    axis = argument(args, "axis", int)
    threads = read_threads(function)
    if axis not in threads.ids:
        raise Refused(f"no variable numbers the items along axis {axis}")
    made, (count,) = define(function, args, 1)
    name, kind = threads.ids[axis], threads.kinds[axis]
    limit = _limit(function, threads, axis)
    others = [c for c in threads.conditions if c != Binary("<", Name(name), limit)]
    moved = differing(threads.before, {name})
    inner: tuple[Stmt, ...] = tuple(s for s in threads.before if s.name in moved)
    body: tuple[Stmt, ...] = threads.body
    for condition in reversed(others):
        body = (If(condition, body),)
    language = function.language
    step, first = coordinate(language, "total", axis), coordinate(language, "global", axis)
    loop = For(Keys(made).new(name), kind, name, first, "<", limit, step, (*inner, *body))
    ids = numbered(language, threads, but=axis)
    before = [s for s in threads.before if s.name not in moved]
    launch = launch_of(function)
    grid = [e.text for e in launch.grid]
    grid[axis] = f"ceil(({grid[axis]}) / {count.id})"
    return with_launch(replace(made, body=(*ids, *before, loop)), grid=grid)


def _limit(function: Function, threads: Threads, axis: int) -> Expr:
    """What the number of an item along an axis is below, the same from the first item to the last."""
    name = threads.ids[axis]
    limits = [
        c.right
        for c in threads.conditions
        if isinstance(c, Binary) and c.op == "<" and c.left == Name(name) and name not in names_in(c.right)
    ]
    if len(limits) != 1:
        raise Refused(f"{name} has no one limit")
    uniform = uniform_names(function)
    constant = uniform | {d.name for d in threads.before if names_in(d.init) <= uniform}
    if not is_harmless(limits[0], constant) or not names_in(limits[0]) <= constant:
        raise Refused(f"the limit of {name} is not the same for all items")
    changed = {p.name for p in function.params if not p.is_array} & written_names(threads.body)
    if changed:
        raise Refused(f"{min(changed)} changes from one item to the next")
    _require_reached(function, threads, axis, launch_of(function))
    return limits[0]


def _require_reached(
    function: Function,
    threads: Threads,
    axis: int,
    launch: Launch,
    fixed: Mapping[str, Sequence[int]] | None = None,
) -> None:
    """Refuses a launch without some of the items that the conditions let work: others have more of them."""
    name, wraps = threads.ids[axis], False
    for condition in threads.conditions:
        plain = filled(threads, condition)
        signless = loses_sign(function, condition) or loses_sign(function, plain)
        for limit in limits_of([plain], name):
            if signless and may_be_negative(limit):
                wraps = True
            elif reaches(function, launch, axis, limit, fixed or {}):
                return
    if wraps:
        # Every item that is launched works then, and no more are: a launch of others would have more of them do so.
        raise Refused(f"the limit of {name} may be below zero, where a number without a sign is very large")
    raise Refused(f"not every {name} that the kernel works on is launched")


def block_size(function: Function, args: Args) -> Function:
    """Makes the size of a group a tunable where the kernel does not count on it.

    Args:
        function: a kernel whose grid is ``ceil(… / block)`` along the axis.
        args: ``axis``; one of ``parameters``.
    """
    axis = argument(args, "axis", int)
    launch = launch_of(function)
    if not 0 <= axis < len(launch.block):
        raise Refused(f"the launch has no axis {axis}")
    old, grid = launch.block[axis].text, [e.text for e in launch.grid]
    found = re.fullmatch(rf"ceil\((.+)/\s*\(?{re.escape(old)}\)?\s*\)", grid[axis])
    if found is None:
        raise Refused(f"the grid is not a number of items over {old!r}")
    threads = read_threads(function)
    if axis not in threads.ids:
        raise Refused(f"no variable numbers the items along axis {axis}")
    _require_reached(function, threads, axis, launch)
    words = {
        n.text if isinstance(n, Number) else n.id
        for n in subtrees(function.body)
        if isinstance(n, Number | Name)
    }
    if old in words or re.search(rf"\b{re.escape(old)}\b", function.head):
        raise Refused(f"the kernel counts on groups of {old}")
    made, (size,) = define(function, args, 1)
    name = size.id
    grid[axis] = f"ceil({found[1].strip()} / {name})"
    block = [name if i == axis else e.text for i, e in enumerate(launch.block)]
    made = with_launch(made, grid=grid, block=block)
    values = next(p["values"] for p in args["parameters"] if p["name"] == name)
    _require_reached(function, threads, axis, launch_of(made), {name: values})
    return made


def _axis_sites(function: Function, stem: str, values: Sequence[int], default: int) -> Iterator[Site]:
    if function.launch is None or not function.whole:
        return
    for axis in range(dims_of(function)):
        found = parameter(function, f"{stem}_{AXES[axis]}", values, default)
        yield {"axis": axis, "parameters": [found]}


def _stride_sites(function: Function, _: bool) -> Iterator[Site]:
    yield from _axis_sites(function, "STRIDE", _STRIDES, 4)


def _block_sites(function: Function, _: bool) -> Iterator[Site]:
    launch = function.launch
    if launch is None:
        return
    values = _BLOCKS[1 if len(launch.block) == 1 else 2]
    for site in _axis_sites(function, "BLOCK", values, values[len(values) // 2]):
        name = site["parameters"][0]["name"]
        texts = [name if i == site["axis"] else e.text for i, e in enumerate(launch.block)]
        most = _MOST_ITEMS.get(function.language, 256)
        yield site | {"constraints": [f"{' * '.join(f'({t})' for t in texts)} <= {most}"]}


OPERATORS = (
    knowing_members(grid_stride, _stride_sites, "lets fewer items stride over the problem", languages=DEVICE),
    knowing_members(block_size, _block_sites, "makes the size of a group a tunable", languages=DEVICE),
)
