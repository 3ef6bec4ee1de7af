"""Winners in the place of an unmodified application's kernel, and applications that load OpenCL for themselves."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import needs
import pytest
from applications import compiled
from opencl_machine import system_drivers

import tuner
from tuner.core.errors import MachineError, UsageError
from tuner.driver.applications.applying import check_applied, compare, run_with
from tuner.driver.applications.in_place import Winner
from tuner.driver.applications.listing import list_launches
from tuner.driver.applications.recording import record_kernel
from tuner.driver.applications.winners import winner_of
from tuner.recorders.recordings.format import RecordedArgument, Recording, RecordingFile

SOURCE = """__kernel void scale(__global const float *x, __global float *y, float f)
{
    int i = get_global_id(0);
    y[i] = f * x[i];
}
"""

APPLICATION = f"""
import sys
import numpy as np
import pyopencl as cl

SOURCE = '''{SOURCE}'''
devices = [d for p in cl.get_platforms() for d in p.get_devices() if "Portable" in p.name]
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
flags = cl.mem_flags
a = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
b = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=y)
k = cl.Kernel(cl.Program(context, SOURCE).build(options=["-DA=1"], cache_dir=False), "scale")
k.set_args(a, b, np.float32(2))
for size in (960, 1000):
    cl.enqueue_nd_range_kernel(queue, k, (size,), (8,))
cl.enqueue_copy(queue, y, b)
queue.finish()
print(y.sum(), flush=True)
"""

PLAIN = 2.0 * sum(range(1000))
"""What the application prints by itself."""

HOST = r"""
typedef void *H; typedef unsigned long size_t;
extern void *dlopen(const char *, int); extern void *dlsym(void *, const char *);
extern int printf(const char *, ...); extern void exit(int);
#define F(R, N, ...) R (*N)(__VA_ARGS__) = dlsym(l, #N)
int main(void)
{
    void *l = dlopen("libOpenCL.so.1", 2);
    F(int, clGetPlatformIDs, unsigned, H *, unsigned *);
    F(int, clGetDeviceIDs, H, unsigned long, unsigned, H *, unsigned *);
    F(H, clCreateContext, void *, unsigned, H *, void *, void *, int *);
    F(H, clCreateCommandQueue, H, H, unsigned long, int *);
    F(H, clCreateProgramWithSource, H, unsigned, const char **, const size_t *, int *);
    F(int, clBuildProgram, H, unsigned, const H *, const char *, void *, void *);
    F(H, clCreateKernel, H, const char *, int *);
    F(H, clCreateBuffer, H, unsigned long, size_t, void *, int *);
    F(int, clSetKernelArg, H, unsigned, size_t, const void *);
    F(int, clEnqueueNDRangeKernel, H, H, unsigned, const size_t *, const size_t *, const size_t *, unsigned, H *, H *);
    F(int, clEnqueueReadBuffer, H, H, unsigned, size_t, size_t, void *, unsigned, H *, H *);
    const char *parts[2] = {"__kernel void add(__global int *x, int n) ", "{ x[get_global_id(0)] += n; } trailing"};
    const size_t lengths[2] = {0, 29};
    H platform, device; int error, data[64] = {0}, n = 5; size_t size = 64, group = 4;
    clGetPlatformIDs(1, &platform, 0);
    if (clGetDeviceIDs(platform, ~0ul & 0xFFFFFFFF, 1, &device, 0)) exit(3);
    H context = clCreateContext(0, 1, &device, 0, 0, &error), queue = clCreateCommandQueue(context, device, 0, &error);
    H program = clCreateProgramWithSource(context, 2, parts, lengths, &error);
    if (clBuildProgram(program, 0, 0, 0, 0, 0)) exit(4);
    H kernel = clCreateKernel(program, "add", &error);
    H memory = clCreateBuffer(context, 1 | 32, sizeof data, data, &error);
    clSetKernelArg(kernel, 0, sizeof memory, &memory);
    clSetKernelArg(kernel, 1, sizeof n, &n);
    if (clEnqueueNDRangeKernel(queue, kernel, 1, 0, &size, &group, 0, 0, 0)) exit(5);
    clEnqueueReadBuffer(queue, memory, 1, 0, sizeof data, data, 0, 0, 0);
    printf("%d\n", data[63]);
    return 0;
}
"""


@pytest.fixture(autouse=True)
def drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The application and the backend on PoCL."""
    system_drivers(monkeypatch)


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The application."""
    path = tmp_path_factory.mktemp("application") / "application.py"
    path.write_text(APPLICATION)
    return [sys.executable, str(path)]


def recording_in(path: Path) -> Recording:
    with RecordingFile(path) as file:
        return file.recording


@pytest.fixture(scope="module")
def winner(tmp_path_factory: pytest.TempPathFactory, command: list[str]) -> Winner:
    """A kernel whose launches can be told from the application's own."""
    with pytest.MonkeyPatch.context() as patch:
        system_drivers(patch)
        report = record_kernel(command, "scale", tmp_path_factory.mktemp("out"), instances=1)

    recording = recording_in(report.recordings[0])
    source = SOURCE.replace("f * x[i]", "f * x[i] + 1")
    return Winner(kernel="scale", recording=recording, source=source, options="", local=(16,))


def total(capfd: pytest.CaptureFixture[str]) -> float:
    """What the application printed last."""
    return float(capfd.readouterr().out.split()[-1])


@needs.pocl
def test_the_winner_runs_where_its_work_groups_divide_the_grid(
    winner: Winner, command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    ran, placed = run_with([winner], command)
    # 960 is a multiple of 16; 1000 is not, and that launch overwrites what the first one gave.
    assert (ran.status, ran.replaced, ran.left) == (0, 1, 1)
    assert total(capfd) == PLAIN
    ran, placed = run_with([replace(winner, local=())], command)
    assert (ran.replaced, ran.left) == (2, 0)
    assert total(capfd) == PLAIN + 1000
    check_applied(placed)


@needs.pocl
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"source": "this is no program"}, "does not build here"),
        ({"source": SOURCE.replace("scale", "other")}, "has no such kernel"),
        ({"source": SOURCE.replace(", float f", "").replace("f *", "2 *")}, "does not take argument 2"),
        ({"recorded": SOURCE + " "}, "no kernel of the recorded program"),
    ],
    ids=["no build", "no kernel", "other arguments", "another program"],
)
def test_a_winner_that_does_not_fit_leaves_the_application_as_it_is(
    winner: Winner,
    command: list[str],
    capfd: pytest.CaptureFixture[str],
    change: dict[str, str],
    why: str,
) -> None:
    text = change.get("recorded", winner.recording.text)
    source = change.get("source", winner.source)
    changed = replace(winner, recording=replace(winner.recording, text=text), source=source)
    ran, placed = run_with([changed], command)
    assert (ran.status, ran.replaced) == (0, 0)
    assert total(capfd) == PLAIN
    with pytest.raises(MachineError, match=why):
        check_applied(placed)


@needs.pocl
def test_an_application_that_loads_opencl_for_itself_is_run_both_ways_in_pairs(
    free_lane: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, program = tmp_path / "host.c", tmp_path / "host"
    source.write_text(HOST)
    compiled("-o", program, source, "-ldl", flags=["-w", "-fno-builtin"])
    subprocess.run([program], check=True)
    assert capfd.readouterr().out == "5\n"
    (kernel,) = list_launches([str(program)]).to_json()["kernels"]
    assert (kernel["name"], kernel["launches"], kernel["recordable"]) == ("add", 1, 1)
    assert kernel["share"] == pytest.approx(1.0)
    report = record_kernel([str(program)], "add", tmp_path / "out", instances=1)
    text = report.specs[0].with_suffix(".cl").read_text()
    assert text == "__kernel void add(__global int *x, int n) { x[get_global_id(0)] += n; }"
    recording = recording_in(report.recordings[0])
    source = text.replace("+= n", "+= n + 1")
    winner = Winner(kernel="add", recording=recording, source=source, options="", local=(16,))
    found = compare([winner], [str(program)], pairs=4)
    assert len(found.plain_s) == len(found.applied_s) == 4
    value, low, high = found.speedup
    assert low <= value <= high
    assert (found.replaced, found.left) == (1, 0)
    with pytest.raises(UsageError, match="say nothing"):
        compare([winner], [str(program)], pairs=2)


def test_only_a_run_on_recordings_that_gained_something_is_applied(tmp_path: Path) -> None:
    from tuner.core.errors import RecordError

    with pytest.raises(RecordError):
        winner_of(tmp_path / "nothing.run")


def test_buffers_overlap_only_within_one_allocation() -> None:
    one = RecordedArgument(kind="buffer", size_bytes=8, root=0, offset=0)
    assert one.overlaps(replace(one, offset=7))
    assert not one.overlaps(replace(one, offset=8))
    assert not one.overlaps(replace(one, root=1))
    assert Recording(api="opencl", entry="k", arguments=(one,)).block == ()


@needs.pocl
@pytest.mark.measured
def test_a_winner_that_differs_in_its_launch_alone_is_the_applications_own_program(tmp_path: Path) -> None:
    # Its source was read from a file before, never equal to the recorded text, and so built again.
    text = (
        APPLICATION.replace("(8,)", "(1,)").replace("(960, 1000)", "(1 << 16,)").replace("1000", "(1 << 16)")
    )
    (tmp_path / "application.py").write_text(text)
    report = record_kernel(
        [sys.executable, str(tmp_path / "application.py")], "scale", tmp_path / "out", instances=1
    )
    spec = report.specs[0].read_text()
    kept = [line for line in spec.splitlines() if "extra:" not in line]
    report.specs[0].write_text("\n".join(kept) + "\n")
    result = tuner.tune(report.specs[0], evaluations=8, seed=0, out=tmp_path / "runs")
    assert result.improved
    winner = winner_of(Path(result.path))
    assert (winner.kernel, winner.local != ()) == ("scale", True)
    assert (winner.source, winner.options) == (winner.recording.text, winner.recording.options)
