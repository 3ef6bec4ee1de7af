"""One writer, any readers, and writers that are killed."""

from __future__ import annotations

import itertools
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.core.errors import RecordError
from tuner.driver.records import create
from tuner.recorders.audit import audit_file
from tuner.recorders.content import blob_reference
from tuner.recorders.record import Event, RunRecord

KILLS = 12

HOLD = """
import os, sys, time
from tuner.recorders.record import Event, RunRecord
record = RunRecord.create(sys.argv[1])
record.append([Event("ask", {})])
if sys.argv[2:] == ["with-child"] and os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(60)
    os._exit(0)
if sys.argv[2:] != ["with-child"]:
    print(os.getpid(), flush=True)
time.sleep(60)
"""

# Tells what is committed through shared memory, which outlives the process and never blocks it.
WRITE = """
import mmap, sys
from pathlib import Path
from tuner.recorders.content import blob_reference
from tuner.recorders.record import Event, RunRecord
path, progress = Path(sys.argv[1]), Path(sys.argv[2])
with progress.open("r+b") as file:
    shared = mmap.mmap(file.fileno(), 16)
print("ready", flush=True)
turn = 0
while True:
    turn += 1
    with (RunRecord.open if path.exists() else RunRecord.create)(path) as record:
        for _ in range(200):
            seq = record.head.seq
            data = b"object code %d " % seq * (seq % 50)
            body = {"n": seq, "code": blob_reference(data)}
            last = record.append([Event("build", body, seq), Event("verify", {"n": seq + 1}, seq)], [data])[-1]
            shared[:8] = last.seq.to_bytes(8, "little")
"""

CREATE = """
import sys
from pathlib import Path
from tuner.recorders.record import RunRecord
print("ready", flush=True)
for number in range(100_000):
    RunRecord.create(Path(sys.argv[1]) / f"{number}.run").close()
"""


def start(script: str, *arguments: object) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-W", "error", "-c", script, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_second_writer_is_refused_with_the_first_ones_number(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    process, pid = start(HOLD, path)
    try:
        with pytest.raises(RecordError, match=rf"a\.run is being written by process {pid}; wait"):
            RunRecord.open(path)
        with pytest.raises(RecordError, match=f"process {pid}"):
            RunRecord.create(path)
        with RunRecord.read(path) as reader:
            assert reader.head.seq == 1
    finally:
        kill(process)
    with RunRecord.open(path) as record:
        assert record.head.seq == 1


def test_second_writer_in_the_same_process_is_refused_and_harmless(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    with RunRecord.create(path) as record:
        for _ in range(2):
            with pytest.raises(RecordError, match="open for writing in this process already"):
                RunRecord.open(path)
        # Had the refusal opened and closed the lock's file, another process could lock it now.
        other = "import sys; from tuner.recorders.record import RunRecord; RunRecord.open(sys.argv[1])"
        done = subprocess.run([sys.executable, "-c", other, str(path)], capture_output=True, text=True)
        assert f"is being written by process {os.getpid()}" in done.stderr
        record.append([Event("ask", {})])


def test_child_that_outlives_a_killed_writer_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    process, child = start(HOLD, path, "with-child")
    try:
        process.kill()
        process.wait()
        os.kill(int(child), 0)
        with RunRecord.open(path) as record:
            record.append([Event("resume", {})])
    finally:
        os.kill(int(child), signal.SIGKILL)
        kill(process)
    assert audit_file(path) == []


def test_forked_child_neither_writes_nor_unlocks(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    script = """
import os, sys
from tuner.core.errors import RecordError
from tuner.recorders.record import Event, RunRecord
record = RunRecord.create(sys.argv[1])
record.append([Event("ask", {})])
if os.fork() == 0:
    try:
        record.append([Event("ask", {})])
    except RecordError as error:
        print(error, flush=True)
    record.close()
    os._exit(0)
os.wait()
child = os.fork()
if child == 0:
    try:
        RunRecord.open(sys.argv[1])
    except RecordError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
print(record.append([Event("ask", {})])[0].seq)
record.close()
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(path)], capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    assert "belongs to the parent process" in lines[0]
    assert "is being written by process" in lines[1]
    assert lines[2] == "2"
    assert done.stderr == ""
    assert audit_file(path) == []


@pytest.mark.integration
def test_killed_at_any_instant_everything_committed_is_there(tmp_path: Path) -> None:
    path, progress = tmp_path / "a.run", tmp_path / "progress"
    progress.write_bytes(bytes(16))
    chance = random.Random(5)
    before = 0
    turns = itertools.count()
    # Goes on where a busy machine gives the writer too little time to write.
    while (turn := next(turns)) < KILLS or before <= KILLS:
        process, _ = start(WRITE, path, progress)
        time.sleep(chance.uniform(0.0, 0.06))
        kill(process)
        with progress.open("r+b") as file, mmap.mmap(file.fileno(), 16) as shared:
            told = int.from_bytes(shared[:8], "little")
        if not path.exists():
            assert told == 0
            continue
        with RunRecord.read(path) as reader:
            found = sum(1 for _ in reader.events())
        # One commit may have come after what was told, and none may be there by half.
        known = max(told, before)
        assert found in (known, known + 2)
        before = found
        assert [f for f in audit_file(path) if f.error] == [], f"after kill {turn}"
    with RunRecord.open(path) as record:
        last = list(record.events(kind="build"))[-1]
        data = record.blob(last.body["code"])
        assert blob_reference(data) == last.body["code"]
        assert record.append([Event("resume", {})])[0].seq == before + 1
    assert audit_file(path) == []


@pytest.mark.integration
def test_killed_while_creating_leaves_a_whole_record_or_none(tmp_path: Path) -> None:
    chance = random.Random(6)
    for turn in range(3):
        folder = tmp_path / str(turn)
        folder.mkdir()
        process, _ = start(CREATE, folder)
        time.sleep(chance.uniform(0.0, 0.1))
        kill(process)
        numbers = {int(path.name.split(".")[0]) for path in folder.iterdir()}
        for number in numbers:
            path = folder / f"{number}.run"
            with (RunRecord.open if path.exists() else RunRecord.create)(path) as record:
                assert record.append([Event("ask", {})])[0].seq == 1
            assert audit_file(path) == []
        assert len(list(folder.iterdir())) == 2 * len(numbers)


@pytest.mark.integration
def test_readers_see_a_growing_whole_record_while_it_is_written(tmp_path: Path) -> None:
    path, progress = tmp_path / "a.run", tmp_path / "progress"
    progress.write_bytes(bytes(16))
    process, _ = start(WRITE, path, progress)
    try:
        while not path.exists():
            time.sleep(0.001)
        seen = 0
        with RunRecord.read(path) as reader:
            # It is closed and opened again every 400 events meanwhile.
            while seen < 1500:
                for event in reader.events(after=seen):
                    assert event.body["n"] == event.seq - 1
                    seen = event.seq
                    if event.kind == "build":
                        reader.blob(event.body["code"])
                assert reader.head.seq >= seen
                assert process.poll() is None
    finally:
        kill(process)


def test_two_runs_that_want_one_place_get_one_each(tmp_path: Path) -> None:
    with RunRecord.create(tmp_path / "k-1.run"):
        places = iter([tmp_path / "k-1.run", tmp_path / "k-2.run"])
        with create(lambda: next(places)) as second:
            assert second.path.name == "k-2.run"


def test_a_folder_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="it is a folder; name a record in it"):
        RunRecord.read(tmp_path)
    with pytest.raises(RecordError, match="it is a folder; name a record in it"):
        audit_file(tmp_path)
