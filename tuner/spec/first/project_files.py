"""The files of a project around one of its sources: folders of headers, and further sources that a function needs.

What a build would name by ``-I``, and what it links, for ``kernel.include`` and ``kernel.sources`` of first specs. A
folder is taken where just one of the project has such a header; the project is what lies below the nearest folder with
a repository or a build file. Sources are found by their text, and taken when the compiler confirms that they define
what is missing. May not run anything.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePosixPath

from tuner.core.errors import BaselineError
from tuner.core.source_text import text_of_file
from tuner.core.types import Source
from tuner.evaluators.cuda.device_part import host_header
from tuner.spec.reading.lookup import functions_of
from tuner.spec.reading.signature import LANGUAGES, SourceReader
from tuner.spec.reading.symbols import Symbols, plain_name, symbols_of

__all__ = ["INCLUDE", "Further", "further_sources", "header_folders", "known_text", "program_files"]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
"""A header in quotes."""
_IN_BRACKETS = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>\n]+\.(?:h|hpp|cuh))>", re.MULTILINE)
_REPOSITORY = (".git", ".hg", ".svn")
_MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
_BUILD_FILES = ("CMakeLists.txt", "Makefile", "makefile", "meson.build", "configure", "configure.ac", "BUILD")
_SUFFIXES = (
    *(".h", ".hh", ".hpp", ".hxx", ".cuh", ".inc", ".inl", ".ipp"),
    *(".c", ".cc", ".cpp", ".cxx", ".c++", ".C", ".cu", ".cl"),
)
_CUDA = (".cu", ".cuh")
_LEVELS = 6
_MOST_FILES = 20_000
_MOST_READ = 200
_LARGEST_BYTES = 2_000_000
_MOST = 24
_MOST_COMPILED = 60
_NAME = re.compile(r"[A-Za-z_]\w*")


def header_folders(source: Path, include: Sequence[Path] = ()) -> list[Path]:
    """Folders to add to ``include`` so that the headers of the source's own project are found.

    Args:
        source: the file.
        include: folders that are looked at already.

    Returns:
        None for headers that are found without, that nobody has, or that several folders have, equally near.
    """
    waiting, seen = [source.resolve()], set[Path]()
    folders, added = [folder.resolve() for folder in include], list[Path]()
    known: dict[str, list[Path]] | None = None
    while waiting and len(seen) < _MOST_READ:
        file = waiting.pop(0)
        if file in seen:
            continue
        seen.add(file)
        for name in _included(file):
            header = _found(name, [file.parent, *folders])
            if header is None:
                known = _headers(_root(source.resolve())) if known is None else known
                header = _only(name, known, source.resolve())
                if header is None:
                    continue
                folder = Path(str(header)[: -len(name) - 1])
                folders.append(folder)
                added.append(folder)
            waiting.append(header)
    return added


def program_files(source: Path, include: Sequence[Path] = ()) -> list[Path]:
    """The sources and headers that may be built with a source: another program of the project is not.

    Those below the nearest folder with a makefile, else of the project, and those in the folders of headers.
    """
    source = source.resolve()
    root = _root(source)
    for folder in source.parents[:_LEVELS]:
        if folder.is_relative_to(root) and any((folder / name).is_file() for name in _MAKEFILES):
            root = folder
            break
    found = list(_files(root))
    for folder in (each.resolve() for each in include):
        found += [f for f in sorted(folder.iterdir()) if f.is_file() and f.name.endswith(_SUFFIXES)]
    return list(dict.fromkeys(found))


def known_text(file: Path) -> str:
    """A file's text; empty where it cannot be read, or is too large to look through."""
    try:
        return "" if file.stat().st_size > _LARGEST_BYTES else text_of_file(file)
    except (OSError, ValueError):
        return ""


def _included(file: Path) -> list[str]:
    text = known_text(file)
    found: list[str] = INCLUDE.findall(text)
    if file.suffix in _CUDA:
        # Builds of CUDA often name the folders of their own headers as if they were a library's.
        found += [name for name in _IN_BRACKETS.findall(text) if not host_header(name)]
    return found


def _found(name: str, folders: Sequence[Path]) -> Path | None:
    places = (folder / name for folder in folders)
    return next((place.resolve() for place in places if place.is_file()), None)


def _only(name: str, known: dict[str, list[Path]], source: Path) -> Path | None:
    """The one header of the project that an include can mean: the nearest where there are several."""
    if ".." in PurePosixPath(name).parts or PurePosixPath(name).is_absolute():
        return None
    fitting = [f for f in known.get(PurePosixPath(name).name, []) if str(f).endswith(f"/{name}")]
    shared = [len(os.path.commonpath([source, f])) for f in fitting]
    nearest = [f for f, length in zip(fitting, shared, strict=True) if length == max(shared)]
    return nearest[0] if len(nearest) == 1 else None


def _root(source: Path) -> Path:
    """The project's folder: the nearest with a repository, else the farthest with a build file."""
    above = source.parents[:_LEVELS]
    for folder in above:
        if any((folder / name).exists() for name in _REPOSITORY):
            return folder
    built = [folder for folder in above if any((folder / name).is_file() for name in _BUILD_FILES)]
    return built[-1] if built else source.parent


def _headers(root: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for file in _files(root):
        found.setdefault(file.name, []).append(file)
    return found


def _files(root: Path) -> Iterator[Path]:
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            count += 1
            if count > _MOST_FILES:
                return
            if name.endswith(_SUFFIXES):
                yield Path(folder, name)


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
