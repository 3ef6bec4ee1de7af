"""What an OpenCL worker gives up before it loads a driver: other descriptors, its user, memory, processes.

Comes before the driver, so that the threads that it starts are confined as well. A driver has to read its libraries
and to write what it compiles, and it starts threads and a linker: system calls are denied by a list here.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.evaluators.sandbox import landlock, seccomp
from tuner.evaluators.sandbox.confine import become, mapped_bytes, program_folders, set_limits

__all__ = ["confine"]

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
_FILE_BYTES = 1 << 30
_DRIVERS = ("/etc", "/proc", "/sys", "/opt", "/run", "/var/lib")
"""Where drivers read their settings, beside the folders of programs: nothing of any user's."""
_DEVICES = ("/dev",)


def confine(request: Mapping[str, Any], keep: set[int], *, folder: str, packages: Sequence[str]) -> None:
    """Confines this process.

    Args:
        request: ``uid`` to become (``None``: stay), limits ``cpu_s``, ``memory_bytes`` (beyond what is mapped now)
            and ``processes`` (``None``: as they are).
        keep: file descriptors that stay open.
        folder: the only one that it may write to.
        packages: folders that Python still imports from.
    """
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    at = 3
    for descriptor in sorted(keep):
        os.closerange(at, descriptor)
        at = descriptor + 1
    os.closerange(at, 1 << 16)
    if request["uid"] is not None:
        become(int(request["uid"]))
    libc = ctypes.CDLL(None, use_errno=True)
    # After the change of user, which clears it.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    read = (*program_folders(), *packages, *_DRIVERS, *_named_drivers())
    landlock.restrict(landlock.Access(read=read, write=(folder, *_DEVICES)))
    if seccomp.available():
        seccomp.install(seccomp.worker_filter())
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: _FILE_BYTES,
        resource.RLIMIT_CPU: request["cpu_s"],
    }
    if request["memory_bytes"] is not None:
        limits[resource.RLIMIT_AS] = mapped_bytes() + request["memory_bytes"]
    if request["processes"] is not None:
        limits[resource.RLIMIT_NPROC] = request["processes"]
    set_limits(limits)


def _named_drivers() -> list[str]:
    """What the user's variables name: lists of drivers, the folders of the libraries in them, further folders."""
    vendors = os.environ.get("OCL_ICD_VENDORS", "")
    libraries = os.environ.get("OCL_ICD_FILENAMES", "").split(":")
    for path in (
        [Path(vendors)] if vendors.endswith(".icd") else sorted(Path(vendors or "/nonexistent").glob("*.icd"))
    ):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            libraries.append(path.read_text(encoding="utf-8").strip())
    folders = [os.path.dirname(library) for library in libraries]
    folders += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return [path for path in dict.fromkeys([vendors, *folders]) if path.startswith("/") and path != "/"]
