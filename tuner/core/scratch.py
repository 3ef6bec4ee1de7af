"""Folders for what a process needs while it runs. One that is killed cannot remove its own: the next one does.

Each folder is locked (``flock``, on the folder itself) by the process that made it, and the kernel lets go of the lock
with the process, however that ends. So a folder of this kind without a lock is nobody's. Services that clear the
temporary folder (systemd-tmpfiles) leave locked folders alone, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref

__all__ = ["ScratchFolder", "remove_abandoned"]

_MARK = "remix-tuner-run-"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ScratchFolder:
    """A new folder that only this user can enter, removed at the latest when the process ends or the object is gone.

    Folders that killed processes of this user have left in the same place are removed first.

    Args:
        kind: part of its name, for people who look.
        parent: where; the machine's folder for temporary files when left out.
    """

    def __init__(self, kind: str, *, parent: str | None = None) -> None:
        place = tempfile.gettempdir() if parent is None else parent
        remove_abandoned(place)
        while True:
            self.name = tempfile.mkdtemp(prefix=f"{_MARK}{kind}-", dir=place)
            # Between its making and its lock another process may take it for abandoned.
            with contextlib.suppress(FileNotFoundError):
                descriptor = os.open(self.name, _OPEN)
                locked = _lock(descriptor)
                if locked is None or (locked and _is_at(descriptor, self.name)):
                    break
                os.close(descriptor)
        self._end = weakref.finalize(self, _remove, self.name, descriptor, os.getpid())

    def cleanup(self) -> None:
        """Removes it; safe to call twice."""
        self._end()


def remove_abandoned(place: str) -> None:
    """Removes the folders in a place that processes of this user made and did not live to remove."""
    try:
        names = [name for name in os.listdir(place) if name.startswith(_MARK)]
    except OSError:
        return
    for name in names:
        path = os.path.join(place, name)
        try:
            descriptor = os.open(path, _OPEN)
        except OSError:
            continue
        try:
            if os.fstat(descriptor).st_uid == os.geteuid() and _lock(descriptor) and _is_at(descriptor, path):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Whether nobody else has the folder, which is this process's from now on; ``None`` where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_at(descriptor: int, path: str) -> bool:
    try:
        there, ours = os.stat(path, follow_symlinks=False), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _remove(path: str, descriptor: int, process: int) -> None:
    # A fork that ends is not the end of the process that the folder belongs to.
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
    os.close(descriptor)
