"""A run record's life: created, opened, read, closed, and every way in which that is refused."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.core.errors import RecordError
from tuner.recorders import store
from tuner.recorders.audit import audit_file
from tuner.recorders.record import Event, RunRecord


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def made(path: Path, count: int = 3) -> Path:
    with RunRecord.create(path) as record:
        record.append([Event("ask", {"n": n}) for n in range(count)], [b"blob" * 50])
    return path


def test_closed_record_is_one_settled_file_with_its_digest(tmp_path: Path) -> None:
    path = made(tmp_path / "a.run")
    assert names(tmp_path) == ["a.run", "a.run.sha256"]
    data = path.read_bytes()
    assert data[18:20] == b"\x01\x01", "still in WAL mode"
    assert int.from_bytes(data[68:72], "big") == store.APPLICATION_ID
    expected = f"{hashlib.sha256(data).hexdigest()}  a.run\n"
    assert (tmp_path / "a.run.sha256").read_text() == expected
    with RunRecord.read(path) as record:
        assert record.closed
        assert record.head.seq == 3
    assert audit_file(path) == []


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
@pytest.mark.parametrize("name", ["plain.run", "mit Leerzeichen ü.run", "a\\b.run", "a%b?c#d.run"])
def test_digest_is_what_sha256sum_reads(tmp_path: Path, name: str) -> None:
    path = made(tmp_path / name)
    subprocess.run(["sha256sum", "-c", f"{name}.sha256"], cwd=tmp_path, check=True, capture_output=True)
    assert audit_file(path) == []


def test_running_record_is_in_wal_mode_and_not_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    with RunRecord.create(path) as record:
        record.append([Event("ask", {})])
        assert (tmp_path / "a.run-wal").exists()
        assert not record.closed
        with RunRecord.read(path) as reader:
            assert not reader.closed
            assert reader.head == record.head
    assert record.closed


def test_network_file_systems_get_a_rollback_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "is_network", lambda kind: True)
    path = tmp_path / "a.run"
    with RunRecord.create(path) as record:
        for n in range(5):
            record.append([Event("ask", {"n": n})])
            with RunRecord.read(path) as reader:
                assert reader.head.seq == n + 1
        assert "a.run-wal" not in names(tmp_path)
    assert names(tmp_path) == ["a.run", "a.run.sha256"]
    with RunRecord.open(path) as record:
        record.append([Event("ask", {})])
    assert audit_file(path) == []


def test_kinds_of_file_system_are_told_apart() -> None:
    mounts = "\n".join(
        [
            "/dev/sda / ext4 rw 0 0",
            "server:/x /home nfs4 rw 0 0",
            "/dev/sdb /home/me/lo\\040cal xfs rw 0 0",
            "me@host: /mnt fuse.sshfs rw 0 0",
            "tmpfs /mnt tmpfs rw 0 0",
            "nonsense",
        ]
    )
    kinds = {
        folder: store.filesystem_type(Path(folder), mounts)
        for folder in ("/usr", "/home/me", "/home/me/lo cal/x", "/homeless", "/mnt/y")
    }
    assert list(kinds.values()) == ["ext4", "nfs4", "xfs", "ext4", "tmpfs"]
    assert store.filesystem_type(Path("/"), "") == ""
    for kind in ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse", "lustre", "ceph"):
        assert store.is_network(kind), kind
    for kind in ("ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuseblk", "fuse.fuse-overlayfs", ""):
        assert not store.is_network(kind), kind


def test_reopening_continues_the_chain_and_drops_the_old_digest(tmp_path: Path) -> None:
    path = made(tmp_path / "a.run")
    with RunRecord.open(path) as record:
        assert not (tmp_path / "a.run.sha256").exists()
        assert record.append([Event("ask", {})])[0].seq == 4
    assert names(tmp_path) == ["a.run", "a.run.sha256"]
    assert audit_file(path) == []


def test_a_closed_record_that_changed_is_not_resumed(tmp_path: Path) -> None:
    path = made(tmp_path / "a.run")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE event SET kind = 'tell' WHERE seq = 2")
    connection.close()
    with pytest.raises(RecordError, match="changed since it was closed"):
        RunRecord.open(path)
    assert (tmp_path / "a.run.sha256").exists()
    (tmp_path / "a.run.sha256").unlink()
    RunRecord.open(path).close()


def test_create_never_touches_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    path.write_text("mine")
    with pytest.raises(RecordError, match=r"a\.run exists already; choose another name"):
        RunRecord.create(path)
    assert path.read_text() == "mine"
    link = tmp_path / "link.run"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(RecordError, match="exists already"):
        RunRecord.create(link)
    assert names(tmp_path) == ["a.run", "link.run"]


def test_create_refuses_a_lost_records_journal(tmp_path: Path) -> None:
    (tmp_path / "a.run-wal").write_bytes(b"x")
    with pytest.raises(RecordError, match="left of a record that is gone"):
        RunRecord.create(tmp_path / "a.run")
    assert names(tmp_path) == ["a.run-wal"]


def test_create_clears_away_what_a_killed_creator_left(tmp_path: Path) -> None:
    (tmp_path / "a.run.new").write_bytes(b"half")
    (tmp_path / "a.run.lock").write_bytes(b"")
    (tmp_path / "a.run.sha256").write_bytes(b"old")
    made(tmp_path / "a.run")
    assert names(tmp_path) == ["a.run", "a.run.sha256"]
    assert audit_file(tmp_path / "a.run") == []


@pytest.mark.parametrize("how", ["create", "open", "read"])
def test_missing_files_and_folders(tmp_path: Path, how: str) -> None:
    with pytest.raises(RecordError, match="there is no"):
        getattr(RunRecord, how)(tmp_path / "none" / "a.run")
    if how != "create":
        with pytest.raises(RecordError, match="it is a folder; name a record in it"):
            getattr(RunRecord, how)(tmp_path)
    assert names(tmp_path) == []


@pytest.mark.parametrize("how", ["open", "read"])
@pytest.mark.parametrize(
    "content", [b"", b"kernel: {}\n", b"\0" * 5000, b"SQLite format 3\0" + b"\xff" * 100]
)
def test_other_files_are_no_records(tmp_path: Path, how: str, content: bytes) -> None:
    path = tmp_path / "a.run"
    path.write_bytes(content)
    with pytest.raises(RecordError, match=r"a\.run"):
        getattr(RunRecord, how)(path)
    assert names(tmp_path) == ["a.run"]
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRAGMA user_version=2", "newer version .schema 2, this one reads 1.; upgrade"),
        ("PRAGMA user_version=0", "does not have a run record's tables"),
        ("PRAGMA application_id=5", "is not a run record"),
        ("CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM event; END", "tables"),
        ("DROP TABLE blob", "tables"),
    ],
)
def test_other_databases_are_no_records(tmp_path: Path, statement: str, message: str) -> None:
    path = made(tmp_path / "a.run")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()
    for how in (RunRecord.open, RunRecord.read):
        with pytest.raises(RecordError, match=message):
            how(path)
    assert names(tmp_path) == ["a.run", "a.run.sha256"]


def test_closed_objects_and_readers_do_not_append(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    record = RunRecord.create(path)
    record.close()
    record.close()
    for attempt in (lambda: record.append([]), lambda: record.head, lambda: list(record.events())):
        with pytest.raises(RecordError, match="is closed"):
            attempt()
    with RunRecord.read(path) as reader, pytest.raises(RecordError, match="reading only"):
        reader.append([Event("ask", {})])
    assert reader.closed
    with pytest.raises(RecordError, match="is closed"):
        reader.blob("0" * 64)


def test_an_error_inside_the_block_still_closes(tmp_path: Path) -> None:
    path = tmp_path / "a.run"

    def interrupted() -> None:
        with RunRecord.create(path) as record:
            record.append([Event("ask", {})])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert audit_file(path) == []


def test_a_connected_reader_only_delays_closing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_BUSY_S", 0.05)
    path = tmp_path / "a.run"
    record = RunRecord.create(path)
    record.append([Event("ask", {})])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN")
    assert other.execute("SELECT count(*) FROM event").fetchone() == (1,)
    with pytest.raises(RecordError, match=r"cannot be closed: another program .*; end that"):
        record.close()
    other.close()
    assert not (tmp_path / "a.run.sha256").exists()
    with RunRecord.open(path) as record:
        assert record.head.seq == 1
    assert audit_file(path) == []


def test_reading_changes_nothing(tmp_path: Path) -> None:
    path = made(tmp_path / "a.run", 2000)
    before = path.read_bytes(), path.stat().st_mtime_ns
    with RunRecord.read(path) as record:
        assert sum(1 for _ in record.events()) == 2000
    audit_file(path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert names(tmp_path) == ["a.run", "a.run.sha256"]


IN_READ_ONLY = """
import sys
from pathlib import Path
from tuner.core.errors import RecordError
from tuner.recorders.audit import audit_file
from tuner.recorders.record import RunRecord
folder = Path(sys.argv[1])
for name in ("closed.run", "copied.run"):
    with RunRecord.read(folder / name) as record:
        print(name, record.head.seq, [f.check for f in audit_file(folder / name)])
for attempt in (lambda: RunRecord.create(folder / "new.run"), lambda: RunRecord.open(folder / "closed.run")):
    try:
        attempt()
    except RecordError as error:
        print(error)
"""


def run_in(mount: str, script: str, folder: Path) -> str:
    """Runs a script where ``folder`` is mounted otherwise, in a namespace of its own."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    command = f'{mount} && exec "$0" -W error -c "$1" "$2"'
    shell = ["unshare", "-Urm", "sh", "-c", command, sys.executable, script, str(folder)]
    done = subprocess.run(shell, capture_output=True, text=True, env={**os.environ, "FOLDER": str(folder)})
    if done.returncode and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip("user namespaces are not allowed here")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_read_only_folder_can_be_read_and_refuses_writing(tmp_path: Path) -> None:
    made(tmp_path / "closed.run")
    with RunRecord.create(tmp_path / "live.run") as record:
        record.append([Event("ask", {})])
        checkpoint = sqlite3.connect(tmp_path / "live.run")
        checkpoint.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        checkpoint.close()
        # In WAL mode by its header, without a WAL: a copy of the one file only.
        shutil.copy(tmp_path / "live.run", tmp_path / "copied.run")
    mount = 'mount --bind "$FOLDER" "$FOLDER" && mount -o remount,bind,ro "$FOLDER"'
    lines = run_in(mount, IN_READ_ONLY, tmp_path).splitlines()
    assert lines[:2] == ["closed.run 3 []", "copied.run 1 ['state']"]
    assert len(lines) == 4
    for line in lines[2:]:
        assert "the file system is read-only; choose a folder that can be written" in line
    assert audit_file(tmp_path / "closed.run") == []


FILL = """
import sys
from pathlib import Path
from tuner.core.errors import RecordError
from tuner.recorders.record import Event, RunRecord
path = Path(sys.argv[1]) / "a.run"
record = RunRecord.create(path)
done = 0
try:
    while done < 100_000:
        done = record.append([Event("sample", {"text": "x" * 5000, "n": done})])[-1].seq
except RecordError as error:
    print(error)
print(done, record.head.seq)
with RunRecord.read(path) as reader:
    print(sum(1 for _ in reader.events()))
try:
    record.close()
except RecordError as error:
    print(error)
try:
    RunRecord.create(path.with_name("b.run"))
except RecordError as error:
    print(error)
print(sorted(p.name for p in path.parent.iterdir()))
"""


def test_full_disk_loses_nothing_and_says_so(tmp_path: Path) -> None:
    lines = run_in('mount -t tmpfs -o size=600k tmpfs "$FOLDER"', FILL, tmp_path).splitlines()
    assert "cannot be written: the disk is full; free some space" in lines[0]
    done, head = lines[1].split()
    assert int(done) > 20
    assert done == head == lines[2]
    assert "disk is full" in lines[3]
    assert "disk is full" in lines[4]
    assert "b.run" not in lines[5]


LIMITED = """
import resource, sys
from pathlib import Path
from tuner.core.errors import RecordError
from tuner.recorders.audit import audit_file
from tuner.recorders.record import Event, RunRecord
path = Path(sys.argv[1]) / "a.run"
record = RunRecord.create(path)
record.append([Event("ask", {})])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
done = 1
try:
    while done < 10_000:
        done = record.append([Event("sample", {"text": "x" * 5000})])[-1].seq
except RecordError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert record.head.seq == done
print(done, record.append([Event("resume", {})])[0].seq)
record.close()
print(audit_file(path))
"""


def test_a_failed_write_leaves_a_record_that_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", LIMITED, str(tmp_path)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert "cannot be written: the disk failed or is full; free some space" in lines[0]
    done, after = map(int, lines[1].split())
    assert after == done + 1 > 10
    assert lines[2] == "[]"


def test_batched_appends_are_visible_inside_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    with RunRecord.create(path) as record:
        record.append([Event("ask", {"n": 0})])
        with record.together():
            record.append([Event("ask", {"n": 1})])
            record.append([Event("ask", {"n": 2})])
            assert [e.body["n"] for e in record.events()] == [0, 1, 2]
            record.append([Event("ask", {"n": 3})])
            assert RunRecord.read(path).head.seq == 1
        assert RunRecord.read(path).head.seq == 4
    assert audit_file(path) == []


def test_of_what_is_appended_together_a_failure_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.run"

    def fail(record: RunRecord) -> None:
        with record.together():
            record.append([Event("ask", {"n": 1})])
            raise KeyboardInterrupt

    with RunRecord.create(path) as record:
        record.append([Event("ask", {"n": 0})])
        with pytest.raises(KeyboardInterrupt):
            fail(record)
        record.append([Event("ask", {"n": 2})])
        assert [e.body["n"] for e in record.events()] == [0, 2]
    assert audit_file(path) == []
