"""Audits of a finished record: the chain and every decision; then, where asked, the object code and the times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from tuner.core import racing, statistics
from tuner.core.canonical import canonical_json, from_json
from tuner.core.collecting import rarely_collected
from tuner.core.errors import RecordError, UsageError
from tuner.core.protocols import Backend, Evaluation
from tuner.core.streams import stream
from tuner.core.types import BASELINE, BuildRequest, Status
from tuner.driver.opening import catalogue_of, make_lineup, spec_of
from tuner.driver.replay import Difference, Replay, replay_events
from tuner.driver.state.run import RunState
from tuner.driver.state.strangers import holding_together
from tuner.driver.state.version import of_another
from tuner.driver.work.environment import changed, search_code, toolchain
from tuner.driver.work.lineup import Lineup
from tuner.driver.work.weighing import Lesser
from tuner.evaluators import registry as backends
from tuner.recorders import signature as signatures
from tuner.recorders.audit import audit_file, is_meant_as_record
from tuner.recorders.record import Head, RunRecord
from tuner.spec.load import LoadedSpec

__all__ = ["AuditReport", "audit"]

REMEASURE_FROM = 100_000
"""Process numbers of a re-measurement: inputs that the run never used."""

REBUILD_BATCH = 32
_EVENTS_SHOWN = 8


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """What an audit found. ``differences`` non-empty means exit status 4.

    ``of_another_version`` says of a record that another version wrote that nothing of it was derived again; it is not
    clean then.
    """

    path: Path
    events: int = 0
    decisions: int = 0
    proposals: int = 0
    differences: list[str] = field(default_factory=list)
    not_rederived: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rebuilt: int | None = None
    remeasured: tuple[float, float, float] | None = None
    claim_stands: bool | None = None
    signed_by: str | None = None
    of_another_version: str = ""

    @property
    def clean(self) -> bool:
        """Whether everything was looked at and nothing differs."""
        return not self.differences and not self.of_another_version

    def to_json(self) -> dict[str, Any]:
        """Plain JSON for ``--json``."""
        return {
            "schema_version": 1,
            "run": str(self.path),
            "clean": self.clean,
            "events": self.events,
            "decisions": self.decisions,
            "proposals": self.proposals,
            "differences": self.differences,
            "not_rederived": self.not_rederived,
            "notes": self.notes,
            "rebuilt": self.rebuilt,
            "remeasured": None if self.remeasured is None else list(self.remeasured),
            "claim_stands": self.claim_stands,
            "signed_by": self.signed_by,
        }


def audit(
    path: Path,
    *,
    rebuild: bool = False,
    remeasure: bool = False,
    sign: Path | None = None,
    backend: Backend | None = None,
) -> AuditReport:
    """Audits a record, which stays as it is; a signature beside it is checked too.

    Args:
        path: of the record.
        rebuild: compile every recorded build again and compare the object code.
        remeasure: time baseline and best again, on inputs that the run never saw.
        sign: a private key to sign a record with that passes.
        backend: instead of the record's own by name.

    Raises:
        RecordError: the file is no run record, or says nothing that could begin a run.
        UsageError: the key cannot be used, the record is not one to sign, or one of another version that is to be
            rebuilt, measured or signed.
        MachineError: there is a signature to check or to make, and no package for it.
    """
    if path.is_file() and not is_meant_as_record(path):
        raise RecordError(f"{path} cannot be audited: it is not a run record", "check the path")
    report = AuditReport(path=path)
    for finding in audit_file(path):
        (report.differences if finding.error else report.notes).append(finding.message)
    if report.differences:
        report.notes.append("the file is damaged: its decisions were not looked at")
        return report
    with RunRecord.read(path) as record:
        state = RunState(record.blob)
        first = next(iter(record.events()), None)
        if first is None or first.kind != "start":
            raise RecordError(f"{path} holds no run", "it was killed before it began")
        report.of_another_version = of_another(first.body)
        if report.of_another_version:
            if rebuild or remeasure or sign is not None:
                raise UsageError(
                    f"{path}: {report.of_another_version}", "audit it with the version that wrote it"
                )
            report.not_rederived.append(report.of_another_version)
            _check_signature(report, record.head)
            return report
        with holding_together(f"the first event of {path}"):
            spec = spec_of(record, first.body)
            catalogue = catalogue_of(record, first.body)
            space = spec.space(catalogue)
            lineup = make_lineup(record, state, spec, space, first.body)
        with rarely_collected():
            found = replay_events(state, lineup, record.events(), record.blob)
        head, closed = record.head, record.closed
    with holding_together(str(path)):
        _describe(report, found, state)
    if sign is None:
        _check_signature(report, head)
    if (rebuild or remeasure) and report.clean:
        _with_compiler(report, state, spec, lineup, backend, rebuild=rebuild, remeasure=remeasure)
    elif not (rebuild or remeasure):
        report.notes.append("object code and times were not looked at: --rebuild and --remeasure do")
    if sign is not None:
        if not report.clean or not closed or state.end is None:
            raise UsageError(
                f"{path} is not signed: {'it has differences' if not report.clean else 'its run has not ended'}",
                "tuner replay without --sign says more",
            )
        signature = signatures.sign(path, sign, head=head.hash, events=head.seq)
        report.signed_by = signature.fingerprint
    return report


def _check_signature(report: AuditReport, head: Head) -> None:
    try:
        signature = signatures.read_signature(report.path)
        if signature is None:
            return
        signatures.verify(signature, head=head.hash, events=head.seq)
    except signatures.SignatureError as error:
        report.differences.append(str(error))
        return
    report.signed_by = signature.fingerprint


def _describe(report: AuditReport, found: Replay, state: RunState) -> None:
    report.events, report.decisions, report.proposals = found.events, found.decisions, found.proposals
    other = None if state.start is None else _other_code(state.start)
    for difference in _first_causes(report, found.differences):
        line = f"event {difference.seq} ({difference.kind}): {difference.message}"
        if difference.kind == "ask" and other is not None:
            report.not_rederived.append(f"{line} ({other})")
        else:
            report.differences.append(line)
    report.not_rederived += [f"event {d.seq}: a tie within 1e-6 fell the other way" for d in found.ties]
    if state.end is None:
        report.notes.append("the run has not ended; --resume goes on with it")


def _first_causes(report: AuditReport, differences: Sequence[Difference]) -> list[Difference]:
    """Differences without those that may follow from others: later proposals of a searcher that went another way.

    Everything else is derived from the record alone, so that it differs by itself.
    """
    first: dict[int, Difference] = {}
    later: dict[int, list[int]] = {}
    kept = []
    for difference in differences:
        searcher = difference.searcher
        if searcher is None or searcher not in first or difference.alone:
            kept.append(difference)
            if searcher is not None:
                first.setdefault(searcher, difference)
        else:
            later.setdefault(searcher, []).append(difference.seq)
    for searcher, events in later.items():
        named = ", ".join(map(str, events[:_EVENTS_SHOWN])) + (", …" if len(events) > _EVENTS_SHOWN else "")
        report.not_rederived.append(
            f"{len(events)} later asks of the same searcher differ too, which may follow from event "
            f"{first[searcher].seq}: event{'s' if len(events) > 1 else ''} {named}"
        )
    return kept


def _other_code(start: Any) -> str | None:
    """Why proposals may be others here than in the run; ``None`` where they may not."""
    if start["search_code"] != search_code():
        return f"the run was made by other searchers, of remix-tuner {start['tool']}"
    for name, version in start["environment"]["packages"].items():
        try:
            same = metadata.version(name) == version
        except metadata.PackageNotFoundError:
            same = False
        if not same:
            return "other package versions than the run's"
    return None


def _with_compiler(
    report: AuditReport,
    state: RunState,
    spec: LoadedSpec,
    lineup: Lineup,
    backend: Backend | None,
    *,
    rebuild: bool,
    remeasure: bool,
) -> None:
    start = state.start
    assert start is not None
    backend = backends.given(backend, start["backend"])
    here = from_json(canonical_json(toolchain(backend, spec.task)))
    if here["backend"] != start["environment"]["backend"]:
        differing = ", ".join(changed(start["environment"]["backend"], here["backend"]))
        report.notes.append(
            f"not as in the run: {differing}; object code and times may differ for that, not decisions"
        )
    task = spec.task_with(seed=state.settings.seed)
    evaluation = backend.prepare(task, workers=state.settings.batch)
    try:
        if rebuild:
            _rebuild(report, state, lineup, evaluation)
        if remeasure:
            _remeasure(report, state, lineup, evaluation)
    finally:
        evaluation.close()


def _requests(lineup: Lineup, numbers: Sequence[int]) -> list[BuildRequest]:
    candidates = [(n, *lineup.of_trial(n)) for n in numbers]
    return [BuildRequest(trial=n, variant=variant, resolved=r) for n, variant, r in candidates]


def _rebuild(report: AuditReport, state: RunState, lineup: Lineup, evaluation: Evaluation) -> None:
    numbers = [n for n, t in state.trials.items() if t.build is not None and t.build["status"] == Status.OK]
    report.rebuilt = 0
    for first in range(0, len(numbers), REBUILD_BATCH):
        batch = numbers[first : first + REBUILD_BATCH]
        builds = evaluation.build(_requests(lineup, batch))
        for number, build in zip(batch, builds, strict=True):
            recorded = state.trials[number].build
            assert recorded is not None
            if build.digest != recorded["digest"]:
                report.differences.append(
                    f"trial {number} builds to other object code: {build.message or build.digest}"
                )
            report.rebuilt += 1
    _rebuild_without(report, state, lineup, evaluation)


def _rebuild_without(report: AuditReport, state: RunState, lineup: Lineup, evaluation: Evaluation) -> None:
    """The winner without each thing that was taken back: what it became then is known by its digest."""
    found = state.dissection
    recorded = [] if found is None else [b for b in found.built if b["status"] == Status.OK]
    lesser = Lesser(state, lineup, evaluation)
    for first in range(0, len(recorded), REBUILD_BATCH):
        batch = recorded[first : first + REBUILD_BATCH]
        builds = lesser.compile([body["item"] for body in batch])
        for body, build in zip(batch, builds, strict=True):
            if build.digest != body["digest"]:
                assert found is not None
                report.differences.append(
                    f"the winner without {found.items[body['item']]['name']} builds to other object code: "
                    f"{build.message or build.digest}"
                )
            assert report.rebuilt is not None
            report.rebuilt += 1


def _remeasure(report: AuditReport, state: RunState, lineup: Lineup, evaluation: Evaluation) -> None:
    chosen = state.chosen
    if chosen is None or state.verdict is None:
        report.notes.append("the run claims nothing, so there is nothing to measure again")
        return
    numbers = (BASELINE, chosen)
    resolved = {n: lineup.of_trial(n)[1] for n in numbers}
    builds = dict(zip(numbers, evaluation.build(_requests(lineup, numbers)), strict=True))
    evaluation.set_baseline(builds[BASELINE], resolved[BASELINE])
    values: dict[int, list[float]] = {n: [] for n in numbers}
    settings = state.settings
    for process in range(settings.confirm_processes):
        number = REMEASURE_FROM + process
        order = stream(settings.seed, "order/remeasure", number).permutation(2)
        for trial in (numbers[i] for i in order):
            for _ in range(settings.lost_retries + 1):
                session = evaluation.open(builds[trial], resolved[trial], purpose="confirm", number=number)
                try:
                    value = math.nan
                    if session.verify().status is Status.OK:
                        value = _composite(state, session, trial)
                finally:
                    session.close()
                # As in the run: a machine's fault is tried again, one who fails does so every time.
                if not math.isnan(value):
                    values[trial].append(value)
                    break
    if min(len(v) for v in values.values()) < settings.confirm_least:
        report.differences.append("baseline or best do not verify any more on fresh inputs")
        return
    interval = statistics.log_ratio_interval(values[BASELINE], values[chosen], 0.95)
    report.remeasured = (interval.value, interval.low, interval.high)
    if state.verdict["claim"] == "improved":
        report.claim_stands = interval.low > 1
        if not report.claim_stands:
            report.differences.append(
                f"the claimed gain is not there: {interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
            )


def _composite(state: RunState, session: Any, trial: int) -> float:
    total = 0.0
    for problem, weight in enumerate(state.settings.weights):
        call_s = statistics.median(state.trials[trial].times_s(problem))
        least = racing.least_calls(7, call_s, state.settings.enough_s)
        calls = min(max(math.ceil(state.settings.final_s / call_s), least), 2048)
        measurement = session.measure(problem=problem, calls=calls)
        if measurement.status is not Status.OK:
            return math.nan
        total += weight * math.log(statistics.median(measurement.times_s))
    return math.exp(total)
