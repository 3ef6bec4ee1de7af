"""Where an application spends its time, as regions that can be tuned: loops in one another, and functions.

A function in which no loop is hot stands for the loops that call it. May not build or run anything.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.core.errors import TunerError
from tuner.core.source_text import lines_of_text
from tuner.driver.applications.listing import Listing
from tuner.spec.applications import Region
from tuner.spec.first.compile_commands import Compiled
from tuner.spec.first.project import read_source
from tuner.spec.reading.lookup import callers_of, functions_of
from tuner.spec.reading.nodes import walk
from tuner.spec.reading.outlining import lines_of, loop_lines
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.sources import language_of

__all__ = ["HotRegions", "hot_regions"]

_OLD_C = ("-Wno-implicit-int", "-Wno-implicit-function-declaration")
_MAIN = "main"
_NAMED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_MOST_CALLERS = 8
"""In how many calls of one another a loop is looked for."""

_Place = tuple[tuple[int, ...], str]
"""Lines of loops in one another, the outermost first, or a function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HotRegions:
    """What was found.

    Attributes:
        regions: that with the largest share first.
        unread: of hot sources that cannot be read, why.
        without_lines: whether no line of the program is known: it was built without ``-g``.
    """

    regions: tuple[Region, ...]
    unread: tuple[str, ...] = ()
    without_lines: bool = False


def hot_regions(
    listing: Listing, folder: Path, seen: Mapping[Path, Compiled], *, least: float, most: int
) -> HotRegions:
    """The regions that take the most of an application's time.

    Args:
        listing: of its functions, sampled.
        folder: that holds its sources.
        seen: how the build compiles them.
        least: share of the time that a region has.
        most: how many.
    """
    lines: dict[Path, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for function in listing.own.listed:
        for file, line, samples in function.lines:
            lines[Path(file).resolve()][line] += listing.share(samples)
    found: list[Region] = []
    unread = []
    for path, own in lines.items():
        if sum(own.values()) < least or not path.is_relative_to(folder.resolve()):
            continue
        if not path.is_file():
            unread.append(f"{path} is hot and made by the build: let it compile the source in its place")
            continue
        try:
            functions = _Functions(path, seen.get(path))
            found += _regions(functions, own)
            outside = {line: share for line, share in own.items() if functions.around(line) is None}
            if sum(outside.values()) >= least:
                line, cure = max(outside, key=outside.__getitem__), "write its loop as a function with a name"
                unread.append(f"{path.name}:{line} is hot and in no function that can be told: {cure}")
        except TunerError as error:
            unread.append(f"{path.name} cannot be read: {error}")
    hot = sorted((one for one in found if one.share >= least), key=lambda one: (-one.share, one.name))
    return HotRegions(
        regions=tuple(hot[:most]), unread=tuple(unread), without_lines=bool(listing.samples) and not lines
    )


def _regions(source: _Functions, lines: Mapping[int, float]) -> Iterator[Region]:
    """Regions of a source, of any share."""
    shares: dict[_Place, float] = defaultdict(float)
    for line, share in lines.items():
        for place in source.places(line):
            shares[place] += share
    outermost: dict[tuple[int | None, str], dict[_Place, float]] = defaultdict(dict)
    for (loops, function), share in shares.items():
        outermost[loops[0] if loops else None, function][loops, function] = share
    for parts in outermost.values():
        (loops, function), _ = max(parts.items(), key=lambda item: (item[1], item[0]))
        share = min(1.0, sum(parts.values()))
        yield Region(source=source.path, loops=loops, function=function, share=share)


class _Functions:
    """The functions of a source; only those around hot lines are read, each by a run of clang's.

    Args:
        path: of the file.
        compiled: how it is compiled; ``None`` where that is not known.
    """

    def __init__(self, path: Path, compiled: Compiled | None) -> None:
        self.path = path
        source = read_source(path)
        self._text, self._data = source.text, source.data
        language = (compiled.language if compiled is not None else "") or language_of(path.name) or "c"
        self._reader = SourceReader(
            files=(source,),
            language=language,
            folder=str(path.parent),
            include=tuple(map(str, () if compiled is None else compiled.include)),
            flags=(*(_OLD_C if language == "c" else ()), *(() if compiled is None else compiled.flags)),
        )
        self._names = functions_of(self._text)
        self._read: dict[str, list[Function]] = {}

    def places(self, line: int) -> set[_Place]:
        """The loops around a line, or around the calls of the function that it lies in.

        Raises:
            BaselineError: clang does not accept the source.
            MachineError: there is no clang, or it does not answer.
        """
        return set(self._places(line, ()))

    def _named(self, name: str) -> list[Function]:
        if name not in self._read:
            self._read[name] = [function for function in self._reader.named(name) if function.defined]
        return self._read[name]

    def around(self, line: int) -> Function | None:
        """The function that a line lies in: its name stands above, seldom far."""
        above = "".join(lines_of_text(self._text)[:line])
        places = {found[1]: found.start() for found in _NAMED.finditer(above) if found[1] in self._names}
        for name in sorted(places, key=lambda name: -places[name]):
            for function in self._named(name):
                if line in lines_of(function.tree, self._data):
                    return function
        return None

    def _places(self, line: int, callers: Sequence[str]) -> Iterator[_Place]:
        function = self.around(line)
        if function is None:
            return
        loops = loop_lines(function, self._text, line)
        if loops:
            yield tuple(loops), ""
            return
        name = function.name
        if len(callers) < _MOST_CALLERS and name not in callers:
            found = {place for at in self._calls(name) for place in self._places(at, (*callers, name))}
            in_loops = {(loops, name) for loops, name in found if loops}
            yield from in_loops
            if in_loops:
                return
        if not callers and name != _MAIN:
            yield (), function.qualified

    def _calls(self, name: str) -> Iterator[int]:
        """Lines at which a function of the file is called."""
        for function in (each for caller in callers_of(self._text, name) for each in self._named(caller)):
            for node in walk(function.tree):
                called = node.get("referencedDecl") if node.get("kind") == "DeclRefExpr" else None
                if isinstance(called, dict) and called.get("name") == name:
                    yield from lines_of(node, self._data)[:1]
