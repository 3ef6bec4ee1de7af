"""Kernel Tuner's own kinds of scripts through ``tune_kernel``: C and OpenCL run, CUDA is checked without a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest

from tuner.api import replay
from tuner.compat.kernel_tuner import ErrorConfig, tune_kernel, write_kernel_spec
from tuner.core.errors import BaselineError, SpecError, UsageError
from tuner.driver.check import check_spec
from tuner.driver.imports import import_file
from tuner.spec.load import load_spec

ADD_C = """
extern "C" float vector_add(float *c, float *a, float *b, int n)
{
    for (int start = 0; start < n; start += vecsize) {
        int end = start + vecsize < n ? start + vecsize : n;
        for (int i = start; i < end; i++)
            c[i] = a[i] + b[i];
    }
    return 0.0f;
}
"""
MATMUL_CL = """
#define WIDTH 64
__kernel void matmul(__global float *C, __global const float *A, __global const float *B)
{
    int x = get_group_id(0) * block_size_x * tile_size_x + get_local_id(0);
    int y = get_group_id(1) * block_size_y + get_local_id(1);
    float sum[tile_size_x];
    for (int t = 0; t < tile_size_x; t++) sum[t] = 0.0f;
    for (int k = 0; k < WIDTH; k++)
        for (int t = 0; t < tile_size_x; t++)
            sum[t] += A[y * WIDTH + k] * B[k * WIDTH + x + t * block_size_x];
    for (int t = 0; t < tile_size_x; t++)
        C[y * WIDTH + x + t * block_size_x] = sum[t];
}
"""
CONVOLUTION_CU = """
#define filter_height 3
#define filter_width 3
#define input_width (image_width + filter_width - 1)
#define image_width 64
#define image_height 64
__global__ void convolution_kernel(float *output, float *input, float *filter) {
    int ty = threadIdx.y, tx = threadIdx.x;
    int by = blockIdx.y * block_size_y * tile_size_y, bx = blockIdx.x * block_size_x * tile_size_x;
    #pragma unroll
    for (int yi = 0; yi < tile_size_y; yi++) {
        #pragma unroll
        for (int xi = 0; xi < tile_size_x; xi++) {
            int y = by + ty + yi * block_size_y, x = bx + tx + xi * block_size_x;
            if (y < image_height && x < image_width) {
                float sum = 0.0f;
                for (int i = 0; i < filter_height; i++)
                    for (int j = 0; j < filter_width; j++)
                        sum += input[(y + i) * input_width + x + j] * filter[i * filter_width + j];
                output[y * image_width + x] = sum;
            }
        }
    }
}
"""
SIZE = 10_000


def vectors(size: int = SIZE) -> list[Any]:
    """The arguments of a vector addition."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal(size).astype(np.float32), rng.standard_normal(size).astype(np.float32)
    return [np.zeros_like(b), a, b, np.int32(size)]


@pytest.mark.integration
def test_vector_add_in_c(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = 20_000
    arguments = vectors(size)
    results, env = tune_kernel(
        "vector_add", ADD_C, size, arguments, {"vecsize": [1, 64, 4096]},
        answer=[arguments[1] + arguments[2], None, None, None], compiler_options=["-O3"], lang="C", iterations=3,
        cache=tmp_path / "vector_add", metrics={"GB/s": lambda p: size * 12e-6 / p["time"]}, out=tmp_path / "runs",
    )  # fmt: skip
    assert sorted(r["vecsize"] for r in results) == [1, 64, 4096]
    for row in results:
        assert row["time"] > 0
        assert row["GB/s"] == pytest.approx(size * 12e-6 / row["time"])
        assert min(row["times"]) <= row["time"] <= max(row["times"])
    assert env["best_config"] in results
    assert replay(env["run"]).clean
    assert "best performing configuration" in capsys.readouterr().out
    # What it caches is what others read.
    cached = json.loads((tmp_path / "vector_add.json").read_text())
    assert set(cached["cache"]) == {"1", "64", "4096"}
    imported = import_file(tmp_path / "vector_add.json", tmp_path / "imported")
    (space,) = load_spec(imported.spec)
    assert len(space.space(None).parameters) == 1
    with pytest.raises(UsageError, match="exists already"):
        tune_kernel("vector_add", ADD_C, size, arguments, {"vecsize": [1]}, cache=tmp_path / "vector_add")


def test_a_wrong_answer_ends_it(tmp_path: Path) -> None:
    arguments = vectors(1000)
    with pytest.raises(BaselineError, match="c"):
        tune_kernel("vector_add", ADD_C, 1000, arguments, {"vecsize": [1, 64]}, answer=[arguments[1], None, None, None],
                    quiet=True, out=tmp_path)  # fmt: skip


@pytest.mark.integration
def test_a_metric_that_raises_is_one_line_that_names_the_run(tmp_path: Path) -> None:
    """The run has ended by then, and its record is whole."""
    with pytest.raises(UsageError, match="the metric 'GFLOP/s' raised KeyError: 'flop'; mend it") as raised:
        tune_kernel("vector_add", ADD_C, 1000, vectors(1000), {"vecsize": [1, 64]}, quiet=True, out=tmp_path,
                    metrics={"GFLOP/s": lambda p: p["flop"] / p["time"]})  # fmt: skip
    (run,) = tmp_path.glob("*.run")
    assert str(run) in str(raised.value)
    assert replay(run).clean


def test_a_metric_that_is_no_function_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the metric 'GFLOP/s' is '1 / time'"):
        tune_kernel("vector_add", ADD_C, 1000, vectors(1000), {"vecsize": [1, 64]}, quiet=True, out=tmp_path,
                    metrics={"GFLOP/s": "1 / time"})  # fmt: skip
    assert not list(tmp_path.iterdir())


@pytest.mark.integration
def test_candidates_that_fail_have_no_time(tmp_path: Path) -> None:
    """By a call that names what Kernel Tuner leaves out."""
    source = ADD_C.replace("c[i] = a[i] + b[i]", "c[i] = a[i] + b[i] + (vecsize == 64)")
    source += "\n#if vecsize == 32\n#error no\n#endif\n"
    results, env = tune_kernel(
        "vector_add", source, 1000, vectors(1000), {"vecsize": [1, 32, 64, 128]}, quiet=True, out=tmp_path,
        verbose=False, device=0, platform=0, observers=None, verify=None, simulation_mode=False,
    )  # fmt: skip
    failed = {r["vecsize"]: str(r["time"]) for r in results if isinstance(r["time"], ErrorConfig)}
    assert failed == {32: "CompilationFailedConfig", 64: "RuntimeFailedConfig"}
    assert env["best_config"]["vecsize"] in (1, 128)


@needs.pocl
@pytest.mark.usefixtures("no_oclgrind")
def test_matmul_in_opencl_from_a_file_with_restrictions(tmp_path: Path) -> None:
    file = tmp_path / "matmul.cl"
    file.write_text(MATMUL_CL)
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    results, env = tune_kernel(
        "matmul", str(file), (64, 64), [np.zeros_like(a), a, b],
        {"block_size_x": [8, 16, 32], "block_size_y": [4, 8], "tile_size_x": [1, 2, 4]},
        grid_div_x=["block_size_x", "tile_size_x"], grid_div_y=["block_size_y"],
        restrictions=["block_size_x * tile_size_x in (16, 32)", "block_size_x >= 2 * block_size_y"],
        answer=[a @ b, None, None], atol=1e-3, quiet=True, strategy="random_sample",
        strategy_options={"max_fevals": 2}, seed=3, out=tmp_path,
    )  # fmt: skip
    assert 2 <= len(results) <= 4
    assert all(not isinstance(r["time"], ErrorConfig) for r in results)
    assert all(r["block_size_x"] >= 2 * r["block_size_y"] for r in results)
    assert env["device_name"]


@pytest.mark.integration
def test_cuda_is_checked_without_a_gpu(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    image, filter_ = (
        rng.standard_normal((66, 66)).astype(np.float32),
        rng.standard_normal((3, 3)).astype(np.float32),
    )
    path = write_kernel_spec(
        "convolution_kernel", CONVOLUTION_CU, (64, 64), [np.zeros((64, 64), np.float32), image, filter_],
        {"block_size_x": [16, 32], "block_size_y": [4, 8], "tile_size_x": [1, 2], "tile_size_y": [1, 2]},
        grid_div=(["block_size_x", "tile_size_x"], ["block_size_y", "tile_size_y"], None), folder=tmp_path,
        target="sm_90",
    )  # fmt: skip
    (spec,) = load_spec(path)
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines


def test_the_same_call_writes_the_same_spec(tmp_path: Path) -> None:
    paths = {
        write_kernel_spec("vector_add", ADD_C, 100, vectors(100), {"vecsize": [1, size]}, folder=tmp_path)
        for size in (2, 4, 2)
    }
    assert len(paths) == 2


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"restrictions": lambda p: True}, UsageError, "restrictions has a function"),
        ({"restrictions": ["blocks < 3"]}, SpecError, "names 'blocks'"),
        ({"restrictions": ["vecsize > 3"]}, SpecError, "no configuration satisfies"),
        ({"observers": [1]}, UsageError, "observers is not supported"),
        ({"verify": print}, UsageError, "give answer and atol"),
        ({"cmem_args": {"f": 1}}, UsageError, "cmem_args is not supported"),
        ({"device": 1}, UsageError, "device=1 is not supported"),
        ({"tune_parms": {}}, UsageError, "did you mean 'tune_params'"),
        (
            {"strategy": "firefly_algorithm"},
            UsageError,
            "'firefly_algorithm' is not there; one of brute_force",
        ),
        ({"strategy_options": {"popsize": 3}}, UsageError, "'popsize' is not supported"),
        ({"iterations": 0}, UsageError, "iterations is 0"),
        ({"lang": "Fortran"}, UsageError, "lang 'Fortran'"),
        ({"block_size_names": ["vecsise"]}, UsageError, "did you mean 'vecsize'"),
        ({"arguments": [1.0]}, UsageError, "takes 4 arguments"),
        ({"arguments": [1.0, 2.0, 3.0, 4.0]}, UsageError, "is a float"),
        ({"answer": [None]}, UsageError, "answer has 1 items for 4"),
        ({"answer": [None, None, None, None]}, UsageError, "None for every argument"),
        ({"answer": [np.zeros(3), None, None, None]}, UsageError, "not of its argument's shape"),
        ({"kernel_name": "vektor_add"}, UsageError, "no function 'vektor_add'"),
        ({"kernel_source": "missing.c"}, UsageError, "missing.c' cannot be read"),
        ({"kernel_source": print}, UsageError, "kernel_source is a function"),
        ({"tune_params": {"vecsize": [None]}}, UsageError, "give numbers and text"),
        ({"tune_params": {}}, UsageError, "nothing to tune"),
        ({"cache": "none/there.json"}, UsageError, "there is no folder"),
    ],
)
def test_unsupported_features_are_one_line(
    changes: dict[str, Any], error: type[Exception], says: str, tmp_path: Path
) -> None:
    call: dict[str, Any] = {
        "kernel_name": "vector_add", "kernel_source": ADD_C, "problem_size": 100, "arguments": vectors(100),
        "tune_params": {"vecsize": [1, 2]}, "out": tmp_path,
    }  # fmt: skip
    with pytest.raises(error, match=says) as raised:
        tune_kernel(**{**call, **changes})
    assert len(str(raised.value).splitlines()) == 1
