"""Where records of runs lie: a path for a new one, and the newest that can go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tuner.core.errors import RecordError, TunerError, UsageError
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec

__all__ = ["create", "find_newest", "has_ended", "new_path"]

SUFFIX = ".run"

_TRIES = 20
_APART_S = 0.05


def new_path(folder: Path, name: str) -> Path:
    """A path for a new record: the kernel's name and the first free number.

    Raises:
        RecordError: there is no such folder, and none can be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(
            f"{folder}: no folder for run records: {error.strerror}", "name another place"
        ) from error
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


def find_newest(
    folder: Path, spec: LoadedSpec, *, ended: bool = False, note: Callable[[str], None] = lambda _: None
) -> Path:
    """The newest record in the folder that holds an unfinished run of this spec; simpler searches are none.

    One of which nothing tells whose it is, since it cannot be read, is passed over: a file left by a full disk would
    keep every run of the folder from going on. One that says it is this spec's is taken, damaged or not, as it is what
    was asked for; who opens it says what is wrong.

    Args:
        folder: of records.
        spec: whose run.
        ended: whether one that has ended will do.
        note: told of what is passed over, and of what is taken in its place.

    Raises:
        UsageError: there is none.
    """
    passed: list[str] = []
    for path in _newest_first(folder, spec):
        try:
            own = _is_run_of(path, spec, ended=ended)
        except TunerError as error:
            passed.append(error.message)
            continue
        if own:
            for message in passed:
                note(f"passed over: {message}")
            if passed:
                note(
                    f"{path} is the newest{'' if ended else ' unfinished'} run that can be read, and goes on"
                )
            return path
    raise UsageError(
        "; ".join([f"no{'' if ended else ' unfinished'} run of {spec.name} in {folder}", *passed]),
        "start one without --resume, or name the folder with --out"
        + ("" if ended else "; with --minutes +5 one that has ended goes on for five more"),
    )


def _newest_first(folder: Path, spec: LoadedSpec) -> list[Path]:
    paths = [
        path
        for path in folder.glob(f"{spec.name}-*{SUFFIX}")
        if path.stem.removeprefix(f"{spec.name}-").isdigit()
    ]
    return sorted(paths, key=lambda p: p.stat().st_mtime, reverse=True)


def has_ended(record: RunRecord) -> bool:
    """Whether a run has ended and was not gone on with since; takes no look at its trials."""
    last = {kind: max((e.seq for e in record.events(kind=kind)), default=0) for kind in ("end", "extend")}
    return last["end"] > last["extend"]


def _is_run_of(path: Path, spec: LoadedSpec, *, ended: bool) -> bool:
    with RunRecord.read(path) as record:
        if not ended and has_ended(record):
            return False
        start = next(iter(record.events()), None)
    return start is not None and start.body.get("spec_digest") == spec.digest
