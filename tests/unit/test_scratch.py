"""Folders of processes that are killed: removed by the next one, and never while somebody has them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tuner.core.scratch import ScratchFolder, remove_abandoned

RELAY = """
from tuner.evaluators.executors.relay import Relay
relay = Relay()
print(relay.door.path, flush=True)
input()
"""
FORKING = """
import os, time
from tuner.core.scratch import ScratchFolder
folder = ScratchFolder("test")
if os.fork() == 0:
    raise SystemExit
os.wait()
print(folder.name, flush=True)
input()
"""


def started(text: str, place: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has made something in a place, and what."""
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(place)},
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder whose path is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="scratch-") as name:
        yield Path(name)


def test_leftovers_of_killed_processes_alone_are_removed(
    place: Path,
) -> None:
    killed, left = started(RELAY, place)
    living, kept = started(RELAY, place)
    assert left.is_relative_to(place)
    assert left.is_socket()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert left.is_socket()  # a killed process removes nothing
    mine = ScratchFolder("test", parent=str(place))
    assert not left.parent.exists()
    assert kept.is_socket()
    assert Path(mine.name).is_dir()
    assert Path(mine.name).stat().st_mode & 0o777 == 0o700
    living.communicate("\n")
    assert not kept.parent.exists()  # one that ends well removes its own
    mine.cleanup()
    mine.cleanup()
    assert list(place.iterdir()) == []


def test_a_fork_that_ends_leaves_the_folder_where_it_is(tmp_path: Path) -> None:
    process, folder = started(FORKING, tmp_path)
    assert folder.is_dir()
    process.communicate("\n")
    assert not folder.exists()


def test_only_unlocked_folders_of_this_kind_are_touched(tmp_path: Path) -> None:
    other, link, file = tmp_path / "remix-tuner-abcd", tmp_path / "remix-tuner-run-link", tmp_path / "target"
    other.mkdir()
    file.mkdir()
    link.symlink_to(file)
    (tmp_path / "remix-tuner-run-file").write_text("")
    abandoned = tmp_path / "remix-tuner-run-old"
    (abandoned / "deep").mkdir(parents=True)
    remove_abandoned(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("remix-tuner-abcd", "remix-tuner-run-file", "remix-tuner-run-link", "target"),
    ]
    remove_abandoned(str(tmp_path / "missing"))


def test_many_at_once_do_not_take_each_other_s(tmp_path: Path) -> None:
    text = """
import os
from tuner.core.scratch import ScratchFolder
for _ in range(100):
    folder = ScratchFolder("test")
    assert os.path.isdir(folder.name)
    open(os.path.join(folder.name, "file"), "w").close()
    folder.cleanup()
print("done")
"""
    found = [started(text, tmp_path) for _ in range(4)]
    for process, said in found:
        process.communicate("", timeout=60)
        assert (process.returncode, said) == (0, Path("done"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.integration
def test_a_killed_tuner_s_folders_are_gone_after_the_next_run(tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    (tmp_path / "k.c").write_text("void k(int n, float *y) { for (int i = 0; i < n; i++) y[i] = 1; }")
    (tmp_path / "k.yaml").write_text(
        "kernel: {source: k.c, entry: k}\nproblem: {n: 64}\narguments:\n"
        "  - {name: n, dtype: int32, value: n}\n  - {name: y, dtype: float32, shape: [n], role: output}\n"
        "space: {passes: {base: default<O3>}}\n"
    )
    tuner = [sys.executable, "-c", "from tuner.cli.main import main; main()"]
    words = [*tuner, "tune", "k.yaml", "--evaluations", "500"]
    environment = {**os.environ, "TMPDIR": str(place)}
    process = subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not list(place.glob("remix-tuner-run-compile-*")) and time.monotonic() < until:
        time.sleep(0.05)
    process.kill()
    process.wait()
    left = {path.name for path in place.glob("remix-tuner-run-*")}
    assert left
    subprocess.run([*tuner, "check", "k.yaml", "--no-faults"], cwd=tmp_path, env=environment, check=True)
    assert not left & {path.name for path in place.iterdir()}
