"""How applications of tests find the system's OpenCL drivers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_VENDORS = "/etc/OpenCL/vendors"


def system_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader that comes with pyopencl knows only those that are named to it, and those of wheels."""
    if Path(_VENDORS).is_dir() and "OCL_ICD_VENDORS" not in os.environ:
        monkeypatch.setenv("OCL_ICD_VENDORS", _VENDORS)
