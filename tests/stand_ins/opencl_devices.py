"""OpenCL devices that are not in reach: descriptions of them, and a loader that adds to what PoCL can."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tuner.core.errors import MachineError, SpecError
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.evaluators.opencl.backend import OpenClBackend
from tuner.evaluators.opencl.device import Device

__all__ = ["device_with_il", "stand_in_loader"]


def stand_in_loader(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Has applications load OpenCL through ``spirv_loader.c``, with its modules in a folder; PoCL's name.

    Skips where there is no PoCL, or no loader to link with.
    """
    try:
        OpenClBackend().device("pocl")
    except (MachineError, SpecError) as error:
        pytest.skip(f"no PoCL: {error}")
    source, library = Path(__file__).with_name("spirv_loader.c"), folder / "libOpenCL-spirv.so"
    words = [
        find_toolchain().clang,
        "-shared",
        "-fPIC",
        "-O1",
        str(source),
        "-o",
        str(library),
        "-l:libOpenCL.so.1",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no OpenCL loader to link with: {done.stderr[:200]}")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("TUNER_TEST_MODULES", str(folder))
    if Path("/etc/OpenCL/vendors").is_dir() and "OCL_ICD_VENDORS" not in os.environ:
        monkeypatch.setenv("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")
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
