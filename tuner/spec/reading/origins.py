"""What clang's preprocessor prints, without what is the system's, and where each line comes from.

Of C it knows raw strings alone.
Source: https://gcc.gnu.org/onlinedocs/cpp/Preprocessor-Output.html (line markers).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from tuner.core.source_text import lines_of_text
from tuner.spaces.source.lexical import raw_strings

__all__ = ["BUILT_IN", "MARKER", "Run", "own_text", "with_rows"]

MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)')
"""A line that says where the next one is from: its number, the file, flags."""
BUILT_IN = ("<built-in>", "<command line>")
"""Files that are none."""
_ENTERS, _RETURNS, _SYSTEM = "1", "2", "3"

Run = tuple[int, int, int]
"""As in :class:`~tuner.core.types.Preprocessed`."""


def own_text(text: str, names: Mapping[str, int]) -> tuple[str, tuple[Run, ...]]:
    """What the preprocessor printed without the text of system headers and without its marks, and its origins.

    Where it left out lines of a file there are empty ones, so that a passage has as many lines as in the file.

    Args:
        text: as printed, of one source.
        names: numbers of the files that lines may come from, each where it is included first.
    """
    kept: list[str] = []
    places: list[tuple[int, int]] = []
    runs: list[Run] = []
    around: list[tuple[int, int]] = []
    seen: set[int] = set()
    file, line, system = -1, 0, False
    for row in lines_of_text(_as_counted(text)):
        mark = MARKER.match(row)
        if mark is None:
            kept += [] if system else [row]
            places += [] if system else [(file, line)]
            line += 1
            continue
        flags, at = mark[3].split(), int(mark[1]) - 1
        if _ENTERS in flags or not (around or seen):
            around.append((file, len(kept)))
            runs += [(len(kept), -2, 0)] if _SYSTEM in flags and not system else []
            number = names.get(posixpath.normpath(mark[2]), -1)
            file = -1 if number in seen else number
            seen.add(file)
        elif _RETURNS in flags and around:
            file, begin = around.pop()
            places[begin:] = [
                (file, at - 1) if number < 0 else (number, one) for number, one in places[begin:]
            ]
        elif file >= 0 and not system:
            kept += ["\n"] * (at - line)
            places += [(file, one) for one in range(line, at)]
        system = _SYSTEM in flags or mark[2] in BUILT_IN
        line = at
    before = (-1, -2)
    for number, (file, line) in enumerate(places):
        runs += [(number, file, line)] if (file, line - 1) != before else []
        before = file, line
    return "".join(kept), tuple(sorted(runs))


def _as_counted(text: str) -> str:
    """What the preprocessor printed without the empty rows that it puts behind raw strings for the rows in them."""
    at, made, inside = 0, [], 0
    places = [*raw_strings(text)]
    for place, following in zip(places, [*places, range(len(text), len(text))][1:], strict=True):
        inside += text.count("\n", place.start, place.stop)
        begin = text.find("\n", place.stop) + 1
        if not 0 < begin <= following.start:
            # Another one begins in the row where this one ends.
            continue
        stop = begin
        while inside and text[stop : stop + 1] == "\n":
            stop, inside = stop + 1, inside - 1
        made.append(text[at:begin])
        at, inside = stop, 0
    return "".join([*made, text[at:]])


def with_rows(text: str, printed: str) -> str:
    """A text with the rows of what the preprocessor printed of the same otherwise: numbers of lines as they count."""
    rows = [row for row in lines_of_text(own_text(printed, {})[0]) if row.strip()]
    made = lines_of_text(text)
    if len(rows) != sum(bool(row.strip()) for row in made):
        return text
    left = iter(rows)
    return "".join(next(left) if row.strip() else row for row in made)
