"""Why a run claims nothing, or tried nothing, in words that say what to do. May not judge anything again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuner.core import statistics
from tuner.core.types import BASELINE, Status
from tuner.driver.state.run import MOST_KEPT, RunState
from tuner.driver.state.trials import FinalSample

__all__ = ["Unconfirmed", "nothing_tried", "why_unconfirmed"]

MUCH = 0.3
"""Share of the time for choosing and confirming that waiting for other tuners has to take to be the reason."""

TRYING = 2.0
"""Times what the baseline alone took that a run takes at least which tries something too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unconfirmed:
    """What stood between a candidate that looked faster and a claim.

    Attributes:
        reason: ``baseline`` or ``candidates`` (failed on inputs that the search had not seen), ``unseen`` (faster on
            inputs that it has met before alone), ``time``.
        text: what happened, and what to do about it.
        processes: of each side that were timed to confirm.
        pair_s: seconds that one process of each side took; ``None`` where none was timed.
        waited_s: seconds of choosing and confirming in which other tuners on the machine had the device.
    """

    reason: str
    text: str
    processes: int
    pair_s: float | None
    waited_s: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    def described(self, seen: float | None, run: Path) -> str:
        """In a line, with what to do.

        Args:
            seen: how many times as fast as the baseline it was in the search.
            run: the record.
        """
        looked = "" if seen is None else f"{seen:.2f} times faster in the search, "
        return f"{looked}not confirmed: {self.text}{self.cure(run)}"

    def cure(self, run: Path) -> str:
        """What is added to say what to do; empty where confirming once more would not help."""
        return f"; tuner confirm {run} goes on with it" if self.reason == "time" else ""


def nothing_tried(stopped_by: str, took_s: float) -> str:
    """Why a run has no trial but the baseline.

    Args:
        stopped_by: what ended its search.
        took_s: all of it.
    """
    if stopped_by == "exhausted":
        return "nothing was tried: there is no other candidate"
    over = "nothing was tried: the budget was over with the baseline"
    if stopped_by != "minutes":
        return over
    minutes = math.ceil(TRYING * took_s / (1 - MOST_KEPT) / 60)
    return f"{over}, which took {took_s:.2g} s; --minutes {minutes} may be enough"


def why_unconfirmed(state: RunState) -> Unconfirmed | None:
    """``None`` where the run has not ended, something was decided, or nothing looked faster."""
    if state.end is None or not state.finalists:
        return None
    if state.verdict is not None and state.verdict["claim"] not in ("not_confirmed", "extend"):
        return None
    samples = [*state.finals["choose"], *state.finals["confirm"]]
    failed = [s for s in samples if s.status is not Status.OK]
    if BASELINE in state.out_of_final:
        own = [s for s in failed if s.trial == BASELINE]
        said = "the kernel as given failed on inputs that the search had not seen"
        cure = "it has to give the same on every run of these inputs to be compared with"
        return _made("baseline", f"{said}{_of(own)}: {cure}", state)
    if state.verdict is not None and "unseen" in state.verdict:
        return _made("unseen", _of_unseen(state.verdict), state)
    if state.verdict is None:
        count = len(state.finalists)
        which = "the candidate" if count == 1 else f"all {count} candidates"
        said = f"{which} that looked faster failed on inputs that the search had not seen{_of(failed)}"
        return _made("candidates", said, state)
    return _made("time", _of_time(state, samples), state)


def _made(reason: str, text: str, state: RunState) -> Unconfirmed:
    samples = [s for purpose in ("choose", "confirm") for s in state.finals[purpose]]
    return Unconfirmed(
        reason=reason,
        text=text,
        processes=int((state.verdict or {}).get("processes", 0)),
        pair_s=_pair_s(samples),
        waited_s=math.fsum(s.waited_s for s in samples),
    )


def _of(failed: Sequence[FinalSample]) -> str:
    if not failed:
        return ""
    first = failed[0]
    return f" ({first.status.value}: {first.message})" if first.message else f" ({first.status.value})"


def _of_unseen(verdict: Mapping[str, Any]) -> str:
    part, speedup = min(1.0, verdict["unseen"][0]), verdict["speedup"][0]
    return (
        f"the candidate is {speedup:.2f} times faster on inputs that it has met before, but {part:.0%} of that is gone "
        "on new ones, as where results are kept between calls or the processor learns its branches"
    )


def _pair_s(samples: Sequence[FinalSample]) -> float | None:
    return 2 * statistics.median([s.cost_s for s in samples]) if samples else None


def _of_time(state: RunState, samples: Sequence[FinalSample]) -> str:
    needed, verdict = state.settings.confirm_least, state.verdict
    assert verdict is not None
    said = f"time for {verdict['processes']} of the {needed} pairs of processes that a claim needs"
    pair_s = _pair_s(samples)
    if pair_s is None:
        return said
    took_s, waited_s = math.fsum(s.cost_s for s in samples), math.fsum(s.waited_s for s in samples)
    if waited_s >= MUCH * took_s:
        others = f"other tuners on this machine had the device for {waited_s:.0f} of {took_s:.0f} s"
        return f"{said}: {others}"
    return f"{said}, {pair_s:.2g} s a pair"
