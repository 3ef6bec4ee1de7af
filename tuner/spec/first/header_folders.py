"""Where a project keeps the headers that one of its sources includes: what a build would name by ``-I``.

For first specs only. A folder is taken where just one of the project has such a header; the project is what lies below
the nearest folder with a repository or a build file. May not compile.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from tuner.core.source_text import text_of_file
from tuner.evaluators.cuda.device_part import host_header

__all__ = ["INCLUDE", "header_folders", "known_text", "program_files"]

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
