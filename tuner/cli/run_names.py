"""How commands name a run: its record, the record's name among those of the usual folder, or ``latest``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["RUNS", "Run", "run_record"]

RUNS = Path("tuner-runs")
"""Where runs are kept unless said otherwise."""

_LATEST = "latest"


def run_record(name: str) -> Path:
    """The path of a run's record: the file itself, else one of :data:`RUNS`, with or without its ending.

    ``latest`` is the one of :data:`RUNS` that was written to last. What is not found stays as it was given.
    """
    found = Path(name)
    if found.is_file():
        return found
    if name == _LATEST:
        files = [path for path in RUNS.glob("*.run") if path.is_file()]
        return max(files, key=lambda path: path.stat().st_mtime, default=found)
    return next((path for path in (RUNS / name, RUNS / f"{name}.run") if path.is_file()), found)


Run = Annotated[
    Path,
    typer.Argument(
        help=f"A run record, its name in {RUNS}, or {_LATEST}.",
        parser=run_record,
        metavar="RUN",
        show_default=False,
    ),
]
