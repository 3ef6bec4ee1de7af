"""One candidate on a device: verified on every workload, then the same loaded code is timed.

The worker launches and reads events; here its clock is checked and its outputs are compared. A candidate's failure is
a status, never an exception. Decides nothing about other candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tuner.core.types import Build, Measurement, Resolved, Status, Verdict
from tuner.evaluators.accepted_outputs import AcceptedOutputs
from tuner.evaluators.cuda.compiler import Made
from tuner.evaluators.cuda.device import WorkerPool
from tuner.evaluators.cuda.limits import Architecture
from tuner.evaluators.cuda.loaded import Clock, Loaded
from tuner.evaluators.cuda.nvml import Watch
from tuner.evaluators.cuda.slabs import Slab
from tuner.evaluators.cuda.supply import Group, Supply
from tuner.evaluators.disturbance import undisturbed
from tuner.evaluators.host.freshness import FRESH_SETS, LOOKS, Freshness
from tuner.evaluators.host.outputs import Failure, judge_output
from tuner.evaluators.host.readings import Lane
from tuner.evaluators.host.runner import CandidateFailed
from tuner.evaluators.host.session import FRESH_AFTER, CheckedSession

__all__ = ["CudaSession", "Inputs"]

_LEAST_LIMIT_S = 2.0
_SLOWER = 50.0
_WINDOW_CALLS = 64
_BURST_S = 0.02
_LONGEST_BURST_S = 0.2
_MOST_BURST = 2000
_BURST_TRIES = 20
_LEAST_WITHOUT = 2
_LAUNCH_S = 20e-6
_TOLERANCE = 1.25
_SLACK_S = 2e-3
_MOST_SETS = 64
_FRESH_PLACE = 2 * _MOST_SETS
"""Numbers of sets: the timed ones first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a session runs on and where.

    Attributes:
        supply: of workloads and expectations.
        accepted: outputs that have passed before, over all sessions.
        pool: of device workers.
        lane: of the device.
        clock: what the device's is compared with.
        watch: of its clocks.
        freshness: what is known of the baseline on new inputs.
        trusted: this is the baseline.
        flush_bytes: over twice the second-level cache.
        arch: the device's limits.
    """

    supply: Supply
    accepted: AcceptedOutputs
    pool: WorkerPool
    lane: Lane
    clock: Clock
    watch: Watch
    freshness: Freshness
    trusted: bool
    flush_bytes: int
    arch: Architecture


@dataclass(slots=True, kw_only=True)
class CudaSession(CheckedSession):
    """A :class:`tuner.core.protocols.Session`.

    Attributes:
        build, made, resolved: the candidate.
        inputs: what to run on and where.
        purpose, number: which process this is.
        runtime: the run-time scalars of the arguments.
    """

    build: Build
    made: Made
    resolved: Resolved
    inputs: Inputs
    purpose: str
    number: int
    runtime: Mapping[str, Any]
    _loaded: Loaded | None = None
    _placed: int | None = None
    _believed: set[int] = field(default_factory=set)

    def verify(self) -> Verdict:
        """As its base; making the inputs is not of the candidate's time."""
        if self._verdict is None:
            self._open()
            self._verification()
        return CheckedSession.verify(self)

    def _verification(self) -> Group:
        return self.inputs.supply.verify(self.purpose, self.number, self.runtime)

    def _let_go(self) -> None:
        if self._loaded is not None:
            self._loaded.close()
            # A wrong candidate may have written anywhere: what comes next starts in a clean process.
            keep = self._failed is None and self.purpose == "search"
            self.inputs.pool.give_back(self._loaded.worker, keep=keep)
            self._loaded = None

    def _load(self) -> Loaded:
        if self._loaded is None:
            worker = self.inputs.pool.take(fresh=self.purpose != "search")
            try:
                self._loaded = Loaded(
                    worker,
                    self.task,
                    code=self.build.code,
                    made=self.made,
                    resolved=self.resolved,
                    arch=self.inputs.arch,
                    shift=int(self.rng.integers(32)),
                    clock=self.inputs.clock,
                )
            except BaseException:
                worker.close()
                raise
        return self._loaded

    def _run_all(self) -> float:
        group, loaded = self._verification(), self._load()
        worst = 0.0
        for number, workload in enumerate(group.workloads):
            slab = loaded.place(0, workload)
            limit = _limit(group.call_s[number])
            seconds = loaded.run(0, workload, limit_s=limit)
            worst = max(worst, self._compare(group, number, slab))
            timed = group.plans[number].timed_problem
            if timed is not None:
                self._call_s[timed] = min(self._call_s.get(timed, seconds), seconds, limit)
        loaded.drop([0])
        return worst

    def _compare(self, group: Group, number: int, slab: Slab) -> float:
        """The largest error in units of its allowance; raises where an output or anything beside it is wrong."""
        label = group.workloads[number].name
        damage = slab.damage()
        if damage:
            raise CandidateFailed(Status.WRONG_RESULT, f"{damage} in {label}", {"workload": label})
        worst = 0.0
        for name, got in slab.outputs().items():
            found = judge_output(
                (group.key, number, name),
                got,
                group.expected[number][name],
                policy=self.task.verify,
                accepted=self.inputs.accepted,
            )
            if isinstance(found, Failure):
                raise CandidateFailed(
                    Status.WRONG_RESULT, f"{found.message} in {label}", {"workload": label, **found.detail}
                )
            worst = max(worst, min(found.worst, 1e300))
        return worst

    def _measured(self, problem: int, calls: int) -> Measurement:
        """One batch of single calls."""
        group = self.inputs.supply.timed(self.purpose, self.number, self.runtime, problem=problem)
        loaded = self._load()
        if self._placed != problem:
            loaded.drop(range(_MOST_SETS))
            for number, workload in enumerate(group.workloads):
                loaded.place(number, workload)
            self._placed = problem
        call_s = max(self._call_s.get(problem, 0.0), max(group.call_s))
        with self.inputs.lane as lane:
            notes: dict[str, Any] = {
                "waited_s": round(lane.waited_s, 6),
                "before": self.inputs.watch.sample(),
            }
            (times, wall_s), marks = undisturbed(
                lambda: self._batch(loaded, group, calls, call_s), self.inputs.watch.begin
            )
            if problem not in self._believed:
                notes["burst_call_s"] = self._believe(loaded, group, float(np.median(times)), call_s)
                self._believed.add(problem)
            self._batches[problem] = self._batches.get(problem, 0) + 1
            if self._batches[problem] == FRESH_AFTER[self.purpose]:
                ratio = self._look_at_fresh(loaded, problem, times, call_s)
                notes |= self.inputs.freshness.notes(times, ratio)
            notes["after"] = self.inputs.watch.sample()
        self._call_s[problem] = float(np.median(times))
        notes |= {"sets": len(group.workloads), **marks}
        return Measurement(
            status=Status.OK,
            problem=problem,
            times_s=tuple(times),
            claimed_s=float(sum(times)),
            observed_s=wall_s,
            wall_s=wall_s,
            notes=notes,
        )

    def _batch(self, loaded: Loaded, group: Group, calls: int, call_s: float) -> tuple[list[float], float]:
        """Times of single calls, and the wall time of all.

        Raises:
            CandidateFailed: a call has failed, is wrong, or the events claim more than has passed.
        """
        clock = self.inputs.clock
        begin = clock.wall_s(loaded.worker)
        times = self._windows(loaded, group, calls, call_s)
        wall_s = clock.wall_s(loaded.worker) - begin
        claimed = float(sum(times))
        if claimed > wall_s:
            raise CandidateFailed(
                Status.REFUSED,
                f"the measurement cannot be believed: {claimed:.6f} s of events in {wall_s:.6f} s of wall time",
            )
        return times, wall_s

    def _look_at_fresh(self, loaded: Loaded, problem: int, seen_s: Sequence[float], call_s: float) -> float:
        """One call on each of some sets that the device could not hold until now: a lookup has nothing to find.

        Raises:
            CandidateFailed: it takes clearly longer on them, look after look; or it is wrong.
        """
        inputs = self.inputs
        for look in range(LOOKS):
            mark = f"{self.build.digest}/{self.purpose}/{self.number}/{look}"
            group = inputs.supply.fresh(mark, self.runtime, problem=problem)
            numbers = range(_FRESH_PLACE, _FRESH_PLACE + FRESH_SETS)
            for number, workload in zip(numbers, group.workloads, strict=True):
                loaded.place(number, workload)
            fresh_s = self._timed(loaded, group, numbers, call_s)
            for number in numbers:
                self._compare(group, number - _FRESH_PLACE, loaded.slab(number))
            loaded.drop(numbers)
            ratio, why = inputs.freshness.judge(problem, seen_s, fresh_s, trusted=inputs.trusted)
            if not why:
                return ratio
        if inputs.trusted:
            return inputs.freshness.ratios[problem]
        raise CandidateFailed(Status.REFUSED, f"the measurement cannot be believed: {why}")

    def _windows(self, loaded: Loaded, group: Group, calls: int, call_s: float) -> list[float]:
        times: list[float] = []
        while len(times) < calls:
            count = min(_WINDOW_CALLS, calls - len(times))
            order: list[int] = []
            while len(order) < count:
                order += self.rng.permutation(len(group.workloads)).tolist()
            times += self._timed(loaded, group, order[:count], call_s)
            for number in sorted(set(order[:count])):
                self._compare(group, number, loaded.slab(number))
        return times

    def _timed(self, loaded: Loaded, group: Group, order: Sequence[int], call_s: float) -> list[float]:
        """Seconds of single calls on sets in an order; compares nothing."""
        return loaded.time(
            order,
            group.workloads[0],
            limit_s=_limit(call_s) * len(order),
            flush_bytes=self.inputs.flush_bytes,
            warm=self.task.measure.cache == "warm" and self.inputs.supply.warm_fits(group),
        )

    def _believe(self, loaded: Loaded, group: Group, claimed_s: float, call_s: float) -> float:
        """Seconds of a call by this process's own clock, over many calls in a row.

        Raises:
            CandidateFailed: the worker's events claim clearly less.
        """
        workload, sets = group.workloads[0], len(group.workloads)
        few = [0, min(1, sets - 1)]
        # How long a call takes that claims to take no time is what this is about. With what was waited: else, where
        # processors are busy, a call that takes long looks like one that takes no time, and thousands are made.
        begin = self.inputs.clock.wall_s(loaded.worker)
        loaded.burst(few, workload, limit_s=_limit(call_s) * len(few), calls=True)
        real_s = (self.inputs.clock.wall_s(loaded.worker) - begin) / len(few)
        count = min(_BURST_S / max(claimed_s, 1e-7), _LONGEST_BURST_S / max(real_s, 1e-7))
        count = max(4, min(_MOST_BURST, int(count) + 1))
        order = [int(i) for i in self.rng.integers(sets, size=count)]
        limit = _limit(call_s) * count
        # Other work on the machine only adds to a wall time, so the shortest of several is the one to compare: also of
        # what is taken off, or a single delay there would be one that calls may have.
        without = min(
            loaded.burst(order, workload, limit_s=limit, calls=False) for _ in range(_LEAST_WITHOUT)
        )
        with_calls = float("inf")
        for _ in range(_BURST_TRIES):
            without = min(without, loaded.burst(order, workload, limit_s=limit, calls=False))
            with_calls = min(with_calls, loaded.burst(order, workload, limit_s=limit, calls=True))
            seconds = (with_calls - without) / count
            if seconds <= _TOLERANCE * claimed_s + _LAUNCH_S + _SLACK_S / count:
                return max(seconds, 0.0)
        raise CandidateFailed(
            Status.REFUSED,
            f"the measurement cannot be believed: events say {claimed_s * 1e6:.1f} us a call, "
            f"{count} calls in a row took {seconds * 1e6:.1f} us each",
        )


def _limit(call_s: float) -> float:
    return max(_LEAST_LIMIT_S, _SLOWER * call_s)
