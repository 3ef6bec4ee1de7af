"""Files that are replaced whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

__all__ = ["NO_ROOM", "settle", "write_atomically"]

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of the errors of a full disk, and of limits that are like one."""


def write_atomically(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replaces a file whole or not at all; a device, a pipe or a terminal is written to and stays what it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if _is_special(path):
        path.write_bytes(data)
        return
    # What a link points to is replaced, not the link.
    target = path.resolve()
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        # Nobody asked for the draft's name.
        error.filename = str(path)
        raise
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise


def settle(draft: Path, path: Path) -> None:
    """Puts a finished file, which lies in the same folder or below it, in the place of another."""
    if _is_special(path):
        path.write_bytes(draft.read_bytes())
    elif path.is_symlink():
        write_atomically(path, draft.read_bytes())
    else:
        os.replace(draft, path)


def _is_special(path: Path) -> bool:
    """Whether something is there that is neither a file nor a folder: renaming over it would destroy it."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
