"""What tests of applications that open OpenCL by themselves need of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.core.errors import MachineError, SpecError
from tuner.evaluators.opencl.backend import OpenClBackend

_VENDORS = "/etc/OpenCL/vendors"


def need_pocl(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips where the applications have no device."""
    try:
        OpenClBackend().device("pocl")
    except (MachineError, SpecError) as error:
        pytest.skip(f"no PoCL: {error}")
    if Path(_VENDORS).is_dir() and "OCL_ICD_VENDORS" not in os.environ:
        monkeypatch.setenv("OCL_ICD_VENDORS", _VENDORS)
