"""Finds earlier runs of the same kernel, for a warm start. Reads records only; may not decide how much they count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuner.core.errors import TunerError
from tuner.core.types import Status
from tuner.driver.opening import open_state
from tuner.driver.records import SUFFIX
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.run import RunState
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec

__all__ = ["AUTO", "LEAST", "find_earlier", "with_earlier"]

AUTO = "auto"
"""What ``--warm-start`` takes in place of a path."""

LEAST = 4
"""Trials that worked, below which a run tells too little."""

_LOOKED = 64
_TAKEN = 3


def find_earlier(spec: LoadedSpec, folders: Sequence[Path]) -> list[Path]:
    """Runs of the kernel of this name with the same parameters and flag groups, newest first, three at most.

    The card, the size and the values of the parameters may differ; runs in which fewer than four trials worked are
    left out, and so is what cannot be read.

    Args:
        spec: what is to be tuned.
        folders: looked through for run records, not below; those that are not there are passed over.
    """
    records = [path for folder in folders if folder.is_dir() for path in folder.glob(f"*{SUFFIX}")]
    records.sort(key=lambda path: (-path.stat().st_mtime, path.name))
    found: list[Path] = []
    for path in records[:_LOOKED]:
        if len(found) < _TAKEN and _fits(path, spec):
            found.append(path)
    return found


def with_earlier(given: Sequence[Path], spec: LoadedSpec, folders: Sequence[Path]) -> list[Path]:
    """The sources that are named, and in place of ``auto`` what :func:`find_earlier` finds; each once."""
    paths = dict.fromkeys(path for path in given if str(path) != AUTO)
    if len(paths) < len(given):
        paths |= dict.fromkeys(find_earlier(spec, folders))
    return list(paths)


def _fits(path: Path, spec: LoadedSpec) -> bool:
    try:
        with RunRecord.read(path) as record:
            state, other, _ = open_state(record)
    except (TunerError, OSError):
        return False
    return _identity(other) == _identity(spec) and _worked(state) >= LEAST


def _identity(spec: LoadedSpec) -> tuple[str, frozenset[str]]:
    tunables = spec.tunables
    return spec.task.kernel.function, frozenset({*(p.name for p in tunables.parameters), *tunables.flags})


def _worked(state: RunState) -> int:
    return sum(t.status is Status.OK and t.variant == ORIGINAL for t in state.trials.values())
