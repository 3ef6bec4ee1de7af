"""A kernel's name expression with the values of a configuration in it. Text only."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tuner.core.types import Value

__all__ = ["entry_expression"]


def entry_expression(entry: str, values: Mapping[str, Value]) -> str:
    """The name expression of a configuration: parameters inside template arguments become their values.

    >>> entry_expression("conv<float, TILE>", {"TILE": 4})
    'conv<float, 4>'
    """
    name, bracket, arguments = entry.partition("<")

    def value(found: re.Match[str]) -> str:
        given = values.get(found[0])
        if isinstance(given, bool):
            return "true" if given else "false"
        return found[0] if given is None else str(given)

    return name.strip() + bracket + re.sub(r"\b[A-Za-z_]\w*\b", value, arguments)
