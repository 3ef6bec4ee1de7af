"""OpenCL applications that use extensions, change their programs, or keep something between launches: nothing else is
taken for what is launched.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from opencl_devices import stand_in_loader

from tuner.driver.applications.recording import record_kernels
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


def test_what_came_before_is_not_taken_for_what_is_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
