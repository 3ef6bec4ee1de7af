"""C functions recorded from an application that calls them in a shared library, and tuned on what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import needs
import numpy as np
import pytest
from applications import AXPY as KERNEL
from applications import AXPY_SPEC as SPEC
from applications import compiled, with_library
from spec_files import spec_in

from tuner.core.errors import SpecError, UsageError
from tuner.core.types import BuildRequest, Status
from tuner.driver.applications.recording import RecordReport, record_spec
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.load import LoadedSpec, load_recorded, load_spec

APPLICATION = """
void axpy(int, float, const float *, float *);
float x[64], y[64];
int main(void) { for (int i = 0; i < 64; i++) x[i] = i; BODY return 0; }
"""


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., RecordReport]:
    """Records calls of an application with a body of its own."""

    def run(body: str, instances: int = 4, spec: str = SPEC, before: str = "") -> RecordReport:
        (tmp_path / "axpy.c").write_text(KERNEL)
        (tmp_path / "axpy.yaml").write_text(spec)
        (tmp_path / "main.c").write_text(before + APPLICATION.replace("BODY", body))
        command = with_library(tmp_path, "axpy.c", links=("-rdynamic",))
        (loaded,) = load_spec(tmp_path / "axpy.yaml")
        return record_spec(command, loaded, instances=instances)

    return run


def with_workload(folder: Path) -> LoadedSpec:
    """The same spec on the recordings."""
    path = folder / "recorded.yaml"
    path.write_text(SPEC + "workload: recordings/*.rec\nverify: {reference: recording}\n")
    (loaded,) = load_spec(path)
    return loaded


def test_calls_are_captured_with_extents_from_the_spec(
    tmp_path: Path, record: Callable[..., RecordReport]
) -> None:
    report = record("axpy(64, 2, x, y); axpy(64, 2, x, y); axpy(10, 0.5f, x + 3, y);")
    assert report.ran.status == 0
    found = {}
    for path in report.recordings:
        with RecordingFile(path) as file:
            n = int.from_bytes(file.recording.arguments[0].value, "little")
            arrays = [np.frombuffer(b, "f4") for b in (file.before(2), file.before(3), file.after(3))]
            found.setdefault(n, []).append(arrays)
            assert file.recording.api == "c"
    assert {n: len(calls) for n, calls in found.items()} == {64: 2, 10: 1}
    x, before, after = found[10][0]
    np.testing.assert_array_equal(x, np.arange(3, 13, dtype=np.float32))
    np.testing.assert_array_equal(before, 4 * np.arange(10, dtype=np.float32))
    np.testing.assert_array_equal(after, 0.5 * x + before)


def test_of_calls_that_repeat_one_is_of_the_later_half(record: Callable[..., RecordReport]) -> None:
    """What a program begins with (all zero here) may be data that it never has again."""
    report = record("for (int k = 0; k < 100; k++) axpy(64, 1, x, y);", instances=2)
    seen = []
    for path in report.recordings:
        with RecordingFile(path) as file:
            before, after = (np.frombuffer(b, "f4") for b in (file.before(3), file.after(3)))
            assert file.recording.count == 100
        np.testing.assert_array_equal(after, before + np.arange(64))
        seen.append(before[1])
    # The 48th and the 96th: behind the first three, one at twice the launches of the one before.
    assert sorted(seen) == [47, 95]


def test_later_calls_that_change_nothing_are_left_to_earlier_ones(
    record: Callable[..., RecordReport],
) -> None:
    """As those of what has converged."""
    body = "for (int k = 0; k < 100; k++) { axpy(64, 1, x, y); if (k == 0) for (int i = 0; i < 64; i++) x[i] = 0; }"
    report = record(body, instances=1)
    (path,) = report.recordings
    with RecordingFile(path) as file:
        np.testing.assert_array_equal(np.frombuffer(file.after(3), "f4"), np.arange(64))


MADE_CLOCK = """
struct time { long seconds, nanoseconds; };
static long now_us, call_us;
int clock_gettime(int clock, struct time *time)
{
    (void)clock;
    now_us += call_us;
    time->seconds = now_us / 1000000, time->nanoseconds = now_us % 1000000 * 1000;
    return 0;
}
"""


def test_of_kinds_of_calls_the_one_that_takes_most_time_is_recorded(
    record: Callable[..., RecordReport],
) -> None:
    """A program may set itself up by calls of two sizes, and work on a third one. What a call takes is made up."""
    body = (
        "call_us = 3; axpy(5, 1, x, y); axpy(7, 1, x, y);"
        " for (int k = 0; k < 9; k++) { call_us = 2; axpy(64, 1, x, y); call_us = 1; axpy(6, 1, x, y); }"
    )
    report = record(body, instances=2, before=MADE_CLOCK)
    found = {}
    for path in report.recordings:
        with RecordingFile(path) as file:
            n = int.from_bytes(file.recording.arguments[0].value, "little")
            found[n] = (file.recording.count, np.frombuffer(file.before(3), "f4")[3] > 6)
    # The sizes that take most, in later calls.
    assert found == {64: (9, True), 6: (9, True)}


@needs.cc
@pytest.mark.parametrize("name", ["mix", "there", "begin", "frame"])
def test_functions_may_be_called_what_the_recorder_calls_its_own(tmp_path: Path, name: str) -> None:
    application = program_of(
        tmp_path,
        libk_c=KERNEL.replace("axpy", name),
        app_c=f"void {name}(int, float, const float *, float *); float x[8], y[8];"
        f"int main(void) {{ {name}(8, 2, x, y); return 0; }}",
    )
    (tmp_path / "k.yaml").write_text(SPEC.replace("axpy.c", "libk.c").replace("axpy", name))
    (loaded,) = load_spec(tmp_path / "k.yaml")
    assert len(record_spec(application, loaded, instances=1).recordings) == 1


@pytest.mark.integration
def test_recorded_calls_are_replayed_before_anything_is_tuned(
    tmp_path: Path, record: Callable[..., RecordReport]
) -> None:
    record("axpy(64, 2, x, y); axpy(10, 0.5f, x + 3, y);")
    loaded = with_workload(tmp_path)
    assert sorted(p.sizes["n"] for p in loaded.task.problems) == [10, 64]
    assert load_recorded(loaded.text, loaded.files, folder=str(tmp_path)).task == loaded.task
    for change, status in ((None, Status.OK), ("a * x[i] + 2", Status.WRONG_RESULT)):
        if change:
            (tmp_path / "axpy.c").write_text(KERNEL.replace("a * x[i] + y[i]", change))
            loaded = with_workload(tmp_path)
        evaluation = HostBackend().prepare(loaded.task, workers=1)
        try:
            space = loaded.space(None)
            resolved = space.resolve(space.default())
            request = BuildRequest(trial=0, variant=loaded.task.kernel.variant, resolved=resolved)
            (build,) = evaluation.build([request])
            report = evaluation.set_baseline(build, resolved)
        finally:
            evaluation.close()
        assert report.status is status, report.message


def test_arrays_that_share_memory_are_refused_by_name(
    tmp_path: Path, record: Callable[..., RecordReport]
) -> None:
    record("axpy(32, 2, x, x + 16);")
    with pytest.raises(SpecError, match="x and y share memory"):
        with_workload(tmp_path)


def test_sizes_of_the_spec_that_recordings_replace_are_left_out(
    tmp_path: Path, record: Callable[..., RecordReport]
) -> None:
    record("axpy(32, 2, x, y);")
    path = tmp_path / "recorded.yaml"
    sizes = 'verify: {problems: [{n: 7}], assume: ["n >= 1"]}'
    path.write_text(f"{SPEC}workload: recordings/*.rec\n{sizes}\n")
    (spec,) = load_spec(path)
    assert spec.task.verify.problems == spec.task.verify.assume == ()
    assert any("verify.problems and verify.assume: left out" in notice for notice in spec.notices)


@pytest.mark.parametrize(
    ("body", "spec", "why"),
    [
        ("axpy(0, 2, x, y);", SPEC, "an extent of the spec is no size"),
        (
            "axpy(1, 2, x, y);",
            SPEC.replace("shape: [n]", 'shape: ["n + 900000000"]'),
            "x is shorter than the spec says, or leads to no memory",
        ),
        ("", SPEC, "never called 'axpy'"),
    ],
    ids=["empty", "beyond the end", "never called"],
)
def test_uncapturable_launches_are_refused_by_name(
    tmp_path: Path, record: Callable[..., RecordReport], body: str, spec: str, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        record(body, spec=spec)
    assert not list(tmp_path.rglob("*.rec"))


def test_an_extent_that_no_argument_tells_is_refused_by_name(
    record: Callable[..., RecordReport],
) -> None:
    with pytest.raises(SpecError, match="cannot be computed from the arguments"):
        record("axpy(1, 2, x, y);", spec=SPEC.replace("shape: [n]", 'shape: ["n ** 2"]'))


def test_repeated_calls_are_held_out_from_the_search(
    tmp_path: Path, record: Callable[..., RecordReport]
) -> None:
    from tuner.evaluators.workloads import make_planned, plan_workloads, timed_sets

    record("axpy(64, 2, x, y); axpy(64, 2, x, y); axpy(64, 2, x, y); axpy(10, 0.5f, x + 3, y);")
    task = with_workload(tmp_path).task
    assert sorted((p.sizes["n"], len(p.held_out)) for p in task.problems) == [(10, 0), (64, 2)]
    assert sum(p.weight for p in task.problems) > 0
    index = next(i for i, p in enumerate(task.problems) if p.held_out)

    def seen(purpose: str, number: int) -> tuple[int, float]:
        plans = plan_workloads(task, {}, purpose=purpose, number=number)
        (plan,) = [p for p in plans if p.timed_problem == index and p.distribution == "given"]
        (timed,) = timed_sets(task, index, {}, purpose=purpose, number=number, count=1)
        assert timed.problem.sizes == plan.problem.sizes
        return plan.problem.sizes["recording"], float(make_planned(task, plan, {}).arrays["y"][1])

    search = {seen("search", number) for number in range(3)}
    confirm = {seen("confirm", number) for number in range(3)}
    assert len(search) == 1
    assert len(confirm) == 2
    assert search.isdisjoint(confirm)
    assert {value for _, value in search | confirm} == {0.0, 2.0, 4.0}


SUM = """
float total(int n, const float *x, float *y) {
    float sum = 0;
    for (int i = 0; i < n; i++) { sum += x[i]; y[i] = sum; }
    return sum;
}
"""
SUM_SPEC = """\
kernel: {source: total.c, entry: total}
problem: {n: 16}
arguments:
  - {name: n, dtype: int32, value: n}
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: output}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}
"""
LEFT = """
#include <stdexcept>
extern "C" void half(int n, const float *x, float *y) {
    for (int i = 0; i < n; i++) y[i] = x[i] / 2;
    if (x[0] < 0) throw std::runtime_error("negative");
}
"""
LEFT_SPEC = SUM_SPEC.replace("total.c, entry: total", "half.cc, entry: half")
LEAVING = """
#include <stdexcept>
extern "C" void half(int, const float *, float *);
int main() {
    float x[4] = {-1, 2, 3, 4}, y[4];
    try { half(4, x, y); } catch (const std::runtime_error &) { x[0] = 1; }
    half(4, x, y);
    x[0] = 3;
    half(4, x, y);
    return y[0] == 1.5f && x[0] == 3 ? 0 : 9;
}
"""


def program_of(folder: Path, **sources: str) -> list[str]:
    """A program that is linked with a library, each made of one source by the system's compilers."""
    made: list[str] = []
    for name, text in sources.items():
        stem, _, suffix = name.rpartition("_")
        source, output = folder / f"{stem}.{suffix}", folder / stem
        source.write_text(text)
        kind = ["-shared", "-fPIC"] if not made else ["-Wl,-rpath," + str(folder), *made]
        compiler = {"c": "cc", "cc": "c++"}[suffix]
        compiled(source, "-o", output, *kind, compiler=compiler, flags=["-w", "-O1", "-pthread"])
        made = [str(output)]
    return made


@needs.cc
def test_undeclared_return_values_reach_the_application(
    tmp_path: Path,
) -> None:
    main = """
    float total(int, const float *, float *);
    int main(void) { float x[] = {1, 2, 4}, y[3]; return total(3, x, y) == 7 ? 0 : 9; }
    """
    command = program_of(tmp_path, libtotal_c=SUM, app_c=main)
    spec = spec_in(tmp_path, "total.c", SUM, SUM_SPEC)
    assert any("returns `float`, which is not verified; write returns: float32" in n for n in spec.notices)
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "total-earlier.rec").touch()
    report = record_spec(command, spec, instances=1)
    assert report.ran.status == 0
    assert any("also takes 1 earlier recordings such as total-earlier.rec" in note for note in report.notes)
    assert any("total returns `float`" in note for note in report.notes)


def test_a_type_that_cannot_be_passed_on_is_refused_by_name(tmp_path: Path) -> None:
    text = "typedef struct { double v[4]; } Four;\n" + SUM.replace("float total", "Four total").replace(
        "return sum;", "return (Four){{sum}};"
    )
    spec = spec_in(tmp_path, "total.c", text, SUM_SPEC)
    with pytest.raises(UsageError, match="returns `Four`, which cannot be passed on"):
        record_spec(["true"], spec, instances=1)


@needs.cxx
@pytest.mark.integration
def test_calls_that_an_exception_leaves_are_refused_and_the_next_is_recorded(tmp_path: Path) -> None:
    command = program_of(tmp_path, libhalf_cc=LEFT, app_cc=LEAVING)
    spec = spec_in(tmp_path, "half.cc", LEFT, LEFT_SPEC)
    report = record_spec(command, spec, instances=4)
    assert report.ran.status == 0
    assert not report.ran.lost
    (use,) = report.ran.kernels
    assert (use.launches, use.refused) == (3, {"it was left by an exception or a jump": 1})
    assert len(report.recordings) == 2


TOGETHER = """
static volatile int there;
void both(int n, const float *x, float *y) {
    __atomic_add_fetch(&there, 1, __ATOMIC_SEQ_CST);
    while (there < 2) {}
    for (int i = 0; i < n; i++) y[i] = 2 * x[i];
}
"""
THREADS = """
#include <pthread.h>
void both(int, const float *, float *);
float x[4] = {1, 2, 3, 4}, y[2][4], z[4];
static void *run(void *y) { both(4, x, y); return 0; }
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, run, y[0]);
    run(y[1]);
    pthread_join(other, 0);
    both(4, x, z);
    return y[0][3] == 8 && y[1][3] == 8 && z[3] == 8 ? 0 : 9;
}
"""


@needs.cc
def test_calls_of_several_threads_at_once_are_refused_and_a_later_one_is_recorded(tmp_path: Path) -> None:
    command = program_of(tmp_path, libboth_c=TOGETHER, app_c=THREADS)
    spec = spec_in(
        tmp_path, "both.c", TOGETHER, LEFT_SPEC.replace("half.cc", "both.c").replace("half", "both")
    )
    report = record_spec(command, spec, instances=4)
    assert report.ran.status == 0
    (use,) = report.ran.kernels
    assert (use.launches, use.refused) == (3, {"calls of several threads at once": 2})
    assert len(report.recordings) == 1


def test_an_extent_that_no_number_holds_is_refused(
    record: Callable[..., RecordReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "KERNEL", KERNEL.replace("i < n;", "i < n && i < 64;"))
    # 2 ** 64 elements and 64 more, which are 64 where a product wraps.
    wide = SPEC.replace("shape: [n], role", 'shape: ["n * n * n * n + 64"], role').replace("[n]}", "[64]}")
    with pytest.raises(UsageError, match="an extent of the spec is no size here"):
        record("axpy(1 << 16, 0, x, y);", spec=wide)


def test_a_function_that_makes_another_process_is_recorded_in_the_first(
    record: Callable[..., RecordReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    forks = KERNEL.replace("{\n    for", "{\n    int fork(void);\n    fork();\n    for", 1)
    monkeypatch.setitem(globals(), "KERNEL", forks)
    report = record("int wait(int *); axpy(64, 2, x, y); while (wait(0) > 0);")
    (use,) = report.ran.kernels
    assert use.refused == {"it goes on in another process": 1}
    (path,) = report.recordings
    with RecordingFile(path) as file:
        assert np.frombuffer(file.after(3), "f4").tolist() == [2.0 * i for i in range(64)]
