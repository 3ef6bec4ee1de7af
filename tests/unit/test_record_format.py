"""What goes into a run record and what comes out: bodies, kinds, blobs, order, hashes."""

from __future__ import annotations

import hashlib
import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuner.core.canonical import canonical_json, digest
from tuner.core.errors import AuditError, RecordError
from tuner.core.types import Status
from tuner.recorders.content import GENESIS, blob_reference, pack, unpack
from tuner.recorders.record import Event, Recorded, RunRecord


@pytest.fixture
def record(tmp_path: Path) -> Iterator[RunRecord]:
    with RunRecord.create(tmp_path / "a.run") as opened:
        yield opened


def test_append_numbers_events_from_one_and_returns_what_readers_see(record: RunRecord) -> None:
    assert record.head.seq == 0
    returned = record.append([Event("ask", {"b": (1, 2), "a": Status.OK}), Event("build", {}, trial=7)])
    assert [(r.seq, r.kind, r.body, r.trial) for r in returned] == [
        (1, "ask", {"a": "ok", "b": [1, 2]}, None),
        (2, "build", {}, 7),
    ]
    assert list(record.events()) == returned
    assert (record.head.seq, record.head.hash) == (2, returned[-1].hash)


def test_hash_is_over_the_one_before_and_the_content(record: RunRecord) -> None:
    first, second = record.append([Event("a", {"x": "ü"}), Event("b", {}, trial=0)])
    expected = hashlib.sha256(GENESIS + '[1,"a",null]\n{"x":"ü"}'.encode()).digest()
    assert first.hash == expected.hex()
    assert second.hash == hashlib.sha256(expected + b'[2,"b",0]\n{}').hexdigest()


def test_equal_events_give_equal_heads(tmp_path: Path) -> None:
    heads = []
    for name in ("a", "b"):
        with RunRecord.create(tmp_path / name) as record:
            record.append([Event("ask", {"n": n}) for n in range(3)])
            heads.append(record.head)
    assert heads[0] == heads[1]


def test_events_can_start_later_and_keep_to_one_kind(record: RunRecord) -> None:
    record.append([Event("odd" if n % 2 else "even", {"n": n}) for n in range(2000)])
    assert [r.body["n"] for r in record.events(after=1995)] == [1995, 1996, 1997, 1998, 1999]
    assert [r.body["n"] for r in record.events(kind="odd")] == list(range(1, 2000, 2))
    assert [r.body["n"] for r in record.events(after=1998, kind="even")] == [1998]
    assert list(record.events(after=2000)) == []


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"times": [1.0, math.nan]}, "body['times'][1] is nan"),
        ({"a": {"b": math.inf}}, "body['a']['b'] is inf"),
        ({"a": {1: 2}}, "body['a'][1] is under a key of type int"),
        ({"a": {None: 2}}, "under a key of type NoneType"),
        ({"a": [{True: 2}]}, "under a key of type bool"),
        ({"n": np.int64(3)}, "body['n'] is of type int64"),
        ({"n": np.float64("nan")}, "body['n'] is nan"),
        ({"s": {1, 2}}, "body['s'] is of type set"),
        ({"s": b"x"}, "of type bytes"),
        ({"s": "\ud800"}, "not valid Unicode"),
        ({"\udcff": 1}, "not valid Unicode"),
    ],
)
def test_values_without_json_are_refused_with_their_place(
    record: RunRecord, body: dict[Any, Any], where: str
) -> None:
    with pytest.raises(RecordError) as caught:
        record.append([Event("good", {}), Event("sample", body)])
    assert where in str(caught.value)
    assert "'sample' event" in str(caught.value)
    assert record.head.seq == 0
    record.append([Event("good", {})])


def test_endless_nesting_is_refused(record: RunRecord) -> None:
    body: dict[str, Any] = {}
    body["self"] = body
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for bad in (body, {"deep": deep}):
        with pytest.raises(RecordError, match="nested too deeply"):
            record.append([Event("sample", bad)])


@pytest.mark.parametrize("kind", ["", "Ask", "a b", "a\n", "1a", "a\0", 3])
def test_kinds_are_lower_case_words(record: RunRecord, kind: Any) -> None:
    with pytest.raises(RecordError, match="not a kind"):
        record.append([Event(kind, {})])


@pytest.mark.parametrize("trial", [-1, True, 1.0, 1 << 63, "1"])
def test_trials_are_numbers(record: RunRecord, trial: Any) -> None:
    with pytest.raises(RecordError, match="not a trial's number"):
        record.append([Event("ask", {}, trial)])


def test_a_body_is_a_mapping(record: RunRecord) -> None:
    body: Any = [1]
    with pytest.raises(RecordError, match="give a mapping"):
        record.append([Event("ask", body)])


def test_blobs_come_back_and_are_stored_once(record: RunRecord) -> None:
    text, noise = b"pass " * 1000, np.random.default_rng(0).bytes(5000)
    record.append(
        [Event("build", {"ir": blob_reference(text), "n": [blob_reference(noise)]})], [text, noise, b""]
    )
    record.append([Event("build", {"ir": blob_reference(text)})], {digest(text): text})
    assert record.blob(digest(text)) == text
    assert record.blob(blob_reference(noise)) == noise
    assert record.blob(digest(b"")) == b""
    with sqlite3.connect(record.path) as connection:
        rows = connection.execute(
            "SELECT size_bytes, packed, length(data) FROM blob ORDER BY size_bytes, packed"
        ).fetchall()
    connection.close()
    assert [row[:2] for row in rows] == [(0, 0), (5000, 0), (5000, 1)]
    assert rows[2][2] < 100


def test_an_event_may_not_name_a_blob_that_is_not_there(record: RunRecord) -> None:
    with pytest.raises(RecordError, match="not recorded"):
        record.append([Event("build", {"code": ["x", {"y": blob_reference(b"gone")}]})], [b"other"])
    assert record.head.seq == 0
    with pytest.raises(RecordError, match="holds no blob"):
        record.blob(digest(b"other"))


def test_only_a_whole_text_names_a_blob(record: RunRecord) -> None:
    name = blob_reference(b"gone")
    texts = [name + " ", "x" + name, f'"{name}"', f'x"{name}', name[:-1], name.upper()]
    record.append([Event("llm", {"reply": texts, name: 1})])
    assert record.head.seq == 1


def test_blobs_must_have_the_digest_that_they_are_given_under(record: RunRecord) -> None:
    with pytest.raises(RecordError, match="another digest"):
        record.append([], {digest(b"a"): b"b"})
    single: Any = b"abc"
    with pytest.raises(RecordError, match="list of bytes"):
        record.append([], single)


def test_blobs_without_events_are_kept(record: RunRecord) -> None:
    assert record.append([], [b"abc"]) == []
    assert record.blob(digest(b"abc")) == b"abc"


@pytest.mark.parametrize("name", ["zz", "blob:", "blob:12"])
def test_asking_for_what_is_no_blob(record: RunRecord, name: str) -> None:
    with pytest.raises(RecordError):
        record.blob(name)


@pytest.mark.parametrize(
    "change", ["data = x'00'", "size_bytes = 3", "packed = 1 - packed", "data = NULL || 'x'"]
)
def test_a_damaged_blob_is_not_handed_out(record: RunRecord, change: str) -> None:
    data = b"abc" * 100
    record.append([], [data])
    connection = sqlite3.connect(record.path)
    if "NULL" in change:
        change = "data = 5"
    connection.execute(f"UPDATE blob SET {change}")
    connection.commit()
    connection.close()
    with pytest.raises(AuditError, match="blob"):
        record.blob(digest(data))


def test_unpacking_stops_at_the_stated_size() -> None:
    packed, stored = pack(b"\0" * 10_000_000)
    assert packed
    assert len(stored) < 50_000
    with pytest.raises(ValueError):
        unpack(True, stored, 1000)
    with pytest.raises(ValueError, match="early or late"):
        unpack(True, stored + b"x", 10_000_000)
    with pytest.raises(ValueError, match="early or late"):
        unpack(True, stored[:-2], 10_000_000)


def test_bodies_share_the_texts_of_their_keys(record: RunRecord) -> None:
    """Each had its own: half of the memory that a run of 100,000 trials was read into."""
    record.append([Event("a", {"a longer name": n}) for n in range(20)])
    keys = [key for event in record.events() for key in event.body]
    assert len({id(key) for key in keys}) == 1


@pytest.mark.parametrize("first", ['{"n":[1', '{"n":0},{"n":[1'])
def test_bodies_that_are_json_only_together_are_damaged(record: RunRecord, first: str) -> None:
    record.append([Event("a", {"n": n}) for n in range(4)])
    connection = sqlite3.connect(record.path, isolation_level=None)
    for seq, text in ((2, first), (3, "2]}")):
        connection.execute("UPDATE event SET body = ? WHERE seq = ?", (text, seq))
    connection.close()
    seen: list[Recorded] = []
    with pytest.raises(AuditError, match="event 2"):
        seen.extend(record.events(kind="a"))
    assert [event.body for event in record.events(after=3)] == [{"n": 3}]


def test_reading_notices_changed_and_missing_events(record: RunRecord) -> None:
    record.append([Event("a", {"n": n}) for n in range(5)])
    connection = sqlite3.connect(record.path, isolation_level=None)
    connection.execute("UPDATE event SET body = ? WHERE seq = 3", (canonical_json({"n": 3}),))
    seen: list[Recorded] = []
    with pytest.raises(AuditError, match="event 3"):
        seen.extend(record.events())
    connection.execute("DELETE FROM event WHERE seq = 3")
    with pytest.raises(AuditError, match="event 3"):
        seen.extend(record.events())
    assert [r.seq for r in record.events(kind="a")] == [1, 2, 4, 5]
    connection.execute("UPDATE event SET body = '{' WHERE seq = 4")
    connection.close()
    with pytest.raises(AuditError, match="event 4"):
        list(record.events(kind="a"))
