"""One candidate in one fresh process: verified on every workload, then the same loaded code is timed.

Decides nothing about other candidates. A candidate's failure is a status, never an exception.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tuner.core.errors import UsageError
from tuner.core.types import Measurement, Status, Task, Verdict
from tuner.evaluators.accepted_outputs import AcceptedOutputs
from tuner.evaluators.disturbance import Watcher, undisturbed
from tuner.evaluators.host.bundles import Bundle
from tuner.evaluators.host.clocks import Clocks, Team
from tuner.evaluators.host.counters import ratios
from tuner.evaluators.host.freshness import LOOKS, Freshness
from tuner.evaluators.host.openmp import team_variables
from tuner.evaluators.host.outputs import check_entries
from tuner.evaluators.host.readings import Lane, Readings
from tuner.evaluators.host.runner import FILLED_BYTES_PER_S, Attached, CandidateFailed, Runner
from tuner.evaluators.host.timing import (
    Batch,
    Setting,
    Sizes,
    Unbelieved,
    Window,
    run_once,
    run_windows,
    sizes_for,
    windows_for,
)
from tuner.evaluators.lane import load_notes

__all__ = ["FRESH_AFTER", "CheckedSession", "HostSession", "Inputs"]

FRESH_AFTER = {"search": 3, "confirm": 1}
"""Batches of a problem after which a candidate is looked at on new inputs, by purpose."""

_SLOWER = 20.0
_VARIED = (
    "; workloads are called in turn by all threads, one, two and all but one: what needs a certain number asks for it "
    "by num_threads"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a session runs on; bundles are made when they are first asked for.

    Attributes:
        verify: the verification's bundle.
        timed: the bundle of one problem's timed sets.
        accepted: outputs that have passed before, over all sessions.
        fresh: the bundle of one problem's further sets, by problem and look, mapped when they are due and not before.
        looks: whether a problem has such sets.
        fresh_after: batches of a problem after which that is; fewer leave a candidate too poor to win.
        freshness: what is known of the baseline on new inputs.
        trusted: this is the baseline.
        flush_bytes: what to read and write before each call; 0 for a warm cache.
        near_bytes: of the cache that a core has for itself; 0 where the candidate runs elsewhere.
        lane: of this device.
        readings: of the machine, while candidates are timed.
    """

    verify: Callable[[], Bundle]
    timed: Callable[[int], Bundle]
    fresh: Callable[[int, int], Bundle]
    looks: Callable[[int], bool]
    fresh_after: int
    freshness: Freshness
    trusted: bool
    accepted: AcceptedOutputs
    flush_bytes: int
    near_bytes: int
    lane: Lane
    readings: Readings


def _each_once(attached: Attached) -> bool:
    """Whether no timed call so far was on inputs that an earlier one had: then there was nothing to look up either."""
    bundle = attached.bundle
    alone = len(bundle.layout.entries) == len(bundle.labels) and not bundle.variables
    return alone and 0 < attached.tried <= len(bundle.labels)


@dataclass(slots=True, kw_only=True)
class CheckedSession(ABC):
    """A session's life: the candidate is verified, then timed, until it fails or the session is closed.

    Attributes:
        task: what is tuned.
        rng: for the order of calls.
    """

    task: Task
    rng: np.random.Generator
    _failed: CandidateFailed | None = None
    _verdict: Verdict | None = None
    _call_s: dict[int, float] = field(default_factory=dict)
    _batches: dict[int, int] = field(default_factory=dict)
    _closed: bool = False

    def verify(self) -> Verdict:
        """Runs every workload once and compares; the same answer every time."""
        if self._verdict is not None:
            return self._verdict
        self._open()
        begin = time.perf_counter()
        status, message, detail = Status.OK, "", dict[str, Any]()
        try:
            detail = {"worst": min(self._run_all(), 1e300)}
        except CandidateFailed as failed:
            self._fail(failed)
            status, message, detail = failed.status, failed.message, failed.detail
        wall_s = time.perf_counter() - begin
        self._verdict = Verdict(status=status, message=message, detail=detail, wall_s=wall_s)
        return self._verdict

    def measure(self, *, problem: int, calls: int) -> Measurement:
        """Times one batch.

        Args:
            problem: which of the task's problems.
            calls: how many times are wanted; each is one call's, or the mean of several where calls are short.
                Fewer come where each needs a window of its own.

        Raises:
            UsageError: the session was not verified or is closed, or there is no such problem.
        """
        if self._verdict is None:
            raise UsageError("a session is timed after it was verified", "call verify() first")
        if not 0 <= problem < len(self.task.problems) or calls < 1:
            raise UsageError(
                f"there is no batch of {calls} calls of problem {problem}",
                "at least one call of a problem of the task",
            )
        if self._failed is None:
            self._open()
            try:
                return self._measured(problem, calls)
            except CandidateFailed as failed:
                self._fail(failed)
        assert self._failed is not None
        return Measurement(status=self._failed.status, problem=problem, message=self._failed.message)

    def close(self) -> None:
        """Ends the candidate's process with everything that it left, or gives it back; safe to call twice."""
        self._closed = True
        self._let_go()

    @abstractmethod
    def _run_all(self) -> float:
        """The largest error in units of its allowance; raises ``CandidateFailed``."""

    @abstractmethod
    def _measured(self, problem: int, calls: int) -> Measurement:
        """One batch; raises ``CandidateFailed``."""

    @abstractmethod
    def _let_go(self) -> None:
        """Ends what the session runs, or gives it back."""

    def _open(self) -> None:
        if self._closed:
            raise UsageError("the session is closed", "open another one")

    def _fail(self, failed: CandidateFailed) -> None:
        self._failed = failed
        self._let_go()


@dataclass(slots=True, kw_only=True)
class HostSession(CheckedSession):
    """A :class:`tuner.core.protocols.Session`.

    Attributes:
        inputs: what to run on.
        start: forks the child; it may fail as a candidate does.
    """

    inputs: Inputs
    start: Callable[[], Runner]
    _runner: Runner | None = None
    _timed: dict[int, Attached] = field(default_factory=dict)
    _clocks: Clocks = field(default_factory=Clocks)
    _team: Team | None = None

    def __post_init__(self) -> None:
        if self.task.kernel.openmp:
            threads = self.task.measure.threads
            self._team = Team.of(threads, spins=team_variables(threads)["KMP_BLOCKTIME"] != "0")
            # It is woken between the parent's reading and the child's.
            self._clocks.slack_s += self._team.waking_s

    def _measured(self, problem: int, calls: int) -> Measurement:
        notes: dict[str, Any] = {}
        attached = self._attach(problem)
        with self.inputs.lane as lane:
            notes["waited_s"] = round(lane.waited_s, 6)
            batch = self._undisturbed(attached, problem, calls, notes)
            self._batches[problem] = self._batches.get(problem, 0) + 1
            due = self.inputs.looks(problem) and self._batches[problem] == self.inputs.fresh_after
        if due and not _each_once(attached):
            ratio = self._look_at_fresh(problem, batch)
            notes |= self.inputs.freshness.notes(batch.times_s, ratio)
        notes |= load_notes()
        return Measurement(
            status=Status.OK,
            problem=problem,
            times_s=tuple(batch.times_s),
            claimed_s=batch.claimed_s,
            observed_s=batch.observed_s,
            wall_s=batch.wall_s,
            notes=notes,
        )

    def _let_go(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def _run_all(self) -> float:
        """Every workload once in the child; compared while it stands still."""
        bundle = self.inputs.verify()
        self._runner = runner = self.start()
        attached = runner.attach(bundle)
        attached.memory.poison()
        entries = range(len(bundle.layout.entries))
        inputs = [bundle.layout.entries[n].inputs for n in entries]
        filled_s = bundle.layout.output_bytes / FILLED_BYTES_PER_S
        # One of a team may have to do the work of all.
        slower = _SLOWER * (self.task.measure.threads if self.task.kernel.openmp else 1)
        limits = [
            max(self.inputs.readings.least_limit_s, slower * bundle.call_s[i]) + filled_s for i in inputs
        ]
        took = runner.run(attached, entries, limits)
        for i, seconds, limit in zip(inputs, took, limits, strict=True):
            timed = bundle.timed[i]
            seconds = min(seconds, limit)  # the child's own word
            if timed is not None:
                self._call_s[timed] = min(self._call_s.get(timed, seconds), seconds)
        runner.stop(self.inputs.readings)
        failure, worst = check_entries(
            bundle,
            attached.memory,
            entries,
            policy=self.task.verify,
            accepted=self.inputs.accepted,
            strays=True,
        )
        if attached.memory.is_large:
            # Looked at once, and as large as everything that is timed.
            attached.memory.release()
        runner.resume()
        if failure is not None:
            varied = _VARIED if self.task.kernel.openmp else ""
            raise CandidateFailed(Status.WRONG_RESULT, failure.message + varied, failure.detail)
        return worst

    def _attach(self, problem: int) -> Attached:
        assert self._runner is not None
        if problem not in self._timed:
            attached = self._runner.attach(self.inputs.timed(problem))
            attached.memory.poison()
            self._timed[problem] = attached
        return self._timed[problem]

    def _undisturbed(self, attached: Attached, problem: int, calls: int, notes: dict[str, Any]) -> Batch:
        """A batch; measured once more where the machine got in its way, and marked either way."""

        def measure() -> tuple[Batch, Mapping[str, Any], dict[str, Any]]:
            assert self._runner is not None
            batch, said = Batch(), dict[str, Any]()
            # They count the first thread, which is not the whole of a team.
            child = self._runner.child
            counting: AbstractContextManager[Mapping[str, float | None]] = (
                nullcontext({}) if self.task.kernel.openmp else self.inputs.readings.counted(child)
            )
            with counting as counts:
                self._time(attached, problem, calls, batch=batch, notes=said)
            return batch, counts, said

        # What was said of the one that does not count does not count either.
        (best, counts, said), marks = undisturbed(measure, self._watch)
        notes |= said | marks
        if counts:
            notes["counters"] = ratios(counts)
        return best

    def _watch(self) -> Watcher:
        assert self._runner is not None
        threads = self.task.measure.threads
        return self.inputs.readings.watch(self._runner.child, settles=threads == 1, threads=threads)

    def _time(
        self, attached: Attached, problem: int, calls: int, *, batch: Batch, notes: dict[str, Any]
    ) -> None:
        bundle = attached.bundle
        call_s = self._call_s.get(problem, min(bundle.call_s))
        sizes = self._sizes(bundle, call_s)
        windows = windows_for(bundle, calls, sizes, rng=self.rng, flush_bytes=self.inputs.flush_bytes)
        self._run_windows(attached, windows, batch, call_s=call_s)
        self._call_s[problem] = float(np.median(batch.times_s))
        notes |= {**self._said(sizes), "windows": len(windows), "sets": len(bundle.layout.entries)}

    def _sizes(self, bundle: Bundle, call_s: float) -> Sizes:
        inputs = self.inputs
        return sizes_for(bundle, call_s, cold=inputs.flush_bytes > 0, near_bytes=inputs.near_bytes)

    def _said(self, sizes: Sizes) -> dict[str, Any]:
        """What a measurement's notes say of its times."""
        return {"calls_per_time": sizes.per_segment}

    def _run_windows(
        self,
        attached: Attached,
        windows: Sequence[Window],
        batch: Batch,
        *,
        call_s: float,
        once: bool = False,
    ) -> None:
        assert self._runner is not None
        bundle = attached.bundle
        setting = Setting(
            runner=self._runner,
            attached=attached,
            readings=self.inputs.readings,
            clocks=self._clocks,
            # What a call of the baseline takes bounds the wait too: the child may have lied about its own.
            call_s=max(call_s, max(bundle.call_s)),
            rng=self.rng,
            threads=self.task.measure.threads,
            team=self._team,
        )

        def check(window: Window) -> None:
            self._check(attached, sorted(set(window.order)))

        (run_once if once else run_windows)(setting, windows, batch, check=check)

    def _check(self, attached: Attached, used: Sequence[int]) -> None:
        """What calls left in some entries while they were timed, which are spoilt for the next ones."""
        failure, _ = check_entries(
            attached.bundle,
            attached.memory,
            used,
            policy=self.task.verify,
            accepted=self.inputs.accepted,
            strays=False,
        )
        if failure is not None:
            raise CandidateFailed(Status.WRONG_RESULT, f"{failure.message}, while it was timed")
        for number in used:
            attached.memory.poison_entry(attached.bundle.layout.entries[number])

    def _look_at_fresh(self, problem: int, batch: Batch) -> float:
        """One call on each of some sets that the child could not see until now; a lookup has nothing to find.

        Raises:
            CandidateFailed: it takes clearly longer on them, look after look; or it is wrong.
        """
        least, why = math.inf, ""
        for look in range(LOOKS):
            try:
                fresh = self._on_fresh(problem, look)
            except Unbelieved as unbelieved:
                # Not again on the same sets: now they have been seen.
                why = str(unbelieved)
                continue
            ratio, why = self.inputs.freshness.judge(
                problem, batch.times_s, fresh.times_s, trusted=self.inputs.trusted
            )
            least = min(least, ratio)
            if not why:
                return ratio
        if self.inputs.trusted and not math.isinf(least):
            return least
        raise CandidateFailed(Status.REFUSED, f"the measurement cannot be believed: {why}")

    def _on_fresh(self, problem: int, look: int) -> Batch:
        assert self._runner is not None
        bundle = self.inputs.fresh(problem, look)
        attached = self._runner.attach(bundle)
        attached.memory.poison()
        cold, numbers = self.inputs.flush_bytes > 0, range(len(bundle.layout.entries))
        orders = [(n,) for n in numbers] if cold or bundle.variables else [tuple(numbers)]
        windows = [Window(order=o, per_segment=1, flush_bytes=self.inputs.flush_bytes) for o in orders]
        fresh = Batch()
        self._run_windows(attached, windows, fresh, call_s=self._call_s[problem], once=True)
        return fresh
