"""What the observations say about pipelines, single passes and ways of changing pipelines.

Derived from observations in the order told and from nothing else. May not draw random numbers.

A trial's score is modelled as the sum of what its parameters and flags do and what its pipeline does, so that pipelines
tried with different parameters can be ranked together.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tuner.core.errors import SpecError
from tuner.core.protocols import Observation
from tuner.core.types import Status
from tuner.search.domain import PASSES, Domain, Point
from tuner.search.history import FAILURES
from tuner.search.pass_groups import PassGroups
from tuner.spaces.pipeline import Pipeline

__all__ = ["NOISE", "TOGETHER", "Individual", "PassMemory", "pass_names"]

NOISE = 0.005
"""Differences in log time below this count as none."""

TOGETHER = "together"
"""The operator that tries a group of passes of which it is open whether they change this kernel's code."""

_SUSPECT = frozenset({Status.CRASHED, Status.TIMED_OUT, Status.BUILD_ERROR, Status.OUT_OF_RESOURCES})
_BANNED_AT = 0.5
_PER_PASS = 2e-5
_KEPT = 96
_INERT = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Individual:
    """A pipeline with the best of what is known about it: its effect on the score (below 0 is faster) and a trial."""

    pipeline: str
    effect: float
    trial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    point: Point
    score: float
    trial: int
    length: int


class PassMemory:
    """Pipelines' effects, bans and credit.

    Args:
        domain: of a space with passes.

    Attributes:
        groups: which passes change the code at all.
    """

    def __init__(self, domain: Domain) -> None:
        passes = domain.passes
        assert passes is not None
        self._domain = domain
        self.groups = PassGroups(passes)
        self._based: set[Point] = set()
        self._reference = Counter(pass_names(passes.catalogue.o3))
        self._points: dict[Point, float] = {}
        self._measured: dict[str, _Measured] = {}
        self._scores: dict[int, float] = {}
        self._good: set[str] = set()
        self._told: set[str] = set()
        self._pipelines: dict[int | None, str] = {}
        self._changing: dict[str, bool] = {}
        self._outcomes: dict[str, tuple[int, int]] = {}
        self._bad: list[tuple[Status, frozenset[str]]] = []
        self._rewards: dict[str, tuple[float, float]] = {}
        self._operators: dict[str, tuple[float, float]] = {}
        self._blamed: tuple[int, int, dict[str, float], dict[str, float]] | None = None

    def tell(self, observation: Observation) -> None:
        """Learns from one observation; configurations of other spaces are ignored."""
        pipeline = observation.proposal.configuration.get(PASSES)
        point = self._domain.point(observation.proposal.configuration)
        if not isinstance(pipeline, str) or point is None:
            return
        self._told.add(pipeline)
        self._pipelines[observation.trial] = pipeline
        if observation.score is not None:
            self._scores[observation.trial] = observation.score
            self._place(observation, point, pipeline, observation.score)
            self._good.update(self.added(pipeline))
        elif observation.status in FAILURES and pipeline != self._domain.base:
            self._bad.append((observation.status, self.added(pipeline)))
        self._credit(observation)
        if observation.proposal.note.get("operator") == TOGETHER:
            self._learn_group(observation, point, pipeline)

    def added(self, pipeline: str) -> frozenset[str]:
        """Passes that a pipeline has beyond O3 (all but ``default<…>`` where it is built around that)."""
        names = pass_names(pipeline)
        if "default" in names:
            return frozenset(n for n in names if n != "default")
        return frozenset(Counter(names) - self._reference)

    @property
    def known(self) -> int:
        """How many pipelines have a known effect."""
        return len(self._measured)

    def saw(self, pipeline: str) -> bool:
        """Whether a pipeline was tried with any parameters."""
        return pipeline in self._told

    def free_share(self, operator: str) -> float:
        """The part of what a way of changing pipelines made that was equal code and so cost no evaluation."""
        uses, free = self._outcomes.get(operator, (0, 0))
        return (free + 1.0) / (uses + 4.0)

    def does_nothing(self, names: Collection[str]) -> bool:
        """Whether there are some and each by itself was found to change nothing, before the base and after it."""
        return bool(names) and self.groups.idle.issuperset(names)

    def individuals(self) -> list[Individual]:
        """The few dozen pipelines of most effect, best first; of two alike the shorter one."""
        best = heapq.nsmallest(_KEPT, self._measured.items(), key=lambda item: self._rank(item[1]))
        return [
            Individual(pipeline=text, effect=m.score - self._points[m.point], trial=m.trial)
            for text, m in best
        ]

    def banned(self) -> frozenset[str]:
        """Passes blamed for half a crash or hang and more that were never in anything good."""
        return frozenset(name for name, blame in self._blame()[0].items() if blame >= _BANNED_AT)

    def weight(self, name: str) -> float:
        """How likely a pass is to be drawn relative to one that nothing is known of: 0.1 to 8."""
        reward, uses = self._rewards.get(name, (0.0, 0.0))
        weight = (1.0 + 10.0 * reward) / (1.0 + 0.25 * uses)
        wrong = self._blame()[1].get(name, 0.0)
        # A pass that changed nothing by itself may still make way for others.
        inert = _INERT if name in self.groups.idle or not self._changing.get(name, True) else 1.0
        return min(8.0, max(0.1, inert * weight / (1.0 + 2.0 * wrong)))

    def operator_value(self, name: str) -> float:
        """Mean reward of a way of changing pipelines, optimistic while it was little used."""
        reward, uses = self._operators.get(name, (0.0, 0.0))
        return (reward + 0.3) / (uses + 3.0)

    def _rank(self, measured: _Measured) -> tuple[float, int]:
        effect = measured.score - self._points[measured.point]
        return effect + _PER_PASS * measured.length, measured.trial

    def _place(self, observation: Observation, point: Point, pipeline: str, score: float) -> None:
        known = self._measured.get(pipeline)
        if pipeline == self._domain.base:
            # The base defines what no effect is.
            self._based.add(point)
            self._points[point] = score
        elif point not in self._points:
            effect = 0.0 if known is None else known.score - self._points[known.point]
            self._points[point] = score - effect
        if known is None or not observation.raced:
            self._measured[pipeline] = _Measured(
                point=point, score=score, trial=observation.trial, length=len(pass_names(pipeline))
            )

    def _learn_group(self, observation: Observation, point: Point, pipeline: str) -> None:
        names = [str(name) for name in _listed(observation.proposal.note.get("added"))]
        if observation.score is None:
            if observation.status in FAILURES:
                self.groups.tell(pipeline, names, None)
            return
        repeated = observation.status is Status.DUPLICATE
        if point in self._based:
            # A duplicate has the very score of what it repeats.
            self.groups.tell(pipeline, names, not repeated or observation.score != self._points[point])
        elif repeated and self._pipelines.get(observation.repeats) == self._domain.base:
            # What repeats another pipeline's code may have changed as much as that one did.
            self.groups.tell(pipeline, names, False)

    def _credit(self, observation: Observation) -> None:
        note = observation.proposal.note
        operator = note.get("operator")
        if not isinstance(operator, str) or (
            observation.score is None and observation.status not in FAILURES
        ):
            return
        parent = self._scores.get(
            observation.proposal.parent if observation.proposal.parent is not None else -1
        )
        reward = 0.0
        if observation.score is not None and parent is not None:
            reward = min(1.0, max(0.0, parent - observation.score - NOISE))
            if operator == "minimise" and abs(parent - observation.score) <= NOISE:
                # Shorter at no loss is what it is for, though it makes nothing faster.
                reward = 0.02
        uses, free = self._outcomes.get(operator, (0, 0))
        self._outcomes[operator] = uses + 1, free + (observation.status is Status.DUPLICATE)
        # An equal object cost no measurement.
        cost = 0.5 if observation.status is Status.DUPLICATE else 1.0
        self._operators[operator] = _discounted(self._operators.get(operator, (0.0, 0.0)), reward, cost)
        names = [str(name) for name in _listed(note.get("added"))]
        for name in names:
            if len(names) == 1:
                changed = observation.status is not Status.DUPLICATE
                self._changing[name] = self._changing.get(name, False) or changed
            before = self._rewards.get(name, (0.0, 0.0))
            self._rewards[name] = (before[0] + reward / len(names), before[1] + cost / len(names))

    def _blame(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Blame for crashes and hangs, and for wrong results, shared among the passes not known to be good."""
        state = (len(self._bad), len(self._good))
        if self._blamed is None or self._blamed[:2] != state:
            fatal: dict[str, float] = {}
            wrong: dict[str, float] = {}
            for status, names in self._bad:
                suspects = names - self._good
                table = fatal if status in _SUSPECT else wrong
                for name in sorted(suspects):
                    table[name] = table.get(name, 0.0) + 1.0 / len(suspects)
            self._blamed = (*state, fatal, wrong)
        return self._blamed[2], self._blamed[3]


def _listed(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def _discounted(before: tuple[float, float], reward: float, cost: float) -> tuple[float, float]:
    # What paid early (undoing slow flags) says little about what pays later.
    return 0.95 * before[0] + reward, 0.95 * before[1] + cost


@lru_cache(maxsize=4096)
def pass_names(text: str) -> tuple[str, ...]:
    """The names of a pipeline's passes in order, repeats included; none for a text that is no pipeline."""
    try:
        return tuple(leaf.node.name for leaf in Pipeline.parse(text).leaves())
    except SpecError:
        return ()
