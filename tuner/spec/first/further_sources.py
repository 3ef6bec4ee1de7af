"""Further sources of a project that a function needs: what a build links with it, for ``kernel.sources``.

For first specs of C and C++ only. Files are found by their text, and taken when the compiler confirms that they define
what is missing. May not run anything.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from tuner.core.errors import BaselineError
from tuner.core.types import Source
from tuner.spec.first.header_folders import header_folders, known_text, program_files
from tuner.spec.reading.lookup import functions_of
from tuner.spec.reading.signature import LANGUAGES, SourceReader
from tuner.spec.reading.symbols import Symbols, plain_name, symbols_of

__all__ = ["Further", "further_sources"]

_MOST = 24
_MOST_COMPILED = 60
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """What was found.

    Attributes:
        files: the sources, those that the function calls itself first.
        include: folders of headers that they need.
        doubts: what several files define, or none that fits: one line each.
        allocated: bytes behind global pointers of all sources, by name.
    """

    files: tuple[Path, ...] = ()
    include: tuple[Path, ...] = ()
    doubts: tuple[str, ...] = ()
    allocated: Mapping[str, int] = field(default_factory=dict)


def further_sources(source: Path, reader: SourceReader, symbol: str, include: Sequence[Path]) -> Further:
    """The sources of the project that define what a function needs and its own file does not.

    Args:
        source: the file.
        reader: of it.
        symbol: of the function.
        include: folders of headers that are named already.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    try:
        own = symbols_of(reader.llvm())
    except BaselineError:
        # Of a macro that is not known yet, say: whoever checks the spec is told.
        return Further()
    search = _Search(source.resolve(), reader, [*include])
    return search.run(own, symbol) if _asked_for(own.missing([symbol])) else Further(allocated=own.allocated)


def _asked_for(symbols: Iterable[str]) -> list[str]:
    """Those that are neither the compiler's nor the C library's."""
    return sorted(s for s in symbols if plain_name(s) and not (s == plain_name(s) and _in_library(s)))


@cache
def _in_library(name: str) -> bool:
    """Whether the C or the mathematical library has it: both are in this process."""
    try:
        return hasattr(ctypes.CDLL(None), name) or hasattr(ctypes.CDLL("libm.so.6"), name)
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class _File:
    """A file that compiles, and the folders of headers that it needs."""

    path: Path
    symbols: Symbols
    folders: tuple[Path, ...]


@dataclass(slots=True)
class _Search:
    source: Path
    reader: SourceReader
    include: list[Path]
    words: dict[Path, frozenset[str]] = field(default_factory=dict)
    known: dict[Path, _File | None] = field(default_factory=dict)

    def run(self, own: Symbols, symbol: str) -> Further:
        """Adds one file after the other until nothing is missing that is defined somewhere."""
        for path in program_files(self.source, self.include):
            if path.suffix in LANGUAGES and path != self.source:
                self.words[path] = frozenset(_NAME.findall(known_text(path)))
        before, taken = list(self.include), [_File(self.source, own, ())]
        doubts: dict[str, str] = {}
        while len(taken) <= _MOST:
            doubts.clear()
            wanted = _asked_for(_missing([each.symbols for each in taken], symbol))
            found = next((f for name in wanted if (f := self._definition(name, taken, doubts))), None)
            if found is None:
                break
            taken.append(found)
            self.include += [folder for folder in found.folders if folder not in self.include]
        return Further(
            files=tuple(each.path for each in taken[1:]),
            include=tuple(folder for folder in self.include if folder not in before),
            doubts=tuple(doubts.values()),
            allocated={name: size for each in taken for name, size in each.symbols.allocated.items()},
        )

    def _definition(self, symbol: str, taken: Sequence[_File], doubts: dict[str, str]) -> _File | None:
        """The nearest file that defines a symbol, and nothing that is defined already."""
        name = plain_name(symbol)
        function = any(symbol in each.symbols.functions for each in taken)
        confirmed, broken = list[_File](), list[Path]()
        for path in sorted(self.words, key=lambda path: (self._steps(path), path)):
            if name not in self.words[path] or any(path == each.path for each in taken):
                continue
            if confirmed and self._steps(path) > self._steps(confirmed[0].path):
                break
            if function and name not in functions_of(known_text(path)):
                continue
            found = self._file(path)
            if found is None:
                broken.append(path)
            elif symbol in found.symbols.offered:
                confirmed.append(found)
        fitting = [each for each in confirmed if not self._twice(each, taken)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            doubts[symbol] = (
                f"{name} is defined in {self._shown(fitting)}: add the one that is built to sources"
            )
        elif confirmed:
            why = self._twice(confirmed[0], taken)
            doubts[symbol] = (
                f"{name} is defined in {self._shown(confirmed[:1])}, {why}: put it into another file"
            )
        elif broken and function:
            doubts[symbol] = (
                f"{name} may be defined in {self._shown(broken)}, which does not compile by itself"
            )
        return None

    def _twice(self, file: _File, taken: Sequence[_File]) -> str:
        """Why a file cannot be built beside the others; empty where it can."""
        if any(file.path.name == each.path.name for each in taken):
            return "a second file of that name"
        both = sorted(file.symbols.strong & frozenset().union(*(each.symbols.strong for each in taken)))
        return f"which defines {plain_name(both[0]) or both[0]} a second time" if both else ""

    def _shown(self, files: Sequence[_File | Path]) -> str:
        paths = [each.path if isinstance(each, _File) else each for each in files]
        return " and ".join(os.path.relpath(path, self.source.parent) for path in paths[:3])

    def _steps(self, path: Path) -> int:
        """Folders on the way from the source to a file."""
        here, there = self.source.parent, path.parent
        shared = len(Path(os.path.commonpath([here, there])).parts)
        return len(here.parts) + len(there.parts) - 2 * shared

    def _file(self, path: Path) -> _File | None:
        """A file that compiles."""
        if path not in self.known and len(self.known) < _MOST_COMPILED:
            self.known[path] = None
            folders = tuple(header_folders(path, self.include))
            reader = replace(
                self.reader,
                files=(Source(name=path.name, text=known_text(path)),),
                language=LANGUAGES[path.suffix],
                include=tuple(map(str, (path.parent, *self.include, *folders))),
            )
            with suppress(BaselineError):
                self.known[path] = _File(path, symbols_of(reader.llvm()), folders)
        return self.known.get(path)


def _missing(files: Iterable[Symbols], symbol: str) -> set[str]:
    """What the function needs that no file defines; what a file keeps to itself is only that file's."""
    every = list(files)
    missing, waiting, seen = set[str](), [(every[0], symbol)], set[str]()
    while waiting:
        file, name = waiting.pop()
        for needed in file.missing([name]) - seen:
            seen.add(needed)
            home = next((each for each in every if needed in each.offered), None)
            if home is None:
                missing.add(needed)
            else:
                waiting.append((home, needed))
    return missing
