"""Descriptions of OpenCL devices that are not in reach."""

from __future__ import annotations

from tuner.evaluators.opencl.device import Device

__all__ = ["device_with_il"]


def device_with_il(il: str) -> Device:
    """A device that takes these versions of SPIR-V."""
    return Device(
        index=0,
        platform="Some",
        name="one",
        vendor="",
        version="OpenCL 3.0",
        driver="1",
        c_version="OpenCL C 1.2",
        cpu=False,
        units=4,
        max_threads=1024,
        max_block=(1024, 1024, 64),
        local_bytes=48 << 10,
        cache_bytes=1 << 20,
        doubles=True,
        il=il,
        extensions=("cl_khr_fp64",),
    )
