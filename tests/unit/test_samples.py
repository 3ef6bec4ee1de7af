"""Samples of an application's threads, from files that a process may have left at any point."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.recorders.recordings.samples import read_samples

MODULES = "1000\t2000\t1000\t/bin/app\n7000\t9000\t6000\t/lib/libwork.so\n"


def written(folder: Path, pairs: list[tuple[int, int]], modules: str = MODULES, name: str = "1-0") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"samples-{name}").write_bytes(b"".join(struct.pack("<QQ", *pair) for pair in pairs))
    (folder / f"modules-{name}").write_text(modules)
    return folder


def test_addresses_are_those_of_files(tmp_path: Path) -> None:
    """Of all processes together, wherever each has loaded the file; what lies in none is counted by itself."""
    written(tmp_path, [(0, 0), (0x1010, 3), (0x7000, 4), (0x2000, 5), (0x10, 6)])
    written(tmp_path, [(0x5010, 7)], "5000\t6000\t5000\t/bin/app\n", name="2-0")
    found = read_samples(tmp_path)
    assert found.places == {Path("/bin/app"): {0x10: 10}, Path("/lib/libwork.so"): {0x1000: 4}}
    assert (found.elsewhere, found.total) == (11, 25)


@pytest.mark.parametrize("modules", ["", "1000\t2000\n", "x\ty\tz\t/bin/app\n", MODULES[:30]])
def test_modules_that_are_not_whole_count_as_nothing(tmp_path: Path, modules: str) -> None:
    found = read_samples(written(tmp_path, [(0x7000, 4)], modules))
    assert (found.elsewhere, found.total) == (4, 4)


@given(data=st.binary(max_size=100))
def test_a_table_that_is_cut_off_is_read_as_far_as_it_goes(
    data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = written(tmp_path_factory.mktemp("cut"), [])
    (folder / "samples-1-0").write_bytes(data)
    assert read_samples(folder).total == sum(
        count for _, count in struct.iter_unpack("<QQ", data[: len(data) // 16 * 16])
    )
