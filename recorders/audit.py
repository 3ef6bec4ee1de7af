"""Says whether a run record is what its writer left: the file, the chain of events, the blobs.

May not repair anything and may not judge what events mean: that decisions follow from them is what the
driver's replay checks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core.canonical import canonical_json, digest, from_json
from tuner.core.errors import RecordError
from tuner.recorders import content, store
from tuner.recorders.failures import os_failure, sqlite_failure

__all__ = ["Finding", "audit_file", "is_meant_as_record"]

_PER_CHECK = 100
_HEADER_BYTES = 100
_APPLICATION = 68
"""Where SQLite's header holds the application's number; a writer killed at its first step has not set it yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about a record that a person should know.

    Attributes:
        check: what found it: ``digest`` (of the whole file), ``journal``, ``truncated``, ``format``,
            ``sqlite``, ``gap``, ``chain``, ``body``, ``blob``, ``missing_blob``, ``state``.
        message: one line.
        error: whether the record is not as it was written; otherwise it only can be vouched for less.
        seq: the event concerned.
        blob: the digest of the blob concerned.
    """

    check: str
    message: str
    error: bool = True
    seq: int | None = None
    blob: str | None = None


def is_meant_as_record(path: Path) -> bool:
    """Whether a file is a run record or was one: by its beginning, or by the digest that a closed one has beside it."""
    if store.digest_path(path).exists():
        return True
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError as error:
        raise os_failure(error, path, "audited") from error
    application = int.from_bytes(header[_APPLICATION : _APPLICATION + 4], "big")
    return header.startswith(b"SQLite format 3\0") and application in (0, store.APPLICATION_ID)


def audit_file(path: str | os.PathLike[str]) -> list[Finding]:
    """Checks a record, closed or live, without changing it.

    Compares the digest beside it, runs SQLite's own integrity check, follows the chain over all events, and
    compares every blob with its digest. At most 100 findings of each check are listed.

    Returns:
        What was found; an empty list means a closed record, byte for byte as it was closed.

    Raises:
        RecordError: there is no file, or it may not be read.
    """
    record = Path(path)
    try:
        if not record.is_file():
            raise store.not_there(record, "audited")
        if not os.access(record, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise os_failure(error, record, "audited") from error
    findings = list(_capped(_outside(record)))
    try:
        connection = _connect(record)
    except RecordError as error:
        findings.append(Finding(check="format", message=error.message))
    else:
        with contextlib.closing(connection):
            findings += _inside(connection, record)
    if any(finding.error for finding in findings):
        findings += _truncated(record)
    return list(dict.fromkeys(findings))


def _inside(connection: sqlite3.Connection, path: Path) -> list[Finding]:
    findings: list[Finding] = []
    # Damaged texts need not be UTF-8, and must be hashed as they are.
    connection.text_factory = bytes
    for check in (_sqlite, _events, _blobs, _state):
        try:
            findings += _capped(check(connection, path))
        except sqlite3.Error as error:
            message = sqlite_failure(error, path, "read").message
            findings.append(Finding(check="format", message=message))
    return findings


def _connect(path: Path) -> sqlite3.Connection:
    if store.stray_journal(path) is not None:
        # SQLite would apply the journal: what the digest vouches for is the file alone.
        return store.connect_immutable(path)
    return store.connect_reader(path)


def _capped(findings: Iterator[Finding]) -> Iterator[Finding]:
    counts: dict[str, int] = {}
    for finding in findings:
        count = counts[finding.check] = counts.get(finding.check, 0) + 1
        if count <= _PER_CHECK:
            yield finding


def _outside(path: Path) -> Iterator[Finding]:
    expected = store.read_digest(path)
    if expected is None:
        return
    if not expected:
        yield Finding(check="digest", message=f"{store.digest_path(path)} holds no SHA-256")
    elif store.file_digest(path) != expected:
        yield Finding(check="digest", message="the file has changed since it was closed")
    yield from _truncated(path)
    journal = store.stray_journal(path)
    if journal is not None:
        yield Finding(check="journal", message=f"{journal} is no part of the closed record beside it")


def _truncated(path: Path) -> Iterator[Finding]:
    size_bytes = path.stat().st_size
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    # https://www.sqlite.org/fileformat.html: page size at 16 (1 stands for 65536), number of pages at 28.
    page_bytes = int.from_bytes(header[16:18], "big")
    whole_bytes = (65536 if page_bytes == 1 else page_bytes) * int.from_bytes(header[28:32], "big")
    if size_bytes < _HEADER_BYTES:
        yield Finding(check="truncated", message=f"only {size_bytes} bytes are left")
    elif header.startswith(b"SQLite format 3\0") and size_bytes < whole_bytes:
        yield Finding(check="truncated", message=f"{size_bytes} of {whole_bytes} bytes are left")


def _sqlite(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    for (row,) in connection.execute(f"PRAGMA integrity_check({_PER_CHECK})"):
        text = row.decode("utf-8", "replace")
        if text != "ok":
            yield Finding(check="sqlite", message=re.sub(r"\s+", " ", text).strip())


def _events(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    digests = connection.execute("SELECT digest FROM blob")
    blobs = {key.hex() for (key,) in digests if isinstance(key, bytes)}
    place, previous = 0, content.GENESIS
    rows = connection.execute("SELECT seq, kind, trial, body, hash FROM event ORDER BY seq")
    for seq, kind, trial, body, value in rows:
        if seq != place + 1:
            yield Finding(check="gap", message=f"event {seq} follows event {place}", seq=seq)
        yield from _event(blobs, previous, seq, (kind, trial, body, value))
        # From the hash as stored, so that one changed event is one finding and not all that follow.
        place, previous = seq, value if isinstance(value, bytes) else b""


def _event(blobs: set[str], previous: bytes, seq: int, row: tuple[Any, Any, Any, Any]) -> Iterator[Finding]:
    kind, trial, body, value = row
    try:
        name, text = kind.decode(), body.decode()
        follows = content.link(previous, seq, name, trial, text) == value
    except (AttributeError, TypeError, ValueError):
        yield Finding(check="chain", message=f"event {seq} does not hold texts", seq=seq)
        return
    if not follows:
        yield Finding(
            check="chain", message=f"event {seq} ({name}) is not the one whose hash stands there", seq=seq
        )
    try:
        parsed = from_json(text)
        canonical = isinstance(parsed, dict) and canonical_json(parsed) == text
    except (ValueError, RecursionError):
        canonical = False
    if not canonical:
        yield Finding(check="body", message=f"the body of event {seq} is not canonical JSON", seq=seq)
        return
    for missing in sorted(content.references(text) - blobs):
        message = f"event {seq} names the blob {missing}, which is not there"
        yield Finding(check="missing_blob", message=message, seq=seq, blob=missing)


def _blobs(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    for key, size_bytes, packed, stored in connection.execute(
        "SELECT digest, size_bytes, packed, data FROM blob"
    ):
        name = key.hex() if isinstance(key, bytes) else repr(key)
        try:
            if digest(content.unpack(bool(packed), stored, size_bytes)) == name:
                continue
            what = "has another digest"
        except (TypeError, ValueError) as error:
            what = f"cannot be unpacked: {error}"
        yield Finding(check="blob", message=f"the blob {name} {what}", blob=name)


def _state(connection: sqlite3.Connection, path: Path) -> Iterator[Finding]:
    row = connection.execute("SELECT value FROM meta WHERE key = 'state'").fetchone()
    state = row[0].decode("utf-8", "replace") if row is not None and isinstance(row[0], bytes) else ""
    if state not in (store.RUNNING, store.CLOSED):
        yield Finding(check="state", message=f"the record's state is {state!r}")
    elif store.digest_path(path).exists():
        if state == store.RUNNING:
            yield Finding(check="state", message="a digest stands beside a record that was not closed")
    elif state == store.RUNNING:
        message = (
            "the record is not closed: its run goes on or was killed, and events at its end may be missing"
        )
        yield Finding(check="state", message=message, error=False)
    else:
        message = f"{store.digest_path(path).name} is missing: only events and blobs can be vouched for"
        yield Finding(check="state", message=message, error=False)
