"""``with tuner.record(...)`` around pyopencl on PoCL, a CUDA driver reached from Python, and ctypes calls."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cuda_stand_in as stand_in
import needs
import numpy as np
import pytest
from opencl_machine import system_drivers

import tuner
from tuner.core.errors import UsageError
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.load import load_spec

Script = Callable[[str], dict[str, Any]]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Runs a program in a process of its own; what its ``answer`` holds at the end."""

    def run(text: str) -> dict[str, Any]:
        path = tmp_path / "program.py"
        path.write_text(
            f"import json, sys\nanswer = {{}}\n{text}\njson.dump(answer, open(sys.argv[1], 'w'))\n"
        )
        command = [sys.executable, str(path), str(tmp_path / "answer.json")]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads((tmp_path / "answer.json").read_text())
        return answer

    return run


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's drivers, for the program."""
    system_drivers(monkeypatch)


OPENCL = """
import numpy as np
import pyopencl as cl
import tuner
from tuner.core.errors import TunerError

TEXT = '''
__kernel void scale(__global const float *x, __global float *y, float f, int n)
{
    int i = get_global_id(0);
    if (i < n) y[i] = f * x[i];
}
'''
devices = [d for p in cl.get_platforms() for d in p.get_devices() if "Portable" in p.name]
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
flags = cl.mem_flags
x = np.arange(256, dtype=np.float32)

def buffer(data):
    return cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=data)

a, y = buffer(x), buffer(np.full(256, 7, np.float32))
program = cl.Program(context, TEXT).build(options=["-DUNUSED=1"])
"""


@needs.pocl
@pytest.mark.usefixtures("drivers")
def test_pyopencl_is_recorded_in_several_blocks_or_refused_as_any_application(
    script: Script, tmp_path: Path
) -> None:
    """With what was made before a block; of several kernels; and what comes after an error of the block's own."""
    answer = script(
        OPENCL.replace(
            "__kernel void scale",
            "__kernel void twice(__global float *y) { y[get_global_id(0)] *= 2; }\n__kernel void scale",
        )
        + """
program.scale(queue, (128,), (32,), a, y, np.float32(9), np.int32(1))
with tuner.record(kernel="scale", out="one", instances=2) as live:
    for n in range(3):
        program.scale(queue, (256,), (32,), a, y, np.float32(2), np.int32(200))
    late = buffer(x + 1)
    program.scale(queue, (128,), (32,), late, y, np.float32(3), np.int32(100))
program.scale(queue, (64,), (32,), a, y, np.float32(9), np.int32(1))
queue.finish()

with tuner.record(kernel=["scale", "twice"], out="two", instances=1) as live:
    for n in range(2):
        program.scale(queue, (256,), (32,), a, y, np.float32(2), np.int32(200))
        program.twice(queue, (256,), (32,), y)
answer["recordings"] = [path.name for path in live.recordings]
try:
    with tuner.record(kernel=[], out="none"):
        pass
except TunerError as error:
    answer["none"] = str(error)

TEXT = '__kernel void k(read_only image2d_t i, __global float *y) { y[0] = read_imagef(i, (int2)(0, 0)).x; }'
image = cl.image_from_array(context, np.zeros((4, 4, 4), np.float32), 4)
other = cl.Program(context, TEXT).build()
for name in ("k", "scale"):
    try:
        with tuner.record(kernel=name, out="refused"):
            other.k(queue, (1,), None, image, y)
            queue.finish()
    except TunerError as error:
        answer[name] = str(error)
try:
    with tuner.record(kernel="scale", out="kept") as live:
        program.scale(queue, (256,), (32,), a, y, np.float32(2), np.int32(200))
        raise KeyError("the block's own")
except KeyError:
    answer["kept"] = len(live.recordings)
"""
    )
    found = {}
    for path in (tmp_path / "one" / "recordings").glob("*.rec"):
        with RecordingFile(path) as file:
            found[file.recording.global_size] = (file.recording.count, np.frombuffer(file.after(1), "f4"))
            assert "y[i] = f * x[i]" in file.recording.text
            assert "-DUNUSED=1" in file.recording.options
    assert {size: count for size, (count, _) in found.items()} == {(256,): 3, (128,): 1}
    np.testing.assert_array_equal(found[(256,)][1][:200], 2 * np.arange(200, dtype="f4"))
    (spec,) = load_spec(tmp_path / "one" / "scale.yaml")
    assert len(spec.task.problems) == 2
    assert [name.split("-")[0] for name in answer["recordings"]] == ["scale", "twice"]
    assert "the kernel has no name" in answer["none"]
    index = json.loads((tmp_path / "two" / "kernels.json").read_text())
    assert {k["name"] for k in index["kernels"]} == {"scale", "twice"}
    for name in ("scale", "twice"):
        load_spec(tmp_path / "two" / f"{name}.yaml")
    assert "an image" in answer["k"]
    assert answer["scale"].startswith("this program launched no OpenCL or CUDA kernel 'scale'")
    assert answer["kept"] == 1


LINKED = """
int cuLaunchKernel(void *, int, int, int, int, int, int, int, void *, void **, void **);
int launch(void *function, void **words)
{
    return cuLaunchKernel(function, 1, 1, 1, 16, 1, 1, 0, 0, words, 0);
}
"""


@pytest.mark.integration
@needs.cc
def test_a_cuda_driver_that_is_reached_from_python(script: Script, tmp_path: Path) -> None:
    """By a function's name; by a table of addresses that is sealed once the library is loaded; by one filled late."""
    driver, nvrtc = stand_in.build_driver(tmp_path), stand_in.build_nvrtc(tmp_path)
    kernel = """
#ifdef __CUDACC__
extern "C" __global__ void axpy(float *y, int n) { int i = threadIdx.x; if (i < n) y[i] = 2 * y[i]; }
#else
const unsigned long axpy_layout[] = {8, 4, 0};
int axpy(void **args, const unsigned *g, const unsigned *b, unsigned s)
{
    float *y = *(float **)args[0];
    for (int i = 0; i < *(int *)args[1]; i++) y[i] = 2 * y[i];
    return 0;
}
#endif
"""
    sealed, late = (
        stand_in.compile_shared(tmp_path / name, LINKED, how, "-Wl,--no-as-needed", driver)
        for name, how in (("libsealed.so", "-Wl,-z,relro,-z,now"), ("liblate.so", "-Wl,-z,lazy"))
    )
    script(
        f"""
import ctypes
import tuner
from ctypes import byref, c_uint64, c_void_p, c_size_t
with tuner.record(kernel="axpy", out="out", instances=3) as live:
    cu, rtc = ctypes.CDLL({driver!r}), ctypes.CDLL({nvrtc!r})
    program, module, function, at, size = c_void_p(), c_void_p(), c_void_p(), c_uint64(), c_size_t()
    rtc.nvrtcCreateProgram(byref(program), {kernel.encode()!r}, None, 0, None, None)
    assert rtc.nvrtcCompileProgram(program, 0, None) == 0
    rtc.nvrtcGetCUBINSize(program, byref(size))
    code = ctypes.create_string_buffer(size.value)
    rtc.nvrtcGetCUBIN(program, code)
    assert cu.cuModuleLoadData(byref(module), code) == 0
    assert cu.cuModuleGetFunction(byref(function), module, b"axpy") == 0
    assert cu.cuMemAlloc_v2(byref(at), c_size_t(64)) == 0
    host = (ctypes.c_float * 16)(*range(16))
    n = ctypes.c_int()
    words = (c_void_p * 2)(ctypes.addressof(at), ctypes.addressof(n))
    for n.value, launch in (
        (10, lambda: cu.cuLaunchKernel(function, 1, 1, 1, 16, 1, 1, 0, None, words, None)),
        (11, lambda: ctypes.CDLL({sealed!r}).launch(function, words)),
        (12, lambda: ctypes.CDLL({late!r}).launch(function, words)),
    ):
        cu.cuMemcpyHtoD_v2(at, host, c_size_t(64))
        assert launch() == 0
"""
    )
    found = {}
    for path in (tmp_path / "out" / "recordings").glob("*.rec"):
        with RecordingFile(path) as file:
            assert (file.recording.api, file.recording.text) == ("cuda", kernel)
            n = int.from_bytes(file.recording.arguments[1].value, "little")
            found[n] = np.frombuffer(file.after(2), "f4").tolist()
    assert found == {n: [2.0 * i if i < n else i for i in range(16)] for n in (10, 11, 12)}
    (spec,) = load_spec(tmp_path / "out" / "axpy.yaml")
    assert [a.name for a in spec.task.arguments] == ["y", "n"]


FUNCTION = """
void scale(float *x, int n, double f) { for (int i = 0; i < n; i++) x[i] *= f; }
double total(const float *x, int n) { double s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }
"""
SPEC = """
kernel: {source: scale.c, entry: scale}
problem: {n: 64}
arguments:
  - {name: x, dtype: float32, shape: [n], role: inout}
  - {name: n, dtype: int32, value: n}
  - {name: f, dtype: float64, value: 2.0}
space: {flags: {math: ["", "-ffast-math"]}, passes: off}
"""


@pytest.fixture
def library(tmp_path: Path) -> ctypes.CDLL:
    """A C library with a spec of one of its functions beside it."""
    (tmp_path / "scale.yaml").write_text(SPEC)
    path = tmp_path / "libscale.so"
    stand_in.compile_shared(path, FUNCTION)
    (tmp_path / "scale.c").write_text(FUNCTION)
    return ctypes.CDLL(str(path))


@needs.cc
def test_ctypes_calls_are_recorded(library: ctypes.CDLL, tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32)
    library.scale.argtypes = [np.ctypeslib.ndpointer(np.float32), ctypes.c_int, ctypes.c_double]
    own = library.scale
    with tuner.record(tmp_path / "scale.yaml", library=library, instances=2) as live:
        for _ in range(3):
            library.scale(x, 64, 3.0)
        library.scale(x, 32, 0.5)
    assert library.scale is own
    library.scale(x, 64, 1.0)
    found = {}
    for path in live.recordings:
        with RecordingFile(path) as file:
            n = int.from_bytes(file.recording.arguments[1].value, "little")
            found[n] = (file.recording.count, np.frombuffer(file.before(0), "f4"), file.after(0))
    assert {n: count for n, (count, _, _) in found.items()} == {64: 3, 32: 1}
    np.testing.assert_array_equal(found[64][1], 9 * np.arange(64))
    np.testing.assert_array_equal(np.frombuffer(found[64][2], "f4"), 27 * np.arange(64))
    assert len(found[32][1]) == 32
    text = SPEC + "workload: recordings/scale-*.rec\nverify: {reference: recording}\n"
    (tmp_path / "tuned.yaml").write_text(text)
    assert len(load_spec(tmp_path / "tuned.yaml")[0].task.problems) == 2


@needs.cc
def test_of_ctypes_calls_that_repeat_one_is_of_the_later_half(library: ctypes.CDLL, tmp_path: Path) -> None:
    x = np.zeros(64, dtype=np.float32)
    library.scale.argtypes = [np.ctypeslib.ndpointer(np.float32), ctypes.c_int, ctypes.c_double]
    with tuner.record(tmp_path / "scale.yaml", library=library, instances=2) as live:
        for number in range(100):
            x[:] = number
            library.scale(x, 64, 1.0)
    assert {np.frombuffer(file.before(0), "f4")[0] for file in map(RecordingFile, live.recordings)} == {
        47,
        95,
    }


@needs.cc
@pytest.mark.parametrize(
    "pointer",
    [
        lambda a: a.ctypes.data,
        lambda a: a.ctypes,
        lambda a: a.ctypes.data_as(ctypes.POINTER(ctypes.c_float)),
        lambda a: (ctypes.c_float * 64).from_address(a.ctypes.data),
        lambda a: ctypes.byref((ctypes.c_float * 64).from_address(a.ctypes.data)),
        lambda a: ctypes.c_void_p(a.ctypes.data),
    ],
    ids=["address", "ctypes", "pointer", "array", "byref", "void pointer"],
)
def test_arrays_however_they_are_passed(
    library: ctypes.CDLL, tmp_path: Path, pointer: Callable[[Any], Any]
) -> None:
    x = np.arange(64, dtype=np.float32)
    library.scale.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_double]
    with tuner.record(tmp_path / "scale.yaml", library=library) as live:
        library.scale(pointer(x), 64, 3.0)
    with RecordingFile(live.recordings[0]) as file:
        np.testing.assert_array_equal(np.frombuffer(file.before(0), "f4"), np.arange(64))
    np.testing.assert_array_equal(x, 3 * np.arange(64))


@needs.cc
def test_calls_that_cannot_be_captured_are_refused_and_made(library: ctypes.CDLL, tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.float32)
    library.scale.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_double]
    library.scale.restype = None
    with (
        pytest.raises(UsageError, match="no size here"),
        tuner.record(tmp_path / "scale.yaml", library=library),
    ):
        library.scale(x.ctypes.data, 0, 3.0)
    with (
        pytest.raises(UsageError, match="x is a null pointer"),
        tuner.record(tmp_path / "scale.yaml", library=library),
    ):
        library.scale(None, 0, 3.0)
    with (
        pytest.raises(UsageError, match="never called 'scale'"),
        tuner.record(tmp_path / "scale.yaml", library=library),
    ):
        pass
    with pytest.raises(UsageError, match="there is no library"), tuner.record(tmp_path / "scale.yaml"):
        pass
    with pytest.raises(UsageError, match="a spec or a kernel"), tuner.record():
        pass
    assert not list(tmp_path.rglob("*.rec"))


@needs.cc
def test_calls_of_several_threads_at_once_are_refused(library: ctypes.CDLL, tmp_path: Path) -> None:
    slow = "#include <unistd.h>\nvoid scale(float *x, int n, double f) { usleep(300000); x[0] *= f; }\n"
    stand_in.compile_shared(tmp_path / "libslow.so", slow)
    other = ctypes.CDLL(str(tmp_path / "libslow.so"))
    other.scale.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_double]
    x = np.ones(64, np.float32)

    def twice() -> None:
        threads = [threading.Thread(target=other.scale, args=(x.ctypes.data, 64, 2.0)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with (
        pytest.raises(UsageError, match="several threads at once"),
        tuner.record(tmp_path / "scale.yaml", library=other),
    ):
        twice()
    assert x[0] == 4


@needs.cc
def test_an_array_shorter_than_the_spec_says_is_refused(library: ctypes.CDLL, tmp_path: Path) -> None:
    library.total.restype = ctypes.c_double
    text = SPEC.replace("entry: scale", "entry: total, returns: float64").replace(
        "role: inout", "role: input"
    )
    text = text.replace("  - {name: f, dtype: float64, value: 2.0}\n", "").replace(
        "shape: [n]", "shape: [n, 100000000]"
    )
    (tmp_path / "total.yaml").write_text(text)
    page = (ctypes.c_float * 64)(*range(64))
    with (
        pytest.raises(UsageError, match="shorter than the spec says"),
        tuner.record(tmp_path / "total.yaml", library=library),
    ):
        assert library.total(page, 64) == sum(range(64))


UNMAPPING = """
#include <sys/mman.h>
void (*hook)(void);
void scale(float *x, int n, double f) { x[0] *= f; if (hook) hook(); if (f < 0) munmap(x, 4096); }
"""


@needs.cc
def test_an_array_that_the_function_takes_away_is_refused_and_the_program_goes_on(
    library: ctypes.CDLL, tmp_path: Path
) -> None:
    stand_in.compile_shared(tmp_path / "libgone.so", UNMAPPING)
    other, libc = ctypes.CDLL(str(tmp_path / "libgone.so")), ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    other.scale.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_double]
    page = libc.mmap(None, 4096, 3, 0x22, -1, 0)
    with (
        pytest.raises(UsageError, match="x is shorter than the spec says, or leads to no memory"),
        tuner.record(tmp_path / "scale.yaml", library=other),
    ):
        other.scale(page, 64, -1.0)


@needs.cc
def test_of_a_call_that_leads_to_itself_the_outermost_is_recorded(
    library: ctypes.CDLL, tmp_path: Path
) -> None:
    stand_in.compile_shared(tmp_path / "libagain.so", UNMAPPING)
    other = ctypes.CDLL(str(tmp_path / "libagain.so"))
    other.scale.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_double]
    hook = ctypes.c_void_p.in_dll(other, "hook")
    x = np.ones(64, np.float32)

    def again() -> None:
        hook.value = None
        other.scale(x.ctypes.data, 64, 3.0)

    called = ctypes.CFUNCTYPE(None)(again)
    hook.value = ctypes.cast(called, ctypes.c_void_p).value
    with tuner.record(tmp_path / "scale.yaml", library=other) as live:
        other.scale(x.ctypes.data, 64, 2.0)
    with RecordingFile(live.recordings[0]) as file:
        assert np.frombuffer(file.after(0), "f4")[0] == 6
