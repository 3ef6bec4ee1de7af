"""Launches recorded from unmodified CUDA applications, over a stand-in for the driver whose kernels run on the host.

The applications are real processes that reach the driver as statically linked runtimes do.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cuda_applications as shop
import cuda_stand_in as stand_in
import needs
import numpy as np
import pytest

from tuner.core.errors import FullDiskError, SpecError, UsageError
from tuner.core.protocols import BaselineReport
from tuner.core.types import BuildRequest, Status
from tuner.driver.applications.listing import list_launches
from tuner.driver.applications.recording import RecordReport, record_kernel, record_kernels, record_spec
from tuner.evaluators.cuda.backend import CudaBackend
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.load import load_spec

pytestmark = needs.cc

KERNEL, LAUNCH, Applications = shop.KERNEL, shop.LAUNCH, shop.Applications


@pytest.fixture(scope="module")
def applications(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """With the stand-ins built once."""
    return Applications(tmp_path_factory.mktemp("cuda"))


Record = Callable[..., RecordReport]


@pytest.fixture
def record(applications: Any, tmp_path: Path) -> Record:
    """Records one kernel of an application."""

    def run(body: str, kernel: str = KERNEL, name: str = "axpy", instances: int = 1) -> RecordReport:
        return record_kernel(applications.command(body, kernel), name, tmp_path / "out", instances=instances)

    return run


@pytest.mark.integration
def test_a_launch_is_captured_with_everything_that_makes_it(record: Record) -> None:
    report = record(LAUNCH)
    assert record(LAUNCH).recordings == report.recordings, "the same launch is the same recording"
    (path,) = report.recordings
    with RecordingFile(path) as file:
        recording = file.recording
        assert (recording.api, recording.entry, recording.form) == ("cuda", "axpy", "source")
        assert recording.text == KERNEL
        assert recording.options == "-DSCALE=2"
        assert (recording.global_size, recording.local_size) == ((1024, 1, 1), (128, 1, 1))
        assert recording.shared_bytes == 96
        assert recording.device == "stand-in"
        assert recording.seconds > 0.0004
        assert [a.kind for a in recording.arguments] == [
            "scalar",
            *["pointer"] * 3,
            "scalar",
            *["buffer"] * 3,
        ]
        assert recording.arguments[0].value == np.float32(0.5).tobytes()
        assert not recording.inner
        memory = [recording.arguments[i].root for i in (1, 2, 3)]
        before = [np.frombuffer(file.before(m), "f4") for m in memory]
        after = [np.frombuffer(file.after(m), "f4") for m in memory]
        for number in (1, 2, 3):
            pointer = recording.arguments[number]
            place = recording.arguments[pointer.root].place + pointer.offset
            assert int.from_bytes(pointer.value, "little") == place
    np.testing.assert_array_equal(before[0], np.arange(1024))
    np.testing.assert_array_equal(after[0], before[0])
    z = np.where(np.arange(1024) < 1000, 0.5 * before[0] + before[1], 7).astype("f4")
    np.testing.assert_array_equal(after[2], z)
    np.testing.assert_array_equal(after[1][:1000], 2 * z[:1000])


def test_the_list_names_kernels_with_their_share(applications: Any) -> None:
    data = list_launches(applications.command(LAUNCH)).to_json()
    (kernel,) = data["kernels"]
    assert (kernel["name"], kernel["launches"], kernel["recordable"]) == ("axpy", 1, 1)
    assert kernel["share"] == pytest.approx(1.0)
    assert kernel["seconds"] > 0.0004


def replay(spec: Path, folder: Path) -> BaselineReport:
    """The recorded kernel, built and run on its recordings as a run begins with."""
    (loaded,) = load_spec(spec)
    evaluation = stand_in.StandInBackend(folder).prepare(loaded.task, workers=1)
    try:
        space = loaded.space(None)
        resolved = space.resolve(space.default())
        request = BuildRequest(trial=0, variant=loaded.task.kernel.variant, resolved=resolved)
        (build,) = evaluation.build([request])
        assert build.status is Status.OK, build.message
        report: BaselineReport = evaluation.set_baseline(build, resolved)
        if report.status is Status.OK:
            session = evaluation.open(build, resolved, purpose="search", number=0)
            assert session.verify().status is Status.OK, session.verify().message
            assert session.measure(problem=0, calls=8).status is Status.OK
            session.close()
        return report
    finally:
        evaluation.close()


@pytest.mark.integration
def test_a_recorded_launch_is_replayed_and_timed_with_infinity_in_it(record: Record, tmp_path: Path) -> None:
    report = record(LAUNCH.replace("x = floats(1024, 0, 1)", "x = floats(1024, -1 / 0.0f, 1)"))
    assert not report.notes
    with RecordingFile(report.recordings[0]) as file:
        after = np.frombuffer(file.after(file.recording.arguments[3].root), "f4")
    assert np.isinf(after[:1000]).all()
    (spec,) = load_spec(report.specs[0])
    assert [(a.name, a.dtype, a.role.value) for a in spec.task.arguments] == [
        ("a", "float32", "input"),
        ("x", "float32", "input"),
        ("y", "float32", "inout"),
        ("z", "float32", "inout"),
        ("n", "int32", "input"),
    ]
    found = replay(report.specs[0], tmp_path)
    assert found.status is Status.OK, found.message


STRUCT_KERNEL = """
typedef struct node { float value; struct node *next; } node;
typedef struct { const float *x; float *y; node *list; int n; } view;
#ifdef __CUDACC__
__constant__ float factor;
extern "C" __global__ void axpy(view v) { walk(v, factor); }
#else
double stand_in_worked;
float factor = 1;
const unsigned long axpy_layout[] = {sizeof(view), 0};
int axpy(void **args, const unsigned *grid, const unsigned *block, unsigned shared)
{
    view v = *(view *)args[0];
    stand_in_worked += 500e-6;
    for (int i = 0; i < v.n; i++) v.y[i] += factor * v.x[i];
    for (node *at = v.list; at; at = at->next) { v.y[0] += at->value; at->value *= 2; }
    return 0;
}
#endif
"""

STRUCT_LAUNCH = """
    module = compiled(kernel, 1, options);
    CU(cuModuleGetFunction, &function, module, "axpy");
    typedef struct { float value; int pad; uint64_t next; } node;
    struct { uint64_t x, y, list; int n; } view = {floats(256, 0, 1), floats(256, 3, 0.5f), 0, 250};
    for (int i = 0; i < 5; i++) {
        node one = {1.5f + i, 0, view.list};
        CU(cuMemAlloc, &view.list, sizeof one);
        CU(cuMemcpyHtoD, view.list, &one, sizeof one);
    }
    uint64_t at;
    size_t size;
    float factor = 4;
    CU(cuModuleGetGlobal, &at, &size, module, "factor");
    CU(cuMemcpyHtoD, at, &factor, 4);
    void *arguments[] = {&view};
    CU(cuLaunchKernel, function, 2, 1, 1, 128, 1, 1, 0, stream, arguments, NULL);
"""


@pytest.mark.integration
def test_pointers_in_structures_and_in_memory_stay_right_and_what_cannot_be_replaced_is_no_replay(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = record(STRUCT_LAUNCH, STRUCT_KERNEL)
    with RecordingFile(report.recordings[0]) as file:
        memory = [a for a in file.recording.arguments if a.kind == "buffer"]
        assert file.recording.inner
        assert sorted(m.size_bytes for m in memory) == [4, *[16] * 5, 1024, 1024]
        assert [m.name for m in memory if m.name] == ["factor"]
    (spec,) = load_spec(report.specs[0])
    assert spec.task.arguments[0].passing == "value"
    assert {a.passing for a in spec.task.arguments[1:]} == {"memory", "global"}
    found = replay(report.specs[0], tmp_path)
    assert found.status is Status.OK, found.message
    with monkeypatch.context() as patched:
        patched.setenv("STAND_IN_TAKEN", "1")
        found = replay(report.specs[0], tmp_path)
    assert "the recorded address is taken" in found.message
    source = report.specs[0].with_suffix(".cu")
    given = source.read_text()
    source.write_text(given.replace("at->value *= 2", "at->value *= 3"))
    found = replay(report.specs[0], tmp_path)
    assert found.status is Status.WRONG_RESULT
    assert "disagrees with the recording" in found.message
    source.write_text(given.replace("factor", "scaling"))
    found = replay(report.specs[0], tmp_path)
    assert found.status is Status.REFUSED
    assert "a variable of the module is gone" in found.message


def test_a_recording_that_needs_its_addresses_needs_a_gpu(record: Record) -> None:
    (spec,) = load_spec(record(STRUCT_LAUNCH, STRUCT_KERNEL).specs[0])
    backend = CudaBackend(driver="no-such-library.so")
    with pytest.raises(SpecError, match="which only a GPU gives"):
        backend.prepare(replace(spec.task, target="sm_90"), workers=1)


@pytest.mark.integration
def test_recordings_with_memory_at_different_addresses_are_tuned_together(
    record: Record, tmp_path: Path
) -> None:
    again = STRUCT_LAUNCH[STRUCT_LAUNCH.index("    void *arguments") :].replace(
        "void *arguments[] = {&view};", ""
    )
    second = "    view.x = floats(512, 1, 1); view.y = floats(128, 2, 2); view.n = 100;\n"
    report = record(STRUCT_LAUNCH + second + again, STRUCT_KERNEL, instances=2)
    assert len(report.recordings) == 2
    (spec,) = load_spec(report.specs[0])
    shapes = {
        a.name: [a.shape[0].integer(p.sizes) for p in spec.task.problems]
        for a in spec.task.arguments
        if a.shape is not None
    }
    assert sorted(shapes["memory0"]) == [1024, 2048]
    found = replay(report.specs[0], tmp_path)
    assert found.status is Status.OK, found.message


def pointer_to(call: str) -> str:
    """The usual launch with one buffer made by another call."""
    return LAUNCH.replace("z = floats(1024, 7, 0);", f"z; {call}")


GRAPH_NODE = """
    struct { void *function; unsigned shape[7]; void *arguments, *extra; } node = {function};
    void *made;
    CU(cuGraphAddKernelNode, &made, stream, NULL, (size_t)0, &node);
"""
ATTRIBUTE = """
    struct { int id, pad; unsigned value[16]; } attribute = {ID, 0, {2, 2, 1}};
    struct { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned count; } config =
        {{8, 1, 1}, {128, 1, 1}, 96, stream, &attribute, 1};
    CU(cuLaunchKernelEx, &config, function, arguments, NULL);
"""
PLAIN = "CU(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 96, stream, arguments, NULL);"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (pointer_to("CU(cuMemAllocManaged, &z, (size_t)4096, 1);"), "managed memory"),
        (pointer_to("CU(cuMemHostAlloc, &z, (size_t)4096, 2);"), "host memory that the device reaches"),
        (
            pointer_to(
                "CU(cuMemAddressReserve, &z, (size_t)2 << 20, 0l, 0l, 0l); uint64_t h;"
                "CU(cuMemCreate, &h, (size_t)2 << 20, NULL, 0l); CU(cuMemMap, z, (size_t)2 << 20, 0l, h, 0l);"
            ),
            "memory mapped with cuMemMap",
        ),
        (pointer_to("CU(cuMemAllocNobodyKnows, &z, (size_t)4096);"), "made in a way that is not followed"),
        (
            pointer_to("z = floats(1024, 7, 0); CU(cuCtxCreate, &context, 0, 1);"),
            "memory of another device .peer memory.",
        ),
        (LAUNCH.replace("float a", 'void *t; CU(cuModuleGetTexRef, &t, module, "t"); float a'), "a texture"),
        (
            pointer_to("z = 0; CU(cuTexObjectCreate, &z, NULL, NULL, NULL); n = 0;"),
            "a texture",
        ),
        (pointer_to("z = 0; CU(cuSurfObjectCreate, &z, NULL); n = 0;"), "a surface"),
        (
            LAUNCH.replace(
                "float a", 'size_t w; uint64_t m; CU(cuLibraryGetManaged, &m, &w, module, "axpy"); float a'
            ),
            "managed memory",
        ),
        (
            LAUNCH.replace(
                PLAIN,
                f"CU(cuStreamBeginCapture, stream, 0); {PLAIN} void *g; CU(cuStreamEndCapture, stream, &g);",
            ),
            "it becomes part of a graph",
        ),
        (
            # The other stream's graph would be spoilt by waiting for the device.
            LAUNCH.replace(
                PLAIN,
                "CU(cuStreamBeginCaptureToGraph, stream, NULL, NULL, NULL, (size_t)0, 0);"
                f"{PLAIN.replace('stream', 'NULL')} void *g; CU(cuStreamEndCapture, stream, &g);",
            ),
            "it becomes part of a graph",
        ),
        (LAUNCH.replace(PLAIN, GRAPH_NODE), "it becomes part of a graph"),
        (LAUNCH.replace(PLAIN, ATTRIBUTE.replace("ID", "2")), "a cooperative launch"),
        (LAUNCH.replace(PLAIN, ATTRIBUTE.replace("ID", "4")), "a launch with clusters"),
        (LAUNCH.replace(PLAIN, ATTRIBUTE.replace("ID", "77")), "a launch attribute that is not known"),
        (
            LAUNCH.replace("cuLaunchKernel,", "cuLaunchCooperativeKernel,").replace(
                "arguments, NULL);", "arguments);"
            ),
            "a cooperative launch",
        ),
    ],
    ids=[
        *(
            "managed",
            "host",
            "mapped",
            "unknown",
            "peer",
            "texture reference",
            "texture",
            "surface",
            "managed variable",
        ),
        *(
            "stream capture",
            "capture to a graph",
            "graph node",
            "cooperative attribute",
            "cluster",
            "unknown attribute",
            "cooperative",
        ),
    ],
)
def test_uncapturable_launches_are_refused_by_name(
    record: Record, tmp_path: Path, body: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        record(body)
    assert not list((tmp_path / "out").rglob("*.rec"))


def test_memory_that_kernels_allocate_is_refused(record: Record) -> None:
    kernel = KERNEL.replace(
        "double stand_in_worked;", "double stand_in_worked; void *malloc(unsigned long); void *kept;"
    )
    kernel = kernel.replace("work_us(500);", "work_us(500); kept = malloc(n);")
    with pytest.raises(UsageError, match="memory that kernels allocate themselves"):
        record(LAUNCH, kernel)


def test_a_driver_that_tells_no_layout_is_refused(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_OLD", "1")
    with pytest.raises(UsageError, match=r"before CUDA 12\.4"):
        record(LAUNCH)


@pytest.mark.parametrize(
    "body",
    [
        pointer_to('CU(cuMemAllocAsync, &z, (size_t)4096, stream); CU(cuMemcpyHtoD, z, "", (size_t)1);'),
        "    flags = 2;" + pointer_to("CU(cuMemAllocFromPoolAsync, &z, (size_t)4096, NULL, stream);"),
        LAUNCH.replace(
            PLAIN,
            "struct { float a; uint64_t x, y, z; int n; } packed = {a, x, y, z, n}; size_t size = sizeof packed;"
            "void *extra[] = {(void *)1, &packed, (void *)2, &size, NULL};"
            "CU(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 96, stream, NULL, extra);",
        ),
        LAUNCH.replace(PLAIN, ATTRIBUTE.replace("ID", "8")),
    ],
    ids=["async", "pool and per-thread stream", "packed", "with a configuration"],
)
def test_other_ways_to_allocate_and_to_launch(record: Record, body: str) -> None:
    (path,) = record(body).recordings
    with RecordingFile(path) as file:
        recording = file.recording
        assert [a.kind for a in recording.arguments] == [
            "scalar",
            *["pointer"] * 3,
            "scalar",
            *["buffer"] * 3,
        ]
        x, z = (np.frombuffer(file.after(recording.arguments[i].root), "f4") for i in (1, 3))
        assert recording.arguments[4].value == np.int32(1000).tobytes()
    assert x[999] == 999
    assert z[10] == 0.5 * 10 + 3 + 5


def test_a_statically_linked_runtime_is_recorded_and_not_tuned(applications: Any, tmp_path: Path) -> None:
    stand_in.compile_shared(tmp_path / "kernel.so", KERNEL)
    body = shop.IMAGE + LAUNCH[LAUNCH.index("    float a") :]
    command = [*applications.command(body)[:-1], str(tmp_path / "kernel.so")]
    data = list_launches(command).to_json()
    assert [(k["name"], k["recordable"]) for k in data["kernels"]] == [("axpy", 1)]
    report = record_kernel(command, "axpy", tmp_path / "out", instances=1)
    assert not report.specs
    assert any("without its source" in note for note in report.notes)
    with RecordingFile(report.recordings[0]) as file:
        assert file.recording.form == "image"
        assert (tmp_path / "kernel.so").read_bytes() in bytes.fromhex(file.recording.text)


def test_a_module_from_a_file_is_recorded(applications: Any, tmp_path: Path) -> None:
    image = stand_in.compile_shared(tmp_path / "kernel.so", KERNEL)
    body = LAUNCH.replace("module = compiled(kernel, 1, options);", "CU(cuModuleLoad, &module, kernel);")
    command = [*applications.command(body)[:-1], image]
    report = record_kernel(command, "axpy", tmp_path / "out", instances=1)
    with RecordingFile(report.recordings[0]) as file:
        assert bytes.fromhex(file.recording.text) == Path(image).read_bytes()


def test_launches_are_recorded_for_a_spec(record: Record, applications: Any) -> None:
    (spec,) = load_spec(record(LAUNCH).specs[0])
    changed = LAUNCH.replace("float a = 0.5f", "float a = 0.25f")
    report = record_spec(applications.command(changed), spec, instances=1)
    with RecordingFile(report.recordings[0]) as file:
        assert file.recording.arguments[0].value == np.float32(0.25).tobytes()
    assert report.recordings[0].parent.name == "recordings"


@pytest.mark.parametrize(
    ("kernel", "body", "why"),
    [
        (KERNEL.replace("#else", '#include "own.h"\n#else'), LAUNCH, "includes own.h, which is not captured"),
        (KERNEL, '    options[0] = "-G";' + LAUNCH, "-G cannot be honoured"),
    ],
    ids=["header", "option"],
)
def test_inexpressible_launches_are_recorded_and_reported(
    record: Record, kernel: str, body: str, why: str
) -> None:
    report = record(body, kernel)
    assert len(report.recordings) == 1
    assert not report.specs
    assert any(why in note for note in report.notes)


def test_options_as_nvrtc_takes_them_become_the_specs(record: Record) -> None:
    body = LAUNCH.replace(
        "module = compiled(kernel, 1, options);",
        'const char *all[] = {"-arch=sm_90", "-I/usr/include/cupy", "--std=c++17", "-D", "NAME=a b", "-use_fast_math"};'
        "module = compiled(kernel, 6, all);",
    )
    (spec,) = load_spec(record(body).specs[0])
    assert spec.tunables.flags["recorded"] == ("--std=c++17 '-DNAME=a b' -use_fast_math",)


def test_a_kernel_of_a_template_is_known_by_its_expression(applications: Any, tmp_path: Path) -> None:
    kernel = KERNEL.replace('extern "C" __global__', "template <typename T, int N> __global__")
    kernel = kernel.replace("const float *x", "const T *x", 1)
    command = applications.command('    expression = "axpy<float, 4>";' + LAUNCH, kernel)
    report = record_kernel(command, "axpy<float, 4>", tmp_path / "out", instances=1)
    (spec,) = load_spec(report.specs[0])
    assert spec.task.kernel.entry == "axpy<float, 4>"
    assert [a.dtype for a in spec.task.arguments] == ["float32"] * 4 + ["int32"]


TWO_KERNELS = KERNEL + KERNEL.replace("axpy", "_Z4fillPf")
SECOND = """
    CU(cuModuleGetFunction, &function, module, "_Z4fillPf");
    CU(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 96, stream, arguments, NULL);
    CU(cuLaunchKernel, function, 4, 1, 1, 128, 1, 1, 96, stream, arguments, NULL);
    CU(cuStreamSynchronize, stream);
"""


def test_several_kernels_are_recorded_in_one_run(applications: Any, tmp_path: Path) -> None:
    second = "_Z4fillPf"
    command = applications.command(LAUNCH + SECOND, TWO_KERNELS)
    report = record_kernels(command, ["axpy", second, "never"], tmp_path / "out", instances=1)
    assert {p.name for p in report.specs} <= {"axpy.yaml", f"{second.strip('_')}.yaml"}
    assert "nothing of never was recorded" in report.notes
    assert not any(f"nothing of {name}" in note for name in ("axpy", second) for note in report.notes)
    assert report.index is not None
    index = json.loads(report.index.read_text())
    # One recording of each: the room of one kernel is not the other's.
    assert {k["name"]: len(k["recordings"]) for k in index["kernels"]} == {"axpy": 1, second: 1}
    assert sum(k["share"] for k in index["kernels"]) == pytest.approx(1)
    (path,) = (tmp_path / "out").glob(f"recordings/{second.strip('_')}-*.rec")
    with RecordingFile(path) as file:
        assert file.recording.entry == "fill"


@pytest.mark.integration
def test_recordings_with_other_data_are_held_out(applications: Any, tmp_path: Path) -> None:
    again = "    CU(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 96, stream, arguments, NULL);\n"
    body = LAUNCH + again + "    CU(cuStreamSynchronize, stream);\n"
    report = record_kernel(applications.command(body), "axpy", tmp_path / "out", instances=2)
    assert len(report.recordings) == 2
    (spec,) = load_spec(report.specs[0])
    (problem,) = spec.task.problems
    assert [sizes["recording"] for sizes in problem.held_out] == [2]


@pytest.mark.integration
def test_a_pointer_into_the_middle_and_one_memory_for_all(record: Record, tmp_path: Path) -> None:
    report = record(LAUNCH.replace("z = floats(1024, 7, 0);", "z = y; y = x + 2048; n = 100;"))
    (spec,) = load_spec(report.specs[0])
    by_name = {a.name: a for a in spec.task.arguments}
    assert by_name["y"].address is not None
    size = {n: by_name[n].shape[0].integer(spec.task.problems[0].sizes) for n in ("x", "y", "z")}  # type: ignore[index]
    assert size == {"x": 512, "y": 512, "z": 1024}
    # What shares an allocation with something that is written to may be written to through it.
    assert by_name["x"].role.value == "inout"
    found = replay(report.specs[0], tmp_path)
    assert found.status is Status.OK, found.message


def test_launches_before_a_crash_are_recorded(record: Record) -> None:
    report = record(LAUNCH + "    abort();\n")
    assert any("SIGABRT" in note for note in report.notes)
    assert len(report.recordings) == 1


def test_a_crash_in_the_middle_of_a_recording_leaves_none(record: Record, tmp_path: Path) -> None:
    kernel = KERNEL.replace("double stand_in_worked;", "double stand_in_worked; void abort(void);")
    with pytest.raises(UsageError, match="ended in the launch that was being recorded"):
        record(LAUNCH, kernel.replace("work_us(500);", "abort();"))
    assert not list((tmp_path / "out").rglob("*.rec"))
    assert not list((tmp_path / "out").rglob("*.part"))


def test_a_kernel_that_fails_leaves_no_recording(record: Record, tmp_path: Path) -> None:
    kernel = KERNEL.replace("return 0;", "return 700;")
    with pytest.raises(UsageError, match="the launch failed"):
        record(LAUNCH.replace("CU(cuStreamSynchronize, stream);", ""), kernel)
    assert not list((tmp_path / "out").rglob("*.rec"))


def test_a_full_disk_loses_the_recording_and_not_the_application(record: Record, tmp_path: Path) -> None:
    first = "#include <sys/resource.h>\n#include <signal.h>\n"
    limit = (
        "    struct rlimit most = {1000, 1000}; signal(SIGXFSZ, SIG_IGN); setrlimit(RLIMIT_FSIZE, &most);\n"
    )
    done = "    float out; CU(cuMemcpyDtoH, &out, z, (size_t)4); if (out != 3) abort();\n"
    done += f'    if (mkdir("{tmp_path}/done", 0700)) abort();\n'
    body = LAUNCH.replace("    float a", limit + "    float a") + done
    command = Applications(tmp_path).command(body, first=first)
    with pytest.raises(FullDiskError, match="the recording cannot be written"):
        record_kernel(command, "axpy", tmp_path / "out", instances=1)
    assert not list((tmp_path / "out").rglob("*.rec"))
    assert (tmp_path / "done").exists()


@pytest.mark.integration
def test_memory_that_went_with_its_context_is_not_taken_for_what_lies_there_now(record: Record) -> None:
    body = """
    uint64_t gone[4];
    for (int i = 0; i < 4; i++) CU(cuMemAlloc, &gone[i], (size_t)(1 << 20));
    CU(cuMemFreeEverythingNobodyKnows);
    module = compiled(kernel, 1, options);
    CU(cuModuleGetFunction, &function, module, "axpy");
    float a = 0.5f;
    int n = 1000;
    uint64_t all = floats(4 << 20, 0, 1), x = all + (5 << 20), y = all, z = all + (9 << 20);
    void *arguments[] = {&a, &x, &y, &z, &n};
    CU(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 96, stream, arguments, NULL);
    CU(cuStreamSynchronize, stream);
"""
    (path,) = record(body).recordings
    with RecordingFile(path) as file:
        buffers = [a for a in file.recording.arguments if a.kind == "buffer"]
        assert [a.size_bytes for a in buffers] == [16 << 20]


def test_a_program_that_is_compiled_again_keeps_the_options_of_what_was_loaded(record: Record) -> None:
    body = """
    void *program, *code;
    size_t size;
    const char *others[] = {"-DSCALE=3"};
    RTC(nvrtcCreateProgram, &program, source_of(kernel), "k.cu", 0, NULL, NULL);
    RTC(nvrtcCompileProgram, program, 1, options);
    RTC(nvrtcGetCUBINSize, program, &size);
    code = malloc(size);
    RTC(nvrtcGetCUBIN, program, code);
    CU(cuModuleLoadData, &module, code);
    RTC(nvrtcCompileProgram, program, 1, others);
""" + LAUNCH.replace("module = compiled(kernel, 1, options);", "")
    (path,) = record(body).recordings
    with RecordingFile(path) as file:
        assert file.recording.options == "-DSCALE=2"
