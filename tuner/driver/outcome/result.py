"""The result of a run, derived from its state alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.core import statistics
from tuner.core.canonical import canonical_json
from tuner.core.types import BASELINE, Configuration, Status
from tuner.driver.outcome.correspondence import Correspondence, correspondence_of
from tuner.driver.outcome.devices import DeviceShare, device_shares
from tuner.driver.outcome.failures import Failure, failures
from tuner.driver.outcome.refused_edits import mostly_refused, refusals
from tuner.driver.outcome.savings import Savings, savings
from tuner.driver.outcome.unconfirmed import Unconfirmed, nothing_tried, why_unconfirmed
from tuner.driver.plan.ablation import Worth, worths
from tuner.driver.plan.comparison import Comparison, comparisons
from tuner.driver.plan.light import ratio_to_light
from tuner.driver.plan.simplest import passed_over
from tuner.driver.state.claimed import CLAIMS as HOLDING
from tuner.driver.state.evolution import spread
from tuner.driver.state.lineage import Reduction
from tuner.driver.state.objectives import FrontPoint, pareto
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import CONVERGED, LIBRARY, REMIX
from tuner.driver.state.trials import TrialState
from tuner.spaces.space import PASSES

__all__ = ["SCHEMA_VERSION", "Summary", "search_times_s", "summarise"]

SCHEMA_VERSION = 1

CLAIMS = ("improved", "negligible", "none", "not_confirmed")

STOPS = (
    *("evaluations", "minutes", "usd", "tokens", "calls"),
    *("confirm", "exhausted", CONVERGED, "speed_of_light", "baseline", "interrupted"),
)
"""Why a search ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """What came of the variants of a run.

    Attributes:
        total: of them, the source as given included.
        failed: of which nothing worked.
        left_out: edits that were taken out of the winner because they did not pay.
        variant: the best trial's: 0 is the source as given.
        edits: that make it of the original.
        by: variants that each proposer or model has made.
        gains: of each edit: how many times as long a call takes without it, infinite where nothing works without it;
            ``None`` where that was not tried.
        intervals: of those ratios, 95% over the timed calls of one process each; ``None`` where there is none. Where
            the buffers lie, which differs between processes, is not in them.
    """

    total: int
    failed: int
    left_out: int
    variant: int
    edits: tuple[Mapping[str, Any], ...]
    by: Mapping[str, int]
    gains: tuple[float | None, ...] = ()
    intervals: tuple[tuple[float, float] | None, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "proposer": ", ".join(self.by) or REMIX,
            "by": dict(self.by),
            "variants": self.total,
            "failed": self.failed,
            "left_out": self.left_out,
            "variant": self.variant,
            "edits": [dict(e) for e in self.edits],
            "gains": [
                None
                if g is None
                else {
                    "ratio": None if math.isinf(g) else g,
                    "ci95": None if i is None else list(i),
                    "needed": math.isinf(g),
                }
                for g, i in zip(self.gains, self.intervals or (None,) * len(self.gains), strict=True)
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What came of a run.

    Attributes:
        improved: whether a gain is claimed.
        claim: ``improved``, ``negligible`` (under 1%), ``none``, or ``not_confirmed`` (too short to say).
        best: the claimed trial; the baseline where nothing is claimed.
        candidate: the best trial that the search saw, claimed or not; ``None`` when nothing looked faster.
        speedup: value and 95% interval over the baseline; 1 where nothing is claimed.
        measured: value and interval of the candidate even where nothing is claimed; ``None`` when not confirmed.
        unconfirmed: why nothing was confirmed of what looked faster; ``None`` where it was, or the run goes on.
        extended: how often the run was given more budget.
        unspent_s: time of the budget that is left where the search has converged.
        known_s: worker seconds of compiling candidates that came to known code.
        variant: digest of the best trial's source.
        evolution: what came of the variants; ``None`` where the source stays as it is given.
        light: seconds that a call takes at least (geometric mean over problems), and how many times that the best
            trial took; ``None`` where nothing is known, the second one where the bound was disproved.
        overstated: whether the baseline itself is faster than the spec's bytes and operations allow.
        recalled: near runs of the library; ``None`` where it was not looked at.
        advised: how many variants were tried because of them, and how many of those became a part of the search.
        savings: what the cost model saved; ``None`` where it was not asked.
        pareto: where there are several objectives the trials that nothing beats in all of them, fastest first; their
            values are the search's, unlike the claim, which is about time and confirmed.
        simplest: the trial that looked faster than the best and could not be told apart, as
            :func:`tuner.driver.plan.simplest.passed_over` says it.
        shortened: the best's pipeline as it was searched with, where passes of it changed no code; empty otherwise.
        ablation: what each setting and each pass of the winner is worth, where that was measured.
        failures: the commonest reason of each status with which trials failed.
        refusals: what operators refused in the source, where nothing in it is claimed.
        devices: what each of several devices did; empty where there was one.
        rivals: what simpler searches reached with the same budget, where they were asked for.
        warnings: what the verification would miss, as the baseline showed it.
        baseline_s, best_s: seconds of one call with 95% interval (weighted geometric mean over problems).
    """

    improved: bool
    claim: str
    baseline: TrialState
    best: TrialState
    candidate: TrialState | None
    speedup: tuple[float, float, float]
    measured: tuple[float, float, float] | None
    baseline_s: tuple[float, float, float]
    best_s: tuple[float, float, float]
    trials: Mapping[str, int]
    stopped_by: str
    message: str
    wall_s: float
    variant: str
    compared: tuple[Comparison, ...] = ()
    evolution: Lineage | None = None
    savings: Savings | None = None
    recalled: tuple[Mapping[str, Any], ...] | None = None
    advised: tuple[int, int] = (0, 0)
    light: tuple[float, float | None] | None = None
    overstated: bool = False
    llm: Correspondence = field(default_factory=Correspondence)
    pareto: tuple[FrontPoint, ...] = ()
    rivals: tuple[Mapping[str, Any], ...] = ()
    simplest: Mapping[str, Any] | None = None
    shortened: str = ""
    ablation: tuple[Worth, ...] = ()
    failures: tuple[Failure, ...] = ()
    refusals: Mapping[str, Any] | None = None
    devices: tuple[DeviceShare, ...] = ()
    unconfirmed: Unconfirmed | None = None
    extended: int = 0
    unspent_s: float = 0.0
    known_s: float = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def configuration(self) -> Configuration:
        """Of the best trial."""
        return self.best.proposal.configuration

    @property
    def changes(self) -> Configuration:
        """What the best trial sets otherwise than the baseline."""
        default = self.baseline.proposal.configuration
        return {name: value for name, value in self.configuration.items() if default.get(name) != value}

    @property
    def search_speedup(self) -> float | None:
        """How many times as fast as the baseline the candidate was in the search; ``None`` without one."""
        score = None if self.candidate is None else self.candidate.score
        return None if score is None else math.exp(-score)

    @property
    def nothing_tried(self) -> str:
        """Why a run has no trial but the baseline."""
        return nothing_tried(self.stopped_by, self.wall_s)

    def to_json(self, *, run: str | None, kernel: str, backend: str, device: str) -> dict[str, Any]:
        """The object behind ``--json``."""
        more: dict[str, Any] = {}
        if self.evolution is not None:
            more["evolution"] = self.evolution.to_json()
        if self.pareto:
            more["pareto"] = [p.to_json() for p in self.pareto]
        if self.unconfirmed is not None:
            more["unconfirmed"] = self.unconfirmed.to_json()
        if self.warnings:
            more["warnings"] = list(self.warnings)
        return {
            "schema_version": SCHEMA_VERSION,
            "run": run,
            "kernel": kernel,
            "backend": backend,
            "device": device,
            "improved": self.improved,
            "claim": self.claim,
            "baseline": _timing(self.baseline_s),
            "best": {
                **_timing(self.best_s),
                "trial": self.best.number,
                "configuration": dict(self.configuration),
                "variant": self.variant,
            },
            "speedup": {"value": self.speedup[0], "ci95": list(self.speedup[1:])},
            "candidate": self._candidate_json(),
            "trials": dict(self.trials),
            "known_code": {"trials": self.trials[Status.DUPLICATE], "compile_s": self.known_s},
            "compare": [c.to_json() for c in self.compared],
            "llm": self.llm.to_json(),
            "wall_s": self.wall_s,
            "stopped_by": self.stopped_by,
            "message": self.message,
            **more,
            "light": self._light_json(),
            "library": None if self.recalled is None else [dict(source) for source in self.recalled],
            **({"advised": {"tried": self.advised[0], "best": self.advised[1]}} if self.advised[0] else {}),
            "cost_model": None if self.savings is None else self.savings.to_json(),
            **({"simplest": dict(self.simplest)} if self.simplest else {}),
            **({"shortened": self.shortened} if self.shortened else {}),
            **({"ablation": [w.to_json() for w in self.ablation]} if self.ablation else {}),
            **({"extended": self.extended} if self.extended else {}),
            **({"unspent_s": self.unspent_s} if self.unspent_s else {}),
            **({"failures": [f.to_json() for f in self.failures]} if self.failures else {}),
            **({"refusals": dict(self.refusals)} if self.refusals and mostly_refused(self.refusals) else {}),
            **({"devices": [d.to_json() for d in self.devices]} if self.devices else {}),
            **({"baselines": [dict(r) for r in self.rivals]} if self.rivals else {}),
        }

    def _light_json(self) -> dict[str, float | None] | None:
        if self.light is None:
            return None
        return {"bound_s": self.light[0], "best_over_bound": self.light[1]}

    def _candidate_json(self) -> dict[str, Any] | None:
        if self.candidate is None:
            return None
        return {
            "trial": self.candidate.number,
            "configuration": dict(self.candidate.proposal.configuration),
            "search_speedup": self.search_speedup,
            "measured_speedup": None if self.measured is None else list(self.measured),
        }


def _timing(values: tuple[float, float, float]) -> dict[str, Any]:
    """Seconds for JSON, which has no NaN: ``null`` where nothing was timed."""
    value, low, high = (None if math.isnan(v) else v for v in values)
    return {"time_s": value, "ci95": [low, high]}


def summarise(state: RunState, *, variant: str) -> Summary:
    """What the run has come to, also while it is interrupted or failed.

    Args:
        state: of the run.
        variant: what stands for the source as given where its own digest is not recorded.
    """
    baseline = state.trials[BASELINE]
    # While a run goes further what it claimed before stands.
    decided = state.verdict is not None and state.verdict["claim"] in HOLDING
    held = state.held if state.end is None and not decided else None
    verdict = (state.verdict if held is None else held.verdict) or {}
    claim = verdict.get("claim", "not_confirmed" if state.finalists or state.end is None else "none")
    if claim == "extend":
        claim = "not_confirmed"
    number = state.chosen if held is None else held.chosen
    chosen = None if number is None else state.trials[number]
    looks_best = state.trials[state.best] if state.best not in (None, BASELINE) else None
    candidate = chosen or (looks_best if looks_best and (looks_best.score or 0) < 0 else None)
    improved = claim == "improved" and chosen is not None
    measured = _triple(verdict.get("speedup"))
    baseline_s = _triple(verdict.get("baseline_s")) or search_times_s(state, baseline)
    best_s = baseline_s
    if improved:
        best_s = _triple(verdict.get("candidate_s")) or baseline_s
    stopped_by = state.end["stopped_by"] if state.end else "interrupted"
    best = chosen if improved and chosen else baseline
    return Summary(
        improved=improved,
        claim=claim,
        baseline=baseline,
        best=best,
        candidate=candidate,
        speedup=measured if improved and measured else (1.0, 1.0, 1.0),
        measured=measured,
        baseline_s=baseline_s,
        best_s=best_s,
        trials=_counts(state),
        stopped_by=stopped_by,
        message=_message(state, baseline),
        wall_s=state.clock_s,
        variant=state.variants[best.variant].digest or variant,
        compared=comparisons(state),
        light=_light(state),
        overstated=state.light_disproved and bool(((state.start or {}).get("light") or {}).get("declared")),
        recalled=None if state.recalled is None else tuple(state.recalled),
        advised=_advised(state),
        savings=savings(state) if state.judgings or state.settings.ranked else None,
        evolution=_lineage(state, best) if state.settings.evolution is not None else None,
        llm=correspondence_of(state),
        pareto=pareto(state),
        rivals=tuple((state.start or {}).get("rivals", ())),
        simplest=passed_over(state) if improved else None,
        shortened=_shortened(best),
        ablation=worths(state),
        failures=failures(state.trials.values()),
        refusals=refusals(state, edited=bool(state.variants[best.variant].edits)),
        devices=device_shares(state),
        unconfirmed=why_unconfirmed(state),
        extended=state.extended,
        unspent_s=state.settings.deadline_s - state.clock_s if stopped_by == CONVERGED else 0.0,
        known_s=_known_s(state),
        warnings=_warnings(state),
    )


def _warnings(state: RunState) -> tuple[str, ...]:
    notes = (state.baseline or {}).get("notes")
    found = notes.get("warnings") if isinstance(notes, Mapping) else None
    return tuple(str(text) for text in found) if isinstance(found, Sequence) else ()


def _advised(state: RunState) -> tuple[int, int]:
    own = [v for v in state.variants.values() if v.origin == LIBRARY]
    won = None if state.chosen is None else state.trials[state.chosen].variant
    # What came too late to be taken up may have won.
    return len(own), sum(v.score is not None and (not v.outclassed or v.number == won) for v in own)


def _light(state: RunState) -> tuple[float, float | None] | None:
    found = (state.start or {}).get("light")
    if found is None or any(p["bound_s"] <= 0 for p in found["problems"]):
        return None
    pairs = zip(state.settings.weights, found["problems"], strict=True)
    bound_s = math.exp(sum(w * math.log(p["bound_s"]) for w, p in pairs))
    best = None if state.best is None else state.trials[state.best].medians_s
    return bound_s, ratio_to_light(state, best)


def _lineage(state: RunState, best: TrialState) -> Lineage:
    searched = [v for v in state.variants.values() if v.purpose == "propose"]
    own, reduction, left_out = state.variants[best.variant], state.reduction, 0
    if reduction is not None and own.number == reduction.variant and reduction.replaced:
        left_out = len(state.variants[min(reduction.replaced)].edits) - len(own.edits)
    return Lineage(
        total=len(searched),
        failed=sum(v.failed for v in searched),
        left_out=left_out,
        variant=own.number,
        edits=own.edits,
        by=Counter(state.exchanges.arm_of[v.number] for v in searched if v.number in state.exchanges.arm_of),
        gains=tuple(_gain(reduction, edit) for edit in own.edits),
        intervals=tuple(_gain_interval(state, edit) for edit in own.edits),
    )


def _gain(reduction: Reduction | None, edit: Mapping[str, Any]) -> float | None:
    """What an edit of the winner is worth, as a ratio of times."""
    lost = None if reduction is None else reduction.worth.get(canonical_json(dict(edit)))
    return None if lost is None else math.exp(lost)


def _gain_interval(state: RunState, edit: Mapping[str, Any]) -> tuple[float, float] | None:
    """The interval of what an edit is worth, around the ratio that the run decided by."""
    reduction = state.reduction
    gain = _gain(reduction, edit)
    if reduction is None or gain is None or math.isinf(gain):
        return None
    number = reduction.without.get(canonical_json(dict(edit)))
    half = None if number is None else spread(state, state.trials[number], state.trials[reduction.trial])
    if half is None:
        return None
    return gain * math.exp(-half), gain * math.exp(half)


def _message(state: RunState, baseline: TrialState) -> str:
    if baseline.status not in (None, Status.OK):
        return f"the baseline failed: {baseline.message or baseline.status}"
    return str(state.end.get("message", "")) if state.end else ""


def _counts(state: RunState) -> dict[str, int]:
    statuses = Counter(t.status.value for t in state.trials.values() if t.status is not None)
    counts = {"total": sum(statuses.values())}
    for status in Status:
        counts[status.value] = statuses.get(status.value, 0)
    return counts


def _known_s(state: RunState) -> float:
    known = (t.build or {} for t in state.trials.values() if t.status is Status.DUPLICATE)
    return math.fsum(seconds for build in known for seconds in build.get("seconds", {}).values())


def _shortened(trial: TrialState) -> str:
    before, after = (p.configuration.get(PASSES) for p in (trial.as_searched, trial.proposal))
    return "" if before == after else str(before)


def _triple(values: Any) -> tuple[float, float, float] | None:
    return None if values is None else (float(values[0]), float(values[1]), float(values[2]))


def search_times_s(state: RunState, trial: TrialState) -> tuple[float, float, float]:
    """Seconds of one call with 95% interval from the samples of the search: one process, so the interval is rough.

    The weighted geometric mean over problems; NaN where one of them was not timed.
    """
    if not trial.rounds or any(not trial.times_s(p) for p in range(len(state.settings.weights))):
        return (math.nan, math.nan, math.nan)
    logs = [0.0, 0.0, 0.0]
    for problem, weight in enumerate(state.settings.weights):
        interval = statistics.median_interval(trial.times_s(problem))
        for i, value in enumerate((interval.value, interval.low, interval.high)):
            logs[i] += weight * math.log(value)
    return (math.exp(logs[0]), math.exp(logs[1]), math.exp(logs[2]))
