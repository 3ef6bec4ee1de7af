"""What a model's reply says: edits, regions written anew, tunables. Any text is taken; what is wrong with it is said.

May not look at the program that the edits are for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.core.errors import SpecError
from tuner.core.expressions import RESERVED
from tuner.spaces.parameters import Parameter

__all__ = ["Listed", "Replacement", "Reply", "read_ideas", "read_reply"]

MOST_CHARACTERS = 1 << 18
"""Of a reply; what is longer is no set of edits."""

MOST_EDITS = 32
MOST_TUNABLES = 8
MOST_VALUES = 24
LARGEST_VALUE = 1 << 20

MOST_IDEAS = 8
MOST_IDEA = 2000
"""Characters of an idea that are kept."""

MOST_GAIN = 1e6
MOST_REASON = 300

_ITEM = re.compile(
    r"\s*(?:#+\s*)?\**(?:idea\s+)?\(?\d{1,2}[.):]\**\s+(\S.*)|\s*[-*+•]\s+(\W*\[[^\]]*(?:x|×|times)\s*\].*)",
    re.IGNORECASE,
)
"""With a number, or a bullet before a gain."""

_GAIN = re.compile(r"\W*\[\s*(?:~|about|ca\.?)?\s*(\d+(?:\.\d+)?)\s*(?:x|×|times)\s*\]\s*", re.IGNORECASE)
_DECLINED = re.compile(r"^\W*DECLINED\b\W*(.*)", re.DOTALL | re.MULTILINE)
_BEGIN = re.compile(r"\s*<{4,12}\s*SEARCH\b")
_MIDDLE = re.compile(r"\s*={4,12}\s*$")
_END = re.compile(r"\s*>{4,12}\s*REPLACE\b")
_FENCE = re.compile(r"\s*(?:```+|~~~+)\s*(?P<info>.*?)\s*$")
_REGION = re.compile(r"\bregion\s*[:#]?\s*(\d{1,4})\b", re.IGNORECASE)
_THOUGHT = re.compile(r"<(think|thinking|reasoning)>.*?(</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_TUNABLE = re.compile(
    r"(?P<name>[^\s:=]+)\s*[:=]\s*\[(?P<values>[^\]]*)\]\s*(?:(?:,|;)?\s*(?:=|default\b[:=]?)\s*(?P<default>\S+))?"
)
_NAME = re.compile(r"[A-Z][A-Z0-9_]{1,40}")


@dataclass(frozen=True, slots=True)
class Replacement:
    """One SEARCH/REPLACE block."""

    search: str
    replace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What was understood.

    Attributes:
        replacements: in order.
        rewrites: whole texts by the region's number, from 0.
        parameters: declared tunables as an edit carries them.
        idea: the words before the first edit or block.
        declined: whether the model says that what it was asked for gains nothing.
        problems: what could not be understood, one line each; a reply with any cannot be used.
    """

    replacements: tuple[Replacement, ...] = ()
    rewrites: Mapping[int, str]
    parameters: tuple[Mapping[str, Any], ...] = ()
    idea: str = ""
    declined: bool = False
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """An idea of a list, on one line, and the gain over the source as given that it states; ``None`` without one."""

    text: str
    gain: float | None = None


def read_ideas(text: str) -> tuple[Listed, ...]:
    """The items of a numbered list, each of :data:`MOST_IDEA` characters at most, without code."""
    items: list[list[str]] = []
    fenced = False
    for line in _plain_lines(text[:MOST_CHARACTERS]):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            begun = _ITEM.match(line)
            if begun is not None and (not items or not line.startswith((" ", "\t"))):
                items.append([begun[1] or begun[2]])
            elif items and line.strip():
                items[-1].append(line)
            elif items and items[-1][-1]:
                items[-1].append("")
    # What follows the last item behind an empty line is no part of it.
    found = [" ".join(" ".join(lines).replace("**", "").split()) for lines in map(_first_paragraphs, items)]
    return tuple(_listed(item) for item in found if item)[:MOST_IDEAS]


def _listed(item: str) -> Listed:
    gain = _GAIN.match(item)
    if gain is None or not 0 < float(gain[1]) <= MOST_GAIN or gain.end() == len(item):
        return Listed(_cut(item))
    return Listed(_cut(item[gain.end() :]), float(gain[1]))


def read_reply(text: str, *, regions: int) -> Reply:
    """Reads a reply.

    Args:
        text: of the reply, whatever it is.
        regions: how many the program has.
    """
    if len(text) > MOST_CHARACTERS:
        return Reply(rewrites={}, problems=(f"the reply has more than {MOST_CHARACTERS} characters",))
    found = _Reading(_plain_lines(text))
    found.read()
    problems = list(found.problems)
    rewrites: dict[int, str] = {}
    for info, body in found.fences:
        named = _REGION.search(info)
        if named is None:
            continue
        number = int(named[1]) - 1
        if not 0 <= number < regions:
            problems.append(f"there is no region {number + 1}: they count from 1 to {regions}")
        elif number in rewrites:
            problems.append(f"region {number + 1} is written twice")
        else:
            rewrites[number] = body + "\n"
    parameters: list[Mapping[str, Any]] = []
    for info, body in found.fences:
        if info.lower().split()[:1] == ["tunables"]:
            for line in body.split("\n"):
                _read_tunable(line, parameters, problems)
    if len(parameters) > MOST_TUNABLES:
        problems.append(f"{len(parameters)} tunables are declared; {MOST_TUNABLES} at most")
    if len(found.replacements) > MOST_EDITS:
        problems.append(f"there are {len(found.replacements)} edits; {MOST_EDITS} at most")
    if rewrites and found.replacements:
        problems.append("there are edits and whole regions: give one kind")
    declined = _DECLINED.search("\n".join(found.before))
    if not rewrites and not found.replacements and not problems:
        said = "there is no region and no SEARCH/REPLACE block in it"
        problems.append(
            said if declined is None else f"declined: {' '.join(declined[1].split())[:MOST_REASON]}"
        )
    return Reply(
        replacements=tuple(found.replacements),
        rewrites=rewrites,
        parameters=tuple(parameters),
        idea=_cut(" ".join(" ".join(found.before).split())),
        declined=declined is not None and not rewrites and not found.replacements,
        problems=tuple(problems[:MOST_EDITS]),
    )


def _plain_lines(text: str) -> list[str]:
    """Lines without what a model thought aloud."""
    return _THOUGHT.sub("", text).replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _first_paragraphs(lines: list[str]) -> list[str]:
    """An item's lines up to an empty one that nothing indented follows."""
    kept: list[str] = []
    for number, line in enumerate(lines):
        after = next((other for other in lines[number + 1 :] if other), "")
        if not line and not after.startswith((" ", "\t")):
            break
        kept.append(line)
    return kept


def _cut(text: str) -> str:
    return text if len(text) <= MOST_IDEA else text[: MOST_IDEA - 4] + " ..."


class _Reading:
    """One pass over the lines: blocks and fences, which may hold each other."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self.replacements: list[Replacement] = []
        self.fences: list[tuple[str, str]] = []
        self.problems: list[str] = []
        self.before: list[str] = []

    def read(self) -> None:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            fence = _FENCE.match(line)
            if _BEGIN.match(line):
                self._block()
            elif fence is not None and (_REGION.search(fence["info"]) or self._declares(fence["info"])):
                self._fence(fence["info"])
            else:
                if not self.replacements and not self.fences and fence is None:
                    self.before.append(line)
                self._at += 1

    @staticmethod
    def _declares(info: str) -> bool:
        return info.lower().split()[:1] == ["tunables"]

    def _until(self, mark: re.Pattern[str]) -> list[str] | None:
        """The lines up to one with a mark, which is passed over; ``None`` where there is none."""
        for end in range(self._at, len(self._lines)):
            if mark.match(self._lines[end]):
                taken = self._lines[self._at : end]
                self._at = end + 1
                return taken
            if mark is not _FENCE and _BEGIN.match(self._lines[end]):
                return None
        return None

    def _block(self) -> None:
        number = len(self.replacements) + 1
        self._at += 1
        search = self._until(_MIDDLE)
        replace = None if search is None else self._until(_END)
        if search is None or replace is None:
            wanted = "=======" if search is None else ">>>>>>> REPLACE"
            self.problems.append(f"edit {number} has no line {wanted}: it is cut off or not in the form")
            return
        if not any(line.strip() for line in search):
            self.problems.append(f"edit {number} has an empty SEARCH part: quote lines of a region")
            return
        self.replacements.append(Replacement("\n".join(search), "\n".join(replace)))

    def _fence(self, info: str) -> None:
        self._at += 1
        body = self._until(_FENCE)
        if body is None:
            self.problems.append(f"the block {info[:60]!r} does not end: the reply is cut off")
            self._at = len(self._lines)
            return
        self.fences.append((info, "\n".join(body)))


def _read_tunable(line: str, parameters: list[Mapping[str, Any]], problems: list[str]) -> None:
    text = line.split("#")[0].split("//")[0].strip().lstrip("-* ").rstrip(",;")
    if not text:
        return
    found = _TUNABLE.fullmatch(text)
    if found is None:
        problems.append(f"the tunable {text[:80]!r} is not in the form NAME: [1, 2, 4] = 2")
        return
    name = found["name"].strip("`'\"")
    if not _NAME.fullmatch(name) or name in RESERVED:
        problems.append(f"{name[:40]!r} is no name for a tunable: capitals, digits and _, from 2 characters")
        return
    if any(p["name"] == name for p in parameters):
        problems.append(f"the tunable {name} is declared twice")
        return
    try:
        values = [int(v) for v in found["values"].replace(",", " ").split()]
        default = values[0] if found["default"] is None else int(found["default"])
    except (ValueError, IndexError):
        problems.append(f"the values of {name} are not whole numbers")
        return
    values = sorted(set(values))
    if len(values) > MOST_VALUES or values[0] < 0 or values[-1] > LARGEST_VALUE:
        problems.append(f"{name} may have {MOST_VALUES} values from 0 to {LARGEST_VALUE} at most")
        return
    try:
        Parameter.choice(name, values, default=default)
    except SpecError as error:
        problems.append(str(error)[:200])
        return
    parameters.append({"name": name, "values": values, "default": default})
