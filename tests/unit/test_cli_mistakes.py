"""Mistakes that are found before any work is done, and commands that go on past a file that is damaged."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import run_python, run_tuner

import tuner
from tuner.cli import text
from tuner.cli.process import run_and_exit
from tuner.core.errors import UsageError
from tuner.core.types import Source
from tuner.spaces.mutations import faults_of

SpecWriter = Callable[..., Path]


@pytest.mark.parametrize("minutes", ["nan", "0"])
def test_a_budget_that_is_none_writes_nothing(scale_spec: SpecWriter, tmp_path: Path, minutes: str) -> None:
    done = run_tuner("tune", scale_spec(), "--minutes", minutes, "--out", tmp_path / "runs")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip().splitlines()[-1].startswith("error: minutes is")
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize("evaluations", [0, -3, "x", 2.5])
def test_the_library_refuses_it_too(scale_spec: SpecWriter, tmp_path: Path, evaluations: object) -> None:
    with pytest.raises(UsageError, match="evaluations is"):
        tuner.tune(scale_spec(), evaluations=evaluations, out=tmp_path / "runs")  # type: ignore[arg-type]


@pytest.mark.integration
def test_a_place_that_cannot_be_written_is_one_line(scale_spec: SpecWriter, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    done = run_tuner("tune", scale_spec(), "--evaluations", 2, "--out", file)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert str(file) in done.stderr
    done = run_tuner("tune", scale_spec(), "--evaluations", 2, "--t4", tmp_path / "none" / "x.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no folder" in done.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.integration
def test_list_goes_on_past_a_damaged_record(scale_spec: SpecWriter, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    result = tuner.tune(scale_spec(few=True), evaluations=2, out=runs)
    (runs / "empty.run").write_bytes(b"")
    done = run_tuner("list", "--out", runs, "--json")
    assert done.returncode == 0
    assert [r["run"] for r in json.loads(done.stdout)["runs"]] == [str(result.path)]
    assert "empty.run is left out" in done.stderr


@pytest.mark.integration
def test_list_is_in_the_order_of_numbers_and_does_not_wait_for_the_last(
    scale_spec: SpecWriter,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder with thousands of runs shows the first ones at once; no spec is read for it."""
    result = tuner.tune(scale_spec(few=True), evaluations=2, out=tmp_path)
    for number in (2, 10):
        shutil.copy(result.path, result.path.with_name(f"scale-{number}.run"))
    monkeypatch.setattr("tuner.driver.opening.spec_of", lambda *_: pytest.fail("a spec is read"))
    shown = []

    def loaded() -> Iterator[tuner.Result]:
        for number in (1, 2, 10):
            yield tuner.load(tmp_path / f"scale-{number}.run")
            shown.append(capsys.readouterr().out)

    text.print_list(loaded(), tmp_path)
    assert shown[0].startswith("run ")
    assert [each.splitlines()[-1].split()[0] for each in shown] == [
        str(tmp_path / f"scale-{n}.run") for n in (1, 2, 10)
    ]
    listed = run_tuner("list", "--out", tmp_path)
    assert listed.stdout == "".join(shown)


SEVERAL = """
#define TWICE(x) doubled(x)
static float doubled(float x) { return x + x; }
static float helper(float x) { return TWICE(x) * 3.0f; }
void other(float *y, int n) { for (int i = 0; i < n; i++) y[i] = 5.0f; }
void entry(float *y, int n)
{
    for (int i = 0; i < n; i++) {
        y[i] = helper(y[i]);
    }
}
"""


def test_faults_are_planted_only_in_what_the_entry_may_call() -> None:
    source = Source(name="k.c", text=SEVERAL)
    lines = {fault.line for fault in faults_of([source], "entry")}
    assert {3, 4, 8} <= lines
    assert 5 not in lines
    assert 5 in {fault.line for fault in faults_of([source], "made<by, a macro>")}


def test_list_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    done = run_tuner("list", "--out", tmp_path / "none")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is no folder")


def test_output_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", "from tuner.cli.main import main; main()", "schema"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr == (
        "error: the output, or a file, cannot be written: No space left on device; free some space or raise the limit\n"
    )


def test_a_folder_whose_name_is_not_utf8_is_one_line(scale_spec: SpecWriter, tmp_path: Path) -> None:
    spec = scale_spec()
    folder = tmp_path / os.fsdecode(b"d\xe9")
    folder.mkdir()
    for file in [spec, *spec.parent.glob("*.c")]:
        (folder / file.name).write_bytes(file.read_bytes())
    done = run_tuner("check", folder / spec.name)
    assert done.returncode == 2
    assert "a name that is not UTF-8 in this locale; rename it, or set LC_ALL=C.UTF-8" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("words", "usage"), [([], 2), (["--nope"], 2), (["--help"], 0)])
@pytest.mark.integration
def test_the_short_command_is_called_by_its_own_name(words: list[str], usage: int, tmp_path: Path) -> None:
    program = f"import sys; from tuner.cli.main import main_tune; sys.argv[1:] = {words}; main_tune()"
    done = run_python(program, cwd=tmp_path)
    assert done.returncode == usage
    shown = (done.stdout + done.stderr).replace("[OPTIONS]", "OPTIONS")
    assert "Usage: tune OPTIONS" in shown
    assert "tuner tune" not in shown
    assert "Usage: tuner tune" in run_tuner("tune", *words).stderr + run_tuner("tune", *words).stdout


LIMITED = """
import resource, sys
from tuner.cli.main import main
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
sys.argv[1:] = ["check", "--no-faults", sys.argv[1]]
main()
"""


@pytest.mark.integration
def test_arrays_beyond_the_memory_are_one_line(scale_spec: SpecWriter) -> None:
    """It was numpy's traceback."""
    spec = scale_spec()
    text = spec.read_text()
    size = next(line for line in text.splitlines() if line.startswith("problem:"))
    spec.write_text(text.replace(size, "problem: {n: 2147483647}"))
    done = subprocess.run([sys.executable, "-c", LIMITED, spec], capture_output=True, text=True, timeout=240)
    assert done.returncode == 2, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert "memory" in last
    assert "make the problem smaller" in last
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", [MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory")])
def test_memory_that_ends_elsewhere_is_one_line(
    kind: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where pages are mapped it is no ``MemoryError``."""

    def full(**_: object) -> None:
        raise kind

    with pytest.raises(SystemExit) as ended:
        run_and_exit(full, [], name="tuner")  # type: ignore[arg-type]
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: this machine's memory does not suffice")
