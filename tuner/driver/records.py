"""Where records of runs lie: a path for a new one, and the newest that can go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tuner.core.errors import RecordError, UsageError
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec

__all__ = ["create", "find_unfinished", "new_path"]

SUFFIX = ".run"

_TRIES = 20
_APART_S = 0.05


def new_path(folder: Path, name: str) -> Path:
    """A path for a new record: the kernel's name and the first free number."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    while (folder / f"{name}-{number}{SUFFIX}").exists():
        number += 1
    return folder / f"{name}-{number}{SUFFIX}"


def create(place: Path | Callable[[], Path]) -> RunRecord:
    """A new record, open for appending.

    Args:
        place: where; or what finds a free place, which is asked again where another run has just taken it.

    Raises:
        RecordError: it cannot be created.
    """
    if not callable(place):
        return RunRecord.create(place)
    for _ in range(_TRIES):
        try:
            return RunRecord.create(place())
        except RecordError:
            # Who holds the place has its file there in a moment; any other failure is there again at the last try.
            time.sleep(_APART_S)
    return RunRecord.create(place())


def find_unfinished(folder: Path, spec: LoadedSpec) -> Path:
    """The newest record in the folder that holds an unfinished run of this spec; simpler searches are none.

    Raises:
        UsageError: there is none.
    """
    paths = sorted(folder.glob(f"{spec.name}-*{SUFFIX}"), key=lambda p: p.stat().st_mtime, reverse=True)
    for path in (p for p in paths if p.stem.removeprefix(f"{spec.name}-").isdigit()):
        with RunRecord.read(path) as record:
            # Nearly all have ended, which takes one look to see.
            if next(record.events(kind="end"), None) is not None:
                continue
            start = next(iter(record.events()), None)
            if start is not None and start.body["spec_digest"] == spec.digest:
                return path
    raise UsageError(
        f"no unfinished run of {spec.name} in {folder}",
        "start one without --resume, or name the folder with --out",
    )
