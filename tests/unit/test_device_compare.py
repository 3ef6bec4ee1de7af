"""``compare:`` for device code: nvcc's and clang's cubins, and clang's SPIR-V, beside the device's own compiler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import needs
import pytest
from virtual_clock import VirtualReadings

from tuner.core.errors import SpecError
from tuner.core.types import Build, Resolved, Status
from tuner.evaluators.cuda import other_compilers
from tuner.evaluators.cuda.backend import CudaBackend, CudaEvaluation
from tuner.evaluators.cuda.cubin import has_kernel
from tuner.evaluators.device_code.pipelines import clang_words
from tuner.evaluators.opencl.backend import OpenClBackend, OpenClEvaluation
from tuner.evaluators.opencl.program import Program
from tuner.spec.load import load_spec

EXAMPLES = Path(__file__).parents[2] / "examples"


class Bench:
    """One CUDA example without a device."""

    def __init__(self, name: str) -> None:
        (spec,) = load_spec(EXAMPLES / "cuda" / f"{name}.yaml")
        self.evaluation: CudaEvaluation = CudaBackend().prepare(spec.task_with(seed=0), workers=1)
        catalogue = CudaBackend().pass_catalogue()
        space = spec.space(catalogue)
        self.resolved: Resolved = space.resolve(space.default())

    def build(self, command: Sequence[str]) -> Build:
        """The baseline by another compiler."""
        return self.evaluation.build_with(command, self.resolved)


@pytest.fixture(params=["transpose", "conv2d"], scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A plain kernel and a template."""
    made = Bench(request.param)
    yield made
    made.evaluation.close()


@needs.gcc
@needs.nvcc
@needs.nvrtc
@needs.cuda_passes
def test_nvcc_makes_the_same_kernel(bench: Bench) -> None:
    build = bench.build(["nvcc", "-O3"])
    assert build.status is Status.OK, build.message
    assert build.code[:4] == b"\x7fELF"
    wrong = bench.build(["nvcc", "-O3", "--no-such-option"])
    assert wrong.status is Status.BUILD_ERROR
    assert "nvcc" in wrong.message


@needs.nvrtc
@needs.cuda_passes
@pytest.mark.integration
def test_clang_makes_the_same_kernel_in_a_cubin_that_tells_its_kernels(bench: Bench) -> None:
    build = bench.build(["clang", "-O3"])
    assert build.status is Status.OK, build.message
    assert build.features["registers_count"] > 0
    assert bench.build(["clang", "-O0"]).key != build.key
    assert not has_kernel(build.code, "nothing")
    with pytest.raises(ValueError, match="not a cubin"):
        has_kernel(b"text", "nothing")


@needs.nvrtc
@needs.cuda_passes
@pytest.mark.integration
@pytest.mark.parametrize("bench", ["transpose"], indirect=True)
def test_missing_compilers_are_reported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    gcc = bench.build(["gcc", "-O3"])
    assert gcc.status is Status.REFUSED
    assert "nvcc and clang" in gcc.message
    monkeypatch.setattr(other_compilers, "_find", lambda name: f"/nowhere/{name}")
    other = bench.build(["nvcc", "-arch=sm_80"])
    assert other.status is Status.REFUSED
    assert "the spec's target" in other.message
    assert "the level is none" in bench.build(["clang"]).message
    monkeypatch.setattr(other_compilers, "_find", lambda name: None)
    missing = bench.build(["nvcc", "-O3"])
    assert missing.status is Status.BUILD_ERROR
    assert "nvcc is not installed: pip install" in missing.message


def test_clangs_words() -> None:
    assert clang_words(["clang", "-O1", "-w", "-O3"]) == ("default<O3>", ("-w",))
    with pytest.raises(SpecError, match="the level is -O9"):
        clang_words(["clang", "-O9"])


@needs.spirv_device
def test_opencl_compares_with_clang_where_the_device_takes_spirv() -> None:
    build = _opencl("intel", ["clang", "-O2", "-cl-mad-enable"])
    assert build.status is Status.OK, build.message
    assert Program.from_code(build.code, folder="").il


@needs.pocl
def test_opencl_says_why_it_cannot_compare() -> None:
    refused = _opencl("pocl", ["gcc", "-O3"])
    assert refused.status is Status.REFUSED
    assert "clang does, where it takes SPIR-V" in refused.message
    wrong = _opencl("pocl", ["clang", "-O3", "-march=native"])
    assert wrong.status is Status.BUILD_ERROR
    assert "-march=native" in wrong.message
    build = _opencl("pocl", ["clang", "-O3"])
    if build.status is not Status.OK:
        assert "takes no intermediate language" in build.message


def _opencl(target: str, command: Sequence[str]) -> Build:
    (spec,) = load_spec(EXAMPLES / "opencl" / "transpose" / "transpose.yaml")
    backend, task = OpenClBackend(), spec.task_with(seed=0)
    device = backend.device(target)
    space = spec.space(None)
    evaluation = OpenClEvaluation(
        task, device=device, workers=1, shared=device.cpu, readings=VirtualReadings()
    )
    try:
        return evaluation.build_with(command, space.resolve(space.default()))
    finally:
        evaluation.close()
