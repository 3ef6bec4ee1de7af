"""Winners in the place of kernels of unmodified CUDA applications, over a stand-in for the driver.

The applications are real processes that reach the driver as statically linked runtimes do. A winner here writes what it
was launched with into its output, so that it can be told from the application's own kernel.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import cuda_applications as shop
import needs
import pytest
import yaml
from spec_files import spec_in
from typer.testing import CliRunner

from tuner.api import tune_spec
from tuner.cli.main import app
from tuner.core.errors import MachineError, UsageError
from tuner.core.protocols import LoadedImage
from tuner.core.types import Resolved, Task
from tuner.driver.applications import winners as winners_module
from tuner.driver.applications.applying import Applied, check_applied, compare, run_with
from tuner.driver.applications.by_size import by_size
from tuner.driver.applications.in_place import ImageWinner, LaunchPlan
from tuner.driver.applications.recording import record_kernel, record_kernels
from tuner.driver.applications.winners import winner_of, winners_of
from tuner.driver.options import Options
from tuner.evaluators.cuda.backend import CudaBackend
from tuner.evaluators.cuda.compiler import CudaCompiler
from tuner.recorders.recordings.format import Recording, RecordingFile
from tuner.spaces.launch import geometry
from tuner.spec.load import load_spec

stand_in, KERNEL, LAUNCH = shop.stand_in, shop.KERNEL, shop.LAUNCH

pytestmark = needs.cc

SHOW = """
    float out[4];
    CU(cuMemcpyDtoH, out, z, sizeof out);
    printf("%g %g %g %g\\n", out[0], out[1], out[2], out[3]);
    fflush(stdout);
"""
TELLS = "    z[0] = grid[0]; z[1] = block[0]; z[2] = shared; z[3] = 100;\n    return 0;"
WINNER = KERNEL.replace("    return 0;", TELLS)
CALL = "CU(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 96, stream, arguments, NULL);"
OWN = (8, 1, 1, 128, 1, 1, 96)
OTHER = (4, 1, 1, 256, 1, 1, 1024)
PLAIN = "3 4 5 6"
REPLACED = "4 256 1024 100"


@pytest.fixture(scope="module")
def applications(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """With the stand-ins built once."""
    return shop.Applications(tmp_path_factory.mktemp("cuda"))


def code_of(folder: Path, text: str) -> bytes:
    """What the stand-in driver takes for an image."""
    return Path(stand_in.compile_shared(folder / "winner.so", text)).read_bytes()


@pytest.fixture(scope="module")
def recording(applications: Any, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The usual launch."""
    return recorded(applications, LAUNCH, tmp_path_factory.mktemp("recorded"))


def recorded(applications: Any, body: str, folder: Path, kernel: str = KERNEL) -> Recording:
    """The launch that a body makes."""
    report = record_kernel(applications.command(body, kernel), "axpy", folder, instances=1)
    with RecordingFile(report.recordings[0]) as file:
        return file.recording


@pytest.fixture
def winner(recording: Recording, tmp_path: Path) -> ImageWinner:
    """Takes the recorded launch with a geometry of its own."""
    return made(recording, code_of(tmp_path, WINNER))


def made(recording: Recording, code: bytes, **given: Any) -> ImageWinner:
    """A winner of this code."""
    constants = given.pop("constants", ())
    image = LoadedImage(code=code, symbol=given.pop("symbol", "axpy"), constants=constants, geometries=())
    launches = given.pop("launches", (LaunchPlan(own=OWN, other=OTHER),))
    return ImageWinner(kernel="axpy", recording=recording, image=image, launches=launches, **given)


def applied(
    winner: ImageWinner, command: list[str], capfd: pytest.CaptureFixture[str]
) -> tuple[str, Applied]:
    """What the application printed last with the winner in place, and what became of that."""
    ran, (placed,) = run_with([winner], command)
    assert ran.status == 0
    return capfd.readouterr().out.strip().splitlines()[-1], placed


LIBRARY = """
    CU(cuLibraryLoadData, &library, code, NULL, NULL, 0, NULL, NULL, 0);
    CU(cuLibraryGetKernel, &function, library, "axpy");
"""
IN_LIBRARY = LAUNCH.replace(
    '    module = compiled(kernel, 1, options);\n    CU(cuModuleGetFunction, &function, module, "axpy");\n',
    """
    void *program, *library; size_t size;
    RTC(nvrtcCreateProgram, &program, source_of(kernel), "k.cu", 0, NULL, NULL);
    RTC(nvrtcCompileProgram, program, 1, options);
    RTC(nvrtcGetCUBINSize, program, &size);
    void *code = malloc(size);
    RTC(nvrtcGetCUBIN, program, code);
"""
    + LIBRARY,
)
EX = """
    struct { int id, pad; unsigned value[16]; } attribute = {ID, 0, {2, 2, 1}};
    struct { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned count; } config =
        {{8, 1, 1}, {128, 1, 1}, 96, stream, &attribute, 1};
    CU(cuLaunchKernelEx, &config, function, arguments, NULL);
"""


@pytest.mark.parametrize(
    "body",
    [
        LAUNCH,
        IN_LIBRARY,
        IN_LIBRARY.replace(
            'CU(cuLibraryGetKernel, &function, library, "axpy");',
            'CU(cuLibraryGetModule, &module, library); CU(cuModuleGetFunction, &function, module, "axpy");',
        ),
        LAUNCH.replace(CALL, EX.replace("ID", "8")),
        LAUNCH.replace(
            CALL,
            "struct { float a; uint64_t x, y, z; int n; } packed = {a, x, y, z, n}; size_t size = sizeof packed;"
            "void *extra[] = {(void *)1, &packed, (void *)2, &size, NULL};"
            "CU(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 96, stream, NULL, extra);",
        ),
    ],
    ids=["module", "library", "library's module", "configuration", "packed"],
)
def test_an_unmodified_application_launches_the_winner_with_its_geometry(
    applications: Any, winner: ImageWinner, capfd: pytest.CaptureFixture[str], body: str
) -> None:
    command = applications.command(body + SHOW)
    subprocess.run(command, check=True)
    assert capfd.readouterr().out.strip() == PLAIN
    shown, placed = applied(winner, command, capfd)
    assert shown == REPLACED
    assert placed == Applied(kernel="axpy", replaced=1, left=0)
    check_applied([placed])


@pytest.mark.parametrize(
    "call",
    [
        CALL.replace("8, 1, 1, 128", "9, 1, 1, 128"),
        CALL.replace("96, stream", "92, stream"),
        EX.replace("ID", "2"),
        EX.replace("ID", "4"),
        CALL.replace("cuLaunchKernel,", "cuLaunchCooperativeKernel,").replace("arguments, NULL", "arguments"),
    ],
    ids=["grid", "shared", "cooperative attribute", "cluster", "cooperative"],
)
def test_launches_that_the_winner_was_not_verified_on_stay_as_they_are(
    applications: Any, winner: ImageWinner, capfd: pytest.CaptureFixture[str], call: str
) -> None:
    shown, placed = applied(winner, applications.command(LAUNCH.replace(CALL, call) + SHOW), capfd)
    assert shown == PLAIN
    assert (placed.replaced, placed.left) == (0, 1)
    assert placed.why == "all 1 calls of axpy are such as it was not verified on"


def test_launches_into_graphs_stay_as_they_are(
    applications: Any, winner: ImageWinner, capfd: pytest.CaptureFixture[str]
) -> None:
    node = """
    struct { void *function; unsigned shape[7]; void *arguments, *extra; } node = {function};
    void *made, *graph;
    CU(cuGraphAddKernelNode, &made, stream, NULL, (size_t)0, &node);
    CU(cuStreamBeginCapture, stream, 0);
    CALL
    CU(cuStreamEndCapture, stream, &graph);
"""
    body = LAUNCH.replace(CALL, node.replace("CALL", CALL)) + SHOW
    shown, placed = applied(winner, applications.command(body), capfd)
    assert shown == "7 7 7 7"  # nothing was launched
    assert (placed.replaced, placed.left) == (0, 2)


def test_a_launch_that_it_was_slower_on_is_left_and_others_are_taken_where_the_source_is_as_given(
    applications: Any, recording: Recording, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = code_of(tmp_path, WINNER)
    slower = LaunchPlan(own=OWN, other=OTHER, taken=False)
    command = applications.command(LAUNCH + SHOW)
    shown, placed = applied(made(recording, code, launches=(slower,), any_launch=True), command, capfd)
    assert (shown, placed.left) == (PLAIN, 1)
    shown, placed = applied(made(recording, code, launches=(), any_launch=True), command, capfd)
    assert (shown, placed.replaced) == ("8 128 96 100", 1)


@pytest.mark.parametrize(
    ("kernel", "body"),
    [
        (KERNEL.replace("work_us(500)", "work_us(400)"), LAUNCH),
        (KERNEL, '    options[0] = "-DSCALE=3";' + LAUNCH),
        (KERNEL.replace("axpy", "other"), LAUNCH.replace('"axpy"', '"other"')),
    ],
    ids=["source", "options", "kernel"],
)
def test_a_module_that_does_not_match_is_left_alone_with_a_note(
    applications: Any, winner: ImageWinner, capfd: pytest.CaptureFixture[str], kernel: str, body: str
) -> None:
    shown, placed = applied(winner, applications.command(body + SHOW, kernel), capfd)
    assert shown == PLAIN
    assert placed == Applied(
        kernel="axpy", replaced=0, left=0, why="the application launches no kernel of the recorded module"
    )
    with pytest.raises(MachineError, match="launches no kernel of the recorded module"):
        check_applied([placed])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"code": b"this is no image"}, "the winner cannot be loaded here (CUDA error 209)"),
        ({"symbol": "other"}, "the winner's image has no such kernel (CUDA error 500)"),
        ({"text": "{4, 8, 8, 8, 8, 0}"}, "the winner takes other parameters than the application passes"),
        ({"text": "{4, 8, 8, 8, 0}"}, "the winner takes other parameters than the application passes"),
        ({"text": "{4, 8, 8, 8, 4, 4, 0}"}, "the winner takes other parameters than the application passes"),
        ({"other": (1, 1, 1, 2048, 1, 1, 0)}, "the winner cannot be launched (CUDA error 1)"),
        ({"constants": ("left",)}, "a constant of the winner is none of the application's"),
    ],
    ids=["no image", "no kernel", "a larger parameter", "fewer", "more", "no launch", "constant"],
)
def test_a_winner_that_does_not_fit_leaves_the_application_as_it_is(
    applications: Any,
    recording: Recording,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    change: dict[str, Any],
    why: str,
) -> None:
    text = WINNER.replace("{4, 8, 8, 8, 4, 0}", change.pop("text", "{4, 8, 8, 8, 4, 0}"))
    code = change.pop("code", None) or code_of(
        tmp_path, text.replace("double stand_in_worked", "int left = 5; double stand_in_worked")
    )
    launches = (LaunchPlan(own=OWN, other=change.pop("other", OTHER)),)
    winner = made(recording, code, launches=launches, **change)
    shown, placed = applied(winner, applications.command(LAUNCH + SHOW), capfd)
    assert shown == PLAIN
    assert placed == Applied(kernel="axpy", replaced=0, left=1, why=why)


def test_an_old_driver_that_tells_no_layout_leaves_the_application_as_it_is(
    applications: Any,
    winner: ImageWinner,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STAND_IN_OLD", "1")
    shown, placed = applied(winner, applications.command(LAUNCH + SHOW), capfd)
    assert shown == PLAIN
    assert placed.why.startswith("a driver before CUDA 12.4")


def test_the_winner_takes_the_application_s_constants(
    applications: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kernel = KERNEL.replace("double stand", "float factor = 1; double stand").replace(
        "a * x[i]", "factor * x[i]"
    )
    body = LAUNCH.replace(
        "    CU(cuLaunchKernel",
        """
    uint64_t at;
    size_t size;
    float factor = 4;
    CU(cuModuleGetGlobal, &at, &size, module, "factor");
    CU(cuMemcpyHtoD, at, &factor, (size_t)4);
    CU(cuLaunchKernel""",
    )
    again = """
    factor = 10;
    CU(cuMemcpyHtoD, at, &factor, (size_t)4);
    CU(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 96, stream, arguments, NULL);
"""
    recording = recorded(applications, body, tmp_path / "out", kernel)
    # It tells the difference by doubling: z = 2 * (factor * x + y).
    code = code_of(tmp_path, kernel.replace("factor * x[i] + y[i]", "2 * (factor * x[i] + y[i])"))
    winner = made(recording, code, constants=("factor", "gone"))
    shown, placed = applied(winner, applications.command(body + SHOW, kernel), capfd)
    # y begins with 3, 3.5, 4, 4.5 and x with 0, 1, 2, 3.
    assert (shown, placed.replaced) == ("6 15 24 33", 1)
    shown, placed = applied(winner, applications.command(body + again + SHOW, kernel), capfd)
    # y is twice what z was.
    assert (shown, placed.replaced) == ("24 80 136 192", 2)


def test_a_kernel_of_a_fat_binary_is_replaced_where_the_image_is_the_recorded_one(
    applications: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = shop.IMAGE + LAUNCH[LAUNCH.index("    float a") :] + SHOW
    stand_in.compile_shared(tmp_path / "kernel.so", KERNEL)
    stand_in.compile_shared(tmp_path / "changed.so", KERNEL.replace("500", "400"))
    words = applications.command(body)[:-1]
    command = [*words, str(tmp_path / "kernel.so")]
    report = record_kernel(command, "axpy", tmp_path / "out", instances=1)
    with RecordingFile(report.recordings[0]) as file:
        recording = file.recording
    assert recording.form == "image"
    winner = made(recording, code_of(tmp_path, WINNER))
    capfd.readouterr()
    shown, placed = applied(winner, command, capfd)
    assert (shown, placed.replaced) == (REPLACED, 1)
    shown, placed = applied(winner, [*words, str(tmp_path / "changed.so")], capfd)
    assert (shown, placed.replaced, placed.left) == (PLAIN, 0, 0)


@pytest.mark.integration
def test_a_recording_of_an_image_is_tuned_with_a_source_that_gives_what_it_gave(
    applications: Any, tmp_path: Path
) -> None:
    body = shop.IMAGE + LAUNCH[LAUNCH.index("    float a") :]
    stand_in.compile_shared(tmp_path / "kernel.so", KERNEL)
    command = [*applications.command(body)[:-1], str(tmp_path / "kernel.so")]
    record_kernel(command, "axpy", tmp_path, instances=1)
    (tmp_path / "own.yaml").write_text(
        "kernel: {source: own.cu, entry: axpy}\nworkload: recordings/*.rec\n"
        "space: {passes: off, parameters: {WAIT: [1, 2]}}\n"
        "verify: {reference: recording}\n"
    )
    for source, status in ((KERNEL, "ok"), (KERNEL.replace("2 * z[i]", "3 * z[i]"), "wrong_result")):
        (tmp_path / "own.cu").write_text(source)
        (loaded,) = load_spec(tmp_path / "own.yaml")
        evaluation = Backend(tmp_path).prepare(loaded.task, workers=1)
        try:
            resolved = loaded.space(None).resolve(loaded.space(None).default())
            request = stand_in.BuildRequest(trial=0, variant=loaded.task.kernel.variant, resolved=resolved)
            (build,) = evaluation.build([request])
            report = evaluation.set_baseline(build, resolved)
        finally:
            evaluation.close()
        assert report.status == status, report.message


TWO = KERNEL + KERNEL.replace("axpy", "fill")
SECOND = """
    CU(cuModuleGetFunction, &function, module, "fill");
    CU(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 96, stream, arguments, NULL);
    CU(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 96, stream, arguments, NULL);
"""


@pytest.mark.integration
def test_several_winners_stand_in_their_places_at_once(
    free_lane: None, applications: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = record_kernels(
        applications.command(LAUNCH + SECOND, TWO), ["axpy", "fill"], tmp_path, instances=1
    )
    found = {}
    for path in report.recordings:
        with RecordingFile(path) as file:
            found[file.recording.entry] = file.recording
    code = code_of(tmp_path, TWO.replace("    return 0;", TELLS))
    winners = [replace(made(found[name], code, symbol=name), kernel=name) for name in ("axpy", "fill")]
    command = applications.command(LAUNCH + SHOW + SECOND, TWO)
    ran, placed = run_with(winners, command)
    assert capfd.readouterr().out.strip() == REPLACED
    assert (ran.replaced, ran.left) == (3, 0)
    assert [(one.kernel, one.replaced) for one in placed] == [("axpy", 1), ("fill", 2)]
    # One that stays away does not keep the other from its place.
    (absent,) = (w for w in winners if w.kernel == "axpy")
    absent = replace(absent, recording=replace(absent.recording, options="-DOTHER"))
    _, placed = run_with([absent, winners[1]], command)
    assert [(one.kernel, one.replaced, one.left) for one in placed] == [("axpy", 0, 0), ("fill", 2, 0)]
    check_applied(placed)
    comparison = compare(winners, command, pairs=4)
    assert (comparison.replaced, comparison.left) == (3, 0)
    assert [one["kernel"] for one in comparison.to_json()["winners"]] == ["axpy", "fill"]


@pytest.mark.integration
def test_winners_for_several_launches_of_one_kernel_each_take_theirs(
    applications: Any, recording: Recording, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    codes = []
    for mark in (10, 20):
        (tmp_path / str(mark)).mkdir()
        codes.append(code_of(tmp_path / str(mark), WINNER.replace("z[3] = 100", f"z[3] = {mark}")))
    wide = (16, 1, 1, 128, 1, 1, 96)
    small = made(recording, codes[0])
    large = made(recording, codes[1], launches=(LaunchPlan(own=wide, other=wide),), any_launch=True)

    def shown(grid: int, *winners: ImageWinner) -> tuple[str, list[tuple[int, int]]]:
        body = LAUNCH.replace(CALL, CALL.replace("8, 1, 1, 128", f"{grid}, 1, 1, 128")) + SHOW
        given = [(Path(f"{number}.run"), winner) for number, winner in enumerate(winners)]
        _, placed = run_with(by_size(given, note=print), applications.command(body))
        return capfd.readouterr().out.strip(), [(one.replaced, one.left) for one in placed]

    assert shown(8, small, large) == ("4 256 1024 10", [(1, 0), (0, 0)])
    assert shown(16, small, large) == ("16 128 96 20", [(0, 0), (1, 0)])
    # One that neither was verified on goes to the one that takes any, else to the nearest of those that do.
    assert shown(9, small, large) == ("9 128 96 20", [(0, 0), (1, 0)])
    loose = replace(small, any_launch=True)
    assert shown(9, large, loose) == ("9 128 96 10", [(0, 0), (1, 0)])
    slower = replace(large, launches=(LaunchPlan(own=wide, other=wide, taken=False),))
    assert shown(16, loose, slower) == (PLAIN, [(0, 0), (0, 1)])
    with pytest.raises(UsageError, match="timed at the same sizes"):
        shown(8, small, loose)


# ---- from a recording to a winner in place, through a run ----

SLOW = KERNEL.replace("work_us(500)", "work_us(WAIT)").replace(
    "\n#ifdef", "\n#ifndef WAIT\n#define WAIT 50000\n#endif\n#ifdef", 1
)


class Backend(stand_in.StandInBackend):  # type: ignore[misc]
    """The stand-in with winners that can be put in place."""

    def replacement(self, task: Task, code: bytes, resolved: Resolved) -> LoadedImage:
        """What the real backend finds in a cubin."""
        launch, values = resolved.launch_of(task), {**resolved.macros, **resolved.scalars}
        geometries = tuple(geometry(launch, values, p.sizes) for p in task.problems)
        return LoadedImage(code=code, symbol=task.kernel.entry, constants=(), geometries=geometries)


def tuned(spec: Path, folder: Path, backend: Backend) -> Path:
    """The run of a recorded kernel that is faster when it waits less, with blocks of another size."""
    data = yaml.safe_load(spec.read_text())
    data["space"] = {"parameters": {"WAIT": [50_000, 5_000]}, "passes": "off"}
    data["launch"] = {"grid": ["global_x // 256"], "block": [256], "shared_bytes": 64}
    data["search"] = {"strategy": "exhaustive", "budget": {"evaluations": 2}}
    spec.write_text(yaml.safe_dump(data))
    (loaded,) = load_spec(spec)
    result = tune_spec(loaded, Options(library=None), out=folder, backend=backend)
    assert result.to_json()["improved"], repr(result.to_json())
    return Path(result.to_json()["run"])


@pytest.mark.integration
def test_from_an_application_to_its_winner_in_place(
    free_lane: None,
    applications: Any,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = applications.command(LAUNCH + SHOW, SLOW)
    report = record_kernel(command, "axpy", tmp_path / "out", instances=1)
    backend = Backend(tmp_path)
    run = tuned(report.specs[0], tmp_path / "runs", backend)
    monkeypatch.setattr(winners_module.backends, "create", lambda name: backend)
    winner = winner_of(run)
    assert isinstance(winner, ImageWinner)
    (plan,) = winner.launches
    assert plan.own == OWN
    assert plan.other == (4, 1, 1, 256, 1, 1, 64)
    assert not winner.any_launch  # WAIT is a macro: the source it was made of is another one
    with pytest.raises(UsageError, match="no run is named"):
        winners_of([])
    copied = tmp_path / "copied.run"
    copied.write_bytes(run.read_bytes())
    with pytest.raises(UsageError, match="both replace axpy"):
        winners_of([run, copied])
    assert len(winners_of([run, run])) == 1
    capfd.readouterr()
    result = CliRunner().invoke(app, ["apply", str(run), "--", *command])
    assert result.exit_code == 0, result.output
    assert "1 calls with the winner in place" in result.output
    assert capfd.readouterr().out.strip() == PLAIN  # the same values, by another kernel
    result = CliRunner().invoke(app, ["ab", str(run), "--pairs", "4", "--json", "--", *command])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    (placed,) = data["winners"]
    assert placed.pop("speedup")["value"] > 1
    assert placed == {
        "kernel": "axpy",
        "device": "",
        "sizes": {},
        "replaced": 1,
        "left": 0,
        "why": "",
        "run": str(run),
        "claim": "improved",
    }


# ---- what the real compiler's images say; needs no GPU ----

REAL = """
__constant__ float factor;
extern "C" __global__ void scale(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
"""
REAL_SPEC = """
kernel: {source: scale.cu, entry: ENTRY}
target: sm_90
problem: {n: 4096}
arguments:
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
launch: {grid: ["ceil(n / BLOCK)"], block: [BLOCK], shared_bytes: 64}
space: {parameters: {BLOCK: {values: [128, 256], macro: false}}, passes: off}
"""


def image(tmp_path: Path, text: str, entry: str = "scale") -> LoadedImage:
    """Of a source compiled with blocks of 256."""
    loaded = spec_in(tmp_path, "scale.cu", text, REAL_SPEC.replace("ENTRY", json.dumps(entry)))
    resolved = Resolved(macros={}, scalars={"BLOCK": 256}, flags=(), pipeline=None)
    request = stand_in.BuildRequest(trial=0, variant=loaded.task.kernel.variant, resolved=resolved)
    with CudaCompiler("sm_90", workers=1) as compiler:
        (build,) = compiler.build(loaded.task, [request])
    assert build.status == "ok", build.message
    return CudaBackend().replacement(loaded.task, build.code, resolved)


@needs.nvrtc
def test_an_image_says_its_kernel_its_constants_and_its_launches(tmp_path: Path) -> None:
    found = image(tmp_path, REAL)
    assert (found.symbol, found.constants) == ("scale", ("factor",))
    (one,) = found.geometries
    assert (one.grid, one.block, one.shared_bytes) == ((16, 1, 1), (256, 1, 1), 64)
    template = REAL.replace('extern "C" __global__', "template <typename T> __global__").replace(
        "const float *x", "const T *x"
    )
    more = template.replace("scale", "rescale") + 'extern "C" __global__ void other(float *y) { *y = 1; }'
    found = image(
        tmp_path,
        more.replace("__constant__ float factor;", "").replace("factor *", "2 *") + template,
        "scale<float>",
    )
    assert found.symbol.startswith("_Z5scaleIfE")


@needs.nvrtc
def test_variables_that_kernels_may_write_to_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="variable calls, which kernels may write to"):
        image(
            tmp_path,
            REAL.replace("__constant__", "__device__ int calls;\n__constant__").replace(
                "if (i", "calls++; if (i"
            ),
        )


def test_non_cubins_cannot_be_put_in_place() -> None:
    task = stand_in.make_task()
    with pytest.raises(UsageError, match="is no cubin"):
        CudaBackend().replacement(task, b"text", stand_in.RESOLVED)
