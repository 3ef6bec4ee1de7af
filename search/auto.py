"""The default strategy: parameters and flags by a surrogate, pipelines by evolution, alternating by what pays.

In order: every flag choice once on the default, then the choices that helped together; uniform parameters; then the
arms ``parameters`` (at the best pipeline), ``passes`` (at the best parameters and flags) and ``joint`` (good parameters
with good pipelines that were not tried together). May not look at any clock or budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tuner.core.protocols import Observation, configuration_key
from tuner.core.types import Proposal, Value
from tuner.search.bandit import Bandit
from tuner.search.base import SearcherBase
from tuner.search.domain import PASSES, Point
from tuner.search.history import Key
from tuner.search.parameter_arm import ParameterArm
from tuner.search.pass_arm import PassArm
from tuner.search.pass_memory import PassMemory
from tuner.search.sameness import Sameness
from tuner.search.surrogate_search import SurrogateSearcher
from tuner.spaces.space import Space

__all__ = ["AutoSearcher", "make"]

_SCREENED = 24
_ELITE = 6
_MISSES = 8
_RANKED = 0.5


class AutoSearcher(SearcherBase):
    """Joins the arms; works in spaces with only parameters, only flags or only passes as well.

    Args:
        space: what is searched.
    """

    name = "auto"

    def __init__(self, space: Space) -> None:
        super().__init__(space)
        self._parameters = ParameterArm(self.domain, self.history, self.pool)
        passes = self.domain.passes
        self._memory = None if passes is None else PassMemory(self.domain)
        self._passes = None if passes is None or self._memory is None else PassArm(passes, self._memory)
        self._sameness = Sameness(self.domain)
        arms = ["parameters"] if self.domain.size != 1 or passes is None else []
        if self._passes is not None:
            arms += ["passes", "joint"] if arms else ["passes"]
        self._arms = tuple(arms)
        self._bandit = Bandit(arms)
        self._screen = self._screening()
        self._unscreened = set(self._screen)
        self._flag_scores: dict[Point, float] = {}

    def tell(self, observations: Sequence[Observation]) -> None:
        """Learns what became of trials, its own or others'."""
        super().tell(observations)
        for observation in observations:
            self._bandit.tell(observation)
            self._note_flags(observation)
            self._sameness.tell(observation)
            if self._memory is not None:
                self._memory.tell(observation)

    def warm_start(self, observations: Sequence[Observation]) -> None:
        """Learns from trials of a space much like this one, with scores on this one's scale; before anything else."""
        self.history.believe(observations)
        if self._memory is not None:
            for observation in observations:
                self._memory.tell(observation)

    def settle(self) -> None:
        """The first configuration that is told is good: what differs from it in much is hardly worth a trial."""
        self._parameters.settled = True

    def _propose(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        taken: dict[Key, Proposal] = {}
        for screened in self._screened()[:count]:
            taken[configuration_key(screened.configuration)] = screened
        running = Counter(p.origin.rpartition("/")[2] for p in self.history.pending.values())
        running.update("screen" for _ in taken)
        open_arms, misses = list(self._arms), 0
        while open_arms and len(taken) < count:
            arm = self._choose(open_arms, running, len(taken))
            proposal = self._from_arm(arm, rng, taken)
            if proposal is None:
                # The evolution may draw nothing new by chance; the other arms know when they have nothing left.
                misses += 1
                if arm != "passes" or misses >= _MISSES:
                    open_arms.remove(arm)
                continue
            taken[configuration_key(proposal.configuration)] = proposal
            running[arm] += 1
        if not taken:
            # What is likely known code may still be all that is left.
            made = (self._from_arm(arm, rng, taken, wary=False) for arm in self._arms)
            return [proposal for proposal in made if proposal is not None][:count]
        return list(taken.values())

    def _choose(self, arms: list[str], running: Counter[str], asked: int) -> str:
        known = len(self.history.placed) + len(self.history.pending) + asked
        if "parameters" in arms and known < len(self._screen) + self._parameters.startup:
            return "parameters"
        return self._bandit.choose(arms, running)

    def _from_arm(
        self, arm: str, rng: np.random.Generator, taken: dict[Key, Proposal], *, wary: bool = True
    ) -> Proposal | None:
        """An arm's proposal, if any; a ``wary`` one is withdrawn as often as such a one turns out to be known code."""
        if arm == "passes":
            return self._by_passes(rng, taken, wary=wary)
        made = self._by_parameters(rng, taken) if arm == "parameters" else self._by_both(rng, taken)
        if made is None or not wary:
            return made
        point = self.domain.point(made.configuration)
        pipeline = made.configuration.get(PASSES)
        known = 0.0 if point is None else self._sameness.chance(point, str(pipeline or self.domain.base))
        return None if rng.random() < known else made

    def _by_parameters(self, rng: np.random.Generator, taken: dict[Key, Proposal]) -> Proposal | None:
        pipeline = self.incumbent_pipeline
        without = frozenset(
            point
            for proposal in taken.values()
            if proposal.configuration.get(PASSES) == pipeline
            and (point := self.domain.point(proposal.configuration)) is not None
        )
        found = self._parameters.suggest(
            rng,
            1,
            pipeline=pipeline,
            without=without,
            beside=[p.configuration for p in taken.values()],
            stale=lambda points: self._sameness.chances(points, pipeline),
        )
        if not found:
            return None
        suggestion = found[0]
        note: dict[str, Value] = {"how": suggestion.how}
        if suggestion.value is not None:
            note["value"] = suggestion.value
        best = self.history.best
        return Proposal(
            configuration=self.domain.configuration(suggestion.point, pipeline),
            origin="auto/parameters",
            parent=None if best is None else best.trial,
            note=note,
            rivals=suggestion.rivals,
        )

    def _by_passes(
        self, rng: np.random.Generator, taken: dict[Key, Proposal], *, wary: bool
    ) -> Proposal | None:
        if self._passes is None:
            return None
        point = self._incumbent_point()
        without = self.pool.pipelines(point) | {
            str(p.configuration[PASSES])
            for p in taken.values()
            if self.domain.point(p.configuration) == point
        }
        made = self._passes.suggest(
            rng,
            without=without,
            stale=lambda text: self._sameness.chance(point, text) if wary else 0.0,
        )
        if made is None:
            return None
        return Proposal(
            configuration=self.domain.configuration(point, made.pipeline),
            origin="auto/passes",
            parent=made.parent,
            note={"operator": made.operator, "added": list(made.added)},
        )

    def _by_both(self, rng: np.random.Generator, taken: dict[Key, Proposal]) -> Proposal | None:
        """A good point with a good pipeline, better ranks and likelier new code first, if it was not tried."""
        if self._memory is None:
            return None
        # Others' trials may be of combinations that this space does not allow.
        passes = self.domain.passes
        points = [p for p in self.history.elite(_ELITE) if self.domain.valid(p)]
        known = [i.pipeline for i in self._memory.individuals()[:_ELITE]]
        pipelines = [text for text in known if passes is not None and passes.is_valid(text)]
        pairs = sorted(
            ((i + j, i, j) for i in range(len(points)) for j in range(len(pipelines))),
        )
        free = []
        for _, i, j in pairs:
            configuration = self.domain.configuration(points[i], pipelines[j])
            if not self.history.knows(configuration) and configuration_key(configuration) not in taken:
                fresh = 1.0 - self._sameness.chance(points[i], pipelines[j])
                free.append((configuration, i, j, fresh))
        if not free:
            return None
        # The best ranks are likeliest, but not certain: ranks are noisy.
        weights = np.array([one[3] * _RANKED**n for n, one in enumerate(free)])
        configuration, i, j, _ = free[int(rng.choice(len(free), p=weights / weights.sum()))]
        best = self.history.best
        return Proposal(
            configuration=configuration,
            origin="auto/joint",
            parent=None if best is None else best.trial,
            note={"how": "crossed", "ranks": [i, j]},
        )

    def _incumbent_point(self) -> Point:
        best = self.history.best
        point = None if best is None else self.domain.point(best.proposal.configuration)
        return self.domain.start if point is None else point

    def _screening(self) -> list[Point]:
        """Every other flag choice on the default, group by group; valid ones, at most two dozen."""
        default, points = self.domain.default, []
        for i, axis in enumerate(self.domain.axes):
            for position in range(axis.size) if axis.flag else ():
                point = (*default[:i], position, *default[i + 1 :])
                if position != default[i] and self.domain.valid(point):
                    points.append(point)
        return points[:_SCREENED]

    def _screened(self) -> list[Proposal]:
        """What is left of the screening: single choices, then the helpful ones of all groups together."""
        pipeline = self.domain.base if self.domain.passes is not None else None
        left = [p for p in self._screen if not self.pool.tried(p, pipeline)]
        if not self._unscreened and len(self._screen) > 1:
            joined = self._joined(pipeline)
            left = [] if joined is None else [joined]
        return [
            Proposal(
                configuration=self.domain.configuration(p, pipeline),
                origin="auto/screen",
                note={"how": "flags"},
            )
            for p in left
        ]

    def _note_flags(self, observation: Observation) -> None:
        configuration = observation.proposal.configuration
        point = self.domain.point(configuration)
        if point is None or configuration.get(PASSES, self.domain.base) != self.domain.base:
            return
        if point in self._unscreened or point == self.domain.default:
            self._unscreened.discard(point)
            if observation.score is not None:
                self._flag_scores[point] = observation.score

    def _joined(self, pipeline: str | None) -> Point | None:
        """The default with the best flag choice of each group, where two groups and more have one."""
        scores, base = self._flag_scores, self._flag_scores.get(self.domain.default, 0.0)
        point, moved = list(self.domain.default), 0
        for i, axis in enumerate(self.domain.axes):
            if not axis.flag:
                continue
            tried = [
                (scores[p], p[i]) for p in self._screen if p[i] != self.domain.default[i] and p in scores
            ]
            if tried and min(tried)[0] < base:
                point[i] = min(tried)[1]
                moved += 1
        joined = tuple(point)
        if moved < 2 or self.pool.tried(joined, pipeline) or not self.domain.valid(joined):
            return None
        return joined


def make(space: Space) -> SearcherBase:
    """The factory behind the name ``auto``: the surrogate alone where only parameters are tuned."""
    if space.passes is None and not space.flags:
        return SurrogateSearcher(space, name="auto", origin="auto/parameters")
    return AutoSearcher(space)
