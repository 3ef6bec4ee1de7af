"""Headers that a build writes before it compiles: kept for whoever reads the sources after the copy is gone.

May not build anything.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tuner.driver.applications.trees import Tree
from tuner.spec.first.compile_commands import Compiled

__all__ = ["with_generated"]

_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc", ".ipp", ".def", ".tbl")


def with_generated(compiled: Mapping[Path, Compiled], tree: Tree, kept: Path) -> dict[Path, Compiled]:
    """How sources are compiled, with folders of the headers that a build has made in a copy.

    Args:
        compiled: how the build was seen to compile each source.
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
    return {
        source: replace(
            how,
            include=(
                *(folders[each] for each in (source.parent, *how.include) if each in folders),
                *how.include,
            ),
        )
        for source, how in compiled.items()
    }
