"""Headers for whoever reads the sources after the copy is gone: those that a build writes before it compiles.

Also what stands before a file where a source includes it. May not build anything.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tuner.driver.applications.included_files import Inclusions
from tuner.driver.applications.trees import Tree
from tuner.spec.first.compile_commands import Compiled

__all__ = ["with_generated"]

_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc", ".ipp", ".def", ".tbl")
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
    for path in sorted(tree.copy.rglob("*")):
        below = path.relative_to(tree.copy)
        if path.suffix in _HEADERS and path.is_file() and not (tree.original / below).exists():
            copy = kept / below
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    inclusions, found = Inclusions(tree.original), {}
    for path, how in compiled.items():
        text, parents = b"", [path.parent]
        if how.part_of is not None:
            text, parents = inclusions.before(path, how.part_of)
        places = (each for each in (*parents, *how.include) if each.is_relative_to(tree.original))
        made = dict.fromkeys(kept / each.relative_to(tree.original) for each in places)
        found[path] = replace(how, include=(*filter(Path.is_dir, made), *how.include))
        if text.strip():
            name = f"{path.resolve().relative_to(tree.original)}.h"
            file = kept / _BEFORE / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text)
            include = dict.fromkeys((*found[path].include, *parents, kept / _BEFORE))
            flags = (*how.flags, "-include", name)
            found[path] = replace(found[path], include=tuple(include), flags=flags)
    return found
