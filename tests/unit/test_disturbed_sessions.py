"""Whole sessions that are disturbed while they are timed: marked, and measured once more, on every backend.

The disturbance is real for processes (a processor shared with others, moves between two), and set by the test for a
device, through a stand-in for NVML.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import cuda_stand_in as stand_in
import needs
import pytest
from spec_files import spec_in
from two_arrays import task_of

from tuner.core.canonical import canonical_json
from tuner.core.expressions import parse
from tuner.core.types import (
    BuildRequest,
    Launch,
    Measurement,
    Problem,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
)
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.evaluators.cuda.nvml import Watch
from tuner.evaluators.disturbance import undisturbed
from tuner.evaluators.host import timing
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.runner import Runner
from tuner.evaluators.opencl.backend import OpenClBackend
from tuner.recorders.record import RunRecord

TEXTS = {
    "c": "void f(const float *x, float *z, int n) { for (int i = 0; i < n; i++) { float s = x[i];"
    " for (int k = 0; k < 60; k++) s = s * 0.99f + 0.01f; z[i] = s; } }",
    "opencl": "__kernel void f(__global const float *x, __global float *z, int n) { int i = get_global_id(0);"
    " if (i < n) { float s = x[i]; for (int k = 0; k < 60; k++) s = s * 0.99f + 0.01f; z[i] = s; } }",
}
RESOLVED = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
CALLS = 150


def make_task(language: str) -> Task:
    """A kernel that computes for about a millisecond."""
    variant = Variant(files=(Source(name="f.c" if language == "c" else "f.cl", text=TEXTS[language]),))
    made = task_of(variant, n=50_000, arrays=("x", "z"), small=None, language=language)
    if language == "c":
        return made
    launch = Launch(grid=(parse("ceil(n / 64)"),), block=(parse("64"),))
    return replace(made, backend="opencl", target="pocl", launch=launch)


@contextmanager
def session_of(language: str) -> Iterator[Any]:
    """A session of the kernel as given, verified."""
    backend: Any = HostBackend() if language == "c" else OpenClBackend()
    task = make_task(language)
    evaluation = backend.prepare(task, workers=1)
    try:
        (build,) = evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=RESOLVED)])
        assert evaluation.set_baseline(build, RESOLVED).status is Status.OK
        session = evaluation.open(build, RESOLVED, purpose="search", number=0)
        try:
            assert session.verify().status is Status.OK
            yield session
        finally:
            session.close()
    finally:
        evaluation.close()


@contextmanager
def on_one_processor() -> Iterator[None]:
    """All that this process starts stays on one processor."""
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mine)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


@contextmanager
def crowd() -> Iterator[None]:
    """Three processes that only compute, all of them at it."""
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            command = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
        yield


def descendants() -> list[int]:
    """Processes that this one has started, and theirs."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, left = list[int](), [os.getpid()]
    while left:
        children = parents.get(left.pop(), [])
        found += children
        left += children
    return found


@contextmanager
def moved() -> Iterator[None]:
    """All that this process has started goes back and forth between two processors."""
    processors, done = sorted(os.sched_getaffinity(0))[:2], threading.Event()
    pids = descendants()

    def move() -> None:
        turn = 0
        while not done.wait(1e-3):
            turn += 1
            for pid in pids:
                os.sched_setaffinity(pid, {processors[turn % 2]})

    mover = threading.Thread(target=move)
    mover.start()
    try:
        yield
    finally:
        done.set()
        mover.join()


def assert_marked(measured: Measurement, *words: str) -> None:
    """It was measured twice, and both times something happened that begins with one of these words."""
    assert measured.status is Status.OK, measured.message
    assert measured.notes["measured_again"] is True
    assert any(line.startswith(words) for line in measured.notes["disturbed"]), measured.notes
    assert len(measured.times_s) >= CALLS
    assert canonical_json(dict(measured.notes))


@pytest.mark.measured
@pytest.mark.parametrize("language", ["c", pytest.param("opencl", marks=needs.pocl)])
def test_other_load_is_marked_and_measured_again(language: str) -> None:
    with on_one_processor(), session_of(language) as session, crowd():
        assert_marked(session.measure(problem=0, calls=CALLS), "waited ", "pushed aside ")


@pytest.mark.measured
def test_a_candidate_whose_processor_is_taken_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """For longer than what it does may take; it has used no time of its own."""
    stopped: list[threading.Timer] = []
    receive = Runner.receive

    def interrupted(runner: Runner, timeout_s: float, during: str) -> bytes:
        if not stopped and timeout_s < 1.5:
            os.kill(runner.child.pid, signal.SIGSTOP)
            stopped.append(threading.Timer(1.6, os.kill, [runner.child.pid, signal.SIGCONT]))
            stopped[0].start()
        return receive(runner, timeout_s, during)

    with session_of("c") as session:
        monkeypatch.setattr(Runner, "receive", interrupted)
        measured = session.measure(problem=0, calls=8)
        for timer in stopped:
            timer.join()
    assert measured.status is Status.OK, measured.message


@pytest.mark.measured
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
@pytest.mark.skipif(not Path("/proc/self/sched").exists(), reason="the kernel does not count moves")
def test_moves_are_marked_and_measured_again() -> None:
    with session_of("c") as session, moved():
        assert_marked(session.measure(problem=0, calls=CALLS), "moved ")


class Says:
    """A watcher that says what it is told to, look after look."""

    def __init__(self, *looks: list[str]) -> None:
        self._looks = list(looks)

    def disturbances(self, wall_s: float) -> list[str]:
        assert wall_s >= 0
        return self._looks.pop(0)


@pytest.mark.parametrize(
    ("looks", "kept", "marks"),
    [
        ([[]], 1, {}),
        ([["moved"], []], 2, {"measured_again": True}),
        ([["moved"], ["waited"]], 1, {"measured_again": True, "disturbed": ["moved"]}),
        ([["moved", "waited"], ["waited"]], 2, {"measured_again": True, "disturbed": ["waited"]}),
    ],
)
def test_the_less_disturbed_one_counts(looks: list[list[str]], kept: int, marks: dict[str, Any]) -> None:
    made, watcher = iter([1, 2]), Says(*looks)
    assert undisturbed(lambda: next(made), lambda: watcher) == (kept, marks)


def test_notes_of_discarded_batches_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first counts; the second times more calls together, which its own times only are divided by."""
    made = 1

    def sizes_for(*arguments: Any, **more: Any) -> Any:
        nonlocal made
        made += 1
        return replace(timing.sizes_for(*arguments, **more), per_segment=made)

    with session_of("c") as session:
        session.inputs.readings.disturbances = [["moved"], ["moved", "waited"]]
        monkeypatch.setattr("tuner.evaluators.host.session.sizes_for", sizes_for)
        measured = session.measure(problem=0, calls=8)
    assert measured.status is Status.OK, measured.message
    assert measured.notes["disturbed"] == ["moved"]
    assert made > 2
    whole_s = sum(measured.times_s) * measured.notes["calls_per_time"]
    assert whole_s == pytest.approx(measured.claimed_s, rel=0.05)


HEAT, CAP = 0x40, 0x4
ALWAYS = -1


@pytest.fixture
def nvml(tmp_path: Path) -> Iterator[Any]:
    """The stand-in for NVML, throttling nothing; its path is ``nvml._name``."""
    library = ctypes.CDLL(stand_in.build_nvml(tmp_path))
    library.stand_in_throttle.argtypes = [ctypes.c_int, ctypes.c_ulonglong, ctypes.c_uint]
    library.stand_in_hold.argtypes = [ctypes.c_ulonglong]
    yield library
    library.stand_in_throttle(0, 0, 0)
    library.stand_in_hold(0)


@contextmanager
def cuda_session(folder: Path, nvml: Any) -> Iterator[Any]:
    backend = stand_in.StandInBackend(folder, nvml=nvml._name)
    task = replace(stand_in.make_task(), problems=(Problem(sizes={"n": 2000}),))
    evaluation = backend.prepare(task, workers=1)
    try:
        (build,) = evaluation.build([stand_in.request(0, stand_in.GOOD)])
        assert evaluation.set_baseline(build, stand_in.RESOLVED).status is Status.OK
        session = evaluation.open(build, stand_in.RESOLVED, purpose="search", number=0)
        try:
            assert session.verify().status is Status.OK
            yield session
        finally:
            session.close()
    finally:
        evaluation.close()


@needs.cc
@pytest.mark.integration
def test_a_device_that_throttles_is_marked_and_measured_again(tmp_path: Path, nvml: Any) -> None:
    with cuda_session(tmp_path, nvml) as session:
        quiet = session.measure(problem=0, calls=5)
        assert "measured_again" not in quiet.notes
        # Before the batch, at its start and at its end; then it has cooled down.
        nvml.stand_in_throttle(3, HEAT, 0)
        once = session.measure(problem=0, calls=5)
        assert once.notes["measured_again"] is True
        assert "disturbed" not in once.notes
        assert once.notes["before"]["throttled"] == ["hardware thermal slowdown"]
        nvml.stand_in_throttle(ALWAYS, HEAT, 0)
        found = session.measure(problem=0, calls=5)
        assert found.status is Status.OK
        assert found.notes["disturbed"] == ["the device throttles (hardware thermal slowdown)"]
        assert len(found.times_s) == 5


@needs.cc
@pytest.mark.integration
def test_a_clock_that_falls_and_heat_that_has_passed_are_seen(tmp_path: Path, nvml: Any) -> None:
    with cuda_session(tmp_path, nvml) as session:
        watched = []
        for reasons in (0, CAP):
            watch = Watch("GPU-1", library=nvml._name)
            spell = watch.begin()
            nvml.stand_in_throttle(1, reasons, 1500)
            watched.append(spell.disturbances(0.1))
            watch.close()
        # A kernel that meets the cap does so whenever it runs.
        assert watched == [["the device went from 1980 to 1500 MHz"], []]
        nvml.stand_in_hold(10**12)
        found = session.measure(problem=0, calls=5)
        assert "held down by heat for 1000.000 s" in found.notes["disturbed"][0]


SPEC = """
kernel: {source: axpy.cu, entry: axpy}
problem: {n: 500}
arguments:
  - {name: a, dtype: float32, value: 0.5}
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: inout}
  - {name: z, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
launch: {grid: ["ceil(n / BLOCK)"], block: [BLOCK]}
space: {parameters: {BLOCK: [128, 256]}}
search: {strategy: random, budget: {evaluations: 2}}
"""


@needs.cc
@pytest.mark.integration
def test_the_record_of_a_run_holds_the_marks(tmp_path: Path, nvml: Any) -> None:
    spec = spec_in(tmp_path, "axpy.cu", stand_in.GOOD, SPEC)
    nvml.stand_in_throttle(ALWAYS, HEAT, 0)
    backend: Any = stand_in.StandInBackend(tmp_path, nvml=nvml._name)
    outcome = begin(spec, tmp_path / "a.run", Options(workers=1), backend=backend)
    assert not outcome.failed
    with RunRecord.read(tmp_path / "a.run") as record:
        measured = [m for e in record.events() for m in e.body.get("measurements", ())]
    # Whether anything is compared at the end is up to the times; what was timed is marked, wherever it was.
    assert measured
    assert all(_marked(m) for m in measured)


def _marked(measurement: Any) -> bool:
    notes = measurement["notes"]
    return notes.get("measured_again") is True and any("throttles" in d for d in notes["disturbed"])
