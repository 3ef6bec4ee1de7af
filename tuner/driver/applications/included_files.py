"""Files of an application that others include: which sources those are, and how they are compiled as parts of these.

Files are told apart by their names alone, so that one more may be found that includes another of that name. May not
run a compiler.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from tuner.driver.applications.trees import WORK_FOLDER
from tuner.spec.first.compile_commands import Compiled
from tuner.spec.sources import language_of

__all__ = ["Inclusions", "is_source", "with_included"]

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_MOST_BYTES = 1 << 20
"""Of a file that is looked through: larger ones are data."""


def is_source(path: Path) -> bool:
    """Whether a file is compiled by itself, as C or C++."""
    return language_of(path.name) in ("c", "c++")


class Inclusions:
    """Which files below a folder include which.

    Args:
        folder: of an application's sources.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self) -> list[Path]:
        """Those that others include."""
        return sorted(path for path in self._files if path.name in self._including)

    def sources(self, path: Path) -> list[Path]:
        """The sources that include a file, by themselves or through others."""
        found: dict[Path, None] = {}
        waiting, known = [path.name], {path.name}
        while waiting:
            for one in self._including.get(waiting.pop(), ()):
                if is_source(one):
                    found[one] = None
                if one.name not in known:
                    known.add(one.name)
                    waiting.append(one.name)
        return sorted(found)

    @functools.cached_property
    def _files(self) -> list[Path]:
        return [
            path
            for path in sorted(self._folder.rglob("*"))
            if WORK_FOLDER not in path.parts and path.is_file() and path.stat().st_size <= _MOST_BYTES
        ]

    @functools.cached_property
    def _including(self) -> Mapping[str, list[Path]]:
        """Files by the last part of what they include."""
        found: dict[str, list[Path]] = defaultdict(list)
        for path in self._files:
            names = {PurePosixPath(each.decode("utf-8", "replace")).name for each in _included(path)}
            for name in names:
                found[name].append(path)
        return found


def _included(path: Path) -> list[bytes]:
    try:
        return _INCLUDE.findall(path.read_bytes())
    except OSError:
        return []


def with_included(
    seen: Mapping[Path, Compiled], paths: Iterable[Path], inclusions: Inclusions
) -> dict[Path, Compiled]:
    """How sources are compiled, and files that these include.

    Args:
        seen: how a build compiles sources.
        paths: of further files.
        inclusions: below the folder that holds them.
    """
    found = dict(seen)
    for path in paths:
        sources = [one for one in inclusions.sources(path) if one in seen] if path not in seen else []
        if sources:
            ways = {(seen[one].include, seen[one].flags, seen[one].command) for one in sources}
            first = seen[sources[0]]
            language = language_of(sources[0].name) or ""
            found[path] = replace(
                first, part_of=sources[0], language=language, ways=max(len(ways), first.ways)
            )
    return found
