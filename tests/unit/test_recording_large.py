"""Buffers above 2 GiB: written as the library writes them, read again, to the last byte. Most of it is a hole."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tuner.recorders.recordings.format import RecordingFile
from tuner.recorders.recordings.raw_captures import read_raw

SIZE = (2 << 30) + 4096 + 4


def field(name: str, size: int) -> bytes:
    return struct.pack("<QQ", len(name), size) + name.encode()


@pytest.mark.integration
def test_a_buffer_above_two_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "launch-1-000000.raw"
    small = {
        "api": b"cuda",
        "kernel": b"k",
        "form": b"none",
        "text": b"",
        "options": b"",
        "signature": struct.pack("<Q", 1),
        "global": struct.pack("<3Q", 1 << 30, 1, 1),
        "local": struct.pack("<3Q", 256, 1, 1),
        "arguments": struct.pack("<Q", 2),
        "0/value": struct.pack("<Q", 1 << 40),
        "0/points": struct.pack("<QQ", 1, 0),
        "1/memory": struct.pack("<QQ", 1 << 40, SIZE),
    }
    with path.open("wb") as file:
        for name, value in small.items():
            file.write(field(name, len(value)) + value)
        for when, last in (("before", b"one!"), ("after", b"two!")):
            file.write(field(f"1/{when}", SIZE))
            file.seek(SIZE - len(last), 1)
            file.write(last)
        file.write(field("seconds", 8) + struct.pack("<d", 0.5) + field("end", 0))
    written = read_raw(path).write(tmp_path, name="k")
    assert written.stat().st_size < 32 << 20
    with RecordingFile(written) as recorded:
        assert recorded.changed(1)
        before = recorded.before(1)
        assert (len(before), bytes(before[-8:]), bytes(before[1 << 31 : (1 << 31) + 4])) == (
            SIZE,
            bytes(4) + b"one!",
            bytes(4),
        )
        del before
        assert bytes(recorded.after(1)[-4:]) == b"two!"
