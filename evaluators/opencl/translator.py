"""Which program here turns SPIR-V into LLVM's IR. Runs nothing.

Source: the SPIRV-LLVM translator (Khronos), option ``-r``.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from functools import cache
from pathlib import Path

from tuner.evaluators.device_code.pipelines import file_digest

__all__ = ["INSTALL", "TRANSLATE", "translator", "translator_digest"]

INSTALL = "pip install 'remix-tuner[opencl-il]', or your system's llvm-spirv"
TRANSLATE = ("-r", "--spirv-target-env=CL2.0")
"""Options: IR with OpenCL's own names for what is built in, which is what makes SPIR-V of it again takes."""

_PACKAGE = "dpcpp_llvm_spirv"
_NAME = re.compile(r"llvm-spirv-(\d+)")


@cache
def translator() -> str:
    """Its path, the newest of several; empty where there is none."""
    found = shutil.which("llvm-spirv")
    if found:
        return str(Path(found).resolve())
    installed = [
        (int(name[1]), path)
        for path in Path("/usr/bin").glob("llvm-spirv-*")
        if (name := _NAME.fullmatch(path.name))
    ]
    if installed:
        return str(max(installed)[1].resolve())
    package = importlib.util.find_spec(_PACKAGE)
    folders = list(package.submodule_search_locations or ()) if package is not None else []
    paths = [path for folder in folders for path in Path(folder, "bin").glob("llvm-spirv")]
    return str(paths[0]) if paths else ""


def translator_digest() -> str:
    """SHA-256 of the program; empty where there is none."""
    return file_digest(translator())
