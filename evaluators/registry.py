"""Backends by name: the project's own and those of the entry points ``tuner.backends``."""

from __future__ import annotations

import difflib
from importlib.metadata import entry_points

from tuner.core.errors import MachineError, UsageError
from tuner.core.protocols import Backend

__all__ = ["create", "names"]

GROUP = "tuner.backends"


def names() -> list[str]:
    """All backends that are installed."""
    return sorted({e.name for e in entry_points(group=GROUP)})


def create(name: str) -> Backend:
    """Makes the backend of that name.

    Raises:
        UsageError: there is no such backend.
        MachineError: it cannot be loaded on this machine.
    """
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            try:
                backend: Backend = entry.load()()
            except ImportError as error:
                raise MachineError(
                    f"the backend {name} cannot be loaded: {error}", f"pip install 'remix-tuner[{name}]'"
                ) from error
            return backend
    close = difflib.get_close_matches(name, names(), n=1)
    hint = f"did you mean {close[0]}?" if close else f"installed are {', '.join(names())}"
    raise UsageError(f"no backend {name}", hint)
