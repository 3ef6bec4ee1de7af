"""What the search has to say, as events: proposals, variants, advice, judgements.

May not time anything; what earlier runs advise is built to be looked at, by whoever builds for the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from tuner.core.canonical import digest
from tuner.core.types import BASELINE, Build, Configuration, Resolved, Status, Variant
from tuner.driver.plan.actions import Ask, Judge, Propose, Receive, Reduce, Simplify
from tuner.driver.state.observations import untold
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import proposal_to_json
from tuner.driver.work.lineup import Lineup
from tuner.driver.work.remembering import Memory, Recalled
from tuner.recorders.record import Event
from tuner.spaces.source.edits import Applied

__all__ = ["Thinking"]

_AT_ONCE = 8
"""Variants that are built between two looks at the clock."""

_SHARE = 0.02
"""Part of a run's time that making what is advised may take, and building it again, but for the last few builds."""

_MAKING_S = 30.0
"""Making what is advised takes no longer than this where a run has much time or only counts trials."""


class Thinking:
    """The part of a run that costs no device's time.

    Args:
        state: follows the record.
        lineup: searchers, proposers and the cost model as the events have left them.
        memory: the library, where one is learnt from.
        build: compiles what is no trial.
        clock: seconds, monotonic.
        now_s: active seconds of the run.
        interrupted: whether the user wants the run to end.
    """

    def __init__(
        self,
        state: RunState,
        lineup: Lineup,
        memory: Memory | None,
        *,
        build: Callable[[Sequence[tuple[Variant, Resolved]]], Sequence[Build]],
        clock: Callable[[], float],
        now_s: Callable[[], float],
        interrupted: Callable[[], bool],
    ) -> None:
        self._state, self._lineup, self._memory = state, lineup, memory
        self._build, self._clock, self._now_s = build, clock, now_s
        self._interrupted = interrupted

    def ask(self, action: Ask) -> tuple[list[Event], dict[str, bytes]]:
        """What a searcher proposes."""
        searcher = self._lineup.searcher(action.variant)
        searcher.tell(untold(self._state, action.variant))
        rng = self._state.chance(action.first, action.variant)
        started = self._clock()
        proposals = searcher.ask(action.count, rng)
        ask_s = self._clock() - started
        blobs: dict[str, bytes] = {}
        body = {
            "first": action.first,
            "count": action.count,
            "seen": self._state.seq,
            "searcher": searcher.name,
            "proposals": [proposal_to_json(p, blobs, digest) for p in proposals],
            "ask_s": ask_s,
            "clock_s": self._now_s(),
        }
        if self._state.settings.evolution is not None:
            body["variant"] = action.variant
        return [Event(kind="ask", body=body)], blobs

    def breed(self, action: Propose | Receive | Reduce) -> tuple[list[Event], dict[str, bytes]]:
        """A variant, where one could be made."""
        started = self._clock()
        blobs: dict[str, bytes] = {}
        body = {"number": action.number, "seen": self._state.seq, **self._lineup.breeding.bred(action, blobs)}
        body |= {"ask_s": self._clock() - started, "clock_s": self._now_s()}
        return [Event(kind="variant", body=body)], blobs if body["made"] is not None else {}

    def recall(self) -> tuple[list[Event], dict[str, bytes]]:
        """What earlier runs of similar kernels say; what was made of it by the time that a user ends the run."""
        recalled = Recalled()
        if self._memory is not None:
            going = self._time_left(_MAKING_S)
            recalled = self._memory.recall(self._state, self._examine, going)
        blobs: dict[str, bytes] = {}
        body = {
            "sources": recalled.sources,
            "firsts": [proposal_to_json(p, blobs, digest) for p in recalled.firsts],
            **({"advice": [a.to_json(blobs, digest) for a in recalled.advice]} if recalled.advice else {}),
            **({"expected": dict(recalled.expected)} if recalled.expected else {}),
            "clock_s": self._now_s(),
        }
        return [Event(kind="recall", body=body)], blobs

    def _examine(self, offered: Sequence[tuple[Applied, Configuration]]) -> list[Mapping[str, float] | None]:
        """Static features of variants as they would begin, for as many as there is time for.

        ``None`` for what does not build or is known code, and for all that is left when time is over.
        """
        known = {(self._state.trials[BASELINE].build or {}).get("key")}
        going = self._time_left(math.inf)
        found: list[Mapping[str, float] | None] = []
        for first in range(0, len(offered), _AT_ONCE):
            if not going():
                break
            begun = [self._lineup.breeding.begun(*one) for one in offered[first : first + _AT_ONCE]]
            builds = iter(self._build([one for one in begun if one is not None]))
            for one in begun:
                build = None if one is None else next(builds)
                fresh = build is not None and build.status is Status.OK and build.key not in known
                found.append(build.features if build is not None and fresh else None)
                known |= {build.key} if build is not None else set()
        return found + [None] * (len(offered) - len(found))

    def _time_left(self, most_s: float) -> Callable[[], bool]:
        """Whether, from now, what is advised may take longer: a share of the run's time, and no more than given."""
        minutes = self._state.settings.minutes
        limit_s = most_s if minutes is None else min(most_s, _SHARE * 60.0 * minutes)
        until_s = self._clock() + limit_s
        return lambda: self._clock() <= until_s and not self._interrupted()

    def simplify(self, action: Simplify) -> tuple[list[Event], dict[str, bytes]]:
        """The best with less changed."""
        blobs: dict[str, bytes] = {}
        body = {
            "first": action.first,
            "count": action.count,
            "reason": action.reason,
            "seen": self._state.seq,
            "proposals": [proposal_to_json(p, blobs, digest) for p in self._lineup.simpler(action.count)],
            "clock_s": self._now_s(),
        }
        return [Event(kind="simplify", body=body)], blobs

    def judge(self, action: Judge) -> list[Event]:
        """What the cost model thinks of trials."""
        started = self._clock()
        body = self._lineup.judge(action)
        body |= {"cost_s": self._clock() - started, "clock_s": self._now_s()}
        return [Event(kind="judge", body=body)]
