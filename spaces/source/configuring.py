"""The edit ``configure``: regions as the compiler's preprocessor leaves them for values of the kernel's own tunables.

Tunables that a conditional asks for are fixed for the variant from then on; each is a constraint of it. May not draw
random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.errors import SpecError
from tuner.spaces.source.directives import unread
from tuner.spaces.source.heads import with_begins, with_counters
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.regions import Program

__all__ = ["CONFIGURE", "apply", "configuring", "frozen"]

CONFIGURE = "configure"


def apply(program: Program, edit: Mapping[str, Any]) -> Program:
    """Applies one edit: ``{"op": "configure", "values": {name: whole number, …}}``.

    Raises:
        Refused: it does not apply.
    """
    values = _values(edit)
    if program.units is not None:
        raise Refused("the regions are configured already")
    if not program.entry.preprocessed:
        raise Refused("the sources were not preprocessed")
    found = next((p for p in program.entry.preprocessed if p.values == values), None)
    if found is None:
        raise Refused("the sources were not preprocessed for these values")
    made = program.with_preprocessed(found)
    texts = [[file.text.split() for file in one.files] for one in (program, made)]
    changed = bool(values) or texts[0] != texts[1] or any(unread(file.text) for file in program.files)
    for region in made.regions:
        made, counted = _read(made, region, made.region_text(*region))
        changed = changed or counted
    if not changed:
        raise Refused("nothing changes")
    return made


def _read(program: Program, region: tuple[int, int], text: str) -> tuple[Program, bool]:
    """The program with a region's text, loops with counters of their own where all can have them; whether any has."""
    begun = with_begins(text)
    try:
        if begun != text:
            made = program.with_region(*region, begun)
            counted = {label: with_counters(made.functions[label]) for label in made.inside(*region)}
            if all(f is not None for f in counted.values()):
                for label, function in counted.items():
                    if function is not None and function != made.functions[label]:
                        made = made.with_function(label, function)
                return made, True
        return program.with_region(*region, text), False
    except SpecError as error:
        raise Refused(error.message) from None


def configuring(program: Program, values: Mapping[str, int]) -> dict[str, Any] | None:
    """The edit for a candidate's values; ``None`` where the regions are configured already, or cannot be.

    Args:
        program: as given, or with edits.
        values: of all tunables that the compiler is given.
    """
    if program.units is not None:
        return None
    fitting = (dict(p.values) for p in program.entry.preprocessed)
    chosen = next((found for found in fitting if found.items() <= values.items()), None)
    return None if chosen is None else {"op": CONFIGURE, "values": chosen}


def frozen(edits: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The tunables that a list of edits fixes, with their values."""
    return {n: v for e in edits if e.get("op") == CONFIGURE for n, v in e.get("values", {}).items()}


def _values(edit: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    values = edit.get("values")
    if not isinstance(values, Mapping) or not all(
        isinstance(n, str) and n.isidentifier() and isinstance(v, int) and not isinstance(v, bool)
        for n, v in values.items()
    ):
        raise Refused(f"the edit's 'values' is {values!r}")
    return tuple(sorted(values.items()))
