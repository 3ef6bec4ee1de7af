"""Which runs are put in place: those named, and those that folders and wisdom files stand for.

Reads the index that several recorded kernels get, wisdom files, and the summaries of runs. May not run anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tuner.core.errors import RecordError, UsageError
from tuner.driver.applications.recorded_specs import INDEX_FILE
from tuner.driver.opening import open_state
from tuner.driver.outcome.outcome import outcome
from tuner.driver.records import SUFFIX
from tuner.recorders.record import RunRecord
from tuner.recorders.wisdom import Wisdom
from tuner.spec.load import LoadedSpec

__all__ = ["chosen_runs"]

_FOLDER = "tuner-runs"
_WISDOM = ".wisdom.json"


def chosen_runs(named: Sequence[Path], *, note: Callable[[str], None]) -> list[Path]:
    """Records of runs, with what stands for some replaced by them.

    A recorded application's folder, or its index, stands for the newest run of each of its kernels in ``tuner-runs``
    here and beside it and in the other folders named; a folder of runs for the newest run of each kernel in it; a
    wisdom file for the run that its configurations come from. A kernel that has no run with a gain is left out, and a
    note says so; so is one of several runs that claims no gain.

    Args:
        named: records, folders, indices and wisdom files.
        note: told of what is left out.

    Raises:
        UsageError: an index or wisdom file that cannot be read, or nothing with a gain is left.
    """
    indices = [path for path in named if _is_index(path)]
    folders = [path for path in named if path.is_dir() and path not in indices]
    found: list[Path] = []
    for path in named:
        if path in indices:
            found += _of_index(path / INDEX_FILE if path.is_dir() else path, folders, note)
        elif path in folders:
            # Beside an index it says where the runs of that one's kernels are.
            found += [] if indices else _of_folder(path, note)
        else:
            found.append(_of_wisdom(path) if path.suffix == ".json" else path)
    return found if len(named) == 1 else _gaining(found, note)


def _is_index(path: Path) -> bool:
    if path.is_dir():
        return (path / INDEX_FILE).exists()
    return path.suffix == ".json" and not path.name.endswith(_WISDOM)


def _gaining(runs: Sequence[Path], note: Callable[[str], None]) -> list[Path]:
    """Of several runs those that claim a gain; one that cannot be read is left for who opens it to say."""
    without = [path for path in runs if path.exists() and not _claims(path)]
    if without and len(without) == len(runs):
        raise UsageError(
            f"none of the {len(runs)} runs claims anything better than the kernel as given",
            "there is nothing to put in place",
        )
    for path in without:
        note(f"the kernel of {path} stays as it is: the run claims no gain")
    return [path for path in runs if path not in without]


def _claims(path: Path) -> bool:
    with RunRecord.read(path) as record:
        return outcome(path, open_state(record)[0]).summary.improved


def _of_folder(folder: Path, note: Callable[[str], None]) -> list[Path]:
    """The newest run of each kernel, by its name, where that claims a gain."""
    newest: dict[str, tuple[Path, bool]] = {}
    for path, spec, improved in _runs_in([folder]):
        newest.setdefault(spec.name, (path, improved))
    if not newest:
        raise UsageError(
            f"there are no runs in {folder}, and no {INDEX_FILE}",
            "name a run, a folder of runs, or the folder of tuner record -o",
        )
    if not any(improved for _, improved in newest.values()):
        raise UsageError(
            f"no kernel's newest run in {folder} claims a gain", "tune again, or name an older run"
        )
    for name, (path, improved) in newest.items():
        if not improved:
            note(f"{name} stays as it is: its newest run, {path}, claims no gain")
    return [path for path, improved in newest.values() if improved]


def _of_wisdom(path: Path) -> Path:
    """The run that a wisdom file's configurations come from: the file holds no code."""
    wisdom = Wisdom.load(path)
    names = sorted({entry.run for entry in wisdom.entries if entry.run and entry.speedup[0] > 1})
    if len(names) != 1:
        said = f"come from {', '.join(names)}" if names else "are all the default's"
        raise UsageError(
            f"{path} holds no code, and its configurations {said}",
            "name one of those runs" if names else "there is nothing to put in place",
        )
    # Beside the file, above it, which is where it was exported from, and here.
    homes = (Path(), path.parent, path.parent.parent)
    places = list(dict.fromkeys(place for home in homes for place in (home / _FOLDER, home)))
    for place in places:
        if (place / names[0]).is_file():
            return place / names[0]
    raise UsageError(
        f"{path} holds no code, and the run that it comes from, {names[0]}, is not in "
        + " or ".join(str(place) for place in places),
        "name the run itself",
    )


def _of_index(index: Path, folders: Sequence[Path], note: Callable[[str], None]) -> list[Path]:
    kernels = _kernels(index)
    found = []
    for name, spec in kernels:
        run, why = _newest(index.parent / spec, folders)
        if run is None:
            note(f"{name} stays as it is: {why}")
        else:
            found.append(run)
    if not found:
        raise UsageError(
            f"none of the {len(kernels)} kernels in {index} has a run with a gain",
            f"tune {index.parent}/*.yaml; where runs were written to another folder (--out), name it as well",
        )
    return found


def _kernels(index: Path) -> list[tuple[str, str]]:
    try:
        data = json.loads(index.read_text(encoding="utf-8"))
        return [(str(k["name"]), str(k["spec"])) for k in data["kernels"] if k["spec"] is not None]
    except FileNotFoundError:
        raise UsageError(f"there is no {index}", "name a run, or the folder of tuner record -o") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{index} cannot be read: {error}", "record the application again") from None


def _newest(spec: Path, folders: Sequence[Path]) -> tuple[Path | None, str]:
    """The newest run of a spec that claims a gain; without one the reason."""
    places = list(dict.fromkeys(p.resolve() for p in (Path(_FOLDER), spec.parent / _FOLDER, *folders)))
    for path, own, improved in _runs_in(places):
        # The source of a recorded kernel is named as its spec is.
        if Path(own.task.kernel.variant.files[0].name).stem == spec.stem:
            return (path, "") if improved else (None, f"its newest run, {path}, claims no gain")
    return None, f"no run of {spec.name} in " + " or ".join(str(place) for place in places)


def _runs_in(places: Sequence[Path]) -> Iterator[tuple[Path, LoadedSpec, bool]]:
    """Runs, the newest first, with their spec and whether they claim a gain."""
    runs = [path for place in places for path in place.glob(f"*{SUFFIX}")]
    for path in sorted(runs, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        try:
            with RunRecord.read(path) as record:
                state, own, _ = open_state(record)
                yield path, own, outcome(path, state).summary.improved
        except RecordError:
            # One that is damaged or still without a trial is no run of anything.
            continue
