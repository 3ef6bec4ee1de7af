"""Where an application spends its time, as regions that can be tuned: loops in one another, and functions.

A function in which no loop is hot stands for the loops that call it, in its file or in those that include this. May not
build or run anything.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.core.errors import TunerError
from tuner.core.source_text import lines_of_text
from tuner.driver.applications.included_files import Inclusions
from tuner.driver.applications.listing import Listing
from tuner.evaluators.host.openmp import as_if_openmp
from tuner.spec.applications import Region
from tuner.spec.first.compile_commands import Compiled, library_flags
from tuner.spec.first.project import read_source
from tuner.spec.reading.lookup import callers_of, functions_of, operators_of
from tuner.spec.reading.nodes import Node, walk
from tuner.spec.reading.outlining import lines_of, loop_lines, loop_text
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.sources import language_of

__all__ = ["HotRegions", "hot_regions", "stale"]

_OLD_C = ("-Wno-implicit-int", "-Wno-implicit-function-declaration")
_MAIN = "main"
_NAMED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_NAMES = {
    "DeclRefExpr": "name",
    "MemberExpr": "name",
    "UnresolvedLookupExpr": "name",
    "CXXDependentScopeMemberExpr": "member",
}
_MOST_CALLERS = 8
"""In how many calls of one another a loop is looked for."""

_DIGEST = 8
"""Characters of it in an application's file."""

_Place = tuple[Path, tuple[int, ...], str]
"""A file, lines of loops in one another, the outermost first, and the function around; without loops it is meant."""


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
    program = _Program(folder, seen)
    shares: dict[_Place, float] = defaultdict(float)
    unread = []
    for path, own in lines.items():
        if sum(own.values()) < least or not path.is_relative_to(folder.resolve()):
            continue
        if not path.is_file():
            unread.append(f"{path} is hot and made by the build: let it compile the source in its place")
            continue
        try:
            functions = program.functions(path)
            for line, share in own.items():
                for place in program.places(path, line):
                    shares[place] += share
            outside = {line: share for line, share in own.items() if functions.around(line) is None}
            if sum(outside.values()) >= least:
                line, cure = max(outside, key=outside.__getitem__), "write its loop as a function with a name"
                unread.append(f"{path.name}:{line} is hot and in no function that can be told: {cure}")
        except TunerError as error:
            unread.append(f"{path.name} cannot be read: {error}")
    hot = [one for one in _regions(shares) if one.share >= least]
    hot.sort(key=lambda one: (-one.share, one.name))
    return HotRegions(
        regions=tuple(map(program.with_digest, hot[:most])),
        unread=tuple(unread),
        without_lines=bool(listing.samples) and not lines,
    )


def stale(region: Region, compiled: Compiled | None) -> str:
    """Why a region is none of its source as it is now, as where that has changed since; empty where it is one.

    Args:
        region: of an application.
        compiled: how its source is compiled.

    Raises:
        BaselineError: clang does not accept the source.
        MachineError: there is no clang, or it does not answer.
    """
    source = _Functions(region.source, compiled)
    around = [source.loops_around(line) for line in region.loops]
    lines = [line for line, loops in zip(region.loops, around, strict=True) if line not in loops]
    if lines:
        where = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines))}"
        return f"no loop begins at {where} of {region.source.name} as it is now"
    # Whoever takes loops out of the list leaves the digest of the outermost.
    if region.digest and region.digest not in map(source.digest, around[0]):
        return f"the loop at line {region.loops[0]} of {region.source.name} is another now than when it was found"
    return ""


def _regions(shares: Mapping[_Place, float]) -> Iterator[Region]:
    """Regions of any share: of loops with one around them that whose lines take most."""
    outermost: dict[_Place, dict[_Place, float]] = defaultdict(dict)
    for (path, loops, function), share in shares.items():
        outermost[path, loops[:1], function][path, loops, function] = share
    for parts in outermost.values():
        (path, loops, function), _ = max(parts.items(), key=lambda item: (item[1], item[0]))
        share = min(1.0, sum(parts.values()))
        own, within = ("", function) if loops else (function, "")
        yield Region(source=path, loops=loops, function=own, share=share, within=within)


class _Program:
    """The functions of the sources of an application, and which loops call them.

    Args:
        folder: of the sources.
        seen: how the build compiles them.
    """

    def __init__(self, folder: Path, seen: Mapping[Path, Compiled]) -> None:
        self._seen = seen
        self._inclusions = Inclusions(folder.resolve())
        self._files: dict[Path, _Functions] = {}

    def functions(self, path: Path) -> _Functions:
        """Those of a file."""
        if path not in self._files:
            self._files[path] = _Functions(path, self._seen.get(path))
        return self._files[path]

    def with_digest(self, region: Region) -> Region:
        """A region by whose loop's text it is told whether that has changed since."""
        digest = self.functions(region.source).digest(region.loops[0]) if region.loops else ""
        return replace(region, digest=digest)

    def places(self, path: Path, line: int) -> set[_Place]:
        """The loops around a line, or around the calls of the function that it lies in.

        Raises:
            BaselineError: clang does not accept the source.
            MachineError: there is no clang, or it does not answer.
        """
        return set(self._places(path, line, ()))

    def _places(self, path: Path, line: int, callers: Sequence[str]) -> Iterator[_Place]:
        source = self.functions(path)
        function = source.around(line)
        if function is None:
            return
        loops = source.loops(function, line)
        if loops:
            yield path, tuple(loops), function.qualified
            return
        name = function.name
        if len(callers) < _MOST_CALLERS and name not in callers:
            found = [place for place in self._callers(path, name, (*callers, name)) if place[1]]
            yield from found
            if found:
                return
        if not callers and name != _MAIN:
            yield path, (), function.qualified

    def _callers(self, path: Path, name: str, callers: Sequence[str]) -> Iterator[_Place]:
        """The places of the calls of a function: in its own file and in those that include it."""
        for line in self.functions(path).calls(name):
            yield from self._places(path, line, callers)
        for other in self._inclusions.including(path):
            # One that cannot be read is told of where it is hot itself.
            with suppress(TunerError):
                for line in self.functions(other).calls(name):
                    yield from self._places(other, line, callers)


class _Functions:
    """The functions of a source; only those around hot lines are read, each by a run of clang's.

    Args:
        path: of the file.
        compiled: how it is compiled; ``None`` where that is not known.
    """

    def __init__(self, path: Path, compiled: Compiled | None) -> None:
        source = read_source(path)
        self._text, self._data = source.text, source.data
        language = (compiled.language if compiled is not None else "") or language_of(path.name) or "c"
        built: tuple[str, ...] = ()
        if compiled is not None:
            threads = as_if_openmp() if compiled.openmp else ()
            built = (*threads, *compiled.flags, *library_flags(compiled.command, language))
        self._reader = SourceReader(
            files=(source,),
            language=language,
            folder=str(path.parent),
            include=tuple(map(str, () if compiled is None else compiled.include)),
            flags=(*(_OLD_C if language == "c" else ()), *built),
        )
        self._names = functions_of(self._text)
        self._operators = operators_of(self._text) if language == "c++" else []
        self._read: dict[str, list[Function]] = {}

    def _named(self, name: str) -> list[Function]:
        if name not in self._read:
            self._read[name] = [function for function in self._reader.named(name) if function.defined]
        return self._read[name]

    def around(self, line: int) -> Function | None:
        """The function that a line lies in: its name stands above, seldom far."""
        above = "".join(lines_of_text(self._text)[:line])
        places = {found[1]: found.start() for found in _NAMED.finditer(above) if found[1] in self._names}
        places |= {name: at for name, at in self._operators if at < len(above)}
        for name in sorted(places, key=lambda name: -places[name]):
            for function in self._named(name):
                if line in lines_of(function.tree, self._data):
                    return function
        return None

    def loops(self, function: Function, line: int) -> list[int]:
        """Lines at which loops of a function begin that a line lies in."""
        return loop_lines(function, self._text, line)

    def loops_around(self, line: int) -> list[int]:
        """Lines at which loops begin that a line lies in."""
        function = self.around(line)
        return [] if function is None else self.loops(function, line)

    def digest(self, line: int) -> str:
        """Of the text of the loop that begins at a line."""
        function = self.around(line)
        text = "" if function is None else loop_text(function, self._text, line)
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST]

    def calls(self, name: str) -> Iterator[int]:
        """Lines at which a function is called.

        Raises:
            BaselineError: clang does not accept the source.
        """
        for function in (each for caller in callers_of(self._text, name) for each in self._named(caller)):
            for node in walk(function.tree):
                if _called(node) == name:
                    yield from lines_of(node, self._data)[:1]


def _called(node: Node) -> str:
    """The function that a node names; in a template clang has only its name."""
    named = node.get("referencedDecl", {}) if node.get("kind") == "DeclRefExpr" else node
    return str(named.get(_NAMES.get(str(node.get("kind")), ""), ""))
