"""Sites and sizes for products over panels: which loops are tiled and blocked, and what of their sizes goes together.

They look at loops and subscripts alone, and prove nothing: whether an edit is legal, its operator says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.search.cooking import Refine
from tuner.search.sites import over_tiles
from tuner.spaces.source.affine import polynomial
from tuner.spaces.source.syntax import For, Function, Index, Name
from tuner.spaces.source.walks import index_chain, names_in, statements, subtrees

__all__ = ["panel_read", "rows_inwards", "sized", "sums_in_tiles", "untiled", "whole_blocks"]

Sizes = tuple[tuple[int, ...], int]
"""Values of a tunable and the one to begin with."""


def sized(*sizes: Sizes) -> Refine:
    """Other values for the first tunables of a site, in their order."""

    def refine(function: Function, site: Mapping[str, Any]) -> Mapping[str, Any]:
        own = list(site.get("parameters", ()))
        for number, (values, default) in enumerate(sizes[: len(own)]):
            own[number] = {**own[number], "values": list(values), "default": default}
        return {**site, "parameters": own}

    return refine


def whole_blocks(function: Function, site: Mapping[str, Any]) -> Mapping[str, Any]:
    """A site of vector_block over two loops in tiles, with sizes that divide the tiles."""
    rows, columns = (_tile_around(function, loop) for loop in _loops(function, site))
    row, vectors, lanes = (p["name"] for p in site["parameters"])
    fits = [f"{rows.step.id} % {row} == 0"] if rows is not None and isinstance(rows.step, Name) else []
    if columns is not None and isinstance(columns.step, Name):
        fits.append(f"{columns.step.id} % ({vectors} * {lanes}) == 0")
    return {**site, "fits": fits}


def untiled(function: Function, site: Mapping[str, Any]) -> bool:
    """Three loops, none of them over or in tiles, the innermost of which adds up."""
    loops = _loops(function, site)
    if len(loops) != 3 or any(isinstance(n.step, Name) or _tile_around(function, n) for n in loops):
        return False
    targets = [n.target for n in subtrees(loops[-1].body) if hasattr(n, "target")]
    return bool(targets) and all(loops[-1].var not in names_in(t) for t in targets)


def rows_inwards(function: Function, site: Mapping[str, Any]) -> bool:
    """A swap of loops over tiles whose outer one cuts the outermost loop over points."""
    if not over_tiles(function, site):
        return False
    outer = _loops(function, site)[0]
    points = [n for n in statements(outer.body) if isinstance(n, For) and not isinstance(n.step, Name)]
    return bool(points) and points[0].start == Name(outer.var)


def panel_read(function: Function, site: Mapping[str, Any]) -> bool:
    """What is read again for every tile of rows, copied so that columns are neighbours."""
    (loop,) = _loops(function, {"loops": [site["loop"]]})
    inner = next((n for n in loop.body if isinstance(n, For) and isinstance(n.step, Name)), None)
    if inner is None:
        return False
    points = [n for n in statements(inner.body) if isinstance(n, For) and not isinstance(n.step, Name)]
    reads = [n for n in subtrees(inner.body) if _reads(n, site["array"])]
    if len(points) < 2 or not reads or inner.var in names_in(reads[0]) or points[0].var in names_in(reads[0]):
        return False
    return (site["swap"] is True) != _is_next(reads[0], points[1].var)


def sums_in_tiles(function: Function, site: Mapping[str, Any]) -> bool:
    """Two loops over the points of tiles, with a loop in them."""
    loops = _loops(function, site)
    return (
        len(loops) == 2
        and all(_tile_around(function, n) is not None for n in loops)
        and any(isinstance(n, For) for n in loops[-1].body)
    )


def _loops(function: Function, site: Mapping[str, Any]) -> Sequence[For]:
    keys = list(site.get("loops", ()))
    found = {n.key: n for n in statements(function.body) if isinstance(n, For) and n.key in keys}
    return [found[k] for k in keys if k in found]


def _tile_around(function: Function, loop: For) -> For | None:
    """The loop over tiles that a loop over points begins at."""
    if not isinstance(loop.start, Name) or isinstance(loop.step, Name):
        return None
    return next(
        (
            n
            for n in statements(function.body)
            if isinstance(n, For) and n.var == loop.start.id and isinstance(n.step, Name)
        ),
        None,
    )


def _reads(node: Any, array: str) -> bool:
    return isinstance(node, Index) and index_chain(node)[0] == Name(array)


def _is_next(reference: Index, var: str) -> bool:
    """Whether the next value of a counter is the next element."""
    poly = polynomial(index_chain(reference)[1][-1], {var})
    return poly is not None and poly.get((var,)) == 1
