"""Compile workers that may die: jobs in, outcomes out, in order.

Speaks with :mod:`tuner.evaluators.host.compile_worker`, whose processes come from
:mod:`tuner.evaluators.host.compile_zygote`; knows nothing of kernels. A job that ended or blocked a worker is not tried
again; one whose worker was killed from outside is.
"""

from __future__ import annotations

import hashlib
import json
import selectors
import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.core.types import Status
from tuner.evaluators.host.compile_worker import decode, encode
from tuner.evaluators.host.compile_zygote import TRIES, Forked, borrowed, given_back

__all__ = ["CompilePool", "Job", "Outcome"]

_LINE_LIMIT = 300
_FAILURES_KEPT = 4096
_SPARE = 6
"""Idle processes kept beside those that work: an option of LLVM's needs one of its own, and a start costs more than a
small compilation."""
_PATIENCE = 4
"""Times its limit that a job is waited for which the machine gives no processor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One piece of work.

    Attributes:
        header: what :mod:`~tuner.evaluators.host.compile_worker` takes, ``op`` included.
        modules: the bitcode that it needs.
        options: LLVM's global options: the job goes to a worker started with exactly these.
        log_bytes: how much of the end of what LLVM printed is kept.
    """

    header: Mapping[str, Any]
    modules: tuple[bytes, ...] = ()
    options: tuple[str, ...] = ()
    log_bytes: int = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a job: ``ok``, ``build_error``, ``crashed``, ``timed_out``, ``out_of_resources`` or ``lost``."""

    status: Status
    message: str = ""
    header: Mapping[str, Any] = field(default_factory=dict)
    blobs: tuple[bytes, ...] = ()
    log: str = ""


@dataclass(slots=True, eq=False)
class _Task:
    index: int
    job: Job
    digests: tuple[str, ...]
    key: str
    tries: int = 0


@dataclass(slots=True, eq=False)
class _Worker:
    """A process with what it was started with, the modules that it has, and its task."""

    process: Forked
    options: tuple[str, ...]
    known: set[str] = field(default_factory=set)
    task: _Task | None = None
    deadline: float = 0.0
    used_s: float = 0.0
    patience: int = 0

    def begin(self, task: _Task, limit_s: float) -> None:
        """Its time for a task begins."""
        self.task, self.patience = task, _PATIENCE
        self.deadline, self.used_s = time.monotonic() + limit_s, self.process.cpu_s()

    def waits(self, limit_s: float) -> bool:
        """Whether it goes on after its limit: it was not given half of the processor time that it may take."""
        self.patience -= 1
        if self.patience <= 0 or self.process.cpu_s() - self.used_s > 0.5 * limit_s:
            return False
        self.deadline = time.monotonic() + limit_s
        return True

    def tail(self) -> str:
        """The end of what it printed, as much as its job wants."""
        return self.process.printed(self.task.job.log_bytes if self.task else 0)


class CompilePool:
    """Runs jobs on up to ``workers`` processes.

    One thread at a time may call :meth:`run`.

    Args:
        library: path of libLLVM, or of what ``program`` loads.
        workers: how many processes compile at once; a few more are kept idle.
        timeout_s: wall time that one job may take; a few times as much where others had the processor meanwhile.
        memory_bytes: address space of one worker.
        program: the module that is started; it speaks as :mod:`~tuner.evaluators.host.compile_worker` does.
        read: further arguments of that module: folders that its workers may read.

    Raises:
        MachineError: when the library cannot be loaded.
    """

    def __init__(
        self,
        library: str,
        *,
        workers: int,
        timeout_s: float = 10.0,
        memory_bytes: int = 4 << 30,
        program: str = "tuner.evaluators.host.compile_worker",
        read: Sequence[str] = (),
    ) -> None:
        self._limit = max(1, workers)
        self._timeout_s = timeout_s
        self._memory_bytes = memory_bytes
        self._closed = False
        self._zygote = borrowed(library, program=program, read=read)
        self.host = self._zygote.host
        self._workers: list[_Worker] = []
        self._failed: dict[str, Outcome] = {}
        self._again: deque[_Task] = deque()

    def run(self, jobs: Sequence[Job], *, timeout_s: float | None = None) -> list[Outcome]:
        """One outcome for each job, in order; which worker ran it makes no difference.

        Args:
            jobs: equal jobs are run once.
            timeout_s: wall time for each of these jobs, if not the pool's own.
        """
        outcomes: list[Outcome | None] = [None] * len(jobs)
        waiting: deque[_Task] = deque()
        same: dict[str, list[int]] = {}
        for index, job in enumerate(jobs):
            task = _task(index, job)
            if task.key in self._failed:
                outcomes[index] = self._failed[task.key]
            elif task.key in same:
                same[task.key].append(index)
            else:
                same[task.key] = [index]
                waiting.append(task)
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            self._drive(waiting, outcomes, limit_s)
        except BaseException:
            self._drop_busy()
            raise
        for indexes in same.values():
            for index in indexes:
                outcomes[index] = outcomes[indexes[0]]
        return [o for o in outcomes if o is not None]

    def crashed_in(self, job: Job, outcome: Outcome) -> str:
        """What is said of a compile job that crashed, with the pass that it happened in.

        It is run once more with every pass named: that costs some milliseconds, and what crashed is worth knowing.
        """
        passes = {**job.header["passes"], "debug_logging": True}
        (again,) = self.run([replace(job, header={**job.header, "passes": passes})])
        ran = [line for line in again.log.splitlines() if line.startswith("Running pass: ")]
        if again.status is not Status.CRASHED or not ran:
            return outcome.message
        return f"{outcome.message} in {ran[-1].removeprefix('Running pass: ')}"

    def close(self) -> None:
        """Ends all processes; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        while self._workers:
            self._discard(self._workers[0])
        given_back(self._zygote)

    def __enter__(self) -> CompilePool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _drive(self, waiting: deque[_Task], outcomes: list[Outcome | None], limit_s: float) -> None:
        with selectors.DefaultSelector() as selector:
            while waiting or self._again or any(w.task for w in self._workers):
                self._dispatch(waiting, selector, limit_s)
                soonest = min(w.deadline for w in self._workers if w.task)
                for key, _ in selector.select(max(0.0, soonest - time.monotonic())):
                    self._receive(key.data, selector, outcomes)
                self._expire(selector, outcomes, limit_s)

    def _dispatch(self, waiting: deque[_Task], selector: selectors.BaseSelector, limit_s: float) -> None:
        busy = sum(w.task is not None for w in self._workers)
        while (self._again or waiting) and busy < self._limit:
            task = (self._again or waiting).popleft()
            task.tries += 1
            worker = self._idle(task.job.options)
            worker.begin(task, limit_s)
            selector.register(worker.process.connection, selectors.EVENT_READ, worker)
            self._send(worker, [d for d in task.digests if d not in worker.known])
            busy += 1

    def _send(self, worker: _Worker, wanted: Sequence[str]) -> None:
        task = worker.task
        assert task is not None
        blobs = [b for d, b in zip(task.digests, task.job.modules, strict=True) if d in wanted]
        worker.known.update(wanted)
        try:
            worker.process.connection.sendall(encode({**task.job.header, "modules": task.digests}, blobs))
        except (BrokenPipeError, ConnectionResetError):
            return  # The worker is gone; the selector reports the end of its socket.

    def _receive(
        self, worker: _Worker, selector: selectors.BaseSelector, outcomes: list[Outcome | None]
    ) -> None:
        try:
            data = worker.process.connection.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            self._died(worker, selector, outcomes)
            return
        worker.process.buffer += data
        message = decode(worker.process.buffer)
        if message is None:
            return
        header, blobs = message
        if "missing" in header:
            self._send(worker, header["missing"])
            return
        assert worker.task is not None
        if "error" in header:
            outcome = Outcome(
                status=Status.BUILD_ERROR, message=_one_line(header["error"]), log=worker.tail()
            )
        else:
            outcome = Outcome(status=Status.OK, header=header, blobs=tuple(blobs), log=worker.tail())
        outcomes[worker.task.index] = outcome
        worker.task = None
        selector.unregister(worker.process.connection)

    def _died(
        self, worker: _Worker, selector: selectors.BaseSelector, outcomes: list[Outcome | None]
    ) -> None:
        task, log = worker.task, worker.tail()
        assert task is not None
        selector.unregister(worker.process.connection)
        status = self._discard(worker)
        if status == -signal.SIGKILL:
            # A compiler that takes too much meets a limit first; whoever it was that killed, it was not the job.
            if task.tries < TRIES:
                self._again.append(task)
            else:
                message = "the compiler was killed from outside again and again (signal SIGKILL)"
                outcomes[task.index] = Outcome(status=Status.LOST, message=message, log=log)
            return
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        said = [line for line in log.splitlines() if "LLVM ERROR" in line or "Assertion" in line]
        lowered = log.lower()
        if "out of memory" in lowered or "bad_alloc" in lowered or "memoryerror" in lowered:
            outcome = Outcome(
                status=Status.OUT_OF_RESOURCES, message="the compiler ran out of memory", log=log
            )
        else:
            text = said[-1] if said else "the compiler ended without an answer"
            outcome = Outcome(status=Status.CRASHED, message=_one_line(f"{text} ({how})"), log=log)
        self._finish(task, outcome, outcomes)

    def _expire(
        self, selector: selectors.BaseSelector, outcomes: list[Outcome | None], limit_s: float
    ) -> None:
        now = time.monotonic()
        for worker in [w for w in self._workers if w.task is not None and w.deadline <= now]:
            if worker.waits(limit_s):
                continue
            task, log = worker.task, worker.tail()
            assert task is not None
            selector.unregister(worker.process.connection)
            self._discard(worker)
            message = f"the compiler took longer than {limit_s:g} s"
            self._finish(task, Outcome(status=Status.TIMED_OUT, message=message, log=log), outcomes)

    def _finish(self, task: _Task, outcome: Outcome, outcomes: list[Outcome | None]) -> None:
        outcomes[task.index] = self._failed[task.key] = outcome
        if len(self._failed) > _FAILURES_KEPT:
            del self._failed[next(iter(self._failed))]

    def _idle(self, options: tuple[str, ...]) -> _Worker:
        idle = [w for w in self._workers if w.task is None]
        for worker in idle:
            if worker.options == options:
                # Those that were used last stand at the end, so the one that goes is the one unused for longest.
                self._workers.remove(worker)
                self._workers.append(worker)
                return worker
        if len(self._workers) >= self._limit + _SPARE:
            self._discard(idle[0])
        return self._spawn(options)

    def _spawn(self, options: tuple[str, ...]) -> _Worker:
        worker = _Worker(self._zygote.spawn(options, memory_bytes=self._memory_bytes), options)
        self._workers.append(worker)
        return worker

    def _discard(self, worker: _Worker) -> int:
        """Ends a worker; its exit status, negative for a signal."""
        self._workers.remove(worker)
        return self._zygote.end(worker.process)

    def _drop_busy(self) -> None:
        self._again.clear()
        for worker in [w for w in self._workers if w.task is not None]:
            self._discard(worker)


def _task(index: int, job: Job) -> _Task:
    digests = tuple(hashlib.sha256(m).hexdigest() for m in job.modules)
    text = json.dumps([job.header, digests, job.options], sort_keys=True)
    return _Task(index=index, job=job, digests=digests, key=hashlib.sha256(text.encode()).hexdigest())


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE_LIMIT else line[: _LINE_LIMIT - 1] + "…"
