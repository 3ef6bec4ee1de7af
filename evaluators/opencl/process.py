"""The tuner's side of the OpenCL worker processes: starting the zygote, asking what devices there are.

Loads neither pyopencl nor a driver.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.core.errors import MachineError
from tuner.core.scratch import ScratchFolder
from tuner.core.types import Status
from tuner.evaluators.host.process import Child, Ended, TimedOut, Zygote
from tuner.evaluators.opencl.device import HOW_TO_GET_POCL, Device

__all__ = [
    "OpenClZygote",
    "devices_of_machine",
    "driver_environment",
    "list_devices",
    "read_all",
    "wheel_drivers",
]

_VENDORS = Path("/etc/OpenCL/vendors")
_WHEEL_DRIVERS = ("lib/libintelocl.so",)
"""Drivers that wheels put into this environment's folder without telling any loader: ``intel-opencl-rt``."""
_NAMED = ("OCL_ICD", "OPENCL_")
"""How the variables begin with which a user names the drivers; nothing is added to those then."""
_DESCRIBE_S = 60.0
_LOAD_S = 60.0
# What users set to say which driver and which of its devices are used.
_KEPT = (
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "OCL_ICD_VENDORS",
    "OCL_ICD_FILENAMES",
    "OPENCL_VENDOR_PATH",
    "CUDA_VISIBLE_DEVICES",
    "POCL_DEVICES",
    "POCL_MAX_PTHREAD_COUNT",
)


def require_pyopencl() -> None:
    """Raises ``MachineError`` where pyopencl is not installed."""
    if importlib.util.find_spec("pyopencl") is None:
        raise MachineError("the opencl backend needs pyopencl", "pip install 'remix-tuner[opencl]'")


def driver_environment() -> dict[str, str]:
    """Environment variables under which a worker finds the machine's drivers.

    The loader in pyopencl's wheels does not look into the system's folder by itself. With one driver in it, that
    driver is named alone, so that no other one is loaded into the same process.
    """
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    if not any(name.startswith(_NAMED) for name in kept):
        drivers = sorted(_VENDORS.glob("*.icd"))
        if drivers:
            kept["OCL_ICD_VENDORS"] = str(drivers[0] if len(drivers) == 1 else _VENDORS)
    return kept


def wheel_drivers() -> tuple[str, ...]:
    """Libraries of the drivers that were installed by pip; none where the user's variables name the drivers."""
    if any(name.startswith(_NAMED) for name in os.environ if name in _KEPT):
        return ()
    found = (Path(sys.prefix, name) for name in _WHEEL_DRIVERS)
    return tuple(str(path) for path in found if path.is_file())


def _list_drivers(folder: Path, named: str, libraries: Sequence[str]) -> str:
    """A copy of lists of drivers for the loader, with further drivers, in a fixed order; what to name to it.

    Users' own folders are closed to whom workers run as.

    Args:
        folder: to be made.
        named: a folder of lists or one list, whose name ends so; as the loader takes it.
        libraries: of the further drivers.
    """
    folder.mkdir(mode=0o755)
    lists = [Path(named)] if named.endswith(".icd") else sorted(Path(named).glob("*.icd"))
    copies = [folder / f"{place:02}-{one.name}" for place, one in enumerate(lists)]
    for one, copy in zip(lists, copies, strict=True):
        # One that cannot be read is none for the loader either.
        with contextlib.suppress(OSError):
            shutil.copyfile(one, copy)
            copy.chmod(0o644)
    for library in libraries:
        (folder / f"wheel-{Path(library).stem}.icd").write_text(f"{library}\n", encoding="utf-8")
    # One driver is named alone, so that no other one is loaded into the same process.
    return str(copies[0]) if len(copies) == 1 and not libraries else str(folder)


class OpenClZygote(Zygote):
    """The clean process with pyopencl imported, from which workers are forked before any driver is loaded.

    Args:
        environment: what workers get beside :func:`driver_environment`.

    Raises:
        MachineError: pyopencl is missing or cannot be imported.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        require_pyopencl()
        self._folder = ScratchFolder("opencl")
        self.scratch = Path(self._folder.name)
        # Candidates run as users of their own, each with a folder in here.
        self.scratch.chmod(0o711)
        variables = {
            "PATH": os.defpath,
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYOPENCL_NO_CACHE": "1",
            "OPENBLAS_NUM_THREADS": "1",
            **driver_environment(),
            **(environment or {}),
        }
        own = any(name.startswith(_NAMED) for name in environment or {})
        wheels = () if own else wheel_drivers()
        named = str(_VENDORS) if wheels else variables.get("OCL_ICD_VENDORS", "")
        if wheels or os.path.exists(named):
            variables["OCL_ICD_VENDORS"] = _list_drivers(self.scratch / "drivers", named, wheels)
        # Ctrl-C is for the tuner, which then ends its workers in order.
        quiet: dict[str, Any] = {"stderr": subprocess.DEVNULL, "process_group": 0}
        self._start("tuner.evaluators.opencl.zygote", str(self.scratch), env=variables, **quiet)
        self._channel.settimeout(_LOAD_S)
        try:
            answer = self._ask({"op": "load"}, [])
        except MachineError:
            self.close()
            raise
        if "error" in answer:
            self.close()
            raise MachineError(
                f"pyopencl cannot be imported: {answer['error']}", "pip install 'remix-tuner[opencl]'"
            )

    def folder(self, name: str, *, owner: int | None) -> Path:
        """A folder that one worker may write to: drivers keep compiled kernels in it.

        Args:
            name: equal for workers that share it.
            owner: user and group that it belongs to; ``None`` for this process's.
        """
        path = self.scratch / name
        if not path.is_dir():
            path.mkdir(mode=0o700)
            if owner is not None:
                os.chown(path, owner, owner)
        return path

    def worker(self, job: Mapping[str, Any], *, binary: bytes = b" ", **limits: Any) -> Child:
        """Forks one worker.

        Args:
            job: what it is to be: ``role`` and what that role needs; plain JSON.
            binary: the program that it loads.
            limits: ``uid``, ``cpu_s``, ``memory_bytes``, ``processes``.

        Raises:
            MachineError: the zygote is gone or the machine refuses another process.
        """
        base = {"uid": None, "cpu_s": 36_000, "memory_bytes": None, "processes": None, "threads": 1}
        return self.fork(binary, {**base, **limits, "job": dict(job)})

    def close(self) -> None:
        """Ends it with all its children and removes what they wrote; safe to call twice."""
        super().close()
        self._folder.cleanup()


def read_all(descriptor: int) -> bytes:
    """The whole content of a memory file."""
    size = os.fstat(descriptor).st_size
    parts, at = [], 0
    while at < size:
        part = os.pread(descriptor, size - at, at)
        if not part:
            break
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def list_devices(zygote: OpenClZygote) -> list[Device]:
    """All devices of all platforms, asked in a process of its own.

    Raises:
        MachineError: no platform, or a driver that does not answer.
    """
    answer = os.memfd_create("devices", os.MFD_CLOEXEC)
    child = zygote.worker({"role": "describe", "cache": str(zygote.folder("describe", owner=None))})
    try:
        child.send(b"describe", [answer])
        child.receive(_DESCRIBE_S)
        found = json.loads(read_all(answer))
    except (Ended, TimedOut, ValueError):
        raise MachineError(
            f"an OpenCL driver does not answer ({Status.CRASHED})", "set OCL_ICD_VENDORS to one that works"
        ) from None
    finally:
        child.end()
        os.close(answer)
    if "error" in found:
        raise MachineError(
            f"there is no OpenCL platform on this machine ({found['error']})",
            f"install a driver ({HOW_TO_GET_POCL}), or set OCL_ICD_VENDORS to the folder of its .icd file",
        )
    return [Device.from_json(device) for device in found["devices"]]


def devices_of_machine() -> tuple[Device, ...]:
    """:func:`list_devices`, asked once for each set of variables (:func:`driver_environment`)."""
    return _devices_under((*sorted(driver_environment().items()), *(("", name) for name in wheel_drivers())))


@functools.cache
def _devices_under(variables: tuple[tuple[str, str], ...]) -> tuple[Device, ...]:
    del variables
    zygote = OpenClZygote()
    try:
        return tuple(list_devices(zygote))
    finally:
        zygote.close()
