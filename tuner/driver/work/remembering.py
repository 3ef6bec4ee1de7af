"""Joins a run to the user's library: what an earlier one found is tried first, what this one finds is kept.

What the library says is an event of the run, so a replay needs no library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.core.types import BASELINE, Kernel, Proposal, Status
from tuner.cost_models.library import SHARE, TRIED, Entry, Library, adapted
from tuner.cost_models.machines import machine_features
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.run import RunState
from tuner.search.recalling import ORIGIN, SOURCE
from tuner.spaces.space import Space

__all__ = ["Memory"]

KEPT = 8


class Memory:
    """The library as one run sees it.

    Args:
        library: of the user; ``None``: nothing is recalled or kept.
        kernel: as given.
        space: of the source as given.
    """

    def __init__(self, library: Library | None, kernel: Kernel, space: Space) -> None:
        self._library, self._kernel, self._space = library, kernel, space

    def recall(self, state: RunState) -> tuple[list[dict[str, Any]], list[Proposal]]:
        """The near runs, for the record, and what of theirs may be tried, best first."""
        if self._library is None:
            return [], []
        near = self._library.nearest(self._entry(state))
        most = TRIED * len(near)
        if state.limit is not None:
            most = min(most, int(state.limit * SHARE))
        found = adapted(self._space, [entry for entry, _ in near], most)
        sources = [
            {"kernel": entry.kernel, "device": entry.device, "distance": apart, "speedup": entry.speedup}
            for entry, apart in near
        ]
        return sources, [Proposal(configuration=c, origin=ORIGIN, note={SOURCE: n}) for c, n in found]

    def keep(self, state: RunState) -> bool:
        """Keeps a run that has ended with a confirmed gain; false where there is nothing to keep."""
        claim = (state.verdict or {}).get("claim")
        if self._library is None or state.end is None or claim != "improved":
            return False
        return self._library.add(self._entry(state))

    def _entry(self, state: RunState) -> Entry:
        start: Mapping[str, Any] = state.start or {}
        baseline = state.trials[BASELINE]
        ranked = sorted(
            (trial.score, number)
            for number, trial in state.trials.items()
            if trial.status is Status.OK and not trial.raced and trial.score is not None and trial.score < 0
        )
        # Configurations of other variants may name tunables that only those have; what does not fit is left out later.
        best = [(dict(state.trials[n].proposal.configuration), score) for score, n in ranked[:KEPT]]
        chosen = BASELINE if state.chosen is None else state.chosen
        variant = state.variants[state.trials[chosen].variant]
        speedup = (state.verdict or {}).get("speedup") or [1.0]
        return Entry(
            kernel=self._kernel.name,
            backend=str(start.get("backend", "")),
            language=self._kernel.language,
            device=str(start["environment"]["backend"].get("device", "")),
            features=dict((baseline.build or {}).get("features", {})),
            names=tuple(d.name for d in self._space.dimensions),
            best=tuple(best),
            edits=() if variant.number == ORIGINAL else variant.edits,
            speedup=float(speedup[0]),
            machine=machine_features(start["environment"]["backend"], start.get("light")),
        )
