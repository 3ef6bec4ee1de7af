from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tuner.core.errors import MachineError
from tuner.evaluators.lane import TimingLane, lane_path

HOLD = """
import sys, time
from pathlib import Path
from tuner.evaluators.lane import TimingLane
with TimingLane(sys.argv[1], folder=Path(sys.argv[2])):
    print("held", flush=True)
    time.sleep(600)
"""


def holder(device: str, folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, device, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_another_process_keeps_the_lane_until_it_dies(tmp_path: Path) -> None:
    process = holder("cpu", tmp_path)
    notes: list[str] = []
    try:
        with pytest.raises(MachineError, match=r"not free within 0\.1 s"):
            TimingLane("cpu", folder=tmp_path, note=notes.append, timeout_s=0.1).__enter__()
        assert len(notes) == 1
        assert notes[0].startswith("waiting for the timing lane of cpu")
        with TimingLane("gpu 0", folder=tmp_path, timeout_s=0.1):
            pass
        # Says so once it waits, however long it took to get there.
        with TimingLane("cpu", folder=tmp_path, timeout_s=30, note=lambda _: process.kill()) as lane:
            assert lane.waited_s > 0
    finally:
        ended(process)


def test_a_thread_may_enter_again_through_any_object(tmp_path: Path) -> None:
    lane = TimingLane("cpu", folder=tmp_path, timeout_s=1)
    with lane, lane, TimingLane("cpu", folder=tmp_path, timeout_s=1):
        pass
    with lane:
        pass


def test_threads_take_turns(tmp_path: Path) -> None:
    inside: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            with TimingLane("cpu", folder=tmp_path):
                inside.append(number)
                assert inside == [number]
                inside.clear()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert inside == []


def test_the_lane_is_let_go_after_an_error_even_where_a_forked_child_lives_on(tmp_path: Path) -> None:
    ready, waiting = os.pipe()
    child = 0
    try:
        with TimingLane("cpu", folder=tmp_path):
            child = os.fork()
            if child == 0:
                os.close(waiting)
                os.read(ready, 1)
                os._exit(0)
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    os.close(ready)
    process = holder("cpu", tmp_path)
    ended(process)
    os.close(waiting)
    os.waitpid(child, 0)


def test_a_forked_child_does_not_hold_its_parents_lane(tmp_path: Path) -> None:
    with TimingLane("cpu", folder=tmp_path):
        child = os.fork()
        if child == 0:
            try:
                TimingLane("cpu", folder=tmp_path, timeout_s=0.05).__enter__()
            except MachineError:
                os._exit(7)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        with pytest.raises(MachineError):
            # The child's attempt has not taken the parent's lock away.
            _enter_elsewhere(tmp_path)


def _enter_elsewhere(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tuner.evaluators.lane import TimingLane\n"
        "TimingLane('cpu', folder=Path(sys.argv[1]), timeout_s=0.05).__enter__()"
    )
    if subprocess.run([sys.executable, "-c", code, str(folder)], stderr=subprocess.DEVNULL).returncode:
        raise MachineError("held")


def test_who_waits_comes_before_who_has_just_let_go(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from tuner.evaluators.lane import TimingLane
print("ready", flush=True)
sys.stdin.readline()
for _ in range(5):
    with TimingLane("cpu", folder=Path(sys.argv[1]), timeout_s=60):
        print("turn", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    process.stdout.readline()
    entries = 0
    process.stdin.write("go\n")
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with TimingLane("cpu", folder=tmp_path):
            entries += 1
            time.sleep(0.05)
    out, _ = process.communicate()
    assert out.count("turn") == 5
    # Twenty seconds for five turns; one that is kept out has none in sixty.
    assert entries < 400


def test_the_file_is_open_to_every_user_whatever_the_mask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with TimingLane("cpu", folder=tmp_path):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(lane_path("cpu", tmp_path).stat().st_mode) == 0o444


def test_links_and_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("kept")
    lane_path("cpu", tmp_path).symlink_to(target)
    with pytest.raises(MachineError):
        TimingLane("cpu", folder=tmp_path, timeout_s=0.1).__enter__()
    lane_path("cpu", tmp_path).unlink()
    os.mkfifo(lane_path("cpu", tmp_path))
    with pytest.raises(MachineError, match="not a plain file"):
        TimingLane("cpu", folder=tmp_path, timeout_s=0.1).__enter__()
    assert target.read_text() == "kept"


def test_a_removed_file_is_made_again(tmp_path: Path) -> None:
    with TimingLane("cpu", folder=tmp_path):
        lane_path("cpu", tmp_path).unlink()
    with TimingLane("cpu", folder=tmp_path, timeout_s=1):
        assert lane_path("cpu", tmp_path).exists()


def test_devices_with_strange_names_have_lanes_of_their_own(tmp_path: Path) -> None:
    names = ["cpu", "CPU", "a/b", "a b", "../../x", "x" * 300]
    paths = {lane_path(name, tmp_path) for name in names}
    assert len(paths) == len(names)
    assert all(p.parent == tmp_path and len(p.name) < 100 for p in paths)


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot make"):
        TimingLane("cpu", folder=tmp_path / "gone", timeout_s=0.1).__enter__()
