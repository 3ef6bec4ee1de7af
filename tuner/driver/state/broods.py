"""What breeding several variants where one is tried has cost so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Broods"]


@dataclass(slots=True, kw_only=True)
class Broods:
    """All broods of a run.

    Attributes:
        drawn: variants that were bred in them.
        tried: those of them that were taken.
        cost_s: seconds that breeding and building them took.
        spent_s: the part of it that went into what was not taken.
    """

    drawn: int = 0
    tried: int = 0
    cost_s: float = 0.0
    spent_s: float = 0.0

    def add(self, body: Mapping[str, Any]) -> None:
        """Takes in a ``variant`` event."""
        size = len(body.get("brood") or ())
        if not size:
            return
        cost_s = float(body["ask_s"])
        self.drawn += size
        self.tried += body["made"] is not None
        self.cost_s += cost_s
        self.spent_s += cost_s * (size - 1) / size
