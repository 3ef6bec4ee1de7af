"""One writer for one run record: a lock that a killed process cannot leave behind.

May not open the record itself: closing any descriptor of a file drops all of a process's POSIX locks on it,
SQLite's included. So the lock is on a file of its own beside the record.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
from pathlib import Path

from tuner.core.errors import RecordError
from tuner.recorders.failures import os_failure

__all__ = ["WriterLock"]

# POSIX locks are the process's own: they exclude no second writer in the same process, and opening and
# closing the file there a second time would drop them. This table guards against both.
_mutex = threading.Lock()
_held: dict[tuple[int, int], int] = {}

_FLOCK = "hhqqi4x"


class WriterLock:
    """The right to write one record, held until :meth:`release` or the end of the process.

    A POSIX record lock: unlike ``flock`` it is not inherited by children, so a worker that outlives a killed
    tuner does not keep the record locked.
    """

    def __init__(self, path: Path, descriptor: int, key: tuple[int, int]) -> None:
        """Takes over a descriptor that is locked already; use :meth:`acquire`."""
        self._path = path
        self._descriptor = descriptor
        self._key = key
        self._pid = os.getpid()

    @classmethod
    def acquire(cls, record: Path) -> WriterLock:
        """Takes the lock of a record, without waiting.

        Raises:
            RecordError: another process (named) or this one writes it, or no lock file can be made there.
        """
        path = record.with_name(record.name + ".lock")
        with _mutex:
            while True:
                try:
                    lock = cls._attempt(record, path)
                except OSError as error:
                    raise os_failure(error, record, "locked") from error
                if lock is not None:
                    return lock

    @classmethod
    def _attempt(cls, record: Path, path: Path) -> WriterLock | None:
        key = _identity(path)
        if key is not None and _held.get(key) == os.getpid():
            raise _refusal(record, os.getpid())
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            pid = _holder(descriptor)
            os.close(descriptor)
            raise _refusal(record, pid) from None
        except OSError:
            os.close(descriptor)
            raise
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        # The last holder removes the file: a lock on a removed one excludes nobody.
        if _identity(path) != key:
            os.close(descriptor)
            return None
        _held[key] = os.getpid()
        return cls(path, descriptor, key)

    @property
    def mine(self) -> bool:
        """Whether this is still the process that took the lock, and not a child of it."""
        return os.getpid() == self._pid

    def release(self) -> None:
        """Gives the lock up and removes its file; safe to call twice."""
        with _mutex:
            if self._descriptor < 0:
                return
            if self.mine:
                if _identity(self._path) == self._key:
                    self._path.unlink(missing_ok=True)
                _held.pop(self._key, None)
            os.close(self._descriptor)
            self._descriptor = -1


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _holder(descriptor: int) -> int:
    request = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    answer = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, request))
    # Unlocked means that the holder ended between the two calls.
    return int(answer[4]) if answer[0] != fcntl.F_UNLCK else 0


def _refusal(record: Path, pid: int) -> RecordError:
    if pid == os.getpid():
        return RecordError(f"{record} is open for writing in this process already", "close it first")
    who = f"process {pid}" if pid > 0 else "a process that just ended, or of another machine"
    return RecordError(
        f"{record} is being written by {who}", "wait until it ends, or read the record instead"
    )
