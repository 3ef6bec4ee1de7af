"""What a recording library leaves behind: whatever its bytes are, a recording or a one-line error."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.core.errors import MachineError
from tuner.recorders.recordings.raw_captures import read_raw

SETTINGS = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def raw(**changes: bytes | None) -> bytes:
    """A CUDA launch as the library writes it, with other fields."""

    def number(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}Q", *values)

    fields: dict[str, bytes | None] = {
        "api": b"cuda",
        "kernel": b"axpy",
        "form": b"source",
        "text": b"void axpy() {}",
        "options": b"-DX=1",
        "signature": number(77),
        "global": number(64, 1, 1),
        "local": number(32, 1, 1),
        "shared": number(0),
        "inner": number(0),
        "device": b"d",
        "platform": b"p",
        "driver": b"v",
        "arguments": number(3),
        "0/value": number(4096 + 16),
        "0/points": number(2, 16),
        "1/value": b"\1\0\0\0",
        "2/memory": number(4096, 40),
        "2/before": bytes(40),
        "2/after": bytes(range(40)),
        "seconds": struct.pack("<d", 0.25),
        "end": b"",
    }
    fields |= changes
    data = b""
    for name, value in fields.items():
        if value is not None:
            data += struct.pack("<QQ", len(name), len(value)) + name.encode() + value
    return data


def test_a_sound_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "launch-1-000000.raw"
    path.write_bytes(raw())
    capture = read_raw(path)
    assert [a.kind for a in capture.recording.arguments] == ["pointer", "scalar", "buffer"]
    assert capture.recording.arguments[2].place == 4096
    assert bytes(capture.contents[2].after) == bytes(range(40))


def read(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    message = ""
    try:
        read_raw(path).write(path.parent, name="k")
    except MachineError as error:
        message = str(error)
    assert "\n" not in message


@SETTINGS
@given(size=st.integers(1, 2000))
def test_one_that_is_cut_short_is_refused(tmp_path: Path, size: int) -> None:
    data = raw()
    path = tmp_path / "launch-1-000000.raw"
    path.write_bytes(data[: 1 + size % (len(data) - 1)][: len(data) - 1])
    with pytest.raises(MachineError, match="not whole"):
        read_raw(path)


@SETTINGS
@given(at=st.integers(0, 1 << 20), bit=st.integers(0, 7))
def test_a_flipped_bit_gives_no_traceback(tmp_path: Path, at: int, bit: int) -> None:
    data = bytearray(raw())
    data[at % len(data)] ^= 1 << bit
    read(tmp_path / "launch-1-000000.raw", bytes(data))


NAMES = st.sampled_from(
    [
        *(
            "api",
            "kernel",
            "form",
            "text",
            "options",
            "signature",
            "global",
            "local",
            "shared",
            "inner",
            "arguments",
        ),
        *("0/value", "0/points", "1/value", "2/memory", "2/before", "2/after", "seconds", "2/name"),
    ]
)


@SETTINGS
@given(changes=st.dictionaries(NAMES, st.none() | st.binary(max_size=48), min_size=1, max_size=3))
def test_other_fields_give_no_traceback(tmp_path: Path, changes: dict[str, bytes | None]) -> None:
    read(tmp_path / "launch-1-000000.raw", raw(**changes))
