"""What a driver says of a kernel, against the spec's arguments, geometry and the device's limits; launches nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner.core.errors import SpecError
from tuner.core.types import Argument, Resolved, Status, Task, Value
from tuner.evaluators.host.runner import CandidateFailed
from tuner.evaluators.opencl.device import Device
from tuner.spaces.launch import Geometry, geometry

__all__ = ["Launches", "features", "inspect", "launches_of"]

_LARGEST_GLOBAL = (1 << 63) - 1
Launches = Callable[[Mapping[str, int]], Geometry]
"""From sizes to a launch; raises ``CandidateFailed`` where none can be computed."""


def inspect(
    kernels: Mapping[str, Mapping[str, Any]],
    entry: str,
    arguments: Sequence[Argument],
    device: Device,
    geometries: Sequence[Geometry],
    *,
    declared_bytes: int = 0,
) -> Mapping[str, Any]:
    """What is known of the entry, which can be launched.

    Args:
        kernels: of the program, by name.
        entry: the one that is launched.
        arguments: of the spec, without those in local memory.
        device: that it is launched on.
        geometries: of all problems.
        declared_bytes: local memory that the source declares, where the driver says of none.

    Raises:
        CandidateFailed: no such kernel, other arguments, or over a limit.
    """
    if entry not in kernels:
        listed = ", ".join(sorted(kernels)) or "none"
        raise CandidateFailed(Status.BUILD_ERROR, f"the program has no kernel {entry!r}; it has {listed}")
    kernel = kernels[entry]
    local = sum(a["local"] for a in kernel["arguments"])
    taken = len(kernel["arguments"]) - local
    if taken != len(arguments):
        raise CandidateFailed(
            Status.BUILD_ERROR, f"{entry} takes {taken} arguments, the spec lists {len(arguments)}"
        )
    if local > 1:
        raise CandidateFailed(
            Status.BUILD_ERROR,
            f"{entry} has {local} parameters in local memory; shared_bytes can give one: divide it up inside",
        )
    for found in geometries:
        _check(kernel, bool(local), device, found)
        used = (kernel["local_bytes"] or declared_bytes) + found.shared_bytes
        if used > device.local_bytes:
            text = f"a work-group uses {used} bytes of local memory, the device has {device.local_bytes}"
            raise CandidateFailed(Status.OUT_OF_RESOURCES, text)
    return kernel


def _check(kernel: Mapping[str, Any], local: bool, device: Device, found: Geometry) -> None:
    def refuse(text: str, status: Status = Status.OUT_OF_RESOURCES) -> CandidateFailed:
        return CandidateFailed(status, text)

    shown = " x ".join(map(str, found.block))
    if found.threads > device.max_threads:
        raise refuse(
            f"a work-group of {shown} has {found.threads} work-items, the device allows {device.max_threads}"
        )
    if kernel["max_threads"] and found.threads > kernel["max_threads"]:
        raise refuse(
            f"a work-group of {shown} has {found.threads} work-items, this kernel allows {kernel['max_threads']}"
        )
    for axis, size, most in zip("xyz", found.block, device.max_block, strict=False):
        if size > most:
            raise refuse(f"a work-group has {size} work-items along {axis}, the device allows {most}")
    required = tuple(kernel["block"])
    if any(required) and required != found.block:
        wanted = " x ".join(map(str, required))
        raise refuse(
            f"the kernel requires work-groups of {wanted}, the launch has {shown}", Status.BUILD_ERROR
        )
    if local and not found.shared_bytes:
        raise refuse("a parameter is in local memory, but launch.shared_bytes is missing", Status.BUILD_ERROR)
    if found.shared_bytes and not local:
        raise refuse("launch.shared_bytes is given, but no parameter is in local memory", Status.BUILD_ERROR)
    if any(g * b > _LARGEST_GLOBAL for g, b in zip(found.grid, found.block, strict=True)):
        raise refuse("the global size is too large")


def features(kernel: Mapping[str, Any], found: Geometry) -> dict[str, float]:
    """Static features of a build, for the geometry of the first problem."""
    made = {
        "work_group_items": float(found.threads),
        "work_groups": float(found.grid[0] * found.grid[1] * found.grid[2]),
        "local_bytes": float((kernel["local_bytes"] or 0) + found.shared_bytes),
    }
    for name, given in (
        ("private_bytes", kernel["private_bytes"]),
        ("preferred_multiple", kernel["preferred_multiple"]),
        ("kernel_max_items", kernel["max_threads"]),
    ):
        if given is not None:
            made[name] = float(given)
    return made


def launches_of(task: Task, resolved: Resolved, *, wide: bool = False) -> Launches:
    """The launches of one configuration.

    Args:
        task: whose ``launch`` is computed.
        resolved: the configuration.
        wide: of the kernel in double.
    """
    launch = resolved.launch_of(task)
    values: dict[str, Value] = {**resolved.macros, **resolved.scalars}

    def compute(sizes: Mapping[str, int]) -> Geometry:
        try:
            made = geometry(launch, values, sizes)
        except SpecError as error:
            raise CandidateFailed(Status.OUT_OF_RESOURCES, error.message) from None
        # Local memory that holds floats holds doubles in the reference.
        return replace(made, shared_bytes=made.shared_bytes * (2 if wide else 1))

    return compute
