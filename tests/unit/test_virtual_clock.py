"""The clock that tests have in the place of the machine's, and that nothing of it is there in a user's runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import needs
import pytest
from two_arrays import task_of
from virtual_clock import ADVANCES, CALL_S, LAUNCH_S, FreeLane, VirtualReadings

from tuner.core.errors import MachineError
from tuner.core.expressions import parse
from tuner.core.types import (
    Build,
    BuildRequest,
    Launch,
    Measurement,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
)
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.evaluation import HostEvaluation
from tuner.evaluators.host.harness import Signature, harness_text
from tuner.evaluators.host.readings import MachineReadings, Readings
from tuner.evaluators.lane import TimingLane
from tuner.evaluators.opencl.backend import OpenClBackend

RESOLVED = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
LOOP = "for (int i = 0; i < n; i++) y[i] = 2 * x[i];"
PLAIN = f"void f(const float *x, float *y, int n) {{ {LOOP} }}"


def says(ns: str) -> str:
    """A kernel that says that it takes so many nanoseconds."""
    return f"{ADVANCES}\nvoid f(const float *x, float *y, int n) {{ tuner_work({ns}); {LOOP} }}"


def make_task(text: str, name: str = "f.c", *, threads: int = 1) -> Task:
    variant = Variant(files=(Source(name=name, text=text),))
    made = task_of(variant, n=1000, arrays=("x", "y"), small=None, threads=threads)
    if name == "f.c":
        return made
    launch = Launch(grid=(parse("1"),), block=(parse("1"),))
    kernel = replace(made.kernel, language="opencl")
    return replace(made, kernel=kernel, backend="opencl", target="pocl", launch=launch)


@contextmanager
def prepared(text: str, readings: Readings) -> Iterator[tuple[HostEvaluation, Build]]:
    """An evaluation by these readings, and the build of its baseline, which was not run."""
    backend = HostBackend()
    backend.readings = readings
    task = make_task(text)
    evaluation = backend.prepare(task, workers=1)
    try:
        (build,) = evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=RESOLVED)])
        assert build.status is Status.OK, build.message
        yield evaluation, build
    finally:
        evaluation.close()


def measured(
    text: str, readings: VirtualReadings | None = None, *, threads: int = 1, batches: int = 1
) -> list[Measurement]:
    """Batches of ten times each of a baseline; the readings are of those alone."""
    task = make_task(text, threads=threads)
    evaluation = HostBackend().prepare(task, workers=1)
    try:
        (build,) = evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=RESOLVED)])
        report = evaluation.set_baseline(build, RESOLVED)
        assert report.status is Status.OK, report.message
        session = evaluation.open(build, RESOLVED, purpose="search", number=0)
        session.inputs = replace(session.inputs, readings=readings or VirtualReadings())
        verdict = session.verify()
        assert verdict.status is Status.OK, verdict.message
        found = [session.measure(problem=0, calls=10) for _ in range(batches)]
        session.close()
        return found
    finally:
        evaluation.close()


def same(times_s: Sequence[float], seconds: float) -> bool:
    """Whether all calls took just that."""
    return list(times_s) == pytest.approx([seconds] * len(times_s), rel=1e-9)


@pytest.mark.parametrize("ns", [0, 1_500, 30_000, 5_000_000])
def test_a_call_takes_what_its_kernel_says(ns: int) -> None:
    for batch in measured(says(str(ns)), batches=2):
        assert batch.status is Status.OK, batch.message
        assert same(batch.times_s, CALL_S + ns * 1e-9)
        # Nothing passes between calls, and the parent reads the same clock.
        assert batch.claimed_s == pytest.approx(batch.observed_s, rel=1e-9)
        assert batch.wall_s == batch.observed_s


def test_a_kernel_that_says_nothing_takes_the_same_whatever_it_does() -> None:
    slow = PLAIN.replace(LOOP, f"for (volatile int k = 0; k < 100000; k++); {LOOP}")
    for text in (PLAIN, slow):
        (batch,) = measured(text)
        assert same(batch.times_s, CALL_S)


@pytest.mark.parametrize("threads", [1, 2])
def test_work_that_the_childs_own_clock_does_not_see_is_refused(threads: int) -> None:
    (batch,) = measured(says("50000"), VirtualReadings(hidden_s=0.05), threads=threads)
    assert batch.status is Status.REFUSED
    assert "its clock says 0.000750 s where the kernel's says 0.050750 s" in batch.message


def test_waiting_for_a_processor_hides_no_work_of_one_thread() -> None:
    (batch,) = measured(PLAIN, VirtualReadings(hidden_s=0.05, waited=0.05))
    assert batch.status is Status.REFUSED
    (batch,) = measured(PLAIN, VirtualReadings(hidden_s=0.05, waited=0.05), threads=2)
    assert batch.status is Status.OK, batch.message


@pytest.mark.parametrize(
    ("looks", "marks"),
    [
        ([[]], {}),
        ([["moved"], []], {"measured_again": True}),
        ([["moved"], ["waited", "moved"]], {"measured_again": True, "disturbed": ["moved"]}),
    ],
)
def test_a_disturbed_batch_is_marked_and_measured_again(looks: list[list[str]], marks: object) -> None:
    readings = VirtualReadings(disturbances=[*looks])
    first, second = measured(PLAIN, readings, batches=2)
    assert readings.disturbances == []
    assert {k: v for k, v in first.notes.items() if k in ("measured_again", "disturbed")} == marks
    assert "measured_again" not in second.notes


@needs.pocl
def test_a_launch_takes_what_a_test_says() -> None:
    text = f"__kernel void f(__global const float *x, __global float *y, int n) {{ {LOOP} }}"
    task = make_task(text, "f.cl")
    evaluation = OpenClBackend().prepare(task, workers=1)
    try:
        (build,) = evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=RESOLVED)])
        assert evaluation.set_baseline(build, RESOLVED).status is Status.OK
        session = evaluation.open(build, RESOLVED, purpose="search", number=0)
        session.inputs = replace(session.inputs, readings=VirtualReadings(launches_s=[3e-3, 5e-3]))
        assert session.verify().status is Status.OK
        found = [session.measure(problem=0, calls=4) for _ in range(3)]
        session.close()
    finally:
        evaluation.close()
    assert [set(batch.times_s) for batch in found] == [{3e-3}, {5e-3}, {LAUNCH_S}]
    assert [batch.wall_s for batch in found] == pytest.approx([12e-3, 20e-3, 4 * LAUNCH_S])


def test_only_measured_tests_may_wait_for_a_lane() -> None:
    with pytest.raises(MachineError), TimingLane("cpu"):
        pass
    with HostBackend.readings.lane("cpu") as lane:
        assert isinstance(lane, FreeLane)


@pytest.mark.measured
def test_a_measured_test_has_the_machines_clock() -> None:
    assert isinstance(HostBackend.readings, MachineReadings)
    assert isinstance(OpenClBackend.readings, MachineReadings)


@pytest.mark.integration
def test_commands_that_a_test_starts_have_it_too() -> None:
    text = (
        "from tuner.evaluators.registry import create\n"
        "print(*(create(name).readings.virtual for name in ('host', 'opencl')))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_a_users_run_has_no_such_clock() -> None:
    """Its harness neither has the function nor reads the counter."""
    text = harness_text(Signature.of(make_task(PLAIN)))
    assert "VIRTUAL = 0" in text
    assert "tuner_work" not in text
    assert MachineReadings.virtual is False


@pytest.mark.parametrize("readings", [MachineReadings(), VirtualReadings()], ids=["machine's", "virtual"])
def test_a_candidate_that_advances_it_is_refused_unless_the_kernel_as_given_does(readings: Readings) -> None:
    with prepared(PLAIN, readings) as (evaluation, _):
        variant = Variant(files=(Source(name="f.c", text=says("1")),))
        (build,) = evaluation.build([BuildRequest(trial=1, variant=variant, resolved=RESOLVED)])
    assert build.status is Status.REFUSED
    assert "tuner_work" in build.message


def test_by_the_machines_clock_the_kernel_as_given_cannot_advance_it_either() -> None:
    with prepared(says("1"), MachineReadings()) as (evaluation, baseline):
        report = evaluation.set_baseline(baseline, RESOLVED)
    assert report.status is Status.REFUSED
    assert "calls what neither" in report.message
    assert "tuner_work" in report.message
