"""What every backend promises, as a class to inherit from: give it a :class:`Case` and pytest runs the rest.

A third party's suite imports ``BackendContract``, ``Case`` and the fixtures ``case`` and ``ready``::

    class TestMine(BackendContract):
        @staticmethod
        def make_case() -> Case:
            return Case(backend=MyBackend(), task=…, baseline=…, same=…, wrong=…, broken=…)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import needs
import pytest

from tuner.core.canonical import canonical_json
from tuner.core.expressions import parse
from tuner.core.protocols import Backend, BaselineReport, Evaluation
from tuner.core.types import (
    Argument,
    ArgumentRole,
    Build,
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
    VerifyPolicy,
)
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.opencl.backend import OpenClBackend
from tuner.testing import SimulatedBackend


@dataclass(frozen=True, kw_only=True)
class Case:
    """A backend with a task and candidates of known fate.

    Attributes:
        backend: under test.
        task: with at least one problem.
        baseline: trial 0.
        same: a candidate that is right.
        wrong: one that builds and gives wrong outputs.
        broken: one that does not build.
    """

    backend: Backend
    task: Task
    baseline: BuildRequest
    same: BuildRequest
    wrong: BuildRequest
    broken: BuildRequest


@dataclass(frozen=True, kw_only=True)
class Ready:
    """An evaluation with its baseline set."""

    evaluation: Evaluation
    builds: Sequence[Build]
    report: BaselineReport


@pytest.fixture(scope="class")
def case(request: pytest.FixtureRequest) -> Case:
    """What the class gives."""
    made: Case = request.cls.make_case()
    return made


@pytest.fixture(scope="class")
def ready(case: Case) -> Iterator[Ready]:
    """Everything built, the baseline set."""
    evaluation = case.backend.prepare(case.task, workers=2)
    try:
        builds = evaluation.build([case.baseline, case.same, case.wrong, case.broken])
        report = evaluation.set_baseline(builds[0], case.baseline.resolved)
        yield Ready(evaluation=evaluation, builds=builds, report=report)
    finally:
        evaluation.close()
        evaluation.close()


class BackendContract:
    """Inherit and give ``make_case``."""

    def test_environment_is_plain_json_with_a_device(self, case: Case) -> None:
        """It goes into the run record."""
        environment = case.backend.environment(case.task.target)
        assert environment["device"]
        assert canonical_json(dict(environment)) == canonical_json(
            dict(case.backend.environment(case.task.target))
        )

    def test_catalogue_is_plain_json_or_none(self, case: Case) -> None:
        """It goes into the run record."""
        catalogue = case.backend.pass_catalogue()
        assert catalogue is None or canonical_json(dict(catalogue))

    @pytest.mark.integration
    def test_builds_come_in_order_with_their_fate(self, ready: Ready) -> None:
        """A candidate that does not build is a status."""
        assert [b.status for b in ready.builds[:3]] == [Status.OK] * 3
        failed = ready.builds[3]
        assert failed.status not in (Status.OK, Status.LOST)
        assert failed.message
        assert failed.code == b""
        assert "\n" not in failed.message

    def test_builds_repeat(self, case: Case, ready: Ready) -> None:
        """Equal requests give equal code."""
        again = ready.evaluation.build([case.same])[0]
        assert (again.digest, again.key) == (ready.builds[1].digest, ready.builds[1].key)

    def test_no_requests_no_builds(self, ready: Ready) -> None:
        """An empty batch is a batch."""
        assert ready.evaluation.build([]) == []

    def test_baseline_report_is_complete(self, case: Case, ready: Ready) -> None:
        """Rough times for each problem, notes that can be recorded."""
        report = ready.report
        assert report.status is Status.OK, report.message
        assert len(report.call_s) == len(case.task.problems)
        assert all(seconds > 0 for seconds in report.call_s)
        assert canonical_json({"own": dict(report.own_error), "notes": dict(report.notes)})

    @pytest.mark.parametrize(("purpose", "number"), [("search", 0), ("confirm", 3)])
    def test_right_candidate_is_verified_and_timed(
        self, case: Case, ready: Ready, purpose: str, number: int
    ) -> None:
        """As many times as asked for, positive, with the parent's own readings."""
        session = ready.evaluation.open(ready.builds[1], case.same.resolved, purpose=purpose, number=number)
        try:
            verdict = session.verify()
            assert verdict.status is Status.OK, verdict.message
            assert canonical_json(dict(verdict.detail))
            for problem in range(len(case.task.problems)):
                for calls in (1, 7):
                    measurement = session.measure(problem=problem, calls=calls)
                    assert measurement.status is Status.OK, measurement.message
                    assert measurement.problem == problem
                    assert len(measurement.times_s) >= calls
                    assert min(measurement.times_s) > 0
                    assert min(measurement.claimed_s, measurement.observed_s, measurement.wall_s) > 0
                    assert canonical_json(dict(measurement.notes))
        finally:
            session.close()
            session.close()

    def test_wrong_candidate_is_seen(self, case: Case, ready: Ready) -> None:
        """With a reason of one line."""
        session = ready.evaluation.open(ready.builds[2], case.wrong.resolved, purpose="search", number=0)
        try:
            verdict = session.verify()
            assert verdict.status is Status.WRONG_RESULT
            assert "\n" not in verdict.message
        finally:
            session.close()

    @pytest.mark.integration
    def test_sessions_do_not_disturb_each_other(self, case: Case, ready: Ready) -> None:
        """Interleaved batches of two open sessions."""
        requests = (case.baseline, case.same)
        sessions = [
            ready.evaluation.open(build, request.resolved, purpose="search", number=1)
            for build, request in zip(ready.builds, requests, strict=False)
        ]
        try:
            for session in sessions:
                assert (verdict := session.verify()).status is Status.OK, verdict.message
            for session in [*sessions, *sessions]:
                assert (timed := session.measure(problem=0, calls=3)).status is Status.OK, timed.message
        finally:
            for session in sessions:
                session.close()


def _resolved(**macros: int) -> Resolved:
    return Resolved(macros=macros, scalars={}, flags=(), pipeline=None)


def _requests(*texts: str) -> list[BuildRequest]:
    return [
        BuildRequest(
            trial=i, variant=Variant(files=(Source(name="axpy.c", text=text),)), resolved=_resolved(STEP=1)
        )
        for i, text in enumerate(texts)
    ]


AXPY = (
    "void axpy(float a, const float *x, float *y, int n) {\n"
    "    for (int i = 0; i < n; i += STEP) y[i] = a * x[i] + y[i];\n}\n"
)


def _task(variant: Variant) -> Task:
    n = (parse("n"),)
    arguments: list[Any] = [
        Argument(name="a", dtype="float32", value=parse("0.5")),
        Argument(name="x", dtype="float32", shape=n),
        Argument(name="y", dtype="float32", shape=n, role=ArgumentRole.INOUT),
        Argument(name="n", dtype="int32", value=parse("n")),
    ]
    return Task(
        kernel=Kernel(name="axpy", entry="axpy", language="c", variant=variant, folder="."),
        backend="host",
        target="native",
        arguments=tuple(arguments),
        problems=(Problem(sizes={"n": 3000}), Problem(sizes={"n": 500}, weight=2.0)),
        verify=VerifyPolicy(assume=(parse("n >= 1"),)),
        measure=MeasurePolicy(),
        seed=11,
    )


class TestHost(BackendContract):
    """The host backend."""

    @staticmethod
    def make_case() -> Case:
        """One C function."""
        baseline, same, wrong, broken = _requests(
            AXPY,
            AXPY.replace("a * x[i] + y[i]", "y[i] + x[i] * a"),
            AXPY.replace("i = 0", "i = 1"),
            AXPY.replace(";", ""),
        )
        return Case(
            backend=HostBackend(),
            task=_task(baseline.variant),
            baseline=baseline,
            same=same,
            wrong=wrong,
            broken=broken,
        )


OPENCL_AXPY = """
__kernel void axpy(float a, __global const float *x, __global float *y, int n)
{
    int i = get_global_id(0);
    if (i < n) y[i] = a * x[i] + y[i];
}
"""


def _opencl_case(backend: OpenClBackend) -> Case:
    baseline, same, wrong, broken = _requests(
        OPENCL_AXPY,
        OPENCL_AXPY.replace("a * x[i] + y[i]", "y[i] + x[i] * a"),
        OPENCL_AXPY.replace("i < n", "i + 1 < n"),
        OPENCL_AXPY.replace(";", ""),
    )
    task = replace(
        _task(baseline.variant),
        backend="opencl",
        target="pocl",
        kernel=Kernel(name="axpy", entry="axpy", language="opencl", variant=baseline.variant, folder="."),
        launch=Launch(grid=(parse("ceil(n / 64)"),), block=(parse("64"),)),
    )
    return Case(backend=backend, task=task, baseline=baseline, same=same, wrong=wrong, broken=broken)


@needs.pocl
class TestOpenCl(BackendContract):
    """The OpenCL backend on PoCL, on the tuner's own pages."""

    @staticmethod
    def make_case() -> Case:
        """One kernel."""
        return _opencl_case(OpenClBackend())


@needs.pocl
class TestOpenClCopies(BackendContract):
    """The same with buffers copied to the device and back."""

    @staticmethod
    def make_case() -> Case:
        """One kernel."""
        return _opencl_case(OpenClBackend(share_memory=False))


class TestSimulated(BackendContract):
    """The backend that runs nothing."""

    @staticmethod
    def make_case() -> Case:
        """Fates by the value of a macro."""
        fates = [Status.OK, Status.OK, Status.WRONG_RESULT, Status.BUILD_ERROR]
        variant = Variant(files=(Source(name="axpy.c", text=AXPY),))
        requests = [
            BuildRequest(trial=i, variant=variant, resolved=_resolved(FATE=i)) for i in range(len(fates))
        ]
        backend: Any = SimulatedBackend(
            seconds=lambda resolved: 1e-3, outcome=lambda resolved: fates[int(resolved.macros["FATE"])]
        )
        return Case(
            backend=backend,
            task=_task(variant),
            baseline=requests[0],
            same=requests[1],
            wrong=requests[2],
            broken=requests[3],
        )
