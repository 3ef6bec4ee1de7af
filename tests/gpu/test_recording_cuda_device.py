"""Launches recorded from CUDA applications on a card, and replayed there: through the driver itself, and through CuPy.

pytest -m gpu
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import needs
import numpy as np
import pytest

from tuner.core.protocols import BaselineReport
from tuner.core.types import BuildRequest, Status
from tuner.driver.applications.listing import list_launches
from tuner.driver.applications.recording import record_kernel
from tuner.evaluators.cuda.backend import CudaBackend
from tuner.evaluators.cuda.nvrtc import find_library
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.load import load_spec

pytestmark = [*needs.gpu, *needs.nvrtc]

SCALE = """
struct view { const float *x; float *y; int n; };
extern "C" __global__ void scale(const float *x, float *y, float f, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += f * x[i];
}
__constant__ float factor = 1;
extern "C" __global__ void through(view v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < v.n) v.y[i] += factor * v.x[i];
}
"""

DRIVER = """
import ctypes, sys
from ctypes import byref, c_void_p, c_uint64, c_size_t, c_int, c_float
cu, rtc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL({nvrtc!r})
def ok(status):
    assert status == 0, status
device, context, module, program, size = c_int(), c_void_p(), c_void_p(), c_void_p(), c_size_t()
ok(cu.cuInit(0)); ok(cu.cuDeviceGet(byref(device), 0))
ok(cu.cuDevicePrimaryCtxRetain(byref(context), device)); ok(cu.cuCtxSetCurrent(context))
major, minor = c_int(), c_int()
ok(cu.cuDeviceGetAttribute(byref(major), 75, device)); ok(cu.cuDeviceGetAttribute(byref(minor), 76, device))
ok(rtc.nvrtcCreateProgram(byref(program), {source!r}.encode(), None, 0, None, None))
options = (ctypes.c_char_p * 2)(f"-arch=sm_{{major.value}}{{minor.value}}".encode(), b"-DUNUSED=1")
ok(rtc.nvrtcCompileProgram(program, 2, options))
ok(rtc.nvrtcGetCUBINSize(program, byref(size)))
code = ctypes.create_string_buffer(size.value)
ok(rtc.nvrtcGetCUBIN(program, code)); ok(cu.cuModuleLoadData(byref(module), code))
def floats(first, count=4096):
    at, host = c_uint64(), (c_float * count)(*(first + i for i in range(count)))
    ok(cu.cuMemAlloc_v2(byref(at), c_size_t(4 * count)))
    ok(cu.cuMemcpyHtoD_v2(at, host, c_size_t(4 * count)))
    return at
def launch(name, *values):
    function = c_void_p()
    ok(cu.cuModuleGetFunction(byref(function), module, name.encode()))
    words = (c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    ok(cu.cuLaunchKernel(function, 16, 1, 1, 256, 1, 1, 0, None, words, None))
    ok(cu.cuCtxSynchronize())
x, y = floats(0.0), floats(7.0)
"""

PLAIN = "for _ in range(3):\n    launch('scale', x, y, c_float(2), c_int(4000))\n"
STRUCT = """
class View(ctypes.Structure):
    _fields_ = [("x", c_uint64), ("y", c_uint64), ("n", c_int)]
at, room, four = c_uint64(), c_size_t(), c_float(4)
ok(cu.cuModuleGetGlobal_v2(byref(at), byref(room), module, b"factor"))
ok(cu.cuMemcpyHtoD_v2(at, byref(four), c_size_t(4)))
launch('through', View(x.value, y.value, 4000))
"""

CUPY = """
import cupy as cp
kernel = cp.RawKernel({source!r}, "scale")
x = cp.arange(4096, dtype=cp.float32)
y = cp.full(4096, 7, cp.float32)
for _ in range(3):
    kernel((16,), (256,), (x, y, cp.float32(2), cp.int32(4000)))
cp.cuda.Device().synchronize()
"""


def command(text: str, folder: Path) -> list[str]:
    """An application of this text."""
    path = folder / "application.py"
    path.write_text(text)
    return [sys.executable, str(path)]


def driver_application(body: str, folder: Path) -> list[str]:
    """An application that calls the driver and NVRTC themselves."""
    return command(DRIVER.format(nvrtc=find_library(), source=SCALE) + body, folder)


def replay(spec: Path) -> BaselineReport:
    """The recorded kernel, built and run on its recordings as a run begins with; verified and timed once more."""
    (loaded,) = load_spec(spec)
    evaluation = CudaBackend().prepare(loaded.task, workers=1)
    try:
        resolved = loaded.space(None).resolve(loaded.space(None).default())
        request = BuildRequest(trial=0, variant=loaded.task.kernel.variant, resolved=resolved)
        (build,) = evaluation.build([request])
        assert build.status is Status.OK, build.message
        report = evaluation.set_baseline(build, resolved)
        if report.status is Status.OK:
            session = evaluation.open(build, resolved, purpose="confirm", number=0)
            assert session.verify().status is Status.OK, session.verify().message
            measured = session.measure(problem=0, calls=8)
            assert measured.status is Status.OK, measured.message
            session.close()
        return report
    finally:
        evaluation.close()


def test_a_launch_through_the_driver_is_recorded_and_replayed(tmp_path: Path) -> None:
    words = driver_application(PLAIN, tmp_path)
    (listed,) = list_launches(words).to_json()["kernels"]
    assert (listed["name"], listed["launches"], listed["recordable"]) == ("scale", 3, 3)
    assert 0 < listed["seconds"] < 1
    report = record_kernel(words, "scale", tmp_path / "out", instances=1)
    with RecordingFile(report.recordings[0]) as file:
        recording = file.recording
        assert [a.kind for a in recording.arguments[:4]] == ["pointer", "pointer", "scalar", "scalar"]
        before, after = (
            np.frombuffer(get(recording.arguments[1].root), "f4") for get in (file.before, file.after)
        )
    np.testing.assert_array_equal(after[:4000], before[:4000] + 2 * np.arange(4000, dtype="f4"))
    found = replay(report.specs[0])
    assert found.status is Status.OK, found.message


def test_pointers_in_structures_are_replayed_at_their_addresses(tmp_path: Path) -> None:
    report = record_kernel(driver_application(STRUCT, tmp_path), "through", tmp_path / "out", instances=1)
    with RecordingFile(report.recordings[0]) as file:
        assert file.recording.inner
        assert "factor" in [a.name for a in file.recording.arguments]
    found = replay(report.specs[0])
    assert found.status is Status.OK, found.message


def _cupy() -> None:
    if importlib.util.find_spec("cupy") is None:
        pytest.skip("CuPy is not installed: pip install cupy-cuda13x")


def test_a_cupy_script_is_recorded_and_replayed(tmp_path: Path) -> None:
    _cupy()
    words = command(CUPY.format(source=SCALE), tmp_path)
    report = record_kernel(words, "scale", tmp_path / "out", instances=1)
    found = replay(report.specs[0])
    assert found.status is Status.OK, found.message


def test_cupy_is_recorded_from_inside(tmp_path: Path) -> None:
    _cupy()
    body = "".join(f"    {line}\n" for line in CUPY.format(source=SCALE).strip().splitlines())
    text = f'import tuner\nwith tuner.record(kernel="scale", out={str(tmp_path / "out")!r}):\n{body}'
    done = subprocess.run(command(text, tmp_path), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = replay(tmp_path / "out" / "scale.yaml")
    assert found.status is Status.OK, found.message
