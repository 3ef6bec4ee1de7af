"""Devices of this process: a thread with an evaluation of its own for each. Says how executors have to behave.

For several devices of one machine, and for tests of everything above executors.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from tuner.core.errors import MachineError, TunerError
from tuner.core.executors import (
    BuildJob,
    Executor,
    Happening,
    Job,
    JobDone,
    JobLost,
    LaneJob,
    LaneJoined,
    LaneLost,
)
from tuner.core.protocols import Evaluation
from tuner.core.types import Build, Resolved
from tuner.evaluators.executors.worker import Worker

__all__ = ["ThreadExecutor"]


class _Thread:
    """One worker in its thread."""

    def __init__(
        self,
        make: Callable[[], Evaluation],
        report: Callable[[Job, object], None],
        fail: Callable[[TunerError], None],
    ) -> None:
        self._make = make
        self._fail = fail
        self._report = report
        self._jobs: queue.SimpleQueue[tuple[Job, tuple[Build, Resolved] | None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def put(self, job: Job, baseline: tuple[Build, Resolved] | None) -> None:
        self._jobs.put((job, baseline))

    def close(self) -> None:
        self._jobs.put(None)

    def join(self) -> None:
        self._thread.join()

    def _work(self) -> None:
        # An error that no job is lost by ends the run: who waits for a thread that is gone waits for ever.
        try:
            self._serve()
        except TunerError as error:
            self._fail(error)

    def _serve(self) -> None:
        worker = Worker(self._make())
        try:
            while (given := self._jobs.get()) is not None:
                job, baseline = given
                try:
                    self._report(job, worker.perform(job, baseline))
                except MachineError as error:
                    self._report(job, error)
        finally:
            worker.close()


class ThreadExecutor(Executor):
    """Threads for devices and for builds.

    Args:
        make: an evaluation of the run's task, made in the thread that uses it.
        devices: one name for each device there is at first.
        builders: threads that compile.
        kind: only devices of this name are used; ``None``: all.
    """

    def __init__(
        self,
        make: Callable[[], Evaluation],
        devices: list[str],
        *,
        builders: int = 1,
        kind: str | None = None,
    ) -> None:
        self._make = make
        self._happened: queue.SimpleQueue[Happening | TunerError] = queue.SimpleQueue()
        self._lanes: dict[int, _Thread] = {}
        self._busy: dict[int, list[Job]] = {}
        self._next = 0
        self._baseline: tuple[Build, Resolved] | None = None
        self._builders = [_Thread(make, self._done, self._happened.put) for _ in range(builders)]
        self._turn = 0
        for device in devices:
            if kind in (None, device):
                self.join(device)

    def join(self, device: str, node: str = "here") -> int:
        """Another device; gives its lane."""
        lane, self._next = self._next, self._next + 1
        self._lanes[lane] = _Thread(self._make, self._done, self._happened.put)
        self._happened.put(LaneJoined(lane=lane, device=device, node=node))
        return lane

    def lose(self, lane: int, reason: str = "taken away") -> None:
        """A device is gone, in the middle of what it does."""
        thread = self._lanes.pop(lane, None)
        if thread is not None:
            self._busy.pop(lane, None)
            thread.close()
            self._happened.put(LaneLost(lane=lane, reason=reason))

    def set_baseline(self, build: Build, resolved: Resolved) -> None:
        """Given to every worker with its next job."""
        self._baseline = (build, resolved)

    def submit(self, job: Job) -> None:
        """Hands a job to its device's thread, or to the next one that compiles."""
        if isinstance(job, BuildJob):
            self._builders[self._turn % len(self._builders)].put(job, None)
            self._turn += 1
            return
        thread = self._lanes.get(job.lane)
        if thread is not None:
            self._busy.setdefault(job.lane, []).append(job)
            thread.put(job, self._baseline)

    def wait(self, timeout_s: float) -> list[Happening]:
        """What has happened, at least one thing unless the time is over.

        Raises:
            TunerError: what ended a thread.
        """
        found: list[Happening | TunerError] = []
        try:
            found.append(self._happened.get(timeout=timeout_s))
            while True:
                found.append(self._happened.get_nowait())
        except queue.Empty:
            pass
        for one in found:
            if isinstance(one, TunerError):
                raise one
        return [h for h in found if not isinstance(h, TunerError) and not self._stale(h)]

    def close(self) -> None:
        """Ends the threads when they have done what they do."""
        threads = [*self._lanes.values(), *self._builders]
        self._lanes, self._builders = {}, []
        for thread in threads:
            thread.close()
        for thread in threads:
            thread.join()

    def _done(self, job: Job, result: object) -> None:
        if not isinstance(result, MachineError):
            self._happened.put(JobDone(job=job, result=result))  # type: ignore[arg-type]
        elif isinstance(job, LaneJob):
            self._happened.put(LaneLost(lane=job.lane, reason=str(result)))
        else:
            self._happened.put(JobLost(job=job, reason=str(result)))

    def _stale(self, happening: Happening) -> bool:
        """Whether it is from a device that was lost, or a second loss of one."""
        if isinstance(happening, JobDone) and isinstance(happening.job, LaneJob):
            lane = happening.job.lane
            given = self._busy.get(lane)
            if not given or given[0] is not happening.job:
                return True
            del given[0]
        if isinstance(happening, LaneLost):
            self._lanes.pop(happening.lane, None)
        return False
