"""Joins a run to the user's library: what an earlier one found is tried first, what this one finds is kept.

What the library says is an event of the run, so a replay needs no library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.core.types import BASELINE, Proposal, Status, Task
from tuner.cost_models.library import SHARE, TRIED, Entry, Library, adapted
from tuner.cost_models.machines import machine_features
from tuner.driver.state.advice import Advice
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import LIBRARY
from tuner.driver.work.advising import Advised, Examine, advise, expected
from tuner.driver.work.keeping import kept_edits
from tuner.search.recalling import ORIGIN, SOURCE
from tuner.spaces.space import Space

__all__ = ["Memory", "Recalled"]

KEPT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What the library says to a run.

    Attributes:
        sources: the near runs, for the record.
        firsts: configurations of theirs that may be tried, best first.
        advice: variants after their winners, most promising first.
        expected: what each move that makes variants may be worth, -1 to 1.
    """

    sources: Sequence[Mapping[str, Any]] = ()
    firsts: Sequence[Proposal] = ()
    advice: Sequence[Advice] = ()
    expected: Mapping[str, float] = field(default_factory=dict)


class Memory:
    """The library as one run sees it.

    Args:
        library: of the user; ``None``: nothing is recalled or kept.
        task: of the run.
        space: of the source as given.
    """

    def __init__(self, library: Library | None, task: Task, space: Space) -> None:
        self._library, self._task, self._space = library, task, space

    def recall(self, state: RunState, examine: Examine, going: Callable[[], bool]) -> Recalled:
        """The near runs and what of theirs may be tried.

        Args:
            state: of the run, its baseline timed.
            examine: builds variants, to see what code they give.
            going: whether there is time left to make variants.
        """
        if self._library is None:
            return Recalled()
        like = self.entry(state)
        evolution = state.settings.evolution
        if evolution is not None and not evolution.independent:
            entries = self._library.entries()
            seed = state.settings.seed
            advice = advise(self._task, self._space, like, entries, seed, examine, going)
            if advice:
                return replace(_of_edits(advice), expected=expected(like, entries))
        near = self._library.nearest(like)
        most = TRIED * len(near)
        if state.limit is not None:
            most = min(most, int(state.limit * SHARE))
        found = adapted(self._space, [entry for entry, _ in near], most)
        return Recalled(
            sources=[_source(entry, apart) for entry, apart in near],
            firsts=[Proposal(configuration=c, origin=ORIGIN, note={SOURCE: n}) for c, n in found],
        )

    def keep(self, state: RunState) -> bool:
        """Keeps a run that has ended with a confirmed gain; false where there is nothing to keep."""
        claim = (state.verdict or {}).get("claim")
        if self._library is None or state.end is None or claim != "improved":
            return False
        return self._library.add(self.entry(state))

    def entry(self, state: RunState) -> Entry:
        """What the library keeps of a run; while it goes on, what is compared with the library's."""
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
            kernel=self._task.kernel.name,
            backend=str(start.get("backend", "")),
            language=self._task.kernel.language,
            device=state.device,
            features=dict((baseline.build or {}).get("features", {})),
            names=tuple(d.name for d in self._space.dimensions),
            best=tuple(best),
            edits=() if variant.number == ORIGINAL else variant.edits,
            speedup=float(speedup[0]),
            machine=machine_features(start["environment"]["backend"], start.get("light")),
            **kept_edits(state, self._task),
        )


def _source(entry: Entry, apart: float) -> dict[str, Any]:
    return {"kernel": entry.kernel, "device": entry.device, "distance": apart, "speedup": entry.speedup}


def _of_edits(found: Sequence[Advised]) -> Recalled:
    """Where winners' edits apply, they are worth more than configurations of the source as given."""
    sources = [_source(one.entry, one.distance) for one in found]
    each = [source for number, source in enumerate(sources) if source not in sources[:number]]
    return Recalled(
        sources=each,
        advice=[
            Advice(
                edits=one.made.variant.edits,
                proposal=Proposal(configuration=one.configuration, origin=LIBRARY),
                source=each.index(source),
                same=one.same,
            )
            for one, source in zip(found, sources, strict=True)
        ],
    )
