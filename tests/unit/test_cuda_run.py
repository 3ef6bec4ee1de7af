"""Whole runs of CUDA specs: over a stand-in for the driver, and refused where there is no device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cuda_stand_in as stand_in
import needs
import pytest
from spec_files import spec_in

from tuner.core.errors import MachineError
from tuner.core.types import Status
from tuner.driver.check import check_spec
from tuner.driver.options import Options
from tuner.driver.outcome.export import export
from tuner.driver.runs import begin
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

SPEC = """\
kernel: {source: axpy.cu, entry: axpy}
target: sm_90
problem: {n: 20000}
arguments:
  - {name: a, dtype: float32, value: 0.5}
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: inout}
  - {name: z, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
launch: {grid: ["ceil(n / 64)"], block: [64]}
space:
  parameters: {WORK: [9, 1, 0]}
search: {strategy: random, budget: {evaluations: 3}}
"""
SLOW = "work_us(WORK * 100); if (WORK == 0) return 700;"
# At work as the device is, without this host's processor.

DESIGN = """\
kernel: {source: conv.cu, entry: "conv<float, TILE>"}
target: sm_90
problem: {n: 96}
arguments:
  - {name: in, dtype: float32, shape: [n, n], init: normal}
  - {name: out, dtype: float32, shape: [n, n], role: output}
  - {name: n, dtype: int32, value: n}
launch:
  grid: ["ceil(n / BLOCK_X)", "ceil(n / (BLOCK_Y * TILE))"]
  block: [BLOCK_X, BLOCK_Y]
  shared_bytes: "4 * BLOCK_X * BLOCK_Y * TILE"
space:
  parameters: {BLOCK_X: [16, 32, 64], BLOCK_Y: [4, 8, 16], TILE: [1, 2, 4]}
  flags: {math: ["", "--use_fast_math"]}
  constraints: ["BLOCK_X * BLOCK_Y <= 1024"]
"""
CONV = """
template <typename T, int N>
__global__ void conv(const T *__restrict__ in, T *__restrict__ out, int n) {
    extern __shared__ float tile[];
    int x = blockIdx.x * BLOCK_X + threadIdx.x;
    for (int k = 0; k < N; k++) {
        int y = (blockIdx.y * N + k) * BLOCK_Y + threadIdx.y;
        int at = (k * BLOCK_Y + threadIdx.y) * BLOCK_X + threadIdx.x;
        tile[at] = x < n && y < n ? in[y * n + x] : 0;
        __syncthreads();
        if (x < n && y < n) out[y * n + x] = tile[at] + (threadIdx.x ? tile[at - 1] : 0);
    }
}
"""


@needs.cc
@pytest.mark.integration
def test_a_run_ends_with_a_claim_and_failures_are_trials(tmp_path: Path) -> None:
    spec = spec_in(tmp_path, "axpy.cu", stand_in.GOOD.replace("for (int i", f"{SLOW} for (int i"), SPEC)
    backend: Any = stand_in.StandInBackend(tmp_path)
    few = {"choose_processes": 2, "confirm_processes": 4, "confirm_least": 4}
    outcome = begin(spec, tmp_path / "axpy.run", Options(workers=2, settings=few), backend=backend)
    assert not outcome.failed
    trials = outcome.summary.trials
    assert trials[Status.CRASHED.value] >= 1
    assert outcome.summary.claim == "improved"
    assert outcome.summary.configuration["WORK"] == 1
    assert outcome.device == "stand-in"


@needs.cc
@pytest.mark.integration
def test_check_times_on_a_device(tmp_path: Path) -> None:
    spec = spec_in(tmp_path, "axpy.cu", stand_in.GOOD, SPEC)
    report = check_spec(spec, backend=stand_in.StandInBackend(tmp_path), faults=False)
    assert report.ok, report.lines
    assert "ms a call" in dict(report.lines)["time"]


def test_an_export_of_what_llvm_did_not_make_has_no_script_of_clang(
    scale_spec: Callable[..., Path], tmp_path: Path
) -> None:
    (spec,) = load_spec(scale_spec(evaluations=3))
    backend: Any = SimulatedBackend(seconds=lambda resolved: 1e-3)
    begin(spec, tmp_path / "scale.run", Options(), backend=backend)
    written = export(tmp_path / "scale.run", tmp_path / "out")
    assert {p.name for p in written} == {"scale.o", "scale.c", "result.json", "scale.wisdom.json"}


@needs.nvrtc
class TestWithoutADevice:
    """What a laptop or a CI job gets."""

    @pytest.fixture
    def spec_path(self, tmp_path: Path) -> Path:
        """The design's CUDA example."""
        (tmp_path / "conv.cu").write_text(CONV)
        path = tmp_path / "conv.yaml"
        path.write_text(DESIGN)
        return path

    @pytest.fixture(autouse=True)
    def _no_device(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # Also where there is one.
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")

    @pytest.mark.integration
    def test_check_builds_reads_resources_and_verifies(self, spec_path: Path) -> None:
        (spec,) = load_spec(spec_path)
        report = check_spec(spec, faults=False)
        facts = dict(report.lines)
        assert report.ok, report.lines
        assert "no GPU in reach: compiled for sm_90" in facts["device"]
        assert "occupancy 100% on sm_90" in facts["resources"]
        assert "not measured" in facts["time"]
        assert "verifies" in facts

    @pytest.mark.integration
    def test_check_rejects_a_wrong_baseline(self, spec_path: Path) -> None:
        spec_path.with_suffix(".cu").write_text(
            CONV.replace("in[y * n + x] : 0", "in[y * n + x + n * n] : 0")
        )
        (spec,) = load_spec(spec_path)
        report = check_spec(spec, faults=False)
        assert not report.ok
        assert "out of bounds" in str(report.lines[-1])

    def test_tuning_is_refused_and_nothing_is_written(self, spec_path: Path, tmp_path: Path) -> None:
        (spec,) = load_spec(spec_path)
        with pytest.raises(MachineError, match="no device in reach, so nothing can be timed"):
            begin(spec, tmp_path / "conv.run", Options(evaluations=2))
        assert not (tmp_path / "conv.run").exists()

    def test_native_names_the_cure(self, spec_path: Path) -> None:
        spec_path.write_text(DESIGN.replace("sm_90", "native"))
        (spec,) = load_spec(spec_path)
        with pytest.raises(MachineError, match="target: sm_90"):
            check_spec(spec)

    def test_a_flag_is_refused_with_its_place(self, spec_path: Path) -> None:
        spec_path.write_text(DESIGN.replace("--use_fast_math", "-O3"))
        with pytest.raises(Exception, match=r"conv\.yaml:14:\d+: flag -O3 cannot be honoured"):
            load_spec(spec_path)
