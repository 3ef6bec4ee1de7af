"""Which passes change a kernel's code at all, found several at a time.

Most passes find nothing to do in a kernel. So several untried ones go into one pipeline, as many as make new code about
as likely as known code: where the code stays what the base makes, all of them are without effect at that place (group
testing: Dorfman, Annals of Mathematical Statistics 14, 1943). Derived from what it is told in that order. May not judge
what the code is worth.
"""

from __future__ import annotations

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
        self._changing: list[frozenset[Unit]] = []
        self._blamed: set[Unit] = set()
        self._latest: tuple[frozenset[str], dict[Unit, float]] | None = None

    def tell(self, pipeline: str, names: Sequence[str], changed: bool | None) -> None:
        """What became of a group.

        Args:
            pipeline: of the group.
            names: its passes.
            changed: whether the code was other than the base's; ``None`` where it failed.
        """
        self._latest = None
        members = frozenset((name, pipeline.endswith(f",{self._passes.base}")) for name in names)
        if changed is None:
            self._blamed |= members
        elif changed:
            self._changing.append(members)
        else:
            self._idle |= members

    @property
    def idle(self) -> frozenset[str]:
        """Passes that changed nothing, neither before the base nor after it."""
        return frozenset(name for name, _ in self._idle if {(name, True), (name, False)} <= self._idle)

    def draw(self, rng: np.random.Generator, banned: frozenset[str]) -> Group | None:
        """A group of passes of which it is open whether they do anything; ``None`` when all of that is known.

        Args:
            rng: source of all randomness.
            banned: passes that may not be used.
        """
        chances = self._chances(banned)
        # What was never tried comes first; then what changed something in company, in ever smaller company.
        least = min(chances.values(), default=0.0)
        open_units = [unit for unit, chance in chances.items() if chance <= least]
        if not open_units:
            return None
        front = open_units[int(rng.integers(len(open_units)))][1]
        side = [unit for unit in open_units if unit[1] == front]
        chosen: list[str] = []
        quiet = 1.0
        for i in rng.permutation(len(side)):
            if chosen and (quiet * (1.0 - chances[side[i]]) < _EVEN or len(chosen) == _MOST):
                break
            chosen.append(side[i][0])
            quiet *= 1.0 - chances[side[i]]
        return Group(pipeline=self._pipeline(chosen, front=front), names=tuple(chosen))

    def _chances(self, banned: frozenset[str]) -> dict[Unit, float]:
        """For each unit of which it is open: how likely it changes the code."""
        if self._latest is None or self._latest[0] != banned:
            self._latest = banned, self._weighed(banned)
        return self._latest[1]

    def _weighed(self, banned: frozenset[str]) -> dict[Unit, float]:
        left = [group - self._idle for group in self._changing]
        seen = len(self._idle) + sum(map(len, self._changing))
        rate = (len(self._changing) + 1.0) / (seen + _SEEN)
        found = {
            unit: rate
            for unit in self._units
            if unit not in self._idle and unit not in self._blamed and unit[0] not in banned
        }
        for group, members in zip(self._changing, left, strict=True):
            for unit in members & found.keys():
                if len(group) == 1:
                    del found[unit]
                else:
                    found[unit] = max(found[unit], rate / (1.0 - (1.0 - rate) ** len(members)))
        return found

    def _pipeline(self, names: Sequence[str], *, front: bool) -> str:
        catalogue = self._passes.catalogue
        texts = [default_form(catalogue.passes[name], catalogue) for name in names]
        if not front:
            return f"{self._passes.base},{sequence(texts, catalogue).text}"
        prologue = [default_form(catalogue.passes[n], catalogue) for n in _PROLOGUE if n in catalogue.passes]
        return f"{sequence([*prologue, *texts], catalogue).text},{self._passes.base}"
