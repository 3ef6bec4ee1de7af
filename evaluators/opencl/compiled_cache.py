"""Programs that a driver has compiled before, kept between runs by everything that they were made of.

PoCL needs a second for a process's first program and a fifth of one for each further. What drivers keep themselves lies
in folders of candidates here and goes with them. Only the tuner's own process may write here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from tuner.core.canonical import digest_json
from tuner.core.files import write_atomically
from tuner.evaluators.host.toolchain import cache_folder
from tuner.evaluators.opencl.device import Device
from tuner.evaluators.opencl.process import driver_environment

__all__ = ["CompiledCache"]

_FORMAT = 1
_MOST = 1024
_MOST_BYTES = 1 << 20
_READS_MORE = re.compile(r"include|import|embed|__(?:DATE|TIME|TIMESTAMP)__")


class CompiledCache:
    """Of one device.

    Args:
        device: that programs are compiled for.
        folder: where they are kept; below the user's folder of caches where left out.
        most: programs at most; the half that was not used for longest goes when there are more.
    """

    def __init__(self, device: Device, *, folder: Path | None = None, most: int = _MOST) -> None:
        self._folder = folder or cache_folder() / "opencl"
        self._most = most
        self._about = {
            "format": _FORMAT,
            "device": device.to_json(),
            "drivers": driver_environment(),
            "pyopencl": metadata.version("pyopencl"),
        }

    def get(self, job: Mapping[str, Any]) -> tuple[dict[str, Any], bytes] | None:
        """What a compile worker answered to this job before: its header and the binary.

        Args:
            job: as :meth:`tuner.evaluators.opencl.program.Program.job` has it.
        """
        path = self._path(job)
        if path is None:
            return None
        try:
            data = path.read_bytes()
            length = int.from_bytes(data[:8], "little")
            header = json.loads(data[8 : 8 + length])
            if header["status"] != "ok" or header["bytes"] != len(data) - 8 - length:
                return None
            os.utime(path)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return header, data[8 + length :]

    def put(self, job: Mapping[str, Any], header: Mapping[str, Any], binary: bytes) -> None:
        """Keeps an answer; a folder that cannot be written costs the cache, nothing else."""
        path = self._path(job)
        if path is None or header["status"] != "ok" or len(binary) > _MOST_BYTES:
            return
        head = json.dumps({**header, "bytes": len(binary)}).encode()
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, len(head).to_bytes(8, "little") + head + binary)
            self._thin()

    def _path(self, job: Mapping[str, Any]) -> Path | None:
        """The file of a job; ``None`` where the compiler may read further files or the time."""
        source = str(job.get("source", "")).replace("\\\n", "")
        if _READS_MORE.search(source) or any(o.startswith("-I") for o in job["options"]):
            return None
        return self._folder / f"{digest_json({**self._about, 'job': job})}.program"

    def _thin(self) -> None:
        kept = list(self._folder.glob("*.program"))
        if len(kept) <= self._most:
            return
        used: list[tuple[float, Path]] = []
        for path in kept:
            # Another process may thin it out as well.
            with suppress(OSError):
                used.append((path.stat().st_mtime, path))
        for _, path in sorted(used)[: len(used) - self._most // 2]:
            path.unlink(missing_ok=True)
