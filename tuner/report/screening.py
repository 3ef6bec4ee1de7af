"""How well the cost model of a run ranked what it was asked about, and what it saved; from its ``judge`` events.

Only candidates that were measured all the same can say how right it was: those that it kept, and the sample of the
others that the run measures to see what pruning costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tuner.core.types import Stage, Status
from tuner.report.follow import Follower
from tuner.report.trials import rounded

__all__ = ["screening"]

LEAST = 8
"""Measured candidates below which no rank correlation is given."""


def screening(follower: Follower) -> list[dict[str, Any]]:
    """A row for each stage at which the model was asked; empty where a run has none."""
    stages: dict[str, dict[int, Mapping[str, Any]]] = {}
    for body in follower.judgements:
        for number, judged in zip(body["trials"], body["judged"], strict=True):
            stages.setdefault(body["stage"], {})[number] = judged
    return [_row(follower, stage, judged) for stage, judged in stages.items()]


def _row(follower: Follower, stage: str, judged: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    state = follower.state
    counts = Counter(str(one["verdict"]) for one in judged.values())
    # An order leaves out what was built and never had its turn.
    untimed = sum(state.trials[n].status is Status.PRUNED for n in judged) if state.settings.ordered else 0
    measured = []
    for number, one in judged.items():
        trial = state.trials.get(number)
        if trial is not None and trial.status is Status.OK and trial.score is not None:
            measured.append((float(one["place"]), trial.score))
    return {
        "stage": stage,
        "verdicts": dict(counts),
        "measured": len(measured),
        "rank_correlation": rounded(_spearman([m[0] for m in measured], [m[1] for m in measured]), 3),
        "saved_s": rounded((counts["prune"] + untimed) * _each_s(follower, stage), 4),
    }


def _spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    if len(one) < LEAST or len(set(one)) < 2 or len(set(other)) < 2:
        return None
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(one), rankdata(other))[0, 1])


def _each_s(follower: Follower, stage: str) -> float:
    """Mean seconds that a candidate which was run took from this stage on."""
    spent = []
    for number, finished in follower.finished.items():
        if follower.state.trials[number].status is Status.OK:
            after_s = finished.verify_s + finished.timed_s
            spent.append(after_s + (finished.compile_s if stage == Stage.ASK else 0.0))
    return sum(spent) / len(spent) if spent else 0.0
