"""A claim that a run had made before it was gone on with: what it falls back on. Part of a run's state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.driver.state.dissection import Dissection
from tuner.driver.state.trials import FinalSample

__all__ = ["CLAIMS", "Claimed"]

CLAIMS = ("improved", "negligible")
"""Verdicts that say that a candidate is faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """One claim with all that it rests on.

    Attributes:
        chosen: the trial.
        choice, verdict: bodies of the events.
        verdicts: looks that it took.
        samples: of the processes that confirmed it.
        dissection: what its settings are worth, where they were taken back.
    """

    chosen: int
    choice: Mapping[str, Any]
    verdict: Mapping[str, Any]
    verdicts: int
    samples: tuple[FinalSample, ...]
    dissection: Dissection | None
