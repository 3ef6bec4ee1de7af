"""OpenCL candidates on PoCL: right ones, wrong ones, and those that crash, hang or want too much."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
from virtual_clock import without_oclgrind

from tuner.core.errors import MachineError, SpecError
from tuner.core.expressions import parse
from tuner.core.types import (
    Argument,
    ArgumentRole,
    Build,
    BuildRequest,
    Initial,
    Kernel,
    Launch,
    MeasurePolicy,
    Problem,
    Reference,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
    Verdict,
    VerifyPolicy,
)
from tuner.evaluators.opencl.backend import OpenClBackend, OpenClEvaluation

pytestmark = pytest.mark.usefixtures("no_oclgrind")


@pytest.fixture(scope="module")
def backend() -> OpenClBackend:
    """One for all tests."""
    return OpenClBackend()


ADD = """
__kernel void add(__global const float *restrict x, __global float *restrict y, __global int *count, int n, float f,
                  __local float *part)
{
    const int i = get_global_id(0), t = get_local_id(0);
    part[t] = i < n ? x[i] : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (i < n) {
        y[i] = f * part[t];
        count[i] += 1;
    }
}
"""


def task(**changes: Any) -> Task:
    """The task of ``add``: an input, an output, an inout, scalars, dynamic local memory."""
    n = (parse("n"),)
    values: dict[str, Any] = {
        "kernel": Kernel(name="add", entry="add", language="opencl", variant=variant(ADD), folder="."),
        "backend": "opencl",
        "target": "pocl",
        "arguments": (
            Argument(name="x", dtype="float32", shape=n),
            Argument(name="y", dtype="float32", shape=n, role=ArgumentRole.OUTPUT),
            Argument(
                name="count",
                dtype="int32",
                shape=n,
                role=ArgumentRole.INOUT,
                initial=Initial(kind="randint", options={"low": parse("0"), "high": parse("9")}),
            ),
            Argument(name="n", dtype="int32", value=parse("n")),
            Argument(name="f", dtype="float32", value=parse("2.5")),
        ),
        "problems": (Problem(sizes={"n": 5000}),),
        "verify": VerifyPolicy(assume=(parse("n >= 1"),)),
        "measure": MeasurePolicy(),
        "launch": Launch(
            grid=(parse("ceil(n / BLOCK)"),), block=(parse("BLOCK"),), shared_bytes=parse("4 * BLOCK")
        ),
        "seed": 5,
    }
    return Task(**{**values, **changes})


def variant(text: str) -> Variant:
    """One file."""
    return Variant(files=(Source(name="add.cl", text=text),))


def request(text: str = ADD, *, block: int = 64, flags: tuple[str, ...] = (), **macros: int) -> BuildRequest:
    """A candidate."""
    resolved = Resolved(macros={"BLOCK": block, **macros}, scalars={}, flags=flags, pipeline=None)
    return BuildRequest(trial=1, variant=variant(text), resolved=resolved)


@pytest.fixture(scope="module")
def evaluation(backend: OpenClBackend) -> Iterator[OpenClEvaluation]:
    """With the baseline set."""
    made = backend.prepare(task(), workers=2)
    try:
        baseline = request()
        (build,) = made.build([baseline])
        with pytest.MonkeyPatch.context() as patch:
            without_oclgrind(patch)
            report = made.set_baseline(build, baseline.resolved)
        assert report.status is Status.OK, report.message
        assert report.reference == "float64"
        yield made
    finally:
        made.close()


def verdict(evaluation: OpenClEvaluation, candidate: BuildRequest) -> Verdict:
    """What the verification says, and that a right one can be timed."""
    (build,) = evaluation.build([candidate])
    assert build.status is Status.OK, build.message
    session = evaluation.open(build, candidate.resolved, purpose="search", number=0)
    try:
        found = session.verify()
        measured = session.measure(problem=0, calls=5)
        assert measured.status is found.status
        return found
    finally:
        session.close()


HELPER = """__kernel void helper(__global float *y) {
    __local float held[SIZE];
    held[get_local_id(0)] = 2.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_global_id(0)] = held[0];
}
"""


@needs.pocl
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            ADD.replace("    if", "    __local float u[SIZE]; u[t] = f; if").replace("f *", "u[t] *"),
            id="own",
        ),
        pytest.param(
            HELPER + ADD.replace("    if", "    if (n < 0) helper(y);\n    if", 1), id="of a kernel it calls"
        ),
    ],
)
def test_local_memory_that_the_driver_keeps_quiet_about_counts(
    evaluation: OpenClEvaluation, text: str
) -> None:
    few, many = evaluation.build([request(text, SIZE=500), request(text, SIZE=1 << 22)])
    assert few.status is Status.OK, few.message
    assert many.status is Status.OUT_OF_RESOURCES
    assert "bytes of local memory, the device has" in many.message


@needs.pocl
def test_local_memory_that_no_code_uses_does_not_count(evaluation: OpenClEvaluation) -> None:
    unused = ADD.replace("    if", "    __local float u[SIZE]; if (SIZE < 600) u[t] = f;\n    if", 1)
    (many,) = evaluation.build([request(HELPER + unused, SIZE=1 << 22)])
    assert many.status is Status.OK, many.message


@needs.pocl
def test_a_right_candidate_of_another_size(evaluation: OpenClEvaluation) -> None:
    """Work-groups that divide no size; inout is restored before every call, or the counts were wrong."""
    assert verdict(evaluation, request(block=500)).status is Status.OK


@needs.pocl
@pytest.mark.parametrize(
    ("old", "new", "status", "message"),
    [
        ("count[i] += 1", "count[i] += 2", Status.WRONG_RESULT, "count["),
        ("y[i] = f", "((__global float *)x)[i] = 1; y[i] = f", Status.WRONG_RESULT, "writes to input x"),
        ("y[i] = f", "y[i + 2000000] = 1; y[i] = f", Status.CRASHED, "SIGSEGV"),
        ("y[i] = f", "*(__global volatile int *)8 = 1; y[i] = f", Status.CRASHED, "null pointer"),
        ("y[i] = f", "y[n + 1] = 1; y[i] = f", Status.WRONG_RESULT, "past the end of y"),
        ("if (i < n) {", "while (n > 0) { part[0] += 1; } {", Status.TIMED_OUT, "no end within"),
    ],
)
def test_wrong_candidates_cost_one_trial(
    evaluation: OpenClEvaluation,
    monkeypatch: pytest.MonkeyPatch,
    old: str,
    new: str,
    status: Status,
    message: str,
) -> None:
    if status is Status.TIMED_OUT:
        monkeypatch.setattr("tuner.evaluators.opencl.runner._FIRST_LAUNCH_S", 1.0)
    found = verdict(evaluation, request(ADD.replace(old, new)))
    assert (found.status, message in found.message) == (status, True), found.message


def build(evaluation: OpenClEvaluation, candidate: BuildRequest) -> Build:
    """Its build."""
    (made,) = evaluation.build([candidate])
    return made


@needs.pocl
def test_candidates_over_a_limit_are_not_run(evaluation: OpenClEvaluation) -> None:
    assert build(evaluation, request(block=1 << 14)).status is Status.OUT_OF_RESOURCES
    local = ADD.replace("const int i", "__local float big[4 << 20]; big[0] = n; const int i")
    assert build(evaluation, request(local)).status in (
        Status.OUT_OF_RESOURCES,
        Status.BUILD_ERROR,
        Status.OK,
    )
    renamed = build(evaluation, request(ADD.replace("void add", "void sub")))
    assert (renamed.status, "it has sub" in renamed.message) == (Status.BUILD_ERROR, True)
    broken = build(evaluation, request(ADD.replace("const int i", "const in i")))
    assert broken.status is Status.BUILD_ERROR
    assert "add.cl:5" in broken.message
    assert "/tmp" not in broken.message


@needs.pocl
def test_the_same_work_has_the_same_key(evaluation: OpenClEvaluation) -> None:
    plain = build(evaluation, request())
    assert build(evaluation, request(OTHER=3)).key == plain.key
    assert build(evaluation, request(block=128)).key != plain.key
    assert build(evaluation, request(flags=("-cl-mad-enable",))).key != plain.key
    assert plain.features["work_group_items"] == 64


@needs.pocl
def test_a_fresh_evaluation_builds_the_same_code(
    backend: OpenClBackend, evaluation: OpenClEvaluation
) -> None:
    other = backend.prepare(task(), workers=1)
    try:
        one, two = build(evaluation, request()), build(other, request())
        assert (one.digest, one.key) == (two.digest, two.key)
    finally:
        other.close()


@needs.pocl
def test_cold_caches_and_several_problems(backend: OpenClBackend) -> None:
    made = backend.prepare(
        task(
            measure=MeasurePolicy(cache="cold"),
            problems=(Problem(sizes={"n": 3000}), Problem(sizes={"n": 100})),
        ),
        workers=1,
    )
    try:
        (baseline,) = made.build([request()])
        assert made.set_baseline(baseline, request().resolved).status is Status.OK
        session = made.open(baseline, request().resolved, purpose="search", number=0)
        try:
            assert session.verify().status is Status.OK
            for problem in (0, 1):
                measured = session.measure(problem=problem, calls=3)
                assert (measured.status, len(measured.times_s)) == (Status.OK, 3), measured.message
        finally:
            session.close()
    finally:
        made.close()


@pytest.fixture
def blanks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of temporary files with blanks in its name."""
    folder = Path(tempfile.mkdtemp(prefix="my temporary files "))
    # The user that candidates run as goes through it.
    folder.chmod(0o711)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield
    shutil.rmtree(folder)


@needs.pocl
def test_lists_of_drivers_lie_in_any_folder_that_the_user_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root's workers are other users, to whom its folders are closed. A list may be named alone."""
    lists = os.environ.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")
    given = Path(lists) if lists.endswith(".icd") else sorted(Path(lists).glob("pocl*.icd"))[0]
    named = Path(shutil.copy(given, tmp_path))
    tmp_path.chmod(0o700)
    for place in (named, tmp_path):
        monkeypatch.setenv("OCL_ICD_VENDORS", str(place))
        made = OpenClBackend().prepare(task(), workers=1)
        try:
            (baseline,) = made.build([request()])
            assert baseline.status is Status.OK, baseline.message
            if place == tmp_path:
                report = made.set_baseline(baseline, request().resolved)
                assert report.status is Status.OK, report.message
        finally:
            made.close()


@needs.pocl
@pytest.mark.usefixtures("blanks")
def test_headers_lie_in_any_folder_that_the_user_can_read_and_references_are_python(
    backend: OpenClBackend, tmp_path: Path
) -> None:
    """Beside the source, in closed folders, in folders below; those include one another; names hold blanks.

    So does that of the folder of temporary files. The reference is a function of Python.
    """
    (tmp_path / "reference.py").write_text(
        "def add(x, count, f, **_):\n    return {'y': f * x, 'count': count + 1}\n"
    )
    own, more = tmp_path / "my own", tmp_path / "more"
    (own / "deep").mkdir(parents=True)
    more.mkdir()
    (own / "deep" / "twice.h").write_text('#include "factor.h"\n#include <other.h>\n')
    (own / "deep" / "factor.h").write_text("#define FACTOR 2\n")
    (own / "factor.h").write_text("#error the header beside comes first\n")
    (more / "other.h").write_text("#define TWICE(x) (FACTOR * (x))\n")
    (more / "plain.h").write_text("#error the header beside the source comes first\n")
    own.chmod(0o700)
    text = '#include "plain.h"\n#include "deep/twice.h"\n' + ADD.replace("f * part", "TWICE(f) / HALF * part")
    files = (Source(name="add.cl", text=text), Source(name="plain.h", text="#define HALF 2\n"))
    kernel = Kernel(
        name="add",
        entry="add",
        language="opencl",
        variant=Variant(files=files),
        folder=str(tmp_path),
        include=("my own", "more"),
    )
    reference = Reference(kind="python", file="reference.py", function="add")
    made = backend.prepare(task(kernel=kernel, verify=VerifyPolicy(reference=reference)), workers=1)
    try:
        resolved = request().resolved
        (baseline,) = made.build([BuildRequest(trial=0, variant=kernel.variant, resolved=resolved)])
        assert baseline.status is Status.OK, baseline.message
        report = made.set_baseline(baseline, resolved)
        assert (report.status, report.reference) == (Status.OK, "python"), report.message
    finally:
        made.close()


@needs.pocl
def test_tasks_that_this_backend_does_not_have(backend: OpenClBackend) -> None:
    with pytest.raises(SpecError, match="needs a launch"):
        backend.prepare(task(launch=None), workers=1)
    with pytest.raises(SpecError, match="no OpenCL device fits"):
        backend.prepare(task(target="nothing-like-it"), workers=1)
    with pytest.raises(SpecError, match="which no kernel takes by value"):
        backend.prepare(task(arguments=(Argument(name="b", dtype="bool", value=parse("1")),)), workers=1)


def test_no_platform_is_one_line_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", "/nonexistent")
    with pytest.raises(MachineError, match="apt install pocl-opencl-icd"):
        OpenClBackend().environment("native")
