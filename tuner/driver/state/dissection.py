"""How far taking the winner back, one setting at a time, has come: part of a run's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Dissection"]


@dataclass(slots=True, kw_only=True)
class Dissection:
    """How far the taking back has come.

    Attributes:
        items: as the ``dissect`` event holds them.
        begun_s, built_s: active seconds when it began, and after the last build.
        built: the ``without`` events' bodies, one for each item that is allowed, in order.
        weighed: the ``weighed`` events' bodies.
    """

    items: Sequence[Mapping[str, Any]]
    begun_s: float
    built_s: float
    built: list[Mapping[str, Any]] = field(default_factory=list)
    weighed: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def allowed(self) -> list[int]:
        """The places of the items that can be built."""
        return [i for i, item in enumerate(self.items) if item["configuration"] is not None]

    def take_build(self, body: Mapping[str, Any]) -> None:
        """One was built."""
        self.built.append(body)
        self.built_s = float(body["clock_s"])
