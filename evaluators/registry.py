"""Backends by name: the project's own and those of the entry points ``tuner.backends``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib.metadata import EntryPoint

from tuner.core.errors import MachineError, UsageError
from tuner.core.plugins import Returns, entry_points, guarded, loading
from tuner.core.protocols import Backend, BaselineReport
from tuner.core.types import Build, Measurement, Verdict

__all__ = ["create", "given", "names"]

GROUP = "tuner.backends"

_RETURNS = {
    "environment": Returns(kind=Mapping),
    "pass_catalogue": Returns(kind=Mapping, none=True),
    "build": Returns(kind=Build, many=True, each=True),
    "build_with": Returns(kind=Build),
    "set_baseline": Returns(kind=BaselineReport),
    "verify": Returns(kind=Verdict),
    "measure": Returns(kind=Measurement),
}
_NEEDED = ("environment", "check_flags", "pass_catalogue", "prepare")


def names() -> list[str]:
    """All backends that are installed."""
    return sorted({e.name for e in entry_points(group=GROUP)})


def create(name: str) -> Backend:
    """Makes the backend of that name; another package's where it has one of a name of ours.

    Raises:
        UsageError: there is no such backend.
        MachineError: it cannot be loaded on this machine.
        PluginError: it is a third party's, and loading or making it raises an exception.
    """
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if found:
        # Which package is found first depends on where a command is started.
        return _made(min(found, key=_is_own))
    close = difflib.get_close_matches(name, names(), n=1)
    hint = f"did you mean {close[0]}?" if close else f"installed are {', '.join(names())}"
    raise UsageError(f"no backend {name}", hint)


def given(backend: Backend | None, name: str) -> Backend:
    """The backend that a caller hands in, else the one of that name; what a third party's raises says whose it is.

    Raises:
        UsageError, MachineError, PluginError: as :func:`create`.
    """
    return create(name) if backend is None else guarded(backend, f"backend {backend.name}", _RETURNS)


def _is_own(entry: EntryPoint) -> bool:
    return entry.value.startswith("tuner.")


def _made(entry: EntryPoint) -> Backend:
    label = f"backend {entry.name}"
    try:
        with loading(label, entry.value):
            backend: Backend = entry.load()()
    except ImportError as error:
        cure = (
            f"pip install 'remix-tuner[{entry.name}]'"
            if _is_own(entry)
            else f"install what {entry.module} needs"
        )
        raise MachineError(f"the backend {entry.name} cannot be loaded: {error}", cure) from error
    lacking = [name for name in ("name", *_NEEDED) if not hasattr(backend, name)]
    if lacking:
        raise UsageError(
            f"the backend {entry.name} is none: it has no {', '.join(lacking)}",
            f"{entry.value} has to make a tuner.core.protocols.Backend",
        )
    return guarded(backend, label, _RETURNS)
