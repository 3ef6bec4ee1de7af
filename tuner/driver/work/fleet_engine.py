"""Drives a run over several devices: decides what can be decided, commits it, and keeps every device at work."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner.core.collecting import rarely_collected
from tuner.core.errors import MachineError
from tuner.core.executors import (
    BaselineJob,
    BuildJob,
    Evaluated,
    EvaluateJob,
    Executor,
    Fresh,
    FreshJob,
    Happening,
    Job,
    JobDone,
    JobLost,
    LaneJob,
    LaneJoined,
    LaneLost,
)
from tuner.core.protocols import BaselineReport
from tuner.core.types import BASELINE, Build, BuildRequest, Measurement, Resolved, Status
from tuner.driver.options import Further
from tuner.driver.plan.actions import (
    Action,
    Await,
    BuildOther,
    BuildTrials,
    BuildWithout,
    Compare,
    Control,
    Final,
    Finished,
    SetBaseline,
    Share,
    Verify,
    Weigh,
)
from tuner.driver.plan.fleet import decision, effects
from tuner.driver.plan.upcoming import race_of
from tuner.driver.work import bodies
from tuner.driver.work.engine import CONTROL_PURPOSE, Engine
from tuner.recorders.record import Event, Recorded

__all__ = ["FleetEngine"]

WAIT_S = 0.5
ALONE_S = 120.0
"""How long a run that has lost all devices waits for another."""

FIRST_S = 600.0
"""How long it waits for the first: processes on a busy cluster take their time to come up."""

LOOK_S = 0.1
"""How often a model's reply is looked for while nothing else is to be done."""

CHUNK = 8
"""Candidates of one compile job."""


class FleetEngine(Engine):
    """A run over an executor's devices.

    Args:
        executor: closed by the caller.
        more: as :class:`Engine`; its evaluation only builds with other compilers and what a resumed run lacks.
    """

    def __init__(self, executor: Executor, **more: Any) -> None:
        super().__init__(**more)
        self._executor = executor
        self._happened: deque[Happening] = deque()
        self._building: set[int] = set()
        self._alone_since: float | None = None
        self._grouped: list[Recorded] | None = None
        self._offset = max(self.state.lanes, default=-1) + 1
        """Devices of an executor count from 0; those of a run go on counting when it is resumed."""
        self._lane_jobs: dict[int, deque[Job]] = {}
        """What each device was given and has not answered, in order."""
        self._given: dict[int, int] = {}
        """Which device candidates were given to that have not been answered."""

    def run(self) -> None:
        """As for one device. A run that waits for a share has nothing under way.

        Raises:
            MachineError: there is no device for too long.
        """
        self._unpause()
        try:
            with rarely_collected():
                self._run()
        finally:
            self._pause()

    def _run(self) -> None:
        while True:
            with self._together():
                while self._happened:
                    self._take(self._happened.popleft())
                    self._decide()
                self._decide()
                while self._take_reply():
                    self._decide()
            if self.state.end is not None:
                return
            if self._interruption.wanted:
                self._commit([Event(kind="interrupt", body={"clock_s": self._now_s()})])
                return
            wanted = effects(self.state)
            if wanted == [Share()]:
                return
            awaited = False
            for action in wanted:
                awaited = awaited or isinstance(action, Await)
                self._start(action)
            self._happened.extend(self._executor.wait(LOOK_S if awaited else WAIT_S))
            self._check_alone()

    def go_on(self, environment: Mapping[str, Any], further: Further | None = None) -> None:
        """Makes a restored run ready to go on: the devices of before are gone, what they had begun starts over."""
        events = self._resumed(environment, further)
        reason = "the run was resumed"
        events += [
            Event(
                kind="lane_lost",
                body={"lane": lane.number, "reason": reason, "clock_s": self._now_s()},
            )
            for lane in self.state.lanes.values()
            if lane.alive
        ]
        unfinished = [n for n in self.state.queue if self.state.trials[n].build is not None]
        events += [Event(kind="abandoned", body={}, trial=n) for n in unfinished]
        lost, blobs = self._desk.go_on()
        self._commit([*events, *lost], blobs)
        baseline = self.state.baseline
        if baseline is not None and baseline["status"] == Status.OK:
            self._executor.set_baseline(self._builds.of(BASELINE), self._resolved(BASELINE))

    @contextlib.contextmanager
    def _together(self) -> Iterator[None]:
        """One transaction for a round; models are asked and observers told after it."""
        self._grouped = []
        with self._record.together():
            yield
        told, self._grouped = self._grouped, None
        for recorded in told:
            super()._committed(recorded)

    def _committed(self, recorded: Recorded) -> None:
        if self._grouped is None:
            super()._committed(recorded)
        else:
            self._grouped.append(recorded)

    def _take_reply(self) -> bool:
        """Takes in a model's reply, or that the time for one is over; false where neither is so."""
        # Nobody else asks models, and this is looked for in every round.
        if self.state.settings.evolution is None:
            return False
        events, blobs = self._desk.arrived()
        if not events:
            awaited = [action for action in effects(self.state) if isinstance(action, Await)]
            if awaited and self._now_s() >= awaited[0].until_s:
                events = [Event(kind="waited", body={"clock_s": self._now_s()})]
        self._commit(events, blobs)
        return bool(events)

    def _decide(self) -> None:
        while True:
            action = decision(self.state)
            if action is None or isinstance(action, Finished):
                return
            events, blobs = self._perform(action)
            self._commit(events, blobs)

    def _check_alone(self) -> None:
        if any(lane.usable for lane in self.state.lanes.values()):
            self._alone_since = None
            return
        now = self._clock()
        self._alone_since = now if self._alone_since is None else self._alone_since
        patience_s = ALONE_S if len(self.state.lanes) > self._offset else FIRST_S
        if now - self._alone_since > patience_s:
            raise MachineError(f"there was no device to use for {patience_s:.0f} s", "see tuner doctor")

    # What is begun.

    def _start(self, action: Action) -> None:
        match action:
            case BuildTrials():
                waiting = [n for n in action.trials if n not in self._building]
                for at in range(0, len(waiting), CHUNK):
                    self._start_builds(waiting[at : at + CHUNK])
            case SetBaseline():
                trial = self.state.trials[BASELINE]
                assert trial.lane is not None
                self._executor.set_baseline(self._builds.of(BASELINE), self._resolved(BASELINE))
                self._submit(BaselineJob(lane=trial.lane))
            case Verify():
                self._start_evaluation(action.trial)
            case Control():
                assert action.lane is not None
                self._start_fresh(
                    action.lane, ("control", action.number), BASELINE, CONTROL_PURPOSE, 0, action.calls
                )
            case Final():
                lane = self._final_lane()
                self._start_fresh(
                    lane, ("final", action.purpose), action.trial, "confirm", action.number, action.calls
                )
            case Compare():
                other = None if action.other is None else self._builds.other(action.other)
                self._start_fresh(
                    self._final_lane(),
                    ("compare", action.other),
                    BASELINE,
                    "confirm",
                    action.number,
                    action.calls,
                    other,
                )
            case Weigh():
                self._start_fresh(
                    self._final_lane(),
                    ("weigh", action.item),
                    self._lesser.chosen,
                    "confirm",
                    action.number,
                    action.calls,
                    None if action.item is None else self._lesser.build(action.item),
                    None if action.item is None else self._lesser.resolved(action.item),
                )
            case BuildOther():
                self._commit(*self._build_other(action))
            case BuildWithout():
                self._commit(self._build_without(action))
            case Await() | Share():
                """Comes from outside: the loop looks for a reply, or ends when nothing else is under way."""
            case _:
                raise AssertionError(f"nothing begins with {action}")

    def _final_lane(self) -> int:
        assert self.state.final_lane is not None
        return self.state.final_lane

    def _start_builds(self, trials: Sequence[int]) -> None:
        candidates = [(n, *self._lineup.of_trial(n)) for n in trials]
        requests = tuple(BuildRequest(trial=n, variant=v, resolved=r) for n, v, r in candidates)
        self._building |= set(trials)
        self._executor.submit(BuildJob(requests=requests))

    def _start_evaluation(self, number: int) -> None:
        trial = self.state.trials[number]
        assert trial.lane is not None
        # Named in every round until they are answered.
        if self._given.get(number) == trial.lane:
            return
        self._given[number] = trial.lane
        job = EvaluateJob(
            lane=trial.lane,
            trial=number,
            build=self._builds.of(number),
            resolved=self._resolved(number),
            race=race_of(self.state, trial),
        )
        self._submit(job)

    def _start_fresh(
        self,
        lane: int,
        label: tuple[object, ...],
        trial: int,
        purpose: str,
        number: int,
        calls: tuple[int, ...],
        build: Build | None = None,
        resolved: Resolved | None = None,
    ) -> None:
        if self._lane_jobs.get(lane):
            return
        job = FreshJob(
            lane=lane,
            label=(*label, trial),
            build=build or (None if trial == BASELINE else self._builds.of(trial)),
            resolved=resolved or self._resolved(trial),
            purpose=purpose,
            number=number,
            calls=calls,
            retries=self.state.settings.lost_retries,
        )
        self._submit(job)

    def _submit(self, job: BaselineJob | EvaluateJob | FreshJob) -> None:
        # Only candidates are given ahead of time; anything else has a device for itself.
        if self._lane_jobs.get(job.lane) and not isinstance(job, EvaluateJob):
            return
        self._lane_jobs.setdefault(job.lane, deque()).append(job)
        self._executor.submit(_renumbered(job, job.lane - self._offset))

    # What has happened.

    def _take(self, happening: Happening) -> None:
        clock = {"clock_s": self._now_s()}
        match happening:
            case LaneJoined():
                body = {
                    "lane": happening.lane + self._offset,
                    "device": happening.device,
                    "node": happening.node,
                }
                self._commit([Event(kind="lane", body={**body, **clock})])
            case LaneLost():
                lane = happening.lane + self._offset
                self._lane_jobs.pop(lane, None)
                if lane in self.state.lanes and self.state.lanes[lane].alive:
                    body = {"lane": lane, "reason": happening.reason}
                    self._commit([Event(kind="lane_lost", body={**body, **clock})])
            case JobLost():
                if isinstance(happening.job, BuildJob):
                    self._building -= {r.trial for r in happening.job.requests}
            case JobDone(job=BuildJob() as job):
                self._take_builds(job, happening.result)
            case JobDone(job=LaneJob() as job):
                given = self._lane_jobs.get(job.lane + self._offset)
                if given:
                    self._take_result(given.popleft(), happening.result)

    def _take_builds(self, job: BuildJob, result: object) -> None:
        assert isinstance(result, list)
        for request, build in zip(job.requests, result, strict=True):
            self._building.discard(request.trial)
            # One that was abandoned meanwhile is built again under its number.
            trial = self.state.trials[request.trial]
            if trial.build is None and trial.status is None:
                self._commit(*self._built(request.trial, build))
                self._decide()

    def _take_result(self, job: Job, result: object) -> None:
        match job, result:
            case BaselineJob(), BaselineReport():
                self._commit([Event(kind="baseline", body=bodies.baseline(result, self._now_s()))])
            case EvaluateJob(), Evaluated():
                self._take_evaluation(job, result)
            case FreshJob(), Fresh():
                self._take_fresh(job, result)

    def _take_evaluation(self, job: EvaluateJob, result: Evaluated) -> None:
        self._given.pop(job.trial, None)
        trial = self.state.trials[job.trial]
        body = {
            **bodies.verdict(result.verdict, self._now_s()),
            "lane": job.lane,
            "idle_s": result.idle_s,
            "busy_s": result.busy_s,
        }
        self._commit([Event(kind="verify", body=body, trial=job.trial)])
        self._decide()
        for number, measured in enumerate(result.rounds):
            # The device decided by the same rules whether to go on.
            assert trial.status is None
            body = bodies.samples(number, measured, self._now_s())
            self._commit([Event(kind="samples", body=body, trial=job.trial)])
            self._decide()

    def _take_fresh(self, job: FreshJob, result: Fresh) -> None:
        measured: list[Measurement] = list(result.measurements)
        common = bodies.fresh(result.status, measured, result.message, result.cost_s, self._now_s())
        trial = job.label[-1]
        assert isinstance(trial, int)
        if job.label[0] == "control":
            body = {"number": job.label[1], "lane": job.lane, **common}
            self._commit([Event(kind="control", body=body, trial=BASELINE)])
            return
        samples = {"measurements": [bodies.measurement(m) for m in measured]}
        if job.label[0] == "final":
            body = {"purpose": job.label[1], "number": job.number, "lane": job.lane, **common, **samples}
            self._commit([Event(kind="final", body=body, trial=trial)])
            return
        if job.label[0] == "weigh":
            body = {"item": job.label[1], "number": job.number, "lane": job.lane, **common, **samples}
            self._commit([Event(kind="weighed", body=body)])
            return
        body = {"other": job.label[1], "number": job.number, "lane": job.lane, **common, **samples}
        self._commit([Event(kind="compared", body=body)])


def _renumbered(job: BaselineJob | EvaluateJob | FreshJob, lane: int) -> Job:
    return job if job.lane == lane else replace(job, lane=lane)
