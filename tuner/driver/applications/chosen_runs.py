"""Which runs are put in place: those named, and those of the kernels that an application was recorded with.

Reads the index that several recorded kernels get, and the summaries of runs. May not run anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from tuner.core.errors import RecordError, UsageError
from tuner.driver.applications.recorded_specs import INDEX_FILE
from tuner.driver.opening import open_state
from tuner.driver.outcome.outcome import outcome
from tuner.driver.records import SUFFIX
from tuner.recorders.record import RunRecord

__all__ = ["chosen_runs"]

_FOLDER = "tuner-runs"


def chosen_runs(named: Sequence[Path], *, note: Callable[[str], None]) -> list[Path]:
    """Records of runs, with a recorded application's folder or its index replaced by the newest run of each kernel.

    Runs are looked for in ``tuner-runs`` here and beside the index. A kernel that has no run with a gain is left out,
    and a note says so.

    Args:
        named: records, folders and indices.
        note: told of what is left out.

    Raises:
        UsageError: an index that cannot be read, or none of whose kernels has a run with a gain.
    """
    found: list[Path] = []
    for path in named:
        index = path / INDEX_FILE if path.is_dir() else path
        if path.is_dir() or path.suffix == ".json":
            found += _of_index(index, note)
        else:
            found.append(path)
    return found


def _of_index(index: Path, note: Callable[[str], None]) -> list[Path]:
    kernels = _kernels(index)
    found = []
    for name, spec in kernels:
        run, why = _newest(index.parent / spec)
        if run is None:
            note(f"{name} stays as it is: {why}")
        else:
            found.append(run)
    if not found:
        raise UsageError(
            f"none of the {len(kernels)} kernels in {index} has a run with a gain",
            f"tune {index.parent}/*.yaml",
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


def _newest(spec: Path) -> tuple[Path | None, str]:
    """The newest run of a spec that claims a gain; without one the reason."""
    places = list(dict.fromkeys(p.resolve() for p in (Path(_FOLDER), spec.parent / _FOLDER)))
    runs = [path for place in places for path in place.glob(f"*{SUFFIX}")]
    for path in sorted(runs, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        try:
            with RunRecord.read(path) as record:
                state, own, _ = open_state(record)
                result = outcome(path, state)
        except RecordError:
            # One that is damaged or still without a trial is no run of anything.
            continue
        # The source of a recorded kernel is named as its spec is.
        if Path(own.task.kernel.variant.files[0].name).stem == spec.stem:
            return (
                (path, "") if result.summary.improved else (None, f"its newest run, {path}, claims no gain")
            )
    return None, f"no run of {spec.name} in " + " or ".join(str(place) for place in places)
