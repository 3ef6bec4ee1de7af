"""Begins a run, goes on with one, and closes it: joins record, spec, space, searcher, backend and engine."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from tuner.core.canonical import canonical_json, digest, from_json
from tuner.core.errors import MachineError, UsageError
from tuner.core.executors import Executor, MakeExecutor
from tuner.core.protocols import Backend, Evaluation, Observer
from tuner.core.types import Proposal, Status, Task
from tuner.cost_models.library import Library
from tuner.driver import objectives, pruning
from tuner.driver.bounds import light_of
from tuner.driver.correspondence import Correspondent
from tuner.driver.engine import Engine, Interruption
from tuner.driver.environment import changed, check_flags, require_sandbox, toolchain
from tuner.driver.fleet_engine import FleetEngine
from tuner.driver.fleets import beside
from tuner.driver.lineup import describe_original
from tuner.driver.models import CASSETTE, correspondent_of, models_of
from tuner.driver.opening import make_lineup, open_state
from tuner.driver.remembering import Memory
from tuner.driver.result import Summary, summarise
from tuner.driver.settings import EVOLVING_CALLS, REMIX, Evolution, Llm, RunSettings
from tuner.driver.state import RunState
from tuner.driver.trials import proposal_to_json
from tuner.driver.warm import KEY, begin_searcher
from tuner.evaluators import registry as backends
from tuner.recorders.record import Event, RunRecord
from tuner.spec.load import LoadedSpec

__all__ = [
    "Options",
    "Outcome",
    "begin",
    "find_unfinished",
    "new_path",
    "resume",
]

DEFAULT_EVALUATIONS = 200
SEVERAL = "surrogate"
"""The searcher that knows several objectives."""
CONFIRM_S = 30.0
"""Least seconds kept for choosing and confirming where the source evolves, as far as that is not most of the time."""

SUFFIX = ".run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line or a library call says beside the spec; ``None`` leaves it to the spec.

    ``require_sandbox`` refuses to run where a protection from generated code is missing.
    ``library`` is the folder of finished runs to learn from and add to.
    ``warm_start`` holds what :func:`tuner.driver.imports.read_sources` gives, ``rivals`` what
    :func:`tuner.driver.rivals.run_rivals` does; they are only written down. ``llm`` is a model's name, ``off``, or
    ``cassette:`` with the path of a run's record.
    """

    evaluations: int | None = None
    minutes: float | None = None
    seed: int | None = None
    strategy: str | None = None
    workers: int | None = None
    settings: Mapping[str, Any] | None = None
    require_sandbox: bool = False
    warm_start: tuple[str, ...] = ()
    library: Path | None = None
    llm: str | None = None
    rivals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run that has ended or was interrupted; ``path`` is ``None`` where its baseline failed."""

    path: Path | None
    kernel: str
    backend: str
    device: str
    summary: Summary
    failed: bool
    interrupted: bool

    def to_json(self) -> dict[str, Any]:
        """The object behind ``--json``."""
        return self.summary.to_json(
            run=None if self.path is None else str(self.path),
            kernel=self.kernel,
            backend=self.backend,
            device=self.device,
        )


def new_path(folder: Path, name: str) -> Path:
    """A path for a new record: the kernel's name and the first free number."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    while (folder / f"{name}-{number}{SUFFIX}").exists():
        number += 1
    return folder / f"{name}-{number}{SUFFIX}"


def find_unfinished(folder: Path, spec: LoadedSpec) -> Path:
    """The newest record in the folder that holds an unfinished run of this spec.

    Raises:
        UsageError: there is none.
    """
    paths = sorted(folder.glob(f"{spec.name}-*{SUFFIX}"), key=lambda p: p.stat().st_mtime, reverse=True)
    for path in paths:
        with RunRecord.read(path) as record:
            start = next(iter(record.events()), None)
            ended = next(record.events(kind="end"), None)
            if start is not None and ended is None and start.body["spec_digest"] == spec.digest:
                return path
    raise UsageError(
        f"no unfinished run of {spec.name} in {folder}",
        "start one without --resume, or name the folder with --out",
    )


def settings_of(spec: LoadedSpec, options: Options, llm: Llm | None = None) -> RunSettings:
    """The run's settings: the command line over the spec over the defaults; ``llm`` is of the models to ask.

    Raises:
        UsageError: a budget that is none, or a searcher that does not know several objectives.
    """
    search = spec.search
    evaluations = options.evaluations if options.evaluations is not None else search.evaluations
    minutes = options.minutes if options.minutes is not None else search.minutes
    if evaluations is None and minutes is None:
        evaluations = DEFAULT_EVALUATIONS
    if evaluations is not None and (not isinstance(evaluations, int) or evaluations < 1):
        raise UsageError(f"evaluations is {evaluations!r}", "give a whole number of at least 1")
    if minutes is not None and not (isinstance(minutes, int | float) and 0 < minutes < math.inf):
        raise UsageError(f"minutes is {minutes!r}", "give a number above 0")
    total = sum(p.weight for p in spec.task.problems)
    more: dict[str, Any] = {}
    if spec.evolves:
        proposers = search.proposers if llm is not None or search.proposers else (REMIX,)
        more = {"rounds_calls": EVOLVING_CALLS, "evolution": Evolution(), "proposers": proposers, "llm": llm}
        if minutes is not None:
            # The source as given may take many times as long as the winner, so a short run needs more of its time.
            more["confirm_share"] = min(0.4, max(0.15, CONFIRM_S / (60 * minutes)))
    strategy = options.strategy or search.strategy
    if len(spec.objectives) > 1:
        strategy = SEVERAL if strategy == "auto" else strategy
        if strategy != SEVERAL:
            raise UsageError(
                f"the searcher {strategy!r} knows one objective, time",
                f"use --strategy {SEVERAL}, or objective: time",
            )
    return RunSettings(
        strategy=strategy,
        seed=search.seed if options.seed is None else options.seed,
        evaluations=evaluations,
        minutes=minutes,
        batch=workers_of(options),
        weights=tuple(p.weight / total for p in spec.task.problems),
        compare=tuple(shlex.join(words) for words in spec.compare),
        # It ranks by time: with other objectives a slow candidate may be what is wanted.
        cost_model=search.cost_model if spec.objectives == ("time",) else "off",
        recall=options.library is not None,
        objectives=spec.objectives,
        ablate=search.ablate,
        **{**more, **dict(options.settings or {})},
    )


def workers_of(options: Options) -> int:
    """Compile workers: as many as said, else one for each core that this process may use."""
    return options.workers or max(1, len(os.sched_getaffinity(0)))


def begin(
    spec: LoadedSpec,
    place: Path | Callable[[], Path],
    options: Options,
    *,
    backend: Backend | None = None,
    observers: Sequence[Observer] = (),
    interruption: Interruption | None = None,
    clock: Callable[[], float] = time.monotonic,
    executor: MakeExecutor | None = None,
) -> Outcome:
    """Runs a spec from the start.

    Args:
        spec: one kernel's.
        place: the record's path, or what makes one once it is known that the run can begin.
        options: over the spec's own.
        backend: instead of the spec's by name.
        observers: told of each committed event.
        interruption: looked at between two events.
        clock: seconds, monotonic.
        executor: makes what runs the task on several devices, of one kind; ``None``: the one of this machine, with
            builds beside it where that disturbs no timing.

    Raises:
        SpecError: the spec cannot be run as it is; nothing is written.
        MachineError: a sandbox is required and incomplete here, or nothing can be timed on this machine; nothing is
            written.
        RecordError: the record cannot be written.
    """
    backend = backend or backends.create(spec.task.backend)
    if options.require_sandbox:
        require_sandbox(backend, spec.task.target)
    llm, cassette = models_of(spec, options.llm)
    if llm is not None and executor is not None:
        raise UsageError("a run over several devices asks no model", "use --llm off, or one device")
    if llm is None:
        executor = executor or beside(backend, spec.task.target, workers_of(options))
    settings = replace(settings_of(spec, options, llm), fleet=executor is not None)
    catalogue = backend.pass_catalogue(spec.task.target) if spec.wants_passes else None
    space = spec.space(catalogue)
    check_flags(backend, space)
    task = spec.task_with(seed=settings.seed)
    blobs: dict[str, bytes] = {}
    baseline = Proposal(configuration=space.default(), origin="baseline")
    body = {
        "tool": metadata.version("remix-tuner"),
        "name": spec.name,
        "spec": _store(spec.text, blobs),
        "spec_digest": spec.digest,
        "files": {name: _store(text, blobs) for name, text in sorted(spec.files.items())},
        "folder": str(Path(spec.path).parent),
        "index": spec.index,
        "catalogue": None if catalogue is None else _store(canonical_json(catalogue), blobs),
        "settings": settings.to_json(),
        "environment": toolchain(backend, task.target),
        "baseline": proposal_to_json(baseline, blobs, digest),
        "backend": backend.name,
        "clock_s": 0.0,
    }
    library = None if options.library is None else Library(options.library)
    memory = Memory(library, task.kernel, space)
    bound = light_of(task, backend)
    if bound is not None:
        body["light"] = bound
    if options.warm_start:
        body[KEY] = [_store(text, blobs) for text in options.warm_start]
    if cassette is not None:
        body[CASSETTE] = _store(cassette, blobs)
    if options.rivals:
        body["rivals"] = [from_json(text) for text in options.rivals]
    texts = {name: data.decode() for name, data in blobs.items()}
    # A strategy that cannot be made is said before anything is written.
    searcher = begin_searcher(settings.strategy, space, body, lambda r: texts[r.removeprefix("blob:")])
    # What a pass sequence does shows only in the code that it leads to, and many lead to the same.
    if settings.cost_model != "off" and space.passes is None and getattr(searcher, "cheap", False):
        settings = replace(settings, pool=pruning.POOL_FACTOR)
        body["settings"] = settings.to_json()
    if settings.evolution is not None:
        body["variant"] = describe_original(task, settings)
    correspondent = correspondent_of(llm, body, lambda r: texts[r.removeprefix("blob:")])
    evaluation = backend.prepare(task, workers=workers_of(options))
    try:
        if executor is None:
            _require_times(evaluation, backend)
        objectives.require(settings.objectives, evaluation, backend.name)
        path = place() if callable(place) else place
        with RunRecord.create(path) as record, _executing(executor, task) as devices:
            state = RunState(record.blob)
            for recorded in record.append([Event(kind="start", body=body)], blobs):
                state.apply(recorded)
            engine = _engine(
                devices,
                record=record,
                state=state,
                evaluation=evaluation,
                lineup=make_lineup(record, state, spec, space, body),
                observers=observers,
                clock=clock,
                interruption=interruption,
                memory=memory,
                correspondent=correspondent,
            )
            for observer in observers:
                observer.event("start", body)
            with _resumable():
                engine.run()
            memory.keep(state)
    finally:
        if correspondent is not None:
            correspondent.close()
        evaluation.close()
    result = outcome(path, state)
    if result.failed and not result.interrupted:
        # A baseline that fails leaves nothing behind: there is nothing to resume, replay or compare with.
        for leftover in (path, Path(f"{path}.sha256")):
            leftover.unlink(missing_ok=True)
        return replace(result, path=None)
    return result


def resume(
    path: Path,
    *,
    backend: Backend | None = None,
    observers: Sequence[Observer] = (),
    interruption: Interruption | None = None,
    clock: Callable[[], float] = time.monotonic,
    force: bool = False,
    workers: int | None = None,
    sandboxed: bool = False,
    executor: MakeExecutor | None = None,
) -> Outcome:
    """Goes on with a run that was interrupted or killed; a run that has ended is returned as it is.

    Args:
        path: of the record.
        backend, interruption, clock: as :func:`begin` takes them.
        observers: told of each event that was committed before, then of each new one.
        force: also in another environment.
        workers: compile workers.
        sandboxed: refuse where a protection from generated code is missing.
        executor: as :func:`begin` takes it; a run over several devices goes on over several.

    Raises:
        MachineError: a sandbox is required and incomplete here.
        UsageError: the environment differs from the one in the record and ``force`` is not set.
    """
    with RunRecord.open(path) as record:
        state, spec, space = open_state(record)
        start = state.start
        assert start is not None
        if state.end is not None:
            return outcome(path, state)
        backend = backend or backends.create(start["backend"])
        if sandboxed:
            require_sandbox(backend, spec.task.target)
        now = from_json(canonical_json(toolchain(backend, spec.task.target)))
        if now != start["environment"] and not force:
            differing = ", ".join(changed(start["environment"], now))
            raise UsageError(
                f"{path} was begun in another environment ({differing})",
                "resume it where it was begun, or force it with --force, which the record will show",
            )
        task = spec.task_with(seed=state.settings.seed)
        if state.settings.fleet:
            executor = executor or beside(backend, spec.task.target, workers or state.settings.batch)
        if state.settings.fleet and executor is None:
            raise UsageError(f"{path} ran over several devices", "give the --executor that it was begun with")
        executor = executor if state.settings.fleet else None
        correspondent = correspondent_of(state.settings.llm, start, state.text)
        evaluation = backend.prepare(task, workers=workers or state.settings.batch)
        with (
            contextlib.closing(evaluation),
            _carrying(correspondent),
            _executing(executor, task) as devices,
        ):
            if executor is None:
                _require_times(evaluation, backend)
            engine = _engine(
                devices,
                record=record,
                state=state,
                evaluation=evaluation,
                lineup=make_lineup(record, state, spec, space, start),
                observers=observers,
                clock=clock,
                interruption=interruption,
                correspondent=correspondent,
            )
            for event in record.events():
                for observer in observers:
                    observer.event(event.kind, {**event.body, "trial": event.trial})
            with _resumable():
                engine.go_on(now)
                engine.run()
            return outcome(path, state)


@contextmanager
def _carrying(correspondent: Correspondent | None) -> Iterator[None]:
    """What carries calls to models, while it is needed."""
    try:
        yield
    finally:
        if correspondent is not None:
            correspondent.close()


@contextmanager
def _executing(make: MakeExecutor | None, task: Task) -> Iterator[Executor | None]:
    """The executor while it is needed."""
    if make is None:
        yield None
        return
    executor = make(task)
    try:
        yield executor
    finally:
        executor.close()


def _engine(executor: Executor | None, **more: Any) -> Engine:
    return Engine(**more) if executor is None else FleetEngine(executor, **more)


def outcome(path: Path, state: RunState) -> Outcome:
    """The outcome of a state."""
    start = state.start
    assert start is not None
    summary = summarise(state, variant=_original_digest(start))
    ended_by = state.end["stopped_by"] if state.end else ""
    return Outcome(
        path=path,
        kernel=start["name"],
        backend=start["backend"],
        device=str(start["environment"]["backend"].get("device", "")),
        summary=summary,
        failed=ended_by == "baseline" or state.trials[0].status not in (None, Status.OK),
        interrupted=state.end is None,
    )


@contextmanager
def _resumable() -> Iterator[None]:
    """A machine's fault in the middle of a run, such as a device that is gone, says that nothing is lost."""
    try:
        yield
    except MachineError as error:
        kept = "what is committed is kept, and --resume goes on from there"
        raise MachineError(error.message, f"{error.hint}; {kept}" if error.hint else kept) from None


def _original_digest(start: Mapping[str, Any]) -> str:
    variant = start.get("variant")
    return str(start["spec_digest"] if variant is None else variant["digest"])


def _require_times(evaluation: Evaluation, backend: Backend) -> None:
    if not evaluation.times:
        raise MachineError(
            f"the {backend.name} backend has no device in reach, so nothing can be timed",
            "tuner check builds and verifies without one",
        )


def _store(text: str, blobs: dict[str, bytes]) -> str:
    data = text.encode()
    name = digest(data)
    blobs[name] = data
    return f"blob:{name}"
