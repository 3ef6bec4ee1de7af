"""Several kernels of one application, recorded in one run of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import needs
import pytest
import yaml
from opencl_machine import system_drivers

from tuner.core.errors import UsageError
from tuner.driver.applications.recording import RecordReport, record_kernels
from tuner.evaluators.opencl.backend import OpenClBackend
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.load import load_spec

pytestmark = [*needs.pocl, pytest.mark.usefixtures("no_oclgrind")]

APPLICATION = """
import numpy as np
import pyopencl as cl

SOURCE = '''
__kernel void first(__global int *x) { x[get_global_id(0)] += 1; }
__kernel void second(__global int *x) { x[get_global_id(0)] += 2; }
typedef struct { int a; float b[3]; } Pair;
__kernel void third(__global float *y, Pair p, float4 v) { y[get_global_id(0)] = p.a + p.b[2] + v.w; }
__kernel void offset(__global int *x, long by) { x[get_global_id(0)] += (int)by; }
__kernel void maybe(__global int *x, __global int *none) { x[get_global_id(0)] = none ? 1 : 5; }
'''
devices = [d for p in cl.get_platforms() for d in p.get_devices() if "Portable" in p.name]
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
program = cl.Program(context, SOURCE).build()
x = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(64, np.int32))
y = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(64, np.float32))
first, second, third = (cl.Kernel(program, name) for name in ("first", "second", "third"))
first.set_args(x)
second.set_args(x)
third.set_arg(0, y)
third.set_arg(1, np.array([(7, (1, 2, 3))], dtype=[("a", "i4"), ("b", "f4", 3)]))
third.set_arg(2, np.array([1, 2, 3, 4], np.float32))
for size in (8, 16, 32, 64):
    cl.enqueue_nd_range_kernel(queue, first, (size,), (8,))
maybe = cl.Kernel(program, "maybe")
maybe.set_args(x, None)
for kernel in (second, second, second, third, maybe):
    cl.enqueue_nd_range_kernel(queue, kernel, (64,), (8,))
offset = cl.Kernel(program, "offset")
for by in (0, 5):
    offset.set_args(x, np.int64(by))
    cl.enqueue_nd_range_kernel(queue, offset, (64,), (8,))
queue.finish()
"""


NAMES = ["first", "second", "third", "fourth", "offset", "maybe"]


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


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, command: list[str]) -> tuple[Path, RecordReport]:
    """What two launches of each of its kernels, and of one that it does not have, are recorded into."""
    out = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        system_drivers(patch)
        return out, record_kernels(command, NAMES, out, instances=2)


def values(path: Path) -> tuple[int, tuple[int, ...], int]:
    """Work-items, and the first value before and after."""
    with RecordingFile(path) as file:
        before, after = (int.from_bytes(b[:4], "little") for b in (file.before(0), file.after(0)))
        return before, file.recording.global_size, after


def test_each_kernel_has_room_and_a_spec_of_its_own(recorded: tuple[Path, RecordReport]) -> None:
    out, report = recorded
    there = set(NAMES) - {"fourth"}
    assert {p.name for p in report.specs} == {f"{name}.yaml" for name in there}
    found = {name: sorted(map(values, out.glob(f"recordings/{name}-*.rec"))) for name in ("first", "second")}
    # Kernels with the same arguments and geometry are not taken for one another.
    # Of four sizes those that took longest, whichever they are; of launches that repeat the last ones.
    assert len(found["first"]) == 2
    assert set(found["first"]) <= {(0, (8,), 1), (1, (16,), 2), (2, (32,), 3), (3, (64,), 4)}
    assert found["second"] == [(6, (64,), 8), (8, (64,), 10)]
    # What the numbers of `offset` are is no reason for a note.
    assert report.notes == ("nothing of fourth was recorded",)
    assert report.index is not None
    index = json.loads(report.index.read_text())
    assert {k["name"] for k in index["kernels"]} == there
    # The share is of all launches, four of `first` and three of `second`, however many were kept.
    spent = {use.name: use.seconds for use in report.ran.kernels}
    assert all(k["seconds"] == pytest.approx(spent[k["name"]]) for k in index["kernels"])
    shares = [k["share"] for k in index["kernels"]]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    budgets = []
    for kernel in index["kernels"]:
        assert all((out / name).is_file() for name in kernel["recordings"])
        spec = yaml.safe_load((out / kernel["spec"]).read_text())
        budgets.append(spec["search"]["budget"]["evaluations"])
    assert budgets == sorted(budgets, reverse=True)


def test_of_several_processes_no_more_is_kept_than_of_one(tmp_path: Path, command: list[str]) -> None:
    both = tmp_path / "both.sh"
    both.write_text(f"{' '.join(command)} & {' '.join(command)} & wait\n")
    report = record_kernels(["sh", str(both)], ["first", "second"], tmp_path / "out", instances=3)
    (first,) = (use for use in report.ran.kernels if use.name == "first")
    assert first.launches == 8
    found = {n: sorted(map(values, tmp_path.glob(f"out/recordings/{n}-*.rec"))) for n in ("first", "second")}
    # Of four kinds of launches three, which took longest by the clock, each kind with the launches of both processes.
    kept = [sizes for _, sizes, _ in found["first"]]
    assert len(set(kept)) == len(kept) == 3
    assert set(kept) < {(8,), (16,), (32,), (64,)}
    assert [sizes for _, sizes, _ in found["second"]] == [(64,)] * 3
    for path in tmp_path.glob("out/recordings/first-*.rec"):
        with RecordingFile(path) as file:
            assert file.recording.count == 2


@pytest.mark.parametrize(
    ("kernel", "dtypes"), [("third", ["float32", "bytes16", "bytes16"]), ("maybe", ["int32", "bytes8"])]
)
def test_structures_vectors_and_null_buffers_are_replayed(
    recorded: tuple[Path, RecordReport], kernel: str, dtypes: list[str]
) -> None:
    (loaded,) = load_spec(recorded[0] / f"{kernel}.yaml")
    assert [a.dtype for a in loaded.task.arguments] == dtypes
    evaluation = OpenClBackend().prepare(loaded.task, workers=1)
    try:
        from tuner.core.types import BuildRequest

        space = loaded.space(None)
        resolved = space.resolve(space.default())
        request = BuildRequest(trial=0, variant=loaded.task.kernel.variant, resolved=resolved)
        (build,) = evaluation.build([request])
        report_ = evaluation.set_baseline(build, resolved)
    finally:
        evaluation.close()
    assert report_.status == "ok", report_.message


def test_a_number_of_zero_is_no_null_buffer(recorded: tuple[Path, RecordReport]) -> None:
    (loaded,) = load_spec(recorded[0] / "offset.yaml")
    by = loaded.task.arguments[1].value
    assert by is not None
    assert {by.evaluate(p.sizes) for p in loaded.task.problems} == {0, 5}


def test_none_of_the_kernels(tmp_path: Path, command: list[str]) -> None:
    with pytest.raises(UsageError, match="no OpenCL or CUDA kernel 'one' or 'two'"):
        record_kernels(command, ["one", "two"], tmp_path / "out", instances=1)
