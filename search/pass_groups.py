"""Which passes change a kernel's code at all, found several at a time.

Most passes find nothing to do in a kernel. So several untried ones go into one pipeline, as many as make new code about
as likely as known code: where the code stays what the base makes, all of them are without effect at that place (group
testing: Dorfman, Annals of Mathematical Statistics 14, 1943). Derived from what it is told in that order. May not judge
what the code is worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.spaces.edits import default_form, sequence
from tuner.spaces.passes import PassSpace

__all__ = ["Group", "PassGroups", "Unit"]

Unit = tuple[str, bool]
"""A pass and whether it stands before the base."""

_PROLOGUE = ("sroa", "loop-rotate")
"""What most passes need before they find anything in unoptimised code: values in registers, loops with a test below."""

_SEEN = 12.0
_EVEN = 0.5
_MOST = 16
_ROUNDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Passes tried in one pipeline, and that pipeline."""

    pipeline: str
    names: tuple[str, ...]


class PassGroups:
    """Draws groups, and learns from what became of them.

    Args:
        passes: the pass space.
    """

    def __init__(self, passes: PassSpace) -> None:
        self._passes = passes
        names = [info.name for info in passes.catalogue.usable]
        self._units: list[Unit] = [(name, front) for front in (True, False) for name in names]
        self._idle: set[Unit] = set()
        self._settled: set[Unit] = set()
        self._unchanged = 0
        self._changing: list[int] = []

    def tell(self, pipeline: str, names: Sequence[str], changed: bool | None) -> None:
        """What became of a group.

        Args:
            pipeline: of the group.
            names: its passes.
            changed: whether the code was other than the base's; ``None`` where it failed.
        """
        members = {(name, pipeline.endswith(f",{self._passes.base}")) for name in names}
        self._settled |= members
        if changed:
            self._changing.append(len(members))
        elif changed is not None:
            self._idle |= members
            self._unchanged += len(members)

    @property
    def idle(self) -> frozenset[str]:
        """Passes that changed nothing, neither before the base nor after it."""
        return frozenset(name for name, _ in self._idle if {(name, True), (name, False)} <= self._idle)

    def draw(self, rng: np.random.Generator, banned: frozenset[str]) -> Group | None:
        """A group of passes that were in none; ``None`` when there are no more.

        Those of a group that changed the code are left to the evolution: smaller groups of them mostly give the code of
        the larger one.

        Args:
            rng: source of all randomness.
            banned: passes that may not be used.
        """
        left = [unit for unit in self._units if unit not in self._settled and unit[0] not in banned]
        if not left:
            return None
        front = left[int(rng.integers(len(left)))][1]
        side = [name for name, before in left if before == front]
        size = max(1, min(_MOST, round(math.log(_EVEN) / math.log(1.0 - self._rate()))))
        chosen = [side[i] for i in rng.permutation(len(side))[:size]]
        return Group(pipeline=self._pipeline(chosen, front=front), names=tuple(chosen))

    def _rate(self) -> float:
        """The part of all passes that change the code, by what groups did so far; below 1.

        A group that changed it has as many such passes as is expected of one that has any.
        """
        rate = 1.0 / _SEEN
        for _ in range(_ROUNDS):
            found = sum(size * rate / (1.0 - (1.0 - rate) ** size) for size in self._changing)
            rate = (1.0 + found) / (_SEEN + self._unchanged + sum(self._changing))
        return rate

    def _pipeline(self, names: Sequence[str], *, front: bool) -> str:
        catalogue = self._passes.catalogue
        texts = [default_form(catalogue.passes[name], catalogue) for name in names]
        if not front:
            return f"{self._passes.base},{sequence(texts, catalogue).text}"
        prologue = [default_form(catalogue.passes[n], catalogue) for n in _PROLOGUE if n in catalogue.passes]
        return f"{sequence([*prologue, *texts], catalogue).text},{self._passes.base}"
