"""Pass pipelines for CUDA: real clang, LLVM passes, NVPTX code and nvJitLink, to cubins. No GPU is needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest

from tuner.core.errors import MachineError
from tuner.core.types import Build, BuildRequest, Resolved, Source, Status, Task, Variant
from tuner.driver.check import check_spec
from tuner.evaluators.cuda import backend as backends
from tuner.evaluators.cuda import device_passes
from tuner.evaluators.cuda.backend import CudaBackend
from tuner.evaluators.cuda.compiler import CudaCompiler
from tuner.evaluators.device_code.pipelines import OWN_PIPELINE
from tuner.spaces.space import Space
from tuner.spec.load import LoadedSpec, load_spec

pytestmark = [*needs.nvrtc, *needs.cuda_passes]

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "cuda").glob("*.yaml"))
SHORT = "function(sroa,early-cse,simplifycfg)"
PREFIX = "function(sroa),default<O3>"


@pytest.fixture(scope="module")
def catalogue() -> Any:
    """The passes of this LLVM that run on device code."""
    return CudaBackend().pass_catalogue()


@pytest.fixture(scope="module")
def compiler() -> Iterator[CudaCompiler]:
    """For sm_90."""
    with CudaCompiler("sm_90", workers=2) as made:
        yield made


@cache
def load(path: Path) -> tuple[LoadedSpec, Task]:
    """One example."""
    (spec,) = load_spec(path)
    return spec, spec.task_with(seed=0)


class Bench:
    """One kernel of one argument list, built with pipelines, flags and other texts."""

    def __init__(self, compiler: CudaCompiler, name: str) -> None:
        self.compiler = compiler
        self.spec, self.task = load(next(p for p in EXAMPLES if p.stem == name))
        space = self.spec.space(None)
        self.resolved = space.resolve(space.default())
        self.text = self.task.kernel.variant.files[0].text

    def request(
        self, pipeline: str | None, *, text: str | None = None, flags: Sequence[str] = ()
    ) -> BuildRequest:
        """A candidate."""
        first = self.task.kernel.variant.files[0]
        variant = Variant(files=(Source(name=first.name, text=self.text if text is None else text),))
        resolved = replace(self.resolved, pipeline=pipeline, flags=tuple(flags))
        return BuildRequest(trial=0, variant=variant, resolved=resolved)

    def build(self, pipeline: str | None, **given: Any) -> Build:
        """What becomes of it."""
        (build,) = self.compiler.build(self.task, [self.request(pipeline, **given)])
        return build


@pytest.fixture
def transpose(compiler: CudaCompiler) -> Bench:
    """A kernel without mathematics."""
    return Bench(compiler, "transpose")


@pytest.fixture
def softmax(compiler: CudaCompiler) -> Bench:
    """A kernel with libdevice's functions and shuffles."""
    return Bench(compiler, "softmax")


@pytest.mark.parametrize(
    "path", [p for p in EXAMPLES if p.stem in ("nbody", "reduction", "softmax")], ids=lambda p: p.stem
)
@pytest.mark.integration
def test_an_example_goes_through_the_whole_chain(path: Path, compiler: CudaCompiler, catalogue: Any) -> None:
    spec, task = load(path)
    space: Space = spec.space(catalogue)
    assert space.passes is not None
    rng = np.random.default_rng(3)
    texts = [OWN_PIPELINE, PREFIX, SHORT, space.passes.flattened]
    texts.append(space.passes.random(rng))
    requests = [
        BuildRequest(
            trial=i,
            variant=task.kernel.variant,
            resolved=space.resolve({**space.default(), "passes": text}),
        )
        for i, text in enumerate(texts[:2] + texts[3:])
    ]
    builds = compiler.build(task, requests)
    builds += [compiler.build_by_llvm(task, requests[0], text) for text in (OWN_PIPELINE, SHORT)]
    for build in builds:
        assert build.status is Status.OK, build.message
        features = build.features
        assert 8 <= features["registers_count"] <= 255
        assert features["ptx_instructions_count"] > 0
        assert features["occupancy_share"] > 0
        assert features["shared_bytes"] == builds[0].features["shared_bytes"]
        assert ".target sm_90" in build.artifacts["ptx"]
        assert "tuner_names" not in build.artifacts["ptx"]
    own, by_llvm = builds[0], builds[-2]
    assert own.key != by_llvm.key
    assert "nvrtc" in own.seconds
    assert "passes" in by_llvm.seconds


@pytest.mark.integration
def test_the_base_pipeline_alone_is_nvrtcs_own_code(transpose: Bench) -> None:
    own, base = transpose.build(None), transpose.build(OWN_PIPELINE)
    assert own.digest == base.digest
    assert own.key == base.key
    assert transpose.build(PREFIX).digest != own.digest


@pytest.mark.integration
def test_equal_work_has_equal_keys(softmax: Bench) -> None:
    first, same = softmax.build("default<O3>,globaldce"), softmax.build("default<O3>,globaldce,globaldce")
    other = softmax.build(SHORT)
    assert first.key == same.key
    assert first.digest == same.digest
    assert other.key != first.key


def test_builds_repeat_in_another_process(softmax: Bench) -> None:
    first = softmax.build(PREFIX)
    with CudaCompiler("sm_90") as another:
        softmax.compiler = another
        again = softmax.build(PREFIX)
    assert (first.digest, first.key, first.artifacts) == (again.digest, again.key, again.artifacts)


def test_a_crashing_pass_costs_one_candidate(transpose: Bench) -> None:
    requests = [transpose.request(p) for p in (PREFIX, "function(loop(licm))", SHORT)]
    before, crashed, after = transpose.compiler.build(transpose.task, requests)
    assert before.status is after.status is Status.OK
    assert crashed.status is Status.CRASHED
    assert "LICM" in crashed.message
    assert "\n" not in crashed.message


@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        ("function(no-such-pass)", "no-such-pass"),
        ("internalize,globaldce", "removed the kernel"),
    ],
)
def test_pipelines_that_cannot_be(transpose: Bench, pipeline: str, said: str) -> None:
    build = transpose.build(pipeline)
    assert build.status is Status.BUILD_ERROR
    assert said in build.message


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("__syncthreads();", "__syncthreads() int;", "clang: transpose.cu:21:20: error: expected ';'"),
        ("= in[", "= magic(0) + in[", "transpose.cu:20:"),
        ("__syncthreads();", 'asm volatile("nosuch.instr 0;");', "assembler: "),
        ("transpose(const", "other(const", "undeclared identifier 'transpose'"),
    ],
)
def test_sources_that_clang_or_the_assembler_refuse(transpose: Bench, old: str, new: str, said: str) -> None:
    assert old in transpose.text
    build = transpose.build(SHORT, text=transpose.text.replace(old, new, 1))
    assert build.status is Status.BUILD_ERROR
    assert said in build.message
    assert "\n" not in build.message


def test_a_function_without_a_body_is_named(transpose: Bench) -> None:
    text = "__device__ float magic(float);\n" + transpose.text.replace("= in[", "= magic(0) + in[", 1)
    build = transpose.build(SHORT, text=text)
    assert build.status is Status.BUILD_ERROR
    assert "magic" in build.message


def test_the_users_other_folders_cannot_be_read(transpose: Bench, tmp_path: Path) -> None:
    (tmp_path / "secret.h").write_text("#define SECRET 1\n")
    build = transpose.build(SHORT, text=f'#include "{tmp_path}/secret.h"\n{transpose.text}')
    assert build.status is Status.BUILD_ERROR
    assert "secret.h" in build.message


@pytest.mark.parametrize("pipeline", [OWN_PIPELINE, PREFIX])
def test_the_specs_include_folders_can_be_read(transpose: Bench, tmp_path: Path, pipeline: str) -> None:
    (tmp_path / "own.h").write_text("#define OWN 1.0f\n")
    task = replace(transpose.task, kernel=replace(transpose.task.kernel, include=(str(tmp_path),)))
    text = "#include <own.h>\n" + transpose.text.replace("= in[", "= OWN * in[", 1)
    with CudaCompiler("sm_90", read=[str(tmp_path)]) as compiler:
        (build,) = compiler.build(task, [transpose.request(pipeline, text=text)])
    assert build.status is Status.OK, build.message


def test_macros_do_not_reach_the_headers(transpose: Bench) -> None:
    flags = ["-DT=float", "-DN=3", "-DA=1", "-DB", "-Dmin(a,b)=a", "-Umin"]
    assert transpose.build(SHORT, flags=flags).status is Status.OK


COMMON = """
#include <cuda_runtime.h>
#include <math.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cassert>
#include <math_constants.h>
__constant__ float table[4] = {1, 2, 3, 4};
__device__ int counter;
"""
WIDE = """
    extern __shared__ float dynamic[];
    dim3 size = blockDim;
    uint3 me = threadIdx;
    float v = exp(in[0]) + sin(in[1]) + powf(in[2], in[3]) + rsqrtf(in[4]) + fminf(in[5], 1) + tanh(in[6]);
    v += min(size.x, 3u) + max(3, 4) + abs(in[7]) + __expf(in[8]) + CUDART_PI_F + table[me.x % 4] + (float)cos(1.0);
    v += __shfl_xor_sync(~0u, v, 1) + __shfl_down_sync(~0u, v, 2, 16) + __popc(__ballot_sync(~0u, v > 0));
    v += __any_sync(~0u, v > 1) + __activemask() + __match_any_sync(~0u, height) + __ldg(in) + __float_as_int(v);
    v += atomicAdd(&counter, 1) + atomicMax(&counter, 2) + atomicCAS(&counter, 1, 2) + atomicExch(&counter, 5);
    atomicAdd(out, v);
    atomicAdd_block((unsigned *)&counter, 3u);
    dynamic[me.x] = isnan(v) || isinf(v) ? INFINITY : v;
    __syncwarp();
    __threadfence();
    if (__syncthreads_count(v > 0) > 3) printf("%f\\n", v);
    assert(v == v);
    out[0] = make_float4(v, v, v, dynamic[0]).w + __fmaf_rn(v, v, v) + clock64() + warpSize;
"""


@pytest.mark.integration
def test_the_header_has_what_kernels_use(transpose: Bench) -> None:
    text = COMMON + transpose.text.replace("__syncthreads();", WIDE + "__syncthreads();", 1)
    for pipeline in (SHORT, PREFIX):
        build = transpose.build(pipeline, text=text)
        assert build.status is Status.OK, build.message
        ptx = build.artifacts["ptx"]
        for wanted in (
            "shfl.sync.bfly",
            "vote.sync.ballot",
            "atom",
            ".add.f32",
            "match.any.sync",
            "ex2.approx",
        ):
            assert wanted in ptx, wanted
        assert "__nvvm_reflect" not in ptx


@pytest.mark.parametrize(
    ("declaration", "entry"),
    [
        ('extern "C" __global__ void', "transpose"),
        ("__global__ void", "transpose"),
        ("namespace a { namespace b { __global__ void", "a::b::transpose"),
        ("template <typename A, int K> __global__ void", "transpose<float, TILE>"),
    ],
)
def test_entries_by_every_kind_of_name(transpose: Bench, declaration: str, entry: str) -> None:
    end = " } }" if declaration.startswith("namespace") else ""
    other = '\nextern "C" __global__ void other(float *x) { x[0] = 1; }\n'
    text = transpose.text.replace('extern "C" __global__ void', declaration, 1) + end + other
    task = replace(transpose.task, kernel=replace(transpose.task.kernel, entry=entry))
    requests = [transpose.request(p, text=text) for p in (None, PREFIX)]
    own, by_llvm = transpose.compiler.build(task, requests)
    assert own.status is by_llvm.status is Status.OK, (own.message, by_llvm.message)
    assert transpose.compiler.made(own).symbol == transpose.compiler.made(by_llvm).symbol


@pytest.mark.integration
def test_flags_mean_what_they_mean_to_nvrtc(softmax: Bench) -> None:
    def ptx(*flags: str) -> str:
        build = softmax.build(PREFIX, flags=flags)
        assert build.status is Status.OK, build.message
        return build.artifacts["ptx"]

    plain, fast = ptx(), ptx("--use_fast_math")
    assert "div.rn.f32" in plain
    assert "div.rn.f32" not in fast
    assert "div.approx.ftz.f32" in fast
    assert ".ftz" in ptx("--ftz=true").replace("ex2.approx.ftz", "")
    # Exponentials are made of fused operations whatever the flag says.
    nbody = Bench(softmax.compiler, "nbody")
    fused, apart = nbody.build(PREFIX), nbody.build(PREFIX, flags=["--fmad=false"])
    assert apart.features["ptx_fused_multiply_adds_count"] == 0
    assert fused.features["ptx_fused_multiply_adds_count"] > 0
    assert ptx("--fmad=true", "--prec-div=true", "-lineinfo") == plain


def test_flags_of_the_assembler_reach_it(softmax: Bench) -> None:
    plain, slow = softmax.build(PREFIX), softmax.build(PREFIX, flags=["-Xptxas", "-O0"])
    assert plain.artifacts["ptx"] == slow.artifacts["ptx"]
    assert plain.key != slow.key
    text = softmax.text.replace("__launch_bounds__(THREADS *ROWS)", "")
    few = softmax.build(PREFIX, text=text, flags=["-maxrregcount=24"])
    many = softmax.build(PREFIX, text=text)
    assert few.features["registers_count"] <= 24 < many.features["registers_count"]


def test_a_flag_of_nvrtc_alone_fails_those_candidates_with_the_reason(softmax: Bench) -> None:
    assert softmax.build(OWN_PIPELINE, flags=["--prec-div=false"]).status is Status.OK
    for flag in ("--prec-div=false", "--restrict"):
        build = softmax.build(PREFIX, flags=[flag])
        assert build.status is Status.BUILD_ERROR
        assert flag in build.message


def test_resources_of_a_kernel_that_calls_functions(transpose: Bench) -> None:
    text = transpose.text.replace("= in[", "= twice(in[", 1).replace("+ x];", "+ x]);", 1)
    text = "__device__ __noinline__ float twice(float x) { return 2 * x; }\n" + text
    build = transpose.build(PREFIX, text=text)
    assert build.status is Status.OK, build.message
    assert build.features["ptx_calls_count"] >= 1
    assert build.features["registers_count"] > 8


def test_over_a_limit_is_found_before_any_launch(transpose: Bench) -> None:
    resolved = replace(transpose.resolved, pipeline=PREFIX, macros={"TILE": 64, "ROWS": 32, "PAD": 0})
    request = BuildRequest(trial=0, variant=transpose.task.kernel.variant, resolved=resolved)
    (build,) = transpose.compiler.build(transpose.task, [request])
    assert build.status is Status.OUT_OF_RESOURCES


REFUSED = """
import sys
from tuner.evaluators.cuda.nvptx import TRIPLE
from tuner.evaluators.device_code.generators import LlvmliteGenerator
from tuner.evaluators.device_code.generators import DeviceModule
from tuner.evaluators.host.llvm_library import Library, LLVMError
from tuner.evaluators.host.toolchain import find_toolchain

text = '''target triple = "nvptx64-nvidia-cuda"
declare void @f()
define ptx_kernel void @k() {{ call void @f() {attribute}
ret void }}'''
module = DeviceModule.from_text(Library(find_toolchain().library), text)
try:
    print(LlvmliteGenerator().assembly(module, TRIPLE, {arch!r}).count(".entry k"))
except LLVMError as error:
    print("refused:", error)
"""


@pytest.mark.parametrize(
    ("attribute", "arch", "said"),
    [
        ("nounwind", "sm_90", "1"),
        ("flatten", "sm_90", "does not read the optimised IR"),
    ],
)
def test_refusals_of_llvmlite_are_reported(attribute: str, arch: str, said: str) -> None:
    if "LLVM 22" not in _generator():
        pytest.skip("this llvmlite reads all that this clang writes")
    done = subprocess.run(
        [sys.executable, "-c", REFUSED.format(attribute=attribute, arch=arch)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said in done.stdout, done.stdout + done.stderr


def _generator() -> str:
    passes = device_passes.DevicePasses("sm_90")
    try:
        return passes.describe
    finally:
        passes.close()


def test_attributes_for_passes_only_are_no_hindrance(transpose: Bench) -> None:
    text = transpose.text.replace("__global__ void", "__global__ __attribute__((flatten)) void", 1)
    assert transpose.build(PREFIX, text=text).status is Status.OK


@pytest.mark.integration
def test_check_says_what_llvm_makes_of_the_baseline() -> None:
    spec, _ = load(next(p for p in EXAMPLES if p.stem == "reduction"))
    report = check_spec(spec, faults=False)
    assert report.ok
    lines = dict(report.lines)
    assert "passes to edit default<O3>" in lines["passes"]
    assert "O3 takes" in lines["LLVM"]


@pytest.mark.integration
def test_check_says_when_clang_cannot_read_the_source(tmp_path: Path) -> None:
    for file in EXAMPLES[0].parent.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    source = tmp_path / "transpose.cu"
    source.write_text("#include <cuda_bf16.h>\n" + source.read_text())
    spec, task = load(tmp_path / "transpose.yaml")
    evaluation = CudaBackend().prepare(task, workers=1)
    try:
        resolved = replace(_default(spec), pipeline=OWN_PIPELINE)
        (build,) = evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=resolved)])
        assert build.status is Status.OK, build.message
        said = evaluation.remarks(build, resolved)["LLVM"]
    finally:
        evaluation.close()
    assert "cuda_bf16.h" in said
    assert "passes: off" in said


def _default(spec: LoadedSpec) -> Resolved:
    space = spec.space(None)
    return space.resolve(space.default())


def test_without_a_part_the_space_loses_only_the_passes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, transpose: Bench
) -> None:
    monkeypatch.setattr(device_passes, "find_libdevice", lambda: "")
    assert CudaBackend().pass_catalogue() is None
    assert "passes" not in CudaBackend().environment("sm_90")
    for file in EXAMPLES[0].parent.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    copy = tmp_path / "transpose.yaml"
    copy.write_text(copy.read_text().replace("  parameters:", "  passes: {}\n  parameters:"))
    (spec,) = load_spec(copy)
    (notice,) = spec.notices
    assert "libdevice missing: pip install 'remix-tuner[cuda-passes]'" in notice
    with CudaCompiler("sm_90") as fresh, pytest.raises(MachineError, match="libdevice"):
        fresh.build(transpose.task, [transpose.request(PREFIX)])


def test_the_catalogue_has_no_pass_that_device_code_cannot_take(catalogue: Any) -> None:
    assert "interleaved-load-combine" in catalogue["broken"]
    assert backends.missing_parts() == ""


def test_the_environment_names_everything_that_code_depends_on() -> None:
    parts = CudaBackend().environment("sm_90")["passes"]
    assert set(parts) == {"llvm", "llvm_digest", "code_generator", "libdevice", "nvjitlink"}
    assert all(parts.values())
