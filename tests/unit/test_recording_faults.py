"""What other recorders and replayers are known to get wrong, and what breaks while one records: each gives the right
result or a clear refusal here.

``docs/decisions/faults-of-recorders.md`` lists them all with the tests that stand in other files.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cuda_applications as shop
import needs
import numpy as np
import pytest
from applications import AXPY, AXPY_SPEC, with_library
from opencl_machine import system_drivers
from spec_files import spec_in

from tuner.api import tune_spec
from tuner.core.errors import FullDiskError, SpecError, UsageError
from tuner.core.types import Build, BuildRequest, Resolved, Source, Status
from tuner.driver.applications.recording import RecordReport, record_kernel, record_spec
from tuner.driver.options import Options
from tuner.evaluators.cuda.backend import CudaEvaluation
from tuner.evaluators.cuda.device import DeviceWorker
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.load import load_spec

stand_in, KERNEL, LAUNCH = shop.stand_in, shop.KERNEL, shop.LAUNCH
PASS = re.compile(r"[a-z][a-z0-9-]+")

# ---- candidates on recorded CUDA launches ----


class Bench:
    """Candidates on one recorded launch, over the stand-in for the driver."""

    def __init__(self, folder: Path) -> None:
        applications = shop.Applications(folder)
        report = record_kernel(applications.command(LAUNCH), "axpy", folder / "out", instances=1)
        self.spec = report.specs[0]
        (loaded,) = load_spec(self.spec)
        self.task = loaded.task
        self.backend = stand_in.StandInBackend(folder)
        self.evaluation: CudaEvaluation = self.backend.prepare(loaded.task, workers=1)
        self.resolved: Resolved = loaded.space(None).resolve(loaded.space(None).default())
        self.baseline = self.build(KERNEL)
        known = self.evaluation.set_baseline(self.baseline, self.resolved)
        assert known.status is Status.OK, known.message

    def build(self, text: str) -> Build:
        """A candidate of this text."""
        variant = self.task.kernel.variant
        changed = replace(variant, files=(Source(name=variant.files[0].name, text=text),))
        request = BuildRequest(trial=1, variant=changed, resolved=self.resolved)
        (build,) = self.evaluation.build([request])
        assert build.status is Status.OK, build.message
        return build

    def judge(self, text: str) -> tuple[Status, str]:
        """What the verification says of a candidate."""
        session = self.evaluation.open(self.build(text), self.resolved, purpose="search", number=1)
        try:
            verdict = session.verify()
            return verdict.status, verdict.message
        finally:
            session.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """With the recorded kernel as its baseline."""
    made = Bench(tmp_path_factory.mktemp("bench"))
    try:
        yield made
    finally:
        made.evaluation.close()


@needs.cc
@pytest.mark.parametrize("value", ["0.0f / 0.0f", "1e30f * 1e30f"])
@pytest.mark.integration
def test_a_value_that_is_not_finite_does_not_pass_for_a_small_error(bench: Bench, value: str) -> None:
    status, message = bench.judge(KERNEL.replace("    return 0;", f"    z[n - 1] = {value};\n    return 0;"))
    assert status is Status.WRONG_RESULT, message


@needs.cc
@pytest.mark.integration
def test_timed_code_is_the_verified_code(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    build = bench.build(KERNEL.replace("a * x[i] + y[i]", "y[i] + x[i] * a"))
    monkeypatch.setattr(stand_in, "CC", "there-is-no-such-compiler")
    loads: list[bytes] = []
    ask = DeviceWorker.ask

    def watched(worker: DeviceWorker, header: dict[str, Any], *given: Any, **named: Any) -> Any:
        if header["op"] == "load":
            loads.extend(given[0])
        return ask(worker, header, *given, **named)

    monkeypatch.setattr(DeviceWorker, "ask", watched)
    # Beside other work a clock may not be believed; the next session begins anew.
    for number in range(3, 8):
        loads.clear()
        session = bench.evaluation.open(build, bench.resolved, purpose="confirm", number=number)
        try:
            assert session.verify().status is Status.OK
            measured = session.measure(problem=0, calls=8)
        finally:
            session.close()
        if measured.status is Status.OK or "cannot be believed" not in measured.message:
            break
    assert measured.status is Status.OK, measured.message
    # The other processes give what is expected of inputs that the search never saw.
    assert [one == build.code for one in loads].count(True) == 1
    assert {one for one in loads if one != build.code} <= {bench.baseline.code}


@needs.cc
@pytest.mark.integration
def test_buffers_are_filled_again_on_the_device_and_not_from_the_host(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()
    ask = DeviceWorker.ask

    def watched(worker: DeviceWorker, header: dict[str, Any], *given: Any, **named: Any) -> Any:
        asked[header["op"]] += 1
        return ask(worker, header, *given, **named)

    build = bench.build(KERNEL)
    session = bench.evaluation.open(build, bench.resolved, purpose="search", number=4)
    try:
        assert session.verify().status is Status.OK
        monkeypatch.setattr(DeviceWorker, "ask", watched)
        copies = []
        for calls in (8, 64):
            asked.clear()
            # y is written to, so a call on what the last one left would be found.
            assert session.measure(problem=0, calls=calls).status is Status.OK
            copies.append(asked["place"])
    finally:
        session.close()
    assert copies[1] <= max(copies[0], 8)


@needs.cc
@pytest.mark.integration
def test_a_hung_kernel_costs_one_candidate_and_no_worker(bench: Bench) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # What is waited for in vain ends sooner.
        patch.setattr("tuner.evaluators.cuda.session._LEAST_LIMIT_S", 0.5)
        hung = "{ extern int pause(void); for (;;) pause(); }"
        status, message = bench.judge(KERNEL.replace("work_us(500);", hung))
    assert status is Status.TIMED_OUT, message
    status, message = bench.judge(KERNEL)
    assert status is Status.OK, message


@pytest.mark.integration
@needs.cc
def test_a_candidate_that_failed_has_no_score(tmp_path: Path) -> None:
    kernel = KERNEL.replace("    return 0;", "    z[0] += WRONG;\n    return 0;")
    kernel = "#ifndef WRONG\n#define WRONG 0\n#endif\n" + kernel
    command = shop.Applications(tmp_path).command(LAUNCH, kernel)
    spec = record_kernel(command, "axpy", tmp_path / "out", instances=1).specs[0]
    text = spec.read_text().split("space:")[0]
    spec.write_text(
        text
        + "space: {parameters: {WRONG: [0, 1]}, passes: off}\nverify: {reference: recording}\n"
        + "search: {strategy: exhaustive, budget: {evaluations: 2}}\n"
    )
    (loaded,) = load_spec(spec)
    result = tune_spec(
        loaded, Options(library=None), out=tmp_path / "runs", backend=stand_in.StandInBackend(tmp_path)
    )
    trials = {row["trial"]: row for row in result.trials.to_dict("records")}
    assert trials[1]["status"] == "wrong_result"
    assert all(trials[1][name] is None or math.isnan(trials[1][name]) for name in ("speedup", "time_s"))
    assert not result.to_json()["improved"]


def test_random_pipelines_reach_the_catalogue_and_are_not_empty(tmp_path: Path) -> None:
    loaded = spec_in(tmp_path, "axpy.c", AXPY, AXPY_SPEC.replace("passes: off", "passes: {}"))
    passes = loaded.space(HostBackend().pass_catalogue()).passes
    assert passes is not None
    rng = np.random.default_rng(3)
    drawn = [passes.random(rng) for _ in range(500)]
    assert not [text for text in drawn if text in ("", passes.base)]
    assert len(set(drawn)) > 450
    assert len({name for text in drawn for name in PASS.findall(text)}) > 100


# ---- what breaks while a C function is recorded ----

CALLS = """
#include <sys/resource.h>
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
void axpy(int, float, const float *, float *);
static float x[1 << 16], y[1 << 16];
int main(int count, char **words) { for (int i = 0; i < 64; i++) x[i] = i; BODY return 0; }
"""
RecordCalls = Callable[..., RecordReport]


@pytest.fixture
def record_calls(tmp_path: Path) -> RecordCalls:
    """Records calls of an application whose function is in a library."""

    def run(body: str, function: str = AXPY, before: str = "") -> RecordReport:
        (tmp_path / "axpy.c").write_text(AXPY)
        (tmp_path / "own.c").write_text(function)
        (tmp_path / "axpy.yaml").write_text(AXPY_SPEC)
        (tmp_path / "main.c").write_text(before + CALLS.replace("BODY", body))
        (loaded,) = load_spec(tmp_path / "axpy.yaml")
        return record_spec(with_library(tmp_path, "own.c"), loaded, instances=2)

    return run


def test_an_array_that_is_read_and_written_is_recorded_before_the_call(record_calls: RecordCalls) -> None:
    report = record_calls("for (int i = 0; i < 64; i++) y[i] = 5; axpy(64, 2, x, y);")
    with RecordingFile(report.recordings[0]) as file:
        before, after = np.frombuffer(file.before(3), "f4"), np.frombuffer(file.after(3), "f4")
    np.testing.assert_array_equal(before, 5)
    np.testing.assert_array_equal(after, 5 + 2 * np.arange(64))


@pytest.mark.integration
def test_nan_and_infinity_come_out_of_the_replay_of_a_function(
    record_calls: RecordCalls, tmp_path: Path
) -> None:
    record_calls("y[3] = 0.0f / 0.0f; y[4] = 1 / 0.0f; axpy(64, 2, x, y);")
    (tmp_path / "recorded.yaml").write_text(
        AXPY_SPEC + "workload: recordings/*.rec\nverify: {reference: recording}\n"
    )
    (loaded,) = load_spec(tmp_path / "recorded.yaml")
    found = {}
    for name, text in (
        ("same", AXPY),
        ("zero", AXPY.replace("+ y[i];", "+ (y[i] == y[i] ? y[i] : 0);")),
    ):
        evaluation = HostBackend().prepare(loaded.task, workers=1)
        try:
            resolved = loaded.space(None).resolve(loaded.space(None).default())
            own = replace(loaded.task.kernel.variant, files=(Source(name="axpy.c", text=text),))
            (build,) = evaluation.build([BuildRequest(trial=0, variant=own, resolved=resolved)])
            found[name] = evaluation.set_baseline(build, resolved).status
        finally:
            evaluation.close()
    assert found == {"same": Status.OK, "zero": Status.WRONG_RESULT}


def test_a_crash_in_the_middle_of_a_recorded_call_leaves_no_recording(
    record_calls: RecordCalls, tmp_path: Path
) -> None:
    crashing = AXPY.replace("{\n", "{ __builtin_trap();\n", 1)
    with pytest.raises(UsageError, match="ended in the launch that was being recorded"):
        record_calls("axpy(64, 2, x, y);", crashing)
    assert not [p for p in (tmp_path / "recordings").rglob("*") if p.is_file()]


JUMPS = """
    for (int ticks = 0; ticks < 200;) {
        if (!sigsetjmp(back, 1)) {
            setitimer(ITIMER_REAL, &(struct itimerval){{0, 300}, {0, 300}}, 0);
            for (;;) axpy(1 << 16, 2, x, y);
        }
        ticks++;
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, 0);
    axpy(64, 2, x, y);
"""


def test_a_signal_that_jumps_out_of_calls_wherever_they_are_stops_no_later_recording(
    record_calls: RecordCalls,
) -> None:
    handler = "#include <setjmp.h>\n#include <sys/time.h>\nsigjmp_buf back; void out(int n) { siglongjmp(back, 1); }"
    report = record_calls(f"signal(SIGALRM, out); {JUMPS}", before=handler)
    assert report.ran.status == 0
    recorded = []
    for path in report.recordings:
        with RecordingFile(path) as file:
            recorded.append(int.from_bytes(file.recording.arguments[0].value, "little"))
    assert 64 in recorded
    (use,) = report.ran.kernels
    assert "it was left by an exception or a jump" in use.refused


def test_a_full_disk_loses_the_recorded_call_and_not_the_application(
    record_calls: RecordCalls, tmp_path: Path
) -> None:
    limit = "struct rlimit most = {9000, -1}; signal(SIGXFSZ, SIG_IGN); setrlimit(RLIMIT_FSIZE, &most);"
    # It is tried once: each try takes as long as one that succeeds.
    again = "most.rlim_cur = -1; setrlimit(RLIMIT_FSIZE, &most); axpy(4, 0, x, y);"
    done = f'if (y[3] != 6) abort(); fclose(fopen("{tmp_path}/done", "w"));'
    with pytest.raises(
        FullDiskError, match=r"the recording cannot be written in \S*recordings, as on a full disk"
    ):
        record_calls(f"{limit} axpy(1 << 16, 2, x, y); {again} {done}")
    assert (tmp_path / "done").exists()
    assert not list(tmp_path.rglob("*.rec"))


# ---- what breaks while a recording is written or read ----

WRITES = """
import resource, signal, sys
from pathlib import Path
from tuner.core.errors import MachineError
from tuner.recorders.recordings.format import Captured, RecordedArgument, Recording, write_recording
import os
import re
data = memoryview(os.urandom(1 << 20))
one = RecordedArgument(kind="buffer", size_bytes=len(data), root=0)
recording = Recording(api="opencl", entry="k", arguments=(one,), form="source", text="", global_size=(1,), offset=(0,))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
try:
    write_recording(Path(sys.argv[1]), recording, {0: Captured(before=data, after=data)})
except MachineError as error:
    print(error)
"""


def test_a_disk_that_is_full_when_the_recording_is_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "k.rec"
    path.write_bytes(b"an older one")
    done = subprocess.run(
        [sys.executable, "-c", WRITES, str(path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert "cannot be written" in done.stdout, done.stderr
    assert path.read_bytes() == b"an older one"
    assert os.listdir(tmp_path) == ["k.rec"]


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_nothing_is_tuned_on_a_damaged_recording(
    record_calls: RecordCalls, tmp_path: Path, damage: str
) -> None:
    (path,) = record_calls("axpy(64, 2, x, y);").recordings
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    else:
        data[-100] ^= 4
    path.write_bytes(bytes(data))
    (tmp_path / "recorded.yaml").write_text(
        AXPY_SPEC + "workload: recordings/*.rec\nverify: {reference: recording}\n"
    )
    with pytest.raises(SpecError, match=path.name):
        load_spec(tmp_path / "recorded.yaml")


# ---- OpenCL ----

CRASHING = """
import numpy as np
import pyopencl as cl

devices = [d for p in cl.get_platforms() for d in p.get_devices() if "Portable" in p.name]
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
text = "__kernel void bad(__global int *x, ulong at) { *(__global int *)at = 1; x[get_global_id(0)] = 2; }"
kernel = cl.Kernel(cl.Program(context, text).build(cache_dir=False), "bad")
x = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.zeros(8, np.int32))
kernel.set_args(x, np.uint64(8))
cl.enqueue_nd_range_kernel(queue, kernel, (8,), (8,))
queue.finish()
"""


@needs.pocl
def test_a_kernel_that_crashes_the_application_leaves_no_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system_drivers(monkeypatch)
    (tmp_path / "crashing.py").write_text(CRASHING)
    with pytest.raises(UsageError, match="ended in the launch that was being recorded"):
        record_kernel([sys.executable, str(tmp_path / "crashing.py")], "bad", tmp_path / "out", instances=1)
    assert not list((tmp_path / "out").rglob("*.rec"))
    assert not list((tmp_path / "out").rglob("*.part"))
