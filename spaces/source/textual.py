"""Edits that are text: a passage of a region replaced, or a whole region written anew.

Somebody wrote them (a person, an LLM), so nothing is claimed of what they compute. What lies outside regions stays as
it is, and a region's text has to be whole: no comment, string or conditional of it may swallow what follows.
May not draw random numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tuner.core.errors import SpecError
from tuner.spaces.parameters import Parameter
from tuner.spaces.source.lexical import damage
from tuner.spaces.source.operators import Refused
from tuner.spaces.source.regions import Program

__all__ = ["TEXTUAL", "apply", "check_parameters", "parameters"]

TEXTUAL = ("text", "rewrite")
"""Kinds of edits that are applied here."""

_MAX_TEXT = 1 << 20
_NEAR_TOKENS = 6


def apply(program: Program, edit: Mapping[str, Any]) -> Program:
    """Applies one edit.

    Raises:
        Refused: it does not apply, with what does not match.
    """
    check_parameters(edit)
    if edit["op"] == "rewrite":
        file, part, made = _rewritten(program, edit)
    else:
        file, part, made = _replaced(program, edit)
    for parameter in parameters(edit):
        if re.search(rf"\b{parameter.name}\b", made) is None:
            raise Refused(f"the tunable {parameter.name} is not used in it")
    made = _with_defaults(program, file, part, made, edit)
    reason = damage(made)
    if reason:
        raise Refused(f"{reason} in the region")
    try:
        return program.with_region(file, part, made)
    except SpecError as error:
        raise Refused(error.message) from None
    except RecursionError:
        raise Refused("it is nested too deeply") from None


def check_parameters(edit: Mapping[str, Any]) -> None:
    """Whether the tunables that an edit adds are whole numbers from 0.

    Raises:
        Refused: they are not.
    """
    try:
        for parameter in parameters(edit):
            if not all(isinstance(v, int) and not isinstance(v, bool) for v in parameter.values):
                raise Refused(f"{parameter.name} has values that are no whole numbers")
            if any(int(v) < 0 for v in parameter.values):
                raise Refused(f"{parameter.name} has negative values")
    except (KeyError, TypeError, SpecError) as error:
        raise Refused(f"its parameters are wrong: {error}") from None


def parameters(edit: Mapping[str, Any]) -> list[Parameter]:
    """The tunables that an edit adds."""
    return [
        Parameter.choice(p["name"], p["values"], default=p["default"]) for p in edit.get("parameters", ())
    ]


def _rewritten(program: Program, edit: Mapping[str, Any]) -> tuple[int, int, str]:
    text, region = edit.get("text"), edit.get("region")
    if not isinstance(text, str) or not text.strip():
        raise Refused("it needs a region's text")
    known = program.regions
    if not isinstance(region, int) or isinstance(region, bool) or not 0 <= region < len(known):
        raise Refused(f"there is no region {region!r}: they count from 0 to {len(known) - 1}")
    _check_text(text)
    file, part = known[region]
    before = program.region_text(file, part)
    tail = before[len(before.rstrip()) :]
    return file, part, text.rstrip() + (tail or "")


def _replaced(program: Program, edit: Mapping[str, Any]) -> tuple[int, int, str]:
    search, text = edit.get("search"), edit.get("replace")
    if not isinstance(search, str) or not isinstance(text, str) or not search.strip():
        raise Refused("it needs the texts to search for and to put in place")
    _check_text(text)
    hits: list[tuple[int, int, int, int]] = []
    for file, part in program.regions:
        body = program.region_text(file, part)
        hits += [(file, part, begin, end) for begin, end in _find(body, search)]
    if not hits:
        raise Refused(f"its search text is not in a region{_nearest(program, search)}")
    if len(hits) > 1:
        raise Refused(f"its search text is there {len(hits)} times")
    file, part, begin, end = hits[0]
    body = program.region_text(file, part)
    return file, part, body[:begin] + text + body[end:]


def _check_text(text: str) -> None:
    if len(text) > _MAX_TEXT:
        raise Refused(f"its text has more than {_MAX_TEXT} characters")
    if "EVOLVE-BLOCK-" in text:
        raise Refused("its text has a region's mark")


def _with_defaults(program: Program, file: int, part: int, text: str, edit: Mapping[str, Any]) -> str:
    """The region's text below what gives its new tunables a value where none is set."""
    guards = "".join(
        f"#ifndef {p['name']}\n#define {p['name']} {p['default']}\n#endif\n"
        for p in edit.get("parameters", ())
    )
    if not guards:
        return text
    before = program.files[file].parts[part - 1]
    # A preprocessor line has to begin a line.
    return ("" if not before or before.endswith("\n") else "\n") + guards + text


def _find(body: str, search: str) -> list[tuple[int, int]]:
    """Where a text stands; where it does not, where it stands but for white space."""
    exact = [(m.start(), m.end()) for m in re.finditer(re.escape(search), body)]
    if exact:
        return exact
    # White space may differ wherever the search text has some, or between tokens of which one is punctuation.
    tokens = _tokens(search)
    pattern = r"\s*".join(re.escape(t) for t in tokens)
    # Where both begin with an indentation, the one found goes with the rest.
    indent = re.compile(r"[ \t]*\Z") if search[:1].isspace() else re.compile(r"\Z")
    return [
        (_start(indent, body, m.start()), m.end())
        for m in re.finditer(pattern, body)
        if _tokens(body[m.start() : m.end()]) == tokens
    ]


def _start(indent: re.Pattern[str], body: str, start: int) -> int:
    line = body.rfind("\n", 0, start) + 1
    found = indent.search(body[line:start])
    return start if found is None else line + found.start()


def _tokens(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def _nearest(program: Program, search: str) -> str:
    """The line of a region that begins as the search text does, for whoever has to correct it."""
    tokens = _tokens(search)
    for count in range(min(_NEAR_TOKENS, len(tokens)), 1, -1):
        for file, part in program.regions:
            body = program.region_text(file, part)
            found = _find(body, " ".join(tokens[:count]))
            if found:
                line = body[body.rfind("\n", 0, found[0][0]) + 1 :].split("\n", 1)[0].strip()
                return f"; the nearest line is: {line[:160]}"
    return ""
