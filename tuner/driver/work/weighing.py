"""Builds of the winner with less in it. May not time anything nor decide what is tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tuner.core.protocols import Evaluation
from tuner.core.types import Build, BuildRequest, Resolved, Status, Variant
from tuner.driver.plan.actions import Shorten
from tuner.driver.state.run import RunState
from tuner.driver.work.lineup import Lineup

__all__ = ["Lesser"]


class Lesser:
    """What the winner becomes without an item, compiled when it is wanted.

    Args:
        state: of a run with a choice.
        lineup: over the same state.
        evaluation: that builds.
    """

    def __init__(self, state: RunState, lineup: Lineup, evaluation: Evaluation) -> None:
        self._state = state
        self._lineup = lineup
        self._evaluation = evaluation
        self._builds: dict[int, Build] = {}

    def compile(self, items: Sequence[int]) -> list[Build]:
        """One build for each item, in order."""
        candidates = [self._lineup.without(item) for item in items]
        builds = self._evaluation.build(
            [BuildRequest(trial=self.chosen, variant=variant, resolved=r) for variant, r in candidates]
        )
        self._builds |= dict(zip(items, builds, strict=True))
        return builds

    def shorten(self, action: Shorten, has_time: Callable[[], bool]) -> dict[str, Any]:
        """The winner's pipeline without what does not change its object code, as a ``shorten`` event holds it."""
        known = self._state.trials[self.chosen].build
        assert known is not None
        left = action.builds

        def same(variant: Variant, resolved: Resolved) -> bool:
            nonlocal left
            left -= 1
            if left < 0 or not has_time():
                return False
            request = BuildRequest(trial=self.chosen, variant=variant, resolved=resolved)
            (build,) = self._evaluation.build([request])
            return build.status is Status.OK and build.digest == known["digest"]

        return self._lineup.shorten(same)

    def build(self, item: int) -> Build:
        """The build without an item, compiled again where it is not at hand."""
        if item not in self._builds:
            self.compile([item])
        return self._builds[item]

    def resolved(self, item: int) -> Resolved:
        """The values without an item."""
        return self._lineup.without(item)[1]

    @property
    def chosen(self) -> int:
        """The winner's trial."""
        assert self._state.chosen is not None
        return self._state.chosen
