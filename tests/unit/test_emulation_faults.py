"""The CUDA examples under emulation: right as given and elsewhere in their space; small edits that make them wrong are
found, each with a message that says what and where.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from tuner.core.protocols import BaselineReport
from tuner.core.types import Source, Status, Value, Variant, Verdict
from tuner.evaluators.emulation import Emulator
from tuner.spaces.space import Space
from tuner.spec.load import LoadedSpec, load_spec

FOLDER = Path(__file__).parents[2] / "examples" / "cuda"
NAMES = sorted(p.stem for p in FOLDER.glob("*.yaml"))


@dataclass(frozen=True)
class Fault:
    name: str
    example: str
    old: str
    new: str
    status: Status
    message: str
    configuration: dict[str, Value] = field(default_factory=dict)


WRONG, CRASHED, OK = Status.WRONG_RESULT, Status.CRASHED, Status.OK
FAULTS = [
    Fault(
        "no barrier after loading", "matmul", "        __syncthreads();\n#pragma", "#pragma", WRONG,
        r"matmul\.cu:\d+: uninitialised: thread \(0, 0, 0\) .* shared left, byte 4 .*barrier",
    ),
    Fault(
        "edge of a store, inside of the array", "matmul", "if (row < n && column < n) c", "if (row < n) c", WRONG,
        r"data race: .* writes c\[\d+, 0\].*nothing orders the two blocks",
    ),
    Fault(
        "shared write too far", "matmul", "left[y][threadIdx.x] = row", "left[y][threadIdx.x + 1] = row", CRASHED,
        r"out of bounds: thread \(15, 0, 0\) .* index 16",
    ),
    Fault(
        "no atomic operation between blocks", "reduction", "atomicAdd(total, sum)", "*total += sum", WRONG,
        r"data race: .* total\[0\].*nothing orders the two blocks", {"BLOCKS": 128},
    ),
    Fault(
        "no atomic operation in a block", "reduction", "if (threadIdx.x == 0) atomicAdd(total, sum)", "*total += sum",
        WRONG, r"data race: .* reads total\[0\], which thread .* writes",
    ),
    Fault(
        "no tail", "reduction", "for (int at = n / VECTOR * VECTOR", "for (int at = n + n / VECTOR * VECTOR", WRONG,
        r"^total\[0\] is .* in n=1001", {"VECTOR": 4},
    ),
    Fault(
        "barrier in divergent code", "softmax", "    __syncthreads();\n    if (threadIdx.x % 32",
        "    if (threadIdx.x < 64) __syncthreads();\n    if (threadIdx.x % 32", WRONG,
        r"softmax\.cu:\d+: barrier in divergent code: .* waits here, thread \(64, 0, 0\) at line \d+",
    ),
    Fault(
        "integer overflow in an index", "conv2d", "image[(top + y) * width + left + x]",
        "image[((top + y + 22) * 100000000 + (top + y) * width + left + x) % 100]", WRONG,
        r"conv2d\.cu:\d+: signed integer overflow in thread",
    ),
    Fault(
        "dynamic shared memory too small", "conv2d", "const int pitch = BLOCK_X + 2 * RADIUS;",
        "const int pitch = BLOCK_X + 2 * RADIUS + 1;", CRASHED,
        r"out of bounds: .* writes dynamic shared memory, byte \d+",
    ),
    Fault(
        "border not checked", "conv2d", "left + x >= 0 && left", "left", CRASHED, r"reads image\[-3\] of 855 elements"
    ),
    Fault(
        "write past the end", "nbody", "if (body < n) force", "force", CRASHED, r"out of bounds: .* writes force\[\d+\]"
    ),
    Fault(
        "misaligned vector", "reduction", "reinterpret_cast<const float4 *>(x)",
        "reinterpret_cast<const float4 *>(x + 1)", CRASHED, r"misaligned: thread", {"VECTOR": 4},
    ),
    Fault(
        "rows that end before a barrier", "softmax", "    const float *from",
        "    if (!inside) return;\n    const float *from", OK, r"^$", {"ROWS": 4},
    ),
]  # fmt: skip


class Bench:
    """One emulator for each example, made when it is first needed."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Emulator, LoadedSpec, Space]] = {}
        self.reports: dict[str, BaselineReport] = {}

    def get(self, example: str) -> tuple[Emulator, LoadedSpec, Space]:
        if example not in self._made:
            loaded = load_spec(FOLDER / f"{example}.yaml")[0]
            verify = replace(loaded.task.verify, problems=loaded.task.verify.problems[:1])
            emulator, space = Emulator(replace(loaded.task, verify=verify)), loaded.space(None)
            self._made[example] = (emulator, loaded, space)
            report = emulator.set_baseline(space.resolve(space.default()), loaded.task.kernel.variant)
            assert report.status is OK, report.message
            self.reports[example] = report
        return self._made[example]

    def close(self) -> None:
        for emulator, _, _ in self._made.values():
            emulator.close()


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def run(bench: Bench, fault: Fault) -> Verdict:
    emulator, loaded, space = bench.get(fault.example)
    file = loaded.task.kernel.variant.files[0]
    assert fault.old in file.text
    variant = Variant(files=(Source(name=file.name, text=file.text.replace(fault.old, fault.new, 1)),))
    return emulator.verify(space.resolve({**space.default(), **fault.configuration}), variant)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name.replace(" ", "-"))
@pytest.mark.integration
def test_a_planted_fault_is_found(bench: Bench, monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    monkeypatch.setattr("tuner.evaluators.emulation.emulator._LEAST_LIMIT_S", 2.0)
    verdict = run(bench, fault)
    assert verdict.status is fault.status, verdict.message
    assert re.search(fault.message, verdict.message), verdict.message
    assert "\n" not in verdict.message


@pytest.mark.integration
def test_a_finding_tells_line_block_and_thread(bench: Bench) -> None:
    """And the example is right again after it."""
    fault = Fault(
        "no barrier before loading again",
        "matmul",
        "        __syncthreads();\n    }",
        "    }",
        WRONG,
        r"data race: thread .* reads shared left.*which thread .* writes at line \d+ with no barrier between",
    )
    verdict = run(bench, fault)
    assert verdict.status is fault.status
    assert re.search(fault.message, verdict.message), verdict.message
    detail = verdict.detail
    assert detail["finding"] == "race"
    assert detail["line"] == 36
    assert len(detail["block"]) == len(detail["thread"]) == 3
    assert detail["workload"].startswith("n=")
    emulator, loaded, space = bench.get("matmul")
    verdict = emulator.verify(space.resolve(space.default()), loaded.task.kernel.variant)
    assert (verdict.status, verdict.message) == (OK, "")


def test_the_six_are_there() -> None:
    assert NAMES == ["conv2d", "matmul", "nbody", "reduction", "softmax", "transpose"]


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES)
def test_an_example_verifies(bench: Bench, name: str) -> None:
    """As given, and with a configuration from somewhere in its space."""
    emulator, loaded, space = bench.get(name)
    report = bench.reports[name]
    assert report.reference == "python"
    assert report.call_s == ()
    assert report.notes["emulated"]
    assert not report.notes["unstable"]
    (configuration,) = space.sample(np.random.default_rng(3), 1)
    verdict = emulator.verify(
        space.resolve(configuration), loaded.task.kernel.variant, purpose="confirm", number=2
    )
    assert verdict.status is OK, (configuration, verdict.message)
    assert verdict.detail["worst"] <= 1


@pytest.mark.integration
def test_a_reference_that_is_never_finite_is_no_reference(tmp_path: Path) -> None:
    """As on the other backends: whatever a candidate gave would pass."""
    (tmp_path / "ref.py").write_text("def ref(x, n):\n    return {'y': x * float('inf') * 0}\n")
    (tmp_path / "k.cu").write_text(
        'extern "C" __global__ void k(const float *x, float *y, int n)\n'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n"
    )
    (tmp_path / "k.yaml").write_text(
        "kernel: {source: k.cu, entry: k}\ntarget: sm_90\nproblem: {n: 100}\narguments:\n"
        "  - {name: x, dtype: float32, shape: [n]}\n  - {name: y, dtype: float32, shape: [n], role: output}\n"
        "  - {name: n, dtype: int32, value: n}\n"
        'launch: {grid: ["ceil(n / BLOCK)"], block: [BLOCK]}\nspace: {parameters: {BLOCK: [32, 64]}, passes: off}\n'
        'verify: {reference: {python: "ref.py:ref"}}\n'
    )
    (loaded,) = load_spec(tmp_path / "k.yaml")
    space = loaded.space(None)
    emulator = Emulator(loaded.task)
    try:
        report = emulator.set_baseline(space.resolve(space.default()), loaded.task.kernel.variant)
    finally:
        emulator.close()
    assert report.status is Status.WRONG_RESULT
    assert report.message.startswith("nothing is compared: what is expected has no finite element")
