"""Does what the plan calls for and commits what came of it before anything depends on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.core.errors import BaselineError
from tuner.core.protocols import BaselineReport, Evaluation, Observer, Session
from tuner.core.types import BASELINE, Build, Measurement, Resolved, Status
from tuner.driver.options import Further
from tuner.driver.plan.actions import (
    Action,
    Ask,
    Await,
    BuildOther,
    BuildTrials,
    BuildWithout,
    Compare,
    Consult,
    Control,
    Decide,
    Dissect,
    Examine,
    Final,
    Finished,
    Judge,
    Measure,
    Propose,
    Recall,
    Receive,
    Reduce,
    SetBaseline,
    Share,
    Shorten,
    Simplify,
    Verify,
    Weigh,
)
from tuner.driver.plan.upcoming import next_action
from tuner.driver.state.fold import apply
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.run import RunState
from tuner.driver.watching import telling
from tuner.driver.work import bodies
from tuner.driver.work.builds import Builds
from tuner.driver.work.correspondence import Correspondent
from tuner.driver.work.desk import Desk
from tuner.driver.work.lineup import Lineup
from tuner.driver.work.remembering import Memory
from tuner.driver.work.thinking import Thinking
from tuner.driver.work.weighing import Lesser
from tuner.evaluators.executors.worker import fresh_process, measure_problems
from tuner.recorders.record import Event, Recorded, RunRecord

__all__ = ["Engine", "Interruption"]


CONTROL_PURPOSE = "search"


class Interruption:
    """Set from a signal handler, looked at between two actions."""

    def __init__(self) -> None:
        self.wanted = False

    def set(self) -> None:
        """Asks the run to stop at the next event."""
        self.wanted = True


@dataclass(slots=True, kw_only=True)
class _Open:
    trial: int
    session: Session


class Engine:
    """One run in progress: record, state, searcher and evaluation, driven by the plan."""

    def __init__(
        self,
        *,
        record: RunRecord,
        state: RunState,
        evaluation: Evaluation,
        lineup: Lineup,
        observers: Sequence[Observer] = (),
        clock: Callable[[], float] = time.monotonic,
        interruption: Interruption | None = None,
        memory: Memory | None = None,
        correspondent: Correspondent | None = None,
    ) -> None:
        self._record = record
        self.state = state
        self._evaluation = evaluation
        self._lineup = lineup
        self._observers = observers
        self._clock = clock
        self._interruption = interruption or Interruption()
        self._base_s = state.clock_s
        self._start_s = clock()
        self._paused = False
        self._builds = Builds(state, lineup, evaluation)
        self._lesser = Lesser(state, lineup, evaluation)
        self._open: _Open | None = None
        self._thinking = Thinking(
            state,
            lineup,
            memory,
            build=self._builds.beside,
            clock=clock,
            now_s=self._now_s,
            interrupted=self._interrupted,
        )
        self._desk = Desk(state, lineup, correspondent, self._now_s, self._interrupted)

    def run(self) -> None:
        """Goes on until the run has ended, is interrupted, or waits for a share of a budget.

        Safe to call on a resumed state, and again after :meth:`share`. The run's clock stands still in between.
        """
        self._unpause()
        try:
            while True:
                if self._interruption.wanted:
                    self._commit([Event(kind="interrupt", body={"clock_s": self._now_s()})])
                    return
                events, blobs = self._desk.arrived()
                if events:
                    self._commit(events, blobs)
                    continue
                action = next_action(self.state)
                if isinstance(action, Finished | Share):
                    return
                events, blobs = self._perform(action)
                self._commit(events, blobs)
        finally:
            self._close_session()
            self._pause()

    def go_on(self, environment: Mapping[str, Any], further: Further | None = None) -> None:
        """Makes a restored run ready to go on: the evaluation knows the baseline, unfinished trials start over.

        Raises:
            BaselineError: the baseline does not verify any more.
            RecordError: the baseline builds to other code than the record says.
        """
        baseline = self.state.baseline
        if baseline is not None and baseline["status"] == Status.OK:
            report = self._established()
            if report.status is not Status.OK:
                raise BaselineError(
                    f"the baseline does not verify any more: {report.message}",
                    "resume where the run was begun",
                )
        unfinished = [n for n in self.state.queue if self.state.trials[n].build is not None]
        events = self._resumed(environment, further)
        events += [Event(kind="abandoned", body={}, trial=n) for n in unfinished]
        lost, blobs = self._desk.go_on()
        self._commit([*events, *lost], blobs)

    def _resumed(self, environment: Mapping[str, Any], further: Further | None) -> list[Event]:
        """What opens a run again, before anything of it is done over."""
        now_s, state = self._now_s(), self.state
        events = [Event(kind="resume", body={"environment": environment, "clock_s": now_s})]
        if further is not None:
            events.append(
                Event(kind="extend", body=further.to_event(state.settings, state.evaluations, now_s))
            )
        return events

    def share(self, body: Mapping[str, Any]) -> None:
        """A slice of a budget that several runs share, or that no more will come; between two calls of :meth:`run`."""
        self._commit([Event(kind="share", body={**body, "clock_s": self._base_s})])

    def _pause(self) -> None:
        self._base_s, self._paused = self._now_s(), True

    def _unpause(self) -> None:
        if self._paused:
            self._start_s, self._paused = self._clock(), False

    def _now_s(self) -> float:
        return self._base_s + self._clock() - self._start_s

    def _interrupted(self) -> bool:
        return self._interruption.wanted

    def _commit(self, events: Sequence[Event], blobs: Mapping[str, bytes] | None = None) -> None:
        # The state is fed what the record gives back, so it sees exactly what a later reader will see.
        for recorded in self._record.append(events, blobs or {}):
            apply(self.state, recorded)
            self._committed(recorded)

    def _committed(self, recorded: Recorded) -> None:
        """What an event that is in the record now leads to outside."""
        self._desk.committed(recorded)
        for observer in self._observers:
            observer.event(recorded.kind, {**recorded.body, "trial": recorded.trial})

    def _perform(self, action: Action) -> tuple[list[Event], dict[str, bytes]]:
        match action:
            case Decide():
                if action.kind == "trial":
                    self._close_session()
                    self._builds.forget()
                return [Event(kind=action.kind, body=action.body, trial=action.trial)], {}
            case Ask():
                return self._thinking.ask(action)
            case Propose() | Receive() | Reduce():
                return self._thinking.breed(action)
            case Recall():
                return self._thinking.recall()
            case Simplify():
                return self._thinking.simplify(action)
            case Judge():
                return self._thinking.judge(action), {}
            case Consult():
                return self._desk.consult(action)
            case Await():
                return self._desk.wait(action)
            case Examine():
                return self._examine(action), {}
            case BuildTrials():
                return self._build(action)
            case SetBaseline():
                return self._set_baseline(), {}
            case Verify():
                return self._verify(action), {}
            case Measure():
                return self._measure(action), {}
            case Control():
                return self._control(action), {}
            case Final():
                return self._final(action), {}
            case BuildOther():
                return self._build_other(action)
            case Compare():
                return self._compare(action), {}
            case Shorten():
                return self._shorten(action), {}
            case Dissect():
                body = {"seen": self.state.seq, **self._lineup.dissect(), "clock_s": self._now_s()}
                return [Event(kind="dissect", body=body)], {}
            case BuildWithout():
                return self._build_without(action), {}
            case Weigh():
                return self._weigh(action), {}
            case Finished() | Share():
                return [], {}

    def _examine(self, action: Examine) -> list[Event]:
        best = self.state.variants[action.variant].best
        if action.variant == ORIGINAL:
            remarks = self._evaluation.remarks(self._builds.of(BASELINE), self._resolved(BASELINE))
        else:
            assert best is not None
            variant, resolved = self._lineup.of_trial(best)
            remarks = self._evaluation.remarks(self._builds.of(best), resolved, variant)
        body: dict[str, Any] = {"remarks": dict(remarks), "clock_s": self._now_s()}
        if action.variant != ORIGINAL:
            body |= {"variant": action.variant, "of": best}
        return [Event(kind="remarks", body=body)]

    def _build(self, action: BuildTrials) -> tuple[list[Event], dict[str, bytes]]:
        blobs: dict[str, bytes] = {}
        events = []
        for number, build in zip(action.trials, self._builds.compile(action.trials), strict=True):
            made, kept = self._built(number, build)
            events += made
            blobs |= kept
        return events, blobs

    def _built(self, number: int, build: Build) -> tuple[list[Event], dict[str, bytes]]:
        """The event of a build, with its code where that is new."""
        self._builds.keep(number, build)
        new = build.key not in self.state.keys or self.state.variant_of(number).purpose == "reduce"
        kept = build.status is Status.OK and new
        body = bodies.built(build, f"blob:{build.digest}" if kept else None, self._now_s())
        blobs = {build.digest: build.code} if kept else {}
        return [Event(kind="build", body=body, trial=number)], blobs

    def _resolved(self, number: int) -> Resolved:
        return self._lineup.of_trial(number)[1]

    def _set_baseline(self) -> list[Event]:
        report = self._established()
        return [Event(kind="baseline", body=bodies.baseline(report, self._now_s()))]

    def _established(self) -> BaselineReport:
        with telling(self._evaluation, self._observers):
            return self._evaluation.set_baseline(self._builds.of(BASELINE), self._resolved(BASELINE))

    def _verify(self, action: Verify) -> list[Event]:
        self._close_session()
        session = self._evaluation.open(
            self._builds.of(action.trial), self._resolved(action.trial), purpose="search", number=0
        )
        self._open = _Open(trial=action.trial, session=session)
        verdict = session.verify()
        body = bodies.verdict(verdict, self._now_s())
        return [Event(kind="verify", body=body, trial=action.trial)]

    def _measure(self, action: Measure) -> list[Event]:
        assert self._open is not None
        assert self._open.trial == action.trial
        measurements = measure_problems(self._open.session, action.calls)
        body = bodies.samples(action.round, measurements, self._now_s())
        return [Event(kind="samples", body=body, trial=action.trial)]

    def _control(self, action: Control) -> list[Event]:
        started = self._clock()
        build = self._builds.of(BASELINE)
        status, measurements, message = self._fresh(CONTROL_PURPOSE, 0, build, BASELINE, action.calls)
        body = {
            "number": action.number,
            **bodies.fresh(status, measurements, message, self._clock() - started, self._now_s()),
        }
        return [Event(kind="control", body=body, trial=BASELINE)]

    def _final(self, action: Final) -> list[Event]:
        started = self._clock()
        build = self._builds.of(action.trial)
        status, measurements, message = self._fresh(
            "confirm", action.number, build, action.trial, action.calls
        )
        body = {
            "purpose": action.purpose,
            "number": action.number,
            **bodies.fresh(status, measurements, message, self._clock() - started, self._now_s()),
            "measurements": [bodies.measurement(m) for m in measurements],
        }
        return [Event(kind="final", body=body, trial=action.trial)]

    def _build_other(self, action: BuildOther) -> tuple[list[Event], dict[str, bytes]]:
        build = self._builds.other(action.index)
        body = {
            "index": action.index,
            "command": self.state.settings.compare[action.index],
            "status": build.status.value,
            "message": build.message,
            "digest": build.digest,
            "code": f"blob:{build.digest}" if build.status is Status.OK else None,
            "features": dict(build.features),
            "clock_s": self._now_s(),
        }
        blobs = {build.digest: build.code} if build.status is Status.OK else {}
        return [Event(kind="other", body=body)], blobs

    def _compare(self, action: Compare) -> list[Event]:
        started = self._clock()
        build = self._builds.of(BASELINE) if action.other is None else self._builds.other(action.other)
        status, measurements, message = self._fresh("confirm", action.number, build, BASELINE, action.calls)
        body = {
            "other": action.other,
            "number": action.number,
            **bodies.fresh(status, measurements, message, self._clock() - started, self._now_s()),
            "measurements": [bodies.measurement(m) for m in measurements],
        }
        return [Event(kind="compared", body=body)]

    def _shorten(self, action: Shorten) -> list[Event]:
        seen = self.state.seq
        made = self._lesser.shorten(
            action, lambda: self._now_s() < action.until_s and not self._interrupted()
        )
        return [Event(kind="shorten", body={"seen": seen, **made, "clock_s": self._now_s()})]

    def _build_without(self, action: BuildWithout) -> list[Event]:
        builds = self._lesser.compile(action.items)
        now_s = self._now_s()
        return [
            Event(kind="without", body={"item": item, **bodies.lesser(build, now_s)})
            for item, build in zip(action.items, builds, strict=True)
        ]

    def _weigh(self, action: Weigh) -> list[Event]:
        started = self._clock()
        trial, item = self._lesser.chosen, action.item
        build = self._builds.of(trial) if item is None else self._lesser.build(item)
        resolved = None if item is None else self._lesser.resolved(item)
        done = self._fresh("confirm", action.number, build, trial, action.calls, resolved)
        status, measurements, message = done
        body = {
            "item": item,
            "number": action.number,
            **bodies.fresh(status, measurements, message, self._clock() - started, self._now_s()),
            "measurements": [bodies.measurement(m) for m in measurements],
        }
        return [Event(kind="weighed", body=body)]

    def _fresh(
        self,
        purpose: str,
        number: int,
        build: Build,
        trial: int,
        calls: Sequence[int],
        resolved: Resolved | None = None,
    ) -> tuple[Status, list[Measurement], str]:
        """Verifies and times a trial, or what has other values, in a process of its own.

        A machine's fault is tried again.
        """
        retries = self.state.settings.lost_retries
        resolved = resolved or self._resolved(trial)
        return fresh_process(self._evaluation, build, resolved, purpose, number, calls, retries)

    def _close_session(self) -> None:
        if self._open is not None:
            self._open.session.close()
            self._open = None
