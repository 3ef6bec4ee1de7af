"""Several runs that share one budget and the machines, slice by slice, by what each slice is expected to save.

Every run keeps a record of its own, with its slices in it and what every run had reached when each was given: so each
is resumed and audited by itself, and whose turn it was follows from the records. One run has the machines at a time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core.errors import UsageError
from tuner.core.executors import MakeExecutor
from tuner.core.protocols import Backend, Observer
from tuner.driver.applications.shares import weights_of
from tuner.driver.opening import open_state
from tuner.driver.options import Options, settings_of
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.plan.sharing import chosen, share_action, standing
from tuner.driver.records import SUFFIX, new_path
from tuner.driver.runs import Running, beginning, resuming
from tuner.driver.state.settings import Shared
from tuner.driver.work.engine import Interruption
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec

__all__ = ["Member", "find_together", "share_of", "tune_together"]

SLICES = 12
"""Into so many slices for each run the budget is divided."""

LEAST = 4
"""Evaluations of a slice at least."""

PROPOSALS = 8
"""Proposals of a slice for each of its evaluations: duplicates count as none, and many say that little is left."""

LEAST_S = 1.0
"""Seconds of a slice at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One of the runs.

    Attributes:
        spec: one kernel's.
        options: over the spec's own.
        executor: as :func:`tuner.driver.runs.begin` takes it.
        backend: instead of the spec's by name.
        observers: told of each committed event.
        record: of a run that goes on; ``None`` for a new one.
    """

    spec: LoadedSpec
    options: Options
    executor: MakeExecutor | None = None
    backend: Backend | None = None
    observers: Sequence[Observer] = ()
    record: Path | None = None


def share_of(members: Sequence[Member]) -> list[Shared] | None:
    """What each of several runs has in the budget of all; ``None`` where each keeps its own.

    A run that evolves its source plans its whole budget ahead, and evaluations cannot be exchanged for time.

    Raises:
        UsageError: a budget that is none.
    """
    if len(members) < 2 or any(m.spec.evolves for m in members):
        return None
    settings = [settings_of(m.spec, m.options) for m in members]
    evaluations = [s.evaluations for s in settings]
    seconds = [s.search_deadline_s for s in settings]
    if len({e is None for e in evaluations}) > 1 or len({math.isinf(s) for s in seconds}) > 1:
        return None
    together = None if evaluations[0] is None else sum(e for e in evaluations if e is not None)
    search_s = None if math.isinf(seconds[0]) else sum(seconds)
    names = tuple(m.spec.name for m in members)
    weights = weights_of([m.spec for m in members])
    return [
        Shared(members=names, number=n, weight=weight, evaluations=together, search_s=search_s)
        for n, weight in enumerate(weights)
    ]


def tune_together(
    members: Sequence[Member],
    shares: Sequence[Shared],
    *,
    out: Path,
    interruption: Interruption | None = None,
    clock: Callable[[], float] = time.monotonic,
    force: bool = False,
    turn: Callable[[int], AbstractContextManager[Any]] | None = None,
) -> list[Outcome]:
    """Tunes several specs with one budget.

    Args:
        members: the runs, new or to go on.
        shares: of :func:`share_of`, or of the records that go on.
        out: folder for new records.
        interruption: looked at between two events of any run.
        clock: seconds, monotonic.
        force: go on also in another environment.
        turn: entered while the run of this number has the machines.

    Returns:
        What came of each, in order.

    Raises:
        TunerError: as :func:`tuner.driver.runs.begin` and :func:`tuner.driver.runs.resume`.
    """
    interruption = interruption or Interruption()
    with ExitStack() as stack:
        runs = [
            stack.enter_context(_opened(member, shared, out, interruption, clock, force))
            for member, shared in zip(members, shares, strict=True)
        ]
        _Turns(runs, shares[0], interruption, turn).run()
    return [r.outcome() if m.record is not None else r.ended() for r, m in zip(runs, members, strict=True)]


def find_together(out: Path, members: Sequence[LoadedSpec]) -> list[tuple[Path, Shared]] | None:
    """The newest records in a folder of runs that share a budget, one for each spec; ``None`` where they do not.

    Raises:
        UsageError: they were begun together with others, or all have ended.
    """
    found = [_newest(out, spec, number) for number, spec in enumerate(members)]
    known = [one for one in found if one is not None]
    if not known:
        return None
    names = tuple(spec.name for spec in members)
    for path, shared, _ in known:
        if shared.members != names:
            raise UsageError(
                f"{path} shares its budget with {', '.join(shared.members)}",
                "resume all of them in this order",
            )
    if len(known) < len(members):
        missing = names[[one is None for one in found].index(True)]
        raise UsageError(
            f"{known[0][0]} shares its budget with {missing}, of which no record is in {out}", "start anew"
        )
    if all(ended for _, _, ended in known):
        raise UsageError(
            f"the runs of {', '.join(names)} in {out} have ended", "start new ones without --resume"
        )
    return [(path, shared) for path, shared, _ in known]


def _newest(out: Path, spec: LoadedSpec, number: int) -> tuple[Path, Shared, bool] | None:
    paths = sorted(out.glob(f"{spec.name}-*{SUFFIX}"), key=lambda p: p.stat().st_mtime_ns, reverse=True)
    for path in paths:
        with RunRecord.read(path) as record:
            start = next(iter(record.events()), None)
            if start is None or start.body["spec_digest"] != spec.digest:
                continue
            state, _, _ = open_state(record)
        shared = state.settings.shared
        if shared is None:
            return None
        # The same spec takes part several times where there are several kinds of devices.
        if shared.number == number or shared.members.count(spec.name) < 2:
            return path, shared, state.end is not None
    return None


def _opened(
    member: Member,
    shared: Shared,
    out: Path,
    interruption: Interruption,
    clock: Callable[[], float],
    force: bool,
) -> AbstractContextManager[Running]:
    if member.record is not None:
        return resuming(
            member.record,
            backend=member.backend,
            observers=member.observers,
            interruption=interruption,
            clock=clock,
            force=force,
            workers=member.options.workers,
            sandboxed=member.options.require_sandbox,
            executor=member.executor,
            together=True,
        )
    return beginning(
        member.spec,
        lambda: new_path(out, member.spec.name),
        member.options,
        backend=member.backend,
        observers=member.observers,
        interruption=interruption,
        clock=clock,
        executor=member.executor,
        shared=shared,
    )


class _Turns:
    """Whose turn it is, until nothing is left of the budget."""

    def __init__(
        self,
        runs: Sequence[Running],
        shared: Shared,
        interruption: Interruption,
        turn: Callable[[int], AbstractContextManager[Any]] | None,
    ) -> None:
        self._runs, self._shared = runs, shared
        self._interruption, self._turn = interruption, turn

    def run(self) -> None:
        """Gives slices while there are any, then lets every run choose and confirm."""
        for number in range(len(self._runs)):
            self._go(number)
        while not self._interruption.wanted:
            body = self._slice()
            standings = self._standings()
            turn = chosen(standings)
            if body is None or turn is None:
                break
            self._share(turn, {**body, "standings": standings, "last": False})
        standings = self._standings()
        for number in range(len(self._runs)):
            if not self._interruption.wanted and standings[number] is not None:
                nothing = {"evaluations": None, "proposals": None, "search_s": None}
                self._share(number, {**nothing, "standings": standings, "last": True})
            elif self._interruption.wanted and not self._runs[number].state.interrupted:
                # Says in the record that it was stopped.
                self._go(number)

    def _share(self, number: int, body: Mapping[str, Any]) -> None:
        engine = self._runs[number].engine
        assert engine is not None
        engine.share(body)
        self._go(number)

    def _go(self, number: int) -> None:
        with ExitStack() as stack:
            if self._turn is not None:
                stack.enter_context(self._turn(number))
            self._runs[number].go()

    def _standings(self) -> list[dict[str, Any] | None]:
        """Of the runs that take part; ``None`` for one that has ended its search or has failed."""
        return [
            standing(r.state) if r.engine is not None and share_action(r.state) is not None else None
            for r in self._runs
        ]

    def _slice(self) -> dict[str, Any] | None:
        """The next slice; ``None`` where nothing is left."""
        evaluations, search_s = self._shared.evaluations, self._shared.search_s
        count = len(self._runs)
        body: dict[str, Any] = {"evaluations": None, "proposals": None, "search_s": None}
        if evaluations is not None:
            left = evaluations - sum(r.state.evaluations for r in self._runs)
            whole = max(LEAST, 2 * self._devices(), math.ceil(evaluations / (SLICES * count)))
            body["evaluations"] = min(left, whole)
            body["proposals"] = PROPOSALS * whole
        if search_s is not None:
            left_s = search_s - sum(_searched_s(r) for r in self._runs)
            body["search_s"] = min(left_s, max(LEAST_S, search_s / (SLICES * count)))
        return None if any(part is not None and part <= 0 for part in body.values()) else body

    def _devices(self) -> int:
        """How many devices the run with the most of them has: a slice's end leaves them idle for a moment."""
        return max(sum(lane.usable for lane in r.state.lanes.values()) for r in self._runs)


def _searched_s(running: Running) -> float:
    state = running.state
    return state.clock_s if state.search_stop is None else state.searched_s
