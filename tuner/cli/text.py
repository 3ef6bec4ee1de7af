"""Results as text for people, on stdout."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.figures import FREE, beside
from tuner.cli.winner_text import print_winner
from tuner.driver.outcome.refused_edits import describe_refusals, mostly_refused

if TYPE_CHECKING:
    from tuner.api import Result
    from tuner.driver.audit import AuditReport
    from tuner.driver.check import CheckReport
    from tuner.driver.doctor import Finding
    from tuner.driver.outcome.correspondence import Correspondence
    from tuner.driver.outcome.devices import DeviceShare
    from tuner.driver.outcome.failures import Failure
    from tuner.driver.outcome.result import Lineage, Summary
    from tuner.driver.outcome.savings import Savings
    from tuner.driver.plan.comparison import Comparison
    from tuner.driver.state.objectives import FrontPoint

__all__ = [
    "print_audit",
    "print_check",
    "print_doctor",
    "print_list",
    "print_result",
    "resume_command",
    "seconds_text",
]

LIGHT_SHOWN = 20.0
"""A bound farther away says nothing: the kernel is bound by something else."""
LONGEST_LINE = 160
_BETWEEN = re.compile(r"; (?=(?:[^']*'[^']*')*[^']*$)")
"""Between the items of a list; source text in quotes has semicolons of its own."""
FRONT_SHOWN = 12
DEVICES_SHOWN = 8


def resume_command(spec: str, out: Path) -> str:
    """What goes on with an interrupted run."""
    return f"tuner tune {spec} --resume --out {out}"


def seconds_text(seconds: float) -> str:
    """A time with its unit."""
    unit, scale = _unit(seconds)
    return f"{seconds * scale:.3g} {unit}"


def print_result(result: Result, spec: str = "SPEC") -> None:
    """The answer first: what was gained and how sure; then what changed and where the record is.

    Args:
        result: of the run.
        spec: the path of what was tuned.
    """
    outcome = result.outcome
    summary = outcome.summary
    print(f"{outcome.kernel}: {_answer(result, spec)}")
    unit, scale = _unit(summary.baseline_s[0])
    if not math.isnan(summary.baseline_s[0]):
        print(f"  baseline   {_time(summary.baseline_s, unit, scale)}")
    if summary.improved:
        print(f"  best       {_time(summary.best_s, unit, scale)}  (trial {summary.best.number})")
        print_winner(summary)
    elif summary.candidate is not None and summary.measured is not None:
        value, low, high = summary.measured
        print(
            f"  candidate  trial {summary.candidate.number}: {value:.3f}x [{low:.3f}, {high:.3f}], not claimed"
        )
    for other in summary.compared:
        print(f"  compare    {other.command}: {_compared(other)}")
    if summary.pareto:
        _print_front(summary.pareto)
    if summary.evolution is not None:
        print(f"  variants   {_variants(summary.evolution)}")
    if summary.refusals is not None and mostly_refused(summary.refusals):
        for number, line in enumerate(describe_refusals(summary.refusals)):
            print(f"  {'' if number else 'refused':11}{line}")
    if summary.recalled:
        near = ", ".join(f"{source['kernel']} ({source['speedup']:.2f}x)" for source in summary.recalled)
        tried, best = summary.advised
        came = f"; {tried} variants, {best} taken up" if tried else ""
        print(f"  library    tried first what runs of similar kernels had found: {near}{came}")
    if summary.light is not None and summary.light[1] is not None and summary.light[1] <= LIGHT_SHOWN:
        print(f"  light      the best took {summary.light[1]:.2f} times what this machine needs at least")
    if summary.light is not None and summary.overstated:
        print(
            f"  light      measure.bytes or measure.operations is too large: by them a call takes at least "
            f"{summary.light[0] * 1e3:.3g} ms, and the baseline takes less; no bound was used"
        )
    if summary.savings is not None:
        print(f"  cost model {_savings(summary.savings)}")
    if summary.llm.calls:
        print(f"  models     {_models(summary.llm)}")
    for rival in summary.rivals:
        value, (low, high) = rival["speedup"]["value"], rival["speedup"]["ci95"]
        print(
            f"  simpler    {rival['name']}, same budget: {value:.2f}x [{low:.2f}, {high:.2f}] ({rival['claim']})"
        )
    if outcome.far and outcome.device:
        print(f"  device     {outcome.device}")
    if summary.devices:
        _print_devices(summary.devices)
    print(f"  candidates {_candidates(summary)}")
    for failure in summary.failures:
        print(f"             {_failure(failure)}")
    for warning in summary.warnings:
        print(f"  warning    {warning}")
    further = f", with more budget given {_times(summary.extended)}" if summary.extended else ""
    print(f"  ended by   {summary.stopped_by} after {summary.wall_s:.1f} s{further}{_unspent(summary)}")
    if outcome.path is not None:
        print(f"  record     {outcome.path}")


def _candidates(summary: Summary) -> str:
    """How many of different code were tried and what came of them; then what else was proposed."""
    counts = summary.trials
    tried = {s: n for s, n in counts.items() if s not in ("total", *FREE) and n}
    other = beside(counts, summary.known_s)
    shown = ", ".join(f"{n} {status}" for status, n in tried.items())
    return f"{sum(tried.values())} of different code: {shown}" + (f"; {other}" if other else "")


def _unspent(summary: Summary) -> str:
    """Why a run ended before its time was over."""
    if not summary.unspent_s:
        return ""
    return f": {summary.message}; {summary.unspent_s / 60:.0f} minutes of the budget are left"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _failure(failure: Failure) -> str:
    """The commonest reason of a status, in one line."""
    share = "" if failure.alike == failure.count else f" {failure.alike} of {failure.count}"
    message = " ".join(failure.message.split()) or "no reason was given"
    line = f"{failure.status.value}{share}: {message}"
    where = f" (trial {failure.trial})"
    return line + where if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…{where}"


def _print_devices(shares: Sequence[DeviceShare]) -> None:
    """What each device did, those first that need a look: lost, slow; of many the rest is counted."""
    print(f"  devices    {len(shares)}, each trial in units of the baseline on its own device:")
    first = sorted(shares, key=lambda s: (not s.lost, not s.slow, s.number))
    shown = first if len(first) <= DEVICES_SHOWN else first[: DEVICES_SHOWN - 1]
    for share in sorted(shown, key=lambda s: s.number):
        print(f"             {share.number} ({share.node}): {_device(share)}")
    if len(shown) < len(shares):
        rest = first[len(shown) :]
        print(
            f"             {len(rest)} others: {sum(s.trials for s in rest)} trials; --json has all of them"
        )


def _device(share: DeviceShare) -> str:
    said = [f"{share.trials} trials" if share.trials != 1 else "1 trial"]
    if share.evaluation_s is not None:
        said.append(f"{share.evaluation_s:.3g} s an evaluation" + (" (slow)" if share.slow else ""))
    if share.baseline_s is not None:
        unit, scale = _unit(share.baseline_s)
        said.append(f"baseline {share.baseline_s * scale:.4g} {unit}")
    if share.lost:
        said.append(f"lost: {share.lost}")
    return ", ".join(said)


def _print_front(points: Sequence[FrontPoint]) -> None:
    """The front, fastest first; a long one is thinned."""
    print(
        f"  front      {len(points)} trials that no other beats in everything, as the search measured them:"
    )
    step = -(-len(points) // FRONT_SHOWN)
    for point in [*points[:-1:step], points[-1]]:
        values = ", ".join(_objective(name, value) for name, value in point.values.items())
        print(f"             {values}  (trial {point.trial})")
    if step > 1:
        print("             … thinned; --json has all of it")


def _objective(name: str, value: float) -> str:
    if name == "time_s":
        unit, scale = _unit(value)
        return f"{value * scale:.4g} {unit}"
    return f"{value:.4g} J" if name == "energy_j" else f"{value:.0f} bytes"


def _compared(other: Comparison) -> str:
    if other.speedup is None:
        return f"{other.status.value}: {other.message}"
    value, low, high = other.speedup
    return f"{value:.2f} times the baseline's speed [{low:.2f}, {high:.2f}]"


def _answer(result: Result, spec: str) -> str:
    summary = result.outcome.summary
    value, low, high = summary.speedup
    if summary.improved:
        # A lower end of 1.004 that reads 1.00 looks like no gain at all.
        places = 2 if low >= 1.01 else 4
        interval = f"95% interval {low:.{places}f} to {high:.{places}f}"
        return f"{value:.2f} times faster than the baseline, {interval}, confirmed"
    run, seen = result.outcome.path or Path(), summary.search_speedup
    if result.outcome.interrupted:
        kept = "" if seen is None else f"; {seen:.2f} times faster so far, tuner confirm {run} confirms that"
        return f"interrupted; {resume_command(spec, run.parent)} goes on from here{kept}"
    if summary.trials["total"] == 1:
        return summary.nothing_tried
    if summary.unconfirmed is not None:
        return summary.unconfirmed.described(seen, run)
    return {
        "negligible": "faster by less than 1%: negligible",
        "not_confirmed": "not confirmed",
    }.get(summary.claim, "no improvement found")


def _variants(lineage: Lineage) -> str:
    failed = f", {lineage.failed} of which failed" if lineage.failed else ""
    if any(name.startswith("llm/") for name in lineage.by):
        by = ", ".join(f"{count} by {name}" for name, count in lineage.by.items())
        return f"{lineage.total} of the source: as given, {by}{failed}"
    if not lineage.by:
        if lineage.total > 1:
            return f"{lineage.total} of the source: as given, and what earlier runs advise{failed}"
        return "the source as given alone: nothing else was bred"
    return f"{lineage.total} of the source, by remix operators (no LLM){failed}"


def _savings(found: Savings) -> str:
    """How many evaluations the model saved and what that may have cost; or why it did nothing."""
    skipped = sum(found.pruned.values())
    if not skipped and not found.passed_over and not found.ranked:
        reasons = "; ".join(sorted({why for why in found.why.values() if why}))
        return f"pruned nothing{': ' + reasons if reasons else ''}"
    parts = [f"{found.ranked} tried from its ranking of the space"] if found.ranked else []
    parts += [f"{n} not {'built' if stage == 'ask' else 'run'}" for stage, n in found.pruned.items() if n]
    if found.passed_over:
        parts.append(f"{found.passed_over} passed over")
    text = f"{', '.join(parts)}, for {found.fit_s:.1f} s of its own"
    if not found.audits:
        return f"{text}; not audited yet"
    return (
        f"{text}; of {found.audits} measured all the same {found.losses} beat the best before "
        f"(at most {found.loss_bound:.0%} would have)"
    )


def _models(llm: Correspondence) -> str:
    tokens = f"{llm.prompt_tokens} + {llm.completion_tokens} tokens, {llm.usd:.4g} dollars"
    failed = f"; {llm.failed} failed ({llm.message})" if llm.failed else ""
    kinds = ", ".join(
        f"{answers} {name}" + ("" if name == "ideas" else f": {work} work")
        for name, (answers, work) in llm.purposes.items()
        if answers
    )
    answers = f" ({kinds})" if kinds else ""
    return f"{llm.calls} calls{' from a cassette' if llm.cassette else ''}{answers}, {tokens}{failed}"


def _unit(seconds: float) -> tuple[str, float]:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return unit, scale
    return "ns", 1e9


def _time(values: tuple[float, float, float], unit: str, scale: float) -> str:
    value, low, high = (v * scale for v in values)
    return f"{value:.4g} {unit} [{low:.4g}, {high:.4g}]"


_RUN = "{:<30} {:<16} {:>8}  {:<14} {:>6}  {:<16}  {}"


def print_list(results: Iterable[Result], folder: Path) -> None:
    """One line for each run, as soon as it is there; of a gain that is only the search's the claim says so."""
    none = True
    for result in results:
        if none:
            print(_RUN.format("run", "kernel", "gain", "claim", "trials", "written", "device").rstrip())
        none, outcome = False, result.outcome
        summary = outcome.summary
        state = "interrupted" if outcome.interrupted else summary.claim
        score = None if summary.candidate is None else summary.candidate.score
        seen = result.speedup if summary.improved or score is None else math.exp(-score)
        written = datetime.fromtimestamp(result.path.stat().st_mtime).strftime("%Y-%m-%d %H:%M")
        gain = f"{seen:.2f}x{'' if summary.improved or score is None else '?'}"
        print(
            _RUN.format(
                str(outcome.path),
                outcome.kernel,
                gain,
                state,
                summary.trials["total"],
                written,
                outcome.device,
            )
        )
    if none:
        print(f"no runs in {folder}")


def print_audit(report: AuditReport) -> None:
    """What was re-derived, then what differs."""
    print(f"{report.path}: {'every decision stands' if report.clean else 'DIFFERENCES FOUND'}")
    print(
        f"  {report.events} events, {report.decisions} decisions and {report.proposals} proposals re-derived"
    )
    if report.rebuilt is not None:
        print(f"  {report.rebuilt} builds compiled again")
    if report.remeasured is not None:
        value, low, high = report.remeasured
        stands = {True: "the claim stands", False: "the claim does not stand", None: "nothing was claimed"}
        print(f"  measured again: {value:.3f}x [{low:.3f}, {high:.3f}]; {stands[report.claim_stands]}")
    if report.signed_by is not None:
        print(f"  signed by the Ed25519 key {report.signed_by}")
    for line in report.differences:
        print(f"  differs: {line}")
    for line in report.not_rederived:
        print(f"  not re-derived: {line}")
    for line in report.notes:
        print(f"  note: {line}")


def print_check(report: CheckReport) -> None:
    """What a spec describes and whether its baseline holds."""
    print(f"{report.name}: {'ok' if report.ok else 'the baseline fails'}")
    for label, line in report.lines:
        # A list that no terminal shows in a line stands in as many as it has items.
        parts = _BETWEEN.split(line) if len(line) > LONGEST_LINE else [line]
        for number, part in enumerate(parts):
            print(f"  {'' if number else label:12} {part}")
    for warning in report.warnings:
        print(f"  warning      {warning}")


def print_doctor(findings: Sequence[Finding]) -> None:
    """One line for each part: what there is, what is missing, what to do."""
    for finding in findings:
        mark = "ok" if finding.ok else "--"
        print(f"{mark}  {finding.part:16} {finding.text}")
        if finding.cure:
            print(f"    {'':16} {finding.cure}")
