"""Made-up spaces of GPU kernels for the search benchmark, for those who have no recorded ones, and to tune to none.

A kernel's time comes from a rough model of a card: waves of blocks over its cores, occupancy from registers and shared
memory, wasted lanes and sectors, spilling, instruction overhead that unrolling saves, and some percent that no model
explains. What does not fit into a block fails. The same files come out every time. Nothing here was fitted to anything
measured, and no figure on these spaces says how a search does on a real card.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tuner.core.expressions import parse
from tuner.core.types import Status, Value
from tuner.evaluators.recorded.spaces import RecordedSpace, Row, key_of

__all__ = ["write_made"]

_REPEATS = 3
_ROUGHNESS = 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class _Card:
    """What the model knows of a card; bandwidth and rate are per microsecond."""

    cores: int
    warp: int
    registers: int
    shared: int
    block_shared: int
    threads: int
    bandwidth: float
    rate: float
    launch: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What a configuration asks of the card.

    Attributes:
        blocks: how many there are.
        threads: of a block.
        registers: of a thread.
        shared: bytes of a block.
        sectors: bytes that cross the bus, waste included.
        instructions: of all threads.
        parallel: independent operations of one thread, which hide latency as more threads do.
    """

    blocks: float
    threads: int
    registers: float
    shared: float
    sectors: float
    instructions: float
    parallel: float


_CARDS = {
    "wide": _Card(
        cores=96,
        warp=32,
        registers=65_536,
        shared=102_400,
        block_shared=49_152,
        threads=1536,
        bandwidth=1.2e6,
        rate=1.5e7,
        launch=4.0,
    ),
    "narrow": _Card(
        cores=28,
        warp=64,
        registers=131_072,
        shared=65_536,
        block_shared=65_536,
        threads=2048,
        bandwidth=3.5e5,
        rate=8.0e6,
        launch=7.0,
    ),
}

_Parameters = dict[str, tuple[Value, ...]]


def _matmul(c: Mapping[str, int], card: _Card) -> _Work:
    size = 2048
    threads = c["BX"] * c["BY"]
    tile_x, tile_y = c["BX"] * c["TX"], c["BY"] * c["TY"]
    blocks = math.ceil(size / tile_x) * math.ceil(size / tile_y)
    loaded = (tile_x + tile_y) * size * 8.0
    wasted = max(1.0, 4.0 / (c["BX"] * c["VEC"]))
    conflicts = 1.0 if c["PAD"] or tile_x % 32 else 1.25
    inner = c["TX"] * c["TY"] * size * (1.0 + conflicts * (1 / c["TX"] + 1 / c["TY"]) / c["VEC"] ** 0.5)
    loop = size / c["UNROLL"] * 2.0 + size / c["KT"] * 24.0
    return _Work(
        blocks=blocks,
        threads=threads,
        registers=18 + 2 * c["TX"] * c["TY"] + 4 * (c["TX"] + c["TY"]) + 3 * c["UNROLL"],
        shared=8.0 * (tile_x + tile_y + (2 if c["PAD"] else 0)) * c["KT"],
        sectors=blocks * loaded * wasted / 2.0,
        instructions=blocks * threads * (inner + loop),
        parallel=min(c["TX"] * c["TY"], 8),
    )


def _stencil(c: Mapping[str, int], card: _Card) -> _Work:
    width, height, radius = 8192, 4096, 4
    threads = c["BX"] * c["BY"]
    tile_x, tile_y = c["BX"] * c["TX"], c["BY"] * c["TY"]
    blocks = math.ceil(width / tile_x) * math.ceil(height / tile_y)
    halo = (tile_x + 2 * radius) * (tile_y + 2 * radius)
    cached = {"none": 2.2, "shared": 1.0, "texture": 1.5}[str(c["CACHE"])]
    reads = tile_x * tile_y + (halo - tile_x * tile_y) * cached
    strided = 1.0 if c["STRIDED"] or c["TX"] == 1 else min(c["TX"], 4) ** 0.5
    wasted = strided * max(1.0, 32.0 / c["BX"]) ** 0.5
    points = c["TX"] * c["TY"]
    each = 17.0 * (1.0 + 0.5 / min(c["UNROLL"], points)) * (1.3 if c["CACHE"] == "none" else 1.0)
    return _Work(
        blocks=blocks,
        threads=threads,
        registers=20 + 2.5 * points + (6 if c["CACHE"] == "texture" else 0),
        shared=4.0 * halo if c["CACHE"] == "shared" else 0.0,
        sectors=blocks * (reads * wasted + tile_x * tile_y) * 4.0,
        instructions=blocks * threads * (points * each + 40.0),
        parallel=min(points, 6),
    )


def _reduction(c: Mapping[str, int], card: _Card) -> _Work:
    length = 1 << 25
    threads, items = c["BLOCK"], c["ITEMS"] * c["VEC"]
    blocks = min(math.ceil(length / (threads * items)), c["WAVES"] * card.cores)
    final = {"shuffle": 10.0, "shared": 8.0 * math.log2(threads), "atomic": 1.5 * threads}[str(c["METHOD"])]
    steps = length / (blocks * threads * c["VEC"])
    return _Work(
        blocks=blocks,
        threads=threads,
        registers=14 + 2 * items + c["UNROLL"],
        shared=4.0 * threads if c["METHOD"] == "shared" else 256.0,
        sectors=length * 4.0 * (1.0 + 0.15 * (c["VEC"] == 1) + 0.1 * (threads % 64 > 0)),
        instructions=blocks * threads * (steps * (2.0 + c["VEC"] + 3.0 / c["UNROLL"]) + 8.0 * final),
        parallel=min(items, 12),
    )


_KERNELS: Mapping[str, tuple[_Parameters, tuple[str, ...], Callable[[Mapping[str, int], _Card], _Work]]] = {
    "matmul": (
        {
            "BX": (4, 8, 16, 32, 64),
            "BY": (4, 8, 16, 32),
            "TX": (1, 2, 4, 8),
            "TY": (1, 2, 4, 8),
            "KT": (4, 8, 16, 32),
            "VEC": (1, 2, 4),
            "UNROLL": (1, 4, 8),
            "PAD": (0, 1),
        },
        ("32 <= BX * BY <= 1024", "KT % UNROLL == 0", "TX % VEC == 0", "BX * TX <= 256", "BY * TY <= 256"),
        _matmul,
    ),
    "stencil": (
        {
            "BX": (8, 16, 32, 48, 64, 96, 128, 256),
            "BY": (1, 2, 3, 4, 8, 16),
            "TX": (1, 2, 3, 4, 8),
            "TY": (1, 2, 3, 4, 8),
            "UNROLL": (1, 4),
            "CACHE": ("none", "shared", "texture"),
            "STRIDED": (0, 1),
        },
        ("BX * BY >= 32", "BX * BY <= 1024", "UNROLL <= TX * TY"),
        _stencil,
    ),
    "reduction": (
        {
            "BLOCK": tuple(range(64, 1025, 64)),
            "ITEMS": (1, 2, 3, 4, 8, 16),
            "VEC": (1, 2, 4),
            "UNROLL": (1, 2, 4, 8),
            "WAVES": (1, 2, 4, 8, 16),
            "METHOD": ("shuffle", "shared", "atomic"),
        },
        ("ITEMS % UNROLL == 0",),
        _reduction,
    ),
}


def write_made(folder: Path, matches: Sequence[str] = ("",)) -> list[Path]:
    """Writes kernels on cards as recorded spaces; files that are there stay.

    Args:
        folder: made when it is missing.
        matches: only spaces whose names contain one of these.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for (name, (parameters, restrictions, work)), device in itertools.product(_KERNELS.items(), _CARDS):
        path = folder / f"made-{name}__{device}.json"
        if not any(match in path.name for match in matches):
            continue
        paths.append(path)
        if not path.exists():
            made = _space(name, device, parameters, restrictions, work)
            waiting = path.with_suffix(".part")
            waiting.write_text(made.to_text())
            waiting.rename(path)
    return paths


def _space(
    name: str,
    device: str,
    parameters: _Parameters,
    restrictions: Sequence[str],
    work: Callable[[Mapping[str, int], _Card], _Work],
) -> RecordedSpace:
    card = _CARDS[device]
    checks = [parse(text) for text in restrictions]
    rng = np.random.default_rng([len(name), *name.encode(), *device.encode()])
    # What no model explains goes with single values and pairs of them, as instruction schedules and cache sets do.
    rough = {
        pair: rng.normal(0.0, _ROUGHNESS, (len(parameters[pair[0]]), len(parameters[pair[1]])))
        for pair in itertools.combinations(parameters, 2)
    }
    rows = {}
    for places in itertools.product(*(range(len(values)) for values in parameters.values())):
        chosen = {n: v[i] for (n, v), i in zip(parameters.items(), places, strict=True)}
        if not all(bool(check.evaluate(chosen)) for check in checks):
            continue
        at = dict(zip(parameters, places, strict=True))
        unexplained = sum(float(table[at[a], at[b]]) for (a, b), table in rough.items())
        time_us = _time_us(work(chosen, card), card)  # type: ignore[arg-type]
        rows[key_of(chosen.values())] = _row(time_us, unexplained, rng)
    return RecordedSpace(
        kernel=f"made-{name}",
        device=device,
        parameters=parameters,
        rows=rows,
        restrictions=tuple(restrictions),
        source={"made": "by a rough model of a card; not measured"},
    )


def _row(time_us: float | None, unexplained: float, rng: np.random.Generator) -> Row:
    compile_s = float(rng.uniform(0.4, 1.2))
    noise = rng.normal(0.0, 0.003, _REPEATS)
    if time_us is None:
        return Row(status=Status.CRASHED, compile_s=compile_s, run_s=0.01)
    times = tuple(1e-6 * time_us * math.exp(unexplained + float(n)) for n in noise)
    return Row(status=Status.OK, times_s=times, compile_s=compile_s, run_s=0.05 + 7.0 * sum(times))


def _time_us(work: _Work, card: _Card) -> float | None:
    """Microseconds of one launch, or ``None`` where a block does not fit."""
    spilled = max(0.0, work.registers - 255.0)
    registers = min(work.registers, 255.0)
    warps = math.ceil(work.threads / card.warp)
    held = registers * warps * card.warp
    if work.shared > card.block_shared or held > card.registers or work.threads > 1024:
        return None
    resident = min(
        card.threads // (warps * card.warp),
        int(card.registers // held),
        int(card.shared // max(work.shared, 1.0)),
        24,
    )
    if resident == 0:
        return None
    busy = min(1.0, resident * warps * card.warp / card.threads * work.parallel**0.6 * 1.6)
    waves = work.blocks / (resident * card.cores)
    tail = math.ceil(waves) / waves if waves < 40 else 1.0
    lanes = warps * card.warp / work.threads
    compute = work.instructions * lanes * (1.0 + 0.05 * spilled) / card.rate / 10.0
    memory = (work.sectors + work.instructions * 0.02 * spilled) / card.bandwidth
    slow, fast = max(compute, memory), min(compute, memory)
    return card.launch + (slow + 0.3 * fast) * tail / busy**0.7
