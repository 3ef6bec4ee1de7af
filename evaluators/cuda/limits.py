"""What an NVIDIA architecture offers one block and one multiprocessor; what fits, and how much of it at once.

Numbers only: it asks no device. A device that is there may hand in its own numbers instead of the table's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.core.errors import SpecError
from tuner.spaces.launch import Geometry

__all__ = ["KNOWN", "Architecture", "Usage", "architecture", "occupancy", "over_limit"]

_KIB = 1024
_WARP = 32
_REGISTERS = 65536
_REGISTER_UNIT = 256
_MOST_REGISTERS = 255
_MOST_THREADS = 1024
_BLOCK_AXES = (1024, 1024, 64)
_GRID_AXES = ((1 << 31) - 1, 65535, 65535)
_PARTITIONS = 4
_DEFAULT_SHARED = 48 * _KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """One compute capability.

    Attributes:
        name: ``sm_90`` and so on.
        shared_sm_bytes: shared memory of one multiprocessor at most.
        shared_block_bytes: of one block, after opting in above 48 KiB.
        shared_reserved_bytes: what the system takes of each block's share.
        shared_unit_bytes: shared memory is given out in these steps.
        warps: that one multiprocessor holds; ``blocks`` likewise.
    """

    name: str
    shared_sm_bytes: int
    shared_block_bytes: int
    shared_reserved_bytes: int = _KIB
    shared_unit_bytes: int = 128
    warps: int = 64
    blocks: int = 32


def _row(name: str, shared_sm: int, shared_block: int, warps: int, blocks: int) -> Architecture:
    return Architecture(
        name=name,
        shared_sm_bytes=shared_sm * _KIB,
        shared_block_bytes=shared_block * _KIB,
        warps=warps,
        blocks=blocks,
    )


KNOWN: Mapping[str, Architecture] = {
    row.name: row
    for row in (
        Architecture(
            name="sm_75",
            shared_sm_bytes=64 * _KIB,
            shared_block_bytes=64 * _KIB,
            shared_reserved_bytes=0,
            shared_unit_bytes=256,
            warps=32,
            blocks=16,
        ),
        _row("sm_80", 164, 163, 64, 32),
        _row("sm_86", 100, 99, 48, 16),
        _row("sm_87", 164, 163, 48, 16),
        _row("sm_89", 100, 99, 48, 24),
        _row("sm_90", 228, 227, 64, 32),
        _row("sm_100", 228, 227, 64, 32),
        _row("sm_103", 228, 227, 64, 32),
        _row("sm_110", 228, 227, 48, 24),
        _row("sm_120", 100, 99, 48, 24),
        _row("sm_121", 100, 99, 48, 24),
    )
}
"""CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; block limits and granularity as in
``cuda_occupancy.h`` of CUDA 13."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one kernel takes, read from its cubin.

    Attributes:
        registers: of one thread.
        static_shared_bytes: of one block, beside the launch's dynamic part.
        most_threads: of one block by ``__launch_bounds__``; 0 where there are none.
    """

    registers: int
    static_shared_bytes: int = 0
    most_threads: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """How full one multiprocessor is: blocks and warps at once, the share of its warps, and what ends it first."""

    blocks: int
    warps: int
    share: float
    limit: str


def architecture(name: str) -> Architecture | None:
    """The row for ``sm_90``, ``sm_90a`` and the like; ``None`` for one that the table lacks.

    Raises:
        SpecError: not an architecture's name at all.
    """
    found = re.fullmatch(r"(sm_\d{2,3})([af]?)", name)
    if found is None:
        raise SpecError(f"{name!r} is no CUDA architecture", "write native, sm_80, sm_90 and so on")
    return KNOWN.get(found[1])


def over_limit(usage: Usage, geometry: Geometry, arch: Architecture | None) -> str:
    """Why a launch cannot start on an architecture, one line; empty where it can.

    Args:
        usage: of the kernel.
        geometry: of the launch.
        arch: ``None`` checks only what holds for all of them.
    """
    for what, axes, most in (("grid", geometry.grid, _GRID_AXES), ("block", geometry.block, _BLOCK_AXES)):
        for axis, value, limit in zip("xyz", axes, most, strict=True):
            if value > limit:
                return f"{what}.{axis} is {value}, at most {limit} is possible"
    if geometry.threads > _MOST_THREADS:
        shape = "x".join(map(str, geometry.block))
        return f"a block of {shape} has {geometry.threads} threads, at most {_MOST_THREADS} are possible"
    if usage.most_threads and geometry.threads > usage.most_threads:
        return f"a block of {geometry.threads} threads, but __launch_bounds__ promises {usage.most_threads}"
    if _block_registers(usage, geometry.threads) > _REGISTERS:
        return (
            f"{usage.registers} registers for each of {geometry.threads} threads, "
            f"a multiprocessor has {_REGISTERS}"
        )
    if arch is None:
        return ""
    shared = usage.static_shared_bytes + geometry.shared_bytes
    if shared > arch.shared_block_bytes:
        return f"a block takes {shared} bytes of shared memory, {arch.name} has {arch.shared_block_bytes}"
    if usage.static_shared_bytes > _DEFAULT_SHARED:
        return f"{usage.static_shared_bytes} bytes of static shared memory, at most {_DEFAULT_SHARED} are possible"
    return ""


def occupancy(usage: Usage, geometry: Geometry, arch: Architecture) -> Occupancy:
    """Blocks and warps that one multiprocessor holds at once; no blocks where :func:`over_limit` objects.

    The rules are those of the CUDA occupancy calculator (``cuda_occupancy.h``): registers are given to warps in
    units of 256, warps to four partitions, shared memory in steps with what the system reserves.
    """
    if over_limit(usage, geometry, arch):
        return Occupancy(blocks=0, warps=0, share=0.0, limit="resources")
    warps = -(-geometry.threads // _WARP)
    by = {"blocks": arch.blocks, "warps": arch.warps // warps}
    if usage.registers:
        per_warp = _round_up(usage.registers * _WARP, _REGISTER_UNIT)
        by["registers"] = (_REGISTERS // _PARTITIONS // per_warp) * _PARTITIONS // warps
    shared = usage.static_shared_bytes + geometry.shared_bytes
    taken = _round_up(shared + arch.shared_reserved_bytes, arch.shared_unit_bytes) if shared else 0
    if taken:
        by["shared"] = arch.shared_sm_bytes // taken
    limit = min(by, key=lambda name: by[name])
    blocks = by[limit]
    return Occupancy(blocks=blocks, warps=blocks * warps, share=blocks * warps / arch.warps, limit=limit)


def _block_registers(usage: Usage, threads: int) -> int:
    warps = _round_up(-(-threads // _WARP), _PARTITIONS)
    return warps * _round_up(min(usage.registers, _MOST_REGISTERS) * _WARP, _REGISTER_UNIT)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
