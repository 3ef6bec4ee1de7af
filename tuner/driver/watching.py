"""Observers of a caller: what one of them raises or changes is its own affair, and never the run's.

May not know what a run is.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from tuner.core.abilities import HearsSteps, TellsSteps
from tuner.core.errors import UsageError
from tuner.core.plugins import guarded
from tuner.core.protocols import Evaluation, Observer

__all__ = ["telling", "watching"]


def watching(observers: Sequence[Observer]) -> tuple[Observer, ...]:
    """The observers, those of third parties behind a guard; guarded ones are given back as they are.

    Raises:
        UsageError: one has no method ``event``.
    """
    return tuple(one if isinstance(one, _Apart) else _watching(one) for one in observers)


@contextmanager
def telling(evaluation: Evaluation, observers: Sequence[Observer]) -> Iterator[None]:
    """Observers that can hear it are told of each part of a baseline's verification as it begins."""
    hearing = [one for one in observers if isinstance(one, HearsSteps)]

    def step(text: str) -> None:
        for one in hearing:
            one.step(text)

    if not hearing or not isinstance(evaluation, TellsSteps):
        yield
        return
    evaluation.tell(step)
    try:
        yield
    finally:
        # What comes later has events of its own.
        evaluation.tell(lambda _: None)
        step("")


def _watching(observer: Observer) -> Observer:
    kind = type(observer).__name__
    if not callable(getattr(observer, "event", None)):
        raise UsageError(
            f"the observer {observer!r} has no method event", "give it one that takes the kind and the body"
        )
    guard = guarded(observer, f"observer {kind}", {})
    if guard is observer:
        return observer
    return _HearingApart(guard) if isinstance(observer, HearsSteps) else _Apart(guard)


class _Apart:
    """Hands on copies: the run's state holds parts of the bodies of its events."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """Tells of one committed event."""
        self._observer.event(kind, copy.deepcopy(dict(body)))


class _HearingApart(_Apart):
    """The same of one that hears steps."""

    def step(self, text: str) -> None:
        """Hands it on."""
        cast("HearsSteps", self._observer).step(text)
