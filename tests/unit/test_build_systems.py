"""Tuned objects in builds: the command, the CMake function under both generators, a wheel by setuptools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import needs
import pytest
from commands import run_tuner

ROOT = Path(__file__).resolve().parents[2]
BUILDS = ROOT / "examples" / "builds"
BIN = Path(sys.executable).parent


def call(*words: object, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **more}
    command = [str(w) for w in words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


def copied(folder: Path) -> Path:
    """A copy of the examples, with the CMake function where they look for it, and a small budget."""
    skip = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    shutil.copytree(BUILDS, folder / "examples" / "builds", ignore=skip)
    shutil.copytree(ROOT / "cmake", folder / "cmake")
    spec = folder / "examples" / "builds" / "saxpy.yaml"
    text = spec.read_text()
    assert "evaluations: 12," in text
    assert "n: 100000" in text
    passes = next(line for line in text.splitlines() if line.startswith("  passes: "))
    for old, new in (
        ("evaluations: 12,", "evaluations: 1,"),
        ("n: 100000", "n: 1000"),
        (passes, "  passes: off"),
    ):
        text = text.replace(old, new)
    spec.write_text(text)
    return folder / "examples" / "builds"


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A copy of its own."""
    return copied(tmp_path)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The spec of another copy, and the object that the command made of it."""
    folder = tmp_path_factory.mktemp("tuned")
    out, spec = folder / "with space" / "saxpy.o", copied(folder) / "saxpy.yaml"
    refused = run_tuner("ensure", spec, "-o", out, "--offline")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "is not tuned for this source" in refused.stderr
    done = run_tuner("ensure", spec, "-o", out, "--depfile", out.with_suffix(".d"))
    assert (done.returncode, done.stdout.strip()) == (0, str(out)), done.stderr
    return spec, out


@pytest.mark.integration
def test_the_command_tunes_once_and_says_what_it_depends_on(tuned: tuple[Path, Path]) -> None:
    spec, out = tuned
    deps = out.with_suffix(".d")
    target, needs = deps.read_text().split(": ")
    assert target.replace("\\ ", " ") == str(out)
    # Blanks in names have a backslash before them.
    found = [name.replace("\\ ", " ") for name in re.split(r"(?<!\\)\s+", needs.strip())]
    assert found == [str(spec), str(spec.with_suffix(".c"))]
    before, code = out.stat().st_mtime_ns, out.read_bytes()
    record = Path(f"{out}.run").stat().st_mtime_ns
    assert run_tuner("ensure", spec, "-o", out, "--offline").returncode == 0
    assert out.stat().st_mtime_ns > before
    assert out.read_bytes() == code
    assert Path(f"{out}.run").stat().st_mtime_ns == record


def built(build: Path) -> list[str]:
    """What the program prints that is built there."""
    done = call("cmake", "--build", build)
    assert done.returncode == 0, done.stdout + done.stderr
    return call(build / "app").stdout.split()


@pytest.mark.integration
@needs.cc
@needs.make
def test_the_cmake_function(examples: Path, tuned: tuple[Path, Path], tmp_path: Path) -> None:
    """Under both generators, which find the record of the command; of another source one tunes."""
    ninja, make = tmp_path / "ninja", tmp_path / "make"
    for generator, build in (("Ninja", ninja), ("Unix Makefiles", make)):
        done = call("cmake", "-G", generator, "-S", examples / "cmake", "-B", build)
        assert done.returncode == 0, done.stderr
        shutil.copy2(f"{tuned[1]}.run", build)
    source, given = examples / "saxpy.c", ["3", "5", "7", "9", "11"]
    first = (ninja / "saxpy.o.run").stat().st_mtime_ns
    for build in (ninja, make):
        assert built(build) == given
        assert (build / "saxpy.o.run").stat().st_mtime_ns == first
    source.write_text(source.read_text().replace("y[i] += a * x[i]", "y[i] += 2 * a * x[i]"))
    assert built(make) == ["5", "9", "13", "17", "21"]
    assert (make / "saxpy.o.run").stat().st_mtime_ns > first
    # What the command does then the first test says.
    assert "--offline" not in (ninja / "build.ninja").read_text()
    assert call("cmake", "-S", examples / "cmake", "-B", ninja, "-DREMIX_TUNER_OFFLINE=ON").returncode == 0
    assert "--offline" in (ninja / "build.ninja").read_text()


@needs.cc
@pytest.mark.integration
def test_a_wheel_by_setuptools(examples: Path, tuned: tuple[Path, Path], tmp_path: Path) -> None:
    """Where nothing may be tuned, with the record that the command made."""
    (tmp_path / "kept").mkdir()
    shutil.copy2(f"{tuned[1]}.run", tmp_path / "kept")
    words = [sys.executable, "setup.py", "-q", "bdist_wheel", "-d", tmp_path / "wheels"]
    done = call(*words, cwd=examples / "setuptools", TUNE_RECORDED=str(tmp_path / "kept"), TUNE_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    assert "none-any" not in wheel.name
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    code = (
        "import numpy, saxpy_tuned; y = numpy.ones(5, 'f'); "
        "saxpy_tuned.saxpy(2.0, numpy.arange(5, dtype='f'), y); print(y.tolist())"
    )
    done = call(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(tmp_path / "installed"))
    assert done.stdout.strip() == "[1.0, 3.0, 5.0, 7.0, 9.0]", done.stderr
