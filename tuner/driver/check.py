"""``tuner check``: what a spec describes and whether its baseline builds, verifies and can be timed. Writes nothing."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.core import statistics
from tuner.core.errors import SpecError
from tuner.core.protocols import Backend, BaselineReport, Evaluation, Session, TellsSteps
from tuner.core.types import BASELINE, BuildRequest, Resolved, Status, Task, Variant
from tuner.driver.faults import MOST_FAULTS, FaultReport, plant_faults
from tuner.driver.outcome.refused_edits import describe_refusals, mostly_refused
from tuner.driver.overflow import overflows
from tuner.driver.state.bounds import disproves, light_of
from tuner.driver.work.environment import check_flags, needed
from tuner.driver.work.models import models_of
from tuner.evaluators import registry as backends
from tuner.search import proposers
from tuner.search import registry as searchers
from tuner.search.edit_survey import survey
from tuner.search.opening import still_hidden
from tuner.search.remix import RemixProposer
from tuner.spaces.source.edits import permitted
from tuner.spaces.source.regions import configured, read_program
from tuner.spaces.space import Space
from tuner.spec.load import LoadedSpec
from tuner.spec.yaml_places import read_yaml

__all__ = ["CheckReport", "check_spec"]

TIMED_CALLS = 5
MISSED_SHOWN = 5
_NOT_INSTALLED = "not installed"
"""What the OpenCL backend notes of Oclgrind, and has said before."""


@dataclass(slots=True, kw_only=True)
class CheckReport:
    """What was found; ``lines`` are label and text, ``ok`` is false when the baseline fails."""

    name: str
    ok: bool = True
    lines: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    count: int | None = None
    product: int = 1
    faults: FaultReport | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON for ``--json``."""
        facts: dict[str, str] = {}
        for name, text in self.lines:
            # A part may have several lines: that the baseline builds, and that it does not verify.
            facts[name] = f"{facts[name]}; {text}" if name in facts else text
        return {
            "schema_version": 1,
            "kernel": self.name,
            "ok": self.ok,
            "space": {"valid": self.count, "product": self.product},
            "facts": facts,
            "faults": None if self.faults is None else self.faults.to_json(),
            "warnings": self.warnings,
        }


def check_spec(
    spec: LoadedSpec,
    *,
    backend: Backend | None = None,
    faults: int = MOST_FAULTS,
    stage: Callable[[str], None] = lambda _: None,
    step: Callable[[str], None] = lambda _: None,
) -> CheckReport:
    """Checks one kernel's spec.

    Args:
        spec: of one kernel.
        backend: instead of the spec's by name.
        faults: also plant faults in the baseline, until the verification has caught so many.
        stage: told of each step as it begins: ``build``, ``baseline``, ``time``, ``light``, ``faults``.
        step: told of parts of a step that may take long, in words.

    Raises:
        SpecError: the spec cannot be run as it is.
        PluginError: a backend, searcher or proposer of a third party cannot be made, or raises an exception.
    """
    backend = backends.given(backend, spec.task.backend)
    report = CheckReport(name=spec.name, warnings=list(spec.notices))
    space = spec.space(backend.pass_catalogue(spec.task.target) if spec.wants_passes else None)
    check_flags(backend, spec)
    searchers.create(spec.search.strategy, space)
    _describe_space(report, space)
    if spec.evolves:
        _describe_source(report, spec, space)
    try:
        environment = backend.environment(spec.task.target)
    except SpecError as error:
        raise error.at(read_yaml(spec.text, spec.path).place(("target",))) from None
    report.lines.append(("device", str(environment.get("device", ""))))
    report.lines += [(name, _told(values)) for name, values in needed(backend, spec.task).items()]
    evaluation = backend.prepare(spec.task_with(seed=spec.search.seed), workers=1)
    try:
        _check_baseline(report, spec, space, evaluation, backend, faults=faults, stage=stage, step=step)
    finally:
        evaluation.close()
    if spec.loop is not None:
        # Compilers see the loop in a function of its own, further down.
        name = spec.task.kernel.variant.files[0].name
        report.lines = [(what, spec.loop.in_given(line, name)) for what, line in report.lines]
        report.warnings = [spec.loop.in_given(line, name) for line in report.warnings]
    return report


def _told(values: Mapping[str, Any]) -> str:
    """``threads 2, bind spread`` of what a task needs of the machine; digests are the record's."""
    return ", ".join(f"{name} {value}" for name, value in values.items() if value != "" and name != "digest")


def _describe_source(report: CheckReport, spec: LoadedSpec, space: Space) -> None:
    program = read_program(spec.task.kernel, launch=spec.task.launch)
    made = spec.task.kernel.function if spec.task.kernel.preprocessed else "none of its functions"
    labels = ", ".join(program.functions) or made
    report.lines.append(("source", f"may change: {labels}; by {_proposers(spec)}"))
    values = {p.name: p.default for p in space.parameters if p.macro and type(p.default) is int}
    for name, reason in still_hidden(program, values).items():
        report.warnings.append(
            f"loops that call {name} stay as they are, because operators do not see into it: {reason}; to have them "
            "changed, write its statements in the place of the call"
        )
    if RemixProposer.name in (spec.search.proposers or (RemixProposer.name,)):
        reassociate = permitted([{"reassociate": True}], spec.task.verify.numerics)
        found = survey(program, reassociate=reassociate, values=values)
        if mostly_refused(found):
            report.lines += [("refused", line) for line in describe_refusals(found)]


def _written_out(task: Task) -> Variant:
    """The source as given, with its function written out where a macro makes it."""
    kernel = task.kernel
    if not kernel.preprocessed or read_program(kernel, launch=task.launch).functions:
        return kernel.variant
    return replace(kernel.variant, files=configured(kernel, kernel.preprocessed[0]).sources())


def _proposers(spec: LoadedSpec) -> str:
    llm, _ = models_of(spec, None)
    for name in spec.search.proposers:
        proposers.create(name, spec.task.kernel, spec.task.verify.numerics, launch=spec.task.launch)
    if llm is None and set(spec.search.proposers) <= {RemixProposer.name}:
        return "remix operators (no LLM)"
    models = () if llm is None else (f"the model {m.name}" for m in llm.models)
    return ", ".join([*spec.search.proposers, *models])


def _describe_space(report: CheckReport, space: Space) -> None:
    report.count, report.product = space.count(), space.product_size
    valid = "too many to list" if report.count is None else f"{report.count:,} valid"
    report.lines.append(("space", f"{valid} of {report.product:,} combinations of parameters and flags"))
    if space.passes is not None:
        report.lines.append(
            (
                "passes",
                f"{len(space.passes.catalogue.passes)} passes to edit {space.passes.base} with, "
                f"at most {space.passes.max_edits} edits",
            )
        )


def _check_baseline(
    report: CheckReport,
    spec: LoadedSpec,
    space: Space,
    evaluation: Evaluation,
    backend: Backend,
    *,
    faults: int,
    stage: Callable[[str], None],
    step: Callable[[str], None],
) -> None:
    stage("build")
    resolved = space.resolve(space.default())
    request = BuildRequest(trial=BASELINE, variant=spec.task.kernel.variant, resolved=resolved)
    (build,) = evaluation.build([request])
    if build.status is not Status.OK:
        return _fail(report, f"does not build: {build.message}")
    report.lines.append(("baseline", f"builds, {len(build.code):,} bytes of object code"))
    report.lines += [(n, t) for n, t in evaluation.remarks(build, resolved).items() if "\n" not in t]
    _check_compare(report, spec, evaluation, resolved)
    stage("baseline")
    if isinstance(evaluation, TellsSteps):
        evaluation.tell(step)
    baseline = evaluation.set_baseline(build, resolved)
    if isinstance(evaluation, TellsSteps):
        # What comes later has stages of its own.
        evaluation.tell(lambda _: None)
    if baseline.status is not Status.OK:
        return _fail(report, f"does not verify ({baseline.status}): {baseline.message}")
    errors = ", ".join(f"{name} {error:.2g}" for name, error in baseline.own_error.items())
    report.lines.append(
        ("reference", f"{baseline.reference}; the baseline's largest absolute error: {errors or 'none'}")
    )
    report.warnings += [str(w) for w in baseline.notes.get("warnings", [])]
    if overflows(evaluation, spec.task, resolved):
        report.warnings.append(
            f"signed whole numbers overflow in {spec.task.kernel.function} with these inputs, which C leaves "
            "undefined: right variants may give something else and be refused; give values whose sums and products "
            "stay in range, such as init: {randint: [0, 100]}"
        )
    stage("time")
    session = evaluation.open(build, resolved, purpose="search", number=0)
    medians = list[float]()
    try:
        verdict = session.verify()
        if verdict.status is not Status.OK:
            return _fail(report, f"does not verify ({verdict.status}): {verdict.message}")
        report.lines.append(("verifies", f"in {verdict.wall_s * 1e3:.1f} ms{_one_size(spec)}"))
        _describe_baseline(report, baseline)
        if evaluation.times:
            medians = _time_baseline(report, spec, session)
            if not report.ok:
                return None
        else:
            report.lines.append(
                ("time", f"not measured: the {spec.task.backend} backend has no device in reach")
            )
    finally:
        session.close()
    if evaluation.times:
        stage("light")
        _describe_light(report, spec, backend, medians)
    if faults:
        stage("faults")
        found = plant_faults(
            evaluation,
            build,
            _written_out(spec.task),
            resolved,
            entry=spec.task.kernel.function,
            seed=spec.search.seed,
            sizes_vary=bool(spec.task.verify.assume),
            enough=faults,
            told=lambda done, of: step(
                f"planting faults, {done} of {of} looked at (--no-faults leaves them out)"
            ),
        )
        _describe_faults(report, found)
    return None


def _time_baseline(report: CheckReport, spec: LoadedSpec, session: Session) -> list[float]:
    """Seconds on each problem; fails the report where one cannot be timed."""
    medians = list[float]()
    for number, problem in enumerate(spec.task.problems):
        measurement = session.measure(problem=number, calls=TIMED_CALLS)
        if measurement.status is not Status.OK:
            _fail(report, f"cannot be timed ({measurement.status}): {measurement.message}")
            break
        median = statistics.median(measurement.times_s)
        medians.append(median)
        sizes = ", ".join(f"{k}={v}" for k, v in problem.sizes.items())
        report.lines.append(("time", f"{median * 1e3:.4g} ms a call at {sizes or 'fixed size'}"))
    return medians


def _check_compare(report: CheckReport, spec: LoadedSpec, evaluation: Evaluation, resolved: Resolved) -> None:
    """That every compiler of ``compare`` is there and builds the kernel: a run says so only at its end."""
    for number, words in enumerate(spec.compare):
        command = shlex.join(words)
        build = evaluation.build_with(words, resolved)
        if build.status is not Status.OK:
            raise SpecError(
                f"compare: {command!r} cannot be timed beside the baseline: {build.message}",
                "install it or mend its flags, or take it out of compare",
                place=read_yaml(spec.text, spec.path).place(("compare", number)),
            )
        report.lines.append(("compare", f"{command} builds, {len(build.code):,} bytes of object code"))


def _one_size(spec: LoadedSpec) -> str:
    """That nothing but one size is looked at: a candidate that drops an odd tail would be right there."""
    task = spec.task
    sizes = task.problems[0].sizes
    recorded = any(a.initial.kind == "recording" for a in task.arguments)
    if not sizes or len(task.problems) > 1 or task.verify.problems or task.verify.assume or recorded:
        return ""
    named = ", ".join(f"{k}={v}" for k, v in sizes.items())
    flags = " ".join(choice for choices in spec.tunables.flags.values() for choice in choices)
    if all(f"-D{name}={value}" in flags for name, value in sizes.items()):
        return f", at {named}, which is part of the build"
    return f", at {named} only; what is wrong at other sizes passes: give some in verify.problems"


def _describe_baseline(report: CheckReport, baseline: BaselineReport) -> None:
    """Which sizes were looked at where not all can be, and what the kernel leaves alone: its guards may be wrong."""
    notes = baseline.notes
    if notes.get("emulated"):
        sizes = dict.fromkeys(_size_of(name) for name in notes["emulated"])
        report.lines.append(("emulated", "; ".join(sizes)))
        left_out = {_size_of(name): reason for name, reason in notes["dropped"].items()}
        report.lines += [("left out", f"{size}: {reason}") for size, reason in left_out.items()]
    simulated = str(notes.get("oclgrind", _NOT_INSTALLED))
    if simulated != _NOT_INSTALLED and not any(simulated in warning for warning in report.warnings):
        report.lines.append(("oclgrind", f"the kernel as given: {simulated}"))
    for name in notes.get("partly_written", []):
        report.lines.append(("unwritten", f"the kernel leaves elements of {name} alone; so must candidates"))


def _size_of(workload: str) -> str:
    """``n=67`` of ``n=67, extreme``; the whole where it names no size."""
    return workload.partition(", ")[0]


def _describe_light(
    report: CheckReport, spec: LoadedSpec, backend: Backend, medians_s: Sequence[float]
) -> None:
    found = light_of(spec.task, backend, measure=True)
    if found is None:
        return
    for problem in found["problems"]:
        parts = [f"{problem[unit]:.3g} {unit}" for unit in ("bytes", "operations") if problem[unit]]
        whose = "as the spec says" if found["declared"] else "if every element is touched once"
        text = f"at least {problem['bound_s'] * 1e3:.4g} ms a call for {' and '.join(parts)} ({whose})"
        report.lines.append(("light", text))
    if found["declared"] and disproves(found, BASELINE, Status.OK, medians_s):
        report.warnings.append(
            "measure.bytes or measure.operations is too large: the baseline is faster than they allow; "
            "runs will use no bound"
        )


def _describe_faults(report: CheckReport, found: FaultReport) -> None:
    report.faults = found
    report.lines.append(("faults", found.text()))
    report.lines += [("missed", f"{fault} passes") for fault in found.missed[:MISSED_SHOWN]]
    if found.vacuous:
        return _fail(report, f"the verification sees nothing: {found.warning()}")
    if not found.enough or not found.counted:
        report.warnings.append(found.warning())
    return None


def _fail(report: CheckReport, message: str) -> None:
    report.ok = False
    report.lines.append(("baseline", message))
