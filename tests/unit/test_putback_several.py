"""Several winners in one application at once: kernels of one program, C functions, both; and which runs those are."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import made_runs as made
import needs
import pytest
from applications import with_library
from opencl_machine import system_drivers
from typer.testing import CliRunner

from tuner.api import tune_spec
from tuner.cli.main import app
from tuner.core.errors import UsageError
from tuner.core.types import BuildRequest, Status
from tuner.driver.applications.applying import run_with
from tuner.driver.applications.chosen_runs import chosen_runs
from tuner.driver.applications.in_place import FunctionWinner, Winner
from tuner.driver.applications.recording import record_kernels
from tuner.driver.options import Options
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.recordings.format import Recording, RecordingFile
from tuner.recorders.recordings.substitute import Verified
from tuner.recorders.wisdom import Entry, Wisdom
from tuner.spec.load import load_spec

KERNELS = """__kernel void first(__global int *x) { x[get_global_id(0)] += 1; }
__kernel void second(__global int *x) { x[get_global_id(0)] += 2; }
"""

OPENCL = f"""
import numpy as np
import pyopencl as cl

devices = [d for p in cl.get_platforms() for d in p.get_devices() if "Portable" in p.name]
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
program = cl.Program(context, '''{KERNELS}''').build(cache_dir=False)
host = np.zeros(64, np.int32)
x = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=host)
for name, count in (("first", 3), ("second", 2)):
    kernel = cl.Kernel(program, name)
    kernel.set_args(x)
    for _ in range(count):
        cl.enqueue_nd_range_kernel(queue, kernel, (64,), (8,))
cl.enqueue_copy(queue, host, x)
print(host[63], flush=True)
"""


@pytest.fixture
def launching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """An application with two kernels in one program."""
    system_drivers(monkeypatch)
    (tmp_path / "launching.py").write_text(OPENCL)
    return [sys.executable, str(tmp_path / "launching.py")]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    """Recordings of both kernels."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "launching.py").write_text(OPENCL)
    command = [sys.executable, str(folder / "launching.py")]
    with pytest.MonkeyPatch.context() as patch:
        system_drivers(patch)
        report = record_kernels(command, ["first", "second"], folder / "out", instances=1)
    made = {}
    for path in report.recordings:
        with RecordingFile(path) as file:
            made[file.recording.entry] = file.recording
    return made


def printed(capfd: pytest.CaptureFixture[str]) -> str:
    """What the application printed last."""
    return capfd.readouterr().out.strip().splitlines()[-1]


@needs.pocl
def test_kernels_of_one_program_each_get_their_winner(
    found: dict[str, Recording], launching: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    first = Winner(
        kernel="first",
        recording=found["first"],
        source=KERNELS.replace("+= 1", "+= 100"),
        options="",
        local=(16,),
    )
    # The source as given: only its work-group is another, and no program is built for it.
    second = Winner(
        kernel="second", recording=found["second"], source=found["second"].text, options="", local=(32,)
    )
    ran, placed = run_with([first, second], launching)
    assert printed(capfd) == "304"
    assert [(one.kernel, one.replaced, one.left) for one in placed] == [("first", 3, 0), ("second", 2, 0)]
    assert (ran.replaced, ran.left) == (5, 0)
    broken = Winner(
        kernel="first", recording=found["first"], source="this is no program", options="", local=()
    )
    ran, placed = run_with([broken, second], launching)
    assert printed(capfd) == "7"
    assert [(one.replaced, one.left) for one in placed] == [(0, 3), (2, 0)]
    assert "does not build here" in placed[0].why
    assert not placed[1].why


LIBRARY = """
void one(int n, float *y) { for (int i = 0; i < n; i++) y[i] += 1; }
void two(int n, float *y) { for (int i = 0; i < n; i++) y[i] += 2; }
"""
MAIN = """
void one(int, float *);
int printf(const char *, ...);
void *dlopen(const char *, int); void *dlsym(void *, const char *);
float y[64];
int main(int count, char **words) {
    void (*two)(int, float *) = dlsym(dlopen(words[1], 1), "two");
    one(64, y);
    two(64, y);
    two(32, y);
    printf("%g %g\\n", y[0], y[63]);
    return 0;
}
"""
SPEC = """\
kernel: {source: library.c, entry: NAME}
problem: {n: 64}
arguments:
  - {name: n, dtype: int32, value: n}
  - {name: y, dtype: float32, shape: [n], role: inout}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}
"""


def function_winner(folder: Path, name: str, add: str) -> FunctionWinner:
    """Adds something else than the function does."""
    (folder / f"{name}.yaml").write_text(SPEC.replace("NAME", name))
    (loaded,) = load_spec(folder / f"{name}.yaml")
    backend, task = HostBackend(), loaded.task
    resolved = loaded.space(None).resolve(loaded.space(None).default())

    text = LIBRARY.replace(f"+= {1 if name == 'one' else 2}", f"+= {add}")
    variant = replace(task.kernel.variant, files=(replace(task.kernel.variant.files[0], text=text),))
    evaluation = backend.prepare(task, workers=1)
    try:
        (build,) = evaluation.build([BuildRequest(trial=0, variant=variant, resolved=resolved)])
    finally:
        evaluation.close()
    assert build.status is Status.OK, build.message
    found = backend.replacement(task, build.code, resolved)
    return FunctionWinner(task=task, verified=Verified(sizes=task.problems), found=found)


@pytest.fixture
def calling(tmp_path: Path) -> list[str]:
    """An application that is linked with one function and asks for the other by name."""
    (tmp_path / "library.c").write_text(LIBRARY)
    (tmp_path / "main.c").write_text(MAIN)
    command = with_library(tmp_path, "library.c", program="calling", links=["-ldl"])
    return [*command, str(tmp_path / "liblibrary.so")]


def test_functions_each_get_their_winner_however_they_are_reached(
    calling: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(calling, check=True)
    assert printed(capfd) == "5 3"
    winners = [function_winner(tmp_path, "one", "10"), function_winner(tmp_path, "two", "100")]
    for order in (winners, winners[::-1]):
        ran, placed = run_with(order, calling)
        assert ran.status == 0
        assert printed(capfd) == "112 110"
        # The call of two with 32 is not one that the winner was verified on.
        assert {one.kernel: (one.replaced, one.left) for one in placed} == {"one": (1, 0), "two": (1, 1)}


@needs.pocl
def test_kernels_and_functions_together(
    found: dict[str, Recording],
    launching: list[str],
    calling: list[str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    kernel = Winner(
        kernel="second",
        recording=found["second"],
        source=KERNELS.replace("+= 2", "+= 50"),
        options="",
        local=(),
    )
    both = tmp_path / "both.sh"
    both.write_text(f'"{launching[0]}" "{launching[1]}"\n"{calling[0]}" "{calling[1]}"\n')
    capfd.readouterr()
    ran, placed = run_with([function_winner(tmp_path, "two", "100"), kernel], ["sh", str(both)])
    assert ran.status == 0
    assert capfd.readouterr().out.split() == ["103", "103", "101"]
    assert [(one.kernel, one.replaced, one.left) for one in placed] == [("two", 1, 1), ("second", 2, 0)]


# ---- which runs ----

SLOW = """
void work(const float *restrict x, float *restrict y, int n) {
    for (int k = 0; k < ROUNDS; k++) {
        for (int i = 0; i < n; i++) y[i] = x[i] * 2;
        __asm__ volatile("" ::: "memory");
    }
}
"""


def test_words_after_the_dashes_are_the_application_s(tmp_path: Path) -> None:
    runner = CliRunner()
    for words, why in (
        (["ab", "a.run", "b.run", "--"], "a.run"),
        (["ab", "missing.run", "--pairs", "4", "--", "app", "--pairs", "9", "--", "x"], "missing.run"),
        (["apply", "missing.run", "./app"], "missing.run"),
    ):
        result = runner.invoke(app, words)
        assert why in str(result.exception), result.exception


def index(folder: Path, **specs: str | None) -> Path:
    """As several recorded kernels get one."""
    kernels = [{"name": name, "spec": spec, "recordings": [], "seconds": 1.0} for name, spec in specs.items()]
    (folder / "kernels.json").write_text(json.dumps({"schema_version": 1, "kernels": kernels}))
    return folder


def test_an_index_that_names_no_run_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notes: list[str] = []
    assert chosen_runs([Path("a.run"), Path("b.run")], note=notes.append) == [Path("a.run"), Path("b.run")]
    with pytest.raises(UsageError, match="there are no runs in"):
        chosen_runs([tmp_path], note=notes.append)
    index(tmp_path, one="one.yaml", two=None)
    with pytest.raises(UsageError, match="none of the 1 kernels"):
        chosen_runs([tmp_path], note=notes.append)
    assert len(notes) == 1
    assert "one stays as it is: no run of one.yaml in" in notes[0]
    (tmp_path / "kernels.json").write_text("{}")
    with pytest.raises(UsageError, match="cannot be read"):
        chosen_runs([tmp_path / "kernels.json"], note=notes.append)


@pytest.mark.integration
def test_of_several_runs_those_without_a_gain_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    better = made.made_run(tmp_path / "runs", 30, few=True).path
    same = made.made_run(tmp_path / "others", 1, few=True).path
    notes: list[str] = []
    assert chosen_runs([better, same], note=notes.append) == [better]
    assert notes == [f"the kernel of {same} stays as it is: the run claims no gain"]
    with pytest.raises(UsageError, match="none of the 2 runs claims"):
        chosen_runs([same, same], note=notes.append)
    # One alone is for who puts it in place to refuse, in words of its own.
    assert chosen_runs([same], note=notes.append) == [same]


def test_a_wisdom_file_stands_for_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "build" / "work.wisdom.json"

    def written(*runs: str) -> Path:
        entries = tuple(
            Entry(device="d", problem={"n": n}, configuration={"A": 1}, speedup=(1.5, 1.4, 1.6), run=run)
            for n, run in enumerate(runs, 1)
        )
        file.parent.mkdir(exist_ok=True)
        Wisdom(kernel="work", backend="host", source="s", default={"A": 0}, entries=entries).save(file)
        return file

    with pytest.raises(UsageError, match=r"the run that it comes from, a\.run, is not in tuner-runs or"):
        chosen_runs([written("a.run")], note=print)
    (tmp_path / "tuner-runs").mkdir()
    (tmp_path / "tuner-runs" / "a.run").touch()
    assert chosen_runs([written("a.run", "a.run")], note=print) == [Path("tuner-runs/a.run")]
    with pytest.raises(UsageError, match=r"the run that it comes from, b\.run, is not in"):
        chosen_runs([written("a.run", "b.run")], note=print)
    with pytest.raises(UsageError, match="are all the default's"):
        chosen_runs([written()], note=print)
    # One that gained nothing may be gone.
    entries = (
        *Wisdom.load(written("a.run")).entries,
        Entry(device="d", problem={"n": 9}, configuration={}, run="z.run"),
    )
    Wisdom(kernel="work", backend="host", source="s", default={"A": 0}, entries=entries).save(file)
    notes: list[str] = []
    assert chosen_runs([file], note=notes.append) == [Path("tuner-runs/a.run")]
    assert notes == ["z.run is not there, so nothing says where the kernel had better stay as it is"]


@pytest.mark.integration
@pytest.mark.measured
def test_the_newest_run_of_each_recorded_kernel_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work.c").write_text(SLOW)
    (tmp_path / "work.yaml").write_text(
        "kernel: {source: work.c, entry: work}\nproblem: {n: 20000}\narguments:\n"
        "  - {name: x, dtype: float32, shape: [n]}\n  - {name: y, dtype: float32, shape: [n], role: output}\n"
        "  - {name: n, dtype: int32, value: n}\n"
        "space: {parameters: {ROUNDS: [200, 1]}, passes: off}\n"
        "search: {strategy: exhaustive, budget: {evaluations: 2}}\n"
    )
    (loaded,) = load_spec("work.yaml")
    runs = []
    for _ in range(2):
        result = tune_spec(loaded, Options(library=None), out=tmp_path / "tuner-runs")
        runs.append(Path(result.to_json()["run"]))
    assert result.to_json()["improved"], result.to_json()
    (tmp_path / "tuner-runs" / "broken.run").write_bytes(b"no record")
    notes: list[str] = []
    found = chosen_runs([index(tmp_path, work="work.yaml", other="other.yaml")], note=notes.append)
    assert [path.name for path in found] == [runs[1].name]
    assert [note.partition(":")[0] for note in notes] == ["other stays as it is"]
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "tuner-runs").rename(elsewhere)
    with pytest.raises(UsageError, match="name it as well"):
        chosen_runs([tmp_path / "kernels.json"], note=notes.append)
    assert chosen_runs([tmp_path, elsewhere], note=notes.append) == [elsewhere / runs[1].name]
    assert chosen_runs([elsewhere], note=notes.append) == [elsewhere / runs[1].name]
    help_text = CliRunner().invoke(app, ["ab", "--help"]).output
    assert "RUN" in help_text
