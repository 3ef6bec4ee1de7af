"""Device programs behind macros, headers and conditionals: read as their compiler does, which is asked for nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tuner.search.cooking import Attempt
from tuner.search.opening import opened
from tuner.spaces.source.regions import Program, read_program
from tuner.spec.load import LoadedSpec, load_recorded, load_spec

SPEC = """
kernel: {{source: {first}, sources: [{others}], entry: scale, include: [include]}}
{target}
problem: {{n: 64}}
arguments:
  - {{name: x, dtype: float32, shape: [n], role: inout, init: normal}}
  - {{name: n, dtype: int32, value: n}}
launch: {{grid: ["ceil(n / 64)"], block: [64]}}
space:
  source: {{evolve: true}}
  parameters: {parameters}
  flags: {flags}
"""
HEADER = """#ifndef SUITE_H
#define SUITE_H
#define EACH(i, end) for (int i = 0; i < (end); i++)
#define PLUS(a, b) ((a) + (b))
#endif
"""
OPENCL = """#include "suite.h"
%(before)s
__kernel void scale(__global float *x, const int n)
{
    __local float part[64];
    const int g = get_global_id(0);
    part[get_local_id(0)] = M_PI_F; /* named, not replaced */
    barrier(CLK_LOCAL_MEM_FENCE);
    EACH(i, 4)
        x[g] = PLUS(x[g], %(value)s);
}
"""
CUDA = """#include "suite.h"
%(before)s
extern "C" __global__ __launch_bounds__(64) void scale(float *x, int n)
{
    const int g = blockIdx.x * blockDim.x + threadIdx.x;
    EACH(i, 4)
        x[g] = PLUS(x[g], %(value)s);
}
"""


def loaded(
    folder: Path,
    text: str,
    *further: str,
    parameters: str = "{}",
    flags: str = "{}",
    target: str = "target: sm_90",
) -> LoadedSpec:
    """A spec of these sources, of CUDA where the first says so."""
    suffix = "cu" if "__global__" in text else "cl"
    (folder / "include").mkdir(exist_ok=True)
    (folder / "include" / "suite.h").write_text(HEADER)
    names = [f"k{i}.{suffix}" for i in range(len(further) + 1)]
    for name, source in zip(names, (text, *further), strict=True):
        (folder / name).write_text(source)
    made = SPEC.format(
        first=names[0],
        others=", ".join(names[1:]),
        parameters=parameters,
        flags=flags,
        target=target if suffix == "cu" else "",
    )
    (folder / "k.yaml").write_text(made)
    (spec,) = load_spec(folder / "k.yaml")
    return spec


def laid_open(spec: LoadedSpec, **values: int) -> Program:
    program = read_program(spec.task.kernel, launch=spec.task.launch)
    attempt = Attempt(program=program, edits=(), rng=np.random.default_rng(0), reassociate=False)
    found = opened(attempt, values)
    assert found is not None
    return found.program


def region(spec: LoadedSpec, **values: int) -> str:
    """The first region as operators see it."""
    program = laid_open(spec, **values)
    return program.region_text(*program.regions[0])


def test_the_devices_own_names_stay_and_macros_of_the_project_are_gone(tmp_path: Path) -> None:
    text = region(loaded(tmp_path, OPENCL % {"before": "", "value": "1.0f"}))
    assert "part[get_local_id(0)] = M_PI_F; /* named, not replaced */" in text
    assert "barrier(CLK_LOCAL_MEM_FENCE);" in text
    assert "x[g] = ((x[g]) + (1.0f));" in text
    assert "EACH" not in text


def test_a_cuda_kernels_marks_stay(tmp_path: Path) -> None:
    """Headers of the device's compiler have nothing in them, wherever they are."""
    before = "#include <cuda_fp16.h>\n#include <cub/block/block_reduce.cuh>\n#include <cuda_runtime.h>"
    spec = loaded(tmp_path, CUDA % {"before": before, "value": "CUDART_PI_F"})
    (whole,) = spec.task.kernel.preprocessed[0].files
    assert whole.text.strip().startswith('extern "C" __global__ __launch_bounds__(64) void scale(float *x')
    text = region(spec)
    assert "x[g] = ((x[g]) + (CUDART_PI_F));" in text


@pytest.mark.parametrize(
    ("kernel", "before", "value", "seen"),
    [
        (OPENCL, "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#endif", "1", "1"),
        (OPENCL, "#if __OPENCL_VERSION__ < 100\n#define Q 1\n#else\n#define Q 2\n#endif", "Q", "2"),
        (
            OPENCL,
            "#if defined(cl_khr_fp64)\n#define Q 1\n#elif defined(cl_amd_fp64)\n#define Q 1\n"
            "#else\n#error it has no doubles\n#endif",
            "Q",
            "1",
        ),
        (
            OPENCL,
            "#ifdef __CUDACC__\n#define Q 1\n#else\n#define Q 2\n#endif\n"
            "#ifndef _GUARD_H\n#define _GUARD_H\n#define P 3\n#endif",
            "Q + P",
            "2 + 3",
        ),
        (
            CUDA,
            "#if __CUDA_ARCH__ >= 900\n#define Q 1\n#else\n#define Q 2\n#endif\n"
            "#ifdef __CUDACC_RTC__\n#define P 3\n#else\n#include <vector>\n#endif\n"
            "#if __cplusplus >= 201703L\n#define S 4\n#endif",
            "Q + P + S",
            "1 + 3 + 4",
        ),
    ],
)
@pytest.mark.integration
def test_conditionals_that_every_device_answers_alike_are_decided(
    tmp_path: Path, kernel: str, before: str, value: str, seen: str
) -> None:
    assert f"((x[g]) + ({seen}))" in region(loaded(tmp_path, kernel % {"before": before, "value": value}))


@pytest.mark.parametrize(
    ("kernel", "before", "reason"),
    [
        (
            OPENCL,
            "#ifdef cl_a\n#ifndef cl_b\n#define Q 1\n#endif\n#endif\n#ifndef Q\n#define Q 2\n#endif",
            "they are others by what the device's compiler says of cl_a, cl_b",
        ),
        (
            OPENCL,
            "#if __OPENCL_VERSION__ >= 200\n#define Q 1\n#else\n#define Q 2\n#endif",
            "they are others by what the device's compiler says of __OPENCL_VERSION__",
        ),
        (
            OPENCL,
            "#ifndef M_PI_F\n#define M_PI_F 3.0f\n#endif\n#define Q 1",
            "they are others by what the device's compiler says of M_PI_F",
        ),
        (
            OPENCL,
            "#define NEW (__NV_CL_C_VERSION > 110)\n#if NEW\n#define Q 1\n#else\n#define Q 2\n#endif",
            "they ask the device's compiler for the value of __NV_CL_C_VERSION",
        ),
        (
            CUDA,
            "#include <cuda_runtime.h>\n#if CUDART_VERSION > 12000\n#define Q 1\n#else\n#define Q 2\n#endif",
            "they ask the device's compiler for the value of CUDART_VERSION",
        ),
        (
            CUDA,
            "#if __has_include(<cub/cub.cuh>)\n#define Q 1\n#else\n#define Q 2\n#endif",
            "they ask the device's compiler for __has_include",
        ),
    ],
)
def test_answers_that_only_the_devices_compiler_knows_are_not_guessed(
    tmp_path: Path, kernel: str, before: str, reason: str
) -> None:
    spec = loaded(tmp_path, kernel % {"before": before, "value": "Q"})
    assert not spec.task.kernel.preprocessed
    assert [note for note in spec.notices if reason in note]


def test_the_architecture_of_another_target_is_another(tmp_path: Path) -> None:
    before = "#if __CUDA_ARCH__ >= 900\n#define Q 1\n#else\n#define Q 2\n#endif"
    spec = loaded(tmp_path, CUDA % {"before": before, "value": "Q"}, target="target: sm_80")
    assert "((x[g]) + (2))" in region(spec)


def test_tunables_in_conditionals_of_a_device_program_are_choices(tmp_path: Path) -> None:
    before = "/* MODE, WIDTH: as they are */\n#if MODE > 1\n#define Q (2 * WIDTH)\n#else\n#define Q 1\n#endif"
    text = (OPENCL % {"before": before, "value": "Q"}).replace("    EACH", "#pragma unroll WIDTH\n    EACH")
    spec = loaded(tmp_path, text, parameters="{MODE: [1, 2], WIDTH: [4, 8]}")
    assert [p.values for p in spec.task.kernel.preprocessed] == [(("MODE", 1),), (("MODE", 2),)]
    assert "((x[g]) + ((2 * WIDTH)))" in region(spec, MODE=2, WIDTH=4)
    assert "#pragma unroll WIDTH" in region(spec, MODE=2, WIDTH=4)
    assert "((x[g]) + (1))" in region(spec, MODE=1, WIDTH=4)


@pytest.mark.parametrize(
    ("kernel", "flags", "apart"),
    [
        (OPENCL, '{k: ["-DQ=1 -cl-mad-enable", "-DQ=2"]}', "they are others with -DQ=2"),
        (CUDA, '{k: ["-DQ=1 --use_fast_math", "-DQ=1"]}', ""),
    ],
)
def test_flags_of_a_device_program_have_to_leave_it_as_it_is(
    tmp_path: Path, kernel: str, flags: str, apart: str
) -> None:
    spec = loaded(tmp_path, kernel % {"before": "", "value": "Q"}, flags=flags)
    assert bool(spec.task.kernel.preprocessed) == (not apart), spec.notices
    assert [apart in note for note in spec.notices] == ([True] if apart else [])


@pytest.mark.parametrize("kernel", [OPENCL, CUDA])
def test_sources_of_a_device_program_are_one_text(tmp_path: Path, kernel: str) -> None:
    """What the first defines counts in the second."""
    mark = "__device__ " if kernel is CUDA else ""
    first = f"#define Q 3\n{mark}float more(float v)\n{{\n    return v + Q;\n}}\n"
    # The one with the kernel is the first that is named.
    second = kernel % {"before": "#define Q 4", "value": "Q"}
    spec = loaded(tmp_path, second, first.replace("#define Q 3\n", ""))
    (found,) = spec.task.kernel.preprocessed
    assert [f.name for f in found.files] == [f.name for f in spec.task.kernel.variant.files]
    assert "return v + 4;" in found.files[1].text
    assert found.files[0].text.count("\n") >= second.count("\n")
    assert "more" not in found.files[0].text


def test_a_record_of_a_device_program_needs_no_compiler(tmp_path: Path) -> None:
    spec = loaded(tmp_path, OPENCL % {"before": "", "value": "1.0f"})
    again = load_recorded(spec.text, spec.files, folder="/nonexistent")
    assert again.task.kernel.preprocessed == spec.task.kernel.preprocessed
    assert again.digest == spec.digest
