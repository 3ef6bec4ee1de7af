"""Whether two runs of an application printed the same, but for what differs by itself, such as times and dates.

A line whose numbers are not the same in two runs of an unchanged application becomes a pattern with ``*`` in their
places: the rest of that line is compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

__all__ = ["compared_lines", "difference", "is_left_out", "of_file", "varying"]

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_SHOWN = 100
"""Characters of a line, in messages."""
_LETTERS = re.compile(r"[^\W\d_]")


def varying(first: bytes, again: bytes, rtol: float, known: Collection[str] = ()) -> tuple[str, ...]:
    """Patterns of the lines that differ in their numbers between two runs of the same program.

    Args:
        first, again: what the runs printed.
        rtol: by how much numbers may differ, relative to the larger one, without being called varying.
        known: patterns of lines that vary.

    Returns:
        Those that are not known yet, in the order of the lines. A line that differs in more than its numbers, or has no
        word beside them by which it could be known, has none.
    """
    found: dict[str, None] = {}
    for a, b in zip(_lines(first), _lines(again), strict=False):
        pattern = "" if _same(a, b, rtol, (*known, *found)) else _pattern(a, b, rtol)
        if _LETTERS.search(pattern):
            found[pattern] = None
    return tuple(found)


def difference(wanted: bytes, found: bytes, rtol: float, varies: Collection[str] = ()) -> str:
    """Where two outputs differ, in words; empty where they do not.

    Args:
        wanted, found: the outputs.
        rtol: by how much numbers may differ, relative to the larger one.
        varies: patterns of lines, with ``*`` for what is not compared.
    """
    if wanted == found:
        return ""
    before, after = _lines(wanted), _lines(found)
    for number, (a, b) in enumerate(zip(before, after, strict=False), 1):
        if not _same(a, b, rtol, varies):
            return f"line {number} is {_shown(b)} for {_shown(a)}"
    return "" if len(before) == len(after) else f"{len(after)} lines for {len(before)}"


def _shown(line: str) -> str:
    return repr(line) if len(line) <= _SHOWN else f"{line[:_SHOWN]!r}..."


def compared_lines(output: bytes, varies: Collection[str] = ()) -> list[str]:
    """The lines of an output of which all is compared."""
    return [
        line for line in _lines(output) if line.strip() and not any(_matches(line, one) for one in varies)
    ]


def of_file(name: str, varies: Collection[str]) -> tuple[str, ...]:
    """The patterns of lines of a file that is no output but written: they begin with its name."""
    return tuple(one[len(name) + 2 :] for one in varies if one.startswith(f"{name}: "))


def is_left_out(name: str, varies: Collection[str]) -> bool:
    """Whether a pattern is like any line of a file."""
    return any(_matches(f"{name}: *", one) for one in varies)


def _lines(output: bytes) -> list[str]:
    try:
        return output.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        # Every byte is a letter of its own.
        return output.decode("latin-1").splitlines()


def _same(a: str, b: str, rtol: float, varies: Collection[str]) -> bool:
    if a == b or (rtol and _near(a, b, rtol)):
        return True
    return any(_matches(a, pattern) and _matches(b, pattern) for pattern in varies)


def _matches(line: str, pattern: str) -> bool:
    # Blanks in front of a number come and go with its digits.
    words = ".*".join(re.escape(part) for part in " ".join(pattern.split()).split("*"))
    return re.fullmatch(words, " ".join(line.split())) is not None


def _parts(line: str) -> tuple[list[str], list[str]]:
    """What stands around the numbers, blanks aside, and the numbers."""
    return _NUMBER.sub("0", line).split(), _NUMBER.findall(line)


def _near(a: str, b: str, rtol: float) -> bool:
    (around, before), (other, after) = _parts(a), _parts(b)
    # A sign that comes or goes takes a place from the blanks before a number.
    return around == other and all(_close(before, after, rtol))


def _close(before: Sequence[str], after: Sequence[str], rtol: float) -> list[bool]:
    pairs = zip(before, after, strict=True)
    return [x == y or (rtol > 0 and math.isclose(float(x), float(y), rel_tol=rtol)) for x, y in pairs]


def _pattern(a: str, b: str, rtol: float) -> str:
    """A line with ``*`` for each number that differs; empty where more than numbers does."""
    (around, before), (other, after) = _parts(a), _parts(b)
    if around != other:
        return ""
    same = iter(_close(before, after, rtol))
    return " ".join(_NUMBER.sub(lambda found: found[0] if next(same) else "*", a).split())
