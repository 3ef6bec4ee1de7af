"""Headers with ``#pragma once`` that headers of another folder include too."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tuner.cli.main import app
from tuner.driver.check import check_spec
from tuner.evaluators.emulation import Emulator
from tuner.evaluators.host.search_words import search_words
from tuner.spec.load import load_spec

SHARED = '#pragma once\n#include "grid.h"\ninline int rows(Grid g) { return g.ny; }\n'
GRID = "#pragma once\nstruct Grid { int nx, ny; };\n"


@pytest.mark.integration
@pytest.mark.usefixtures("guessed_sizes")
def test_a_header_is_one_file_wherever_it_is_included(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "serial").mkdir()
    (tmp_path / "Makefile").write_text("")
    (tmp_path / "shared" / "shared.h").write_text(SHARED)
    (tmp_path / "serial" / "grid.h").write_text(GRID)
    (tmp_path / "serial" / "k.cpp").write_text(
        '#include "../shared/shared.h"\n#include "grid.h"\n'
        'extern "C" void twice(const float *x, float *y, int n) {\n'
        "    Grid g{n, 1};\n"
        "    for (int i = 0; i < g.nx * rows(g); i++) y[i] = 2 * x[i];\n}\n"
    )
    spec = tmp_path / "serial" / "k.yaml"
    arguments = [str(tmp_path / "serial" / "k.cpp"), "--entry", "twice", "-o", str(spec)]
    done = CliRunner().invoke(app, ["init", *arguments])
    assert done.exit_code == 0, (done.output, done.exception)
    (loaded,) = load_spec(spec)
    assert check_spec(loaded, faults=False).ok


def test_in_emulation_too(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "shared.h").write_text(SHARED.replace("inline", "__device__ inline"))
    (tmp_path / "grid.h").write_text(GRID)
    (tmp_path / "k.cu").write_text(
        '#include "shared.h"\n#include "grid.h"\n'
        'extern "C" __global__ void twice(const float *x, float *y, int n) {\n'
        "    int i = blockIdx.x * 128 + threadIdx.x;\n    if (i < n * rows(Grid{n, 1})) y[i] = 2 * x[i];\n}\n"
    )
    (tmp_path / "k.yaml").write_text(
        "kernel: {source: k.cu, entry: twice, include: [shared, .]}\nproblem: {n: 300}\narguments:\n"
        "  - {name: x, dtype: float32, shape: [n]}\n  - {name: y, dtype: float32, shape: [n], role: output}\n"
        '  - {name: n, dtype: int32, value: n}\nlaunch: {grid: ["ceil(n / 128)"], block: [128]}\n'
    )
    (loaded,) = load_spec(tmp_path / "k.yaml")
    space, emulator = loaded.space(None), Emulator(loaded.task)
    try:
        report = emulator.set_baseline(space.resolve(space.default()), loaded.task.kernel.variant)
    finally:
        emulator.close()
    assert report.status == "ok", report.message


@pytest.mark.parametrize(
    ("folders", "own", "words"),
    [
        (["inc", "src"], "src", ["inc", ".", "src"]),
        (["src/../src", "inc", "src"], "src", [".", "src/../src", "inc", "src"]),
        (["inc"], "", ["inc", "."]),
    ],
)
def test_files_that_were_written_come_before_the_folder_they_are_from(
    folders: list[str], own: str, words: list[str]
) -> None:
    assert search_words(folders, own) == [word for folder in words for word in ("-I", folder)]
