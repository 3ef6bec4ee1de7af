"""Which places of a function a step of a recipe is meant for: filters of operators' sites.

They look at loops and subscripts alone, and prove nothing: whether an edit is legal, its operator says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.search.cooking import Filter, sites_of
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.operators.base import body_of, sibling_after
from tuner.spaces.source.syntax import Assign, Block, Decl, For, Function, Index, Name
from tuner.spaces.source.walks import names_in, statements, subtrees, written_names

__all__ = [
    "all_axes",
    "depth",
    "distinct_parts",
    "in_rectangle",
    "innermost_ends",
    "longest",
    "most_arrays",
    "over_rows",
    "over_tiles",
    "ragged_outwards",
    "rectangular_inwards",
    "sum_inwards",
    "sum_outwards",
    "two_points",
]


def depth(count: int) -> Filter:
    """Sites of so many loops."""
    return lambda function, site: len(site.get("loops", ())) == count


def over_tiles(function: Function, site: Mapping[str, Any]) -> bool:
    """Whether all loops of a site run over tiles."""
    keys = set(site.get("loops", ()))
    return all(
        isinstance(n.step, Name) for n in statements(function.body) if isinstance(n, For) and n.key in keys
    )


def not_over_tiles(function: Function, site: Mapping[str, Any]) -> bool:
    """Whether no loop of a site runs over tiles."""
    keys = {site.get("loop"), *site.get("loops", ())}
    return not any(
        isinstance(n.step, Name) for n in statements(function.body) if isinstance(n, For) and n.key in keys
    )


def distinct_parts(function: Function, site: Mapping[str, Any]) -> bool:
    """Whether a split loop's parts share no value and, where neither holds a loop, write different arrays.

    Statements that add to one element in turn gain nothing apart: each part would go through the array again.
    """
    loop = next(n for n in statements(function.body) if isinstance(n, For) and n.key == site["loop"])
    body = body_of(loop)
    first, second = body[: site["at"]], body[site["at"] :]
    if not {s.name for s in first if isinstance(s, Decl)}.isdisjoint(names_in(second)):
        return False
    nested = any(isinstance(s, For) for s in statements(body))
    return nested or written_names(first).isdisjoint(written_names(second))


def two_points(function: Function, site: Mapping[str, Any]) -> bool:
    """Two loops over points."""
    return len(site.get("loops", ())) == 2 and not_over_tiles(function, site)


def sum_inwards(function: Function, site: Mapping[str, Any]) -> bool:
    """Whether swapping two loops moves the one that sums past one that moves on to other elements."""
    keys = list(site.get("loops", ()))
    nest = {n.key: n for n in statements(function.body) if isinstance(n, For) and n.key in keys}
    if len(nest) != 2:
        return False
    outer, inner = (nest[k] for k in keys)
    targets = [
        n.target for n in subtrees(inner.body) if isinstance(n, Assign) and isinstance(n.target, Index)
    ]
    return bool(targets) and all(outer.var not in names_in(t) and inner.var in names_in(t) for t in targets)


def sum_outwards(function: Function, site: Mapping[str, Any]) -> bool:
    """The other way round: afterwards the innermost loop has no sum to wait for."""
    return sum_inwards(function, {"loops": list(reversed(site.get("loops", ())))})


def in_rectangle(function: Function, site: Mapping[str, Any]) -> bool:
    """Whether no loop at or around a site, but one over tiles, has a bound that moves with another one of them."""
    keys = {site.get("loop"), *site.get("loops", ())}
    return not any(
        inner.var != outer.var and outer.var in names_in((inner.start, inner.limit))
        for path in _paths(function.body)
        if path[-1].key in keys
        for at, inner in enumerate(path)
        for outer in path[:at]
        if not isinstance(outer.step, Name)
    )


def _paths(body: Sequence[Any], around: tuple[For, ...] = ()) -> Iterator[tuple[For, ...]]:
    """Every loop with those around it, outermost first."""
    for stmt in body:
        if isinstance(stmt, For):
            yield (*around, stmt)
            yield from _paths(stmt.body, (*around, stmt))
        elif isinstance(stmt, Block):
            yield from _paths(stmt.body, around)


def rectangular_inwards(function: Function, site: Mapping[str, Any]) -> bool:
    """A swap that moves a sum inwards, in a nest without slopes."""
    return in_rectangle(function, site) and sum_inwards(function, site)


def ragged_outwards(function: Function, site: Mapping[str, Any]) -> bool:
    """A swap that moves a sum outwards, in a nest with slopes."""
    return not in_rectangle(function, site) and sum_outwards(function, site)


def over_rows(function: Function, site: Mapping[str, Any]) -> bool:
    """Whether the range of a loop inside depends on this one's counter, in one of the deepest nests."""
    keys = set(site.get("loops", ()))
    paths = list(_paths(function.body))
    deepest = max(map(len, paths), default=0)
    return any(
        outer.key in keys
        and not isinstance(outer.step, Name)
        and any(outer.var in names_in((inner.start, inner.limit)) for inner in path[at + 1 :])
        for path in paths
        if len(path) == deepest
        for at, outer in enumerate(path)
    )


def all_axes(function: Function, site: Mapping[str, Any]) -> bool:
    """All axes of the launch."""
    launch = function.launch
    return launch is not None and len(site.get("axes", ())) == len(launch.grid)


def most_arrays(function: Function, site: Mapping[str, Any]) -> bool:
    """Sites with more than one array."""
    return len(site.get("arrays", ())) > 1


def longest(function: Function, site: Mapping[str, Any]) -> bool:
    """Loops together with the one that follows them, where one does."""
    keys = site.get("loops", ())
    last = next((n for n in statements(function.body) if isinstance(n, For) and n.key == keys[-1]), None)
    return last is None or not isinstance(sibling_after(function, last), For)


def innermost_ends(function: Function, site: Mapping[str, Any]) -> bool:
    """Whether no loop inside has ends of its own to cut off."""
    keys = {s["loop"] for s in sites_of(OPERATORS["peel_ends"], function, False)}
    (loop,) = (n for n in statements(function.body) if isinstance(n, For) and n.key == site["loop"])
    return not any(isinstance(n, For) and n.key in keys for n in statements(loop.body))
