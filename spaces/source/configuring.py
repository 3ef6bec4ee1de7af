"""The edit ``configure``: regions as the compiler sees them for given values of the kernel's own tunables.

What is under ``#if`` and behind macros is plain text for every operator afterwards. The tunables that decided are fixed
for the variant from then on; each is a constraint of it. May not draw random numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.core.errors import SpecError
from tuner.spaces.source.conditionals import configured, deciding, known_names
from tuner.spaces.source.heads import with_begins, with_counters
from tuner.spaces.source.included import includes_own
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.lexical import damage
from tuner.spaces.source.memo import kept_by_identity
from tuner.spaces.source.regions import Program
from tuner.spaces.source.syntax import Settled

__all__ = ["CONFIGURE", "apply", "configuring", "frozen"]

CONFIGURE = "configure"


def apply(program: Program, edit: Mapping[str, Any]) -> Program:
    """Applies one edit: ``{"op": "configure", "values": {name: whole number, …}}``.

    With ``"headers": true`` what the project's own headers define is known, too.

    Raises:
        Refused: it does not apply.
    """
    settled, headers = _settled(edit), _with_headers(edit)
    if program.settled is not None:
        raise Refused("the regions are configured already")
    if program.entry.preprocessed:
        return _preprocessed(program, settled)
    if headers:
        program.require_headers()
    made, changed = program, headers
    for file, part in program.regions:
        text = _configured(made, file, part, dict(settled), headers=headers)
        reason = damage(text)
        if reason:
            raise Refused(f"{reason} in the region")
        before = made.parts(file)[part]
        made, counted = _read(made, (file, part), text, settled, headers=headers)
        changed = changed or counted or text != before
    if not changed and not settled:
        raise Refused("nothing changes")
    return made


def _preprocessed(program: Program, settled: Settled) -> Program:
    """The program as the compiler's preprocessor leaves it for some values."""
    found = next((p for p in program.entry.preprocessed if p.values == settled), None)
    if found is None:
        raise Refused("the sources were not preprocessed for these values")
    made = program.with_preprocessed(found)
    changed = bool(settled) or any(includes_own(file.text) for file in program.files)
    for region in made.regions:
        text = made.region_text(*region)
        made, counted = _read(made, region, text, settled, headers=True)
        changed = changed or counted or text.split() != program.region_text(*region).split()
    if not changed:
        raise Refused("nothing changes")
    return made


def _configured(program: Program, file: int, part: int, values: dict[str, int], *, headers: bool) -> str:
    if not headers:
        others = (
            *(f.text for n, f in enumerate(program.files) if n != file),
            *(h.text for h in program.entry.headers),
        )
        for name in values:
            if any(re.search(rf"^[ \t]*#[ \t]*undef[ \t]+{name}\b", other, re.MULTILINE) for other in others):
                raise Refused(f"another file takes back {name}")
    parts = program.parts(file)
    before, text, rest = "".join(parts[:part]), parts[part], "".join(parts[part + 1 :])
    if not headers:
        return configured("".join(parts), len(before), len(before) + len(text), values)
    if includes_own(text):
        raise Refused("a region includes a header")
    seen = program.unit(file, before)
    known = known_names(program.language)
    return configured(seen + text + rest, len(seen), len(seen) + len(text), values, known=known)


def _read(
    program: Program, region: tuple[int, int], text: str, settled: Settled, *, headers: bool
) -> tuple[Program, bool]:
    """The program with a region's text, loops with counters of their own where all can have them; whether any has."""
    begun = with_begins(text)
    try:
        if begun != text:
            made = program.with_region(*region, begun, settled, with_headers=headers)
            counted = {label: with_counters(made.functions[label]) for label in made.inside(*region)}
            if all(f is not None for f in counted.values()):
                for label, function in counted.items():
                    if function is not None and function != made.functions[label]:
                        made = made.with_function(label, function)
                return made, True
        return program.with_region(*region, text, settled, with_headers=headers), False
    except SpecError as error:
        raise Refused(error.message) from None


def configuring(
    program: Program, values: Mapping[str, int], *, headers: bool = False
) -> dict[str, Any] | None:
    """The edit for a candidate's values; ``None`` where the regions are configured already.

    Args:
        program: as given, or with edits.
        values: of all tunables that the compiler is given.
        headers: whether to configure with the project's headers where the program has any.
    """
    if program.settled is not None:
        return None
    if program.entry.preprocessed:
        fitting = (dict(p.values) for p in program.entry.preprocessed)
        chosen = next((found for found in fitting if found.items() <= values.items()), None)
        return None if chosen is None else {"op": CONFIGURE, "values": chosen}
    headers = headers and _brings_headers(program)
    asked = sorted((_asked_with_headers(program) if headers else _asked(program)) & values.keys())
    edit: dict[str, Any] = {"op": CONFIGURE, "values": {name: values[name] for name in asked}}
    return {**edit, "headers": True} if headers else edit


@kept_by_identity(1024)
def _brings_headers(program: Program) -> bool:
    try:
        program.require_headers()
    except Refused:
        return False
    return True


@kept_by_identity(1024)
def _asked(program: Program) -> frozenset[str]:
    """The names that conditionals of a program ask for."""
    return frozenset(n for file in range(len(program.files)) for n in deciding("".join(program.parts(file))))


@kept_by_identity(1024)
def _asked_with_headers(program: Program) -> frozenset[str]:
    """Likewise, with those of headers in other folders."""
    return _asked(program) | {n for header in program.entry.headers for n in deciding(header.text)}


def frozen(edits: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The tunables that a list of edits fixes, with their values."""
    return {n: v for e in edits if e.get("op") == CONFIGURE for n, v in e.get("values", {}).items()}


def _with_headers(edit: Mapping[str, Any]) -> bool:
    headers = edit.get("headers", False)
    if not isinstance(headers, bool):
        raise Refused(f"the edit's 'headers' is {headers!r}")
    return headers


def _settled(edit: Mapping[str, Any]) -> Settled:
    values = edit.get("values")
    if not isinstance(values, Mapping) or not all(
        isinstance(n, str) and n.isidentifier() and isinstance(v, int) and not isinstance(v, bool)
        for n, v in values.items()
    ):
        raise Refused(f"the edit's 'values' is {values!r}")
    return tuple(sorted(values.items()))
