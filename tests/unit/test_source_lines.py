"""Lines of sources that an application's time is found in."""

from __future__ import annotations

import subprocess
from pathlib import Path

import needs
import pytest

from tuner.recorders.recordings.executables import code_of
from tuner.recorders.recordings.lines import lines_of

PROGRAM = """\
#include "square.h"
volatile int seen;

int work(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += square(i) ^ seen;
    return sum;
}

int main(void) { return work(seen) & 1; }
"""
HEADER = """\

static inline __attribute__((always_inline)) int square(int i) {
    return seen + i * i;
}
"""


@needs.cc
@pytest.mark.parametrize("version", [4, 5])
def test_code_is_found_in_the_lines_that_it_was_made_of(version: int, tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "square.h").write_text("extern volatile int seen;\n" + HEADER)
    (tmp_path / "app.c").write_text(PROGRAM)
    command = ["cc", f"-gdwarf-{version}", "-O1", "-Iinc", "app.c", "-o", "app"]
    subprocess.run(command, cwd=tmp_path, check=True)
    (work,) = (code for code in code_of(tmp_path / "app") if code.symbol == "work")
    found = lines_of(tmp_path / "app", range(work.start, work.end))
    assert found.keys() <= set(range(work.start, work.end))
    own = {line for path, line in found.values() if path == str(tmp_path / "app.c")}
    inlined = {line for path, line in found.values() if path == str(tmp_path / "inc" / "square.h")}
    assert own <= set(range(4, 10))
    assert {6, 7} & own
    assert inlined == {4}
    assert lines_of(tmp_path / "app", [work.start - (1 << 20)]) == {}


@needs.cc
def test_files_without_a_table_have_no_lines(tmp_path: Path) -> None:
    (tmp_path / "app.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["cc", "app.c", "-o", "app"], cwd=tmp_path, check=True)
    code = code_of(tmp_path / "app")
    whole = (tmp_path / "app").read_bytes()
    for data in (whole, whole[: len(whole) // 2], b"", b"\x7fELF"):
        (tmp_path / "other").write_bytes(data)
        assert lines_of(tmp_path / "other", [code[0].start]) == {}
    assert lines_of(tmp_path / "absent", [0]) == {}
