"""Recording files: what is written is read again, and no bytes of a stranger do more than a one-line error."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.core.canonical import canonical_json
from tuner.core.errors import TunerError, UsageError
from tuner.evaluators.recorded_contents import recorded_bytes
from tuner.recorders.recordings.format import (
    Captured,
    RecordedArgument,
    Recording,
    RecordingFile,
    write_recording,
)

SETTINGS = settings(
    deadline=None,
    max_examples=75,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
MAGIC = b"remix-tuner recording\n"


def sample(data: bytes = bytes(range(200)), **changes: object) -> tuple[Recording, dict[int, Captured]]:
    """A recording with one buffer and one scalar."""
    recording = Recording(
        api="opencl",
        entry="k",
        form="source",
        text="__kernel void k(__global char *x, int n) {}",
        arguments=(
            RecordedArgument(kind="buffer", size_bytes=len(data), root=0),
            RecordedArgument(kind="scalar", value=b"\1\0\0\0", size_bytes=4),
        ),
        global_size=(64,),
        local_size=(8,),
        offset=(0,),
        **changes,  # type: ignore[arg-type]
    )
    return recording, {0: Captured(before=memoryview(data), after=memoryview(data[::-1]))}


def sealed(header: object, chunks: bytes = b"") -> bytes:
    """A file with a good hash around any header."""
    text = json.dumps(header).encode()
    body = MAGIC + len(text).to_bytes(8, "little") + text + chunks
    return body + hashlib.sha256(body).digest()


@SETTINGS
@given(data=st.binary(min_size=1, max_size=3000), count=st.integers(1, 1 << 40), seconds=st.floats(0, 1e6))
@pytest.mark.integration
def test_written_recordings_are_read_again(tmp_path: Path, data: bytes, count: int, seconds: float) -> None:
    recording, contents = sample(data, count=count, seconds=seconds)
    digest = write_recording(tmp_path / "a.rec", recording, contents)
    with RecordingFile(tmp_path / "a.rec") as file:
        assert file.recording == recording
        assert file.digest == digest
        assert (file.before(0), file.after(0)) == (data, data[::-1])
        assert file.changed(0) == (data != data[::-1])


def test_times_and_counts_do_not_change_what_a_launch_is(tmp_path: Path) -> None:
    one = write_recording(tmp_path / "a.rec", *sample(count=1, seconds=0.5))
    same = write_recording(tmp_path / "b.rec", *sample(count=9, seconds=1.5))
    other = write_recording(tmp_path / "c.rec", *sample(bytes(200)))
    assert one == same != other


def test_contents_of_several_chunks_are_stored_once(tmp_path: Path) -> None:
    data = bytes(12 << 20)
    recording, contents = sample(data)
    write_recording(tmp_path / "a.rec", recording, contents)
    assert (tmp_path / "a.rec").stat().st_size < 64 << 10
    with RecordingFile(tmp_path / "a.rec") as file:
        assert file.before(0) == data


def test_contents_are_unpacked_once_until_the_file_is_another(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    write_recording(path, *sample())
    before, after = recorded_bytes(path, 0, after=False), recorded_bytes(path, 0, after=True)
    assert (before.tobytes(), after.tobytes()) == (bytes(range(200)), bytes(range(200))[::-1])
    assert recorded_bytes(path, 0, after=False) is before
    with pytest.raises(ValueError, match="read-only"):
        before[0] = 1
    assert recorded_bytes(path, 1, after=False).tobytes() == b"\1\0\0\0"
    write_recording(path, *sample(bytes(7)))
    assert recorded_bytes(path, 0, after=False).tobytes() == bytes(7)
    with pytest.raises(UsageError, match="argument 2 is no buffer"):
        recorded_bytes(path, 2, after=False)
    path.unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        recorded_bytes(path, 0, after=False)


@SETTINGS
@given(at=st.integers(0, 1 << 20), bit=st.integers(0, 7))
@pytest.mark.integration
def test_a_flipped_bit_is_found(tmp_path: Path, at: int, bit: int) -> None:
    path = tmp_path / "a.rec"
    write_recording(path, *sample())
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1 << bit
    path.write_bytes(data)
    with pytest.raises(UsageError) as found, RecordingFile(path):
        pass
    assert "\n" not in str(found.value)


@SETTINGS
@given(size=st.integers(0, 1 << 20))
@pytest.mark.integration
def test_a_truncated_file_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.rec"
    write_recording(path, *sample())
    data = path.read_bytes()
    path.write_bytes(data[: size % len(data)])
    with pytest.raises(UsageError), RecordingFile(path):
        pass


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@SETTINGS
@given(data=st.data())
@pytest.mark.integration
def test_a_hostile_header_with_a_good_hash_gives_one_line(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.rec"
    write_recording(path, *sample())
    raw = path.read_bytes()
    size = int.from_bytes(raw[len(MAGIC) : len(MAGIC) + 8], "little")
    start = len(MAGIC) + 8
    header = json.loads(raw[start : start + size])
    place = header
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if isinstance(inner, dict | list) and inner and data.draw(st.booleans()):
            place = inner
            continue
        place[key] = data.draw(JSON)
        break
    path.write_bytes(sealed(header, raw[start + size : -32]))
    message = ""
    try:
        with RecordingFile(path) as file:
            for number, argument in enumerate(file.recording.arguments):
                if argument.kind == "buffer":
                    assert len(file.before(number)) == argument.size_bytes
            canonical_json(file.recording.to_json()).encode()
    except TunerError as error:
        message = str(error)
    assert "\n" not in message


@SETTINGS
@given(data=st.binary(max_size=200) | st.binary(max_size=200).map(lambda b: MAGIC + b))
def test_no_bytes_at_all_give_a_traceback(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.rec"
    path.write_bytes(data)
    with pytest.raises(UsageError), RecordingFile(path):
        pass


def test_a_chunk_that_unpacks_to_more_than_it_says_is_stopped(tmp_path: Path) -> None:
    import zlib

    packed = zlib.compress(bytes(64 << 20))
    recording, _ = sample(bytes(16))
    header = {
        "version": 1,
        "digest": "",
        "recording": recording.to_json(),
        "buffers": {"0": {"before": [0], "after": [0]}},
        "chunks": [[hashlib.sha256(bytes(16)).hexdigest(), 0, len(packed), 16]],
    }
    path = tmp_path / "a.rec"
    path.write_bytes(sealed(header, packed))
    with RecordingFile(path) as file, pytest.raises(UsageError, match="damaged"):
        file.before(0)


def test_a_recording_of_a_version_to_come_is_named_and_one_that_was_moved_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.rec"
    write_recording(path, *sample())
    (tmp_path / "elsewhere").mkdir()
    path = path.rename(tmp_path / "elsewhere" / "b.rec")
    with RecordingFile(path) as file:
        assert file.recording == sample()[0]
    raw = path.read_bytes()
    start = len(MAGIC) + 8
    size = int.from_bytes(raw[len(MAGIC) : start], "little")
    header = json.loads(raw[start : start + size])
    path.write_bytes(sealed({**header, "version": header["version"] + 1}, raw[start + size : -32]))
    with (
        pytest.raises(UsageError, match=f"version {header['version'] + 1} is not known"),
        RecordingFile(path),
    ):
        pass
