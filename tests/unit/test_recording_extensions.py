"""OpenCL applications that use extensions, change their programs, or keep something between launches: nothing else is
taken for what is launched.
"""

from __future__ import annotations

import sys
from pathlib import Path

import needs
import numpy as np
import pytest
from opencl_devices import stand_in_loader

from tuner.core.errors import UsageError
from tuner.driver.applications.recording import record_kernel, record_kernels
from tuner.recorders.recordings.format import RecordingFile

APPLICATION = """
import ctypes
import numpy as np
import pyopencl as cl

devices = [d for p in cl.get_platforms() for d in p.get_devices() if "Portable" in p.name]
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
opencl = ctypes.CDLL("libOpenCL.so.1")
find = opencl.clGetExtensionFunctionAddressForPlatform
find.restype = ctypes.c_void_p
pointer, count, size = ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t

def extension(name, *kinds):
    return ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(find(pointer(devices[0].platform.int_ptr), name))

def text(name, factor="FACTOR"):
    return f"__kernel void {name}(__global float *x) {{ x[get_global_id(0)] *= {factor}; }}"

def built(source, *options):
    return cl.Program(context, source).build(options=[*options], cache_dir=False)

flags = cl.mem_flags
x = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=np.ones(960, np.float32))
elsewhere = np.full(960, 5, np.float32)

given = "__kernel void given(__global float *x, ulong q) { x[get_global_id(0)] *= q ? 2 : 3; }"
plain = built(text("unified", 2) + text("buffered", 2) + given)
unified = cl.Kernel(plain, "unified")
unified.set_args(x)
set_pointer = extension(b"clSetKernelArgMemPointerINTEL", pointer, count, pointer)
assert set_pointer(unified.int_ptr, 0, elsewhere.ctypes.data) == 0
cl.enqueue_nd_range_kernel(queue, unified, (960,), (8,))

buffered = cl.Kernel(plain, "buffered")
buffered.set_args(x)
launch = extension(b"clCommandNDRangeKernelKHR", *[pointer] * 4, count, *[pointer] * 3, count, *[pointer] * 3)
assert launch(None, queue.int_ptr, None, buffered.int_ptr, 1, None, (size * 1)(960), None, 0, None, None, None) == 0

parts = cl.Program(context, text("linked", "3")).compile()
linked = cl.Kernel(cl.link_program(context, [parts]), "linked")
linked.set_args(x)
cl.enqueue_nd_range_kernel(queue, linked, (960,), (8,))

rebuilt = cl.Kernel(built(text("rebuilt"), "-DFACTOR=7"), "rebuilt")
rebuilt.set_args(x)
again = opencl.clBuildProgram(pointer(rebuilt.program.int_ptr), 0, None, b"-DFACTOR=9", None, None)
assert again != 0
cl.enqueue_nd_range_kernel(queue, rebuilt, (960,), (8,))

counting = "__global int counter;\\n" + text("counting", "(counter + 1)")
counted = cl.Kernel(built(counting, "-cl-std=CL2.0"), "counting")
counted.set_args(x)
cl.enqueue_nd_range_kernel(queue, counted, (960,), (8,))

queued = cl.Kernel(plain, "given")
queued.set_args(x, np.uint64(queue.int_ptr))
cl.enqueue_nd_range_kernel(queue, queued, (960,), (8,))
queue.finish()
"""


@needs.pocl
def test_earlier_calls_are_not_taken_for_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in_loader(tmp_path, monkeypatch)
    (tmp_path / "application.py").write_text(APPLICATION)
    command = [sys.executable, "-W", "ignore", str(tmp_path / "application.py")]
    names = ["unified", "buffered", "linked", "rebuilt", "counting", "given"]
    report = record_kernels(command, names, tmp_path / "out", instances=1)
    assert report.ran.status == 0
    assert {use.name: set(use.refused) for use in report.ran.kernels} == {
        "unified": {"unified shared memory"},
        "buffered": {"a command buffer (clCommandNDRangeKernelKHR)"},
        "linked": {"its program is compiled in parts and linked"},
        "rebuilt": set(),
        "counting": {"its program has variables in global memory"},
        "given": {"a queue on the device"},
    }
    (path,) = report.recordings
    with RecordingFile(path) as file:
        assert file.recording.options.split()[0] == "-DFACTOR=7"
        before, after = (np.frombuffer(data, "f4") for data in (file.before(0), file.after(0)))
        np.testing.assert_array_equal(after, 7 * before)


TWICE = (
    APPLICATION.partition("given =")[0]
    + """
program = cl._cl._Program(context, text("twice"))
device = (pointer * 1)(devices[0].int_ptr)
for options in (b"-DFACTOR=2", b"-DFACTOR=3"):
    assert opencl.clBuildProgram(pointer(program.int_ptr), 1, device, options, None, None) == 0
twice = cl.Kernel(program, "twice")
twice.set_args(x)
cl.enqueue_nd_range_kernel(queue, twice, (960,), (8,)).wait()
"""
)


@needs.pocl
@pytest.mark.parametrize("another_device", [False, True])
def test_a_program_built_for_each_device_is_recorded_as_the_one_at_hand_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, another_device: bool
) -> None:
    stand_in_loader(tmp_path, monkeypatch)
    (tmp_path / "application.py").write_text(TWICE)
    command = [sys.executable, "-W", "ignore", str(tmp_path / "application.py")]
    if another_device:
        monkeypatch.setenv("TUNER_TEST_OPTIONS", "-DFACTOR=2")
        with pytest.raises(UsageError, match="built with other options for another device"):
            record_kernel(command, "twice", tmp_path / "out", instances=1)
        return
    (path,) = record_kernel(command, "twice", tmp_path / "out", instances=1).recordings
    with RecordingFile(path) as file:
        assert file.recording.options == "-DFACTOR=3"
        np.testing.assert_array_equal(
            np.frombuffer(file.after(0), "f4"), 3 * np.frombuffer(file.before(0), "f4")
        )


DECLARED = """
enum { ONE = 1, TWO };
typedef struct { int a; float b[3]; } Pair;
struct Node { int next; };
__constant float table[2] = {1, 2};
__constant sampler_t nearest = CLK_FILTER_NEAREST;
const sampler_t other = CLK_FILTER_NEAREST;
struct Node follow(struct Node node);
struct Node follow(struct Node node) { int here[2] = {1, 2}; node.next += here[0]; return node; }
"""


PROGRAMS = {
    "constants": DECLARED,
    "number": "int counter;",
    "array": "static float sums[4];",
    "structure": "struct Node { int next; } node;",
}


@needs.pocl
def test_variables_are_told_from_constants_where_the_driver_counts_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_loader(tmp_path, monkeypatch)
    monkeypatch.setenv("TUNER_TEST_COUNTS", "1")
    body = f"""
for name, declared in {PROGRAMS!r}.items():
    kernel = cl.Kernel(built(declared + text(name, 3), "-cl-std=CL2.0"), name)
    kernel.set_args(x)
    cl.enqueue_nd_range_kernel(queue, kernel, (960,), (8,)).wait()
"""
    (tmp_path / "application.py").write_text(APPLICATION.partition("given =")[0] + body)
    command = [sys.executable, "-W", "ignore", str(tmp_path / "application.py")]
    report = record_kernels(command, list(PROGRAMS), tmp_path / "out", instances=1)
    refused = {"its program has variables in global memory"}
    assert {use.name: set(use.refused) for use in report.ran.kernels} == {
        "constants": set(),
        **dict.fromkeys(("number", "array", "structure"), refused),
    }
    assert len(report.recordings) == 1
