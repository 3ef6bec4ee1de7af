"""Edits that made one kernel fast, carried over to another one.

Names and numbers of loops mean nothing elsewhere. Where recipes made the edits, they are followed again, with the steps
that were taken then. Other edits are kept with the roles of their places, and edits of one operator in a row are one
stage: it happens wherever a place has a role like one of the stage's. Either way tunables begin with what was best at
the place with the likest role. May not judge speed: what comes of it is a variant to be tried, no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from tuner.core.types import Configuration, Value
from tuner.search.cooking import Attempt, Place, Refine, Step, cook, edit_at, places
from tuner.search.recipes import recipes_for
from tuner.spaces.source.edits import Applied, Edit, applied, apply_edit, permitted
from tuner.spaces.source.identity import structure_digest
from tuner.spaces.source.operators import OPERATORS, Refused
from tuner.spaces.source.regions import Program
from tuner.spaces.source.roles import apart, role
from tuner.spaces.source.syntax import Function

__all__ = ["as_then", "port", "stages_of"]

_ALIKE = 0.5
"""Roles farther apart have too little in common."""

_AS_LIKE = 0.05
"""Roles that are farther by no more than this are as like as the likest."""

_MOST = 16
_TRIED = 24
_REST = 1.0
_PROMISES = ("restrict", "const", "align", "read_only_loads")
"""Operators that say something and change no loop: alone they are nobody's advice."""


def stages_of(original: Program, edits: Sequence[Edit], best: Configuration) -> list[dict[str, Any]]:
    """Edits as they can be kept for other kernels, plain JSON; empty where one is no operator's or does not apply.

    Args:
        original: the sources that they begin with.
        edits: in order.
        best: the configuration that was fastest with them.
    """
    steps, program = [], original
    for edit in edits:
        operator, label = str(edit.get("op")), str(edit.get("function"))
        if operator not in OPERATORS or label not in program.functions:
            return []
        found = role(program.functions[label], edit)
        found["rest"] = _rest(program, operator, edit)
        sizes = [
            {"values": list(p["values"]), "best": best.get(p["name"], p["default"])}
            for p in edit.get("parameters", ())
        ]
        reassociate = edit.get("reassociate") is True
        steps.append({"op": operator, "role": found, "sizes": sizes, "reassociate": reassociate})
        try:
            program = apply_edit(program, edit)
        except Refused:
            # What is refused is nobody's advice.
            return []
    return steps


def port(
    original: Program,
    steps: Sequence[Mapping[str, Any]],
    moves: Sequence[str],
    numerics: str,
    rng: np.random.Generator,
    going: Callable[[], bool] = lambda: True,
) -> Applied | None:
    """Another kernel's edits in this one; ``None`` where nothing but promises is left of them, or time is over.

    Args:
        original: this kernel's sources as given.
        steps: as :func:`stages_of` keeps them.
        moves: origins of the other kernel's variant and of those before it, oldest first.
        numerics: ``exact``, ``reassociate`` or ``approximate``.
        rng: the only source of chance.
        going: whether there is time left; asked before each recipe and each edit.
    """
    start = Attempt(program=original, edits=(), rng=rng, reassociate=numerics != "exact")
    known = recipes_for(original.language, openmp=original.entry.openmp)
    named = [m.removeprefix("recipe/") for m in moves]
    named = [n for n in named if n in known]
    made = _followed(start, [known[n] for n in named], steps, going)
    if made is None or not _says(start, made, numerics):
        made = _restaged(start, steps, numerics, going)
    if made is None or not _says(start, made, numerics):
        return None
    return applied(made.program, made.edits)


def _says(start: Attempt, made: Attempt, numerics: str) -> bool:
    """Whether edits are allowed, change the program, and are more than promises."""
    changed = structure_digest(made.program) != structure_digest(start.program)
    return (
        changed and permitted(made.edits, numerics) and any(e.get("op") not in _PROMISES for e in made.edits)
    )


def _followed(
    attempt: Attempt,
    recipes: Sequence[Sequence[Step]],
    steps: Sequence[Mapping[str, Any]],
    going: Callable[[], bool],
) -> Attempt | None:
    """Recipes in order, with the operators that were used then; ``None`` where the last does not apply in time."""
    used = {step["op"] for step in steps}
    found = None
    for recipe in recipes:
        found = None
        if not going():
            break
        chosen = [
            replace(step, chance=1.0, refined=as_then(step, steps))
            for step in recipe
            if step.needed or used.intersection(step.operators)
        ]
        made = cook(chosen, attempt)
        if made is not None and made.edits:
            found = attempt = made
    return found


def as_then(step: Step, steps: Sequence[Mapping[str, Any]]) -> Refine:
    """A step's own refinement, then tunables that begin with what was best at the likest place."""

    def refined(function: Function, site: Mapping[str, Any]) -> Mapping[str, Any]:
        made = step.refined(function, site)
        count = len(made.get("parameters", ()))
        like = [s for s in steps if count and s["op"] in step.operators and len(s["sizes"]) == count]
        if not like:
            return made
        own = role(function, made)
        distances = [apart(own, s["role"]) for s in like]
        near = [s for s, d in zip(like, distances, strict=True) if d <= min(distances) + _AS_LIKE]
        return {**made, "parameters": [_agreed(p, n, near) for n, p in enumerate(made["parameters"])]}

    return refined


def _agreed(parameter: Mapping[str, Any], number: int, steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A tunable that begins with the median of what was best elsewhere and of its own default.

    What a winner has where it matters little is chance, so that no single one is followed.
    """
    values, default = list(parameter["values"]), parameter["default"]
    found = [s["sizes"][number]["best"] for s in steps]
    places = sorted(values.index(v) for v in (*found, default) if v in values)
    return {**parameter, "default": values[places[len(places) // 2]]} if places else dict(parameter)


def _restaged(
    attempt: Attempt, steps: Sequence[Mapping[str, Any]], numerics: str, going: Callable[[], bool]
) -> Attempt | None:
    """Stage by stage by roles; ``None`` where less than half of the stages find a place in time."""
    program, edits = attempt.program, list[Edit]()
    carried = stages = 0
    for operator, group in groupby(steps, key=lambda step: step["op"]):
        if operator not in OPERATORS:
            continue
        program, added = _staged(program, operator, list(group), numerics, going)
        edits += added
        stages += operator not in _PROMISES
        carried += bool(added) and operator not in _PROMISES
    return replace(attempt, program=program, edits=tuple(edits)) if 2 * carried >= max(1, stages) else None


def _staged(
    program: Program,
    operator: str,
    stage: Sequence[Mapping[str, Any]],
    numerics: str,
    going: Callable[[], bool],
) -> tuple[Program, list[Edit]]:
    """One operator wherever a place has a role like one of the stage's."""
    edits, used = list[Edit](), set[str]()
    while len(edits) < _MOST and going():
        before = len(edits)
        for _, place, step in _ranked(program, operator, stage, used)[:_TRIED]:
            if not going():
                break
            site = _sized(place.site, step)
            edit = edit_at(program, operator, place.function, site)
            if not permitted([edit], numerics):
                continue
            try:
                program = apply_edit(program, edit)
            except Refused:
                continue
            used.add(_name(place))
            edits.append(edit)
            break
        if len(edits) == before:
            break
    return program, edits


def _ranked(
    program: Program, operator: str, stage: Sequence[Mapping[str, Any]], used: set[str]
) -> list[tuple[float, Place, Mapping[str, Any]]]:
    """Places for an operator with how far their roles are from the nearest step's, nearest first."""
    reassociate = any(step["reassociate"] for step in stage)
    found = []
    for place in places(program, operator, reassociate=reassociate):
        name = _name(place)
        if name and name in used:
            # Back and forth.
            continue
        own = role(program.functions[place.function], place.site)
        distances = [
            apart(own, step["role"]) + _REST * (place.rest != step["role"]["rest"]) for step in stage
        ]
        least = min(range(len(stage)), key=distances.__getitem__)
        if distances[least] <= _ALIKE:
            found.append((distances[least], place, stage[least]))
    return sorted(found, key=lambda one: one[0])


def _name(place: Place) -> str:
    """A place by its loops, however they are ordered; statements are told apart by nothing, so they may come back."""
    loops = place.site.get("loops")
    return f"{place.function} {sorted(loops)}" if loops else ""


def _rest(program: Program, operator: str, edit: Edit) -> bool:
    """Whether an edit is at a loop over what whole blocks leave over."""
    keys = {edit.get("loop"), *edit.get("loops", ())} - {None}
    return any(
        place.rest and keys == {place.site.get("loop"), *place.site.get("loops", ())} - {None}
        for place in places(program, operator, reassociate=edit.get("reassociate") is True)
        if place.function == edit.get("function")
    )


def _sized(site: Mapping[str, Any], step: Mapping[str, Any]) -> dict[str, Any]:
    """A site whose tunables have the choice that they had elsewhere, and begin with what was best there."""
    own, sizes = list(site.get("parameters", ())), step["sizes"]
    if not own or len(own) != len(sizes):
        return dict(site)
    return {**site, "parameters": [_begun(p, s) for p, s in zip(own, sizes, strict=True)]}


def _begun(parameter: Mapping[str, Any], size: Mapping[str, Any]) -> dict[str, Any]:
    values: list[Value] = list(size["values"])
    if size["best"] in values:
        return {**parameter, "values": values, "default": size["best"]}
    return dict(parameter)
