"""Python's search for cycles of dead objects, put off where much is read that holds none."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["rarely_collected"]

_OBJECTS = 20_000
"""New objects between two looks at the youngest; Python's own number is 700."""


@contextlib.contextmanager
def rarely_collected() -> Iterator[None]:
    """For what only grows a state: that holds no cycles, and all of it is looked through again and again."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
