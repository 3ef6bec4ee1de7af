"""What Oclgrind finds in kernels that give right results on PoCL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import needs
import pytest

from tuner.core.expressions import parse
from tuner.core.protocols import BaselineReport
from tuner.core.types import (
    Argument,
    ArgumentRole,
    BuildRequest,
    Kernel,
    Launch,
    MeasurePolicy,
    Problem,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
    Verdict,
    VerifyPolicy,
)
from tuner.evaluators.opencl.backend import OpenClBackend, OpenClEvaluation
from tuner.evaluators.opencl.oclgrind import (
    MOST_S,
    Report,
    Simulator,
    first_finding,
)

SHIFT = """
__kernel void shift(__global const float *restrict x, __global float *restrict y, int n)
{
    __local float part[64 + PAD];
    const int i = get_global_id(0), t = get_local_id(0);
    part[t] = i < n ? x[i] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < n) y[i] = t > 0 ? part[t - 1] : part[t];
}
"""
RACE = SHIFT.replace("barrier(CLK_LOCAL_MEM_FENCE);", "")
BEYOND = SHIFT.replace(
    "if (i < n)", "if (*(volatile __local float *)&part[64 + PAD] == 0.5f && n < 0) return;\n    if (i < n)"
)


DIVERGENT = SHIFT.replace("    barrier", "    if (t % 3 == 0) barrier")
RETURNED = SHIFT.replace("    part[t] = i < n ? x[i] : 0.0f;", "    if (i >= n) return;\n    part[t] = x[i];")
UNIFORM = SHIFT.replace("    barrier", "    for (int k = 0; k < 3; k++) if (n > k) barrier")


def request(text: str) -> BuildRequest:
    """A candidate."""
    variant = Variant(files=(Source(name="shift.cl", text=text),))
    return BuildRequest(
        trial=1, variant=variant, resolved=Resolved(macros={"PAD": 0}, scalars={}, flags=(), pipeline=None)
    )


def prepared(
    text: str, *, limit_s: float = 120.0, sizes: tuple[int, ...] = (1 << 16,), small: tuple[int, ...] = (200,)
) -> OpenClEvaluation:
    """An evaluation of the kernel as given, to be tuned for some sizes and verified on others."""
    backend = OpenClBackend()
    n = (parse("n"),)
    return backend.prepare(
        Task(
            kernel=Kernel(
                name="shift", entry="shift", language="opencl", variant=request(text).variant, folder="."
            ),
            backend="opencl",
            target="pocl",
            arguments=(
                Argument(name="x", dtype="float32", shape=n),
                Argument(name="y", dtype="float32", shape=n, role=ArgumentRole.OUTPUT),
                Argument(name="n", dtype="int32", value=parse("n")),
            ),
            problems=tuple(Problem(sizes={"n": n}) for n in sizes),
            verify=VerifyPolicy(problems=tuple(Problem(sizes={"n": n}) for n in small)),
            measure=MeasurePolicy(limit_s=limit_s),
            launch=Launch(grid=(parse("ceil(n / 64)"),), block=(parse("64"),)),
            seed=3,
        ),
        workers=1,
    )


def report(evaluation: OpenClEvaluation, text: str) -> BaselineReport:
    """The baseline's."""
    (build,) = evaluation.build([request(text)])
    return evaluation.set_baseline(build, request(text).resolved)


@pytest.fixture(scope="module")
def clean() -> Iterator[OpenClEvaluation]:
    """With a baseline that has nothing wrong with it."""
    evaluation = prepared(SHIFT)
    try:
        found = report(evaluation, SHIFT)
        assert (found.status, found.notes.get("oclgrind")) == (Status.OK, "clean"), found.notes
        yield evaluation
    finally:
        evaluation.close()


def confirmed(evaluation: OpenClEvaluation, text: str) -> Verdict:
    """What a confirming process says of a candidate."""
    (build,) = evaluation.build([request(text)])
    assert build.status is Status.OK, build.message
    session = evaluation.open(build, request(text).resolved, purpose="confirm", number=0)
    try:
        return session.verify()
    finally:
        session.close()


@needs.pocl
@needs.oclgrind
@pytest.mark.parametrize(
    ("text", "finding"),
    [(RACE, "data race in local memory"), (BEYOND, "invalid read of 4 bytes in local memory")],
)
def test_a_candidate_that_passes_on_pocl_is_found_out(
    clean: OpenClEvaluation, monkeypatch: pytest.MonkeyPatch, text: str, finding: str
) -> None:
    verdict = confirmed(clean, text)
    assert verdict.status is Status.WRONG_RESULT
    assert "under Oclgrind: " in verdict.message
    assert finding in verdict.message
    # Nothing but the simulator sees it.
    monkeypatch.setattr(clean._simulation, "_judged", frozenset())
    assert confirmed(clean, text).status is Status.OK


@needs.pocl
@needs.oclgrind
def test_a_baseline_with_a_race_is_a_warning_and_no_measure_for_others() -> None:
    evaluation = prepared(RACE)
    try:
        found = report(evaluation, RACE)
        assert found.status is Status.OK
        (warning,) = (w for w in found.notes["warnings"] if "data race" in w)
        # The line of the kernel's own file.
        assert "shift.cl:6" in warning
        assert "not available" not in warning
        assert confirmed(evaluation, RACE).status is Status.OK
    finally:
        evaluation.close()


@needs.pocl
@needs.oclgrind
def test_a_baseline_with_a_divergent_barrier_fails_before_the_device_runs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    evaluation = prepared(DIVERGENT)
    # What the driver makes of it may hang for as long as a call may take.
    monkeypatch.setattr(OpenClEvaluation, "_start", lambda *_, **__: pytest.fail("the device has run it"))
    try:
        found = report(evaluation, DIVERGENT)
    finally:
        evaluation.close()
    assert found.status is Status.WRONG_RESULT
    assert "divergence" in found.message
    assert "shift.cl:" in found.message


@needs.pocl
@needs.oclgrind
def test_a_candidate_with_a_divergent_barrier_never_runs_on_the_device(
    clean: OpenClEvaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenClEvaluation, "_start", lambda *_, **__: pytest.fail("the device has run it"))
    verdict = confirmed(clean, RETURNED)
    assert verdict.status is Status.WRONG_RESULT
    assert verdict.message.startswith("under Oclgrind: Work-group divergence")


@needs.pocl
@needs.oclgrind
def test_a_barrier_in_a_uniform_branch_is_left_alone(clean: OpenClEvaluation) -> None:
    verdict = confirmed(clean, UNIFORM)
    assert verdict.status is Status.OK, verdict.message


@needs.pocl
@needs.oclgrind
def test_a_candidate_that_never_ends_is_given_up_after_a_few_times_what_the_baseline_took(
    clean: OpenClEvaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_s = clean._simulation._limit_s
    assert limit_s < 0.5 * MOST_S
    # It never ends, so nothing is lost by a shorter one here.
    monkeypatch.setattr(clean._simulation, "_limit_s", 0.5)
    reports: list[Report] = []
    examine = Simulator.examine

    def watched(*arguments: Any, **keywords: Any) -> Report:
        reports.append(examine(*arguments, **keywords))
        return reports[-1]

    monkeypatch.setattr(Simulator, "examine", watched)
    monkeypatch.setattr("tuner.evaluators.opencl.runner._FIRST_LAUNCH_S", 0.3)
    endless = SHIFT.replace("    barrier", "    for (volatile int go = i == 0; go;) ;\n    barrier")
    assert confirmed(clean, endless).status is Status.TIMED_OUT
    (simulated,) = reports
    assert simulated.note.startswith("no end within 0.5 s"), simulated.note


@needs.pocl
@needs.oclgrind
def test_without_oclgrind_a_baseline_that_hangs_says_what_would_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    spinning = SHIFT.replace(
        "    barrier", "    while (i == 0 && ((volatile __global float *)y)[0] != 2.0f) ;\n    barrier"
    )
    evaluation = prepared(spinning, limit_s=0.3)
    monkeypatch.setattr("tuner.evaluators.opencl.evaluation.oclgrind_version", lambda: None)
    monkeypatch.setattr("tuner.evaluators.opencl.simulation.oclgrind_version", lambda: None)
    monkeypatch.setattr("tuner.evaluators.opencl.runner._FIRST_LAUNCH_S", 0.3)
    try:
        found = report(evaluation, spinning)
    finally:
        evaluation.close()
    assert found.status is Status.TIMED_OUT
    assert "remix-tuner[oclgrind]" in found.message


@needs.pocl
@needs.oclgrind
def test_sizes_that_are_all_too_large_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked at then, which must not look like a clean kernel."""
    evaluation = prepared(RACE, sizes=(1 << 17,), small=())
    try:
        found = report(evaluation, RACE)
    finally:
        evaluation.close()
    assert found.status is Status.OK
    assert found.notes["oclgrind"] == (
        "not simulated: the smallest size has 131,072 work-items, and 65,536 at most are simulated; "
        "give a smaller one in verify.problems"
    )
    spinning = SHIFT.replace(
        "    barrier", "    while (i == 0 && ((volatile __global float *)y)[0] != 2.0f) ;\n    barrier"
    )
    evaluation = prepared(spinning, limit_s=0.3, sizes=(1 << 17,), small=())
    monkeypatch.setattr("tuner.evaluators.opencl.runner._FIRST_LAUNCH_S", 0.3)
    try:
        hung = report(evaluation, spinning)
    finally:
        evaluation.close()
    assert hung.status is Status.TIMED_OUT
    assert "Oclgrind did not look at its barriers: the smallest size has 131,072 work-items" in hung.message


@needs.pocl
@needs.oclgrind
def test_one_of_several_sizes_that_can_be_simulated_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is work-items, whatever the buffers take."""
    from tuner.evaluators.opencl import simulation

    # Of two sizes the one with fewer bytes has more work-items: as where a size is of a block's work.
    real = simulation.items_of
    monkeypatch.setattr(simulation, "items_of", lambda shape: (1 << 20) // real(shape))
    evaluation = prepared(RACE, sizes=(1 << 12,), small=(64,))
    # Those of 64 elements count as 16,384 then, those of 4,096 as 256.
    monkeypatch.setattr(simulation, "MOST_ITEMS", 1 << 10)
    try:
        found = report(evaluation, RACE)
    finally:
        evaluation.close()
    assert "data race in local memory" in found.notes["oclgrind"]


def test_the_lines_of_the_source_are_named() -> None:
    log = (
        "\nInvalid write of size 4 at global memory address 0x1000000000400\n\tKernel: k\n"
        "\tEntity: Global(255,0,0)\n\t  store float\n\tAt line 5 (column 11) of input.cl:\n\t  b[i+1] = t[63-l];\n"
    )
    assert first_finding(log) == "invalid write of 4 bytes in global memory: `b[i+1] = t[63-l];`"
    assert first_finding("") == ""


def test_where_the_source_is_not_shown_the_line_is() -> None:
    log = (
        "Write-write data race at global memory address 0x2\n\n\tFirst entity:  Global(1,0,0)\n\t  store float\n"
        "\tAt line 3 (column 16) of shift.cl:\n\t  (source not available)\n\n\tSecond entity: Global(0,0,0)\n"
        "\tAt line 7 (column 16) of shift.cl:\n\t  (source not available)\n"
    )
    assert first_finding(log) == "write-write data race in global memory: shift.cl:3 and shift.cl:7"
