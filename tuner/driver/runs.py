"""Begins a run, goes on with one, and closes it: joins record, spec, space, searcher, backend and engine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuner.core.canonical import canonical_json, from_json
from tuner.core.errors import MachineError, PluginError, UsageError
from tuner.core.executors import Executor, MakeExecutor
from tuner.core.protocols import Backend, Evaluation, Observer
from tuner.core.types import BASELINE, Status, Task
from tuner.cost_models.library import Library
from tuner.driver.beginning import first_event
from tuner.driver.opening import make_lineup, open_state
from tuner.driver.options import Further, Options, settings_of, workers_of
from tuner.driver.outcome.outcome import Outcome, outcome
from tuner.driver.records import create
from tuner.driver.state import objectives
from tuner.driver.state.fold import apply
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import Shared
from tuner.driver.state.version import of_another
from tuner.driver.watching import watching
from tuner.driver.work.correspondence import Correspondent
from tuner.driver.work.engine import Engine, Interruption
from tuner.driver.work.environment import changed, require_sandbox, toolchain
from tuner.driver.work.fleet_engine import FleetEngine
from tuner.driver.work.fleets import beside
from tuner.driver.work.models import correspondent_of, models_of
from tuner.driver.work.remembering import Memory
from tuner.evaluators import registry as backends
from tuner.recorders.record import Event, RunRecord
from tuner.spec.load import LoadedSpec

__all__ = ["Running", "begin", "beginning", "resume", "resuming"]


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
    with beginning(
        spec,
        place,
        options,
        backend=backend,
        observers=observers,
        interruption=interruption,
        clock=clock,
        executor=executor,
    ) as running:
        running.go()
    return running.ended()


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
    further: Further | None = None,
) -> Outcome:
    """Goes on with a run that was interrupted or killed; one that has ended is returned as it is, or goes further.

    Args:
        path: of the record.
        backend, interruption, clock: as :func:`begin` takes them.
        observers: told of each event that was committed before, then of each new one.
        force: also in another environment.
        workers: compile workers.
        sandboxed: refuse where a protection from generated code is missing.
        executor: as :func:`begin` takes it; a run over several devices goes on over several.
        further: how much more budget it gets from now, in place of what was left of its own.

    Raises:
        MachineError: a sandbox is required and incomplete here.
        UsageError: the environment differs from the one in the record and ``force`` is not set; or the run has not
            ended and another version wrote it.
    """
    with resuming(
        path,
        backend=backend,
        observers=observers,
        interruption=interruption,
        clock=clock,
        force=force,
        workers=workers,
        sandboxed=sandboxed,
        executor=executor,
        further=further,
    ) as running:
        running.go()
    return running.outcome()


@dataclass(slots=True, kw_only=True)
class Running:
    """A run that is open: its processes are there and its record is written to.

    Attributes:
        path: of the record.
        state: follows the record.
        engine: ``None`` where the run has ended before.
        memory: the library, where one is learnt from.
    """

    path: Path
    state: RunState
    engine: Engine | None
    memory: Memory | None = None

    def go(self) -> None:
        """Goes on until the run has ended, is interrupted, or waits for its share of a budget.

        Raises:
            MachineError: a fault of the machine; the run can be resumed.
        PluginError: a fault of a third party's part; the run can be resumed.
        """
        if self.engine is None or self.state.end is not None:
            return
        with _resumable():
            self.engine.run()
        if self.memory is not None and self.state.end is not None:
            self.memory.keep(self.state)

    def outcome(self) -> Outcome:
        """What it has come to."""
        return outcome(self.path, self.state)

    def ended(self) -> Outcome:
        """What a run that was begun came to, once it is closed."""
        result = self.outcome()
        if result.failed and not result.interrupted:
            # A baseline that fails leaves nothing behind: there is nothing to resume, replay or compare with.
            for leftover in (self.path, Path(f"{self.path}.sha256")):
                leftover.unlink(missing_ok=True)
            return replace(result, path=None)
        return result


@contextmanager
def beginning(
    spec: LoadedSpec,
    place: Path | Callable[[], Path],
    options: Options,
    *,
    backend: Backend | None,
    observers: Sequence[Observer],
    interruption: Interruption | None,
    clock: Callable[[], float],
    executor: MakeExecutor | None,
    shared: Shared | None = None,
) -> Iterator[Running]:
    """A new run while it is open; arguments as :func:`begin` takes them.

    Args:
        shared: of a budget that other runs share.
    """
    backend = backends.given(backend, spec.task.backend)
    observers = watching(observers)
    if options.require_sandbox:
        require_sandbox(backend, spec.task.target)
    llm, cassette = models_of(spec, options.llm)
    several = executor is not None
    if llm is None:
        executor = executor or beside(backend, spec.task.target, workers_of(options))
    settings = replace(settings_of(spec, options, llm), fleet=executor is not None)
    settings = replace(settings, stocked=several)
    if shared is not None:
        settings = replace(settings, shared=shared, evaluations=shared.evaluations)
    first = first_event(spec, options, settings, backend, cassette=cassette)
    library = None if options.library is None else Library(options.library)
    memory = Memory(library, first.task, first.space)
    correspondent = correspondent_of(llm, first.body, first.text)
    evaluation = backend.prepare(first.task, workers=workers_of(options))
    with contextlib.closing(evaluation), _carrying(correspondent):
        if executor is None:
            _require_times(evaluation, backend)
        objectives.require(first.settings.objectives, evaluation, backend.name)
        with create(place) as record, _executing(executor, first.task) as devices:
            state = RunState(record.blob)
            for recorded in record.append([Event(kind="start", body=first.body)], first.blobs):
                apply(state, recorded)
            engine = _engine(
                devices,
                record=record,
                state=state,
                evaluation=evaluation,
                lineup=make_lineup(record, state, spec, first.space, first.body),
                observers=observers,
                clock=clock,
                interruption=interruption,
                memory=memory,
                correspondent=correspondent,
            )
            with _resumable():
                for observer in observers:
                    observer.event("start", first.body)
            yield Running(path=record.path, state=state, engine=engine, memory=memory)


@contextmanager
def resuming(
    path: Path,
    *,
    backend: Backend | None,
    observers: Sequence[Observer],
    interruption: Interruption | None,
    clock: Callable[[], float],
    force: bool,
    workers: int | None,
    sandboxed: bool,
    executor: MakeExecutor | None,
    together: bool = False,
    further: Further | None = None,
) -> Iterator[Running]:
    """A run that was interrupted, ready to go on, while it is open; arguments as :func:`resume` takes them.

    Args:
        together: with the others that share its budget, where it has such.
    """
    observers = watching(observers)
    with RunRecord.open(path) as record:
        state, spec, space = open_state(record)
        start = state.start
        assert start is not None
        ended = state.end is not None
        if ended and (further is None or state.trials[BASELINE].status is not Status.OK):
            yield Running(path=path, state=state, engine=None)
            return
        other = of_another(start)
        if other:
            raise UsageError(f"{path}: {other}", f"tuner show {path} shows it; start a run of its own")
        shared = state.settings.shared
        if shared is not None and not together and not ended:
            raise UsageError(
                f"{path} shares its budget with {', '.join(shared.members)}",
                "resume all of them in this order",
            )
        backend = backends.given(backend, start["backend"])
        if sandboxed:
            require_sandbox(backend, spec.task.target)
        now = _environment(path, start, backend, spec, force=force)
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
            with _resumable():
                for event in record.events():
                    for observer in observers:
                        observer.event(event.kind, {**event.body, "trial": event.trial})
                engine.go_on(now, further)
            yield Running(path=path, state=state, engine=engine)


def _environment(
    path: Path, start: Mapping[str, Any], backend: Backend, spec: LoadedSpec, *, force: bool
) -> Mapping[str, Any]:
    """The environment there is now, which has to be the one that the run was begun in unless forced."""
    now: Mapping[str, Any] = from_json(canonical_json(toolchain(backend, spec.task)))
    if now != start["environment"] and not force:
        differing = ", ".join(changed(start["environment"], now))
        raise UsageError(
            f"{path} was begun in another environment ({differing})",
            "resume it where it was begun, or force it with --force, which the record will show",
        )
    return now


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


@contextmanager
def _resumable() -> Iterator[None]:
    """A fault of the machine, or of a third party's part, in the middle of a run says that nothing is lost."""
    try:
        yield
    except (MachineError, PluginError) as error:
        kept = "what is committed is kept, and --resume goes on from there"
        hint = f"{error.hint}; {kept}" if error.hint else kept
        raise type(error)(error.message, hint) from error.__cause__


def _require_times(evaluation: Evaluation, backend: Backend) -> None:
    if not evaluation.times:
        raise MachineError(
            f"the {backend.name} backend has no device in reach, so nothing can be timed",
            "tuner check builds and verifies without one",
        )
