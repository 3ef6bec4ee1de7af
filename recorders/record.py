"""The run record: the one file that holds a whole run, written by one process and read by any.

May not decide anything and may not know what an event means: it keeps them in order, whole, and chained by
hashes. Format: one SQLite file (:mod:`tuner.recorders.store`), events and blobs as
:mod:`tuner.recorders.content` says.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from tuner.core.canonical import digest, from_canonical, from_json
from tuner.core.errors import AuditError, RecordError
from tuner.recorders import content, store
from tuner.recorders.failures import os_failure, sqlite_failure
from tuner.recorders.lock import WriterLock
from tuner.recorders.together import together

__all__ = ["Event", "Head", "Recorded", "RunRecord"]

_PAGE = 500
_TOGETHER = 50
"""Bodies parsed at once."""

_NOTHING = contextlib.nullcontext()


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, to be recorded.

    Attributes:
        kind: lower-case words joined by ``_ . / -``.
        body: JSON's own values with texts as keys. A text that is exactly ``"blob:<digest>"`` names a blob.
        trial: which trial it belongs to.
    """

    kind: str
    body: Mapping[str, Any]
    trial: int | None = None


class Recorded(NamedTuple):
    """A committed event; a tuple, since a reader of a long run makes a million.

    Attributes:
        seq: its place, from 1.
        kind: as in :class:`Event`.
        body: as every reader sees it: parsed from the recorded JSON, so tuples have become lists.
        trial: as in :class:`Event`.
        hash: over this event and, by the hash before, all before it; hexadecimal.
    """

    seq: int
    kind: str
    body: Mapping[str, Any]
    trial: int | None
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where a record ends: the last event's number (0: none yet) and hash."""

    seq: int
    hash: str


def _named(path: str | os.PathLike[str], verb: str) -> Path:
    target = Path(path)
    if not target.name:
        raise RecordError(f"{str(path)!r} cannot be {verb}: it names no file", "check the path")
    return target


class RunRecord:
    """One run record, open for appending or for reading.

    Use :meth:`create`, :meth:`open` or :meth:`read`, and close it, best with ``with``. A writer is for one
    thread. A reader keeps nothing open between calls, sees what has been committed at each, and holds no
    writer up.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection | None, lock: WriterLock | None) -> None:
        """Not for callers: :meth:`create`, :meth:`open` and :meth:`read` check what this relies on."""
        self._path = path
        self._connection = connection
        self._lock = lock
        self._open = True
        self._grouped = False
        self._ahead: tuple[int, bytes] | None = None
        self._unwritten: list[tuple[int, str, int | None, str, bytes]] = []

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Self:
        """A new, empty record, open for appending. A failure or a kill leaves no half-written one.

        Raises:
            RecordError: something stands there already, the folder is missing or cannot be written, the disk
                is full.
        """
        target = _named(path, "created")
        if not target.parent.is_dir():
            raise RecordError(
                f"{target} cannot be created: there is no folder {target.parent}", "create it first"
            )
        return cls._writer(target, new=True)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """An existing record, to append to: its writer was killed, or closed it (its digest is removed then).

        Raises:
            RecordError: another process writes it, it is no record or a newer one, cannot be written, or is a
                closed one that has changed since.
        """
        target = _named(path, "opened")
        store.connect_reader(target).close()
        return cls._writer(target, new=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """A record to read, live or closed; nothing is changed.

        Raises:
            RecordError: there is none, it is no record or a newer one, or it cannot be read.
        """
        target = _named(path, "read")
        store.connect_reader(target).close()
        return cls(target, None, None)

    @classmethod
    def _writer(cls, path: Path, *, new: bool) -> Self:
        lock = WriterLock.acquire(path)
        try:
            if new:
                store.initialise(path)
            else:
                _unseal(path)
            connection = store.connect_writer(path)
            try:
                with store.transaction(connection, path):
                    connection.execute("UPDATE meta SET value = ? WHERE key = 'state'", (store.RUNNING,))
            except BaseException:
                connection.close()
                raise
        except BaseException:
            lock.release()
            raise
        return cls(path, connection, lock)

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def closed(self) -> bool:
        """Of a writer: whether :meth:`close` was called. Of a reader: whether the record was closed."""
        if self._lock is not None or not self._open:
            return not self._open
        with self._reading() as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = 'state'").fetchone()
        return row is not None and row[0] == store.CLOSED

    @property
    def head(self) -> Head:
        """The last committed event's number and hash."""
        with self._reading() as connection:
            seq, value = _head(connection)
        return Head(seq, value.hex())

    def append(
        self, events: Sequence[Event], blobs: Mapping[str, bytes] | Iterable[bytes] = ()
    ) -> list[Recorded]:
        """Commits events, and the blobs that they name, in one transaction: all of it or none.

        Args:
            events: in order.
            blobs: as bytes, or by digest (checked). One that the record holds already is not stored again.

        Returns:
            The events as every reader will see them.

        Raises:
            RecordError: not open for appending; a body that JSON cannot give back; a blob that a body names
                is neither here nor in the record; the disk is full. Nothing of the call is recorded then, and
                the record stays usable.
        """
        connection = self._appending()
        checked = [
            (
                kind := content.check_kind(e.kind),
                content.check_trial(e.trial),
                content.encode_body(kind, e.body),
            )
            for e in events
        ]
        given = _by_digest(blobs) if blobs else {}
        with _NOTHING if self._grouped else store.transaction(connection, self._path):
            for *_, text in checked:
                self._check_references(text, given)
            for key, data in given.items():
                if not _holds(connection, key):
                    packed, stored = content.pack(data)
                    row = (bytes.fromhex(key), len(data), packed, stored)
                    connection.execute("INSERT INTO blob VALUES (?, ?, ?, ?)", row)
            seq, previous = self._ahead or _head(connection)
            rows, recorded = [], []
            for kind, trial, text in checked:
                seq += 1
                previous = content.link(previous, seq, kind, trial, text)
                rows.append((seq, kind, trial, text, previous))
                recorded.append(Recorded(seq, kind, from_canonical(text), trial, previous.hex()))
            self._unwritten += rows
            if not self._grouped:
                self._write()
            # Kept no longer than a transaction: an interrupt between its commit and a note of it would break the chain.
            self._ahead = (seq, previous) if self._grouped else None
        return recorded

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """All that is appended inside is committed at the end in one transaction, or none of it.

        For those who append much at a time. Inside, readers of this object see what was appended; others do not.

        Raises:
            RecordError: as :meth:`append`; what was appended inside is not in the record then.
        """
        with store.transaction(self._appending(), self._path):
            self._grouped = True
            try:
                yield
                self._write()
            finally:
                self._grouped, self._ahead = False, None
                self._unwritten = []

    def blob(self, reference: str) -> bytes:
        """A blob's bytes, checked against their digest.

        Args:
            reference: the digest, or ``"blob:<digest>"``.

        Raises:
            RecordError: the record has no such blob.
            AuditError: the stored bytes are not the ones that the digest stands for.
        """
        name = reference.removeprefix(content.REFERENCE)
        try:
            key = bytes.fromhex(name)
        except ValueError:
            raise RecordError(f"{reference!r} is not a digest", "give 64 hexadecimal digits") from None
        with self._reading() as connection:
            sql = "SELECT packed, data, size_bytes FROM blob WHERE digest = ?"
            row = connection.execute(sql, (key,)).fetchone()
        if row is None:
            raise RecordError(f"{self._path} holds no blob {name}", "audit the record: it may be damaged")
        try:
            data = content.unpack(bool(row[0]), row[1], row[2])
        except (TypeError, ValueError) as error:
            raise AuditError(
                f"the blob {name} in {self._path} is damaged: {error}", "restore a copy"
            ) from error
        if digest(data) != key.hex():
            raise AuditError(f"the blob {name} in {self._path} has another digest", "restore a copy")
        return data

    def events(self, after: int = 0, kind: str | None = None) -> Iterator[Recorded]:
        """The events committed at the time of the first one, in order.

        Args:
            after: start behind this one.
            kind: only these.

        Raises:
            AuditError: unless only one kind is asked for, a gap in the numbers, or a hash that does not
                follow from the one before.
        """
        place = after
        previous = content.GENESIS if after <= 0 else None
        # A slow reader would never catch up with a writer otherwise.
        last = self.head.seq
        while True:
            rows = self._page(place, last, kind)
            for first in range(0, len(rows), _TOGETHER):
                part = rows[first : first + _TOGETHER]
                bodies = together([text for _, _, _, text, _ in part])
                for number, (seq, name, trial, text, value) in enumerate(part):
                    if kind is None:
                        self._check(place, previous, (seq, name, trial, text, value))
                    place, previous = seq, value
                    try:
                        body = from_json(text) if bodies is None else bodies[number]
                        recorded = Recorded(seq, name, body, trial, value.hex())
                    except (AttributeError, TypeError, ValueError) as error:
                        raise self._damaged(seq) from error
                    yield recorded
            if len(rows) < _PAGE:
                return

    def close(self) -> None:
        """Ends the record: one settled file with its digest beside it, on the disk. Safe to call twice.

        A reader is only no longer usable.

        Raises:
            RecordError: another reader would not go away, or the disk is full. Every event is safe, and the
                record may be opened and closed again.
        """
        if not self._open:
            return
        self._open = False
        connection, lock = self._connection, self._lock
        if connection is None or lock is None:
            return
        try:
            if lock.mine:
                store.settle(connection, self._path)
                with store.transaction(connection, self._path):
                    connection.execute("UPDATE meta SET value = ? WHERE key = 'state'", (store.CLOSED,))
                connection.close()
                store.write_digest(self._path)
        finally:
            connection.close()
            lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A full disk fails twice, and the first failure is the one to see.
        with contextlib.suppress(RecordError) if error is not None else contextlib.nullcontext():
            self.close()

    def _appending(self) -> sqlite3.Connection:
        if not self._open:
            raise RecordError(f"{self._path} is closed", "open it again")
        if self._connection is None or self._lock is None:
            raise RecordError(f"{self._path} is open for reading only", "use RunRecord.open")
        if not self._lock.mine:
            raise RecordError(f"{self._path} belongs to the parent process", "append from there")
        return self._connection

    def _check_references(self, text: str, given: Mapping[str, bytes]) -> None:
        for key in sorted(content.references(text) - given.keys()):
            if not _holds(self._appending(), key):
                raise RecordError(
                    f"an event names the blob {key}, which is not recorded", "append it as well"
                )

    def _write(self) -> None:
        rows, self._unwritten = self._unwritten, []
        self._appending().executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?)", rows)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        if not self._open:
            raise RecordError(f"{self._path} is closed", "open it again")
        own = self._lock is not None and self._lock.mine
        connection = self._connection if own and self._connection else store.connect_reader(self._path)
        try:
            if self._unwritten and connection is self._connection:
                self._write()
            yield connection
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.Error as error:
            raise sqlite_failure(error, self._path, "read") from error
        finally:
            if connection is not self._connection:
                connection.close()

    def _page(self, after: int, last: int, kind: str | None) -> list[tuple[int, str, int | None, str, bytes]]:
        # Short reads: a cursor left open would keep the writer from closing.
        sql = "SELECT seq, kind, trial, body, hash FROM event WHERE seq > ? AND seq <= ?"
        given: list[int | str] = [after, last]
        if kind is not None:
            sql += " AND kind = ?"
            given.append(kind)
        with self._reading() as connection:
            return connection.execute(f"{sql} ORDER BY seq LIMIT {_PAGE}", given).fetchall()

    def _check(
        self, place: int, previous: bytes | None, row: tuple[int, str, int | None, str, bytes]
    ) -> None:
        seq, name, trial, text, value = row
        follows = previous is None or content.link(previous, seq, name, trial, text) == value
        if seq == place + 1 and follows:
            return
        raise self._damaged(place + 1)

    def _damaged(self, seq: int) -> AuditError:
        return AuditError(f"event {seq} in {self._path} is missing or changed", "audit the record")


def _unseal(path: Path) -> None:
    try:
        expected = store.read_digest(path)
        if expected is None:
            return
        # After this nothing could tell any longer that it was changed.
        if store.file_digest(path) != expected:
            raise RecordError(
                f"{path} has changed since it was closed",
                "audit it; to resume all the same, delete its .sha256",
            )
        store.digest_path(path).unlink()
        store.sync_folder(path.parent)
    except OSError as error:
        raise os_failure(error, path, "opened for writing") from error


def _head(connection: sqlite3.Connection) -> tuple[int, bytes]:
    row = connection.execute("SELECT seq, hash FROM event ORDER BY seq DESC LIMIT 1").fetchone()
    return (row[0], row[1]) if row is not None else (0, content.GENESIS)


def _holds(connection: sqlite3.Connection, key: str) -> bool:
    row = connection.execute("SELECT 1 FROM blob WHERE digest = ?", (bytes.fromhex(key),)).fetchone()
    return row is not None


def _by_digest(blobs: Mapping[str, bytes] | Iterable[bytes]) -> dict[str, bytes]:
    if isinstance(blobs, (bytes, bytearray, memoryview)):
        raise RecordError("blobs are given as one run of bytes", "give a list of bytes")
    if not isinstance(blobs, Mapping):
        return {digest(data): data for data in blobs}
    for key, data in blobs.items():
        if digest(data) != key.removeprefix(content.REFERENCE):
            raise RecordError(
                f"the blob given as {key} has another digest", "use tuner.core.canonical.digest"
            )
    return {key.removeprefix(content.REFERENCE): data for key, data in blobs.items()}
