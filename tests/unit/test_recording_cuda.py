"""Launches recorded from unmodified CUDA applications, over a stand-in for the driver whose kernels run on the host.

The applications are real processes that reach the driver as statically linked runtimes do.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuner.core.protocols import BaselineReport
from tuner.core.types import BuildRequest, Status
from tuner.driver.recording import RecordReport, list_launches, record_kernel
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.load import load_spec


def load(path: Path) -> Any:
    """A module of the tests, by its path."""
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module
    found.loader.exec_module(module)
    return module


STAND_INS = Path(__file__).parents[1] / "stand_ins"
stand_in = load(STAND_INS / "cuda_stand_in.py")

pytestmark = pytest.mark.skipif(stand_in.CC is None, reason="no C compiler for the stand-in driver")

KERNEL = """
#ifdef __CUDACC__
extern "C" __global__ void axpy(float a, const float *x, float *y, float *z, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { z[i] = a * x[i] + y[i]; y[i] = 2 * z[i]; }
}
#else
int usleep(unsigned);
const unsigned long axpy_layout[] = {4, 8, 8, 8, 4, 0};
int axpy(void **args, const unsigned *grid, const unsigned *block, unsigned shared)
{
    float a = *(float *)args[0];
    const float *x = *(const float **)args[1];
    float *y = *(float **)args[2], *z = *(float **)args[3];
    int n = *(int *)args[4];
    usleep(500);
    for (int i = 0; i < n; i++) { z[i] = a * x[i] + y[i]; y[i] = 2 * z[i]; }
    return 0;
}
#endif
"""

LAUNCH = """
    module = compiled(kernel, 1, options);
    CU(cuModuleGetFunction, &function, module, "axpy");
    float a = 0.5f;
    int n = 1000;
    uint64_t x = floats(1024, 0, 1), y = floats(1024, 3, 0.5f), z = floats(1024, 7, 0);
    void *arguments[] = {&a, &x, &y, &z, &n};
    CU(cuLaunchKernel, function, 8, 1, 1, 128, 1, 1, 96, stream, arguments, NULL);
    CU(cuStreamSynchronize, stream);
"""


class Applications:
    """Builds and runs applications over the stand-ins."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.libraries = [stand_in.build_driver(folder), stand_in.build_nvrtc(folder)]
        self._made = 0

    def command(self, body: str, kernel: str = KERNEL, first: str = "") -> list[str]:
        """A command that runs an application with this body."""
        self._made += 1
        source, program = self.folder / f"app{self._made}.c", self.folder / f"app{self._made}"
        text = (STAND_INS / "cuda_application.c").read_text()
        source.write_text(first + text.replace("BODY", body.replace("\n", "\n ")))
        subprocess.run([stand_in.CC, "-w", "-o", program, source, "-ldl"], check=True)
        (self.folder / f"kernel{self._made}.cu").write_text(kernel)
        return [str(program), *self.libraries, str(self.folder / f"kernel{self._made}.cu")]


@pytest.fixture(scope="module")
def applications(tmp_path_factory: pytest.TempPathFactory) -> Applications:
    """With the stand-ins built once."""
    return Applications(tmp_path_factory.mktemp("cuda"))


Record = Callable[..., RecordReport]


@pytest.fixture
def record(applications: Applications, tmp_path: Path) -> Record:
    """Records one kernel of an application."""

    def run(body: str, kernel: str = KERNEL, name: str = "axpy", instances: int = 1) -> RecordReport:
        return record_kernel(applications.command(body, kernel), name, tmp_path / "out", instances=instances)

    return run


def test_a_launch_is_captured_with_everything_that_makes_it(record: Record) -> None:
    report = record(LAUNCH)
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


def test_the_list_names_kernels_with_their_share(applications: Applications) -> None:
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


def test_a_recorded_launch_is_replayed_and_timed(record: Record, tmp_path: Path) -> None:
    report = record(LAUNCH)
    assert not report.notes
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
int usleep(unsigned);
float factor = 1;
const unsigned long axpy_layout[] = {sizeof(view), 0};
int axpy(void **args, const unsigned *grid, const unsigned *block, unsigned shared)
{
    view v = *(view *)args[0];
    usleep(500);
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


def test_pointers_in_structures_and_in_memory_stay_right(record: Record, tmp_path: Path) -> None:
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
    source = report.specs[0].with_suffix(".cu")
    source.write_text(source.read_text().replace("at->value *= 2", "at->value *= 3"))
    found = replay(report.specs[0], tmp_path)
    assert found.status is Status.WRONG_RESULT
    assert "disagrees with the recording" in found.message
