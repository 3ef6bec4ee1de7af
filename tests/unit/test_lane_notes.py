from __future__ import annotations

import json
import os
from pathlib import Path

from tuner.evaluators.lane import CacheSizes, cache_sizes, load_notes


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_notes_of_this_machine_are_plain_json() -> None:
    notes = load_notes(os.getpid())
    json.dumps(notes, allow_nan=False)
    assert notes["load_1min"] >= 0
    assert notes["involuntary_switches"] >= 0


def test_notes_say_what_the_files_say(tmp_path: Path) -> None:
    write(tmp_path / "proc/loadavg", "1.50 1.00 0.50 3/200 999\n")
    write(
        tmp_path / "proc/42/status", "Name: x\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t7\n"
    )
    for cpu, khz in enumerate((1000000, 3000000, 2000000)):
        write(tmp_path / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", f"{khz}\n")
    assert load_notes(42, root=tmp_path) == {
        "load_1min": 1.5,
        "running": 3,
        "involuntary_switches": 7,
        "voluntary_switches": 5,
        "cpu_mhz": 2000.0,
    }


def test_unreadable_lane_notes_are_left_out(tmp_path: Path) -> None:
    assert load_notes(1, root=tmp_path) == {}
    write(tmp_path / "proc/cpuinfo", "processor : 0\ncpu MHz\t\t: 2400.5\n")
    assert load_notes(1, root=tmp_path) == {"cpu_mhz": 2400.5}


def test_caches_come_from_the_machine_or_are_marked_as_guesses(tmp_path: Path) -> None:
    assert cache_sizes(root=tmp_path) == CacheSizes()
    rows = [
        ("1", "Data", "48K"),
        ("1", "Instruction", "32K"),
        ("2", "Unified", "2048K"),
        ("3", "Unified", "96M"),
    ]
    for i, (level, kind, size) in enumerate(rows):
        folder = tmp_path / f"sys/devices/system/cpu/cpu7/cache/index{i}"
        for name, text in (("level", level), ("type", kind), ("size", size)):
            write(folder / name, text + "\n")
    assert cache_sizes(root=tmp_path, cpu=7) == CacheSizes(
        l1_bytes=48 << 10, l2_bytes=2 << 20, last_level_bytes=96 << 20
    )


def test_this_machines_caches_are_ordered() -> None:
    sizes = cache_sizes()
    assert 0 < sizes.l1_bytes <= sizes.l2_bytes <= sizes.last_level_bytes
