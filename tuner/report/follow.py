"""Follows a record as it grows: the run's state, and the clock readings and costs that a state does not keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core.collecting import rarely_collected
from tuner.core.errors import RecordError
from tuner.core.types import BASELINE
from tuner.driver.opening import catalogue_of, spec_of
from tuner.driver.outcome.curves import spread
from tuner.driver.outcome.outcome import Outcome, outcome
from tuner.driver.state.fold import apply
from tuner.driver.state.run import RunState
from tuner.driver.state.strangers import holding_together
from tuner.driver.state.trials import FinalSample, TrialState
from tuner.recorders.record import Recorded, RunRecord
from tuner.spaces.space import Space
from tuner.spec.load import LoadedSpec

__all__ = ["Finished", "Follower"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What is told of a trial beside its state.

    Attributes:
        clock_s: active seconds of the run when it was done.
        order: how many trials were done before it.
        spread: half the width of the 95% interval of its median, in log time; ``None`` where it was not timed.
        compile_s, verify_s, timed_s: what it cost.
    """

    clock_s: float
    order: int
    spread: float | None
    compile_s: float
    verify_s: float
    timed_s: float


class Follower:
    """A record that may still be written. :meth:`update` takes in what was committed since.

    Args:
        path: of the run record.

    Raises:
        RecordError: it is no run record, or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.finished: dict[int, Finished] = {}
        self.chosen_from: tuple[FinalSample, ...] = ()
        self.ask_s = 0.0
        self.controls: list[tuple[float, int, tuple[float, ...]]] = []
        self.exchanges: list[Mapping[str, Any]] = []
        self.judgements: list[Mapping[str, Any]] = []
        self._asked: dict[Any, str] = {}
        self.kinds: Counter[str] = Counter()
        self._record = RunRecord.read(path)
        self.state = RunState(self._record.blob)
        self._hash = ""
        self._spec: LoadedSpec | None = None
        self._space: Space | None = None

    def update(self) -> bool:
        """Whether there was anything new.

        Raises:
            RecordError: the record went away.
            AuditError: its events do not follow from one another.
        """
        before = self.state.seq
        if before and self._record.head.seq == before:
            return False
        with rarely_collected():
            for event in self._record.events(after=before):
                with holding_together(f"event {event.seq} ({event.kind})"):
                    self._take(event)
        return self.state.seq > before

    @property
    def replaced(self) -> bool:
        """Whether another run stands in its place: a name is free again when a baseline fails.

        Raises:
            RecordError: nothing stands there.
        """
        seq = self.state.seq
        last = next(self._record.events(after=seq - 1), None) if seq else None
        return seq > 0 and (last is None or last.hash != self._hash)

    def _take(self, event: Recorded) -> None:
        self._hash = event.hash
        self.kinds[event.kind] += 1
        body = event.body
        self.ask_s += float(body.get("ask_s") or 0.0)
        if event.kind == "choice":
            # The state forgets them to make room for confirming.
            self.chosen_from = tuple(self.state.finals["choose"])
        elif event.kind == "control":
            self._control(body.get("lane"), body["medians_s"], float(body["clock_s"]))
        elif event.kind == "judge":
            self.judgements.append(body)
        elif "prompt_tokens" in body:
            self.exchanges.append({"model": self._asked.get(body.get("call"), "unknown"), **body})
        elif "model" in body and "number" in body:
            self._asked[body["number"]] = str(body["model"])
        apply(self.state, event)
        if event.kind == "trial" and event.trial is not None and not body["again"]:
            self.finished[event.trial] = self._finished(self.state.trials[event.trial])
            if event.trial == BASELINE:
                self._control(self.state.trials[BASELINE].lane, body["medians_s"], self.state.clock_s)

    def _control(self, lane: int | None, medians_s: Sequence[float] | None, clock_s: float) -> None:
        """The baseline was timed; each device has a lane of its own, ``None`` where there is one."""
        if medians_s is not None:
            self.controls.append((clock_s, lane or 0, tuple(medians_s)))

    def _finished(self, trial: TrialState) -> Finished:
        build = trial.build or {}
        timed = [m for r in trial.rounds for m in r]
        return Finished(
            clock_s=self.state.clock_s,
            order=len(self.finished),
            spread=spread(trial, self.state.settings.weights),
            compile_s=sum(build.get("seconds", {}).values()),
            verify_s=float((trial.verify or {}).get("wall_s") or 0.0),
            timed_s=sum(float(m["wall_s"]) for m in timed),
        )

    @property
    def stamp(self) -> str:
        """What has been taken in, as a short text that no other state of this or another run has."""
        return f"{self.state.seq}-{self._hash[:16]}"

    @property
    def begun(self) -> bool:
        """Whether the record holds a run yet."""
        return self.state.start is not None

    @property
    def start(self) -> Mapping[str, Any]:
        """The first event's body.

        Raises:
            RecordError: the record holds no run.
        """
        if self.state.start is None:
            raise RecordError(f"{self.path} holds no run", "it was killed before it began")
        return self.state.start

    @property
    def spec(self) -> LoadedSpec:
        """As the record holds it."""
        if self._spec is None:
            self._spec = spec_of(self._record, self.start)
        return self._spec

    @property
    def space(self) -> Space:
        """Of the source as given."""
        if self._space is None:
            self._space = self.spec.space(catalogue_of(self._record, self.start))
        return self._space

    @property
    def outcome(self) -> Outcome:
        """What the run has come to."""
        self.start  # noqa: B018
        return outcome(self.path, self.state)

    @property
    def head(self) -> tuple[int, str]:
        """The last event's number and hash."""
        head = self._record.head
        return head.seq, head.hash

    @property
    def closed(self) -> bool:
        """Whether its writer has ended it."""
        return self._record.closed
