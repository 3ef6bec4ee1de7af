"""Which parts of the sandbox this machine's kernel has: for ``tuner doctor``, run records and ``--require-sandbox``."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Any

from tuner.evaluators.sandbox import landlock, seccomp
from tuner.evaluators.sandbox.confine import isolate_network
from tuner.evaluators.sandbox.environment import worker_environment

__all__ = ["Support", "probe"]

_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What there is.

    Attributes:
        landlock: its version; 0 without.
        seccomp: whether system calls can be filtered.
        namespaces: ``network``, ``user and network``, or empty.
    """

    landlock: int
    seccomp: bool
    namespaces: str

    @property
    def missing(self) -> tuple[str, ...]:
        """Protections that a candidate's process does not have here, in words.

        No network is promised by a namespace of its own or by a filter of system calls: either will do.
        """
        found = []
        if not self.landlock:
            found.append("files (Landlock)")
        if not self.seccomp:
            found.append("system calls (seccomp)")
            if not self.namespaces:
                found.append("network (namespaces or seccomp)")
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for a backend's environment under ``sandbox``."""
        return {**asdict(self), "missing": list(self.missing)}


@functools.cache
def probe() -> Support:
    """Asks the kernel; namespaces are tried in a process of their own. Once for each process of the tuner."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-s", "-m", "tuner.evaluators.sandbox.support"],
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
            env=worker_environment("PYTHONPATH", "LD_LIBRARY_PATH"),
            cwd="/",
        )
        namespaces = str(json.loads(done.stdout)["namespaces"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        namespaces = ""
    return Support(landlock=landlock.version(), seccomp=seccomp.available(), namespaces=namespaces)


if __name__ == "__main__":
    print(json.dumps({"namespaces": isolate_network()}))
