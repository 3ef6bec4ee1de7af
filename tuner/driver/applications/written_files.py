"""The files that a run of an application writes below its folder, with what they hold.

May not judge them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["Stamps", "stamps_of", "written_since"]

Stamps = Mapping[str, tuple[int, int, int]]
"""Of each file below a folder what changes when it is written: its number, its size and its time."""

_MOST_BYTES = 16 << 20
"""Of a file that is kept as it is; of larger ones, and of programs, the digest."""
_MOST_TOGETHER = 128 << 20
_CODE = (b"\x7fELF", b"!<arch>\n")
"""How objects, programs and their libraries begin: a command that builds before it runs writes these."""


def stamps_of(folder: Path) -> Stamps:
    """What the files below a folder are like now, by their paths below it."""
    return {
        os.path.relpath(path, folder): (status.st_ino, status.st_size, status.st_mtime_ns)
        for path, status in _files(folder)
    }


def written_since(before: Stamps, folder: Path) -> dict[str, bytes]:
    """What files hold that are new or were written since; objects and programs are left out.

    Args:
        before: what files were like.
        folder: that they lie below.
    """
    found: dict[str, bytes] = {}
    room = _MOST_TOGETHER
    for name, stamp in sorted(stamps_of(folder).items()):
        if before.get(name) == stamp:
            continue
        # What a process that is left behind takes away meanwhile is not there.
        with suppress(OSError), (folder / name).open("rb") as file:
            if file.read(len(_CODE[1])).startswith(_CODE):
                continue
            file.seek(0)
            if stamp[1] <= min(room, _MOST_BYTES):
                found[name] = file.read()
                room -= len(found[name])
            else:
                found[name] = b"digest " + hashlib.file_digest(file, "sha256").hexdigest().encode()
    return found


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(Path(entry.path))
                elif entry.is_file(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False)
