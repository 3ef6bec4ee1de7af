"""Which elements of an array a group of items reads together in a loop, so that they may go through shared memory.

May not change a tree.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.core.polynomials import Polynomial
from tuner.spaces.source.affine import polynomial
from tuner.spaces.source.operators.base import Refused, fresh_name
from tuner.spaces.source.operators.devices.guards import is_always_read
from tuner.spaces.source.operators.devices.threads import Threads, filled, read_only
from tuner.spaces.source.syntax import Expr, For, Function, Index, Name
from tuner.spaces.source.walks import index_chain, names_in, subtrees, written_names

__all__ = ["Tile", "find_tile", "is_tile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One array's part that goes through shared memory.

    Attributes:
        array: the parameter.
        read: the access as it stands.
        subscript: of the access, with the kernel's own constants filled in.
        axis: along which items read different rows; ``None`` where all read the same.
        along: whether neighbouring elements lie along the loop, not along the axis.
        name: of the shared array.
        element: its element type.
    """

    array: str
    read: Index
    subscript: Expr
    axis: int | None
    along: bool
    name: str
    element: str


def find_tile(function: Function, threads: Threads, loop: For, array: str, taken: list[str]) -> Tile:
    """The part of an array that a loop of all items reads at one place, in every iteration.

    Raises:
        Refused: there is none, or its items do not share it.
    """
    element = read_only(function).get(array)
    if element is None:
        raise Refused(f"{array} is not only read")
    found = {n for n in subtrees(loop.body) if isinstance(n, Index) and index_chain(n)[0] == Name(array)}
    if len(found) != 1:
        raise Refused(f"{array} is not read at one place in loop {loop.key}")
    read = found.pop()
    subscript = filled(threads, read.index)
    ids = {name: axis for axis, name in threads.ids.items()}
    poly = polynomial(subscript, {loop.var, *ids})
    changing = written_names(threads.body) - {loop.var}
    if poly is None or not names_in(subscript).isdisjoint(changing) or loop.var in written_names(loop.body):
        raise Refused(f"the subscript of {array} is no polynomial of sizes and places")
    if not is_always_read(loop.body, read):
        raise Refused(f"{array} is not read in every iteration of loop {loop.key}")
    axis, along = _direction(poly, loop.var, ids, array)
    if axis is not None:
        _require_apart(threads, threads.ids[axis], array)
    return Tile(
        array=array,
        read=read,
        subscript=subscript,
        axis=axis,
        along=along,
        name=fresh_name(function, f"{array}_tile", taken),
        element=element,
    )


def _require_apart(threads: Threads, name: str, array: str) -> None:
    """Refuses conditions on a place and another one together: of the place alone they do not say where it ends."""
    others = set(threads.ids.values()) - {name}
    for condition in threads.conditions:
        names = names_in(filled(threads, condition))
        if name in names and not others.isdisjoint(names):
            raise Refused(f"which rows of {array} there are depends on two places together")


def _direction(poly: Polynomial, counter: str, ids: dict[str, int], array: str) -> tuple[int | None, bool]:
    moving = {counter, *ids}
    if any(sum(name in moving for name in monomial) > 1 for monomial in poly):
        raise Refused(f"places are multiplied in the subscript of {array}")
    used = [name for name in ids if any(name in monomial for monomial in poly)]
    if not any(counter in monomial for monomial in poly) or len(used) > 1:
        raise Refused(f"the items of a group do not share elements of {array}")
    if not used:
        return None, True
    along = poly.get((counter,)) == 1
    if not along and poly.get((used[0],)) != 1:
        raise Refused(f"no neighbouring elements of {array} are read")
    return ids[used[0]], along


def is_tile(expr: Expr, tiles: set[str]) -> bool:
    """Whether an expression is an element of one of the shared arrays of these names."""
    base, subscripts = index_chain(expr)
    return bool(subscripts) and isinstance(base, Name) and base.id in tiles
