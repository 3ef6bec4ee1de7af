"""What emulation has to know of the architecture that a kernel is meant for."""

from __future__ import annotations

import re

from tuner.evaluators.cuda.limits import Usage, architecture
from tuner.evaluators.cuda.limits import over_limit as over_limit_of
from tuner.spaces.launch import Geometry

__all__ = ["architecture_macro", "barrier_counts_ended", "over_limit"]

_STATIC_BYTES = 48 << 10
_INDEPENDENT = 70
_ASSUMED = 90


def over_limit(geometry: Geometry, static_bytes: int, target: str) -> str:
    """Which limit a launch is over, one line; empty for none.

    Args:
        geometry: of the launch.
        static_bytes: shared memory of fixed size.
        target: for example ``sm_90``; only what holds for all architectures where it names none.
    """
    if static_bytes > _STATIC_BYTES:
        return f"{static_bytes} bytes of static shared memory, at most {_STATIC_BYTES} are possible"
    known = architecture(target) if _capability(target) is not None else None
    return over_limit_of(Usage(registers=0, static_shared_bytes=static_bytes), geometry, known)


def barrier_counts_ended(target: str) -> bool:
    """Whether a barrier also waits for threads that have ended: so before independent thread scheduling."""
    capability = _capability(target)
    return capability is not None and capability < _INDEPENDENT


def architecture_macro(target: str) -> str:
    """``__CUDA_ARCH__`` as a definition; that of sm_90 where the target names no architecture."""
    return f"-D__CUDA_ARCH__={10 * (_capability(target) or _ASSUMED)}"


def _capability(target: str) -> int | None:
    found = re.fullmatch(r"sm_(\d{2,3})[af]?", target)
    return int(found[1]) if found else None
