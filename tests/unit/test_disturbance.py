"""Timed processes that the machine disturbs: seen, marked, and measured once more."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tuner.evaluators.disturbance import Watch

STAT = "7 (a name) R 1 7 7 0 -1 4194304 1 0 0 0 5 5 0 0 20 0 1 0 100 1 1 1 1 1 1 1 1 0 0 0 0 0 0 0 17 {} 0 0 0 0 0\n"
STATUS = "Name:\ta name\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t{}\n"


def machine(
    root: Path,
    *,
    processor: int = 0,
    switches: int = 0,
    mhz: float = 3000.0,
    moves: int = 0,
    waited_ms: int = 0,
) -> Path:
    """A ``proc`` with one process, number 7, which has two threads; what happens meets the second one."""
    for thread, (n, m, ms) in {"7": (1, 2, 3), "8": (switches, moves, waited_ms)}.items():
        folder = root / "proc/7/task" / thread
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "status").write_text(STATUS.format(n))
        (folder / "sched").write_text(f"a name (7, #threads: 2)\nse.nr_migrations      :      {m}\n")
        (folder / "schedstat").write_text(f"12345678 {ms * 10**6} 17\n")
    (root / "proc/7/stat").write_text(STAT.format(processor))
    (root / "proc/cpuinfo").write_text(f"cpu MHz\t\t: {mhz}\n")
    return root


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ({}, []),
        ({"switches": 3}, []),
        ({"switches": 40}, ["pushed aside 40 times in 0.100 s"]),
        ({"processor": 1}, ["moved from processor 0 to 1"]),
        ({"mhz": 2900.0}, []),
        ({"moves": 4}, []),
        ({"moves": 40}, ["moved 40 times between processors"]),
        ({"waited_ms": 5}, []),
        ({"waited_ms": 50}, ["waited 0.050 s for a processor in 0.100 s"]),
        ({"mhz": 2000.0}, ["the processor went from 3000 to 2000 MHz"]),
        ({"mhz": 2000.0, "processor": 1}, ["moved from processor 0 to 1", "the processor went from 3000 to 2000 MHz"]),
    ],
)  # fmt: skip
def test_disturbances_seen(tmp_path: Path, after: dict[str, int], says: list[str]) -> None:
    watch = Watch(7, root=machine(tmp_path))
    machine(tmp_path, **after)  # type: ignore[arg-type]
    assert watch.disturbances(0.1) == says


def test_threads_that_sleep_between_calls_are_put_anywhere(tmp_path: Path) -> None:
    watch = Watch(7, root=machine(tmp_path), settles=False)
    machine(tmp_path, processor=1, moves=40, waited_ms=50)
    assert watch.disturbances(0.1) == ["waited 0.050 s for a processor in 0.100 s"]


def test_a_machine_that_says_nothing_is_not_blamed(tmp_path: Path) -> None:
    assert Watch(7, root=tmp_path).disturbances(0.1) == []


def test_a_process_that_shares_its_processor_is_pushed_aside() -> None:
    """Three processes that only compute on one processor."""
    loop = [sys.executable, "-c", "while True: pass"]
    one = min(os.sched_getaffinity(0))
    processes = [subprocess.Popen(loop) for _ in range(3)]
    try:
        for process in processes:
            os.sched_setaffinity(process.pid, {one})
        time.sleep(0.3)
        watch = Watch(processes[0].pid)
        started = time.monotonic()
        said = ""
        while not ("pushed aside" in said and "waited" in said) and time.monotonic() - started < 20:
            time.sleep(0.5)
            # Set against a shorter time than has passed, as schedulers differ in how long their turns are.
            said = " ".join(watch.disturbances(0.05))
        assert "pushed aside" in said
        assert "waited" in said
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_each_thread_of_a_team_has_the_interruptions_of_one(tmp_path: Path) -> None:
    watch = Watch(7, root=machine(tmp_path), settles=False, threads=4)
    machine(tmp_path, switches=40)
    assert watch.disturbances(0.1) == []
    machine(tmp_path, switches=90)
    assert watch.disturbances(0.1) == ["pushed aside 90 times in 0.100 s"]
