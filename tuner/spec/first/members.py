"""First specs as text: lines, values in YAML, structures with the lines of members below what they are members of."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuner.spec.reading.flattening import Flat, Member, Structure

__all__ = ["EVOLVES", "FirstSpec", "Line", "command_text", "grouped", "kernel_parts", "quoted", "sizes_note"]

_PLAIN_COMMAND = re.compile(r"[A-Za-z/][\w./+=,@%-]*(?: [\w./+=,-][\w./+=,@%-]*)*")
_ENTRY = re.compile(r"  - \{name: \w+, ")


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSpec:
    """A first spec.

    Attributes:
        text: of the spec.
        beside: texts by the names of further files that it needs beside it.
        at_scale: the text with larger or smaller sizes, by what to multiply them with and the seconds that a call took
            then; ``None`` where no sizes are guessed.
    """

    text: str
    beside: Mapping[str, str] = field(default_factory=dict)
    at_scale: Callable[[float, float | None], str] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a spec, and what is said beside it."""

    text: str
    comment: str = ""

    def layout(self) -> str:
        """As it is written."""
        if not self.comment:
            return self.text + "\n"
        return f"{self.text}{' ' * max(2, 40 - len(self.text))}# {self.comment}\n"


EVOLVES = Line("  source: {evolve: true}", "loops are transformed too; results stay as they are")
"""In every first spec."""

Within = dict[str, Any]
"""A structure as what lies in it, in the order of its first use: lines and structures."""


def grouped(flat: Flat, lines: Sequence[Line]) -> list[Line]:
    """The lines of arguments, one for each parameter, with members inside their structures."""
    top: Within = {}
    for line, (name, _) in zip(lines, flat.function.parameters, strict=True):
        member = flat.members.get(name)
        trail = (name,) if member is None else member.trail
        at = top
        for part in trail[:-1]:
            at = at.setdefault(part, {})
        at[trail[-1]] = line if member is None else _as_member(line, member)
    return _written(flat, top, (), "")


def _as_member(line: Line, member: Member) -> Line:
    own = f"  - {{name: {member.trail[-1]}, "
    text = _ENTRY.sub(own, line.text)
    if member.extents:
        text = text.removesuffix("}") + ", by: value}"
    elif member.written and "value:" in text:
        role = Line(text.removesuffix("}") + ", role: inout}", line.comment)
        note = "check: output if it is written before it is read"
        return replace(role, comment="; ".join(part for part in (line.comment, note) if part))
    return replace(line, text=text)


def _written(flat: Flat, within: Within, trail: tuple[str, ...], indent: str) -> list[Line]:
    made = []
    for name, inner in within.items():
        if isinstance(inner, Line):
            made.append(replace(inner, text=indent + inner.text))
            continue
        below = (*trail, name)
        structure = flat.structures.get(below, Structure())
        lost = "check: it is passed on to a function that is not known here" if below in flat.lost else ""
        made.append(Line(f"{indent}  - name: {name}", lost))
        if structure.type:
            made.append(Line(f"{indent}    struct: {structure.type}"))
        if structure.by_value:
            made.append(Line(f"{indent}    by: value"))
        made.append(
            Line(f"{indent}    members:", "" if trail else "those that the function uses; others are zero")
        )
        made += _written(flat, inner, below, indent + "    ")
    return made


def kernel_parts(include: Sequence[str], sources: Sequence[str]) -> str:
    """Folders and files beside the source, in YAML."""
    named = (("sources", sources), ("include", include))
    return "".join(f", {key}: [{', '.join(map(quoted, values))}]" for key, values in named if values)


def quoted(name: str, *, always: bool = False) -> str:
    """A name or path in YAML."""
    plain = name.replace(".", "").replace("-", "").replace("_", "").replace("/", "").isalnum()
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return name if plain and not name[0].isdigit() and not always else f'"{quoted}"'


def command_text(words: Sequence[str]) -> str:
    """A command in YAML."""
    text = shlex.join(words)
    return text if _PLAIN_COMMAND.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def sizes_note(call_s: float | None, *, own: bool = False) -> str:
    """What is said of a problem's sizes: whether they are the source's ``own``, or what a call was timed to take."""
    if own:
        said = "these are the source's own"
    elif call_s is not None:
        said = f"a call takes {call_s * 1e3:.1f} ms here"
    else:
        said = "a call of 1 ms or more"
    return f"check: sizes as in your application; {said}"
