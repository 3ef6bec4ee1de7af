"""Sequences of source transformations that are worth little alone and much together.

A recipe is tried step by step; a step that does not apply anywhere is left out. May not judge speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from tuner.spaces.source.edits import Edit, apply_edit, assumptions, names_elsewhere, renamed
from tuner.spaces.source.operators import OPERATORS, Refused
from tuner.spaces.source.operators.base import DEVICE
from tuner.spaces.source.regions import Program
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Block,
    For,
    Function,
    Index,
    Name,
    names_in,
    statements,
    subtrees,
)

__all__ = ["DEVICE_RECIPES", "RECIPES", "Attempt", "Step", "cook", "recipes_for", "try_operator"]

_SITES_TRIED = 12
_REPEATS = 6
_MOST_HINTS = 16
_MOST_LOOPS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A program on its way.

    Attributes:
        program: as it is now.
        edits: that were added.
        rng: the only source of chance.
        reassociate: whether floating-point sums may be added up in another order.
    """

    program: Program
    edits: tuple[Edit, ...]
    rng: np.random.Generator
    reassociate: bool


Filter = Callable[[Function, Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a recipe.

    Attributes:
        operators: the first that applies is used.
        wanted: which of its sites.
        everywhere: repeat until it applies nowhere, else once.
        most: repetitions at most.
        chance: of being tried at all.
        needed: whether the recipe is nothing without it.
        rests: whether it is for loops over what whole blocks leave over.
    """

    operators: tuple[str, ...]
    wanted: Filter = lambda function, site: True
    everywhere: bool = False
    most: int = _REPEATS
    chance: float = 1.0
    needed: bool = False
    rests: bool = False


def try_operator(
    attempt: Attempt, name: str, wanted: Filter | None = None, *, rests: bool = False
) -> Attempt | None:
    """One operator at a random place where it applies; ``None`` where it applies nowhere.

    Args:
        attempt: so far.
        name: of the operator.
        wanted: which sites.
        rests: at loops over what whole blocks leave over, where nothing else is done otherwise.
    """
    found: list[tuple[str, dict[str, Any]]] = []
    operator = OPERATORS[name]
    if attempt.program.language not in operator.languages:
        return None
    for label, function in attempt.program.functions.items():
        if sum(isinstance(n, For) for n in statements(function.body)) > _MOST_LOOPS:
            continue
        over = _finished_keys(function)
        left = _rest_keys(function)
        for site in operator.sites(function, attempt.reassociate):
            keys = {site.get("loop"), *site.get("loops", ())}
            at_rest = not keys.isdisjoint(left)
            if keys.isdisjoint(over) and at_rest == rests and (wanted is None or wanted(function, site)):
                found.append((label, site))
    for at in attempt.rng.permutation(len(found))[:_SITES_TRIED]:
        label, site = found[int(at)]
        edit: dict[str, Any] = {"op": name, "function": label, **site}
        if attempt.program.language in ("c++", "cuda") and name == "restrict":
            edit["language"] = "c++"
        edit = dict(renamed(edit, names_elsewhere(attempt.program, label)))
        assumed = assumptions(attempt.program, edit)
        if assumed:
            edit["assumes"] = assumed
        try:
            program = apply_edit(attempt.program, edit)
        except Refused:
            continue
        return replace(attempt, program=program, edits=(*attempt.edits, edit))
    return None


def cook(steps: Sequence[Step], attempt: Attempt) -> Attempt | None:
    """A recipe from its first step to its last; ``None`` where a step that it needs applies nowhere."""
    for step in steps:
        if step.chance < 1.0 and attempt.rng.random() >= step.chance:
            continue
        for number in range(step.most if step.everywhere else 1):
            made = None
            for name in step.operators:
                made = try_operator(attempt, name, step.wanted, rests=step.rests)
                if made is not None:
                    break
            if made is None:
                if step.needed and not number:
                    return None
                break
            attempt = made
    return attempt


def _finished_keys(function: Function) -> set[str]:
    """Loops not worth an edit of their own, because they are unrolled to nothing."""
    found: set[str] = set()
    for node in statements(function.body):
        if isinstance(node, For) and _is_unrolled(node):
            found |= {n.key for n in statements((node,)) if isinstance(n, For)}
    return found


def _rest_keys(function: Function) -> set[str]:
    """Loops over what whole blocks leave over, and those inside them."""
    found: set[str] = set()
    for node in statements(function.body):
        if isinstance(node, For) and _is_rest(node):
            found |= {n.key for n in statements((node,)) if isinstance(n, For)}
    return found


def _is_unrolled(loop: For) -> bool:
    return any("unroll(full)" in p or p == "unroll" for p in loop.pragmas)


def _is_rest(loop: For) -> bool:
    return (
        isinstance(loop.start, Binary) and isinstance(loop.start.right, Binary) and loop.start.right.op == "%"
    )


def _depth(count: int) -> Filter:
    return lambda function, site: len(site.get("loops", ())) == count


def _over_tiles(function: Function, site: Mapping[str, Any]) -> bool:
    keys = set(site.get("loops", ()))
    return all(
        isinstance(n.step, Name) for n in statements(function.body) if isinstance(n, For) and n.key in keys
    )


def _not_over_tiles(function: Function, site: Mapping[str, Any]) -> bool:
    keys = {site.get("loop"), *site.get("loops", ())}
    return not any(
        isinstance(n.step, Name) for n in statements(function.body) if isinstance(n, For) and n.key in keys
    )


def _two_points(function: Function, site: Mapping[str, Any]) -> bool:
    return len(site.get("loops", ())) == 2 and _not_over_tiles(function, site)


_PERFECT = (
    Step(operators=("accumulate_in_place",), everywhere=True),
    Step(operators=("fission",), everywhere=True),
)


def _sum_inwards(function: Function, site: Mapping[str, Any]) -> bool:
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


def _sum_outwards(function: Function, site: Mapping[str, Any]) -> bool:
    """The other way round: afterwards the innermost loop has no sum to wait for."""
    return _sum_inwards(function, {"loops": list(reversed(site.get("loops", ())))})


def _in_rectangle(function: Function, site: Mapping[str, Any]) -> bool:
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


def _rectangular_inwards(function: Function, site: Mapping[str, Any]) -> bool:
    return _in_rectangle(function, site) and _sum_inwards(function, site)


def _ragged_outwards(function: Function, site: Mapping[str, Any]) -> bool:
    return not _in_rectangle(function, site) and _sum_outwards(function, site)


def _over_rows(function: Function, site: Mapping[str, Any]) -> bool:
    """Whether the range of a loop inside depends on this one's counter."""
    keys = set(site.get("loops", ()))
    return any(
        n.var in names_in((m.start, m.limit))
        for n in statements(function.body)
        if isinstance(n, For) and n.key in keys and not isinstance(n.step, Name)
        for m in statements(n.body)
        if isinstance(m, For)
    )


# Without it the compiler keeps every value of a block in memory, because a store might change the others.
_TOLD = (Step(operators=("restrict",), chance=0.9),)

_BLOCKED = (
    Step(operators=("vector_block", "register_block"), wanted=_two_points, everywhere=True, needed=True),
    # Sizes that blocks do not divide leave much over: narrower blocks of it.
    Step(operators=("vector_block",), everywhere=True, chance=0.4, rests=True),
    *_TOLD,
)

_ALONG = (
    Step(operators=("vectorize",), everywhere=True, most=_MOST_HINTS, chance=0.8),
    *_TOLD,
)

RECIPES: Mapping[str, Sequence[Step]] = MappingProxyType(
    {
        # Tiles in cache, one of them packed, blocks in registers: what makes a matrix product fast.
        "blocked_product": (
            *_PERFECT,
            Step(operators=("tile",), wanted=_depth(3), needed=True),
            Step(operators=("interchange",), wanted=_over_tiles, chance=0.7),
            Step(operators=("interchange",), wanted=_over_tiles, chance=0.7),
            Step(operators=("scalar_replace",), everywhere=True),
            Step(operators=("pack",), chance=0.8),
            *_BLOCKED,
        ),
        "register_product": (
            Step(operators=("scalar_replace",), everywhere=True, chance=0.5),
            *_BLOCKED,
        ),
        "split_product": (
            *_PERFECT,
            Step(operators=("scalar_replace",), everywhere=True),
            *_BLOCKED,
        ),
        "reordered": (
            *_PERFECT,
            Step(operators=("interchange",), needed=True),
            Step(operators=("interchange",), chance=0.5),
            Step(operators=("unroll_and_jam", "scalar_replace"), chance=0.7),
            Step(operators=("vectorize",), chance=0.5),
            *_TOLD,
        ),
        # The sum innermost, its element in a register, then a block of such sums.
        "inner_product": (
            *_PERFECT,
            Step(operators=("interchange",), wanted=_sum_inwards, everywhere=True),
            Step(operators=("scalar_replace",), everywhere=True),
            *_BLOCKED,
        ),
        # Rectangles cut off the triangles, so that blocks fit.
        "triangle_product": (
            *_PERFECT,
            Step(operators=("strip_mine",), wanted=_over_rows, needed=True),
            Step(operators=("square",), everywhere=True, needed=True),
            *_PERFECT,
            Step(operators=("interchange",), wanted=_rectangular_inwards, everywhere=True),
            Step(operators=("interchange",), wanted=_ragged_outwards, everywhere=True),
            Step(operators=("scalar_replace",), wanted=_in_rectangle, everywhere=True),
            *_BLOCKED,
            Step(operators=("vectorize",), everywhere=True, most=_MOST_HINTS, chance=0.5),
        ),
        # No sum innermost: vectors run along the elements.
        "outer_product": (
            *_PERFECT,
            Step(operators=("interchange",), wanted=_sum_outwards, everywhere=True, needed=True),
            *_ALONG,
        ),
        "swept": (
            Step(operators=("sweep",), everywhere=True, needed=True),
            Step(operators=("interchange",), wanted=_sum_outwards, everywhere=True),
            *_ALONG,
        ),
        "untied": (
            Step(operators=("split_around",), everywhere=True, needed=True),
            Step(operators=("if_convert",), everywhere=True, most=_MOST_HINTS),
            *_ALONG,
        ),
        "many_sums": (Step(operators=("partial_sums",), everywhere=True, needed=True), *_TOLD),
        "reordered_sums": (
            Step(operators=("accumulate_in_place",), everywhere=True, chance=0.5),
            Step(operators=("scalar_replace",), everywhere=True),
            Step(operators=("partial_sums",), everywhere=True, needed=True),
            *_TOLD,
        ),
        "inner_sums": (
            *_PERFECT,
            Step(operators=("interchange",), wanted=_sum_inwards, everywhere=True, chance=0.8),
            Step(operators=("scalar_replace",), everywhere=True),
            Step(operators=("partial_sums",), everywhere=True, needed=True),
            Step(operators=("unroll_and_jam",), everywhere=True, chance=0.7),
            *_TOLD,
        ),
        "jammed": (
            Step(operators=("scalar_replace",), everywhere=True, chance=0.5),
            Step(operators=("unroll_and_jam",), everywhere=True, needed=True),
            *_TOLD,
        ),
        "wavefront": (Step(operators=("wavefront",), everywhere=True, needed=True), *_TOLD),
        "told": (
            Step(operators=("restrict",)),
            Step(operators=("if_convert",), everywhere=True),
            Step(operators=("vectorize",), everywhere=True, chance=0.7),
        ),
        "tiled": (
            Step(operators=("tile",), needed=True),
            Step(operators=("pack",), chance=0.5),
            Step(operators=("restrict",)),
        ),
    }
)
"""Recipes for functions on the host by name."""


def _all_axes(function: Function, site: Mapping[str, Any]) -> bool:
    launch = function.launch
    return launch is not None and len(site.get("axes", ())) == len(launch.grid)


def _most_arrays(function: Function, site: Mapping[str, Any]) -> bool:
    return len(site.get("arrays", ())) > 1


_TOLD_DEVICE = (
    Step(operators=("restrict",), chance=0.7),
    Step(operators=("launch_bounds",), chance=0.4),
)

DEVICE_RECIPES: Mapping[str, Sequence[Step]] = MappingProxyType(
    {
        # Tiles in shared memory and a block of results in the registers of each item.
        "staged_blocks": (
            Step(operators=("block_size",), everywhere=True, chance=0.5),
            Step(operators=("stage",), wanted=_most_arrays, needed=True),
            Step(operators=("coarsen",), wanted=_all_axes, chance=0.9),
            Step(operators=("unroll",), chance=0.3),
            *_TOLD_DEVICE,
        ),
        "staged": (
            Step(operators=("block_size",), everywhere=True, chance=0.5),
            Step(operators=("stage",), needed=True),
            Step(operators=("coarsen",), chance=0.5),
            *_TOLD_DEVICE,
        ),
        "blocks": (
            Step(operators=("block_size",), everywhere=True, chance=0.5),
            Step(operators=("coarsen",), wanted=_all_axes, needed=True),
            Step(operators=("unroll",), chance=0.5),
            *_TOLD_DEVICE,
        ),
        "coarse": (
            Step(operators=("block_size",), chance=0.5),
            Step(operators=("coarsen",), needed=True),
            *_TOLD_DEVICE,
        ),
        "wide_loads": (
            Step(operators=("block_size",), chance=0.5),
            Step(operators=("vector_loads",), needed=True),
            *_TOLD_DEVICE,
        ),
        "strides": (
            Step(operators=("block_size",), chance=0.5),
            Step(operators=("grid_stride",), needed=True),
            Step(operators=("unroll",), chance=0.5),
            *_TOLD_DEVICE,
        ),
        "shared_sum": (
            Step(operators=("block_size",), chance=0.5),
            Step(operators=("share_sum",), needed=True),
            *_TOLD_DEVICE,
        ),
        "told_device": (
            Step(operators=("restrict",)),
            Step(operators=("const",), chance=0.5),
            Step(operators=("read_only_loads",), everywhere=True, chance=0.7),
            Step(operators=("launch_bounds",), chance=0.7),
        ),
    }
)
"""Recipes for kernels that are launched by name."""


def recipes_for(language: str) -> Mapping[str, Sequence[Step]]:
    """Recipes by name for sources in a language."""
    return DEVICE_RECIPES if language in DEVICE else RECIPES
