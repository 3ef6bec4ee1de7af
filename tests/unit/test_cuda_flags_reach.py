"""Flags that say what a CUDA source means reach NVRTC, clang with its pass orders, and the emulation alike."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import needs
import pytest

from tuner.core.types import BuildRequest, Status, Variant
from tuner.driver.check import check_spec
from tuner.evaluators.cuda.compiler import CudaCompiler
from tuner.evaluators.emulation import Emulator
from tuner.spec.load import load_spec

pytestmark = [*needs.nvrtc, *needs.cuda_passes]

SPEC = """\
kernel: {source: k.cu, entry: k, SOURCES}
target: sm_90
problem: {n: 100}
arguments:
  - {name: x, dtype: float32, shape: [n], init: {uniform: [1, 2]}}
  - {name: y, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
launch: {grid: ["ceil(n / BLOCK)"], block: [BLOCK]}
space: {parameters: {BLOCK: [64, 128]}, passes: {}, flags: {all: [FLAGS, -DFACTOR=9]}}
verify: {reference: {python: "ref.py:k"}, rtol: 1.0e-6, atol: 1.0e-6}
"""
KERNEL = """
#include "twice.h"
extern "C" __global__ void k(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = twice(x[i]) * FACTOR + pre(1.0f);
}
"""
REFERENCE = "def k(x, y, n):\n    return {'y': 2 * x * 3 + 5}\n"


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A kernel that needs two headers and a macro."""
    kernels = tmp_path / "the kernels"
    for name, text in {
        "k.cu": KERNEL,
        "ref.py": REFERENCE,
        "below/twice.h": "static __device__ float twice(float v) { return 2 * v; }\n",
        "below/pre.h": "static __device__ float pre(float v) { return v + sizeof(int) * ONCE; }\n",
        "../beside/pre.h": "static __device__ float pre(float v) { return v + sizeof(float4) / 4 * ONCE; }\n",
    }.items():
        (kernels / name).parent.mkdir(parents=True, exist_ok=True)
        (kernels / name).write_text(text)
    return kernels


def checked(folder: Path, flags: str, sources: str = "include: []") -> dict[str, str]:
    """What ``check`` says of the kernel with these flags; all three have compiled it and its results are right."""
    text = SPEC.replace("SOURCES", sources).replace("FLAGS", f'"{flags}"')
    (folder / "k.yaml").write_text(text)
    (spec,) = load_spec(folder / "k.yaml")
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines
    facts = dict(report.lines)
    assert "O3 takes" in facts["LLVM"], facts["LLVM"]
    assert "verifies" in facts
    return facts


@pytest.mark.integration
@pytest.mark.parametrize(
    "flags",
    [
        "-I below -include={there}/pre.h -D FACTOR=3 --define-macro ONCE=1",
        "--include-path=below --pre-include ../beside/pre.h -DONCE -DFACTOR=2 -UFACTOR"
        " --define-macro=FACTOR=ID(3) -DID(x)=x",
    ],
)
def test_macros_folders_and_files_to_include_reach_all_three(
    folder: Path, flags: str, tmp_path: Path
) -> None:
    """Files that lie elsewhere may be read by their absolute path."""
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(folder / "below" / "pre.h", tmp_path / "elsewhere")
    checked(folder, flags.replace("{there}", f"{tmp_path}/elsewhere"))


@pytest.mark.integration
def test_a_candidates_own_file_comes_before_the_one_on_the_disk(folder: Path) -> None:
    (folder / "own.h").write_text("static __device__ float pre(float v) { return v + 99; }\n")
    flags = "-Ibelow -include own.h -DFACTOR=3"
    text = SPEC.replace("SOURCES", "sources: [own.h]").replace("FLAGS", f'"{flags}"')
    (folder / "k.yaml").write_text(text.replace("passes: {}", "passes: off"))
    (spec,) = load_spec(folder / "k.yaml")
    task, space = spec.task_with(seed=0), spec.space(None)
    first, header = task.kernel.variant.files
    edited = replace(header, text=header.text.replace("99", "4"))
    request = BuildRequest(
        trial=0, variant=Variant(files=(first, edited)), resolved=space.resolve(space.default())
    )
    with CudaCompiler("sm_90") as compiler:
        (by_nvrtc,) = compiler.build(task, [request])
        by_llvm = compiler.build_by_llvm(task, request)
    for build in (by_nvrtc, by_llvm):
        assert build.status is Status.OK, build.message
        # 99 + 1 as a float.
        assert "42C80000" not in build.artifacts["ptx"].upper()
    emulator = Emulator(task)
    try:
        report = emulator.set_baseline(request.resolved, request.variant)
    finally:
        emulator.close()
    assert report.status is Status.OK, report.message


@pytest.mark.integration
def test_a_file_that_is_not_there_is_said_in_one_line(folder: Path) -> None:
    (folder / "k.yaml").write_text(SPEC.replace("SOURCES", "include: []").replace("FLAGS", '"-include no.h"'))
    (spec,) = load_spec(folder / "k.yaml")
    report = check_spec(spec, faults=False)
    assert not report.ok
    assert "no.h" in report.lines[-1][1]
    assert "\n" not in report.lines[-1][1]
