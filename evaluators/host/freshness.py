"""Whether a candidate is as fast on inputs that it never saw as on those that its batch repeats.

A timed batch calls the kernel often on a few sets of inputs, so a candidate could store its answers and look them
up. The sets used here are mapped into its process only after its batch, so that there is nothing to look up. Judges
times; compares no outputs itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

__all__ = ["FRESH_SETS", "LOOKS", "Freshness"]

FRESH_SETS = 2
"""Sets of inputs for one look."""

LOOKS = 6
"""Each at other sets, until one finds nothing: a call that other work on the machine has held up proves nothing, while
a lookup finds nothing in any of them."""

_FACTOR = 1.5
_TOGETHER = 4.0
"""By how much less slack is needed where the looks of a dozen processes are put together."""


@dataclass(slots=True)
class Freshness:
    """What the baseline loses on new inputs, by problem: where branches are predicted from data, that is no cheat.

    Attributes:
        ratios: the baseline's, least of all looks.
        slack_s: what single calls may take longer on a device for reasons of its own.
    """

    ratios: dict[int, float] = field(default_factory=dict)
    slack_s: float = 2e-6

    def notes(self, seen_s: Sequence[float], ratio: float) -> dict[str, float]:
        """What a measurement says of its last look; many of them together need less slack than one.

        Args:
            seen_s: as for :meth:`judge`.
            ratio: that it has returned.
        """
        return {
            "fresh_ratio": round(ratio, 4),
            "fresh_s": ratio * float(np.median(seen_s)),
            "fresh_slack_s": self.slack_s / _TOGETHER,
        }

    def judge(
        self, problem: int, seen_s: Sequence[float], fresh_s: Sequence[float], *, trusted: bool
    ) -> tuple[float, str]:
        """Compares calls on sets that were repeated with calls on new ones.

        The mean of the new ones counts: who works for all of them in one call would win by any other choice.

        Args:
            problem: of the task.
            seen_s, fresh_s: seconds of single calls.
            trusted: this is the baseline: its least ratio is noted; a large one only asks for another look.

        Returns:
            The ratio, and what is wrong; empty when nothing is.
        """
        seen, fresh = float(np.median(seen_s)), float(np.mean(fresh_s))
        ratio = fresh / max(seen, 1e-12)
        known = 1.0 if trusted else max(1.0, self.ratios.get(problem, 1.0))
        if trusted:
            # What holds up one look of the baseline must not excuse a candidate's lookups.
            self.ratios[problem] = min(ratio, self.ratios.get(problem, ratio))
        allowed = _FACTOR * known * seen + self.slack_s
        if fresh <= allowed:
            return ratio, ""
        return ratio, f"it takes {ratio:.1f} times as long on inputs that it has not seen"
