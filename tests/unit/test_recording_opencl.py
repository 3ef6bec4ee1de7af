"""Launches recorded from unmodified OpenCL applications on PoCL: what is captured is what the kernel got and gave."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest
from opencl_machine import system_drivers

from tuner.core.errors import FullDiskError, SpecError, UsageError
from tuner.core.protocols import BaselineReport
from tuner.core.types import BuildRequest, Status
from tuner.driver.applications.listing import list_launches
from tuner.driver.applications.recording import RecordReport, record_kernel, record_kernels
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

def zeros(size=256):
    return buffer(np.zeros(size, np.float32))

def launch(kernel, size, group, *arguments, at=None):
    kernel.set_args(*arguments)
    cl.enqueue_nd_range_kernel(queue, kernel, (size,), group and (group,), at and (at,))

def scaling(name, options=()):
    return cl.Kernel(program(SCALE.replace("scale", name), options), name)

SCALE = '''
__kernel void scale(__global const float *x, __global float *y, float f, int n)
{
    int i = get_global_id(0);
    if (i < n) y[i] = f * x[i];
}
'''
x = np.arange(256, dtype=np.float32)
"""

PARTS = {
    "whole": """
y = buffer(np.full(256, 7, np.float32))
launch(scaling("whole", ["-DUNUSED=1"]), 256, 32, buffer(x), y, np.float32(2.5), np.int32(200))
""",
    "once": """
k, y = scaling("once"), zeros()
k.set_args(buffer(x), y, np.float32(2), np.int32(256))
cl.enqueue_nd_range_kernel(queue, k, (256,), (32,))
k.set_arg(2, np.float32(3))
cl.enqueue_nd_range_kernel(queue, k, (256,), (32,))
""",
    "parts": """
numbers = np.arange(2048, dtype=np.float32)
numbers[1027], numbers[1029], numbers[1031] = np.nan, np.inf, -np.inf
whole = buffer(numbers)
x_part, y_part = whole.get_sub_region(4096, 1024), whole.get_sub_region(0, 1024)
launch(scaling("parts"), 256, 32, x_part, y_part, np.float32(2), np.int32(256))
""",
    "shared": """
whole = buffer(np.arange(1024, dtype=np.float32))
launch(scaling("shared"), 128, 32, whole, whole, np.float32(2), np.int32(128))
""",
    "within": """
whole = buffer(np.arange(1024, dtype=np.float32))
launch(scaling("within"), 128, 32, whole.get_sub_region(0, 1024), whole, np.float32(2), np.int32(128))
""",
    "across": """
whole = buffer(np.arange(1024, dtype=np.float32))
begin = 256 if devices[0].mem_base_addr_align <= 2048 else 0
one, other = whole.get_sub_region(0, 512), whole.get_sub_region(begin, 1024)
launch(scaling("across"), 128, 32, one, other, np.float32(2), np.int32(128))
""",
    "unordered": """
properties = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
unordered, other = cl.CommandQueue(context, properties=properties), cl.CommandQueue(context)
a, y = zeros(1 << 20), zeros(1 << 20)
new = np.full(1 << 20, 3, np.float32)
one = cl.enqueue_copy(other, a, new, is_blocking=False)
k = scaling("unordered")
k.set_args(a, y, np.float32(2), np.int32(1 << 20))
cl.enqueue_nd_range_kernel(unordered, k, (1 << 20,), (64,), wait_for=[one])
unordered.finish()
""",
    "twins": """
for factor in ("f", "-f"):
    p = program(SCALE.replace("scale", "twins").replace("f * x", f"{factor} * x"))
    launch(p.twins, 256, 32, buffer(x), zeros(), np.float32(2), np.int32(256))
""",
    "released": """
p = program(SCALE.replace("scale", "released"))
k = p.released
del p
queue.finish(); kept.clear()
a, y = buffer(x), zeros()
k.set_args(a, y, np.float32(2), np.int32(256))
cl.enqueue_nd_range_kernel(queue, k, (256,), (32,))
a.release(); y.release(); kept.clear()
del k
for i in range(12):
    program(SCALE.replace("scale", f"other{i % 3}"))
    buffer(x); kept.clear()
""",
    "between": """
k = scaling("between")
for n in range(3):
    a, y = buffer(x + n), zeros()
    keep = cl.Buffer(context, flags.READ_WRITE, 64)
    k.set_args(a, y, np.float32(2), np.int32(256))
    a.release()
    y.release()
    kept.clear()
    others = [buffer(x) for _ in range(20)]
    cl.enqueue_nd_range_kernel(queue, k, (256,), (32,))
    queue.finish()
""",
    "bare": """
text = SCALE.replace("get_global_id(0)", "get_group_id(0) * get_local_size(0) + get_local_id(0)")
p = program(text.replace("scale", "bare"), ["-cl-mad-enable", "-cl-no-signed-zeros"])
launch(p.bare, 256, 32, buffer(x), zeros(), np.float32(2), np.int32(256))
""",
    "headers": """
text = '#include "scale.h"\\n# include <scale.h>\\n' + SCALE.replace("f * x[i]", "FACTOR * f * x[i]")
p = program(text.replace("void scale", "void headers"), ["-I", sys.argv[1]])
launch(p.headers, 256, 32, buffer(x), zeros(), np.float32(2), np.int32(256))
""",
    "gone": """
import tempfile
with tempfile.TemporaryDirectory() as folder:
    open(folder + "/gone.h", "w").write("#define ONE 1")
    p = program('#include "gone.h"\\n' + SCALE.replace("scale", "gone"), ["-I", folder])
launch(p.gone, 256, 32, buffer(x), zeros(), np.float32(2), np.int32(256))
""",
    "given_back": """
k = scaling("given_back")
new = np.full(1 << 18, 3, np.float32)
for n in range(3):
    a, y = zeros(1 << 18), zeros(1 << 18)
    under_way = [cl.enqueue_copy(cl.CommandQueue(context), a, new, is_blocking=False) for _ in range(4)]
    under_way.clear()
    launch(k, 1 << 18, 64, a, y, np.float32(n), np.int32(1 << 18))
    queue.finish()
    kept.clear()
""",
    "in_place": """
text = '__kernel void in_place(__global float *x) { int i = get_global_id(0); x[i] = 2 * x[i] + 1; }'
k, y = program(text).in_place, buffer(x)
for _ in range(2):
    launch(k, 64, 16, y, at=128)
""",
    "edited": """
launch(scaling("edited"), 256, 32, buffer(x), zeros(), np.float32(2), np.int32(256))
""",
    "alike": """
k, y = scaling("alike"), zeros()
for n in range(5):
    launch(k, 256, 32, buffer(x + n), y, np.float32(2), np.int32(256))
for n in range(3):
    launch(k, 128, 32, buffer(x + n), y, np.float32(2), np.int32(256))
""",
    "unread": """
y = cl.Buffer(context, flags.READ_WRITE | flags.HOST_NO_ACCESS, size=1024)
launch(scaling("unread"), 256, 32, buffer(x), y, np.float32(2), np.int32(256))
""",
    "turn": """
text = '''
__kernel void turn(__global const float *x, __global float *y, __local float *t)
{
    int i = get_local_id(0), n = get_local_size(0), g = get_group_id(0) * n;
    t[i] = x[g + i];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[g + i] = t[n - 1 - i];
}'''
launch(program(text).turn, 256, 32, buffer(x), zeros(), cl.LocalMemory(128))
""",
    "left": """
launch(scaling("left"), 192, None, buffer(x), zeros(), np.float32(2), np.int32(256))
""",
    "nulls": """
launch(scaling("nulls"), 32, 32, buffer(x), None, np.float32(2), np.int32(0))
""",
    "absent": """
import ctypes
loader = ctypes.CDLL("libOpenCL.so.1")
loader.clSetKernelArg.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p]
k = scaling("absent")
k.set_args(buffer(x), None, np.float32(2), np.int32(0))
assert not loader.clSetKernelArg(k.int_ptr, 1, 8, None)
cl.enqueue_nd_range_kernel(queue, k, (32,), (32,))
""",
    "places": """
k = scaling("places")
launch(k, 128, 64, buffer(x), buffer(x), np.float32(2), np.int32(200))
launch(k, 128, None, buffer(x), buffer(x), np.float32(2), np.int32(200), at=64)
""",
    "image": """
text = '__kernel void image(read_only image2d_t i, __global float *y) { y[0] = read_imagef(i, (int2)(0, 0)).x; }'
pixels = cl.image_from_array(context, np.zeros((4, 4, 4), np.float32), 4)
launch(cl.Kernel(program(text), "image"), 32, 32, pixels, buffer(x))
""",
    "binary": """
once = program(SCALE.replace("scale", "binary"))
again = cl.Program(context, devices[:1], once.get_info(cl.program_info.BINARIES)[:1]).build()
launch(cl.Kernel(again, "binary"), 32, 32, buffer(x), buffer(x), np.float32(2), np.int32(256))
""",
    "event": """
event = cl.UserEvent(context)
k = scaling("event")
k.set_args(buffer(x), buffer(x), np.float32(2), np.int32(256))
cl.enqueue_nd_range_kernel(queue, k, (32,), (32,), wait_for=[event])
event.set_status(cl.command_execution_status.COMPLETE)
""",
}
"""Parts of one application by the kernel that each launches."""


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

    def run(body: str) -> RecordReport:
        return record_kernel(command(body), "scale", tmp_path / "out", instances=1)

    return run


@dataclass(frozen=True)
class Part:
    """What was recorded of one kernel."""

    report: RecordReport
    recordings: list[Path]
    specs: list[Path]

    @property
    def recording(self) -> Recording:
        """The only one."""
        (path,) = self.recordings
        with RecordingFile(path) as file:
            return file.recording


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Part]:
    """What was recorded of one of :data:`PARTS`, all of which are one application."""
    folder = tmp_path_factory.mktemp("recorded")
    headers = folder / "parts" / "scale.h", folder / "parts" / "deep" / "factor.h"
    headers[1].parent.mkdir(parents=True)
    headers[0].write_text('#pragma once\n#include "deep/factor.h"\n#define FACTOR (TWO / 2)\n')
    headers[1].write_text("#define TWO 2.0f\n")
    (folder / "application.py").write_text(
        APPLICATION + "queue.finish()\n".join(PARTS.values()) + "queue.finish()\n"
    )
    words = [sys.executable, str(folder / "application.py"), str(headers[0].parent)]
    with pytest.MonkeyPatch.context() as patch:
        system_drivers(patch)
        report = record_kernels(words, list(PARTS), folder / "out", instances=3)
    assert report.ran.status == 0
    for header in headers:
        header.unlink()

    def part(name: str) -> Part:
        paths = [path for path in report.recordings if entry_of(path) == name]
        return Part(report, paths, [path for path in report.specs if path.stem.partition("-")[0] == name])

    return part


def entry_of(path: Path) -> str:
    with RecordingFile(path) as file:
        return file.recording.entry


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
def test_a_launch_is_captured_with_everything_that_makes_it(recorded: Callable[[str], Part]) -> None:
    part = recorded("whole")
    (path,) = part.recordings
    with RecordingFile(path) as file:
        recording = file.recording
        assert (recording.entry, recording.form, recording.count) == ("whole", "source", 1)
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
def test_arguments_set_once_are_those_of_every_later_launch(recorded: Callable[[str], Part]) -> None:
    found = {}
    for path in recorded("once").recordings:
        with RecordingFile(path) as file:
            found[np.frombuffer(file.recording.arguments[2].value, "f4")[0]] = contents(path, 1)
    assert set(found) == {2.0, 3.0}
    np.testing.assert_array_equal(found[3.0][0], found[2.0][1])
    np.testing.assert_array_equal(found[3.0][1], 3 * np.arange(256, dtype=np.float32))


@needs.pocl
def test_of_parts_of_a_buffer_each_one_s_own_region_is_captured_and_tuned_nan_and_infinity_too(
    recorded: Callable[[str], Part],
) -> None:
    part = recorded("parts")
    before, _ = contents(part.recordings[0], 0)
    expected = np.arange(1024, 1280, dtype=np.float32)
    expected[[3, 5, 7]] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(before, expected)
    assert part.recording.arguments[0].offset == 4096
    (spec,) = load_spec(part.specs[0])
    assert spec.task.verify.nonfinite == "propagate"
    assert replay(part.specs[0]).status is Status.OK


@needs.pocl
@pytest.mark.parametrize(
    "kernel", ["shared", "within", "across"], ids=["the same", "a part and the whole", "parts that overlap"]
)
def test_arguments_that_share_memory_are_recorded_so_and_refused_by_name(
    recorded: Callable[[str], Part], kernel: str
) -> None:
    part = recorded(kernel)
    first, second = part.recording.arguments[:2]
    assert first.overlaps(second)
    with pytest.raises(SpecError, match="x and y share memory"):
        load_spec(part.specs[0])


@needs.pocl
def test_an_out_of_order_queue_with_unfinished_writes_is_waited_for(recorded: Callable[[str], Part]) -> None:
    (path,) = recorded("unordered").recordings
    before, _ = contents(path, 0)
    assert (before == 3).all()
    _, after = contents(path, 1)
    assert (after == 6).all()


@needs.pocl
def test_kernels_of_one_name_in_two_programs_are_kept_apart(recorded: Callable[[str], Part]) -> None:
    specs = recorded("twins").specs
    assert len(specs) == 2
    texts = {s.with_suffix(".cl").read_text() for s in specs}
    assert len(texts) == 2
    for spec in specs:
        assert len(load_spec(spec)[0].task.problems) == 1


@needs.pocl
def test_programs_and_buffers_released_right_after_the_launch(recorded: Callable[[str], Part]) -> None:
    (path,) = recorded("released").recordings
    _, after = contents(path, 1)
    np.testing.assert_array_equal(after, 2 * np.arange(256, dtype=np.float32))


@needs.pocl
def test_buffers_given_back_between_the_argument_and_the_launch(recorded: Callable[[str], Part]) -> None:
    first = sorted(float(contents(path, 1)[1][1]) for path in recorded("between").recordings)
    assert first == [2.0, 4.0, 6.0]


@needs.pocl
def test_a_kernel_that_leaves_nothing_else_to_tune_evolves(recorded: Callable[[str], Part]) -> None:
    part = recorded("bare")
    assert not [note for note in part.report.notes if "bare.yaml does not tune" in note]
    (loaded,) = load_spec(part.specs[0])
    assert loaded.evolves


@needs.pocl
def test_headers_of_the_application_come_with_the_source(recorded: Callable[[str], Part]) -> None:
    """They are gone when the spec is read, for which the source has to compile."""
    (spec,) = recorded("headers").specs
    text = spec.with_suffix(".cl").read_text()
    assert "#include" not in text
    assert "#define TWO 2.0f" in text
    assert "(TWO / 2)" in text
    assert load_spec(spec)


@needs.pocl
def test_a_header_that_is_gone_is_named(recorded: Callable[[str], Part]) -> None:
    part = recorded("gone")
    assert not part.specs
    assert any("includes gone.h, which is not captured" in note for note in part.report.notes)


@needs.pocl
def test_queues_given_back_with_work_under_way(recorded: Callable[[str], Part]) -> None:
    """As OpenCL's own C++ header does it, which makes a queue of its own to fill a buffer."""
    paths = recorded("given_back").recordings
    assert len(paths) == 3
    for path in paths:
        assert (contents(path, 0)[0] == 3).all()


def spec_of(text: str, entry: str = "k", **more: Any) -> str:
    """Of a recording of one launch."""
    recording = Recording(
        api="opencl",
        entry=entry,
        form="source",
        text=text,
        arguments=(RecordedArgument(kind="buffer", size_bytes=4, root=0),),
        global_size=(64,),
        **more,
    )
    return write_spec([recording], name="k", pattern="*.rec", base=Path())[1]


def test_recordings_of_a_simulator_are_tuned_on_a_device() -> None:
    text = "__kernel void k(__global float *x) { x[0] = 1; }"
    assert "target: 'native'" in spec_of(text, platform="Oclgrind", device="Oclgrind Simulator")


KERNELS = """
#define WIDTH 4
#define GROUP get_local_id(0) /* only the other kernel's */
typedef struct { float x; int kind; } Atom;
constant float table[2] = {1.0f, 2.0f};
static float helper(float x) { return x * table[1]; }
static float deep(float x) { return helper(x) + WIDTH; }
float indexed(float x) { return x + GROUP; }
// barrier(CLK_LOCAL_MEM_FENCE) in a comment
__kernel void plain(__global float *y) { y[get_global_id(0)] = deep(y[0]); }
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void sized(__global float *y) { y[0] = 1; }
__kernel void grouped(__global float *y) { y[0] = indexed(y[1]); }
__kernel void synchronised(__global float *y) { barrier(1); if (y[0]) { y[0] = 1; } }
"""
UNCLEAR = {
    "made by a macro": "#define KERNEL(n) __kernel void n\nKERNEL(plain)(__global int *x) { x[0] = get_local_id(0); }",
    "braces that do not match": "#ifdef A\n__kernel void plain(int a) {\n#else\n__kernel void plain(int a, int b) {\n"
    "#endif\n barrier(1); }",
    "not there": "__kernel void other(void) { barrier(1); }",
}


def test_work_groups_are_tuned_where_nothing_that_a_kernel_reaches_knows_them() -> None:
    """Of a text that cannot be followed all of it counts."""
    for entry in ("plain", "sized", "grouped", "synchronised"):
        assert ("GROUP_X" in spec_of(KERNELS, entry)) is (entry == "plain"), entry
    for why, text in UNCLEAR.items():
        assert "GROUP_X" not in spec_of(text, "plain"), why


@needs.pocl
def test_a_kernel_in_place_is_recorded_before_it_writes_with_its_offset(
    recorded: Callable[[str], Part],
) -> None:
    part = recorded("in_place")
    for path in part.recordings:
        with RecordingFile(path) as file:
            assert file.recording.offset == (128,)
    states = sorted((contents(p, 0) for p in part.recordings), key=lambda s: float(s[0].sum()))
    np.testing.assert_array_equal(states[0][0], np.arange(256, dtype=np.float32))
    np.testing.assert_array_equal(states[0][1], states[1][0])
    expected = states[1][0].copy()
    expected[128:192] = 2 * expected[128:192] + 1
    np.testing.assert_array_equal(states[1][1], expected)
    found = replay(part.specs[0])
    assert found.status is Status.OK, found.message


@needs.pocl
def test_a_source_that_computes_something_else_is_no_replay(recorded: Callable[[str], Part]) -> None:
    (spec,) = recorded("edited").specs
    source = spec.with_suffix(".cl")
    source.write_text(source.read_text().replace("f * x[i]", "f * x[i] + 1"))
    found = replay(spec)
    assert found.status is Status.WRONG_RESULT
    assert "disagrees with the recording" in found.message


@needs.pocl
def test_launches_of_one_shape_with_different_data_are_both_kept(recorded: Callable[[str], Part]) -> None:
    paths, kept = recorded("alike").recordings, []
    for path in paths:
        with RecordingFile(path) as file:
            kept.append((file.recording.global_size[0], file.recording.count))
    # The new geometry took the place of one of three with equal shapes.
    assert sorted(kept) == [(128, 3), (256, 5), (256, 5)]
    assert len({bytes(contents(p, 0)[0].tobytes()) for p in paths}) >= 2


@needs.pocl
def test_buffers_that_the_host_may_not_read_are_captured(recorded: Callable[[str], Part]) -> None:
    (path,) = recorded("unread").recordings
    _, after = contents(path, 1)
    np.testing.assert_array_equal(after, 2 * np.arange(256, dtype=np.float32))


@needs.pocl
def test_local_memory_passed_as_an_argument_is_replayed(recorded: Callable[[str], Part]) -> None:
    (path,) = recorded("turn").specs
    (spec,) = load_spec(path)
    assert [a.name for a in spec.task.arguments] == ["x", "y"]
    assert not spec.tunables.parameters
    assert replay(path).status is Status.OK


@needs.pocl
def test_a_work_group_left_to_the_driver_is_said_so(recorded: Callable[[str], Part]) -> None:
    part = recorded("left")
    assert part.recording.local_size == ()
    (spec,) = load_spec(part.specs[0])
    if not part.recording.suggested:
        assert any("leaves the work-group's size to the driver" in notice for notice in spec.notices)
    assert replay(part.specs[0]).status is Status.OK


@needs.pocl
@pytest.mark.parametrize(
    ("kernel", "why"), [("image", "an image"), ("binary", "binary"), ("event", "a user event")]
)
def test_uncapturable_launches_are_refused_by_name(
    recorded: Callable[[str], Part], kernel: str, why: str
) -> None:
    part = recorded(kernel)
    assert not part.recordings
    (note,) = (note for note in part.report.notes if f" launch of {kernel} cannot be recorded: " in note)
    assert why in note
    assert f"nothing of {kernel} was recorded" in part.report.notes


@needs.pocl
@pytest.mark.parametrize("kernel", ["nulls", "absent"])
def test_a_null_buffer_is_no_local_memory(recorded: Callable[[str], Part], kernel: str) -> None:
    """C programs pass a null pointer in the place of the value, pyopencl eight zero bytes."""
    part = recorded(kernel)
    assert not [note for note in part.report.notes if kernel in note]
    (loaded,) = load_spec(part.specs[0])
    # It is passed again as it was, in eight bytes, and takes no local memory.
    assert [a.dtype for a in loaded.task.arguments] == ["float32", "bytes8", "float32", "int32"]
    assert loaded.task.launch is not None
    assert loaded.task.launch.shared_bytes is None


@needs.pocl
def test_launches_that_differ_in_what_a_number_is_for_are_no_repetitions(
    recorded: Callable[[str], Part],
) -> None:
    part = recorded("places")
    (use,) = (use for use in part.report.ran.kernels if use.name == "places")
    assert len(use.signatures) == 2
    assert len(part.recordings) == 2


@needs.pocl
def test_earlier_recordings_are_pointed_out_and_those_before_a_crash_are_kept(
    tmp_path: Path, command: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application goes to another folder first, which changes no place of what is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    body = """
os.chdir("elsewhere")
launch(scaling("scale"), 256, 32, buffer(x), zeros(), np.float32({}), np.int32(256))
"""
    first = record_kernel(command(body.format(3) + "queue.finish()"), "scale", Path("out"), instances=1)
    assert [path.parent for path in first.recordings] == [Path("out/recordings")]
    assert first.index is None
    crash = command(body.format(2) + "os.kill(os.getpid(), 9)")
    report = record_kernel(crash, "scale", Path("out"), instances=1)
    assert report.ran.status == -9
    assert any("SIGKILL" in note for note in report.notes)
    _, after = contents(report.recordings[0], 1)
    np.testing.assert_array_equal(after, 2 * np.arange(256, dtype=np.float32))
    assert not set(first.recordings) & set(report.recordings)
    assert any("also takes 1 earlier recordings" in note for note in report.notes)


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
