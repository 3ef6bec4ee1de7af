"""What a run depends on beside its spec: the machine's toolchain, its sandbox, and flags that its backend honours.

May not write records.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tuner import cost_models, search, spaces
from tuner.core.abilities import KnowsNeeds
from tuner.core.errors import MachineError
from tuner.core.protocols import Backend
from tuner.core.types import Task
from tuner.spec import machine
from tuner.spec.load import LoadedSpec

__all__ = ["changed", "check_flags", "needed", "require_sandbox", "search_code", "toolchain"]

_PACKAGES = ("numpy", "scipy", "optuna", "scikit-optimize", "scikit-learn", "cmaes")


def toolchain(backend: Backend, task: Task) -> dict[str, Any]:
    """What results and proposals depend on beside the spec."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return {
        "backend": {**backend.environment(task.target), **needed(backend, task)},
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "packages": versions,
    }


def needed(backend: Backend, task: Task) -> dict[str, Any]:
    """What this task needs of the machine beside what every task of the backend needs."""
    return dict(backend.environment_of(task)) if isinstance(backend, KnowsNeeds) else {}


@cache
def search_code() -> str:
    """SHA-256 of the code that proposals come from: another version of it may propose other things.

    Searchers of third parties are not part of it.
    """
    digest = hashlib.sha256()
    for package in (search, cost_models, spaces):
        (folder,) = package.__path__
        for path in sorted(Path(folder).rglob("*.py")):
            digest.update(f"{package.__name__}/{path.relative_to(folder)}\n".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def require_sandbox(backend: Backend, target: str) -> None:
    """Refuses a backend whose candidates would run with less than the whole sandbox.

    Raises:
        MachineError: with what is missing.
    """
    sandbox = backend.environment(target).get("sandbox")
    missing = ["all of it"] if sandbox is None else list(sandbox["missing"])
    if missing:
        raise MachineError(
            f"the sandbox of the backend {backend.name} is incomplete here: no protection of {', '.join(missing)}",
            "tuner doctor says what is missing; without --require-sandbox the run goes on and its record says so",
        )


def check_flags(backend: Backend, spec: LoadedSpec) -> None:
    """Every choice of every flag group can be honoured, or a ``SpecError`` says which cannot, and where it stands."""
    if spec.task.kernel.compiler is not None:
        # Asked when the spec was loaded; the backend's own compiler takes others.
        return
    machine.check_flags(backend, spec.tunables)


def changed(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The keys, with dots, under which two environments differ."""
    names = []
    for name in sorted({*before, *after}):
        one, other = before.get(name), after.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            names += changed(one, other, f"{prefix}{name}.")
        elif one != other:
            names.append(f"{prefix}{name}")
    return names
