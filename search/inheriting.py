"""A searcher for a variant of the source: begins where the variant's parent stands, then is any other searcher.

First the parent's best configuration with the new tunables at their defaults, then the same with other values of a few
of the new tunables, and from then on what the inner searcher proposes. Where the first one fails, the passes may be to
blame, which nobody has tried on this source: then the same with the given pipeline. May not judge variants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tuner.core.protocols import Observation, Searcher, configuration_key
from tuner.core.types import Configuration, Proposal, Status, Value
from tuner.search.domain import Domain
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import PASSES, Space

__all__ = ["InheritingSearcher", "inherited"]

_OWN = ("inherit", "vary", "plain")
_FAILED = (Status.BUILD_ERROR, Status.WRONG_RESULT, Status.CRASHED, Status.TIMED_OUT)
_VARIED = 3
_DRAWS = 12
_MOVED = 2.0


class InheritingSearcher:
    """A :class:`tuner.core.protocols.Searcher` around another one.

    Args:
        make: makes the inner searcher; called when it is first needed, because most variants do not get so far.
        space: of the variant.
        seed: the first configuration.
        new: names of the tunables that the parent did not have.
        prior: what the parent's searcher was told, as far as this one's may learn from it.
    """

    def __init__(
        self,
        make: Callable[[], Searcher],
        space: Space,
        seed: Configuration,
        new: Sequence[str],
        prior: Sequence[Observation] = (),
    ) -> None:
        self._make = make
        self._space = space
        self._seed = dict(seed)
        self._new = [p for p in space.parameters if p.name in set(new)]
        self._prior = prior
        self._adopted: dict[object, Proposal] = {}
        self._observed: list[Observation] = []
        self._inner: Searcher | None = None
        self.name = "inheriting"

    def ask(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        """At most ``count`` proposals; an empty list means that the space is exhausted."""
        made = self._first(count, rng)
        if made or count < 1:
            self.adopt(made)
            return made
        return self._searcher().ask(count, rng)

    def adopt(self, proposals: Sequence[Proposal]) -> None:
        """Takes proposals from a record as its own."""
        if self._inner is not None or any(p.origin not in _OWN for p in proposals):
            self._searcher().adopt(proposals)
            return
        for proposal in proposals:
            self._adopted[configuration_key(proposal.configuration)] = proposal

    def tell(self, observations: Sequence[Observation]) -> None:
        """Learns what became of trials."""
        if self._inner is not None:
            self._inner.tell(observations)
        else:
            self._observed += observations

    def _searcher(self) -> Searcher:
        """The inner searcher, told of everything so far."""
        if self._inner is None:
            self._inner = self._make()
            learn = getattr(self._inner, "warm_start", None)
            prior = self._translated()
            if learn is not None and prior:
                learn(prior)
            settle = getattr(self._inner, "settle", None)
            if settle is not None and self._good():
                settle()
            self._inner.adopt(list(self._adopted.values()))
            self._inner.tell(self._observed)
            self._observed = []
        return self._inner

    def _good(self) -> bool:
        """Whether the first configuration is faster than the baseline."""
        key = configuration_key(self._seed)
        own = [o.score for o in self._observed if configuration_key(o.proposal.configuration) == key]
        return any(score is not None and score < 0.0 for score in own)

    def _translated(self) -> list[Observation]:
        """The parent's trials with this variant's own tunables as it began, moved to this variant's level.

        The level is what the parent's best configuration has come to here; unknown, nothing is learnt.
        """
        key = configuration_key(self._seed)
        own = [o.score for o in self._observed if configuration_key(o.proposal.configuration) == key]
        best = min((o.score for o in self._prior if o.score is not None), default=None)
        if not own or own[0] is None or best is None:
            return []
        known = {d.name for d in self._space.dimensions} | ({PASSES} if self._space.passes else set())
        made = []
        for one in self._prior:
            configuration = {k: v for k, v in one.proposal.configuration.items() if k in known}
            proposal = replace(one.proposal, configuration={**self._seed, **configuration})
            if one.score is not None and configuration_key(proposal.configuration) != key:
                made.append(replace(one, proposal=proposal, score=one.score - best + own[0]))
        return made

    def _first(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        made = [] if self._adopted else [Proposal(configuration=self._seed, origin=_OWN[0])]
        seed: Configuration = self._seed
        room = 1 + _VARIED - len(self._adopted)
        plain = self._plain()
        if plain is not None:
            seed, room = plain, room + 1
            if configuration_key(plain) not in self._adopted:
                made.append(Proposal(configuration=plain, origin=_OWN[2]))
        known = {*self._adopted, *(configuration_key(p.configuration) for p in made)}
        for _ in range(_DRAWS if self._new and self._inner is None else 0):
            if len(made) >= min(count, room):
                break
            drawn = {p.name: p.values[int(rng.integers(len(p.values)))] for p in self._moving(rng)}
            configuration = {**seed, **drawn}
            key = configuration_key(configuration)
            if key not in known and self._space.is_valid(configuration):
                known.add(key)
                made.append(Proposal(configuration=configuration, origin=_OWN[1]))
        return made[:count]

    def _moving(self, rng: np.random.Generator) -> list[Parameter]:
        """The new tunables that take other values at once: a few of many, or what was good of them is lost."""
        chosen = rng.random(len(self._new)) < _MOVED / len(self._new)
        chosen[int(rng.integers(len(self._new)))] = True
        return [p for p, moves in zip(self._new, chosen, strict=True) if moves]

    def _plain(self) -> Configuration | None:
        """The first configuration with the given pipeline, where it has failed with another one."""
        if self._inner is not None or self._space.passes is None:
            return None
        key, base = configuration_key(self._seed), self._space.passes.base
        told = [o.status for o in self._observed if configuration_key(o.proposal.configuration) == key]
        if self._seed.get(PASSES) == base or not any(status in _FAILED for status in told):
            return None
        return {**self._seed, PASSES: base}


def inherited(space: Space, parents: Sequence[Configuration]) -> dict[str, Value]:
    """The parents' values as far as a space has them, the first parent's first, else the defaults; valid.

    Args:
        space: of the variant.
        parents: their best configurations.
    """
    values = dict(space.default())
    for configuration in reversed(parents):
        for dimension in space.dimensions:
            value = configuration.get(dimension.name)
            if value is not None and dimension.find(value) is not None:
                values[dimension.name] = value
        if space.passes is not None and isinstance(configuration.get(PASSES), str):
            values[PASSES] = configuration[PASSES]
    if not space.is_valid(values):
        near = space.neighbours(values)
        values = near[0] if near else Domain(space).configuration(Domain(space).start, None)
    return dict(values)
