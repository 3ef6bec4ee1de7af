"""Builds of an application in copies of its folder: with other texts in the place of some of its sources.

May not run or judge what was built.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.core.errors import FullDiskError, UsageError
from tuner.core.types import Source
from tuner.driver.applications.included_files import Inclusions
from tuner.driver.applications.trees import Tree, TreeRun

__all__ = ["PLAIN", "Rebuilt", "build_in", "source_below", "tree_with"]

PLAIN = "as it is"
"""How messages call a build of the unchanged sources."""
_CURE = "leave that out; see that it builds without"
_LEAST_BYTES = 1 << 16
"""On a disk, below which it is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """How an application is built and judged.

    Attributes:
        folder: that holds its sources; the copies are made of it.
        build: the command that builds it there, for a shell; empty where the run's command builds.
        command: the application, run in ``here``.
        here: below the folder.
        check: a command for a shell that judges a run by its status; it gets what the run printed. Empty for none.
        rtol: by how much numbers in what the application prints may differ, relative to the larger one.
        varies: lines that the application prints otherwise each time, with ``*`` for what is not compared; those of a
            file that it writes begin with the file's name and ``: ``.
    """

    folder: Path
    build: str
    command: tuple[str, ...]
    here: Path
    check: str = ""
    rtol: float = 0.0
    varies: tuple[str, ...] = ()


def source_below(folder: Path, source: Source, place: Path, user: str) -> Path:
    """The file below a folder that is a kernel's source: by its name and text, of several the one at its place.

    Args:
        folder: of the application's sources.
        source: as the kernel has it.
        place: where the kernel's own lies.
        user: the run or the spec, for messages.

    Raises:
        UsageError: there is none, or several.
    """
    wanted = source.data
    same = [
        path
        for path in sorted(folder.rglob(source.name))
        if path.is_file() and path.read_bytes().replace(b"\r\n", b"\n") == wanted
    ]
    if not same:
        message = f"no {source.name} below {folder} has the text that {user} was made of"
        raise UsageError(message, "tune it as it is now, or name its folder with --tree")
    if len(same) > 1 and place.resolve() not in same:
        shown = " and ".join(str(path.relative_to(folder)) for path in same[:2])
        raise UsageError(
            f"{shown} below {folder} are the source of {user}", "name a smaller folder with --tree"
        )
    return place.resolve() if place.resolve() in same else same[0]


def tree_with(application: Rebuilt, scratch: Path, texts: Mapping[str, bytes]) -> Tree:
    """A copy of an application's folder with other files; sources that include one of them are new there as well.

    Args:
        application: its folder is copied.
        scratch: where the copy is to be; must not exist.
        texts: contents by path below the folder.

    Raises:
        UsageError: the folder cannot be copied.
        MachineError: commands cannot be run in copies here.
    """
    scratch.mkdir()
    tree = Tree(application.folder, scratch)
    inclusions = Inclusions(tree.copy)
    including = {path for name in texts for path in inclusions.sources(tree.copy / name)}
    files = {path: path.read_bytes() for path in including}
    files |= {tree.copy / name: text for name, text in texts.items()}
    for file, text in files.items():
        # A new file has a new time, by which `make` knows. What a link leads to is the user's own.
        mode = file.stat().st_mode
        file.unlink()
        file.write_bytes(text)
        file.chmod(mode)
    return tree


def build_in(
    tree: Tree, application: Rebuilt, way: str, *, cure: str = _CURE, around: Sequence[str] = ()
) -> None:
    """Builds it in a copy.

    Args:
        tree: the copy.
        application: how it is built.
        way: what is different there, for messages.
        cure: for messages, where something is different.
        around: words of a command that runs the words behind it.

    Raises:
        UsageError: the build fails.
        FullDiskError: it fails for want of room.
    """
    built = tree.run([*around, "sh", "-c", application.build], folder=application.folder.resolve())
    if built.status != 0:
        message = f"{application.build!r} fails {way} with status {built.status}"
        if _full_disk(tree, built):
            raise FullDiskError(
                f"{message}, as the disk is full", "make room, or set TMPDIR to a folder that has it"
            )
        cure = "it is run in --tree, which has to hold all that it writes" if way == PLAIN else cure
        raise UsageError(f"{message}: {built.failure or 'it says nothing'}", cure)


def _full_disk(tree: Tree, built: TreeRun) -> bool:
    """Whether a build has failed for want of room; what it said of that may have found none either."""
    said = built.errors + built.output
    return os.strerror(errno.ENOSPC).encode() in said or (
        not said and shutil.disk_usage(tree.copy).free < _LEAST_BYTES
    )
