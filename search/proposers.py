"""Proposers of variants by name: those of the entry point group ``tuner.proposers``, ``remix`` among them.

A factory takes the kernel and a numerics policy; all randomness comes with ``propose``. Models (``search.llm``) are no
proposers of this kind: their replies are events.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from tuner.core.errors import MachineError, UsageError
from tuner.core.plugins import Returns, entry_points, guarded, loading
from tuner.core.types import Kernel, Launch
from tuner.search.remix import Offspring, Proposer, RemixProposer

__all__ = ["GROUP", "create", "names"]

GROUP = "tuner.proposers"

_RETURNS = dict.fromkeys(("propose", "propose_informed"), Returns(kind=Offspring, none=True))


def names() -> tuple[str, ...]:
    """Every proposer's name, sorted."""
    return tuple(sorted({RemixProposer.name, *(e.name for e in entry_points(group=GROUP))}))


def create(
    name: str,
    kernel: Kernel,
    numerics: str,
    *,
    launch: Launch | None = None,
    tunables: Mapping[str, int] = MappingProxyType({}),
) -> Proposer:
    """A new proposer.

    Args:
        name: one of :func:`names`; ``remix`` cannot be taken over by an entry point.
        kernel: as given.
        numerics: ``exact``, ``reassociate`` or ``approximate``.
        launch: of the kernel, where it has one; only the remix operators change launches.
        tunables: the spec's own that the compiler is given, with their defaults.

    Raises:
        UsageError: there is no such proposer, or it is none.
        MachineError: a library that it needs is not installed.
        SpecError: the kernel's regions are wrong.
        PluginError: it is a third party's, and loading or making it raises an exception.
    """
    if name == RemixProposer.name:
        return RemixProposer(kernel, numerics, launch=launch, tunables=tunables)
    entry = next((e for e in entry_points(group=GROUP) if e.name == name), None)
    if entry is None:
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names())}"
        raise UsageError(f"unknown proposer {name!r}", hint)
    try:
        with loading(f"proposer {name}", entry.value):
            made = entry.load()(kernel, numerics)
    except ImportError as error:
        missing = (error.name or str(error)).split(".")[0]
        raise MachineError(f"the proposer {name!r} needs {missing}", f"install {missing}") from error
    if not isinstance(made, Proposer):
        raise UsageError(
            f"the proposer {name!r} is none", f"{entry.value} has to make a tuner.search.remix.Proposer"
        )
    return guarded(made, f"proposer {name}", _RETURNS)
