"""Limits of CUDA devices that a launch must keep, known without a device."""

from __future__ import annotations

import re

from tuner.spaces.launch import Geometry

__all__ = ["architecture_macro", "barrier_counts_ended", "over_limit"]

_STATIC_BYTES = 48 << 10
_THREADS = 1024
_BLOCK_AXES = (1024, 1024, 64)
_GRID_AXES = ((1 << 31) - 1, 65535, 65535)
# CUDA C++ Programming Guide, technical specifications by compute capability, shared memory of a block in KiB.
_DYNAMIC_KIB = {
    70: 96,
    72: 96,
    75: 64,
    80: 163,
    86: 99,
    87: 163,
    89: 99,
    90: 227,
    100: 227,
    103: 227,
    120: 99,
}
_LARGEST_KIB = 227
_INDEPENDENT = 70


def _capability(target: str) -> int | None:
    found = re.match(r"(?:sm|compute)_(\d+)", target)
    return int(found[1]) if found else None


def over_limit(geometry: Geometry, static_bytes: int, target: str) -> str:
    """Which limit a launch is over, one line; empty for none.

    Args:
        geometry: of the launch.
        static_bytes: shared memory of fixed size.
        target: for example ``sm_90``; the largest limits where it is unknown.
    """
    if geometry.threads > _THREADS:
        return f"a block of {geometry.threads} threads; {_THREADS} are possible"
    for what, sizes, most in (("block", geometry.block, _BLOCK_AXES), ("grid", geometry.grid, _GRID_AXES)):
        for axis, size, limit in zip("xyz", sizes, most, strict=True):
            if size > limit:
                return f"{what}.{axis} is {size}; {limit} is possible"
    if static_bytes > _STATIC_BYTES:
        return f"{static_bytes} bytes of static shared memory; {_STATIC_BYTES} are possible"
    capability = _capability(target)
    kib = _DYNAMIC_KIB.get(capability, _LARGEST_KIB) if capability is not None else _LARGEST_KIB
    if capability is not None and capability < _INDEPENDENT:
        kib = 48
    total = static_bytes + geometry.shared_bytes
    if total > kib << 10:
        return f"a block takes {total} bytes of shared memory; {target} has {kib << 10}"
    return ""


def barrier_counts_ended(target: str) -> bool:
    """Whether a barrier also waits for threads that have ended: so before independent thread scheduling."""
    capability = _capability(target)
    return capability is not None and capability < _INDEPENDENT


def architecture_macro(target: str) -> str:
    """``__CUDA_ARCH__`` as a definition; that of sm_90 where the target names no architecture."""
    return f"-D__CUDA_ARCH__={10 * (_capability(target) or 90)}"
