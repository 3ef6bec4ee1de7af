"""The audit: whatever is done to a closed record is found, and an intact one is let pass."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.core.errors import RecordError
from tuner.recorders import store
from tuner.recorders.audit import audit_file
from tuner.recorders.content import blob_reference, link, pack
from tuner.recorders.record import Event, RunRecord

FLIPS = 300
TEXT = b"target triple = x86_64\n" * 40
NOISE = random.Random(1).randbytes(3000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    record = tmp_path / "a.run"
    with RunRecord.create(record) as opened:
        opened.append([Event("start", {"spec": blob_reference(TEXT)})], [TEXT])
        opened.append([Event("samples", {"times_s": [0.001, n / 7], "who": "ü" * n}, n) for n in range(20)])
        opened.append([Event("build", {"code": [blob_reference(NOISE)]}, 1)], [NOISE])
    return record


def checks(path: Path) -> set[str]:
    return {finding.check for finding in audit_file(path) if finding.error}


def edit(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def edit_and_seal(path: Path, *statements: str) -> None:
    """What a forger would do who knows of the digest beside the file."""
    edit(path, *statements)
    store.write_digest(path)


def test_an_intact_record_passes(path: Path) -> None:
    assert audit_file(path) == []
    assert audit_file(str(path)) == []


def test_every_flipped_bit_is_found(path: Path) -> None:
    chance = random.Random(2)
    original = path.read_bytes()
    for _ in range(FLIPS):
        place, bit = chance.randrange(len(original)), chance.randrange(8)
        data = bytearray(original)
        data[place] ^= 1 << bit
        path.write_bytes(data)
        assert "digest" in checks(path), f"bit {bit} of byte {place}"
    path.write_bytes(original)
    assert audit_file(path) == []


def test_flipped_bits_of_content_are_found_without_the_digest(path: Path) -> None:
    chance = random.Random(3)
    store.digest_path(path).unlink()
    original = path.read_bytes()
    connection = sqlite3.connect(path)
    stored = [row[0].encode() for row in connection.execute("SELECT body FROM event")]
    stored += [row[0] for row in connection.execute("SELECT hash FROM event UNION ALL SELECT data FROM blob")]
    connection.close()
    # What is longer than a page is stored in pieces.
    places = [(original.index(piece[:200]), len(piece[:200])) for piece in stored]
    for _ in range(FLIPS):
        start, length = chance.choice(places)
        data = bytearray(original)
        data[start + chance.randrange(length)] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        assert checks(path), "not found"
    path.write_bytes(original)
    assert checks(path) == set()


@pytest.mark.parametrize("seal", [False, True])
def test_truncated_files_are_found_at_every_length(path: Path, seal: bool) -> None:
    original = path.read_bytes()
    for length in {0, 1, 50, 99, 100, 101, 4095, 4096, 5000, len(original) // 2, len(original) - 1}:
        path.write_bytes(original[:length])
        if seal:
            store.write_digest(path)
        found = checks(path)
        assert "truncated" in found, length
        assert ("digest" in found) is not seal


def test_appended_bytes_are_found(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")
    assert checks(path) == {"digest"}


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("UPDATE event SET body = '{\"n\":1}' WHERE seq = 5", "chain"),
        ("UPDATE event SET body = '{\"n\": 1}' WHERE seq = 5", "body"),
        ("UPDATE event SET body = '[1]' WHERE seq = 5", "body"),
        ("UPDATE event SET body = '{' WHERE seq = 5", "body"),
        ("UPDATE event SET body = x'ff' WHERE seq = 5", "chain"),
        ("UPDATE event SET body = 7 WHERE seq = 5", "chain"),
        ("UPDATE event SET kind = 'ask' WHERE seq = 5", "chain"),
        ("UPDATE event SET trial = 0 WHERE seq = 5", "chain"),
        ("UPDATE event SET trial = NULL WHERE seq = 5", "chain"),
        ("UPDATE event SET hash = zeroblob(32) WHERE seq = 5", "chain"),
        ("UPDATE event SET hash = 'x' WHERE seq = 5", "chain"),
        ("DELETE FROM event WHERE seq = 5", "gap"),
        ("UPDATE event SET seq = 100 WHERE seq = 22", "gap"),
        ("UPDATE event SET seq = seq - 1", "gap"),
        ("DELETE FROM blob WHERE packed = 0", "missing_blob"),
        ("UPDATE blob SET data = zeroblob(3000) WHERE packed = 0", "blob"),
        ("UPDATE blob SET data = zeroblob(30) WHERE packed = 1", "blob"),
        ("UPDATE blob SET size_bytes = 1", "blob"),
        ("UPDATE blob SET digest = 5 WHERE packed = 0", "blob"),
        ("UPDATE meta SET value = 'running'", "state"),
        ("UPDATE meta SET value = 'odd'", "state"),
        ("DELETE FROM meta", "state"),
        ("CREATE VIEW v AS SELECT 1", "format"),
        ("DROP TABLE blob", "format"),
        ("PRAGMA user_version = 9", "format"),
        ("PRAGMA application_id = 9", "format"),
    ],
)
def test_edits_are_found_behind_a_fresh_digest(path: Path, statement: str, check: str) -> None:
    edit_and_seal(path, statement)
    assert check in checks(path)


def test_one_change_is_one_finding_with_its_place(path: Path) -> None:
    edit_and_seal(path, "UPDATE event SET trial = 99 WHERE seq = 5")
    (finding,) = audit_file(path)
    assert (finding.check, finding.seq) == ("chain", 5)
    assert finding.message == "event 5 (samples) is not the one whose hash stands there"


def test_a_missing_blob_is_named_with_its_event(path: Path) -> None:
    edit_and_seal(path, "DELETE FROM blob WHERE packed = 0")
    (finding,) = audit_file(path)
    assert (finding.check, finding.seq) == ("missing_blob", 22)
    assert blob_reference(NOISE) == f"blob:{finding.blob}"


def test_findings_are_capped(path: Path) -> None:
    with RunRecord.open(path) as record:
        record.append([Event("ask", {"n": n}) for n in range(500)])
    edit_and_seal(path, "UPDATE event SET kind = 'other'")
    assert len(audit_file(path)) == 100


def test_a_chain_made_anew_passes_so_heads_must_be_kept_elsewhere(path: Path) -> None:
    with RunRecord.read(path) as record:
        head = record.head
        last = list(record.events())[-1]
        before = list(record.events())[-2]
    forged = link(bytes.fromhex(before.hash), last.seq, "other", None, "{}")
    edit_and_seal(
        path, f"UPDATE event SET kind='other', trial=NULL, body='{{}}', hash=x'{forged.hex()}' WHERE seq=22"
    )
    assert audit_file(path) == []
    with RunRecord.read(path) as record:
        assert record.head != head


@pytest.mark.parametrize("content", ["", "nonsense\n", "0" * 63, "G" * 64])
def test_a_digest_file_without_a_digest_is_found(path: Path, content: str) -> None:
    store.digest_path(path).write_text(content)
    assert checks(path) == {"digest"}


def test_no_digest_is_said_but_is_no_error(path: Path) -> None:
    store.digest_path(path).unlink()
    (finding,) = audit_file(path)
    assert (finding.check, finding.error) == ("state", False)
    assert "a.run.sha256 is missing" in finding.message


def test_a_live_record_is_audited_as_far_as_it_goes(path: Path) -> None:
    with RunRecord.open(path) as record:
        record.append([Event("ask", {})])
        (finding,) = audit_file(path)
        assert (finding.check, finding.error) == ("state", False)
        edit(path, "UPDATE event SET kind = 'x' WHERE seq = 3")
        assert checks(path) == {"chain"}


def test_a_journal_beside_a_closed_record_is_found_and_not_applied(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.run"
    copy.write_bytes(path.read_bytes())
    connection = sqlite3.connect(copy, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("UPDATE event SET kind = 'forged'")
    path.with_name("a.run-wal").write_bytes(copy.with_name("copy.run-wal").read_bytes())
    connection.close()
    assert checks(path) == {"journal"}
    openers: list[Callable[[Path], RunRecord]] = [RunRecord.read, RunRecord.open]
    for opener in openers:
        with pytest.raises(RecordError, match="no part of the closed record"):
            opener(path)
    path.with_name("a.run-wal").unlink()
    assert audit_file(path) == []


def test_a_blob_that_swells_is_not_unpacked(path: Path) -> None:
    packed, bomb = pack(bytes(50_000_000))
    assert packed
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE blob SET data = ?, packed = 1, size_bytes = 10", (bomb,))
    connection.close()
    store.write_digest(path)
    assert checks(path) == {"blob"}


def test_non_files_cannot_be_audited(tmp_path: Path) -> None:
    for target, why in ((tmp_path, "it is a folder"), (tmp_path / "none.run", "there is no such file")):
        with pytest.raises(RecordError, match=why):
            audit_file(target)
    other = tmp_path / "other.run"
    other.write_text("kernel: {}\n" * 100)
    assert checks(other) == {"format"}


@pytest.mark.parametrize("content", [b"", b"not a record\n", b"\x7fELF" + bytes(200)])
def test_a_file_that_was_never_a_record_is_a_mistake_and_no_difference(
    tmp_path: Path, content: bytes
) -> None:
    """Status 4 is for a record that differs; a wrong path is the user's mistake."""
    from tuner.driver.audit import audit

    (tmp_path / "notes.txt").write_bytes(content)
    with pytest.raises(RecordError, match="not a run record") as caught:
        audit(tmp_path / "notes.txt")
    assert caught.value.exit_status == 2


def test_a_record_that_lost_its_beginning_differs(path: Path) -> None:
    """With the digest of a closed record beside it, it is a damaged one."""
    from tuner.driver.audit import audit

    path.write_bytes(bytes(100) + path.read_bytes()[100:])
    report = audit(path)
    assert not report.clean


@pytest.mark.parametrize("given", ["", ".", "/"])
def test_a_path_without_a_name_is_no_record(given: str) -> None:
    for use in (RunRecord.read, RunRecord.open, RunRecord.create):
        with pytest.raises(RecordError, match="it names no file"):
            use(Path(given))
