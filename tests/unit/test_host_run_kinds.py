"""Kernels of every kind through the host backend: roles, scalars, returned values, C++, references, cold caches."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from virtual_clock import ADVANCES, either_clock

from tuner.core.errors import MachineError, SpecError, UsageError
from tuner.core.expressions import parse
from tuner.core.protocols import BaselineReport
from tuner.core.types import (
    Argument,
    ArgumentRole,
    Build,
    BuildRequest,
    Initial,
    Kernel,
    MeasurePolicy,
    Problem,
    Reference,
    Resolved,
    Source,
    Status,
    Task,
    Value,
    Variant,
    VerifyPolicy,
)
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.clocks import Clocks
from tuner.evaluators.host.evaluation import HostEvaluation
from tuner.evaluators.lane import cache_sizes


def resolved(**scalars: Value) -> Resolved:
    return Resolved(macros={}, scalars=scalars, flags=(), pipeline="default<O2>")


def array(
    name: str, shape: str = "n", role: str = "input", dtype: str = "float32", **initial: Any
) -> Argument:
    made = Initial(**initial) if initial else Initial()
    shapes = tuple(parse(s) for s in shape.split(","))
    return Argument(name=name, dtype=dtype, shape=shapes, role=ArgumentRole(role), initial=made)


def scalar(name: str, value: str, dtype: str = "int32") -> Argument:
    return Argument(name=name, dtype=dtype, value=parse(value))


def make_task(text: str, *arguments: Argument, n: int = 1000, **more: Any) -> Task:
    language = more.pop("language", "c")
    kernel = Kernel(
        name="f",
        entry=more.pop("entry", "f"),
        language=language,
        variant=Variant(files=(Source(name="f.cc" if language == "c++" else "f.c", text=text),)),
        folder=more.pop("folder", "."),
        link=more.pop("link", ()),
        returns=more.pop("returns", None),
    )
    task = Task(
        kernel=kernel,
        backend="host",
        target="native",
        arguments=arguments,
        problems=(Problem(sizes={"n": n}),),
        verify=VerifyPolicy(problems=(Problem(sizes={"n": 19}),)),
        measure=MeasurePolicy(),
    )
    return replace(task, **more)


@contextmanager
def baseline(
    task: Task, settings: Resolved | None = None
) -> Iterator[tuple[HostEvaluation, Build, BaselineReport]]:
    evaluation = HostBackend().prepare(task, workers=1)
    try:
        settings = settings or resolved()
        (build,) = evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=settings)])
        assert build.status is Status.OK, build.message
        yield evaluation, build, evaluation.set_baseline(build, settings)
    finally:
        evaluation.close()


def works(
    task: Task, settings: Resolved | None = None, *, purpose: str = "search", calls: int = 6
) -> list[float]:
    settings = settings or resolved()
    with baseline(task, settings) as (evaluation, build, report):
        assert report.status is Status.OK, report.message
        session = evaluation.open(build, settings, purpose=purpose, number=0)
        verdict = session.verify()
        assert verdict.status is Status.OK, verdict.message
        measurement = session.measure(problem=0, calls=calls)
        session.close()
        assert measurement.status is Status.OK, measurement.message
        assert len(measurement.times_s) >= calls
        return list(measurement.times_s)


HISTOGRAM = "void f(const int *x, int *h, int n) { for (int i = 0; i < n; i++) h[x[i]]++; }"
HISTOGRAM_ARGUMENTS = (
    array("x", dtype="int32", kind="randint", options={"low": 0, "high": 16}),
    array("h", "16", "inout", "int32", kind="randint", options={"low": 0, "high": 9}),
    scalar("n", "n"),
)
SCALE = "void f(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = 3 * x[i] + 1; }"
SCALE_ARGUMENTS = (array("x"), array("y", role="output"), scalar("n", "n"))


def test_inout_is_restored_before_every_call() -> None:
    works(make_task(HISTOGRAM, *HISTOGRAM_ARGUMENTS), purpose="confirm", calls=30)


def test_many_buffers_of_short_calls_are_mapped() -> None:
    """All places are told to the process in one message, which is so long at most."""
    names = [f"x{i}" for i in range(24)]
    text = f"void f({', '.join(f'float *{name}' for name in names)}) {{ {' '.join(f'*{n} += 1;' for n in names)} }}"
    works(make_task(text, *(array(name, "1", "inout") for name in names)))


def test_candidate_that_skips_an_inout_update_is_wrong() -> None:
    task = make_task(HISTOGRAM, *HISTOGRAM_ARGUMENTS)
    text = HISTOGRAM.replace("i < n;", "i < n - (n == 1000);")
    with baseline(task) as (evaluation, _, report):
        assert report.own_error == {"h": 0.0}
        request = BuildRequest(
            trial=1, variant=Variant(files=(Source(name="f.c", text=text),)), resolved=resolved()
        )
        session = evaluation.open(evaluation.build([request])[0], resolved(), purpose="search", number=0)
        assert session.verify().status is Status.WRONG_RESULT
        session.close()


def test_scratch_and_scalars_of_several_types() -> None:
    text = (
        "void f(const double *x, double *t, float *y, float a, double b, unsigned char c, long long n) {"
        " for (long long i = 0; i < n; i++) t[i] = a * x[i] + b;"
        " for (long long i = 0; i < n; i++) y[i] = (float)(t[n - 1 - i] * c); }"
    )
    arguments = (
        array("x", dtype="float64"),
        array("t", role="scratch", dtype="float64"),
        array("y", role="output"),
        scalar("a", "1.5", "float32"),
        scalar("b", "0.25", "float64"),
        scalar("c", "200", "uint8"),
        scalar("n", "n", "int64"),
    )
    works(make_task(text, *arguments))


@pytest.mark.parametrize(("dtype", "ctype"), [("float32", "float"), ("float64", "double"), ("int32", "int")])
@pytest.mark.integration
def test_returned_value_is_checked(dtype: str, ctype: str) -> None:
    text = f"{ctype} f(const {ctype} *x, int n) {{ {ctype} s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }}"
    kind: dict[str, Any] = {"kind": "randint", "options": {"low": 0, "high": 9}} if dtype == "int32" else {}
    task = make_task(text, array("x", dtype=dtype, **kind), scalar("n", "n"), returns=dtype)
    works(task)
    with baseline(task) as (evaluation, _, _):
        variant = Variant(files=(Source(name="f.c", text=text.replace("s += x[i]", "s += x[i] * (i != 3)")),))
        (build,) = evaluation.build([BuildRequest(trial=1, variant=variant, resolved=resolved())])
        verdict = evaluation.open(build, resolved(), purpose="search", number=0).verify()
        assert verdict.status is Status.WRONG_RESULT
        assert "return" in verdict.message


def test_cpp_in_a_namespace_with_functions_of_a_library() -> None:
    text = (
        "#include <math.h>\nnamespace k { template <class T> T twice(T x) { return x + x; }\n"
        "void f(const float *x, float *y, int n)\n"
        "{ for (int i = 0; i < n; i++) y[i] = twice(sinf(x[i]) + expf(-x[i] * x[i])); } }"
    )
    works(make_task(text, *SCALE_ARGUMENTS, language="c++", entry="k::f", link=("m",)))


def test_missing_library_is_named() -> None:
    task = make_task(SCALE, *SCALE_ARGUMENTS, link=("nowhere",))
    with pytest.raises(MachineError, match="nowhere"), baseline(task):
        pass


@pytest.mark.integration
def test_calls_that_each_need_a_window_are_few() -> None:
    """Restored buffers that fill a core's cache: hundreds of windows would take seconds for milliseconds of calls."""
    text = "void f(float *x, int n) { for (int i = 0; i < n; i++) x[i] += 1.0f; }"
    task = make_task(text, array("x", role="inout"), scalar("n", "n"), n=400_000)
    with baseline(task) as (evaluation, build, _):
        session = evaluation.open(build, resolved(), purpose="confirm", number=1000)
        try:
            assert session.verify().status is Status.OK
            measurement = session.measure(problem=0, calls=500)
        finally:
            session.close()
    assert measurement.status is Status.OK, measurement.message
    assert measurement.notes["windows"] <= 64
    assert len(measurement.times_s) >= 64


@pytest.mark.measured
def test_cold_cache_is_slower_than_a_warm_one() -> None:
    task = make_task(SCALE, *SCALE_ARGUMENTS, n=20000)
    cold = replace(task, measure=MeasurePolicy(cache="cold"))
    assert statistics.median(works(cold)) > statistics.median(works(task))


HALVE = """void tuner_work(long long ns);
void f(float *x, int n) {
    tuner_work(100ll * n);
    for (int i = 0; i < n; i++)
        for (int r = 0; r < 100; r++) x[i] = x[i] * 0.5f + 1.0f;
}"""


@pytest.mark.parametrize(("share", "windows"), [(0.1, 1), (0.7, 8)])
def test_restoring_leaves_a_warm_set_in_the_cache(share: float, windows: int) -> None:
    """Small sets are restored together, large ones one by one."""
    n = int(share * cache_sizes().l2_bytes) // 4
    task = make_task(HALVE, array("x", role="inout"), scalar("n", "n"), n=n)
    with baseline(task) as (evaluation, build, _):
        session = evaluation.open(build, resolved(), purpose="search", number=0)
        session.verify()
        measurement = session.measure(problem=0, calls=8)
        session.close()
    assert measurement.status is Status.OK, measurement.message
    assert measurement.notes["windows"] == windows


@pytest.mark.parametrize("wrong", [1, 10**9], ids=["once", "always"])
def test_clocks_that_are_apart_cost_a_repetition_or_the_measurement(
    monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    """A virtual machine's processor may be taken away where only one of the clocks sees it; but not each time."""
    task = make_task(SCALE, *SCALE_ARGUMENTS)
    left = [wrong]

    def add(clocks: Clocks, claimed_s: float, observed_s: float) -> str:
        left[0] -= 1
        return "its clock is wrong" if left[0] >= 0 else ""

    with baseline(task) as (evaluation, build, _):
        session = evaluation.open(build, resolved(), purpose="search", number=0)
        session.verify()
        with monkeypatch.context() as patched:
            patched.setattr(Clocks, "add", add)
            measurement = session.measure(problem=0, calls=8)
        session.close()
    if wrong == 1:
        assert measurement.status is Status.OK, measurement.message
        assert len(measurement.times_s) == 8
    else:
        assert measurement.status is Status.REFUSED
        assert "its clock is wrong" in measurement.message


LOOKUP = """static float key[64], out[64][20000]; static int known;
void f(const float *x, float *y, int n) {
    for (int j = 0; j < known; j++)
        if (key[j] == x[0]) { for (int i = 0; i < n; i++) y[i] = out[j][i]; return; }
    tuner_work(100ll * n);
    for (int i = 0; i < n; i++) { float v = x[i]; for (int r = 0; r < 200; r++) v = v * 0.5f + 1.0f; y[i] = v; }
    if (known < 64) { key[known] = x[0]; for (int i = 0; i < n; i++) out[known][i] = y[i]; known++; }
}"""


@either_clock
def test_inputs_that_were_not_seen_are_not_shown_twice(monkeypatch: pytest.MonkeyPatch, clock: str) -> None:
    """A look that counts nothing is made again on other inputs: on the same ones an answer would be stored by then."""
    plain = (
        f"{clock}\nvoid f(const float *x, float *y, int n) {{"
        + LOOKUP.split("return; }\n")[1].split("    if (known")[0]
        + "}"
    )
    task = make_task(plain, *SCALE_ARGUMENTS, n=2000)
    with baseline(task) as (evaluation, build, _):
        session = evaluation.open(build, resolved(), purpose="search", number=0)
        assert session.verify().status is Status.OK
        assert all(session.measure(problem=0, calls=30).status is Status.OK for _ in range(4))
        session.close()
        variant = Variant(files=(Source(name="f.c", text=f"{clock}\n{LOOKUP}"),))
        (build,) = evaluation.build([BuildRequest(trial=1, variant=variant, resolved=resolved())])
        session = evaluation.open(build, resolved(), purpose="search", number=1)
        assert session.verify().status is Status.OK
        apart: list[bool] = []
        timed: Any = session
        made, add = timed.inputs.fresh, Clocks.add

        def fresh(problem: int, look: int) -> Any:
            apart.append(True)
            return made(problem, look)

        def first_apart(clocks: Clocks, claimed_s: float, observed_s: float) -> str:
            if len(apart) == 1 and apart[0]:
                apart[0] = False
                return "apart"
            return add(clocks, claimed_s, observed_s)

        timed.inputs = replace(timed.inputs, fresh=fresh)
        with monkeypatch.context() as patched:
            patched.setattr(Clocks, "add", first_apart)
            found = [session.measure(problem=0, calls=30) for _ in range(4)]
        session.close()
    assert found[-1].status is Status.REFUSED
    assert "has not seen" in found[-1].message
    assert len(apart) > 1


def test_several_threads_are_timed_by_the_wall() -> None:
    task = make_task(SCALE, *SCALE_ARGUMENTS, measure=MeasurePolicy(threads=2))
    with baseline(task) as (evaluation, build, _):
        session = evaluation.open(build, resolved(), purpose="search", number=0)
        session.verify()
        measurement = session.measure(problem=0, calls=5)
        # But for what a busy machine kept it from a processor.
        assert 0 < measurement.observed_s <= measurement.wall_s
        session.close()


PARTLY = (
    "void f(const float *x, float *y, int n) { for (int i = 1; i < n - 1; i++) y[i] = x[i - 1] + x[i + 1]; }"
)


def test_elements_that_the_baseline_leaves_alone_must_stay() -> None:
    task = make_task(PARTLY, *SCALE_ARGUMENTS)
    with baseline(task) as (evaluation, _, report):
        assert report.notes["partly_written"] == ["y"]
        variant = Variant(files=(Source(name="f.c", text=PARTLY.replace("; }", "; y[0] = 0; }")),))
        (build,) = evaluation.build([BuildRequest(trial=1, variant=variant, resolved=resolved())])
        verdict = evaluation.open(build, resolved(), purpose="search", number=0).verify()
        assert verdict.status is Status.WRONG_RESULT
        assert "writes y[0], which the kernel as given leaves alone" in verdict.message


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (SCALE.replace("3 * x[i]", "y[i] + x[i]"), Status.WRONG_RESULT, "role inout"),
        ("#include <stdlib.h>\n" + SCALE.replace("{ for", "{ abort(); for"), Status.CRASHED, "SIGABRT"),
        (SCALE.replace("i < n", "i <= n"), Status.CRASHED, "out of bounds"),
    ],
)
def test_baseline_that_is_no_baseline(text: str, status: Status, words: str) -> None:
    with baseline(make_task(text, *SCALE_ARGUMENTS)) as (_, _, report):
        assert report.status is status
        assert words in report.message


def test_a_reference_that_is_never_finite_is_no_reference(tmp_path: Path) -> None:
    """Whatever a candidate gave passed, and a gain of it was claimed."""
    (tmp_path / "ref.py").write_text("def ref(x, n):\n    return {'y': x * float('nan')}\n")
    verify = VerifyPolicy(reference=Reference(kind="python", file="ref.py", function="ref"))
    with baseline(make_task(SCALE, *SCALE_ARGUMENTS, folder=str(tmp_path), verify=verify)) as (_, _, report):
        assert report.status is Status.WRONG_RESULT
        assert report.message.startswith("nothing is compared: what is expected has no finite element")


@pytest.mark.parametrize(("factor", "status"), [("3", Status.OK), ("2", Status.WRONG_RESULT)])
def test_python_reference_decides(tmp_path: Path, factor: str, status: Status) -> None:
    (tmp_path / "ref.py").write_text(f"def ref(x, n):\n    return {{'y': {factor} * x + 1}}\n")
    verify = VerifyPolicy(reference=Reference(kind="python", file="ref.py", function="ref"))
    task = make_task(SCALE, *SCALE_ARGUMENTS, folder=str(tmp_path), verify=verify)
    with baseline(task) as (_, _, report):
        assert report.status is status, report.message
        assert report.reference == "python"


def test_float64_reference_gives_the_baselines_own_error() -> None:
    text = "void f(const float *x, float *y, int n) { float s = 0; for (int i = 0; i < n; i++) y[i] = s += x[i]; }"
    with baseline(make_task(text, *SCALE_ARGUMENTS)) as (_, _, report):
        assert report.reference == "float64"
        assert report.own_error["y"] > 0


def test_float64_reference_that_means_something_else_is_not_believed() -> None:
    text = SCALE.replace("3 * x[i] + 1", "x[i] * sizeof(float)")
    with baseline(make_task(text, *SCALE_ARGUMENTS)) as (_, _, report):
        assert report.status is Status.OK
        assert "off by" in next(iter(report.notes["fallbacks"].values()))


@pytest.mark.integration
def test_runtime_scalar_changes_the_call_and_not_what_is_expected() -> None:
    text = (
        "void f(const float *x, float *t, float *y, int block, int n) {"
        " for (int i = 0; i < n; i += block) { int m = n - i < block ? n - i : block;"
        " for (int j = 0; j < m; j++) t[j] = 2 * x[i + j];"
        " for (int j = 0; j < m; j++) y[i + j] = t[j] + (block == 5); } }"
    )
    arguments = (
        array("x"),
        array("t", "BLOCK", "scratch"),
        array("y", role="output"),
        scalar("block", "BLOCK"),
        scalar("n", "n"),
    )
    task = make_task(text, *arguments)
    with baseline(task, resolved(BLOCK=16)) as (evaluation, build, report):
        assert report.status is Status.OK
        for block, status in ((16, Status.OK), (64, Status.OK), (5, Status.WRONG_RESULT)):
            session = evaluation.open(build, resolved(BLOCK=block), purpose="search", number=0)
            verdict = session.verify()
            assert verdict.status is status, verdict.message
            session.close()


def test_short_calls_are_timed_several_at_a_time() -> None:
    # A call takes 5 us: the virtual clock's own 25 less 20.
    short = ADVANCES + SCALE.replace("{", "{ tuner_work(-20000);", 1)
    task = make_task(short, *SCALE_ARGUMENTS, n=40)
    with baseline(task) as (evaluation, build, _):
        session = evaluation.open(build, resolved(), purpose="search", number=0)
        session.verify()
        measurement = session.measure(problem=0, calls=10)
        assert measurement.status is Status.OK, measurement.message
        assert measurement.notes["calls_per_time"] == 9
        # A time is a call's, not that of all that were timed together.
        whole_s = sum(measurement.times_s) * measurement.notes["calls_per_time"]
        assert whole_s <= 1.01 * measurement.claimed_s
        session.close()


def test_order_of_calls_and_duties() -> None:
    task = make_task(SCALE, *SCALE_ARGUMENTS)
    evaluation = HostBackend().prepare(task, workers=1)
    try:
        (build,) = evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=resolved())])
        with pytest.raises(UsageError, match="baseline"):
            evaluation.open(build, resolved(), purpose="search", number=0)
        evaluation.set_baseline(build, resolved())
        with pytest.raises(UsageError, match="purpose"):
            evaluation.open(build, resolved(), purpose="rest", number=0)
        session = evaluation.open(build, resolved(), purpose="search", number=0)
        with pytest.raises(UsageError, match="verify"):
            session.measure(problem=0, calls=3)
        session.verify()
        with pytest.raises(UsageError, match="problem 1"):
            session.measure(problem=1, calls=3)
        session.close()
        session.close()
        with pytest.raises(UsageError, match="closed"):
            session.measure(problem=0, calls=3)
    finally:
        evaluation.close()
        evaluation.close()


def test_candidates_may_import_what_the_baseline_imports() -> None:
    plain, calling = SCALE, "#include <stdlib.h>\n" + SCALE.replace("{ for", "{ if (n < 0) abort(); for")
    for base, other, status in ((plain, calling, Status.REFUSED), (calling, plain, Status.OK)):
        with baseline(make_task(base, *SCALE_ARGUMENTS)) as (evaluation, _, _):
            variant = Variant(files=(Source(name="f.c", text=other),))
            (build,) = evaluation.build([BuildRequest(trial=1, variant=variant, resolved=resolved())])
            assert build.status is status


@pytest.mark.parametrize("change", [{"language": "cuda"}, {"launch": True}])
def test_unsupported_host_specs_are_refused(change: dict[str, Any]) -> None:
    from tuner.core.types import Launch

    if "launch" in change:
        change = {"launch": Launch(grid=(parse(1),), block=(parse(1),))}
    with pytest.raises(SpecError):
        HostBackend().prepare(make_task(SCALE, *SCALE_ARGUMENTS, **change), workers=1)


def test_environment_is_plain_json_and_names_the_device() -> None:
    from tuner.core.canonical import canonical_json

    environment = HostBackend().environment("native")
    assert canonical_json(dict(environment))
    assert environment["device"]
    assert environment["llvm"]["version"]


def test_two_sessions_may_be_open_at_once() -> None:
    task = make_task(SCALE, *SCALE_ARGUMENTS)
    with baseline(task) as (evaluation, build, _):
        sessions = [evaluation.open(build, resolved(), purpose="search", number=i) for i in range(3)]
        assert [s.verify().status for s in sessions] == [Status.OK] * 3
        for _ in range(2):
            assert [s.measure(problem=0, calls=3).status for s in sessions] == [Status.OK] * 3
        for session in sessions:
            session.close()
