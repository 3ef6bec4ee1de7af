"""What fits an architecture, and how full a multiprocessor is: against numbers of NVIDIA's occupancy calculator."""

from __future__ import annotations

import pytest

from tuner.core.errors import SpecError
from tuner.evaluators.cuda.limits import KNOWN, Usage, architecture, occupancy, over_limit
from tuner.spaces.launch import Geometry


def launch(threads: int, shared: int = 0, *, grid: tuple[int, int, int] = (8, 1, 1)) -> Geometry:
    """A one-dimensional block."""
    return Geometry(grid=grid, block=(threads, 1, 1), shared_bytes=shared)


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks", "limit"),
    [
        ("sm_90", 256, 32, 0, 8, "warps"),
        ("sm_90", 256, 64, 0, 4, "registers"),
        ("sm_90", 256, 65, 0, 3, "registers"),
        ("sm_90", 256, 255, 0, 1, "registers"),
        ("sm_90", 128, 32, 48 << 10, 4, "shared"),
        ("sm_90", 128, 32, 227 << 10, 1, "shared"),
        ("sm_90", 32, 16, 0, 32, "blocks"),
        ("sm_86", 256, 32, 0, 6, "warps"),
        ("sm_86", 32, 16, 0, 16, "blocks"),
        ("sm_80", 1024, 32, 0, 2, "warps"),
        ("sm_75", 512, 32, 32 << 10, 2, "warps"),
        ("sm_89", 128, 40, 0, 12, "warps"),
    ],
)
def test_occupancy(arch: str, threads: int, registers: int, shared: int, blocks: int, limit: str) -> None:
    found = occupancy(Usage(registers=registers), launch(threads, shared), KNOWN[arch])
    assert (found.blocks, found.limit) == (blocks, limit)
    assert found.share == found.warps / KNOWN[arch].warps


@pytest.mark.parametrize(
    ("usage", "geometry", "says"),
    [
        (Usage(registers=32), launch(2048), "block.x is 2048"),
        (Usage(registers=32), Geometry(grid=(1, 1, 1), block=(64, 32, 1)), "2048 threads"),
        (Usage(registers=32), Geometry(grid=(1, 1, 1), block=(1, 1, 65)), "block.z is 65"),
        (Usage(registers=32), launch(32, grid=(1, 65536, 1)), "grid.y is 65536"),
        (Usage(registers=255), launch(512), "255 registers"),
        (Usage(registers=32, most_threads=128), launch(256), "__launch_bounds__ promises 128"),
        (Usage(registers=32, static_shared_bytes=1), launch(32, 227 << 10), "shared memory"),
        (Usage(registers=32, static_shared_bytes=50000), launch(32), "static shared"),
    ],
)
def test_over_a_limit(usage: Usage, geometry: Geometry, says: str) -> None:
    assert says in over_limit(usage, geometry, KNOWN["sm_90"])
    assert occupancy(usage, geometry, KNOWN["sm_90"]).blocks == 0


def test_launches_within_limits_pass() -> None:
    assert over_limit(Usage(registers=64), launch(1024, 227 << 10), KNOWN["sm_90"]) == ""
    assert over_limit(Usage(registers=64), launch(1024, 1 << 30), None) == ""


def test_names_of_architectures() -> None:
    assert architecture("sm_90a") is KNOWN["sm_90"]
    assert architecture("sm_61") is None
    for name in ("sm90", "hopper", "compute_90", "sm_90x", ""):
        with pytest.raises(SpecError, match="no CUDA architecture"):
            architecture(name)
