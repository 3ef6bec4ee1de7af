"""What one output has to be, found out when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.evaluators.verification import Expectation

__all__ = ["Expected"]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What one output of one entry has to be.

    Attributes:
        find: gives the expectation, of which the values are 0 where nothing was written; always the same one.
        baseline: what the baseline gave, 0 where it wrote nothing, which is right and needs no judging: its own error
            is allowed. ``None`` where that is not enough, as where the largest error is asked for.
        untouched: which elements the baseline leaves alone; ``None`` where it writes all.
        kept: what these hold, of recorded memory; ``None`` where they hold the poison.
    """

    find: Callable[[], Expectation]
    baseline: Array | None = None
    untouched: NDArray[np.bool_] | None = None
    kept: Array | None = None

    @property
    def expectation(self) -> Expectation:
        """What :attr:`find` gives."""
        return self.find()
