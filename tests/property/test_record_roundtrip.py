"""Whatever JSON can hold comes back from a run record as it was, in order, with a chain that an audit accepts."""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tuner.core.canonical import canonical_json, digest, from_canonical, from_json
from tuner.core.errors import RecordError
from tuner.recorders.audit import audit_file
from tuner.recorders.content import blob_reference, pack, references, unpack
from tuner.recorders.record import Event, RunRecord

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
bodies = st.dictionaries(texts, values, max_size=4)
kinds = st.from_regex(r"[a-z][a-z0-9_./-]{0,8}", fullmatch=True)
events = st.builds(Event, kinds, bodies, st.none() | st.integers(0, (1 << 63) - 1))
quick = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(st.lists(st.lists(events, max_size=4), max_size=4), st.lists(st.binary(max_size=300), max_size=4))
@example([[Event("ask", {"\0": "\0 \u2028 \U0001f600 \ufeff", "ü": -0.0, "n": 10**4000})]], [b"", b"\0"])
@example([[Event("ask", {"f": [5e-324, 1.7976931348623157e308, 0.1, 1e22]}, 0)]], [])
@pytest.mark.integration
def test_events_and_blobs_come_back(batches: list[list[Event]], blobs: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.run"
        returned = []
        with RunRecord.create(path) as record:
            for batch in batches:
                naming = [Event("blobs", {"names": [blob_reference(data) for data in blobs]})]
                returned += record.append([*batch, *naming], blobs)
        given_events = list(itertools.chain.from_iterable([*batch, None] for batch in batches))
        assert audit_file(path) == []
        with RunRecord.read(path) as record:
            assert list(record.events()) == returned
            assert record.head.seq == len(given_events)
            for data in blobs if batches else []:
                assert record.blob(digest(data)) == data
        for number, (event, recorded) in enumerate(zip(given_events, returned, strict=True), 1):
            assert recorded.seq == number
            if event is not None:
                assert (recorded.kind, recorded.trial) == (event.kind, event.trial)
                assert same(recorded.body, event.body)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunRecord]:
    """A record to which nothing comes."""
    with RunRecord.create(tmp_path_factory.mktemp("record") / "a.run") as record:
        yield record


@quick
@given(body=bodies, value=st.sampled_from([float("nan"), float("inf"), float("-inf")]), key=texts)
@pytest.mark.integration
def test_non_finite_values_are_refused(
    empty: RunRecord, body: dict[str, Any], value: float, key: str
) -> None:
    with pytest.raises(RecordError, match=r"cannot be recorded: .* is (nan|inf|-inf); bodies hold"):
        empty.append([Event("sample", {**body, key: [value]})])
    assert empty.head.seq == 0


@quick
@given(st.binary(max_size=2000), st.integers(0, 100), st.data())
def test_packing_comes_back_and_damage_never_passes_for_the_blob(
    data: bytes, repeat: int, draw: st.DataObject
) -> None:
    data = data + data[:20] * repeat
    packed, stored = pack(data)
    assert unpack(packed, stored, len(data)) == data
    if stored:
        place = draw.draw(st.integers(0, len(stored) - 1))
        broken = bytearray(stored)
        broken[place] ^= 1 << draw.draw(st.integers(0, 7))
        try:
            result = unpack(packed, bytes(broken), len(data))
        except ValueError:
            return
        # zlib's checksum, or else the digest, tells them apart; its header has bits that mean nothing.
        assert result != data or packed


def same(left: Any, right: Any) -> bool:
    """Equal in type too: 1, 1.0 and true are equal to Python."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return bool(left.keys() == right.keys()) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return bool(left.hex() == right.hex())
    return bool(left == right)


NAMED = digest(b"named")
blob_texts = st.sampled_from(
    [
        f"blob:{NAMED}",
        f'"blob:{NAMED}"',
        f'x"blob:{NAMED}',
        f'blob:{NAMED}"',
        f'\\"blob:{NAMED}',
        f"blob:{NAMED}0",
        "blob:",
    ]
)
naming = st.recursive(
    blob_texts | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(blob_texts | texts, inner, max_size=3),
    max_leaves=8,
)


def names(value: Any) -> bool:
    """Whether a value anywhere, not a key, is a reference and nothing else."""
    if isinstance(value, (dict, list)):
        return any(map(names, value.values() if isinstance(value, dict) else value))
    return value == f"blob:{NAMED}"


@given(naming)
def test_references_are_found_in_the_text_as_they_are_in_the_value(value: Any) -> None:
    assert references(canonical_json({"value": value})) == ({NAMED} if names(value) else set())


@given(values)
def test_canonical_json_is_what_the_library_writes_and_reads(value: Any) -> None:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    assert canonical_json(value) == text
    assert same(from_canonical(text), value)
    assert same(from_json(text), value)


def test_cyclic_values_are_refused() -> None:
    body: dict[str, Any] = {}
    body["self"] = body
    with pytest.raises(RecursionError):
        canonical_json(body)
