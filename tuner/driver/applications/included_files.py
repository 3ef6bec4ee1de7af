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
from pathlib import Path, PurePath, PurePosixPath

from tuner.driver.applications.trees import WORK_FOLDER
from tuner.spec.first.compile_commands import Compiled
from tuner.spec.sources import language_of

__all__ = ["Inclusions", "is_source", "with_included"]

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_CONDITION = re.compile(rb"^[ \t]*#[ \t]*(ifdef|ifndef|if|endif)\b", re.MULTILINE)
_MOST_BYTES = 1 << 20
"""Of a file that is looked through: larger ones are data."""


def is_source(path: PurePath) -> bool:
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
        return sorted(filter(is_source, self._above(path)))

    def including(self, path: Path) -> list[Path]:
        """The files that include a file, by themselves or through others."""
        return sorted(one for one in self._above(path) if one != path)

    def before(self, path: Path, source: Path) -> tuple[bytes, list[Path]]:
        """What a source has before it includes a file, with that of those through which it does, and their folders."""
        text, above, seen = b"", self._above(path), dict[Path, None]()
        inside: Path | None = source
        while inside is not None and inside not in seen:
            seen[inside] = None
            data, inside = inside.read_bytes(), None
            for found in _INCLUDE.finditer(data):
                name = _name_of(found[1])
                headers = [one for one in above if one.name == name != path.name]
                if name == path.name or headers:
                    text += _closed(data[: found.start()])
                    inside = headers[0] if headers else None
                    break
        return text, [one.parent for one in seen]

    def _above(self, path: Path) -> dict[Path, None]:
        """Files that include a file, by themselves or through others."""
        found: dict[Path, None] = {}
        waiting = [path.name]
        while waiting:
            for one in self._including.get(waiting.pop(), ()):
                if one not in found:
                    found[one] = None
                    waiting.append(one.name)
        return found

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
            for name in set(map(_name_of, _included(path))):
                found[name].append(path)
        return found


def _name_of(included: bytes) -> str:
    return PurePosixPath(included.decode("utf-8", "replace")).name


def _closed(text: bytes) -> bytes:
    """A text with an end for each condition that is open at its end."""
    opened = sum(-1 if word == b"endif" else 1 for word in _CONDITION.findall(text))
    return text + b"\n#endif" * opened + b"\n"


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
