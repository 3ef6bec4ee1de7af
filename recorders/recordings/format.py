"""The ``.rec`` file: one captured launch with everything that is needed to make it again.

A line that names the format, the length of a header, the header (canonical JSON), the chunks of the buffers' contents
(each compressed, equal ones stored once), and the SHA-256 of all that. May not know who reads or writes one: bytes of
a stranger's file give a one-line error, never a traceback, and no more memory than the header promises and the file
can hold.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tuner.core.arrays import copy_sparse, zeros
from tuner.core.canonical import canonical_json
from tuner.core.errors import FullDiskError, MachineError, UsageError
from tuner.core.files import NO_ROOM
from tuner.recorders.recordings.header import RecordedArgument, Recording, parse_header

__all__ = ["Captured", "RecordedArgument", "Recording", "RecordingFile", "parse_header", "write_recording"]

VERSION = 1
MAGIC = b"remix-tuner recording\n"

_CHUNK = 4 << 20
_LENGTH = struct.Struct("<Q")
_DIGEST = 32
_MOST_HEADER = 256 << 20
_HINT = "record it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """The contents of one buffer before the launch and after it."""

    before: memoryview
    after: memoryview


@dataclass(slots=True)
class _Pool:
    """Chunks by their hashes, in the order in which they are first met."""

    places: dict[str, int] = field(default_factory=dict)
    table: list[list[Any]] = field(default_factory=list)
    at: int = 0

    def add(self, data: memoryview, file: Any) -> int:
        name = hashlib.sha256(data).hexdigest()
        if name not in self.places:
            packed = zlib.compress(data, 1)
            self.places[name] = len(self.table)
            self.table.append([name, self.at, len(packed), len(data)])
            self.at += len(packed)
            file.write(packed)
        return self.places[name]


def write_recording(path: Path, recording: Recording, contents: Mapping[int, Captured]) -> str:
    """Writes a file whole or not at all.

    Args:
        path: of the file; an older one is replaced.
        recording: everything but the contents.
        contents: of each buffer, by the argument's number.

    Returns:
        The hash of what the launch is: program, arguments, contents and geometry; times, counts, the environment
        and addresses that nothing depends on do not count.

    Raises:
        MachineError: it cannot be written.
    """
    pool = _Pool()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w+b") as file, tempfile.TemporaryFile(dir=path.parent) as chunks:
            buffers = {
                str(number): {
                    "before": [pool.add(part, chunks) for part in _parts(captured.before)],
                    "after": [pool.add(part, chunks) for part in _parts(captured.after)],
                }
                for number, captured in sorted(contents.items())
            }
            plain = replace(recording, count=1, seconds=0.0, environment={}, arguments=_apart(recording))
            identity = {**plain.to_json(), "buffers": buffers, "names": [row[0] for row in pool.table]}
            digest = hashlib.sha256(canonical_json(identity).encode()).hexdigest()
            header = {
                "version": VERSION,
                "digest": digest,
                "recording": recording.to_json(),
                "buffers": buffers,
                "chunks": pool.table,
            }
            _write_all(file, canonical_json(header).encode(), chunks)
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        kind = FullDiskError if error.errno in NO_ROOM else MachineError
        raise kind(f"{path} cannot be written: {error.strerror}", "make room, or name a folder") from None
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return digest


def _apart(recording: Recording) -> tuple[RecordedArgument, ...]:
    """The arguments without addresses, which differ from run to run, where nothing in memory holds one."""
    if recording.inner:
        return recording.arguments
    return tuple(
        replace(a, place=0, value=bytes(len(a.value)) if a.kind == "pointer" else a.value)
        for a in recording.arguments
    )


def _parts(data: memoryview) -> Iterator[memoryview]:
    for at in range(0, len(data), _CHUNK):
        yield data[at : at + _CHUNK]


def _write_all(file: Any, header: bytes, chunks: Any) -> None:
    seal = hashlib.sha256()

    def put(data: bytes) -> None:
        seal.update(data)
        file.write(data)

    put(MAGIC)
    put(_LENGTH.pack(len(header)))
    put(header)
    chunks.seek(0)
    while part := chunks.read(_CHUNK):
        put(part)
    file.write(seal.digest())
    file.flush()
    os.fsync(file.fileno())


class RecordingFile:
    """A recording that is open for reading; use it as a context manager.

    The whole file is checked against its hash when it is opened, each chunk again when it is read.

    Raises:
        UsageError: no recording, damaged, or of a newer version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise UsageError(f"{path} is empty", _HINT) from None
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}", "name a .rec file") from None
        try:
            header = self._header()
            self.recording = parse_header(header["recording"], str(path))
            self.digest = str(header["digest"])
            self._chunks = self._table(header["chunks"])
            self._buffers = self._contents(header["buffers"])
        except BaseException:
            self._map.close()
            raise

    def __enter__(self) -> RecordingFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self._map.close()

    def before(self, argument: int) -> memoryview:
        """What a buffer held before the launch, writable; what is zero in it takes no memory.

        Raises:
            UsageError: the argument is no buffer, or a chunk is damaged.
        """
        return self._bytes(argument, 0)

    def after(self, argument: int) -> memoryview:
        """What a buffer held after it; raises as :meth:`before`."""
        return self._bytes(argument, 1)

    def changed(self, argument: int) -> bool:
        """Whether the launch changed a buffer's content; nothing is unpacked."""
        before, after = self._buffers[argument]
        return before != after

    def _wrong(self, what: str, hint: str = _HINT) -> NoReturn:
        raise UsageError(f"{self.path}: {what}", hint)

    def _header(self) -> dict[str, Any]:
        head = len(MAGIC) + _LENGTH.size
        if self._map[: len(MAGIC)] != MAGIC:
            self._wrong("this is no recording", "tuner record makes one")
        if len(self._map) < head + _DIGEST:
            self._wrong("the recording is cut short")
        size = _LENGTH.unpack(self._map[len(MAGIC) : head])[0]
        if size > _MOST_HEADER or head + size + _DIGEST > len(self._map):
            self._wrong("the recording is cut short or damaged")
        end = len(self._map) - _DIGEST
        seal = hashlib.sha256()
        with memoryview(self._map) as view:
            for at in range(0, end, _CHUNK):
                with view[at : min(at + _CHUNK, end)] as part:
                    seal.update(part)
        if seal.digest() != self._map[end:]:
            self._wrong("the recording is damaged: its hash differs")
        self._start, self._end = head + size, end
        try:
            header = json.loads(self._map[head : head + size])
            # Infinities, which Python reads and JSON has not.
            json.dumps(header, allow_nan=False)
        except (ValueError, RecursionError):
            self._wrong("its header is no JSON")
        if not isinstance(header, dict) or header.get("version") != VERSION:
            found = header.get("version") if isinstance(header, dict) else None
            self._wrong(f"version {found!r} is not known", f"this release reads version {VERSION}")
        if not {"digest", "recording", "buffers", "chunks"} <= header.keys():
            self._wrong("its header is incomplete")
        return header

    def _table(self, table: Any) -> list[tuple[str, int, int, int]]:
        found = []
        for row in table if isinstance(table, list) else self._wrong("its header has no table of chunks"):
            if not (isinstance(row, list) and len(row) == 4 and isinstance(row[0], str)):
                self._wrong("its table of chunks is damaged")
            name, at, packed, size = row
            if not all(type(n) is int and n >= 0 for n in (at, packed, size)) or size > _CHUNK:
                self._wrong("its table of chunks is damaged")
            if self._start + at + packed > self._end:
                self._wrong("a chunk lies outside of the file")
            found.append((name, at, packed, size))
        return found

    def _contents(self, buffers: Any) -> dict[int, tuple[list[int], list[int]]]:
        wanted = {str(i): a for i, a in enumerate(self.recording.arguments) if a.kind == "buffer"}
        if not isinstance(buffers, dict) or buffers.keys() != wanted.keys():
            self._wrong("contents and arguments do not agree")
        found = {}
        for number, argument in wanted.items():
            entry = buffers[number]
            if not isinstance(entry, dict):
                self._wrong(f"argument {number} has no contents")
            lists: list[Any] = [entry.get("before"), entry.get("after")]
            for chunks in lists:
                if not isinstance(chunks, list) or not all(
                    type(n) is int and 0 <= n < len(self._chunks) for n in chunks
                ):
                    self._wrong(f"the contents of argument {number} are damaged")
                if sum(self._chunks[n][3] for n in chunks) != argument.size_bytes:
                    self._wrong(f"the contents of argument {number} have another size")
            found[int(number)] = (lists[0], lists[1])
        return found

    def _bytes(self, argument: int, which: int) -> memoryview:
        if argument not in self._buffers:
            self._wrong(f"argument {argument} is no buffer", "its arguments count from 0")
        result = zeros((self.recording.arguments[argument].size_bytes,), np.dtype(np.uint8))
        place, last, data = 0, -1, np.empty(0, np.uint8)
        for number in self._buffers[argument][which]:
            if number != last:
                last, data = number, np.frombuffer(self._unpacked(number), np.uint8)
            copy_sparse(data, result[place : place + data.size])
            place += data.size
        return result.data

    def _unpacked(self, number: int) -> bytes:
        name, at, packed, size = self._chunks[number]
        unpacker = zlib.decompressobj()
        try:
            data = unpacker.decompress(self._map[self._start + at : self._start + at + packed], size + 1)
        except zlib.error:
            self._wrong("a chunk cannot be unpacked")
        if len(data) != size or hashlib.sha256(data).hexdigest() != name:
            self._wrong("a chunk is damaged: its hash differs")
        return data
