"""The source transformations by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tuner.spaces.source.operators import arrays, blocking, branches, hints, nests, scalars
from tuner.spaces.source.operators.base import Operator, Refused

__all__ = ["OPERATORS", "Operator", "Refused"]

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        operator.name: operator
        for module in (nests, blocking, scalars, arrays, hints, branches)
        for operator in module.OPERATORS
    }
)
"""Every operator by the name that edits give it."""
