"""Everything that the page shows of one run as plain JSON, in the order in which a reader wants it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.core.errors import TunerError
from tuner.core.types import Status
from tuner.driver.audit import AuditReport, audit
from tuner.driver.outcome.by_problem import gains
from tuner.driver.outcome.failures import FAILURES
from tuner.driver.outcome.refused_edits import KEY
from tuner.driver.state.strangers import holding_together
from tuner.report.costs import costs
from tuner.report.follow import Follower
from tuner.report.importance import importance
from tuner.report.passes import passes
from tuner.report.trials import MESSAGE_LONGEST, dimensions, rounded, trial_columns
from tuner.report.variants import refused_edits, variants
from tuner.spec.recorded.workload import INDEX

__all__ = ["DATA_VERSION", "collect"]

DATA_VERSION = 1

TEXT_LONGEST = 60_000
"""Characters of the spec and of one source file that are shown."""

FIRST_MESSAGES = 5
"""Messages shown of each kind of failure."""


@holding_together()
def collect(
    follower: Follower,
    *,
    audited: AuditReport | str | None = None,
    statistics: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The page's data.

    Args:
        follower: of the record, up to date.
        audited: what a replay found, or why there was none; ``None`` while the run goes on.
        statistics: what :func:`statistics_of` gave earlier, which is slow to compute; computed now if left out.

    Raises:
        RecordError: its events are no run's.
    """
    state = follower.state
    tunables = dimensions([t.proposal.configuration for t in state.trials.values()])
    result = follower.outcome.to_json()
    seq, chain = follower.head
    found = statistics_of(follower) if statistics is None else statistics
    return {
        "version": DATA_VERSION,
        "seq": seq,
        "ended": state.end is not None,
        "interrupted": state.interrupted,
        "phase": _phase(follower),
        "result": {**result, "run": follower.path.name},
        "answer": _answer(follower),
        "settings": state.settings.to_json(),
        "evaluations": state.evaluations,
        "clock_s": rounded(state.clock_s),
        "tunables": tunables,
        "trials": trial_columns(follower, tunables),
        "controls": _controls(follower),
        "finals": _finals(follower),
        "problems": _problems(follower),
        "failures": _failures(follower),
        "variants": variants(state, follower.spec.task.kernel.variant.files),
        "refusals": refused_edits(follower.start.get(KEY)),
        "importance": found["importance"],
        "passes": found["passes"],
        "light": follower.start.get("light"),
        "costs": costs(follower),
        "record": {
            "events": seq,
            "head": chain,
            "closed": follower.closed,
            "kinds": dict(follower.kinds),
            "tool": follower.start["tool"],
            "environment": follower.start["environment"],
            "spec": _cut(follower.spec.text),
            "spec_digest": follower.start["spec_digest"],
            "files": {name: _cut(text) for name, text in follower.spec.files.items()},
        },
        "audit": _audit(audited),
    }


@holding_together()
def statistics_of(follower: Follower) -> dict[str, Any]:
    """The sections that take seconds: a forest over all trials, a regression over all pipelines."""
    state = follower.state
    tunables = dimensions([t.proposal.configuration for t in state.trials.values()])
    space = follower.space.passes
    return {
        "importance": importance(state, tunables),
        "passes": None if space is None else passes(state, space.starts),
    }


def _phase(follower: Follower) -> str:
    state = follower.state
    if state.end is not None:
        return "done"
    if state.interrupted:
        return "interrupted"
    if state.chosen is not None:
        return "confirming"
    if state.finalists:
        return "choosing"
    if state.reduction is not None:
        return "taking the winner apart"
    return "searching"


def _answer(follower: Follower) -> dict[str, Any]:
    """What is claimed, what was changed for it, and what the claim rests on."""
    state = follower.state
    outcome = follower.outcome
    summary = outcome.summary
    candidate = summary.candidate
    shown = summary.best if summary.improved else candidate
    default = summary.baseline.proposal.configuration
    changes = []
    if shown is not None:
        for name, value in shown.proposal.configuration.items():
            if default.get(name) != value:
                changes.append({"name": name, "from": default.get(name), "to": value})
    variant = None if shown is None else state.variants[shown.variant]
    unconfirmed = summary.unconfirmed
    return {
        "claim": summary.claim,
        "improved": summary.improved,
        # Rounded once, where it is shown: 2.28495 is 2.28, and not 2.285 and then 2.29.
        "speed": list(summary.speedup),
        "measured": None if summary.measured is None else [rounded(v) for v in summary.measured],
        "baseline_s": [rounded(v) for v in summary.baseline_s],
        "best_s": [rounded(v) for v in summary.best_s],
        "trial": None if shown is None else shown.number,
        "variant": 0 if variant is None else variant.number,
        "edits": [] if variant is None else [dict(e) for e in variant.edits],
        "changes": changes,
        "processes": (state.verdict or {}).get("processes"),
        "looks": state.verdicts,
        "reference": (state.baseline or {}).get("reference", ""),
        "workloads": (state.baseline or {}).get("notes", {}).get("workloads", []),
        "message": summary.message,
        "unconfirmed": ""
        if unconfirmed is None
        else unconfirmed.text + unconfirmed.cure(outcome.path or Path()),
        "stopped_by": summary.stopped_by,
    }


def _controls(follower: Follower) -> list[list[float | None]]:
    """The baseline timed again and again: active seconds, its time as a ratio to the first there, and the device."""
    weights = follower.state.settings.weights
    firsts: dict[int, tuple[float, ...]] = {}
    found: list[list[float | None]] = []
    for clock_s, lane, medians in follower.controls:
        first = firsts.setdefault(lane, medians)
        log = sum(w * math.log(m / f) for w, m, f in zip(weights, medians, first, strict=True))
        found.append([rounded(clock_s), rounded(math.exp(log)), lane])
    return found


def _finals(follower: Follower) -> dict[str, Any]:
    """Seconds of one call in each fresh process, by trial, while choosing and while confirming."""
    state = follower.state
    weights = state.settings.weights
    found: dict[str, Any] = {}
    for purpose, samples in (
        ("choose", follower.chosen_from or state.finals["choose"]),
        ("confirm", state.finals["confirm"]),
    ):
        rows: dict[int, list[float | None]] = {}
        for sample in samples:
            value = None
            if sample.status is Status.OK:
                logs = [w * math.log(m) for w, m in zip(weights, sample.medians_s, strict=True)]
                value = rounded(math.exp(sum(logs)))
            rows.setdefault(sample.trial, []).append(value)
        found[purpose] = [{"trial": n, "times_s": times} for n, times in rows.items()]
    return found


def _problems(follower: Follower) -> list[dict[str, Any]]:
    """What a confirmed winner gains on each problem, where there are several; seconds of one call."""
    problems = follower.spec.task.problems
    found = gains(follower.state) if follower.outcome.summary.improved else ()
    if len(problems) < 2 or not found:
        return []
    return [
        {
            "sizes": {name: size for name, size in problem.sizes.items() if name != INDEX},
            "weight": rounded(weight),
            "speed": list(gain.speedup),
            "baseline_s": rounded(gain.baseline_s),
            "best_s": rounded(gain.best_s),
        }
        for problem, gain, weight in zip(problems, found, follower.state.settings.weights, strict=True)
    ]


def _failures(follower: Follower) -> list[dict[str, Any]]:
    """Trials that failed, by status and stage, with the commonest messages and the trials that show them."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for trial in follower.state.trials.values():
        if trial.status in FAILURES and trial.number in follower.finished:
            groups.setdefault((trial.status.value, trial.stage.value), []).append(trial)
    found = []
    for (status, stage), trials in groups.items():
        counts = Counter(t.message[:MESSAGE_LONGEST] for t in trials)
        first = {t.message[:MESSAGE_LONGEST]: t.number for t in reversed(trials)}
        messages = [
            {"text": text, "count": count, "first": first[text]}
            for text, count in counts.most_common(FIRST_MESSAGES)
        ]
        more = len(counts) - len(messages)
        found.append(
            {"status": status, "stage": stage, "count": len(trials), "messages": messages, "more": more}
        )
    return sorted(found, key=lambda g: -g["count"])


def _audit(found: AuditReport | str | None) -> dict[str, Any] | None:
    if found is None:
        return None
    if isinstance(found, str):
        return {"clean": None, "message": found}
    return {**found.to_json(), "run": found.path.name, "message": ""}


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_LONGEST else f"{text[:TEXT_LONGEST]}\n... cut"


def audit_or_reason(follower: Follower) -> AuditReport | str:
    """Replays the record without a compiler; a sentence where that cannot be done."""
    try:
        found = audit(follower.path)
    except TunerError as error:
        return str(error)
    return found.of_another_version or found
