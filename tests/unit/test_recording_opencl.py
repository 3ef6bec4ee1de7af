"""Launches recorded from unmodified OpenCL applications on PoCL: what is captured is what the kernel got and gave."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import needs
import numpy as np
import pytest
from opencl_machine import system_drivers

from tuner.core.errors import FullDiskError, SpecError, UsageError
from tuner.core.protocols import BaselineReport
from tuner.core.types import BuildRequest, Status
from tuner.driver.applications.listing import list_launches
from tuner.driver.applications.recording import RecordReport, record_kernel
from tuner.evaluators.opencl.backend import OpenClBackend
from tuner.recorders.recordings.format import RecordedArgument, Recording, RecordingFile
from tuner.spec.load import load_spec
from tuner.spec.recorded.first import write_spec

APPLICATION = """
import os, sys
import numpy as np
import pyopencl as cl

devices = [d for p in cl.get_platforms() for d in p.get_devices() if "Portable" in p.name]
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
flags = cl.mem_flags

kept = []

def buffer(data):
    kept.append(cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=data))
    return kept[-1]

def read(memory, size, dtype=np.float32):
    out = np.empty(size, dtype)
    cl.enqueue_copy(queue, out, memory)
    return out

def program(text, options=()):
    return cl.Program(context, text).build(options=list(options), cache_dir=False)

SCALE = '''
__kernel void scale(__global const float *x, __global float *y, float f, int n)
{
    int i = get_global_id(0);
    if (i < n) y[i] = f * x[i];
}
'''
x = np.arange(256, dtype=np.float32)
"""


@pytest.fixture(autouse=True)
def drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The application and the backend on PoCL."""
    system_drivers(monkeypatch)


pytestmark = pytest.mark.usefixtures("no_oclgrind")

Record = Callable[..., RecordReport]


@pytest.fixture
def command(tmp_path: Path) -> Callable[[str], list[str]]:
    """An application with a body of its own."""

    def write(body: str) -> list[str]:
        path = tmp_path / "application.py"
        path.write_text(APPLICATION + body)
        return [sys.executable, str(path)]

    return write


@pytest.fixture
def record(tmp_path: Path, command: Callable[[str], list[str]]) -> Record:
    """Records one kernel of an application."""

    def run(body: str, kernel: str = "scale", instances: int = 1) -> RecordReport:
        return record_kernel(command(body), kernel, tmp_path / "out", instances=instances)

    return run


def contents(path: Path, argument: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """One buffer before and after."""
    with RecordingFile(path) as file:
        return np.frombuffer(file.before(argument), dtype), np.frombuffer(file.after(argument), dtype)


def replay(spec: Path) -> BaselineReport:
    """The recorded kernel, built and run on its recordings as a run begins with."""
    (loaded,) = load_spec(spec)
    evaluation = OpenClBackend().prepare(loaded.task, workers=1)
    try:
        space = loaded.space(None)
        resolved = space.resolve(space.default())
        request = BuildRequest(trial=0, variant=loaded.task.kernel.variant, resolved=resolved)
        (build,) = evaluation.build([request])
        assert build.status is Status.OK, build.message
        return evaluation.set_baseline(build, resolved)
    finally:
        evaluation.close()


@needs.pocl
def test_a_launch_is_captured_with_everything_that_makes_it(record: Record) -> None:
    report = record(
        """
y = buffer(np.full(256, 7, np.float32))
p = program(SCALE, ["-DUNUSED=1"])
p.scale(queue, (256,), (32,), buffer(x), y, np.float32(2.5), np.int32(200))
queue.finish()
"""
    )
    (path,) = report.recordings
    with RecordingFile(path) as file:
        recording = file.recording
        assert (recording.entry, recording.form, recording.count) == ("scale", "source", 1)
        assert "y[i] = f * x[i]" in recording.text
        assert "-DUNUSED=1" in recording.options
        assert (recording.global_size, recording.local_size, recording.offset) == ((256,), (32,), (0,))
        assert recording.platform == "Portable Computing Language"
        assert [a.kind for a in recording.arguments] == ["buffer", "buffer", "scalar", "scalar"]
        assert recording.arguments[2].value == np.float32(2.5).tobytes()
        assert file.changed(1)
        assert not file.changed(0)
    before, after = contents(path, 1)
    assert (before == 7).all()
    expected = np.where(np.arange(256) < 200, 2.5 * np.arange(256), 7)
    np.testing.assert_array_equal(after, expected.astype(np.float32))


@needs.pocl
def test_arguments_set_once_are_those_of_every_later_launch(record: Record) -> None:
    report = record(
        """
k = program(SCALE).scale
y = buffer(np.zeros(256, np.float32))
k.set_args(buffer(x), y, np.float32(2), np.int32(256))
cl.enqueue_nd_range_kernel(queue, k, (256,), (32,))
k.set_arg(2, np.float32(3))
cl.enqueue_nd_range_kernel(queue, k, (256,), (32,))
queue.finish()
""",
        instances=2,
    )
    found = {}
    for path in report.recordings:
        with RecordingFile(path) as file:
            found[np.frombuffer(file.recording.arguments[2].value, "f4")[0]] = contents(path, 1)
    assert set(found) == {2.0, 3.0}
    np.testing.assert_array_equal(found[3.0][0], found[2.0][1])
    np.testing.assert_array_equal(found[3.0][1], 3 * np.arange(256, dtype=np.float32))


@needs.pocl
def test_a_global_offset_is_recorded_and_replayed(record: Record) -> None:
    report = record(
        """
k = program(SCALE).scale
k.set_args(buffer(x), buffer(np.zeros(256, np.float32)), np.float32(2), np.int32(256))
cl.enqueue_nd_range_kernel(queue, k, (64,), (16,), (128,))
queue.finish()
"""
    )
    _, after = contents(report.recordings[0], 1)
    assert np.flatnonzero(after).tolist() == list(range(128, 192))
    with RecordingFile(report.recordings[0]) as file:
        assert file.recording.offset == (128,)
    found = replay(report.specs[0])
    assert found.status is Status.OK, found.message


@needs.pocl
def test_of_a_sub_buffer_only_its_own_region_is_captured(record: Record) -> None:
    report = record(
        """
whole = buffer(np.arange(4096, dtype=np.float32))
part = whole.get_sub_region(4096, 1024)
program(SCALE).scale(queue, (256,), (32,), part, buffer(np.zeros(256, np.float32)), np.float32(1), np.int32(256))
queue.finish()
"""
    )
    before, _ = contents(report.recordings[0], 0)
    np.testing.assert_array_equal(before, np.arange(1024, 1280, dtype=np.float32))
    with RecordingFile(report.recordings[0]) as file:
        assert file.recording.arguments[0].offset == 4096
    assert replay(report.specs[0]).status is Status.OK


@needs.pocl
@pytest.mark.parametrize(
    "arguments",
    [
        "whole, whole",
        "whole.get_sub_region(0, 1024), whole",
        "whole.get_sub_region(0, 512), whole.get_sub_region(256, 1024)",
    ],
    ids=["the same", "a part and the whole", "parts that overlap"],
)
def test_arguments_that_share_memory_are_recorded_so_and_refused_by_name(
    record: Record, arguments: str
) -> None:
    report = record(
        f"""
whole = buffer(np.arange(1024, dtype=np.float32))
program(SCALE).scale(queue, (128,), (32,), {arguments}, np.float32(2), np.int32(128))
queue.finish()
""".replace("256, 1024", "256 if devices[0].mem_base_addr_align <= 2048 else 0, 1024")
    )
    with RecordingFile(report.recordings[0]) as file:
        first, second = file.recording.arguments[:2]
        assert first.overlaps(second)
    with pytest.raises(SpecError, match="x and y share memory"):
        load_spec(report.specs[0])


@needs.pocl
def test_parts_of_one_buffer_that_do_not_overlap_are_tuned(record: Record) -> None:
    report = record(
        """
whole = buffer(np.arange(2048, dtype=np.float32))
program(SCALE).scale(queue, (256,), (32,), whole.get_sub_region(0, 1024), whole.get_sub_region(4096, 1024),
                     np.float32(2), np.int32(256))
queue.finish()
"""
    )
    assert replay(report.specs[0]).status is Status.OK


@needs.pocl
def test_an_out_of_order_queue_with_unfinished_writes_is_waited_for(record: Record) -> None:
    report = record(
        """
properties = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
queue = cl.CommandQueue(context, properties=properties)
other = cl.CommandQueue(context)
a, y = buffer(np.zeros(1 << 22, np.float32)), buffer(np.zeros(1 << 22, np.float32))
new = np.full(1 << 22, 3, np.float32)
one = cl.enqueue_copy(other, a, new, is_blocking=False)
k = program(SCALE).scale
k.set_args(a, y, np.float32(2), np.int32(1 << 22))
cl.enqueue_nd_range_kernel(queue, k, (1 << 22,), (64,), wait_for=[one])
queue.finish()
"""
    )
    before, _ = contents(report.recordings[0], 0)
    assert (before == 3).all()
    _, after = contents(report.recordings[0], 1)
    assert (after == 6).all()


@needs.pocl
def test_kernels_of_one_name_in_two_programs_are_kept_apart(record: Record) -> None:
    report = record(
        """
for factor in ("f", "-f"):
    p = program(SCALE.replace("f * x", f"{factor} * x"))
    p.scale(queue, (256,), (32,), buffer(x), buffer(np.zeros(256, np.float32)), np.float32(2), np.int32(256))
queue.finish()
""",
        instances=2,
    )
    assert len(report.specs) == 2
    texts = {s.with_suffix(".cl").read_text() for s in report.specs}
    assert len(texts) == 2
    for spec in report.specs:
        assert len(load_spec(spec)[0].task.problems) == 1


@needs.pocl
def test_earlier_recordings_are_pointed_out(record: Record) -> None:
    body = """
program(SCALE).scale(queue, (256,), (32,), buffer(x), buffer(np.zeros(256, np.float32)), np.float32({}), np.int32(256))
queue.finish()
"""
    first = record(body.format(2))
    again = record(body.format(3))
    assert not set(first.recordings) & set(again.recordings)
    assert any("also takes 1 earlier recordings" in note for note in again.notes)


@needs.pocl
def test_programs_and_buffers_released_right_after_the_launch(record: Record) -> None:
    report = record(
        """
p = program(SCALE)
k = p.scale
del p
a, y = buffer(x), buffer(np.zeros(256, np.float32))
k.set_args(a, y, np.float32(2), np.int32(256))
cl.enqueue_nd_range_kernel(queue, k, (256,), (32,))
a.release(); y.release(); kept.clear()
del k
for i in range(12):
    program(SCALE.replace("scale", f"other{i % 3}"))
    buffer(x); kept.clear()
queue.finish()
"""
    )
    _, after = contents(report.recordings[0], 1)
    np.testing.assert_array_equal(after, 2 * np.arange(256, dtype=np.float32))


@needs.pocl
def test_buffers_given_back_between_the_argument_and_the_launch(record: Record) -> None:
    report = record(
        """
k = cl.Kernel(program(SCALE), "scale")
for n in range(3):
    a, y = buffer(x + n), buffer(np.zeros(256, np.float32))
    keep = cl.Buffer(context, flags.READ_WRITE, 64)
    k.set_args(a, y, np.float32(2), np.int32(256))
    a.release()
    y.release()
    kept.clear()
    others = [buffer(x) for _ in range(20)]
    cl.enqueue_nd_range_kernel(queue, k, (256,), (32,))
    queue.finish()
""",
        instances=3,
    )
    first = sorted(float(contents(path, 1)[1][1]) for path in report.recordings)
    assert first == [2.0, 4.0, 6.0]


@needs.pocl
def test_a_kernel_that_leaves_nothing_else_to_tune_evolves(record: Record) -> None:
    report = record(
        """
text = SCALE.replace("get_global_id(0)", "get_group_id(0) * get_local_size(0) + get_local_id(0)")
p = program(text, ["-cl-mad-enable", "-cl-no-signed-zeros"])
p.scale(queue, (256,), (32,), buffer(x), buffer(np.zeros(256, np.float32)), np.float32(2), np.int32(256))
queue.finish()
"""
    )
    assert not [note for note in report.notes if "does not tune" in note]
    (loaded,) = load_spec(report.specs[0])
    assert loaded.evolves


@needs.pocl
def test_headers_of_the_application_come_with_the_source(record: Record, tmp_path: Path) -> None:
    (tmp_path / "parts" / "deep").mkdir(parents=True)
    (tmp_path / "parts" / "scale.h").write_text(
        '#pragma once\n#include "deep/factor.h"\n#define FACTOR (TWO / 2)\n'
    )
    (tmp_path / "parts" / "deep" / "factor.h").write_text("#define TWO 2.0f\n")
    report = record(
        f"""
text = '#include "scale.h"\\n# include <scale.h>\\n' + SCALE.replace("f * x[i]", "FACTOR * f * x[i]")
p = program(text, ["-I", "{tmp_path}/parts"])
p.scale(queue, (256,), (32,), buffer(x), buffer(np.zeros(256, np.float32)), np.float32(2), np.int32(256))
queue.finish()
"""
    )
    (spec,) = report.specs
    for name in ("scale.h", "deep/factor.h"):
        (tmp_path / "parts" / name).unlink()
    assert "#include" not in spec.with_suffix(".cl").read_text()
    assert replay(spec).status is Status.OK


@needs.pocl
def test_a_header_that_is_gone_is_named(record: Record) -> None:
    report = record(
        """
import tempfile
with tempfile.TemporaryDirectory() as folder:
    open(folder + "/gone.h", "w").write("#define ONE 1")
    p = program('#include "gone.h"\\n' + SCALE, ["-I", folder])
p.scale(queue, (256,), (32,), buffer(x), buffer(np.zeros(256, np.float32)), np.float32(2), np.int32(256))
queue.finish()
"""
    )
    assert not report.specs
    assert any("includes gone.h, which is not captured" in note for note in report.notes)


@needs.pocl
def test_queues_given_back_with_work_under_way(record: Record) -> None:
    """As OpenCL's own C++ header does it, which makes a queue of its own to fill a buffer."""
    report = record(
        """
k = cl.Kernel(program(SCALE), "scale")
new = np.full(1 << 18, 3, np.float32)
for n in range(6):
    a, y = buffer(np.zeros(1 << 18, np.float32)), buffer(np.zeros(1 << 18, np.float32))
    under_way = [cl.enqueue_copy(cl.CommandQueue(context), a, new, is_blocking=False) for _ in range(4)]
    under_way.clear()
    k.set_args(a, y, np.float32(n), np.int32(1 << 18))
    cl.enqueue_nd_range_kernel(queue, k, (1 << 18,), (64,))
    queue.finish()
    kept.clear()
""",
        instances=6,
    )
    assert len(report.recordings) == 6
    for path in report.recordings:
        assert (contents(path, 0)[0] == 3).all()


def test_recordings_of_a_simulator_are_tuned_on_a_device() -> None:
    recording = Recording(
        api="opencl",
        entry="k",
        form="source",
        text="__kernel void k(__global float *x) { x[0] = 1; }",
        arguments=(RecordedArgument(kind="buffer", size_bytes=4, root=0),),
        global_size=(1,),
        platform="Oclgrind",
        device="Oclgrind Simulator",
    )
    _, spec = write_spec([recording], name="k", pattern="*.rec", base=Path())
    assert "target: 'native'" in spec


@needs.pocl
def test_a_kernel_in_place_is_recorded_before_it_writes(record: Record) -> None:
    report = record(
        """
text = '''__kernel void twice(__global float *x) { int i = get_global_id(0); x[i] = 2 * x[i] + 1; }'''
k = program(text).twice
k.set_args(buffer(x))
for _ in range(2):
    cl.enqueue_nd_range_kernel(queue, k, (256,), (32,))
queue.finish()
""",
        "twice",
        instances=2,
    )
    states = sorted((contents(p, 0) for p in report.recordings), key=lambda s: float(s[0].sum()))
    np.testing.assert_array_equal(states[0][0], np.arange(256, dtype=np.float32))
    np.testing.assert_array_equal(states[0][1], states[1][0])
    np.testing.assert_array_equal(states[1][1], 2 * states[1][0] + 1)
    assert replay(report.specs[0]).status is Status.OK


@needs.pocl
def test_nan_and_infinity_come_out_of_the_replay_again(record: Record) -> None:
    report = record(
        """
x[3], x[5], x[7] = np.nan, np.inf, -np.inf
program(SCALE).scale(queue, (256,), (32,), buffer(x), buffer(np.zeros(256, np.float32)), np.float32(2), np.int32(256))
queue.finish()
"""
    )
    (spec,) = load_spec(report.specs[0])
    assert spec.task.verify.nonfinite == "propagate"
    assert replay(report.specs[0]).status is Status.OK


@needs.pocl
def test_a_source_that_computes_something_else_is_no_replay(record: Record) -> None:
    report = record(
        """
program(SCALE).scale(queue, (256,), (32,), buffer(x), buffer(np.zeros(256, np.float32)), np.float32(2), np.int32(256))
queue.finish()
"""
    )
    source = report.specs[0].with_suffix(".cl")
    source.write_text(source.read_text().replace("f * x[i]", "f * x[i] + 1"))
    found = replay(report.specs[0])
    assert found.status is Status.WRONG_RESULT
    assert "disagrees with the recording" in found.message


@needs.pocl
def test_launches_of_one_shape_with_different_data_are_both_kept(record: Record) -> None:
    report = record(
        """
p, y = program(SCALE), buffer(np.zeros(256, np.float32))
for n in range(5):
    p.scale(queue, (256,), (32,), buffer(x + n), y, np.float32(2), np.int32(256))
for n in range(3):
    p.scale(queue, (128,), (32,), buffer(x + n), y, np.float32(2), np.int32(256))
queue.finish()
""",
        instances=3,
    )
    kept = []
    for path in report.recordings:
        with RecordingFile(path) as file:
            kept.append((file.recording.global_size[0], file.recording.count))
    # The new geometry took the place of one of three with equal shapes.
    assert sorted(kept) == [(128, 3), (256, 5), (256, 5)]
    assert len({bytes(contents(p, 0)[0].tobytes()) for p in report.recordings}) >= 2


@needs.pocl
def test_buffers_that_the_host_may_not_read_are_captured(record: Record) -> None:
    report = record(
        """
y = cl.Buffer(context, flags.READ_WRITE | flags.HOST_NO_ACCESS, size=1024)
program(SCALE).scale(queue, (256,), (32,), buffer(x), y, np.float32(2), np.int32(256))
queue.finish()
"""
    )
    _, after = contents(report.recordings[0], 1)
    np.testing.assert_array_equal(after, 2 * np.arange(256, dtype=np.float32))


@needs.pocl
def test_local_memory_passed_as_an_argument_is_replayed(record: Record) -> None:
    report = record(
        """
text = '''
__kernel void turn(__global const float *x, __global float *y, __local float *t)
{
    int i = get_local_id(0), n = get_local_size(0), g = get_group_id(0) * n;
    t[i] = x[g + i];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[g + i] = t[n - 1 - i];
}'''
program(text).turn(queue, (256,), (32,), buffer(x), buffer(np.zeros(256, np.float32)), cl.LocalMemory(128))
queue.finish()
""",
        "turn",
    )
    (spec,) = load_spec(report.specs[0])
    assert [a.name for a in spec.task.arguments] == ["x", "y"]
    assert not spec.tunables.parameters
    assert replay(report.specs[0]).status is Status.OK


@needs.pocl
def test_a_work_group_left_to_the_driver_is_said_so(record: Record) -> None:
    report = record(
        """
program(SCALE).scale(queue, (192,), None, buffer(x), buffer(np.zeros(256, np.float32)), np.float32(2), np.int32(256))
queue.finish()
"""
    )
    with RecordingFile(report.recordings[0]) as file:
        recording = file.recording
    assert recording.local_size == ()
    (spec,) = load_spec(report.specs[0])
    if not recording.suggested:
        assert any("leaves the work-group's size to the driver" in notice for notice in spec.notices)
    assert replay(report.specs[0]).status is Status.OK


@needs.pocl
@pytest.mark.parametrize(
    ("body", "kernel", "why"),
    [
        (
            """
text = '__kernel void k(read_only image2d_t i, __global float *y) { y[0] = read_imagef(i, (int2)(0, 0)).x; }'
image = cl.image_from_array(context, np.zeros((4, 4, 4), np.float32), 4)
k = cl.Kernel(program(text), "k")
k.set_args(image, buffer(x))
""",
            "k",
            "an image",
        ),
        (
            """
once = program(SCALE)
again = cl.Program(context, devices[:1], once.get_info(cl.program_info.BINARIES)[:1]).build()
k = cl.Kernel(again, "scale")
k.set_args(buffer(x), buffer(x), np.float32(2), np.int32(256))
""",
            "scale",
            "binary",
        ),
        (
            """
event = cl.UserEvent(context)
k = cl.Kernel(program(SCALE), "scale")
k.set_args(buffer(x), buffer(x), np.float32(2), np.int32(256))
cl.enqueue_nd_range_kernel(queue, k, (32,), (32,), wait_for=[event])
event.set_status(cl.command_execution_status.COMPLETE)
queue.finish()
sys.exit()
""",
            "scale",
            "a user event",
        ),
    ],
    ids=["image", "binary", "user event"],
)
def test_uncapturable_launches_are_refused_by_name(
    record: Record, tmp_path: Path, body: str, kernel: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        record(body + "\ncl.enqueue_nd_range_kernel(queue, k, (32,), (32,))\nqueue.finish()\n", kernel)
    assert not list((tmp_path / "out").rglob("*.rec"))


@needs.pocl
def test_a_null_buffer_is_no_local_memory(record: Record) -> None:
    report = record(
        """
k = cl.Kernel(program(SCALE), "scale")
k.set_args(buffer(x), None, np.float32(2), np.int32(0))
cl.enqueue_nd_range_kernel(queue, k, (32,), (32,))
queue.finish()
"""
    )
    assert not report.notes
    (loaded,) = load_spec(report.specs[0])
    # It is passed again as it was, in eight bytes, and takes no local memory.
    assert [a.dtype for a in loaded.task.arguments] == ["float32", "bytes8", "float32", "int32"]
    assert loaded.task.launch is not None
    assert loaded.task.launch.shared_bytes is None


@needs.pocl
def test_a_buffer_set_to_no_address_at_all_is_null(record: Record) -> None:
    """C programs pass a null pointer in the place of the value, pyopencl eight zero bytes."""
    report = record(
        """
import ctypes
loader = ctypes.CDLL("libOpenCL.so.1")
loader.clSetKernelArg.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p]
k = cl.Kernel(program(SCALE), "scale")
k.set_args(buffer(x), None, np.float32(2), np.int32(0))
assert not loader.clSetKernelArg(k.int_ptr, 1, 8, None)
cl.enqueue_nd_range_kernel(queue, k, (32,), (32,))
queue.finish()
"""
    )
    assert not report.notes
    (loaded,) = load_spec(report.specs[0])
    assert [a.dtype for a in loaded.task.arguments] == ["float32", "bytes8", "float32", "int32"]
    assert loaded.task.launch is not None
    assert loaded.task.launch.shared_bytes is None
    assert replay(report.specs[0]).status is Status.OK


@needs.pocl
def test_launches_before_a_crash_are_recorded(record: Record) -> None:
    report = record(
        """
program(SCALE).scale(queue, (256,), (32,), buffer(x), buffer(np.zeros(256, np.float32)), np.float32(2), np.int32(256))
os.kill(os.getpid(), 9)
"""
    )
    assert report.ran.status == -9
    assert any("SIGKILL" in note for note in report.notes)
    _, after = contents(report.recordings[0], 1)
    np.testing.assert_array_equal(after, 2 * np.arange(256, dtype=np.float32))


@needs.pocl
def test_a_full_disk_loses_the_recording_and_not_the_application(record: Record, tmp_path: Path) -> None:
    with pytest.raises(FullDiskError, match="the recording cannot be written"):
        record(
            """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
y = buffer(np.zeros(256, np.float32))
program(SCALE).scale(queue, (256,), (32,), buffer(np.resize(x, 1 << 20)), y, np.float32(2), np.int32(256))
queue.finish()
assert read(y, 256)[3] == 6
open(sys.argv[0] + ".done", "w")
"""
        )
    assert (tmp_path / "application.py.done").exists()
    assert not list((tmp_path / "out").rglob("*.rec"))


@needs.pocl
def test_the_list_names_kernels_with_their_share(command: Callable[[str], list[str]]) -> None:
    listing = list_launches(
        command(
            """
p, y = program(SCALE), buffer(np.zeros(256, np.float32))
for n in range(5):
    p.scale(queue, (256,), (32,), buffer(x), y, np.float32(2), np.int32(256))
queue.finish()
"""
        )
    ).to_json()
    (kernel,) = listing["kernels"]
    assert (kernel["name"], kernel["launches"], kernel["recordable"]) == ("scale", 5, 5)
    assert kernel["share"] == pytest.approx(1.0)


@needs.pocl
def test_commands_that_launch_nothing_are_told_so(
    tmp_path: Path, command: Callable[[str], list[str]]
) -> None:
    with pytest.raises(UsageError, match="there is no command"):
        list_launches([str(tmp_path / "nothing")])
    with pytest.raises(UsageError, match="no OpenCL or CUDA kernel"):
        list_launches(["true"])
    body = "program(SCALE).scale(queue, (32,), None, buffer(x), buffer(x), np.float32(2), np.int32(9)); queue.finish()"
    with pytest.raises(UsageError, match="no OpenCL or CUDA kernel 'skale'") as caught:
        record_kernel(command(body), "skale", tmp_path / "out", instances=1)
    assert "a C function is recorded by a spec" in caught.value.hint
    assert not (tmp_path / "out").exists()


@needs.pocl
def test_launches_that_differ_in_what_a_number_is_for_are_no_repetitions(record: Record) -> None:
    report = record(
        """
k = cl.Kernel(program(SCALE), "scale")
k.set_args(buffer(x), buffer(x), np.float32(2), np.int32(200))
cl.enqueue_nd_range_kernel(queue, k, (128,), (64,))
cl.enqueue_nd_range_kernel(queue, k, (128,), None, (64,))
queue.finish()
""",
        instances=2,
    )
    (use,) = report.ran.kernels
    assert len(use.signatures) == 2
    assert len(report.recordings) == 2


@needs.pocl
def test_a_launch_without_work_items_is_refused_by_name(record: Record) -> None:
    with pytest.raises(UsageError, match="scale cannot be recorded: no work-items"):
        record(
            """
import ctypes
k = cl.Kernel(program(SCALE), "scale")
k.set_args(buffer(x), buffer(x), np.float32(2), np.int32(200))
enqueue = ctypes.CDLL("libOpenCL.so.1").clEnqueueNDRangeKernel
none = (ctypes.c_size_t * 1)(0)
handles = [ctypes.c_void_p(one.int_ptr) for one in (queue, k)]
assert enqueue(*handles, 1, None, none, None, 0, None, None) == 0
queue.finish()
"""
        )


@needs.pocl
def test_an_application_may_go_to_another_folder(
    tmp_path: Path, command: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    body = """
os.chdir("elsewhere")
program(SCALE).scale(queue, (256,), (32,), buffer(x), buffer(x), np.float32(2), np.int32(200))
queue.finish()
"""
    report = record_kernel(command(body), "scale", Path("out"), instances=1)
    assert [path.parent for path in report.recordings] == [Path("out/recordings")]
