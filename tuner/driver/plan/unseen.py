"""Whether a gain is there on inputs that a candidate has not met before: pure like the rest of the plan.

A timed batch repeats a few sets of inputs. What is gained on them alone, by results that are kept or by branches that
are learnt, is no gain. Every confirming process also calls both sides on new sets; all of those calls together tell a
far smaller difference than one process can.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core import claims, statistics
from tuner.driver.state.trials import FinalSample, Look

__all__ = ["missing"]

PART = 0.5
"""Of what is gained: a candidate that certainly loses more of it than this on new inputs has gained nothing."""

CONFIDENCE = 0.98
"""Two-sided. Noise alone has to feign half the gain as well, so an honest candidate is turned down more seldom.

Of medians, since single calls on a busy machine may take half as long again: one such baseline process hid a gain of a
third that was not there from a mean.
"""


def missing(
    baseline: Sequence[FinalSample], candidate: Sequence[FinalSample], weights: Sequence[float]
) -> tuple[float, float] | None:
    """The part of a gain that is missing on new inputs, where that is too much to claim the gain.

    What a call takes longer on new inputs is compared in seconds, not as a ratio: what any call loses after a pause is
    the same for both sides, and would be a large part of a fast candidate's time.

    Args:
        baseline, candidate: processes that confirmed, by number on the same inputs.
        weights: of the problems.

    Returns:
        That part, 1 being all of the gain, and the lower end of its interval; ``None`` where nothing is wrong, or
        where nobody looked.
    """
    own = {sample.number: sample.looks for sample in candidate}
    # Calls on the same inputs: what is learnt from data is the same for both.
    pairs = [(sample.looks, own[sample.number]) for sample in baseline if sample.number in own]
    # A problem with large buffers has no new sets.
    looked = [p for p in range(len(weights)) if all(b.get(p) and c.get(p) for b, c in pairs)]
    if len(pairs) < claims.MIN_PROCESSES or not looked:
        return None
    saved, lost = 0.0, [0.0] * len(pairs)
    for problem in looked:
        base, candidate = ([side[problem] for side in sides] for sides in zip(*pairs, strict=True))
        unit = statistics.median([look.seen_s for look in base])
        saved += weights[problem] * (1 - statistics.median([look.seen_s for look in candidate]) / unit)
        usual_s = statistics.median([_lost_s(look) for look in base])
        for place, look in enumerate(candidate):
            lost[place] += weights[problem] * (_lost_s(look) - usual_s - look.slack_s) / unit
    if saved <= 0:
        return None
    found = statistics.median_interval(lost, CONFIDENCE)
    return (found.value / saved, found.low / saved) if found.low > PART * saved else None


def _lost_s(look: Look) -> float:
    return look.fresh_s - look.seen_s
