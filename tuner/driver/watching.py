"""Observers of a caller: what one of them raises or changes is its own affair, and never the run's.

May not know what a run is.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.errors import UsageError
from tuner.core.plugins import guarded
from tuner.core.protocols import Observer

__all__ = ["watching"]


def watching(observers: Sequence[Observer]) -> tuple[Observer, ...]:
    """The observers, those of third parties behind a guard; guarded ones are given back as they are.

    Raises:
        UsageError: one has no method ``event``.
    """
    return tuple(one if isinstance(one, _Apart) else _watching(one) for one in observers)


def _watching(observer: Observer) -> Observer:
    kind = type(observer).__name__
    if not callable(getattr(observer, "event", None)):
        raise UsageError(
            f"the observer {observer!r} has no method event", "give it one that takes the kind and the body"
        )
    guard = guarded(observer, f"observer {kind}", {})
    return observer if guard is observer else _Apart(guard)


class _Apart:
    """Hands on copies: the run's state holds parts of the bodies of its events."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Tells of one committed event."""
        self._observer.event(kind, copy.deepcopy(dict(body)))
