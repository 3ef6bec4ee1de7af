"""Mutation test of a verification: plants faults in the baseline and counts those that its checks would miss.

Part of ``tuner check``; decides nothing about a run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.core.protocols import Evaluation
from tuner.core.streams import stream
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Status, Variant
from tuner.spaces.mutations import ADVICE, Fault, faults_of, planted, sample

__all__ = ["MOST_FAULTS", "FaultReport", "plant_faults"]

MOST_FAULTS = 48
"""Faults that are built."""
BUDGET_S = 10.0
"""Seconds for verifying them; what is left over is not counted."""
ENOUGH = 0.9
"""The part that has to be caught."""

_KINDS_NAMED = 2
_FURTHER = 3
_TOGETHER = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReport:
    """What became of the faults.

    Attributes:
        caught: how many were noticed.
        missed: those that passed as right.
        harmless: those that passed and, on further sizes made up for each look, gave results equal to the baseline's
            to the last digit of their error: another way to write the same, as far as can be told.
        uncounted: how many did not compile, or compiled to code that another one or the baseline has.
        untried: how many the time was not enough for.
    """

    caught: int
    missed: tuple[Fault, ...]
    harmless: tuple[Fault, ...]
    uncounted: int
    untried: int

    @property
    def counted(self) -> int:
        """Faults that were built into code of their own and verified."""
        return self.caught + len(self.missed)

    @property
    def enough(self) -> bool:
        """Whether enough of them were caught; so also where there were none."""
        return self.caught >= ENOUGH * self.counted

    @property
    def vacuous(self) -> bool:
        """Whether there were faults and none was noticed: what the kernel computes is not looked at."""
        return bool(self.missed) and not self.caught

    def text(self) -> str:
        """One line for people."""
        if not self.counted:
            return "none could be planted"
        rest = f", {self.untried} not tried for lack of time" if self.untried else ""
        harmless = f", {len(self.harmless)} more change no result" if self.harmless else ""
        return f"{self.caught} of {self.counted} planted in the baseline are caught{harmless}{rest}"

    def warning(self) -> str:
        """What to add where too many pass, or none could be planted; empty otherwise."""
        if not self.counted:
            return "no fault could be planted: does the kernel compute anything that these arguments let it reach?"
        if self.enough:
            return ""
        kinds = [kind for kind, _ in Counter(f.kind for f in self.missed).most_common(_KINDS_NAMED)]
        advice = "; ".join(dict.fromkeys(ADVICE[kind] for kind in kinds))
        return f"the verification catches {self.caught} of {self.counted} planted faults; add {advice}"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON for ``--json``."""
        return {
            "planted": self.counted,
            "caught": self.caught,
            "missed": [_fault_json(f) for f in self.missed],
            "harmless": [_fault_json(f) for f in self.harmless],
            "uncounted": self.uncounted,
            "untried": self.untried,
        }


def _fault_json(fault: Fault) -> dict[str, Any]:
    return {
        "kind": fault.kind,
        "file": fault.file,
        "line": fault.line,
        "before": fault.before,
        "after": fault.after,
    }


def plant_faults(
    evaluation: Evaluation,
    baseline: Build,
    variant: Variant,
    resolved: Resolved,
    *,
    entry: str,
    seed: int,
    sizes_vary: bool,
    enough: int = MOST_FAULTS,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> FaultReport:
    """Plants faults and verifies each as if it were a candidate.

    Args:
        evaluation: with its baseline set.
        baseline: the baseline's build; a fault that leaves its code as it is does not count.
        variant: the source as given.
        resolved: the baseline's configuration.
        entry: the kernel's name; functions that it cannot call are left alone.
        seed: chooses among the faults that there could be.
        sizes_vary: whether every confirming session makes up sizes of its own; only then can a fault that passes be
            told from one that changes nothing.
        enough: ends when so many were caught.
        told: how many were looked at so far, of how many.
    """
    rng = stream(seed, "faults")
    chosen = sample(faults_of(variant.files, entry), MOST_FAULTS, rng)
    # Time may run out: not always for the ends of kernels.
    rng.shuffle(chosen)
    tried, passed, uncounted = _tried(evaluation, baseline, variant, resolved, chosen, enough, told)
    harmless = _harmless(evaluation, baseline, resolved, passed) if sizes_vary and passed else []
    missed = [fault for fault, _ in passed if fault not in harmless]
    return FaultReport(
        caught=tried - len(passed),
        missed=tuple(sorted(missed, key=_place)),
        harmless=tuple(sorted(harmless, key=_place)),
        uncounted=uncounted,
        untried=len(chosen) - uncounted - tried,
    )


def _place(fault: Fault) -> tuple[str, int, str]:
    return fault.file, fault.start, fault.after


def _tried(
    evaluation: Evaluation,
    baseline: Build,
    variant: Variant,
    resolved: Resolved,
    chosen: Sequence[Fault],
    enough: int,
    told: Callable[[int, int], None],
) -> tuple[int, list[tuple[Fault, Build]], int]:
    """How many were verified before time ran out or enough were caught, those that passed, and how many have no code of
    their own.

    Built by few at a time: what there is no time to verify need not be built.
    """
    seen = {baseline.key}
    tried, passed, uncounted = 0, list[tuple[Fault, Build]](), 0
    spent_s = 0.0
    together = min(enough, _TOGETHER)
    for at in range(0, len(chosen), together):
        some = chosen[at : at + together]
        requests = [
            BuildRequest(trial=BASELINE + 1 + at + i, variant=planted(variant, fault), resolved=resolved)
            for i, fault in enumerate(some)
        ]
        worth = _distinct(some, evaluation.build(requests), seen)
        uncounted += len(some) - len(worth)
        for fault, build in worth:
            told(uncounted + tried, len(chosen))
            begin = time.monotonic()
            tried += 1
            if _verdict(evaluation, build, resolved, "search", tried) is not None:
                passed.append((fault, build))
            spent_s += time.monotonic() - begin
            if spent_s > BUDGET_S or tried - len(passed) >= enough:
                return tried, passed, uncounted
    return tried, passed, uncounted


def _harmless(
    evaluation: Evaluation, baseline: Build, resolved: Resolved, passed: Sequence[tuple[Fault, Build]]
) -> list[Fault]:
    """Those whose largest error is the baseline's own in every further session.

    On a device the right results say nothing of a barrier that is gone: it may be needed where threads run otherwise.
    """
    left = [(fault, build) for fault, build in passed if fault.kind != "order" or not evaluation.times]
    for number in range(_FURTHER):
        own = _verdict(evaluation, baseline, resolved, "confirm", number)
        left = [
            (fault, build)
            for fault, build in left
            if _verdict(evaluation, build, resolved, "confirm", number) == own
        ]
    return [fault for fault, _ in left]


def _distinct(chosen: Sequence[Fault], builds: Sequence[Build], seen: set[str]) -> list[tuple[Fault, Build]]:
    """Those with code of their own; adds it to what was ``seen``."""
    worth = []
    for fault, build in zip(chosen, builds, strict=True):
        if build.status is Status.OK and build.key not in seen:
            seen.add(build.key)
            worth.append((fault, build))
    return worth


def _verdict(
    evaluation: Evaluation, build: Build, resolved: Resolved, purpose: str, number: int
) -> Mapping[str, Any] | None:
    """The details of a pass, with the largest error; ``None`` where it does not pass."""
    session = evaluation.open(build, resolved, purpose=purpose, number=number)
    try:
        verdict = session.verify()
        return verdict.detail if verdict.status is Status.OK else None
    finally:
        session.close()
