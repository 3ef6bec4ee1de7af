"""The commands as a person meets them: real processes, a real kernel, exit status and what is printed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from commands import run_tuner

from tuner.core.errors import TunerError
from tuner.recorders.record import RunRecord

STENCIL = """
void stencil5(const float *restrict src, float *restrict dst, int nx, int ny) {
    for (int y = 1; y < ny - 1; y++)
        for (int x0 = 1; x0 < nx - 1; x0 += TILE)
            for (int x = x0; x < (x0 + TILE < nx - 1 ? x0 + TILE : nx - 1); x++)
                dst[y * nx + x] = 0.2f * (src[y * nx + x] + src[y * nx + x - 1] + src[y * nx + x + 1]
                    + src[(y - 1) * nx + x] + src[(y + 1) * nx + x]) + (float)(UNROLL - UNROLL);
}
"""

DESIGN = """
kernel:
  source: stencil.c
  entry: stencil5
  language: c
backend: host
target: native
problem: {nx: 2048, ny: 2048}
arguments:
  - {name: src, dtype: float32, shape: [ny, nx], init: {uniform: [-1, 1]}}
  - {name: dst, dtype: float32, shape: [ny, nx], role: output}
  - {name: nx, dtype: int32, value: nx}
  - {name: ny, dtype: int32, value: ny}
space:
  parameters:
    TILE: [8, 16, 32, 64]
    UNROLL: {low: 1, high: 8, log: true, default: 1}
  constraints: ["TILE % UNROLL == 0"]
  flags: {math: ["", "-ffast-math"]}
  passes: {base: "default<O3>", max_edits: 40}
  source: {evolve: true}
verify:
  reference: original
  rtol: 1.0e-5
  atol: 1.0e-6
  numerics: exact
  nonfinite: excluded
  problems: [{nx: 67, ny: 129}]
  assume: ["nx >= 3", "ny >= 3"]
measure: {cache: warm, threads: 1}
compare: ["gcc -O3 -march=native"]
search:
  strategy: auto
  seed: 0
  budget: {evaluations: 200, minutes: 10, usd: 2.0}
  llm: {model: some-model, base_url: "http://127.0.0.1:9/v1", api_key_env: OPENAI_API_KEY,
        prices: {prompt: 1.0, completion: 2.0}}
objective: time
"""


@pytest.mark.integration
def test_the_design_example_checks(tmp_path: Path) -> None:
    (tmp_path / "stencil.c").write_text(STENCIL)
    (tmp_path / "stencil.yaml").write_text(DESIGN.replace("2048", "128"))
    done = run_tuner("check", tmp_path / "stencil.yaml", "--json", "--no-faults")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["ok"]
    assert report["space"]["valid"] == 32
    assert "the model some-model" in report["facts"]["source"]
    assert "stencil5" in report["facts"]["source"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["stencil.c", "stencil.yaml"]


def test_tune_json_show_replay_export(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "runs"
    spec = scale_spec(passes='{base: "default<O3>"}', strategy="auto", evaluations=4, few=True)
    done = run_tuner("tune", spec, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert value["stopped_by"] in ("evaluations", "exhausted")
    assert value["baseline"]["time_s"] > 0
    run = value["run"]
    assert json.loads(run_tuner("show", run, "--json").stdout)["trials"] == value["trials"]
    assert str(run) in run_tuner("list", "--out", out).stdout
    replayed = run_tuner("replay", run, "--rebuild", "--json")
    assert replayed.returncode == 0, replayed.stdout
    assert json.loads(replayed.stdout)["rebuilt"] > 0
    exported = run_tuner("export", run, "-o", tmp_path / "build")
    assert exported.returncode == 0, exported.stderr
    assert {"scale.o", "scale.c", "pipeline.txt", "result.json", "build.sh", "scale.wisdom.json"} == {
        p.name for p in (tmp_path / "build").iterdir()
    }
    # Its script works from any folder, and with whatever names the programs have here.
    programs = {"CLANG": "echo", "OPT": "echo", "LLC": "echo"}
    built = subprocess.run(
        ["sh", tmp_path / "build" / "build.sh"],
        env={**os.environ, **programs},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    assert "-passes=default<O3>" in built.stdout


SLOW = "void slow(int *y, int n) { for (volatile long k = 0; k < 1L << 40; ++k); y[0] = n; }"
SLOW_SPEC = """
kernel: {source: slow.c, entry: slow}
problem: {n: 16}
arguments:
  - {name: y, dtype: int32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space: {flags: {fast: ["", "-ffast-math"]}}
"""


def heeds_interrupts() -> None:
    """Before a program begins: a shell in the background has those that it starts ignore them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.integration
def test_ctrl_c_is_said_where_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    """The command ended without a word."""
    (tmp_path / "slow.c").write_text(SLOW)
    (tmp_path / "slow.yaml").write_text(SLOW_SPEC)
    program = [sys.executable, "-c", "from tuner.cli.main import main; main()"]
    command = [*program, "check", str(tmp_path / "slow.yaml")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heeds_interrupts
    ) as running:
        assert running.stderr is not None
        while "waiting for the kernel" not in running.stderr.readline():
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=120)
    assert running.returncode == 130
    assert errors.splitlines()[-1] == "interrupted"
    assert "Traceback" not in errors


def interrupted(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, preexec_fn=heeds_interrupts
    )


IN_A_CALLBACK = """
import os, signal, time, weakref
import typer
from tuner.cli.process import run_and_exit

class Thing: pass

app = typer.Typer()

@app.command()
def command() -> None:
    thing = Thing()
    # What is raised while an object goes is printed and ignored.
    seen = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del thing
    time.sleep(60)

run_and_exit(app, [], name="command")
"""


def test_ctrl_c_is_heard_wherever_it_comes() -> None:
    """One that came while Python cleaned up behind an object was lost: the command went on."""
    done = interrupted(IN_A_CALLBACK)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


AT_THE_END = """
import atexit, os, signal, time
import typer
from tuner.cli.process import run_and_exit

app = typer.Typer()

@app.command()
def command() -> None:
    atexit.register(lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(0.2)))

run_and_exit(app, [], name="command")
"""


def test_ctrl_c_at_the_very_end_is_no_traceback() -> None:
    """What was asked for is done; from Python 3.12 on no thread begins there."""
    done = interrupted(AT_THE_END)
    assert (done.returncode, done.stderr) == (0, "")


def trials_of(path: Path) -> int:
    """How many trials a record holds so far."""
    try:
        with RunRecord.read(path) as record:
            return sum(event.kind == "trial" for event in record.events())
    except TunerError:
        return 0


@pytest.mark.integration
def test_ctrl_c_ends_cleanly_and_resumes(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "runs"
    spec = scale_spec(passes='{base: "default<O3>"}', strategy="random", evaluations=5, few=True)
    program = [sys.executable, "-c", "from tuner.cli.main import main_tune; main_tune()"]
    command = [*program, str(spec), "--out", str(out), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        while not any(trials_of(path) > 2 for path in out.glob("*.run")):
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        printed, errors = running.communicate(timeout=120)
    assert running.returncode == 130, errors
    assert "Traceback" not in errors
    assert json.loads(printed)["stopped_by"] == "interrupted"
    done = run_tuner("tune", spec, "--out", out, "--json", "--resume")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["run"] == json.loads(printed)["run"]
    assert run_tuner("replay", json.loads(done.stdout)["run"]).returncode == 0


@pytest.mark.parametrize(
    ("change", "words", "status"),
    [
        (("entry: scale", "entry: skale"), "skale", 2),
        (("shape: [n]", "shape: [m]"), "m", 2),
        (("STEP:", "STEP: [1]\n    STEP:"), "STEP", 2),
        (("strategy: random", "strategy: randon"), "random", 2),
        (("kernel:", "kernal:"), "kernel", 2),
        (("source: scale.c", "source: missing.c"), "missing.c", 2),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    scale_spec: Callable[..., Path], tmp_path: Path, change: tuple[str, str], words: str, status: int
) -> None:
    spec = scale_spec()
    spec.write_text(spec.read_text().replace(*change, 1))
    done = run_tuner("tune", spec, "--out", tmp_path / "runs")
    assert done.returncode == status
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert words in done.stderr
    assert "scale.yaml:" in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "body",
    [
        "b[0] = undeclared;",
        "for (int i = 0; i <= n; i++) b[i] = a[i];",
        "*(volatile int *)0 = 1;",
    ],
)
@pytest.mark.integration
def test_a_bad_baseline_exits_3_and_leaves_nothing(
    scale_spec: Callable[..., Path], tmp_path: Path, body: str
) -> None:
    spec = scale_spec()
    (tmp_path / "scale.c").write_text(f"void scale(const float *a, float *b, int n) {{ {body} }}\n")
    done = run_tuner("tune", spec, "--out", tmp_path / "runs")
    assert done.returncode == 3, done.stderr
    assert "error: " in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "runs").glob("*")) if (tmp_path / "runs").exists() else True


def test_usage_errors_exit_2(tmp_path: Path) -> None:
    assert run_tuner("tune").returncode == 2
    assert run_tuner("tune", "x.yaml", "--no-such-option").returncode == 2
    assert run_tuner("show", tmp_path / "none.run").returncode == 2
    for done in (run_tuner("replay", tmp_path / "none.run"), run_tuner("tune", tmp_path / "none.yaml")):
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["tune", "{spec}", "--seed", "-3"], "seed is -3; give a whole number from 0"),
        (["tune", "{spec}", "--force"], "--force is given without --resume"),
        (["record", "{spec}", "--list", "--", "true"], "--list takes no spec"),
        (["record", "{spec}", "--kernel", "k", "--", "true"], "--kernel takes no spec"),
    ],
)
def test_options_that_mean_nothing_here_are_refused(
    scale_spec: Callable[..., Path], tmp_path: Path, words: list[str], why: str
) -> None:
    spec = str(scale_spec(evaluations=2))
    done = run_tuner(*(word.format(spec=spec) for word in words), cwd=tmp_path)
    assert done.returncode == 2
    assert why in done.stderr


def test_version() -> None:
    done = run_tuner("--version")
    assert (done.returncode, done.stdout) == (0, f"remix-tuner {metadata.version('remix-tuner')}\n")


def test_init_check_doctor_schema(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    source = tmp_path / "axpy.c"
    # Without a size there is none to be timed.
    source.write_text(
        "void axpy(float a, const float x[64], float y[64]) { for (int i = 0; i < 64; i++) y[i] += a * x[i]; }\n"
    )
    made = run_tuner("init", source)
    assert made.returncode == 0, made.stderr
    assert run_tuner("check", tmp_path / "axpy.yaml", "--no-faults").returncode == 0
    assert run_tuner("init", source).returncode == 2
    assert "backend host" in run_tuner("doctor").stdout
    assert json.loads(run_tuner("schema").stdout)["$defs"]
