"""Results that depend on the order in which threads run, misaligned vectors in shared memory, shifts too far."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from spec_files import spec_in

from tuner.core.protocols import BaselineReport
from tuner.core.types import Status
from tuner.evaluators.emulation import Emulator, emulator
from tuner.evaluators.host.runner import CandidateFailed

SPEC = """\
kernel: {source: k.cu, entry: k}
target: sm_90
problem: {n: 300}
arguments:
  - {name: x, dtype: float32, shape: [n], init: normal}
  - {name: y, dtype: float32, shape: [n], role: inout, init: zeros}
  - {name: n, dtype: int32, value: n}
launch: {grid: ["ceil(n / 64)"], block: [64]}
verify: {problems: [{n: 67}]}
"""
HEAD = "__global__ void k(const float *x, float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; "


def verified(folder: Path, body: str) -> BaselineReport:
    """A kernel as the baseline, with itself as the only reference."""
    loaded = spec_in(folder, "k.cu", HEAD + body + " }\n", SPEC)
    space = loaded.space(None)
    emulator = Emulator(loaded.task)
    try:
        return emulator.set_baseline(space.resolve(space.default()), loaded.task.kernel.variant)
    finally:
        emulator.close()


SUMS = "for (int m = 16; m; m /= 2) v += __shfl_down_sync(~0u, v, m); if (threadIdx.x % 32 == 0) y[i] = v;"


@pytest.mark.parametrize(
    "body",
    [
        "if (i >= n) return; float v = x[i]; " + SUMS,
        "__shared__ int at; if (threadIdx.x == 0) at = 0; __syncthreads(); if (i < n) y[blockIdx.x * 64 + "
        "atomicAdd(&at, 1)] = x[i];",
    ],
)
@pytest.mark.integration
def test_a_result_without_a_fixed_order_is_found(tmp_path: Path, body: str) -> None:
    report = verified(tmp_path, body)
    assert report.status is Status.WRONG_RESULT
    assert "gives another y when its threads run in another order, in n=67, given: y[" in report.message


@pytest.mark.parametrize(
    "body",
    [
        "float v = i < n ? x[i] : 0; for (int m = 16; m; m /= 2) v += __shfl_down_sync(~0u, v, m);"
        " if (threadIdx.x % 32 == 0 && i < n) y[i] = v;",
        # Taken from lanes that have ended, and not used.
        "if (i >= n) return; float v = __shfl_down_sync(~0u, x[i], 1);"
        " if (i < n - 1 && threadIdx.x % 32 < 31) y[i] = v;",
        "if (i < n) atomicAdd(&y[0], x[i]);",
    ],
)
@pytest.mark.integration
def test_look_alike_races_pass(tmp_path: Path, body: str) -> None:
    report = verified(tmp_path, body)
    assert report.status is Status.OK, report.message


FILL = (
    "__shared__ float s[68]; s[threadIdx.x] = i < n ? x[i] : 0; if (threadIdx.x < 4) s[64 + threadIdx.x] = 0;"
    " __syncthreads(); "
)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (FILL + "\nfloat4 v = *reinterpret_cast<float4 *>(&s[threadIdx.x]); if (i < n) y[i] = v.x + v.w;", 2),
        (
            "__shared__ float s[67];\n*(float4 *)&s[1 + i % 8] = make_float4(1, 2, 3, 4); if (i < n) y[i] = 1;",
            2,
        ),
    ],
)
@pytest.mark.integration
def test_a_vector_in_shared_memory_at_an_odd_address_is_found(tmp_path: Path, body: str, line: int) -> None:
    report = verified(tmp_path, body)
    assert report.status is Status.CRASHED
    assert report.message.startswith(f"k.cu:{line}: misaligned: thread (")


@pytest.mark.integration
def test_vectors_and_structures_where_they_may_lie_pass(tmp_path: Path) -> None:
    report = verified(
        tmp_path,
        "struct Four { float a, b, c, d; }; "
        + FILL
        + "float4 v = *reinterpret_cast<float4 *>(&s[threadIdx.x / 4 * 4]);"
        " Four w = *(Four *)&s[threadIdx.x]; float3 u = *(float3 *)&s[threadIdx.x];"
        " if (i < n) y[i] = v.x + v.w + w.a + w.d + u.x + u.z;",
    )
    assert report.status is Status.OK, report.message


@pytest.mark.integration
def test_a_shift_by_as_many_bits_as_there_are_is_found(tmp_path: Path) -> None:
    report = verified(tmp_path, "if (i < n)\ny[i] = x[i] + (float)(~0u >> (32 - i));")
    assert report.status is Status.WRONG_RESULT
    assert "k.cu:2: a shift by as many bits as the type has, or more, in thread (0, 0, 0)" in report.message
    report = verified(tmp_path, "if (i < n) y[i] = x[i] + (float)(1 << 31) + (-8 >> 1);")
    assert report.status is Status.OK, report.message


def test_a_null_pointer_is_not_called_an_element_of_an_array(tmp_path: Path) -> None:
    report = verified(tmp_path, "if (i == n - 1) *(float *)16 = 1; if (i < n) y[i] = x[i];")
    assert report.status is Status.CRASHED
    assert "writes memory far from every array (a null pointer?) (4 bytes)" in report.message


@pytest.mark.integration
def test_a_kernel_without_an_end_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator, "_BASELINE_S", 0.5)
    waited, run = [], emulator.Runner.run

    def watched(*arguments: Any) -> list[float]:
        try:
            return run(*arguments)
        except CandidateFailed as failed:
            waited.append(failed.status)
            raise

    monkeypatch.setattr(emulator.Runner, "run", watched)
    report = verified(tmp_path, "volatile int on = 1; while (on) {} if (i < n) y[i] = x[i];")
    assert report.status is Status.TIMED_OUT
    assert "no end within 0.5 s in n=67" in report.message
    assert waited == [Status.TIMED_OUT]
