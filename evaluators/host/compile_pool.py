"""Compile workers that may die: jobs in, outcomes out, in order.

Speaks with :mod:`tuner.evaluators.host.compile_worker`; knows nothing of kernels. May not load libLLVM itself: the
process of the tuner must survive whatever LLVM does. A job that ended or blocked a worker is not tried again; one
whose worker was killed from outside is.
"""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.core.errors import MachineError
from tuner.core.types import Status
from tuner.evaluators.host.compile_worker import decode, encode

__all__ = ["CompilePool", "Job", "Outcome", "with_debug_logging"]

_LINE_LIMIT = 300
_FAILURES_KEPT = 4096
_TRIES = 3


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


class _Worker:
    """One forked process with its socket and its log."""

    def __init__(
        self,
        pid: int,
        connection: socket.socket,
        log: int,
        options: tuple[str, ...],
        zygote: subprocess.Popen[bytes],
    ) -> None:
        self.pid = pid
        self.zygote = zygote
        self.connection = connection
        self.log = log
        self.options = options
        self.buffer = bytearray()
        self.known: set[str] = set()
        self.task: _Task | None = None
        self.deadline = 0.0

    def close(self) -> None:
        self.connection.close()
        os.close(self.log)


class CompilePool:
    """Runs jobs on up to ``workers`` processes.

    One thread at a time may call :meth:`run`; :meth:`pause` and :meth:`resume` may be called from another one.

    Args:
        library: path of libLLVM, or of what ``program`` loads.
        workers: how many processes compile at once.
        timeout_s: wall time that one job may take.
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
        self._workers: list[_Worker] = []
        self._failed: dict[str, Outcome] = {}
        self._state = threading.Condition()
        self._paused_at: float | None = None
        self._scratch = tempfile.TemporaryDirectory(prefix="tuner-compile-")
        self._buffer = bytearray()
        self._library, self._program, self._readable = library, program, tuple(read)
        self._again: deque[_Task] = deque()
        self._zygote, self._control, self.host = self._begin()

    def _begin(self) -> tuple[subprocess.Popen[bytes], socket.socket, Mapping[str, str]]:
        """A zygote that is ready to fork; started again when it is killed before."""
        for _ in range(_TRIES):
            self._buffer.clear()
            self._zygote, self._control = self._start(self._library)
            try:
                return self._zygote, self._control, self._read_control()
            except MachineError:
                self._control.close()
                if self._zygote.wait() != -signal.SIGKILL:
                    break
        self._scratch.cleanup()
        raise MachineError(
            f"libLLVM cannot be used: {self._library}", "LLVM 17 or newer with the x86 target is needed"
        )

    def _revive(self) -> None:
        """After the zygote was killed: its workers ended with it, and their jobs will be tried again."""
        self._control.close()
        self._zygote.kill()
        self._zygote.wait()
        self._begin()

    def _start(self, library: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-m", self._program, library, *self._readable],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self._scratch.name,
                # Ctrl-C is for the tuner, which then ends its workers in order.
                process_group=0,
                env={"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "LC_ALL": "C"},
            )
        return process, ours

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

    def pause(self) -> None:
        """Stops all compiling until :meth:`resume`: nothing may disturb a candidate that is timed."""
        with self._state:
            if self._paused_at is None:
                self._paused_at = time.monotonic()
                self._signal_busy(signal.SIGSTOP)

    def resume(self) -> None:
        """Goes on after :meth:`pause`; the pause does not count against a job's time."""
        with self._state:
            if self._paused_at is None:
                return
            away_s = time.monotonic() - self._paused_at
            for worker in self._workers:
                worker.deadline += away_s
            self._paused_at = None
            self._signal_busy(signal.SIGCONT)
            self._state.notify_all()

    def close(self) -> None:
        """Ends all processes; safe to call twice."""
        for worker in self._workers:
            self._kill(worker, signal.SIGKILL)
            worker.close()
        self._workers.clear()
        self._control.close()
        try:
            self._zygote.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._zygote.kill()
            self._zygote.wait()
        self._scratch.cleanup()

    def __enter__(self) -> CompilePool:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _signal_busy(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.task is not None:
                self._kill(worker, number)

    def _kill(self, worker: _Worker, number: signal.Signals) -> None:
        # The zygote alone reaps, and as long as it lives a worker's number cannot belong to another process.
        if worker.zygote is self._zygote and self._zygote.poll() is None:
            os.kill(worker.pid, number)

    def _drive(self, waiting: deque[_Task], outcomes: list[Outcome | None], limit_s: float) -> None:
        with selectors.DefaultSelector() as selector:
            while waiting or self._again or any(w.task for w in self._workers):
                with self._state:
                    while self._paused_at is not None:
                        self._state.wait()
                    self._dispatch(waiting, selector, limit_s)
                soonest = min(w.deadline for w in self._workers if w.task)
                ready = selector.select(max(0.0, soonest - time.monotonic()))
                with self._state:
                    if self._paused_at is not None:
                        continue
                    for key, _ in ready:
                        self._receive(key.data, selector, outcomes, limit_s)
                    self._expire(selector, outcomes, limit_s)

    def _dispatch(self, waiting: deque[_Task], selector: selectors.BaseSelector, limit_s: float) -> None:
        busy = sum(w.task is not None for w in self._workers)
        while (self._again or waiting) and busy < self._limit:
            task = (self._again or waiting).popleft()
            task.tries += 1
            worker = self._idle(task.job.options)
            worker.task = task
            worker.deadline = time.monotonic() + limit_s
            selector.register(worker.connection, selectors.EVENT_READ, worker)
            self._send(worker, [d for d in task.digests if d not in worker.known])
            busy += 1

    def _send(self, worker: _Worker, wanted: Sequence[str]) -> None:
        task = worker.task
        assert task is not None
        blobs = [b for d, b in zip(task.digests, task.job.modules, strict=True) if d in wanted]
        worker.known.update(wanted)
        try:
            worker.connection.sendall(encode({**task.job.header, "modules": task.digests}, blobs))
        except (BrokenPipeError, ConnectionResetError):
            return  # The worker is gone; the selector reports the end of its socket.

    def _receive(
        self,
        worker: _Worker,
        selector: selectors.BaseSelector,
        outcomes: list[Outcome | None],
        limit_s: float,
    ) -> None:
        try:
            data = worker.connection.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            self._died(worker, selector, outcomes)
            return
        worker.buffer += data
        message = decode(worker.buffer)
        if message is None:
            return
        header, blobs = message
        if "missing" in header:
            self._send(worker, header["missing"])
            return
        assert worker.task is not None
        if "error" in header:
            outcome = Outcome(
                status=Status.BUILD_ERROR, message=_one_line(header["error"]), log=_tail(worker)
            )
        else:
            outcome = Outcome(status=Status.OK, header=header, blobs=tuple(blobs), log=_tail(worker))
        outcomes[worker.task.index] = outcome
        worker.task = None
        selector.unregister(worker.connection)

    def _died(
        self, worker: _Worker, selector: selectors.BaseSelector, outcomes: list[Outcome | None]
    ) -> None:
        task, log = worker.task, _tail(worker)
        assert task is not None
        selector.unregister(worker.connection)
        status = self._discard(worker)
        if status == -signal.SIGKILL:
            # A compiler that takes too much meets a limit first; whoever it was that killed, it was not the job.
            if task.tries < _TRIES:
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
            task, log = worker.task, _tail(worker)
            assert task is not None
            selector.unregister(worker.connection)
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
                return worker
        if len(self._workers) >= self._limit:
            self._discard(idle[0])
        return self._spawn(options)

    def _spawn(self, options: tuple[str, ...]) -> _Worker:
        request = encode({"op": "spawn", "globals": options, "memory_bytes": self._memory_bytes})
        for _ in range(_TRIES):
            ours, theirs = socket.socketpair()
            log = os.memfd_create("tuner-compile-log")
            try:
                with theirs:
                    socket.send_fds(self._control, [request], [theirs.fileno(), log])
                    pid = self._read_control()["pid"]
            except OSError:
                ours.close()
                os.close(log)
                self._revive()
                continue
            worker = _Worker(pid, ours, log, options, self._zygote)
            self._workers.append(worker)
            return worker
        raise MachineError("the compile process is killed again and again", "see what ends it")

    def _discard(self, worker: _Worker) -> int:
        """Ends a worker; its exit status, negative for a signal."""
        self._workers.remove(worker)
        status = -signal.SIGKILL
        try:
            if worker.zygote is self._zygote:
                # Killing a process that has ended by itself changes nothing of its status.
                self._kill(worker, signal.SIGKILL)
                self._control.sendall(encode({"op": "reap", "pid": worker.pid}))
                status = int(self._read_control()["status"])
        except OSError:
            self._revive()
        finally:
            worker.close()
        return status

    def _drop_busy(self) -> None:
        self._again.clear()
        for worker in [w for w in self._workers if w.task is not None]:
            self._discard(worker)

    def _read_control(self) -> dict[str, Any]:
        while True:
            message = decode(self._buffer)
            if message is not None:
                return message[0]
            try:
                data = self._control.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                raise MachineError("the compile process ended", "run again; if it stays so, check libLLVM")
            self._buffer += data


def _task(index: int, job: Job) -> _Task:
    digests = tuple(hashlib.sha256(m).hexdigest() for m in job.modules)
    text = json.dumps([job.header, digests, job.options], sort_keys=True)
    return _Task(index=index, job=job, digests=digests, key=hashlib.sha256(text.encode()).hexdigest())


def _tail(worker: _Worker) -> str:
    limit = worker.task.job.log_bytes if worker.task else 0
    size = os.fstat(worker.log).st_size
    return os.pread(worker.log, limit, max(0, size - limit)).decode("utf-8", "replace")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE_LIMIT else line[: _LINE_LIMIT - 1] + "…"


def with_debug_logging(job: Job) -> Job:
    """The same compile job with every pass named in the log, to learn where it ended."""
    passes = {**job.header["passes"], "debug_logging": True}
    return replace(job, header={**job.header, "passes": passes})
