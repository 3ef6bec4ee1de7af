"""The fixture ``assert_not_slower`` on a real kernel, in pytest runs of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from spec_files import spec_in

import tuner
from tuner.core.errors import UsageError
from tuner.driver.regression import compare_with_run
from tuner.spec.load import load_spec

SOURCE = """
void tuner_work(long long ns);
void smooth(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] * 2.0f + 1.0f;
    tuner_work(5000);
}
"""
SLOWER = SOURCE.replace("5000", "20000")
SPEC = """
kernel: {source: smooth.c, entry: smooth}
problem: {n: 20000}
arguments:
  - {name: x, dtype: float32, shape: [n], init: normal}
  - {name: y, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space: {flags: {vectors: ["", "-mprefer-vector-width=512"]}, passes: off}
search: {budget: {evaluations: 2}}
"""
TEST = """
def test_speed(assert_not_slower):
    found = assert_not_slower("smooth.yaml", against="smooth.run", processes=%d)
    print("measured", found.slowdown)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a spec, the record of its run, and a test."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "smooth.c").write_text(SOURCE)
    (folder / "smooth.yaml").write_text(SPEC)
    result = tuner.tune(folder / "smooth.yaml", out=folder / "runs")
    result.path.rename(folder / "smooth.run")
    (folder / "test_speed.py").write_text(TEST % 4)
    return folder


def run_pytest(folder: Path) -> tuple[int, str]:
    """A pytest process as a user starts it; the plug-in comes from the entry point."""
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", str(folder)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    return done.returncode, done.stdout


@pytest.mark.integration
def test_slower_wrong_and_broken_code_fails_and_the_same_passes(project: Path, tmp_path: Path) -> None:
    """Four tests of one pytest process, three with their reasons."""
    wrong, broken = SOURCE.replace("1.0f", "3.0f"), SOURCE.replace("1.0f", "1.0g")
    same = "/* a comment changes nothing */" + SOURCE
    for name, source in (("same", same), ("slower", SLOWER), ("wrong", wrong), ("broken", broken)):
        folder = tmp_path / name
        folder.mkdir()
        for file in ("smooth.yaml", "smooth.run"):
            shutil.copy(project / file, folder)
        (folder / "smooth.c").write_text(source)
        (folder / f"test_{name}.py").write_text((TEST % 4).replace("test_speed", f"test_{name}"))
    status, printed = run_pytest(tmp_path)
    assert status == 1
    assert "3 failed, 1 passed" in printed
    assert "measured (1.0, 1.0, 1.0)" in printed
    # What passes is told of first, under a heading of its own.
    told = printed.partition("= FAILURES =")[2].partition("= PASSES =")[0].partition("short test summary")[0]
    _, *parts = re.split(r"_{5,} test_(\w+) _{5,}\n", told)
    said = dict(zip(parts[::2], parts[1::2], strict=True))
    assert "times the time of the recorded winner, 95% interval" in said["slower"]
    assert "allowed is 1.010" in said["slower"]
    assert "wrong_result" in said["wrong"]
    assert "smooth.c" in said["broken"]


@pytest.mark.integration
def test_a_slow_down_is_allowed_up_to_the_tolerance(project: Path) -> None:
    (project / "smooth.c").write_text(SLOWER)
    (spec,) = load_spec(project / "smooth.yaml")
    found = compare_with_run(spec, project / "smooth.run", than="baseline", processes=4)
    value, low, high = found.slowdown
    assert 1.4 < low <= value <= high < 1.6
    assert found.slower(0.01)
    assert not found.slower(high)
    assert len(found.present_s) == len(found.recorded_s) == 4


@pytest.mark.parametrize(
    ("keywords", "says"), [({"than": "fastest"}, "than is 'fastest'"), ({"processes": 3}, "at least 4")]
)
def test_arguments_that_cannot_be(project: Path, keywords: dict[str, object], says: str) -> None:
    (spec,) = load_spec(project / "smooth.yaml")
    with pytest.raises(UsageError, match=says):
        compare_with_run(spec, project / "smooth.run", **keywords)  # type: ignore[arg-type]


def test_a_run_of_another_kernel(project: Path, tmp_path: Path) -> None:
    spec = spec_in(tmp_path, "other.c", SOURCE.replace("smooth", "other"), SPEC.replace("smooth", "other"))
    with pytest.raises(UsageError, match="is a run of smooth"):
        compare_with_run(spec, project / "smooth.run")
