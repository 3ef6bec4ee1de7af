"""OpenCL devices that are not in reach: descriptions of them, and a loader that adds to what PoCL can."""

from __future__ import annotations

from pathlib import Path

import pytest
from applications import compiled
from opencl_machine import system_drivers

from tuner.evaluators.opencl.device import Device

__all__ = ["device_with_il", "stand_in_loader"]


def stand_in_loader(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Has applications load OpenCL through ``spirv_loader.c``, with its modules in a folder; PoCL's name.

    For tests that need PoCL, whose package brings the system's own loader to link with.
    """
    source, library = Path(__file__).with_name("spirv_loader.c"), folder / "libOpenCL-spirv.so"
    compiled("-shared", "-fPIC", source, "-o", library, "-l:libOpenCL.so.1", flags=["-O1"])
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("TUNER_TEST_MODULES", str(folder))
    system_drivers(monkeypatch)
    return "Portable Computing Language"


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
