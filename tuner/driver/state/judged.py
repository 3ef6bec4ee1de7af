"""What a ``judge`` event says of one trial. Holds no state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["AUDIT", "KEEP", "PASS", "PRUNE", "Judged"]

KEEP, PRUNE, AUDIT, PASS = "keep", "prune", "audit", "pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a ``judge`` event says of one trial.

    Attributes:
        verdict: ``keep``; ``prune``; ``audit`` for one that would be pruned but is measured to see what pruning costs;
            ``pass`` for one that better ones of the same pool take the place of.
        place, failing: the cost model's guess.
        why: what speaks against it, one line.
    """

    verdict: str
    place: float
    failing: float
    why: str = ""

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Judged:
        """From an event."""
        return cls(**value)
