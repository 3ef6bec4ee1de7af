"""Many variants of a source before anything is built: every recipe, and what won in other kernels, carried over.

Cheap, so that a model can choose among them. May not judge speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.search.cooking import Attempt, Step, cook
from tuner.search.porting import as_then, port
from tuner.search.recipes import recipes_for
from tuner.spaces.source.edits import Applied, applied, permitted
from tuner.spaces.source.identity import structure_digest
from tuner.spaces.source.regions import Program

__all__ = ["Winner", "offers"]

_DRAWS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """What won in another kernel, as :mod:`tuner.search.porting` keeps it."""

    steps: Sequence[Mapping[str, Any]]
    moves: Sequence[str]


def offers(
    original: Program,
    numerics: str,
    winners: Sequence[Winner],
    rng: np.random.Generator,
    going: Callable[[], bool] = lambda: True,
) -> list[Applied]:
    """Variants that differ in structure, each once; those that there is time to make.

    Args:
        original: the source as given.
        numerics: ``exact``, ``reassociate`` or ``approximate``.
        winners: of other kernels, nearest first; tunables begin with what was best there.
        rng: the only source of chance.
        going: whether there is time left; asked between variants and between the edits of winners.
    """
    found: dict[str, Applied] = {}
    for winner in winners:
        if not going():
            break
        made = port(original, winner.steps, winner.moves, numerics, rng, going)
        if made is not None:
            found.setdefault(structure_digest(made.program), made)
    steps = [step for winner in winners for step in winner.steps]
    start = Attempt(program=original, edits=(), rng=rng, reassociate=numerics != "exact")
    for recipe in recipes_for(original.language, openmp=original.entry.openmp).values():
        for made in _drawn(start, recipe, steps, going):
            if permitted(made.variant.edits, numerics):
                found.setdefault(structure_digest(made.program), made)
    found.pop(structure_digest(original), None)
    return list(found.values())


def _drawn(
    start: Attempt,
    recipe: Sequence[Step],
    steps: Sequence[Mapping[str, Any]],
    going: Callable[[], bool],
) -> list[Applied]:
    """A recipe a few times: its steps and places are partly a matter of chance."""
    begun = [replace(step, refined=as_then(step, steps)) for step in recipe]
    found = []
    for _ in range(_DRAWS):
        made = cook(begun, start) if going() else None
        if made is None:
            # Time is over, or a step that is needed applies nowhere.
            break
        if made.edits:
            found.append(applied(made.program, made.edits))
    return found
