"""The SQLite side of a run record: its schema, its connections, its journal modes, and the digest beside it.

May not know what events mean. Journal: WAL with synchronous NORMAL, which loses nothing when the process is
killed; on a network file system, where WAL's shared memory is unsafe, a rollback journal with synchronous
FULL.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from tuner.core.errors import RecordError
from tuner.recorders.failures import no_record, os_failure, sqlite_failure

__all__ = [
    "APPLICATION_ID",
    "CLOSED",
    "RUNNING",
    "SCHEMA_VERSION",
    "connect_immutable",
    "connect_reader",
    "connect_writer",
    "digest_path",
    "file_digest",
    "filesystem_type",
    "initialise",
    "is_network",
    "read_digest",
    "settle",
    "stray_journal",
    "sync_folder",
    "transaction",
    "write_digest",
]

APPLICATION_ID = 0x52335254
"""``R3RT`` in SQLite's header: what ``file`` and we know a run record by."""

SCHEMA_VERSION = 1
"""SQLite's ``user_version``; counts up when an older reader could not read what is written."""

RUNNING = "running"
CLOSED = "closed"

_SCHEMA = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE event (seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, trial INTEGER, body TEXT NOT NULL,"
    " hash BLOB NOT NULL)",
    "CREATE TABLE blob (digest BLOB PRIMARY KEY, size_bytes INTEGER NOT NULL, packed INTEGER NOT NULL,"
    " data BLOB NOT NULL)",
)
_BUSY_S = 10.0
_RETRY_S = 0.002
_NETWORK = re.compile(
    r"nfs4?|cifs|smb\w*|ncpfs|afs|9p|virtiofs|ceph|lustre|gpfs|beegfs|gfs2|ocfs2|glusterfs|pvfs2|orangefs|fuse(\..+)?"
)
_LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.ntfs-3g", "fuse.ext4"})


def initialise(path: Path) -> None:
    """Makes an empty record, complete or not at all. The caller holds the record's lock.

    Raises:
        RecordError: something stands there already, or the folder cannot be written.
    """
    if os.path.lexists(path):
        raise RecordError(f"{path} exists already", "choose another name, or open it to resume")
    for suffix in ("-wal", "-journal"):
        leftover = path.with_name(path.name + suffix)
        if leftover.exists():
            raise RecordError(f"{leftover} is left of a record that is gone", "move it away first")
    temporary = path.with_name(path.name + ".new")
    try:
        digest_path(path).unlink(missing_ok=True)
        # A creator that was killed leaves this file only; under the lock it is nobody else's.
        temporary.unlink(missing_ok=True)
        _write_empty(temporary)
        temporary.rename(path)
        sync_folder(path.parent)
    except (OSError, sqlite3.Error) as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _failure(error, path, "created") from error


def connect_writer(path: Path) -> sqlite3.Connection:
    """A connection that may write, in the journal mode that suits the file system.

    Raises:
        RecordError: not a record, newer than this version, damaged, or not writable.
    """
    connection = _connect(path, "mode=rw", "opened")
    try:
        wal = not is_network(filesystem_type(path.parent))
        mode = _switch_journal(connection, "wal" if wal else "truncate")
        connection.execute(f"PRAGMA synchronous={'NORMAL' if mode == 'wal' else 'FULL'}")
    except sqlite3.Error as error:
        connection.close()
        raise sqlite_failure(error, path, "opened for writing") from error
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that reads a record, be it live in another process, killed, or closed.

    Changes nothing but what a writer killed in the middle of a change left half done, which it takes back.

    Raises:
        RecordError: not a record, newer than this version, damaged, or not readable.
    """
    stray = stray_journal(path)
    if stray is not None:
        raise RecordError(
            f"{stray} is no part of the closed record beside it", "delete it: it would change the record"
        )
    try:
        return _connect(path, "mode=ro", "read")
    except RecordError as error:
        cause = error.__cause__
        code = cause.sqlite_errorcode & 0xFF if isinstance(cause, sqlite3.OperationalError) else 0
        if code == sqlite3.SQLITE_READONLY:
            # Killed in the middle of a change: half of it stands in the file until someone takes it back.
            _connect(path, "mode=rw", "read").close()
            return _connect(path, "mode=ro", "read")
        wal = path.with_name(path.name + "-wal")
        if code != sqlite3.SQLITE_CANTOPEN or wal.exists():
            raise
        # A copy of a record in WAL mode without its WAL, where SQLite may not put its shared memory.
        return connect_immutable(path)


def connect_immutable(path: Path) -> sqlite3.Connection:
    """A connection to the file as it stands, without any journal; only for a record that nobody writes.

    Raises:
        RecordError: as :func:`connect_reader`.
    """
    return _connect(path, "mode=ro&immutable=1", "read")


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raises ``RecordError`` unless the file is a run record of this version with exactly its tables."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise no_record(path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"{path} was written by a newer version (schema {version}, this one reads {SCHEMA_VERSION})",
            "upgrade remix-tuner",
        )
    # A trigger or a view in a record from elsewhere could change what is read and written.
    found = {row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if version != SCHEMA_VERSION or {_text(sql) for sql in found} != set(_SCHEMA):
        raise RecordError(f"{path} does not have a run record's tables", "restore a copy")


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """All or nothing, committed at the end.

    Raises:
        RecordError: with cause and cure; nothing of the transaction remains.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:
        raise sqlite_failure(error, path, "written") from error
    finally:
        # After a full disk SQLite has rolled back on its own, and a second rollback would be an error.
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def settle(connection: sqlite3.Connection, path: Path) -> None:
    """Brings everything into the one file and leaves WAL mode; waits for readers a while.

    Raises:
        RecordError: a reader stays, or the disk is full; nothing is lost.
    """
    try:
        connection.execute("PRAGMA synchronous=FULL")
        if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        mode = _switch_journal(connection, "delete")
    except sqlite3.Error as error:
        raise sqlite_failure(error, path, "closed") from error
    if mode != "delete":
        raise RecordError(
            f"{path} cannot be closed: another program reads it", "end that program and close it again"
        )


def digest_path(path: Path) -> Path:
    """Where a closed record's digest stands."""
    return path.with_name(path.name + ".sha256")


def file_digest(path: Path) -> str:
    """SHA-256 of the whole file in hexadecimal; for records that nobody writes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_digest(path: Path) -> None:
    """Writes the digest beside a settled record, as ``sha256sum`` does; file and folder reach the disk.

    Raises:
        RecordError: the folder cannot be written.
    """
    target = digest_path(path)
    temporary = target.with_name(target.name + ".new")
    escaped = path.name.replace("\\", "\\\\").replace("\n", "\\n")
    mark = "\\" if escaped != path.name else ""
    try:
        with path.open("rb") as record:
            os.fsync(record.fileno())
        line = f"{mark}{file_digest(path)}  {escaped}\n"
        with temporary.open("wb") as file:
            file.write(os.fsencode(line))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise os_failure(error, path, "closed") from error


def read_digest(path: Path) -> str | None:
    """The digest beside a record; ``""`` when the file there holds none, ``None`` when there is none."""
    try:
        data = digest_path(path).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise os_failure(error, digest_path(path), "read") from error
    found = re.match(rb"\\?([0-9a-f]{64})(?: |\n|$)", data)
    return found[1].decode() if found else ""


def stray_journal(path: Path) -> Path | None:
    """A journal beside a closed record: SQLite would apply it, and the digest would not tell.

    A digest is removed before a record is opened again, so both together are nobody's doing of ours.
    """
    for suffix in ("-wal", "-journal"):
        journal = path.with_name(path.name + suffix)
        # Looked at again at the end: a writer may be closing or opening it at this moment.
        if digest_path(path).exists() and _size(journal) and digest_path(path).exists():
            return journal
    return None


def sync_folder(folder: Path) -> None:
    """Makes a new or renamed file's entry reach the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def filesystem_type(folder: Path, mounts: str | None = None) -> str:
    """What kind of file system a folder is on, ``""`` where that is not known.

    Args:
        folder: any existing folder.
        mounts: the text of ``/proc/self/mounts``, read when left out.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    real = os.path.realpath(folder)
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[1])
        inside = point == "/" or real == point or real.startswith(point + "/")
        # Of mounts on one place the last is the one that is seen.
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def is_network(kind: str) -> bool:
    """Whether other machines may share a file system of this type, so that WAL's shared memory is unsafe."""
    return _NETWORK.fullmatch(kind) is not None and kind not in _LOCAL_FUSE


def not_there(path: Path, doing: str) -> RecordError:
    """What is said where no file stands at a path."""
    if path.is_dir():
        return RecordError(f"{path} cannot be {doing}: it is a folder", "name a record in it")
    return RecordError(f"{path} cannot be {doing}: there is no such file", "check the path")


def _connect(path: Path, options: str, doing: str) -> sqlite3.Connection:
    if not path.is_file():
        raise not_there(path, doing)
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?{options}", uri=True, timeout=_BUSY_S)
    except sqlite3.Error as error:
        raise sqlite_failure(error, path, doing) from error
    connection.isolation_level = None
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        check_schema(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise sqlite_failure(error, path, doing) from error
    except RecordError:
        connection.close()
        raise
    return connection


def _switch_journal(connection: sqlite3.Connection, mode: str) -> str:
    """Returns the mode that is in force then: SQLite may refuse WAL where it cannot share memory."""
    end = time.monotonic() + _BUSY_S
    while True:
        # Leaving and entering WAL mode needs the file alone, and SQLite's own waiting does not cover that.
        try:
            return str(connection.execute(f"PRAGMA journal_mode={mode}").fetchone()[0])
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
        time.sleep(_RETRY_S)


def _write_empty(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        # No journal: the file is nobody's until it is complete and renamed.
        connection.execute("PRAGMA journal_mode=MEMORY")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT INTO meta VALUES ('state', ?)", (RUNNING,))
        connection.execute("COMMIT")
    finally:
        connection.close()


def _failure(error: OSError | sqlite3.Error, path: Path, doing: str) -> RecordError:
    if isinstance(error, OSError):
        return os_failure(error, path, doing)
    return sqlite_failure(error, path, doing)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
