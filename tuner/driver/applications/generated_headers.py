"""Headers for whoever reads the sources after the copy is gone: those that a build writes before it compiles.

Also what stands before a file where a source includes it, which it needs where it is no header. May not build anything.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tuner.driver.applications.trees import Tree
from tuner.spec.first.compile_commands import Compiled

__all__ = ["with_generated"]

_STANDING_ALONE = (".h", ".hh", ".hpp", ".hxx")
_HEADERS = (*_STANDING_ALONE, ".inc", ".ipp", ".def", ".tbl")
_BEFORE = "before"
"""Below the folder of headers."""


def with_generated(compiled: Mapping[Path, Compiled], tree: Tree, kept: Path) -> dict[Path, Compiled]:
    """How files are compiled, with folders of the headers that a build has made in a copy, and what stands before them.

    Args:
        compiled: how the build was seen to compile each file.
        tree: the copy that it was built in.
        kept: folder for the headers; what is in it is replaced.
    """
    shutil.rmtree(kept, ignore_errors=True)
    folders: dict[Path, Path] = {}
    for path in sorted(tree.copy.rglob("*")):
        below = path.relative_to(tree.copy)
        if path.suffix in _HEADERS and path.is_file() and not (tree.original / below).exists():
            copy = kept / below
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            folders[tree.original / below.parent] = copy.parent
    found = {}
    for path, how in compiled.items():
        sources = [path.parent] if how.part_of is None else [path.parent, how.part_of.parent]
        more = [folders[each] for each in (*sources, *how.include) if each in folders]
        found[path] = replace(how, include=(*more, *how.include))
        before = b"" if path.suffix in _STANDING_ALONE else _before(path, how)
        if before:
            file = kept / _BEFORE / f"{path.resolve().relative_to(tree.original)}.h"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(before)
            include = dict.fromkeys((*found[path].include, sources[-1]))
            flags = (*how.flags, "-include", str(file))
            found[path] = replace(found[path], include=tuple(include), flags=flags)
    return found


def _before(path: Path, how: Compiled) -> bytes:
    """What a source has before it includes a file; empty where it does so through others, or the file is a source."""
    text = b"" if how.part_of is None else how.part_of.read_bytes()
    include = rb'^[ \t]*#[ \t]*include[ \t]*["<](?:[^">\n]*/)?%s[">]' % re.escape(path.name).encode()
    found = re.search(include, text, re.MULTILINE)
    return b"" if found is None else text[: found.start()]
