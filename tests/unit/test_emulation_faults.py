"""Small edits of the CUDA examples that make them wrong, each found with a message that says what and where."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tuner.core.types import Source, Status, Value, Variant, Verdict
from tuner.evaluators.emulation import Emulator
from tuner.spaces.space import Space
from tuner.spec.load import LoadedSpec, load_spec

FOLDER = Path(__file__).parents[2] / "examples" / "cuda"


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
        "no barrier before loading again", "matmul", "        __syncthreads();\n    }", "    }", WRONG,
        r"data race: thread .* reads shared left.*which thread .* writes at line \d+ with no barrier between",
    ),
    Fault(
        "edge of a load", "matmul", "row < n && at + threadIdx.x < n ? ", "at + threadIdx.x < n ? ", CRASHED,
        r"out of bounds: .* reads a\[1089\] of 1089 elements",
    ),
    Fault(
        "edge of a store, inside of the array", "matmul", "if (row < n && column < n) c", "if (row < n) c", WRONG,
        r"data race: .* writes c\[\d+, 0\].*nothing orders the two blocks",
    ),
    Fault(
        "edge of a store, outside", "matmul", "if (row < n && column < n) c", "if (column < n) c", CRASHED,
        r"out of bounds: .* writes c\[\d+\] of 1089 elements",
    ),
    Fault(
        "loop too short", "matmul", "k < TILE;", "k < TILE - 1;", WRONG, r"^c\[0, 0\] is .*, expected "
    ),
    Fault(
        "loop too long", "matmul", "k < TILE;", "k <= TILE;", CRASHED, r"matmul\.cu:36: out of bounds: .* index 16"
    ),
    Fault(
        "shared write too far", "matmul", "left[y][threadIdx.x] = row", "left[y][threadIdx.x + 1] = row", CRASHED,
        r"out of bounds: thread \(15, 0, 0\) .* index 16",
    ),
    Fault(
        "operands swapped", "matmul", "right[k][threadIdx.x]", "right[threadIdx.x][k]", WRONG, r"^c\[0, 0\] is "
    ),
    Fault(
        "shared memory read before it is written", "transpose", "tile[threadIdx.y + j][threadIdx.x] = in",
        "if (j) tile[threadIdx.y + j][threadIdx.x] = in", WRONG, r"uninitialised: .* reads shared tile, byte 0",
    ),
    Fault(
        "index not transposed", "transpose", "tile[threadIdx.x][threadIdx.y + j]", "tile[threadIdx.y + j][threadIdx.x]",
        WRONG, r"(uninitialised|expected)",
    ),
    Fault(
        "pitch of the wrong side", "transpose", "out[(ty + j) * height + tx]", "out[(ty + j) * width + tx]", CRASHED,
        r"out of bounds: .* writes out\[\d+\] of 2310",
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
        "wrong lane of a shuffle", "reduction", "__shfl_down_sync(0xffffffffu, sum, by)",
        "__shfl_down_sync(0xffffffffu, sum, by + 1)", WRONG, r"^total\[0\] is ",
    ),
    Fault(
        "wrong mask of a shuffle", "reduction", "__shfl_down_sync(0xffffffffu, sum, by)",
        "__shfl_down_sync(0xffffu, sum, by)", WRONG, r"thread \(16, 0, 0\) .*mask 0x0000ffff leaves it out",
    ),
    Fault(
        "shuffle in divergent code", "reduction", "    if (threadIdx.x < 32) {",
        "    if (threadIdx.x % 32 < 4) {", WRONG,
        r"(warp operation|total\[0\] is|out of bounds|uninitialised)",
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
        "read past the end", "nbody", "body < n ? bodies[body] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);\n        sum",
        "bodies[body];\n        sum", CRASHED, r"out of bounds: .* reads bodies\[308\] of 308",
    ),
    Fault(
        "input written", "nbody", "if (body < n) force[body]", "if (body < n) ((float4 *)bodies)[body]", WRONG,
        r"writes to bodies\[0, 0\], an input",
    ),
    Fault(
        "misaligned vector", "reduction", "reinterpret_cast<const float4 *>(x)",
        "reinterpret_cast<const float4 *>(x + 1)", CRASHED, r"misaligned: thread", {"VECTOR": 4},
    ),
    Fault(
        "never ends", "reduction", "    if (threadIdx.x < 32) {",
        "    while (atomicAdd(total, 0.0f) > -1e30f) {}\n    if (threadIdx.x < 32) {", Status.TIMED_OUT,
        r"did not end under emulation",
    ),
    Fault(
        "does not compile", "reduction", "float sum = 0.0f;", "float sum = 0.0f", Status.BUILD_ERROR,
        r"reduction\.cu:14:\d+: error: expected ';'",
    ),
    Fault(
        "too much shared memory", "matmul", "float left[TILE][TILE", "float left[TILE * 64][TILE",
        Status.OUT_OF_RESOURCES, r"66560 bytes of static shared memory, at most 49152 are possible",
    ),
    Fault("nothing changed", "matmul", "int k = 0", "int k = 0", OK, r"^$"),
    Fault(
        "rows that end before a barrier", "softmax", "    const float *from",
        "    if (!inside) return;\n    const float *from", OK, r"^$", {"ROWS": 4},
    ),
]  # fmt: skip


class Bench:
    """One emulator for each example, made when it is first needed."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Emulator, LoadedSpec, Space]] = {}

    def get(self, example: str) -> tuple[Emulator, LoadedSpec, Space]:
        if example not in self._made:
            loaded = load_spec(FOLDER / f"{example}.yaml")[0]
            emulator, space = Emulator(loaded.task), loaded.space(None)
            self._made[example] = (emulator, loaded, space)
            report = emulator.set_baseline(space.resolve(space.default()), loaded.task.kernel.variant)
            assert report.status is OK, report.message
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
    fault = next(f for f in FAULTS if f.name == "no barrier before loading again")
    detail = run(bench, fault).detail
    assert detail["finding"] == "race"
    assert detail["line"] == 36
    assert len(detail["block"]) == len(detail["thread"]) == 3
    assert detail["workload"].startswith("n=")


@pytest.mark.integration
def test_an_example_is_right_again_after_a_fault(bench: Bench) -> None:
    emulator, loaded, space = bench.get("matmul")
    verdict = emulator.verify(space.resolve(space.default()), loaded.task.kernel.variant)
    assert verdict.status is OK
