"""Why trials failed, the commonest reason of each status first. May not judge anything again."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tuner.core.types import Status
from tuner.driver.state.trials import TrialState
from tuner.search import history

__all__ = ["FAILURES", "Failure", "failures"]

FAILURES = (*history.FAILURES, Status.LOST)

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The commonest reason of one status.

    Attributes:
        status: of the trials.
        count: of trials with this status.
        alike: of them those whose message differs from this one in its numbers alone.
        message: of the first of those; ``trial`` is its number.
    """

    status: Status
    count: int
    alike: int
    message: str
    trial: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**asdict(self), "status": self.status.value}


def failures(trials: Iterable[TrialState]) -> tuple[Failure, ...]:
    """One for each status that trials failed with, the commonest first."""
    groups: dict[Status, list[TrialState]] = {}
    for trial in trials:
        if trial.status in FAILURES:
            groups.setdefault(trial.status, []).append(trial)
    found = []
    for status, failed in groups.items():
        kinds = [_NUMBER.sub("0", trial.message) for trial in failed]
        kind, alike = Counter(kinds).most_common(1)[0]
        first = failed[kinds.index(kind)]
        found.append(
            Failure(status=status, count=len(failed), alike=alike, message=first.message, trial=first.number)
        )
    return tuple(sorted(found, key=lambda f: -f.count))
