"""How a recipe is carried out: step by step, each at a random place where it applies.

A step that does not apply anywhere is left out. May not judge speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.spaces.source.edits import Edit, apply_edit, assumptions, names_elsewhere, renamed
from tuner.spaces.source.memo import Kept
from tuner.spaces.source.operators import OPERATORS, Refused
from tuner.spaces.source.operators.base import Operator
from tuner.spaces.source.operators.loop_pragmas import is_fully_unrolled
from tuner.spaces.source.regions import Program
from tuner.spaces.source.syntax import Binary, For, Function, Ternary
from tuner.spaces.source.walks import offered, statements

__all__ = [
    "Attempt",
    "Filter",
    "Place",
    "Refine",
    "Step",
    "cook",
    "edit_at",
    "places",
    "sites_of",
    "try_operator",
]

_SITES_TRIED = 12
_REPEATS = 6
_MOST_LOOPS = 80


_SITES: Kept[tuple[Function, tuple[dict[str, Any], ...]]] = Kept(4096)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A program on its way.

    Attributes:
        program: as it is now.
        edits: that were added.
        rng: the only source of chance.
        reassociate: whether floating-point sums may be added up in another order.
        past: programs that it has been, which no edit may lead back to.
    """

    program: Program
    edits: tuple[Edit, ...]
    rng: np.random.Generator
    reassociate: bool
    past: tuple[Program, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an operator may be tried.

    Attributes:
        function: its label.
        site: the operator's arguments.
        rest: whether it is at a loop over what whole blocks leave over.
    """

    function: str
    site: dict[str, Any]
    rest: bool


Filter = Callable[[Function, Mapping[str, Any]], bool]

Refine = Callable[[Function, Mapping[str, Any]], Mapping[str, Any]]
"""What a step makes of an operator's site: other sizes, constraints on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a recipe.

    Attributes:
        operators: the first that applies is used.
        wanted: which of its sites.
        everywhere: repeat until it applies nowhere, else once.
        most: repetitions at most.
        chance: of being tried at all.
        needed: whether the recipe is nothing without it.
        rests: whether it is for loops over what whole blocks leave over.
        refined: what it makes of a site.
    """

    operators: tuple[str, ...]
    wanted: Filter = lambda function, site: True
    everywhere: bool = False
    most: int = _REPEATS
    chance: float = 1.0
    needed: bool = False
    rests: bool = False
    refined: Refine = lambda function, site: site


def try_operator(
    attempt: Attempt,
    name: str,
    wanted: Filter | None = None,
    *,
    rests: bool = False,
    refined: Refine | None = None,
) -> Attempt | None:
    """One operator at a random place where it applies; ``None`` where it applies nowhere.

    Args:
        attempt: so far.
        name: of the operator.
        wanted: which sites.
        rests: at loops over what whole blocks leave over, where nothing else is done otherwise.
        refined: what to make of the site.
    """
    found = [
        (place.function, place.site)
        for place in places(attempt.program, name, reassociate=attempt.reassociate)
        if place.rest == rests
        and (wanted is None or wanted(attempt.program.functions[place.function], place.site))
    ]
    for at in attempt.rng.permutation(len(found))[:_SITES_TRIED]:
        label, site = found[int(at)]
        if refined is not None:
            site = dict(refined(attempt.program.functions[label], site))
        edit = edit_at(attempt.program, name, label, site)
        try:
            program = apply_edit(attempt.program, edit)
        except Refused:
            continue
        if any(program.functions == former.functions for former in attempt.past):
            continue
        past = (*attempt.past, attempt.program)
        return replace(attempt, program=program, edits=(*attempt.edits, edit), past=past)
    return None


def places(program: Program, name: str, *, reassociate: bool) -> Iterator[Place]:
    """Where an operator may be tried, without a promise that it applies; none in functions of very many loops.

    Args:
        program: as it is now.
        name: of the operator.
        reassociate: whether floating-point sums may be added up in another order.
    """
    operator = OPERATORS[name]
    if program.language not in operator.languages:
        return
    for label, function in program.functions.items():
        if sum(isinstance(n, For) for n in offered(function.body)) > _MOST_LOOPS:
            continue
        over = _keys_within(function, is_fully_unrolled)
        left = _keys_within(function, _is_rest)
        for site in sites_of(operator, function, reassociate):
            keys = {site.get("loop"), *site.get("loops", ())}
            if keys.isdisjoint(over):
                yield Place(function=label, site=site, rest=not keys.isdisjoint(left))


def edit_at(program: Program, name: str, label: str, site: Mapping[str, Any]) -> Edit:
    """An operator's edit at a site: with tunables whose names are free, and what it assumes."""
    edit: dict[str, Any] = {"op": name, "function": label, **site}
    edit = dict(renamed(edit, names_elsewhere(program, label)))
    assumed = assumptions(program, edit)
    if assumed:
        edit["assumes"] = assumed
    return edit


def sites_of(operator: Operator, function: Function, reassociate: bool) -> tuple[dict[str, Any], ...]:
    """Arguments worth trying; kept, because the same function is asked about again and again."""
    key = (operator.name, id(function), reassociate)
    found = _SITES.get(key)
    if found is None:
        found = (function, tuple(operator.sites(function, reassociate)))
        _SITES.put(key, found)
    return found[1]


def cook(steps: Sequence[Step], attempt: Attempt) -> Attempt | None:
    """A recipe from its first step to its last; ``None`` where a step that it needs applies nowhere."""
    for step in steps:
        if step.chance < 1.0 and attempt.rng.random() >= step.chance:
            continue
        for number in range(step.most if step.everywhere else 1):
            made = None
            for name in step.operators:
                made = try_operator(attempt, name, step.wanted, rests=step.rests, refined=step.refined)
                if made is not None:
                    break
            if made is None:
                if step.needed and not number:
                    return None
                break
            attempt = made
    return attempt


def _keys_within(function: Function, chosen: Callable[[For], bool]) -> set[str]:
    """Of the loops that are chosen, and of those inside them."""
    loops = [n for n in statements(function.body) if isinstance(n, For) and chosen(n)]
    return {n.key for loop in loops for n in statements((loop,)) if isinstance(n, For)}


def _is_rest(loop: For) -> bool:
    """Whether it is over what whole blocks leave over."""
    start = loop.start.then if isinstance(loop.start, Ternary) else loop.start
    return isinstance(start, Binary) and isinstance(start.right, Binary) and start.right.op == "%"
