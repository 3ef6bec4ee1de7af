"""Buffers of which few fit into memory: one set is verified and timed. What counts as large is made small here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from applications import with_library

from tuner.core.arrays import sparse_copy, zeros
from tuner.core.protocols import BaselineReport
from tuner.core.types import Build, BuildRequest, Source, Status, Variant
from tuner.driver.applications.recording import record_spec
from tuner.evaluators.host import bundles, supply
from tuner.evaluators.host.backend import HostBackend
from tuner.spec.load import LoadedSpec, load_spec

N = 100_003
KERNEL = """
void mark(unsigned char *x, long n, int by) {
    for (long i = 0; i < n; i += 4096) x[i] += by;
    x[n - 1] += by;
}
"""
SPEC = """\
kernel: {source: mark.c, entry: mark}
problem: {n: 4097}
arguments:
  - {name: x, dtype: uint8, shape: [n], role: inout, init: {randint: [0, 100]}}
  - {name: n, dtype: int64, value: n}
  - {name: by, dtype: int32, value: 3}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}
"""
APPLICATION = f"""
void mark(unsigned char *, long, int);
static unsigned char x[{N}];
int main(void) {{ x[{N} - 1] = 5; mark(x, {N}, 3); return 0; }}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> LoadedSpec:
    """A spec on one recorded call."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "mark.c").write_text(KERNEL)
    (folder / "mark.yaml").write_text(SPEC)
    (folder / "main.c").write_text(APPLICATION)
    command = with_library(folder, "mark.c")
    (spec,) = load_spec(folder / "mark.yaml")
    record_spec(command, spec, instances=1)
    path = folder / "recorded.yaml"
    path.write_text(SPEC + "workload: recordings/*.rec\nverify: {reference: recording}\n")
    (loaded,) = load_spec(path)
    return loaded


class Bench:
    """The recorded call with its baseline set."""

    def __init__(self, spec: LoadedSpec) -> None:
        self.spec = spec
        self.evaluation = HostBackend().prepare(spec.task, workers=1)
        space = spec.space(None)
        self.resolved = space.resolve(space.default())
        self.base = self.build(KERNEL)
        self.report: BaselineReport = self.evaluation.set_baseline(self.base, self.resolved)

    def build(self, text: str) -> Build:
        variant = Variant(files=(Source(name="mark.c", text=text),))
        (made,) = self.evaluation.build([BuildRequest(trial=1, variant=variant, resolved=self.resolved)])
        return made

    def run(self, build: Build, purpose: str) -> tuple[Any, Any]:
        """What verification and timing say."""
        session = self.evaluation.open(build, self.resolved, purpose=purpose, number=3)
        try:
            verdict = session.verify()
            measured = session.measure(problem=0, calls=3) if verdict.status is Status.OK else None
            return verdict, measured
        finally:
            session.close()


@pytest.fixture
def bench(recorded: LoadedSpec, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """With a limit under which the call's buffers do not stay."""
    monkeypatch.setattr(bundles, "LARGE_BYTES", N // 2)
    monkeypatch.setattr(supply, "LARGE_BYTES", N // 2)
    made = Bench(recorded)
    yield made
    made.evaluation.close()


@pytest.mark.parametrize("purpose", ["search", "confirm"])
def test_one_set_is_verified_and_timed(bench: Bench, purpose: str) -> None:
    assert bench.report.status is Status.OK, bench.report.message
    (warning,) = [w for w in bench.report.notes["warnings"] if "one set of inputs" in w]
    assert "would not be found out" in warning
    assert len(bench.report.notes["workloads"]) == 1
    verdict, measured = bench.run(bench.base, purpose)
    assert verdict.status is Status.OK, verdict.message
    assert measured.status is Status.OK, measured.message
    assert measured.notes["sets"] == 1
    assert "fresh_ratio" not in measured.notes


@pytest.mark.parametrize("wrong", ["x[n - 1] += by;", "i += 4096"])
def test_wrong_first_and_last_bytes_are_found(bench: Bench, wrong: str) -> None:
    text = KERNEL.replace(wrong, "i += 8192" if wrong == "i += 4096" else "")
    verdict, _ = bench.run(bench.build(text), "search")
    assert verdict.status is Status.WRONG_RESULT


def test_a_call_that_is_wrong_from_the_second_time_on_is_found_while_it_is_timed(bench: Bench) -> None:
    text = KERNEL.replace("x[n - 1] += by;", "static int calls; if (!calls++) x[n - 1] += by;")
    _, measured = bench.run(bench.build(text), "search")
    assert measured.status is Status.WRONG_RESULT


def test_usual_sizes_are_timed_on_several_sets(recorded: LoadedSpec) -> None:
    bench = Bench(recorded)
    try:
        _, measured = bench.run(bench.base, "search")
        assert measured.notes["sets"] > 1
        assert not [w for w in bench.report.notes["warnings"] if "one set of inputs" in w]
    finally:
        bench.evaluation.close()


def test_a_copy_of_what_is_mostly_zero_takes_memory_for_the_rest() -> None:
    given = zeros((200 << 20,), np.dtype(np.uint8))
    given[:: 16 << 20] = 7
    given[-1] = 9
    before = _resident_kb()
    made = sparse_copy(given)
    assert _resident_kb() - before < 32 << 10
    assert (int(made[0]), int(made[1]), int(made[16 << 20]), int(made[-1])) == (7, 0, 7, 9)
    odd = np.arange(70_001, dtype=np.float32).reshape(1, -1)[:, ::3]
    np.testing.assert_array_equal(sparse_copy(odd), odd)


def _resident_kb() -> int:
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
