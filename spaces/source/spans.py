"""Where the author's files have what the preprocessor made regions of: whole lines, with all directives among them.

A region goes from within a line to within another. What it takes the place of are the lines that these are from, and
where conditionals, brackets or lines that go on do not end there, those up to their ends. Must not preprocess.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tuner.core.source_text import lines_of_text
from tuner.core.types import Source
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.lexical import bare_directives, conditionals, directives, unbalanced
from tuner.spaces.source.respelling import respelled

__all__ = ["Region", "placed_regions", "with_spans"]

_NUMBERED = re.compile(r'[ \t]*#[ \t]*(?:line[ \t]+)?(\d+)(?:[ \t]+("[^"\n]*"))?')
_SYSTEM = -2
_Line = tuple[int, int]
"""The number of a file, and of a line of it from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A region and the lines of a file that it stands for.

    Attributes:
        file: the number of that file.
        begin, stop: the first of its lines, from 0, and the one behind the last.
        head, tail: what stands in the region's place before and behind it.
        made: the region as it was preprocessed.
        wrote: the author's lines of that, as many.
        lines: their numbers, from 0.
        given: the region as the author wrote it; ``None`` where more than that is replaced.
    """

    file: int
    begin: int
    stop: int
    head: str
    tail: str
    made: str
    wrote: str
    lines: tuple[int, ...]
    given: str | None

    def spelled(self, text: str, types: Mapping[str, str], unsteady: Collection[str]) -> str:
        """What a text in its place is in the author's spelling; as in :func:`respelled`."""
        if text == self.made and self.given is not None:
            return self.given
        return respelled(text, self.made, self.wrote, types, unsteady=unsteady)


def with_spans(text: str, regions: Sequence[Region], *, built: bool = True) -> tuple[str, ...]:
    """A file's text cut at regions.

    Args:
        text: the author's.
        regions: of the file, in order.
        built: whether they stand there in the place of the author's lines; else these are what is cut out.
    """
    lines = lines_of_text(text)
    parts, at = [""], 0
    for region in regions:
        if region.begin < at:
            raise Refused("two regions share a conditional, or a line")
        parts[-1] += "".join(lines[at : region.begin]) + region.head * built
        given = "".join(lines[region.begin : region.stop])
        parts += [region.made, region.tail] if built else [given, ""]
        at = region.stop
    parts[-1] += "".join(lines[at:])
    return tuple(parts)


def placed_regions(
    parts: Sequence[str],
    runs: Sequence[tuple[int, int, int]],
    files: Sequence[Source],
    *,
    counted: int,
    numbered: bool,
) -> list[Region]:
    """The regions of a preprocessed source in the files that they are from.

    Args:
        parts: of the source, cut at its regions.
        runs: where its lines are from, as in :class:`~tuner.core.types.Preprocessed`.
        files: as the author has them.
        counted: how many numbers of ``__COUNTER__`` are left out behind the last region.
        numbered: whether the lines behind a region keep their numbers, as where one of its lines gives them a number.

    Raises:
        Refused: a region cannot be told apart there.
    """
    counts = "#if " + " || ".join(["__COUNTER__"] * counted) + "\n#endif\n" if counted else ""
    unit = _Unit("".join(parts), runs, files)
    found, at = [], 0
    for number, part in enumerate(parts):
        end = at + len(part)
        if number % 2:
            behind = counts if number == len(parts) - 2 else ""
            found.append(unit.region(at, end, behind=behind, numbered=numbered))
        at = end
    return found


class _Unit:
    """A source after the preprocessor, in rows, and where each is from."""

    def __init__(self, text: str, runs: Sequence[tuple[int, int, int]], files: Sequence[Source]) -> None:
        self._text, self._rows = text, lines_of_text(text)
        self._files, self._lines = files, [lines_of_text(file.text) for file in files]
        self._bare = [lines_of_text(bare_directives(file.text)) for file in files]
        own = [run for run in runs if run[1] != _SYSTEM]
        ends = [row for row, *_ in own[1:]] + [len(self._rows)]
        self._places: list[_Line] = []
        for (row, file, line), end in zip(own, ends, strict=True):
            self._places += [(file, line + i) for i in range(end - row)]
        self._left_out = [row for row, file, _ in runs if file == _SYSTEM]

    def region(self, begin: int, end: int, *, behind: str, numbered: bool) -> Region:
        """What lies between two characters, and lines that are put behind it."""
        whole = end > begin and self._text[begin - 1 : begin] == self._text[end - 1] == "\n"
        first, last = (self._text.count("\n", 0, place) for place in (begin, end))
        own = range(first, last + (not whole))
        # Between marks the lines of the marks count: directives may follow them.
        file, line = self._places[first - whole]
        other, stop = self._places[last]
        if file != other or line < 0:
            raise Refused("a region begins in one file and ends in another")
        lines, span = self._lines[file], range(line + whole, stop + (not whole))
        wide = span if whole else _widened(lines, span, self._filled(file))
        made = self._made(file, wide, own)
        hidden = whole or _has("".join(lines[wide.start : span.start]), "include") > 0
        if any(made.start + (not hidden) <= row < made.stop + whole for row in self._left_out):
            raise Refused(f"a region of {self._files[file].name} includes a header of the system")
        text = "".join(lines[wide.start : wide.stop])
        head, tail = (self._text[self._at(made.start) : begin], self._text[end : self._at(made.stop)])
        edges = ("", "") if whole else (_edge(text, head), _edge(text, tail, end=True))
        if plain := wide == span and None not in edges:
            head, tail = edges[0] or "", edges[1] or ""
        else:
            head, tail = head if head.strip() else "", tail if tail.strip() else "\n"
        more = behind + _numbered(lines, wide, wanted=numbered)
        made_text = self._text[begin:end]
        around = () if whole else (self._text[self._at(first) : begin], self._text[end : self._at(last + 1)])
        return Region(
            file=file,
            begin=wide.start,
            stop=wide.stop,
            head=head,
            tail=tail + "\n" * bool(more and not whole and not tail.endswith("\n")) + more,
            made=made_text,
            wrote=made_text if self._defines(file, text, own) else self._wrote(own, *around),
            lines=tuple(place[1] if place[0] == file else -1 for place in self._places[first : own.stop]),
            given=text[len(head) : len(text) - len(tail)] if plain and not more else None,
        )

    def _at(self, row: int) -> int:
        return sum(map(len, self._rows[:row]))

    def _filled(self, file: int) -> set[int]:
        """The lines of a file of which the preprocessor left something."""
        pairs = zip(self._places, self._rows, strict=True)
        return {line for (of, line), row in pairs if of == file and row.strip()}

    def _made(self, file: int, span: range, own: range) -> range:
        """The rows that are from some lines of a file, and a region's own among them."""
        rows = [i for i, (of, line) in enumerate(self._places) if of == file and line in span]
        return range(min([*rows, own.start]), max([*rows, own.stop - 1]) + 1)

    def _defines(self, file: int, text: str, own: range) -> bool:
        """Whether what a region takes the place of may define macros: the author's lines mean something else then."""
        others = {of for of, _ in self._places[own.start : own.stop]} - {file}
        texts = [text, *("".join(self._lines[other]) for other in others)]
        # Each file that brings lines is known; what is included beside may bring macros alone.
        included = sum(_has(each, "include") for each in texts)
        return -1 in others or included != len(others) or any(_has(each, "define", "undef") for each in texts)

    def _wrote(self, own: range, before: str | None = None, behind: str | None = None) -> str:
        """The author's lines of rows, without what stands around a region in them."""
        made = []
        for i in own:
            file, line = self._places[i]
            (author,) = self._bare[file][line : line + 1] or [self._rows[i]]
            edges = before if i == own.start else None, behind if i == own.stop - 1 else None
            made.append(_between(author, *edges) or _between(self._rows[i], *edges) or "")
        return "".join(made)


def _has(text: str, *words: str) -> int:
    """How many directives of some words a text has."""
    return sum(word in words for word, _ in directives(text))


def _edge(text: str, made: str, *, end: bool = False) -> str | None:
    """What a text begins or ends with where that has the words of what was made of it."""
    words = r"\s*".join(map(re.escape, made.split()))
    found = re.search(rf"\s*{words}\s*\Z", text) if end else re.match(rf"[ \t]*{words}[ \t]*", text)
    return None if found is None else found[0]


def _widened(lines: Sequence[str], span: range, filled: Collection[int]) -> range:
    """Lines with the whole of each conditional among them, and of a macro's arguments or a line that goes on.

    Args:
        lines: of the file.
        span: of them.
        filled: lines of which the preprocessor left something.
    """
    text = "".join(lines)
    begin, stop = span.start, span.stop
    for places in conditionals(text):
        numbers = [text.count("\n", 0, place.start) for place in places]
        inside = [begin <= number < stop for number in numbers]
        if any(inside) and not all(inside):
            begin = min(begin, numbers[0])
            stop = max(stop, text.count("\n", 0, places[-1].stop) + 1)
    for end in range(stop, len(lines) + 1):
        within = "".join(lines[begin:end])
        if not unbalanced(within) and not within.endswith("\\\n"):
            return range(begin, end)
        if end in filled:
            break
    return range(begin, stop)


def _numbered(lines: Sequence[str], span: range, *, wanted: bool) -> str:
    """A directive with the number of the line behind some; empty where none of them gave one and none is wanted."""
    text = "".join(lines[: span.stop])
    matches = (
        (text.count("\n", 0, place.start), _NUMBERED.match(text, place.start))
        for _, place in directives(text)
    )
    found = [(i, number) for i, number in matches if number is not None]
    inside = [number[2] for i, number in found if i >= span.start]
    if not (inside or wanted):
        return ""
    at, number = (found[-1][0], int(found[-1][1][1])) if found else (-1, 1)
    name = next(filter(None, reversed(inside)), "")
    return f"#line {number + span.stop - at - 1} {name}".rstrip() + "\n"


def _between(row: str, before: str | None, behind: str | None) -> str | None:
    """A row without its words before and behind a region; ``None`` where it has not these."""
    start = "" if before is None else _edge(row, before)
    end = "" if behind is None else _edge(row, behind, end=True)
    return None if start is None or end is None else row[len(start) : len(row) - len(end)]
