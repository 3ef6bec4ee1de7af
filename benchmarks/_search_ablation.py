"""The searcher ``surrogate`` with one of its parts taken out, to see what the part is worth.

And ``parameter-arm``, which ``auto`` uses for parameters where there are flags or pipelines beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from _search_runs import Case, simulate
from _search_scores import Trace

from tuner.core.errors import UsageError
from tuner.core.protocols import Observation
from tuner.search import feasibility, features, registry, scored_set, surrogate_search
from tuner.search.bandit import Bandit
from tuner.search.surrogate import standardise

__all__ = ["ARM", "WITHOUT", "check", "search"]

ARM = "parameter-arm"


class _Turns(Bandit):
    """Arms in turn, whatever they bring."""

    def credit(self, arm: str, observation: Observation) -> None:
        """Counts the use alone."""
        if arm in self._uses:
            self._uses[arm] += 1.0

    def choose(self, arms: Sequence[str], running: Mapping[str, int]) -> str:
        """The arm that was used least."""
        return min(arms, key=lambda name: self._uses[name] + running.get(name, 0))


WITHOUT: Mapping[str, tuple[tuple[Any, str, Any], ...]] = {
    "spread": ((surrogate_search, "_SPREAD", 1),),
    "averaging": ((scored_set, "_SURE", 0),),
    "shifting": ((surrogate_search, "Bandit", _Turns),),
    "local": ((surrogate_search, "_LOCAL_FROM", 1 << 30),),
    "alignment": ((features, "alignment", lambda dimension: None),),
    "products": ((features, "products", lambda constraints, names: []),),
    "ranks": ((scored_set, "normal_scores", standardise),),
    "fitting": ((scored_set, "fit", lambda columns, groups, targets, rough, start: start),),
    "chance": ((feasibility.Feasibility, "chances", lambda self: None),),
}
"""Parts with what takes their place: uniform points for the spread start, compressed log times for ranks, turns for
the bandit, …"""


def check(part: str) -> None:
    """Raises for what is no part.

    Raises:
        UsageError: there is no such part.
    """
    if part not in WITHOUT:
        raise UsageError(f"the searcher has no part {part!r} to leave out", "one of " + ", ".join(WITHOUT))


def search(case: Case, strategy: str, evaluations: int, seeds: Sequence[int]) -> list[Trace]:
    """Traces of ``NAME-without-PART``, or of :data:`ARM`.

    Raises:
        UsageError: there is no such part.
    """
    if strategy == ARM:
        with patch.dict(registry.BUILT_IN, {ARM: "tuner.search.auto:AutoSearcher"}):
            return simulate(case, ARM, evaluations, seeds)
    name, _, part = strategy.partition("-without-")
    check(part)
    with ExitStack() as stack:
        for owner, attribute, other in WITHOUT[part]:
            stack.enter_context(patch.object(owner, attribute, other))
        return simulate(case, name, evaluations, seeds)
