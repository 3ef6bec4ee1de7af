"""The process that OpenCL workers are forked from; ``python -m tuner.evaluators.opencl.zygote FD FOLDER``.

It imports pyopencl once, which takes a tenth of a second and more, but asks for no platform: the threads that drivers
start do not survive a fork. PoCL starts none before it is asked, so its library is loaded here, too: half of what a
worker needs to begin is spent on binding the LLVM in it. Otherwise as :mod:`tuner.evaluators.host.zygote`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from tuner.evaluators.host.zygote import ForkServer, serve

__all__ = ["main"]

_POCL = "libpocl"
_MODULES = (
    "pyopencl",
    "pyopencl.characterize",
    "pyopencl.invoker",
    "pytools.py_codegen",
    "platformdirs.unix",
    "tuner.evaluators.opencl.child",
    "tuner.evaluators.opencl.worker",
)


class _Server(ForkServer):
    def _do_load(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        try:
            # All that workers import, also what pyopencl does only when it is first needed: they may be another user,
            # and cannot read the project's folders.
            for name in _MODULES:
                importlib.import_module(name)
        except ImportError as error:
            return {"error": str(error)}
        _load_pocl(Path(os.environ.get("OCL_ICD_VENDORS", "/nonexistent")))
        gc.collect()
        gc.freeze()
        return {}

    def ready(self, request: dict[str, Any]) -> None:
        """Nothing: a worker makes what it needs itself."""

    def become(self, channel: socket.socket, files: list[int], request: dict[str, Any]) -> None:
        """A worker of the role that the request names."""
        from tuner.evaluators.opencl.worker import run_worker

        run_worker(channel, files[1], files[2], request)


def _load_pocl(lists: Path) -> None:
    """Loads PoCL's library where it is among the drivers that workers will load.

    Args:
        lists: a folder of lists of drivers or one list, whose name ends so; as the loader takes it.
    """
    for one in [lists] if lists.suffix == ".icd" else lists.glob("*.icd"):
        # What cannot be read or loaded here a worker reports.
        with contextlib.suppress(OSError, UnicodeDecodeError):
            library = one.read_text(encoding="utf-8").strip()
            if Path(library).name.startswith(_POCL):
                ctypes.CDLL(library)


def main() -> None:
    """Serves on the socket whose descriptor is the first argument; removes the folder, the second, at the end."""
    try:
        serve(_Server)
    finally:
        # The tuner may have been killed before it could.
        shutil.rmtree(sys.argv[2], ignore_errors=True)


if __name__ == "__main__":
    main()
