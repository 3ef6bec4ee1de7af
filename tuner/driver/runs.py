"""Begins a run, goes on with one, and closes it: joins record, spec, space, searcher, backend and engine."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner.core.canonical import canonical_json, from_json
from tuner.core.errors import MachineError, UsageError
from tuner.core.executors import Executor, MakeExecutor
from tuner.core.protocols import Backend, Evaluation, Observer
from tuner.core.types import Task
from tuner.cost_models.library import Library
from tuner.driver.beginning import first_event
from tuner.driver.opening import make_lineup, open_state
from tuner.driver.options import Options, settings_of, workers_of
from tuner.driver.outcome.outcome import Outcome, outcome
from tuner.driver.state import objectives
from tuner.driver.state.fold import apply
from tuner.driver.state.run import RunState
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

__all__ = ["begin", "resume"]


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
    first = first_event(spec, options, settings, backend, cassette=cassette)
    library = None if options.library is None else Library(options.library)
    memory = Memory(library, first.task.kernel, first.space)
    correspondent = correspondent_of(llm, first.body, first.text)
    evaluation = backend.prepare(first.task, workers=workers_of(options))
    try:
        if executor is None:
            _require_times(evaluation, backend)
        objectives.require(first.settings.objectives, evaluation, backend.name)
        path = place() if callable(place) else place
        with RunRecord.create(path) as record, _executing(executor, first.task) as devices:
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
            for observer in observers:
                observer.event("start", first.body)
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


@contextmanager
def _resumable() -> Iterator[None]:
    """A machine's fault in the middle of a run, such as a device that is gone, says that nothing is lost."""
    try:
        yield
    except MachineError as error:
        kept = "what is committed is kept, and --resume goes on from there"
        raise MachineError(error.message, f"{error.hint}; {kept}" if error.hint else kept) from None


def _require_times(evaluation: Evaluation, backend: Backend) -> None:
    if not evaluation.times:
        raise MachineError(
            f"the {backend.name} backend has no device in reach, so nothing can be timed",
            "tuner check builds and verifies without one",
        )
