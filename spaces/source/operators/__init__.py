"""The source transformations by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.spaces.source.operators import branches, error_numbers, hints
from tuner.spaces.source.operators.base import Operator, Refused
from tuner.spaces.source.operators.devices import coarsen, device_hints, grids, lanes, staging
from tuner.spaces.source.operators.loops import (
    blocking,
    diagonals,
    nests,
    peeling,
    ranges,
    short_loops,
    skewing,
    strips,
    sweeps,
    waves,
)
from tuner.spaces.source.operators.opening import (
    calls,
    cases,
    counting,
    hidden_names,
    pointers,
    private_values,
    row_pointers,
    separate_values,
    steady,
    taking,
    versions,
    walking_pointers,
    while_loops,
)
from tuner.spaces.source.operators.teams import teams
from tuner.spaces.source.operators.values import arrays, progressions, scalars, streaming, sums

__all__ = ["OPERATORS", "Operator", "Refused"]

_HOST = (
    nests,
    ranges,
    sweeps,
    blocking,
    scalars,
    progressions,
    sums,
    arrays,
    hints,
    error_numbers,
    branches,
    waves,
    skewing,
    diagonals,
    streaming,
    peeling,
    short_loops,
    strips,
    teams,
)
_OPENING = (
    hidden_names,
    private_values,
    cases,
    calls,
    counting,
    walking_pointers,
    pointers,
    steady,
    separate_values,
    taking,
    row_pointers,
    versions,
    while_loops,
)
_DEVICE = (coarsen, grids, staging, lanes, device_hints)

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {operator.name: operator for module in (*_HOST, *_DEVICE, *_OPENING) for operator in module.OPERATORS}
)
"""Every operator by the name that edits give it."""
