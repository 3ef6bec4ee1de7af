"""Which version of events and rules a run record is of: only the one that wrote it derives it again. Reads no file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["KEY", "VERSION", "of_another"]

VERSION = 1
"""Of what events hold and of what follows from them: counts up when a run would be derived in another way."""

KEY = "version"
"""Key of the ``start`` event under which it stands."""


def of_another(start: Mapping[str, Any]) -> str:
    """What to say of a record that another version wrote, one line; empty of this version's own.

    Args:
        start: the body of its first event.
    """
    found = start.get(KEY)
    if found == VERSION:
        return ""
    return (
        f"it is a record of version {found!s:.20} by remix-tuner {start.get('tool')!s:.40}, and only records of this "
        f"one's version, {VERSION}, are derived again"
    )
