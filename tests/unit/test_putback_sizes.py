"""Winners of one kernel for several sizes: each call of an unmodified application gets the nearest one's."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import needs
import product_runs as products
import pytest
from applications import with_library
from opencl_machine import system_drivers
from pages import block, run
from typer.testing import CliRunner

import tuner
from tuner.api import tune_spec
from tuner.cli.main import app
from tuner.core.errors import UsageError
from tuner.core.types import BuildRequest, Problem, Resolved, Status
from tuner.driver.applications.applying import run_with
from tuner.driver.applications.by_size import by_size
from tuner.driver.applications.chosen_runs import chosen_runs
from tuner.driver.applications.in_place import FunctionWinner, Winner
from tuner.driver.applications.recording import record_kernel
from tuner.driver.applications.winners import winners_of
from tuner.driver.options import Options
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.recordings.format import RecordingFile
from tuner.recorders.recordings.points import AXIS, SIGNED, Point
from tuner.recorders.recordings.substitute import Verified
from tuner.recorders.wisdom import distance
from tuner.spec.load import load_spec

SOURCE = """__kernel void work(__global float *x, int n) { int i = get_global_id(0); if (i < n) x[i] += 1; }
"""
OPENCL = f"""
import sys
import numpy as np
import pyopencl as cl

devices = [d for p in cl.get_platforms() for d in p.get_devices() if "Portable" in p.name]
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
kernel = cl.Kernel(cl.Program(context, '''{SOURCE}''').build(cache_dir=False), "work")
shown = []
for word in sys.argv[1:]:
    size, n = map(int, word.split(":"))
    host = np.zeros(size, np.float32)
    x = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=host)
    kernel.set_args(x, np.int32(n))
    cl.enqueue_nd_range_kernel(queue, kernel, (size,), (1,))
    cl.enqueue_copy(queue, host, x)
    shown.append(int(host[0]))
print(*shown, flush=True)
"""


@pytest.fixture(autouse=True)
def drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Applications find PoCL."""
    system_drivers(monkeypatch)


@pytest.fixture(scope="module")
def launching(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """An application that launches one kernel at the sizes it is given: work-items and elements."""
    path = tmp_path_factory.mktemp("application") / "launching.py"
    path.write_text(OPENCL)
    return [sys.executable, str(path)]


def printed(capfd: pytest.CaptureFixture[str]) -> str:
    """What the application printed last."""
    return capfd.readouterr().out.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def kernel(launching: list[str], tmp_path_factory: pytest.TempPathFactory) -> Winner:
    """A winner without sizes, to be changed."""
    with pytest.MonkeyPatch.context() as patch:
        system_drivers(patch)
        report = record_kernel([*launching, "64:64"], "work", tmp_path_factory.mktemp("out"), instances=1)
    with RecordingFile(report.recordings[0]) as file:
        return Winner(kernel="work", recording=file.recording, source="", options="", local=())


def adds(kernel: Winner, value: int, *points: tuple[int, bool], local: tuple[int, ...] = ()) -> Winner:
    """One that can be told from the others, timed at these numbers of work-items."""
    return replace(
        kernel,
        source=SOURCE.replace("+= 1", f"+= {value}"),
        local=local,
        points=tuple(Point(sizes={(AXIS, 0): n, (SIGNED, 1): 7}, taken=taken) for n, taken in points),
        names={(AXIS, 0): "global_x"},
    )


def together(*winners: Winner | FunctionWinner) -> tuple[Winner | FunctionWinner, ...]:
    """As several runs are put in place."""
    return by_size([(Path(f"{i}.run"), w) for i, w in enumerate(winners)], note=print)  # type: ignore[return-value]


@needs.pocl
def test_each_launch_gets_the_winner_of_the_nearest_size(
    launching: list[str], kernel: Winner, capfd: pytest.CaptureFixture[str]
) -> None:
    small, large = adds(kernel, 10, (64, True)), adds(kernel, 100, (1024, True))
    command = [*launching, "64:64", "1024:1024", "200:5", "512:-3", "4096:0"]
    for winners in (together(small, large), together(large, small)):
        ran, placed = run_with(winners, command)
        assert ran.status == 0
        # 256 lies between: 200 is nearer to 64 and 512 to 1024. The elements, 7 for both, tell nothing.
        assert printed(capfd) == "10 100 10 0 0"
        assert {one.name: (one.replaced, one.left) for one in placed} == {
            "work (global_x = 64)": (2, 0),
            "work (global_x = 1024)": (3, 0),
        }
    assert placed[0].to_json()["sizes"] == {"global_x": [1024]}


@needs.pocl
def test_where_no_gain_is_claimed_launches_stay_as_they_are(
    launching: list[str], kernel: Winner, capfd: pytest.CaptureFixture[str]
) -> None:
    small = adds(kernel, 10, (64, True), (128, False))
    none = adds(kernel, 99, (1024, False))
    ran, placed = run_with(together(small, none), [*launching, "64:64", "128:128", "700:700"])
    assert printed(capfd) == "10 1 1"
    assert [(one.replaced, one.left) for one in placed] == [(1, 1), (0, 1)]
    assert placed[1].why == "the run claims no gain there, and 1 calls stay as they are"
    # One alone, timed at several sizes, parts its launches alike.
    ran, _ = run_with(together(adds(kernel, 10, (64, True), (1024, False))), [*launching, "90:90", "900:900"])
    assert printed(capfd) == "10 1"
    assert (ran.replaced, ran.left) == (1, 1)


@needs.pocl
def test_a_launch_that_the_nearest_winner_cannot_take_goes_to_the_next(
    launching: list[str], kernel: Winner, capfd: pytest.CaptureFixture[str]
) -> None:
    small, large = adds(kernel, 10, (64, True), local=(64,)), adds(kernel, 100, (1024, True), local=(8,))
    _, placed = run_with(together(small, large), [*launching, "72:72", "63:63"])
    # 72 is no multiple of 64 but one of 8; 63 of neither.
    assert printed(capfd) == "100 1"
    assert [(one.replaced, one.left) for one in placed] == [(0, 1), (1, 0)]
    broken = replace(small, source="no program")
    run_with(together(broken, large), [*launching, "64:64"])
    assert printed(capfd) == "100"


@needs.pocl
def test_winners_for_different_devices_take_their_own_s_launches(
    kernel: Winner, launching: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def on(device: str, value: int) -> Winner:
        return replace(adds(kernel, value, (64, True)), recording=replace(kernel.recording, device=device))

    own = kernel.recording.device
    winners = together(on("Some card", 10), on(own, 100))
    _, placed = run_with(winners, [*launching, "64:64", "128:128"])
    assert printed(capfd) == "100 100"
    assert [(one.name, one.replaced, one.left) for one in placed] == [
        ("work (Some card)", 0, 0),
        (f"work ({own})", 2, 0),
    ]
    # On a device that none of them is for the application's own kernel stays.
    _, placed = run_with(together(on("Some card", 10), on("Another card", 20)), [*launching, "64:64"])
    assert printed(capfd) == "1"
    assert sum(one.left for one in placed) == 1
    monkeypatch.setenv("POCL_DEVICES", "basic")
    run_with(winners, [*launching, "64:64"])
    assert printed(capfd) == "1"


@needs.pocl
def test_two_that_no_size_tells_apart_are_refused(kernel: Winner) -> None:
    one, other = adds(kernel, 10, (64, True)), adds(kernel, 100, (64, True))
    with pytest.raises(UsageError, match=r"0\.run and 1\.run both replace work, and were timed at the same"):
        together(one, other)
    notes: list[str] = []
    none = adds(kernel, 99, (64, False))
    found = by_size([(Path("a.run"), none), (Path("b.run"), one)], note=notes.append)
    assert [getattr(w, "source", "") for w in found] == [one.source]
    assert notes == ["a.run is left out: it claims no gain, and another run does at its sizes"]
    notes.clear()
    assert by_size([(Path("a.run"), none), (Path("b.run"), none)], note=notes.append) == ()
    assert notes[1] == "work stays as it is: b.run claims no gain"


LIBRARY = """
void scale(int n, int m, float *y) { for (int i = 0; i < n * m; i++) y[i] += 1; }
"""
MAIN = """
void scale(int, int, float *);
int printf(const char *, ...); int atoi(const char *);
float y[1 << 20];
int main(int count, char **words) {
    for (int i = 1; i < count; i++) {
        y[0] = 0;
        int m = 2;
        for (char *at = words[i]; *at; at++) if (*at == 'x') m = atoi(at + 1);
        scale(atoi(words[i]), m, y);
        printf("%g ", y[0]);
    }
    printf("\\n");
    return 0;
}
"""
SPEC = """\
kernel: {source: library.c, entry: scale}
problem: {SIZE: N, m: 2}
arguments:
  - {name: n, dtype: int32, value: SIZE}
  - {name: m, dtype: int32, value: m}
  - {name: y, dtype: float32, shape: [SIZE, m], role: inout}
space: {parameters: {ROUNDS: [200, 1]}, passes: off}
search: {strategy: exhaustive, budget: {evaluations: 2}}
"""


@pytest.fixture
def calling(tmp_path: Path) -> list[str]:
    """An application that calls one function at the sizes that it is given."""
    return made_application(tmp_path, LIBRARY)


def made_application(folder: Path, library: str) -> list[str]:
    """Its function stands in a library."""
    (folder / "library.c").write_text(library)
    (folder / "main.c").write_text(MAIN)
    return with_library(folder, "library.c", program="calling")


def function_adds(
    folder: Path, value: int, size: int, m: int = 2, *, name: str = "n", more: str = ""
) -> FunctionWinner:
    """A winner that adds something else than the function does, timed at one size."""
    path = folder / f"{value}.yaml"
    text = SPEC.replace("SIZE", name).replace("N", str(size), 1).replace("m: 2", f"m: {m}")
    path.write_text(text + more)
    (loaded,) = load_spec(path)
    backend, task = HostBackend(), loaded.task
    text = LIBRARY.replace("+= 1", f"+= {value}")
    variant = replace(task.kernel.variant, files=(replace(task.kernel.variant.files[0], text=text),))
    resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
    evaluation = backend.prepare(task, workers=1)
    try:
        (build,) = evaluation.build([BuildRequest(trial=0, variant=variant, resolved=resolved)])
    finally:
        evaluation.close()
    assert build.status is Status.OK, build.message
    verified = Verified(
        sizes=(*task.problems, *task.verify.problems, Problem(sizes={name: 1000, "m": max(m, 2)})),
        assumed=task.verify.assume,
    )
    found = backend.replacement(task, build.code, resolved)
    return FunctionWinner(task=task, verified=verified, found=found)


def test_each_call_of_a_function_gets_the_winner_of_the_nearest_size(
    calling: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    any_size = 'verify: {assume: ["n >= 1", "m == 2"]}\n'
    small = function_adds(tmp_path, 10, 16, more=any_size)
    # What one spec calls n is size in another: the argument is the same.
    large = function_adds(tmp_path, 100, 512, name="size")
    for winners in (together(small, large), together(large, small)):
        ran, placed = run_with(winners, [*calling, "16", "512", "40", "300", "1000", "2000"])
        assert ran.status == 0
        # 300 is nearer to 512, whose winner was not verified on it; nothing was verified on 2000.
        assert printed(capfd) == "10 100 10 10 100 1"
        assert {one.name: (one.replaced, one.left) for one in placed} == {
            "scale (n = 16)": (3, 0),
            "scale (size = 512)": (2, 1),
        }


def test_calls_and_wisdom_choose_the_same_nearest_size(
    calling: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    timed = {10: (16, 500), 20: (500, 16), 30: (100, 100), 40: (3, 2)}
    assume = 'verify: {assume: ["n >= 1", "m >= 1"]}\n'
    winners = [
        replace(one, verified=replace(one.verified, sizes=(Problem(sizes={"n": 1000, "m": 1000}),)))
        for one in (function_adds(tmp_path, value, n, m, more=assume) for value, (n, m) in timed.items())
    ]
    random = Random(0)
    calls = [(round(2 ** random.uniform(0, 9.9)), round(2 ** random.uniform(0, 9.9))) for _ in range(300)]
    run_with(together(*winners), [*calling, *(f"{n}x{m}" for n, m in calls)])
    found = [int(word) for word in printed(capfd).split()]
    for (n, m), value in zip(calls, found, strict=True):
        far = {v: distance({"n": a, "m": b}, {"n": n, "m": m}) for v, (a, b) in timed.items()}
        assert far[value] <= min(far.values()) + 1e-12, (n, m)
    assert set(found) == set(timed)


def test_specs_that_describe_a_function_differently_are_refused(calling: list[str], tmp_path: Path) -> None:
    small, large = function_adds(tmp_path, 10, 16), function_adds(tmp_path, 100, 512)
    other = replace(
        large.task, arguments=(replace(large.task.arguments[0], dtype="int64"), *large.task.arguments[1:])
    )
    with pytest.raises(UsageError, match="the specs of two runs give scale different arguments"):
        run_with(together(small, replace(large, task=other)), [*calling, "16"])


# ---- which runs ----


def simulated(folder: Path, size: int, *, gains: bool) -> Path:
    """A finished run for one size, over times from a formula."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "product.c").write_text(products.KERNEL)
    text = products.SPEC.replace("{n: 64}", f"{{n: {size}}}").replace("{evolve: true}", "{evolve: false}")
    (folder / "product.yaml").write_text(text)
    (spec,) = load_spec(folder / "product.yaml")
    backend = products.backend(seconds=products.seconds if gains else lambda _: 1e-3)
    result = tune_spec(
        spec, Options(library=None, evaluations=4), out=folder.parent / "runs", backend=backend
    )
    assert result.improved is gains
    return Path(result.path)


def test_a_folder_stands_for_the_newest_run_of_each_size(tmp_path: Path) -> None:
    notes: list[str] = []
    older, newer = (simulated(tmp_path / name, 64, gains=True) for name in ("older", "newer"))
    none = simulated(tmp_path / "none", 256, gains=False)
    # The one without a gain says at which sizes the kernel stays as it is.
    found = chosen_runs([older.parent], note=notes.append)
    assert sorted(found) == sorted([newer, none])
    assert chosen_runs([older, none], note=notes.append) == [older, none]
    assert not notes
    large = simulated(tmp_path / "large", 256, gains=True)
    assert sorted(chosen_runs([older.parent], note=notes.append)) == sorted([newer, large])
    assert chosen_runs([none, large], note=notes.append) == [large]
    assert notes == [f"the kernel of {none} stays as it is: the run claims no gain"]


def test_a_kernel_recorded_into_two_folders_gets_the_run_of_each(tmp_path: Path) -> None:
    small, large = (
        simulated(tmp_path / name, size, gains=True) for name, size in (("small", 64), ("large", 256))
    )
    for name in ("small", "large"):
        kernels = [{"name": "product", "spec": "product.yaml"}]
        (tmp_path / name / "kernels.json").write_text(json.dumps({"kernels": kernels}))
    named = [tmp_path / "small", tmp_path / "large", tmp_path / "runs"]
    assert chosen_runs(named, note=print) == [small, large]
    # Where the folder has gone elsewhere since, the newest of its name is taken, as it was before.
    (tmp_path / "small").rename(tmp_path / "moved")
    assert chosen_runs([tmp_path / "moved", tmp_path / "runs"], note=print) == [large]


# ---- from runs, with the commands ----


def invoked(*words: str) -> str:
    """What a command says on stderr; it has to end well."""
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stderr


SLOW = """
#ifndef ROUNDS
#define ROUNDS 1
#endif
void scale(int n, int m, float *y) {
    volatile int rounds = ROUNDS;
    for (int k = 0; k < rounds; k++) __asm__ volatile("" ::: "memory");
    for (int i = 0; i < n * m; i++) y[i] += 1;
}
"""


@pytest.mark.integration
@pytest.mark.measured
def test_runs_of_a_function_at_two_sizes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = made_application(tmp_path, SLOW)
    runs = []
    for size in (64, 4096):
        path = tmp_path / f"scale{size}.yaml"
        path.write_text(SPEC.replace("SIZE", "n").replace("N", str(size), 1).replace("200, 1", "300000, 1"))
        result = tuner.tune(path, out="tuner-runs", seed=0)
        assert result.improved, repr(result.to_json())
        result.export("build")
        runs.append(result.path)
    words = [*command, "64", "4096", "64"]
    # Named, from their folder, and from the one wisdom file that both were exported to.
    wisdom = next(Path("build").glob("*.wisdom.json"))
    for named in (runs, ["tuner-runs"], [str(wisdom)]):
        said = invoked("apply", *map(str, named), "--", *words)
        assert printed(capfd) == "1 1 1"
        assert "2 calls of scale (n = 64) with the winner in place" in said
        assert "1 calls of scale (n = 4096) with the winner in place" in said
    result = CliRunner().invoke(app, ["ab", *map(str, runs), "--json", "--pairs", "4", "--", *words])
    winners = json.loads(result.stdout)["winners"]
    assert [(w["sizes"], w["replaced"]) for w in winners] == [({"n": [64]}, 2), ({"n": [4096]}, 1)]
    shown = CliRunner().invoke(app, ["ab", *map(str, runs), "--pairs", "4", "--", *words]).stdout
    assert "scale (n = 4096): 1 calls replaced, 0 left" in shown


@needs.pocl
@pytest.mark.measured
def test_runs_of_a_kernel_recorded_at_two_sizes(launching: list[str], tmp_path: Path) -> None:
    """What the page says, as it stands there, of an application that launches both sizes where it is given none."""
    (tmp_path / "app").write_text(
        f'#!/bin/sh\ncase "$2" in 1000) set 1;; 4000) set 4;; *) set 1 4 2 1;; esac\n'
        f'for i; do w="$w $((i * 16384)):$((i * 16384))"; done; exec {" ".join(launching)} $w\n'
    )
    (tmp_path / "app").chmod(0o755)
    said = {}
    for line in block("docs/putting-back.md", "--out sizes"):
        few = line.replace("tuner ab ", "tuner ab --pairs 4 ")
        if line.startswith("tune "):
            few += " --evaluations 24 --seed 0"
        said[line.split()[1]] = run(few, tmp_path)
    winners = winners_of(chosen_runs([tmp_path / "sizes"], note=print))
    sizes = sorted(w.sizes["global_x"] for w in winners)
    assert sizes == [(16384,), (65536,)]
    assert winners[0].sizes.keys() == {"global_x", "n", "x_bytes"}
    # Twice the smaller is as near to the one as to the other.
    assert "1 1 1 1" in said["apply"]
    counts = {n: int(c) for c, n in re.findall(r"(\d+) calls of work \(global_x = (\d+);", said["apply"])}
    assert (sum(counts.values()), min(counts["16384"] - 2, counts["65536"] - 1)) == (4, 0)
    assert len(re.findall(r"work \(global_x = \d+; .*\): \d calls replaced, 0 left", said["ab"])) == 2
