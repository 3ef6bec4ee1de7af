"""Turns what the operating system and SQLite say into one line with a cause and a cure."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from tuner.core.errors import RecordError

__all__ = ["no_record", "os_failure", "sqlite_failure"]

_WRITABLE = "choose a folder that can be written, or read the record instead"
_SPACE = "free some space or raise the quota and resume: everything committed is safe"
_DAMAGED = "it is damaged or not a run record: see what is left with an audit, or restore a copy"

_BY_ERRNO = {
    errno.EACCES: ("no permission", _WRITABLE),
    errno.EPERM: ("no permission", _WRITABLE),
    errno.EROFS: ("the file system is read-only", _WRITABLE),
    errno.ENOSPC: ("the disk is full", _SPACE),
    errno.EDQUOT: ("the disk quota is used up", _SPACE),
    errno.EFBIG: ("the file is larger than this process may write", _SPACE),
    errno.ENOENT: ("there is no such file or folder", "check the path"),
    errno.ENOTDIR: ("a part of the path is not a folder", "check the path"),
    errno.EISDIR: ("it is a folder", "name the file"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one"),
    errno.ENOLCK: ("the file system cannot lock files", "choose a folder on a local disk"),
    errno.ENOTSUP: ("the file system cannot lock files", "choose a folder on a local disk"),
}

_BY_PRIMARY = {
    sqlite3.SQLITE_FULL: ("the disk is full", _SPACE),
    sqlite3.SQLITE_IOERR: ("the disk failed or is full", _SPACE),
    sqlite3.SQLITE_READONLY: ("the file or its folder cannot be written", _WRITABLE),
    sqlite3.SQLITE_PERM: ("no permission", _WRITABLE),
    sqlite3.SQLITE_CANTOPEN: (
        "the file or what SQLite keeps beside it cannot be opened",
        "check permissions; one whose writer was killed needs a writable folder: copy it with its -wal file",
    ),
    sqlite3.SQLITE_BUSY: ("another program holds it", "end that program and try again: nothing is lost"),
    sqlite3.SQLITE_LOCKED: ("another program holds it", "end that program and try again: nothing is lost"),
    sqlite3.SQLITE_NOTADB: ("it is not a run record", "check the path"),
    sqlite3.SQLITE_CORRUPT: ("its content is damaged", _DAMAGED),
    sqlite3.SQLITE_CONSTRAINT: ("something else wrote to it", "let only one program write a record"),
    sqlite3.SQLITE_TOOBIG: ("a value is over a gigabyte", "split it"),
}


def no_record(path: Path) -> RecordError:
    """The error for a file that SQLite can read and that is not a run record."""
    return RecordError(f"{path} is not a run record", "check the path")


def os_failure(error: OSError, path: Path, doing: str) -> RecordError:
    """What went wrong with a file.

    Args:
        error: as raised.
        path: the record.
        doing: what could not be done to it, for example ``"read"``.
    """
    cause, cure = _BY_ERRNO.get(
        error.errno or 0, (error.strerror or str(error), "check the path and the disk")
    )
    return RecordError(f"{path} cannot be {doing}: {cause}", cure)


def sqlite_failure(error: sqlite3.Error, path: Path, doing: str) -> RecordError:
    """The same as :func:`os_failure` for an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0) or 0
    if code == 0 and isinstance(error, sqlite3.DataError):
        code = sqlite3.SQLITE_TOOBIG
    cause, cure = _BY_PRIMARY.get(code & 0xFF, (str(error), _DAMAGED))
    return RecordError(f"{path} cannot be {doing}: {cause}", cure)
