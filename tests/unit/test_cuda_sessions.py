"""Device workers and sessions over a stand-in for the driver: real processes, real buffers, no GPU.

The stand-in (``tests/stand_ins/cuda_driver.c``) calls kernels on the host; ``tests/gpu`` has the same on a card.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cuda_stand_in as stand_in
import needs
import pytest

from tuner.core.canonical import canonical_json
from tuner.core.errors import MachineError, SpecError, UsageError
from tuner.core.types import Build, BuildRequest, Reference, Resolved, Source, Status, Task, Variant
from tuner.evaluators.cuda.backend import CudaBackend, CudaEvaluation
from tuner.evaluators.cuda.device import Device, DeviceWorker, WorkerPool, describe_device
from tuner.evaluators.cuda.loaded import Loaded
from tuner.evaluators.cuda.slabs import Slab
from tuner.evaluators.host.runner import CandidateFailed
from tuner.evaluators.workloads import make_workload

HEAD, GOOD, RESOLVED = stand_in.HEAD, stand_in.GOOD, stand_in.RESOLVED
make_task, compile_shared = stand_in.make_task, stand_in.compile_shared
pytestmark = needs.cc


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For what is compiled."""
    return tmp_path_factory.mktemp("cuda")


@pytest.fixture(scope="module")
def driver(folder: Path) -> str:
    """Path of the stand-in."""
    return str(stand_in.timed_driver(folder)[0])


class Bench:
    """An evaluation over the stand-in with its baseline set."""

    def __init__(self, driver: str, folder: Path, task: Task) -> None:
        compiler: Any = stand_in.HostCompiled(folder)
        self.pool = WorkerPool(driver)
        self.clock = stand_in.NotedClock(folder / "clocks")
        runs = stand_in.device_runs(task, compiler, driver, self.clock, pool=self.pool)
        self.evaluation = CudaEvaluation(task, compiler=compiler, runs=runs)
        (self.baseline,) = self.build(task.kernel.variant.files[0].text)
        self.report = self.evaluation.set_baseline(self.baseline, RESOLVED)

    def build(self, *texts: str) -> list[Build]:
        """Candidates of these texts."""
        return self.evaluation.build(
            [
                BuildRequest(
                    trial=i, variant=Variant(files=(Source(name="axpy.cu", text=t),)), resolved=RESOLVED
                )
                for i, t in enumerate(texts)
            ]
        )

    def verdict(self, text: str, *, purpose: str = "search") -> tuple[Status, str]:
        """What the verification says of a text."""
        (build,) = self.build(text)
        session = self.evaluation.open(build, RESOLVED, purpose=purpose, number=0)
        try:
            verdict = session.verify()
            return verdict.status, verdict.message
        finally:
            session.close()


@pytest.fixture(scope="module")
def bench(driver: str, folder: Path) -> Iterator[Bench]:
    """With the good kernel."""
    made = Bench(driver, folder, make_task())
    try:
        yield made
    finally:
        made.evaluation.close()
        made.evaluation.close()


def test_the_device_is_described(driver: str) -> None:
    device = describe_device(driver)
    assert (device.name, device.arch, device.l2_bytes) == ("stand-in", "sm_90", 4 << 20)
    assert device.uuid == "GPU-07070707-0707-0707-0707-070707070707"
    assert device.limits.shared_block_bytes == 227 << 10
    assert device.limits.warps == 64


def test_no_driver_is_one_line_with_a_cure() -> None:
    with pytest.raises(MachineError, match="no NVIDIA driver") as raised:
        describe_device("libcuda-that-is-not-there.so.1")
    assert "sm_90" in raised.value.hint


def test_the_baseline_has_a_reference_in_double(bench: Bench) -> None:
    assert bench.report.status is Status.OK, bench.report.message
    assert bench.report.reference == "float64"
    assert 0 < bench.report.own_error["z"] < 1e-5
    assert all(s > 0 for s in bench.report.call_s)
    assert bench.report.notes["fallbacks"] == {}
    assert canonical_json(dict(bench.report.notes))


@pytest.mark.integration
def test_a_reference_that_is_never_finite_is_no_reference(driver: str, folder: Path, tmp_path: Path) -> None:
    """As on the other backends: whatever a candidate gave would pass."""
    (tmp_path / "ref.py").write_text(
        "def ref(x, **more):\n    return {'y': x * float('nan'), 'z': x * float('nan')}\n"
    )
    task = make_task()
    verify = replace(task.verify, reference=Reference(kind="python", file="ref.py", function="ref"))
    kernel = replace(task.kernel, folder=str(tmp_path))
    made = Bench(driver, folder, replace(task, verify=verify, kernel=kernel))
    made.evaluation.close()
    assert made.report.status is Status.WRONG_RESULT
    assert made.report.message.startswith("nothing is compared: what is expected has no finite element")


@pytest.mark.parametrize("purpose", ["search", "confirm"])
def test_a_right_candidate_is_verified_and_timed(bench: Bench, purpose: str) -> None:
    (build,) = bench.build(GOOD.replace("a * x[i] + y[i]", "y[i] + x[i] * a"))
    session = bench.evaluation.open(build, RESOLVED, purpose=purpose, number=2)
    try:
        verdict = session.verify()
        assert verdict.status is Status.OK, verdict.message
        assert session.verify() is verdict
        for problem in (0, 1, 0):
            measurement = session.measure(problem=problem, calls=70)
            assert measurement.status is Status.OK, measurement.message
            assert len(measurement.times_s) >= 70
            assert min(measurement.times_s) > 0
            assert measurement.claimed_s <= measurement.wall_s
            assert canonical_json(dict(measurement.notes))
    finally:
        session.close()
        session.close()


def test_the_search_uses_a_sound_worker_again_and_confirming_never(bench: Bench) -> None:
    bench.verdict(GOOD)
    before = bench.pool.started
    assert bench.verdict(GOOD)[0] is Status.OK
    assert bench.pool.started == before
    assert bench.verdict(GOOD, purpose="confirm")[0] is Status.OK
    assert bench.pool.started == before + 1


LOOP = "for (int i = 0; i < n; i++) { z[i] = a * x[i] + y[i]; y[i] = 2 * z[i]; }"
FAULTS = {
    "wrong value": (LOOP.replace("a * x[i]", "x[i]"), "expected"),
    "last element missing": (LOOP.replace("i < n", "i < n - 1"), "expected"),
    "nothing at all": ("", "expected"),
    "past the end": (LOOP + "z[n] = 1;", "out of bounds: writes byte 1 past the end of z"),
    "before the start": (LOOP + "y[-1] = 1;", "before the start of y"),
    "an input": (LOOP + "((float *)x)[7] = 3;", "writes to input x"),
    "read past the end": (
        "for (int i = 0; i < n; i++) { z[i] = a * x[i + 1] + y[i]; y[i] = 2 * z[i]; }",
        "expected",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_candidate_is_seen(bench: Bench, fault: str) -> None:
    body, says = FAULTS[fault]
    status, message = bench.verdict(f"{HEAD}{body} return 0; }}")
    assert status is Status.WRONG_RESULT, message
    assert says in message
    assert "\n" not in message


def test_a_sticky_error_costs_one_worker(bench: Bench) -> None:
    started = bench.pool.started
    status, message = bench.verdict(f"{HEAD}{LOOP} return 700; }}")
    assert status is Status.CRASHED
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in message
    assert bench.verdict(GOOD)[0] is Status.OK
    assert bench.pool.started <= started + 2


def test_a_worker_that_dies_is_the_machines_fault(bench: Bench) -> None:
    status, message = bench.verdict(f"{HEAD} __builtin_trap(); return 0; }}")
    assert status is Status.LOST, message
    assert bench.verdict(GOOD)[0] is Status.OK


def test_a_fault_in_a_timed_call_is_seen(bench: Bench) -> None:
    calls = f"static int calls; {HEAD}{LOOP} if (++calls > 40) z[3] = 0; return 0; }}"
    (build,) = bench.build(calls)
    session = bench.evaluation.open(build, RESOLVED, purpose="search", number=0)
    try:
        assert session.verify().status is Status.OK
        measurement = session.measure(problem=0, calls=60)
        assert measurement.status is Status.WRONG_RESULT
        assert "z[3]" in measurement.message
        assert session.measure(problem=0, calls=1).status is Status.WRONG_RESULT
    finally:
        session.close()


def test_a_clock_that_says_less_is_not_believed(bench: Bench) -> None:
    (build,) = bench.build(f"double clock_scale = 0.2; {HEAD}{LOOP} return 0; }}")
    session = bench.evaluation.open(build, RESOLVED, purpose="search", number=0)
    try:
        assert session.verify().status is Status.OK
        measurement = session.measure(problem=0, calls=5)
        assert measurement.status is Status.REFUSED
        assert "events say 300.1 us a call" in measurement.message
    finally:
        session.close()


@pytest.mark.parametrize("waited", [True, False])
def test_time_beside_the_device_counts_unless_the_kernel_says_that_both_had_to_wait(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, waited: bool
) -> None:
    late_s = 1.0
    (build,) = bench.build(f"{HEAD}{LOOP} return 0; }} /* {waited} */")
    session = bench.evaluation.open(build, RESOLVED, purpose="search", number=0)
    honest, burst = Loaded.burst, []

    def with_calls_late(loaded: Loaded, *arguments: Any, calls: bool, **more: Any) -> float:
        burst.append(calls)
        # Beside the calls alone: in what stands before them as well it would be taken off.
        monkeypatch.setattr(bench.clock, "late_s", late_s if calls else 0.0)
        monkeypatch.setattr(bench.clock, "waited", late_s if calls and waited else 0.0)
        return honest(loaded, *arguments, calls=calls, **more)

    monkeypatch.setattr(Loaded, "burst", with_calls_late)
    try:
        assert session.verify().status is Status.OK
        measurement = session.measure(problem=0, calls=5)
    finally:
        session.close()
    assert {*burst} == {True, False}
    assert measurement.status is (Status.OK if waited else Status.REFUSED), measurement.message


def test_calls_without_pause_are_no_more_than_there_is_time_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all the time was spent in waiting for processors: thousands of calls would take minutes."""
    (build,) = bench.build(f"double clock_scale = 1e-6; {HEAD}{LOOP} return 0; }} /* waits */")
    session = bench.evaluation.open(build, RESOLVED, purpose="search", number=0)
    monkeypatch.setattr(bench.clock, "waited", 1.0)
    honest, counts = Loaded.burst, []

    def burst(loaded: Loaded, order: list[int], *arguments: Any, **more: Any) -> float:
        counts.append(len(order))
        return honest(loaded, order, *arguments, **more)

    monkeypatch.setattr(Loaded, "burst", burst)
    try:
        assert session.verify().status is Status.OK
        session.measure(problem=0, calls=5)
    finally:
        session.close()
    # A call takes 1.5 ms.
    assert 100 < max(counts) < 200


def test_a_clock_that_says_more_than_passed_is_not_believed(bench: Bench) -> None:
    (build,) = bench.build(f"double clock_scale = 1e6; {HEAD}{LOOP} return 0; }}")
    session = bench.evaluation.open(build, RESOLVED, purpose="search", number=0)
    try:
        assert session.verify().status is Status.OK
        assert session.measure(problem=0, calls=5).status is Status.REFUSED
    finally:
        session.close()


def test_a_call_that_hangs_is_ended(driver: str, folder: Path) -> None:
    worker = DeviceWorker(driver)
    code = Path(compile_shared(folder / "hang.so", f"{HEAD} for (;;); return 0; }}")).read_bytes()
    worker.ask({"op": "open"})
    worker.ask({"op": "load", "symbol": "axpy", "shared_bytes": 0, "variables": []}, [code])
    task = make_task()
    slab = Slab(task, make_workload(task, task.problems[1], {}, seed=1))
    slab.fill()
    place = {"op": "place", "set": 0, "size": slab.size, "parameters": slab.parameters({}), "variables": []}
    worker.ask({**place, "restore": [], "poison": [], "touch": []}, handle=slab.descriptor)
    run = {"op": "run", "set": 0, "grid": [1, 1, 1], "block": [1, 1, 1], "shared_bytes": 0}
    with pytest.raises(CandidateFailed) as raised:
        worker.ask(run, timeout_s=0.3)
    assert raised.value.status is Status.TIMED_OUT
    assert not worker.alive
    worker.close()
    slab.close()


def test_cold_calls(driver: str, folder: Path) -> None:
    made = Bench(driver, folder, make_task(cache="cold"))
    session = made.evaluation.open(made.baseline, RESOLVED, purpose="search", number=0)
    try:
        assert session.verify().status is Status.OK
        assert session.measure(problem=1, calls=3).status is Status.OK
    finally:
        session.close()
        made.evaluation.close()


def test_a_baseline_that_writes_out_of_bounds_is_none(driver: str, folder: Path) -> None:
    made = Bench(driver, folder, make_task(f"{HEAD}{LOOP} z[n] = 1; return 0; }}"))
    made.evaluation.close()
    assert made.report.status is Status.WRONG_RESULT
    assert "past the end of z" in made.report.message


def test_a_launch_over_the_limit_is_out_of_resources(driver: str, folder: Path) -> None:
    made = Bench(driver, folder, make_task(shared="BLOCK * 1024"))
    try:
        big = Resolved(macros={"BLOCK": 512}, scalars={}, flags=(), pipeline=None)
        session = made.evaluation.open(made.baseline, big, purpose="search", number=0)
        verdict = session.verify()
        session.close()
        assert verdict.status is Status.OUT_OF_RESOURCES
        assert "524288 bytes of shared memory" in verdict.message
    finally:
        made.evaluation.close()


def test_code_that_the_driver_does_not_take_is_the_machines_matter(driver: str) -> None:
    worker = DeviceWorker(driver)
    worker.ask({"op": "open"})
    with pytest.raises(MachineError, match="does not take NVRTC's code") as raised:
        worker.ask({"op": "load", "symbol": "axpy", "shared_bytes": 0, "variables": []}, [b"no cubin at all"])
    worker.close()
    assert "newer driver" in raised.value.hint


def test_misuse_is_said(bench: Bench) -> None:
    session = bench.evaluation.open(bench.baseline, RESOLVED, purpose="search", number=0)
    with pytest.raises(UsageError, match="after it was verified"):
        session.measure(problem=0, calls=1)
    with pytest.raises(UsageError, match="unknown purpose"):
        bench.evaluation.open(bench.baseline, RESOLVED, purpose="fun", number=0)
    session.close()
    with pytest.raises(UsageError, match="closed"):
        session.verify()


@needs.nvrtc
def test_another_architecture_than_the_devices_is_refused(driver: str) -> None:
    task = make_task()
    with pytest.raises(SpecError, match="sm_80 is not this machine's stand-in"):
        CudaBackend(driver=driver).prepare(replace(task, target="sm_80"), workers=1)


def test_a_device_has_plain_facts(driver: str) -> None:
    device: Device = describe_device(driver)
    assert canonical_json(dict(device.facts))


def test_a_device_that_falls_off_is_the_machines_fault(driver: str, folder: Path, tmp_path: Path) -> None:
    """The launch that meets it is lost, and no other candidate is blamed for a device that is not there."""
    own = shutil.copy(driver, tmp_path / "libcuda.so")
    made = Bench(str(own), folder, make_task())
    try:
        gone = 46  # CUDA_ERROR_DEVICE_UNAVAILABLE
        status, message = made.verdict(f"{HEAD}{LOOP} return {gone}; }}")
        assert status is Status.LOST, message
        Path(own).unlink()
        (build,) = made.build(GOOD)
        with pytest.raises(MachineError, match=r"no NVIDIA driver|cannot be opened"):
            made.evaluation.open(build, RESOLVED, purpose="confirm", number=0).verify()
    finally:
        made.evaluation.close()
