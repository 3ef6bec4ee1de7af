"""Numbers of a machine, by which runs on like machines are found. May not look at a machine: all is in the record.

| name | from | unit |
|---|---|---|
| ``machine_cores`` | the processors that the run may use (scheduler affinity) | cores |
| ``machine_l1_bytes``, ``machine_l2_bytes``, ``machine_last_level_bytes`` | the kernel's cache tables | bytes |
| ``machine_vector_bits`` | the widest registers that LLVM's list of processor features names | bits |
| ``machine_bandwidth_bytes_per_s`` | measured for the speed of light, at the footprint of the run's arrays | bytes/s |
| ``machine_operations_per_s`` | the same, floating point of the run's dtype | operations/s |
| ``machine_gpu_NAME``, ``machine_opencl_NAME`` | every number that the driver says of its device | the driver's own |

What a machine does not say is left out. Within one run none of them differs, so they are no columns of its models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["apart", "machine_features"]

_WIDTHS = (("avx512f", 512.0), ("avx", 256.0), ("sse2", 128.0), ("sve", 128.0), ("neon", 128.0))
_DEVICES = ("gpu", "opencl")


def machine_features(backend: Mapping[str, Any], light: Mapping[str, Any] | None) -> dict[str, float]:
    """Of a run.

    Args:
        backend: what its ``start`` event says of the backend's environment.
        light: what it says of the speed of light, where that is known.
    """
    made: dict[str, float] = {}
    if _number(backend.get("cores")):
        made["machine_cores"] = float(backend["cores"])
    for name, value in dict(backend.get("caches") or {}).items():
        if _number(value):
            made[f"machine_{name}"] = float(value)
    has = {word[1:] for word in str(backend.get("cpu_features") or "").split(",") if word.startswith("+")}
    width = next((bits for name, bits in _WIDTHS if name in has), None)
    if width is not None:
        made["machine_vector_bits"] = width
    for problem in (light or {}).get("problems", ())[:1]:
        for name in ("bandwidth_bytes_per_s", "operations_per_s"):
            if _number(problem.get(name)):
                made[f"machine_{name}"] = float(problem[name])
    for device in _DEVICES:
        for name, value in sorted(dict(backend.get(device) or {}).items()):
            if _number(value):
                made[f"machine_{device}_{name}"] = float(value)
    return made


def apart(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """From 0: mean difference of the logarithms of what both machines say; 0 where they have nothing in common."""
    names = [name for name in sorted(one) if name in other and one[name] > 0 and other[name] > 0]
    return sum(abs(math.log(one[n] / other[n])) for n in names) / max(1, len(names))


def _number(value: object) -> bool:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain and math.isfinite(float(value))  # type: ignore[arg-type]
