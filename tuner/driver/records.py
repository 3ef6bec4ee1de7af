"""Where records of runs lie: a path for a new one, and the newest that can go on."""

from __future__ import annotations

from pathlib import Path

from tuner.core.errors import UsageError
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec

__all__ = ["find_unfinished", "new_path"]

SUFFIX = ".run"


def new_path(folder: Path, name: str) -> Path:
    """A path for a new record: the kernel's name and the first free number."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    while (folder / f"{name}-{number}{SUFFIX}").exists():
        number += 1
    return folder / f"{name}-{number}{SUFFIX}"


def find_unfinished(folder: Path, spec: LoadedSpec) -> Path:
    """The newest record in the folder that holds an unfinished run of this spec.

    Raises:
        UsageError: there is none.
    """
    paths = sorted(folder.glob(f"{spec.name}-*{SUFFIX}"), key=lambda p: p.stat().st_mtime, reverse=True)
    for path in paths:
        with RunRecord.read(path) as record:
            start = next(iter(record.events()), None)
            ended = next(record.events(kind="end"), None)
            if start is not None and ended is None and start.body["spec_digest"] == spec.digest:
                return path
    raise UsageError(
        f"no unfinished run of {spec.name} in {folder}",
        "start one without --resume, or name the folder with --out",
    )
