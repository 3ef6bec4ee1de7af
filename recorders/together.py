"""JSON texts parsed at once: their values share the texts of their keys, half of what a long run takes in memory.

May not know what the values mean.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from tuner.core.canonical import from_json

__all__ = ["together"]

_MARK = secrets.token_hex(16)
"""Stands between texts; nobody who writes a record knows it."""
_BETWEEN = f',"{_MARK}",'


def together(texts: Sequence[str]) -> list[Any] | None:
    """The values of several JSON texts; ``None`` where one may be none, so that each has to be looked at alone."""
    try:
        found: list[Any] = from_json(f"[{_BETWEEN.join(texts)}]")
    except (TypeError, ValueError, RecursionError):
        return None
    # A text that is no JSON by itself may be with its neighbours, and another may make up for their number.
    bodies, between = found[::2], found[1::2]
    whole = len(found) == 2 * len(texts) - 1 and all(isinstance(one, dict) for one in bodies)
    return bodies if whole and all(one == _MARK for one in between) else None
