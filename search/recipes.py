"""Sequences of source transformations that are worth little alone and much together.

The tables alone: :mod:`tuner.search.cooking` carries them out. May not judge speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tuner.search.cooking import Step
from tuner.search.panels import panel_read, rows_inwards, sized, sums_in_tiles, untiled, whole_blocks
from tuner.search.sites import (
    all_axes,
    depth,
    distinct_parts,
    in_rectangle,
    innermost_ends,
    longest,
    most_arrays,
    over_rows,
    over_tiles,
    ragged_outwards,
    rectangular_inwards,
    sum_inwards,
    sum_outwards,
    two_points,
)
from tuner.spaces.source.operators.base import DEVICE

__all__ = ["DEVICE_RECIPES", "RECIPES", "SHAPED", "recipes_for"]

_MOST_HINTS = 16

_PERFECT = (
    Step(operators=("accumulate_in_place",), everywhere=True),
    Step(operators=("fission",), wanted=distinct_parts, everywhere=True),
)


# Without it the compiler keeps every value of a block in memory, because a store might change the others.
_TOLD = (Step(operators=("restrict",), chance=0.9), Step(operators=("ignore_errno",)))

_BLOCKED = (
    Step(operators=("vector_block", "register_block"), wanted=two_points, everywhere=True, needed=True),
    # Sizes that blocks do not divide leave much over: narrower blocks of it.
    Step(operators=("vector_block",), everywhere=True, chance=0.7, rests=True),
    *_TOLD,
)

_ALONG = (
    Step(operators=("vectorize",), everywhere=True, most=_MOST_HINTS, chance=0.8),
    *_TOLD,
)

# Rows of a grid are seldom whole vectors long.
_MASKED = (
    Step(operators=("vectorize_masked",), everywhere=True, most=_MOST_HINTS),
    Step(operators=("vectorize_masked",), everywhere=True, most=_MOST_HINTS, rests=True),
    *_TOLD,
)

# Of a tile in turn: rows, columns, length of the sums. A panel of columns stays in the second-level cache.
_PANEL_ROWS = ((48, 96, 192, 384), 192)
_PANEL_COLUMNS = ((32, 64, 96, 128, 192), 64)
_PANEL_DEPTH = ((64, 128, 192, 256, 384), 384)
_ROWS = ((4, 6, 8, 12), 6)
_VECTORS = ((1, 2, 3, 4), 4)

_SWEPT_ROWS = (Step(operators=("vector_block",), wanted=two_points, everywhere=True, chance=0.4), *_MASKED)

RECIPES: Mapping[str, Sequence[Step]] = MappingProxyType(
    {
        # Tiles in cache, one of them packed, blocks in registers: what makes a matrix product fast.
        "blocked_product": (
            *_PERFECT,
            Step(operators=("tile",), wanted=depth(3), needed=True),
            Step(operators=("interchange",), wanted=over_tiles, chance=0.7),
            Step(operators=("interchange",), wanted=over_tiles, chance=0.7),
            Step(operators=("scalar_replace",), everywhere=True),
            Step(operators=("pack",), chance=0.8),
            *_BLOCKED,
        ),
        # A panel of one factor copied once for all rows; tiles that blocks divide leave next to nothing over.
        "panel_product": (
            *_PERFECT,
            Step(operators=("interchange",), wanted=rectangular_inwards, everywhere=True),
            Step(
                operators=("tile",),
                wanted=untiled,
                everywhere=True,
                needed=True,
                refined=sized(_PANEL_ROWS, _PANEL_COLUMNS, _PANEL_DEPTH),
            ),
            Step(operators=("interchange",), wanted=rows_inwards, everywhere=True, needed=True),
            Step(operators=("scalar_replace",), everywhere=True),
            Step(operators=("pack",), wanted=panel_read, everywhere=True, needed=True),
            Step(
                operators=("vector_block",),
                wanted=sums_in_tiles,
                everywhere=True,
                needed=True,
                refined=lambda function, site: whole_blocks(function, sized(_ROWS, _VECTORS)(function, site)),
            ),
            *_TOLD,
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
            Step(operators=("interchange",), wanted=sum_inwards, everywhere=True),
            Step(operators=("scalar_replace",), everywhere=True),
            *_BLOCKED,
        ),
        # Rectangles cut off the triangles, so that blocks fit.
        "triangle_product": (
            *_PERFECT,
            Step(operators=("strip_mine",), wanted=over_rows, needed=True),
            Step(operators=("square",), everywhere=True, needed=True),
            *_PERFECT,
            Step(operators=("sweep",), everywhere=True, chance=0.7),
            Step(operators=("interchange",), wanted=rectangular_inwards, everywhere=True),
            Step(operators=("interchange",), wanted=ragged_outwards, everywhere=True),
            Step(operators=("scalar_replace",), wanted=in_rectangle, everywhere=True),
            *_BLOCKED,
            Step(operators=("vectorize",), everywhere=True, most=_MOST_HINTS, chance=0.5),
        ),
        # Rows that wait for earlier ones: what a few of them take from those before them all, side by side.
        "triangle_rows": (
            *_PERFECT,
            Step(operators=("strip_mine",), wanted=over_rows, needed=True),
            Step(operators=("square",), everywhere=True, needed=True),
            *_PERFECT,
            Step(operators=("scalar_replace",), everywhere=True, chance=0.8),
            Step(operators=("unroll_and_jam",), everywhere=True, needed=True),
            *_TOLD,
        ),
        # No sum innermost: vectors run along the elements.
        "outer_product": (
            *_PERFECT,
            Step(operators=("interchange",), wanted=sum_outwards, everywhere=True, needed=True),
            *_ALONG,
        ),
        "swept": (
            Step(operators=("accumulate_in_place",), everywhere=True, chance=0.5),
            Step(operators=("fission",), wanted=distinct_parts, everywhere=True, chance=0.5),
            Step(operators=("sweep",), everywhere=True, needed=True),
            Step(operators=("interchange",), wanted=sum_outwards, everywhere=True),
            *_ALONG,
        ),
        "untied": (
            Step(operators=("split_around",), everywhere=True, needed=True),
            Step(operators=("if_convert",), everywhere=True, most=_MOST_HINTS),
            *_ALONG,
        ),
        # What grows evenly ties iterations together that nothing else does.
        "counted": (
            Step(operators=("from_counter",), everywhere=True, needed=True),
            Step(operators=("partial_sums",), everywhere=True, chance=0.8),
            *_ALONG,
        ),
        "many_sums": (Step(operators=("partial_sums",), everywhere=True, needed=True), *_TOLD),
        # One addition waits for another no longer, whatever it is that is added up.
        "turned_sums": (
            Step(operators=("scalar_replace",), everywhere=True, chance=0.5),
            Step(operators=("several_sums",), everywhere=True, needed=True),
            *_TOLD,
        ),
        "reordered_sums": (
            Step(operators=("accumulate_in_place",), everywhere=True, chance=0.5),
            Step(operators=("scalar_replace",), everywhere=True),
            Step(operators=("partial_sums",), everywhere=True, needed=True),
            *_TOLD,
        ),
        "inner_sums": (
            *_PERFECT,
            Step(operators=("interchange",), wanted=sum_inwards, everywhere=True, chance=0.8),
            Step(operators=("scalar_replace",), everywhere=True),
            Step(operators=("partial_sums",), everywhere=True, needed=True),
            Step(operators=("unroll_and_jam",), everywhere=True, chance=0.7),
            *_TOLD,
        ),
        # The compiler's own vectors of sums, also where the subscripts are read from memory.
        "loose": (
            Step(operators=("free_sums",), needed=True),
            Step(operators=("scalar_replace",), everywhere=True, chance=0.5),
            Step(operators=("unroll_and_jam",), chance=0.3),
            *_TOLD,
        ),
        "jammed": (
            Step(operators=("scalar_replace",), everywhere=True, chance=0.5),
            Step(operators=("unroll_and_jam",), everywhere=True, needed=True),
            *_TOLD,
        ),
        "wavefront": (Step(operators=("wavefront",), everywhere=True, needed=True), *_TOLD),
        "diagonal": (Step(operators=("diagonals",), needed=True), *_TOLD),
        # While a square root may set errno, compilers call it, and make no vectors of the loop around.
        "without_errno": (
            Step(operators=("ignore_errno",), needed=True),
            Step(operators=("restrict",)),
            Step(operators=("scalar_replace",), everywhere=True, chance=0.5),
            Step(operators=("vectorize",), everywhere=True, most=_MOST_HINTS, chance=0.5),
        ),
        "told": (
            Step(operators=("restrict",)),
            Step(operators=("if_convert",), everywhere=True),
            Step(operators=("vectorize",), everywhere=True, chance=0.7),
        ),
        # Sweeps one behind the other, several steps of time while their rows are in cache.
        "leaning": (Step(operators=("skew",), needed=True), *_SWEPT_ROWS),
        "together": (
            Step(operators=("fuse_shifted",), wanted=longest, everywhere=True, needed=True),
            *_SWEPT_ROWS,
        ),
        "masked": (Step(operators=("vectorize_masked",), needed=True), *_MASKED),
        # Results that nothing reads again go past the caches, several rows at once for what rows read in common.
        "streamed": (
            Step(operators=("unroll_and_jam",)),
            Step(operators=("stream_stores",), everywhere=True, needed=True),
            Step(operators=("restrict",)),
        ),
        # Elements of structures, sums in order and stores on a condition by themselves, and vectors of what is left.
        "in_strips": (
            Step(operators=("write_out",), everywhere=True),
            Step(operators=("scalar_elements",)),
            Step(operators=("read_first",), everywhere=True, chance=0.9),
            Step(operators=("compute_first",), everywhere=True, chance=0.9),
            Step(operators=("split_in_strips",), everywhere=True, needed=True),
            Step(operators=("vectorize",), everywhere=True, most=_MOST_HINTS, chance=0.7),
            *_TOLD,
        ),
        # Boundaries that wrap around are no part of the vectors between them.
        "peeled": (
            Step(operators=("peel_ends",), wanted=innermost_ends, everywhere=True, needed=True),
            Step(operators=("vectorize_masked",), everywhere=True, most=_MOST_HINTS, chance=0.5),
            *_TOLD,
        ),
        "tiled": (
            Step(operators=("tile",), needed=True),
            Step(operators=("pack",), chance=0.5),
            Step(operators=("restrict",)),
        ),
    }
)
"""Recipes for functions on the host by name."""


SHAPED = frozenset(
    {
        "counted",
        "diagonal",
        "in_strips",
        "leaning",
        "panel_product",
        "peeled",
        "streamed",
        "swept",
        "together",
        "triangle_product",
        "triangle_rows",
        "untied",
        "wavefront",
        "without_errno",
    }
)
"""Recipes for a shape of loops that few kernels have: where one applies at all, it is what the kernel needs."""

_TOLD_DEVICE = (
    Step(operators=("restrict",), chance=0.7),
    Step(operators=("launch_bounds",), chance=0.4),
)

DEVICE_RECIPES: Mapping[str, Sequence[Step]] = MappingProxyType(
    {
        # Tiles in shared memory and a block of results in the registers of each item.
        "staged_blocks": (
            Step(operators=("block_size",), everywhere=True, chance=0.5),
            Step(operators=("stage",), wanted=most_arrays, needed=True),
            Step(operators=("coarsen",), wanted=all_axes, chance=0.9),
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
            Step(operators=("coarsen",), wanted=all_axes, needed=True),
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


TEAM_RECIPES: Mapping[str, Sequence[Step]] = MappingProxyType(
    {
        "shared": (Step(operators=("parallelise",), everywhere=True, needed=True), *_TOLD),
        # What each thread does in vectors.
        "shared_vectors": (
            Step(operators=("parallelise",), everywhere=True, needed=True),
            Step(operators=("partial_sums",), everywhere=True, chance=0.7),
            *_ALONG,
        ),
    }
)
"""Further recipes for kernels that are built with OpenMP."""


def recipes_for(language: str, *, openmp: bool = False) -> Mapping[str, Sequence[Step]]:
    """Recipes by name for sources in a language."""
    return DEVICE_RECIPES if language in DEVICE else {**RECIPES, **(TEAM_RECIPES if openmp else {})}
