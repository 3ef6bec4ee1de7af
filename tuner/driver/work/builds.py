"""The builds of a run that are at hand, and those made again where one is not. May not commit anything."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tuner.core.errors import RecordError
from tuner.core.protocols import Evaluation
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Variant
from tuner.driver.state.run import RunState
from tuner.driver.work.lineup import Lineup

__all__ = ["Builds"]

_NO_TRIAL = -1

KEPT = 64
"""Builds kept beside those that are still needed."""


class Builds:
    """Builds by trial, and those of other compilers by their place in ``compare:``.

    Args:
        state: of the run.
        lineup: its variants.
        evaluation: what builds.
    """

    def __init__(self, state: RunState, lineup: Lineup, evaluation: Evaluation) -> None:
        self._state, self._lineup, self._evaluation = state, lineup, evaluation
        self._builds: dict[int, Build] = {}
        self._others: dict[int, Build] = {}

    def compile(self, trials: Sequence[int]) -> list[Build]:
        """Builds trials; keeps none of it."""
        candidates = [(n, *self._lineup.of_trial(n)) for n in trials]
        requests = [BuildRequest(trial=n, variant=variant, resolved=r) for n, variant, r in candidates]
        return self._evaluation.build(requests)

    def beside(self, candidates: Sequence[tuple[Variant, Resolved]]) -> list[Build]:
        """Builds what is no trial; keeps none of it."""
        requests = [BuildRequest(trial=_NO_TRIAL, variant=v, resolved=r) for v, r in candidates]
        return self._evaluation.build(requests)

    def keep(self, number: int, build: Build) -> None:
        """Keeps a trial's build at hand."""
        self._builds[number] = build

    def of(self, number: int) -> Build:
        """The build of a trial whose ``build`` event is in the record, compiled again where it is not at hand.

        Raises:
            RecordError: it builds to other code now.
        """
        build = self._builds.get(number)
        if build is None:
            recorded = self._state.trials[number].build
            assert recorded is not None
            (build,) = self.compile([number])
            if build.key != recorded["key"]:
                raise RecordError(
                    f"trial {number} builds to other code than the record says",
                    "resume with the toolchain that the run was begun with",
                )
            self._builds[number] = build
        return build

    def other(self, index: int) -> Build:
        """What another compiler makes of the baseline."""
        if index not in self._others:
            words = shlex.split(self._state.settings.compare[index])
            resolved = self._lineup.of_trial(BASELINE)[1]
            self._others[index] = self._evaluation.build_with(words, resolved)
        return self._others[index]

    def forget(self) -> None:
        """Lets go of the oldest builds that nothing needs any more."""
        state = self._state
        # Asked after every trial, and looking through all of them takes longer than most else does for one.
        if len(self._builds) < len(state.queue) + 2 * KEPT:
            return
        needed = {BASELINE, state.best, *state.queue, *state.finalists}
        for number in [n for n in self._builds if n not in needed][: -KEPT or None]:
            del self._builds[number]
