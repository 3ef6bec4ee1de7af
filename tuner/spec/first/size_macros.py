"""Macros of a source that are sizes, as sizes of the problem: the numbers of a first spec that follow from them.

The kernel is read again with other values, and what changes in the spec is written by the macros' names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tuner.core.errors import BaselineError, UsageError
from tuner.core.types import Source
from tuner.spec.first.members import FirstSpec, Line, sizes_note
from tuner.spec.reading.macros import directives, macros_of, names_used, of_problem, of_tuning

__all__ = ["size_macros", "with_size_macros"]

Read = Callable[[Mapping[str, int]], FirstSpec]
"""Reads the kernel with values of macros, which the spec then has among its flags."""

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_COMMENTED = re.compile(r"(.*?\S)\s{2,}# (.*)")
_PROBLEM = re.compile(r" *(?:problems?|# problems): ")
_MOST = 4
"""Macros that are looked at: each takes two more readings."""


def size_macros(files: Sequence[Source], flags: Sequence[str]) -> dict[str, int]:
    """The macros that a source uses and a build can give another value, which may be sizes, with the build's value.

    Args:
        files: the source first, then headers.
        flags: of the build.
    """
    used = names_used("\n".join([files[0].text, *(directives(file.text) for file in files[1:])]))
    text = "\n".join(file.text for file in files)
    given = dict(flag[2:].partition("=")[::2] for flag in flags if flag.startswith("-D"))
    found = {
        name: value for name, value in macros_of(text).guarded.items() if name in used and not of_tuning(name)
    }
    known = {name: given.get(name, str(value)) for name, value in found.items()}
    sizes = {name: int(value) for name, value in known.items() if value.isdigit() and int(value) > 1}
    return dict(sorted(sizes.items(), key=lambda pair: not of_problem(pair[0]))[:_MOST])


def with_size_macros(first: FirstSpec, own: Mapping[str, int], read: Read) -> FirstSpec:
    """The first spec with the problem's sizes in place of what follows from macros; as it is where that is not all.

    Args:
        first: as it was read.
        own: macros with values.
        read: reads it again.
    """
    if not own:
        return first
    try:
        # One reading tells of most sources that no array is as long as a macro.
        if _arguments(read({name: 2 * value for name, value in own.items()}).text) == _arguments(first.text):
            return first
        base = read(own)
        asked = {
            name: [read({**own, name: factor * value}) for factor in (2, 3)] for name, value in own.items()
        }
    except (BaselineError, UsageError):
        return first

    def at(scale: float, call_s: float | None) -> tuple[str, set[str]] | None:
        def text(spec: FirstSpec) -> str:
            return spec.text if spec.at_scale is None else spec.at_scale(scale, call_s)

        return _named(text(base), own, {name: [*map(text, specs)] for name, specs in asked.items()})

    found = at(1, None)
    if found is None:
        # What arrays are as long as is not to be tuned, in whatever way.
        others = (spec.text for specs in asked.values() for spec in specs)
        shaped = any(_arguments(text) != _arguments(base.text) for text in others)
        return base if shaped and any(not of_problem(name) for name in own) else first
    whole, changed = found
    if changed != own.keys():
        return with_size_macros(first, {name: own[name] for name in own if name in changed}, read)

    def at_scale(scale: float, call_s: float | None) -> str:
        made = at(scale, call_s)
        return whole if made is None else made[0]

    return FirstSpec(text=whole, beside=base.beside, at_scale=at_scale if base.at_scale is not None else None)


def _named(
    base: str, own: Mapping[str, int], others: Mapping[str, Sequence[str]]
) -> tuple[str, set[str]] | None:
    """A spec with names for the numbers that change with macros, and which do; nothing where one changes otherwise."""
    lines, changed = [], set[str]()
    rows = {name: [text.splitlines() for text in texts] for name, texts in others.items()}
    if any(len(each) != len(base.splitlines()) for texts in rows.values() for each in texts):
        return None
    for number, line in enumerate(base.splitlines()):
        found = _named_line(
            line, own, {name: [each[number] for each in texts] for name, texts in rows.items()}
        )
        if found is None:
            return None
        made, names = found
        changed |= names if "-D" not in line else set()
        lines.append(made)
    sizes = ", ".join(f"{name}: {value}" for name, value in own.items())
    at = next(i for i, line in enumerate(lines) if line.startswith(("problem: {", "arguments:")))
    if lines[at].startswith("problem"):
        lines[at] = lines[at].replace("{", f"{{{sizes}, ", 1)
    else:
        lines.insert(at, Line(f"problem: {{{sizes}}}", sizes_note(None, own=True)).layout().rstrip("\n"))
    return "\n".join(lines) + "\n", changed


def _arguments(text: str) -> str:
    return text.partition("arguments:")[2].partition("space:")[0]


def _named_line(
    line: str, own: Mapping[str, int], others: Mapping[str, Sequence[str]]
) -> tuple[str, set[str]] | None:
    """A line with names, and which ones."""
    commented = _COMMENTED.fullmatch(line)
    code = commented[1] if commented else line
    skeleton, numbers = _NUMBER.split(code), [int(n) for n in _NUMBER.findall(code)]
    values: dict[str, list[list[int]]] = {}
    for name, texts in others.items():
        if texts == [line, line]:
            continue
        parts = [_COMMENTED.fullmatch(text) for text in texts]
        codes = [part[1] if part else text for part, text in zip(parts, texts, strict=True)]
        same = all(_NUMBER.split(other) == skeleton for other in codes)
        if not same or [p[2] if p else "" for p in parts] != [commented[2] if commented else ""] * 2:
            return None
        values[name] = [[int(n) for n in _NUMBER.findall(other)] for other in codes]
    if not values:
        return line, set()
    made, names = skeleton[0], set[str]()
    for at, number in enumerate(numbers):
        moved = {n: (two[at], three[at]) for n, (two, three) in values.items() if two[at] != number}
        formula = _formula(number, {n: own[n] for n in moved}, moved) if moved else str(number)
        if formula is None or (moved and _PROBLEM.match(line)):
            return None
        names |= moved.keys()
        made += (f"{{{formula}}}" if moved and "-D" in line else formula) + skeleton[at + 1]
    return (Line(made, commented[2]).layout().rstrip("\n") if commented else made), names


def _formula(number: int, own: Mapping[str, int], moved: Mapping[str, tuple[int, int]]) -> str | None:
    """A number by sizes, from what it is with twice and three times each; ``None`` where it is no such product or sum.

    >>> _formula(202, {"N": 200}, {"N": (402, 602)}), _formula(40000, {"N": 200}, {"N": (160000, 360000)})
    ('N + 2', 'N * N')
    """
    if len(own) == 1:
        ((name, value),) = own.items()
        two, three = moved[name]
        slope, rest = divmod(two - number, value)
        if rest == 0 and three - two == two - number:
            factor = name if slope == 1 else f"{slope} * {name}"
            constant = number - slope * value
            return factor if constant == 0 else f"{factor} {'+' if constant > 0 else '-'} {abs(constant)}"
        if (two, three) != (4 * number, 9 * number):
            return None
        own = {name: value, f" {name}": value}
    elif any(each != (2 * number, 3 * number) for each in moved.values()):
        return None
    product = 1
    for value in own.values():
        product *= value
    if number % product:
        return None
    factors = [*([] if number == product else [str(number // product)]), *(name.strip() for name in own)]
    return " * ".join(factors)
