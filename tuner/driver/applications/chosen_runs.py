"""Which runs are put in place: those named, and those that folders and wisdom files stand for.

Reads the index that several recorded kernels get, wisdom files, and the summaries of runs. May not run anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.core.errors import RecordError, UsageError
from tuner.driver.applications.recorded_specs import INDEX_FILE
from tuner.driver.opening import open_state
from tuner.driver.outcome.outcome import outcome
from tuner.driver.outcome.wise import told
from tuner.driver.records import SUFFIX
from tuner.recorders.record import RunRecord
from tuner.recorders.wisdom import Wisdom
from tuner.spec.load import LoadedSpec
from tuner.spec.recorded.workload import DERIVED, from_text

__all__ = ["chosen_runs"]

_FOLDER = "tuner-runs"
_WISDOM = ".wisdom.json"


def chosen_runs(named: Sequence[Path], *, note: Callable[[str], None]) -> list[Path]:
    """Records of runs, with what stands for some replaced by them.

    A recorded application's folder, or its index, stands for the newest run of each of its kernels in ``tuner-runs``
    here and beside it and in the other folders named; a folder of runs for the newest run of each kernel in it, of each
    of the sizes that it was tuned for; a wisdom file for the runs that its configurations come from. A kernel that has
    no run with a gain is left out, and a note says so; so is one of several runs that claims no gain, unless another of
    its kernel claims one at other sizes.

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
            found += _of_wisdom(path, note) if path.suffix == ".json" else [path]
    return found if len(named) == 1 else _gaining(found, note)


def _is_index(path: Path) -> bool:
    if path.is_dir():
        return (path / INDEX_FILE).exists()
    return path.suffix == ".json" and not path.name.endswith(_WISDOM)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A run, with what tells it from others.

    Attributes:
        path: of the record.
        spec: that was tuned.
        improved: whether it claims a gain.
    """

    path: Path
    spec: LoadedSpec
    improved: bool

    @property
    def kernel(self) -> tuple[str, str]:
        """Of which backend, and its name."""
        return self.spec.task.backend, self.spec.task.kernel.entry

    @property
    def places(self) -> frozenset[Hashable]:
        """What it was timed on: sizes, and of a recorded OpenCL kernel the device."""
        device = ""
        if DERIVED in self.spec.files:
            first = from_text(self.spec.files[DERIVED], origin=str(self.path)).recordings[0]
            device = first.device if first.api == "opencl" else ""
        sizes = [told(self.spec, problem)[0] for problem in self.spec.task.problems]
        return frozenset((device, tuple(sorted(one.items()))) for one in sizes)

    def helps(self, others: Iterable[_Run]) -> bool:
        """Whether it claims a gain, or says where there is none for a kernel that another does for other sizes."""
        same = [other for other in others if other.improved and other.kernel == self.kernel]
        return self.improved or (bool(same) and not any(self.places <= other.places for other in same))


def _gaining(paths: Sequence[Path], note: Callable[[str], None]) -> list[Path]:
    """Of several runs those that help; one that cannot be read is left for who opens it to say."""
    runs = {path: _run(path) for path in paths if path.exists()}
    if runs.keys() >= set(paths) and not any(run.improved for run in runs.values()):
        raise UsageError(
            f"none of the {len(paths)} runs claims anything better than the kernel as given",
            "there is nothing to put in place",
        )
    without = [path for path, run in runs.items() if not run.helps(runs.values())]
    for path in without:
        note(f"the kernel of {path} stays as it is: the run claims no gain")
    return [path for path in paths if path not in without]


def _run(path: Path) -> _Run:
    with RunRecord.read(path) as record:
        state, spec, _ = open_state(record)
        return _Run(path=path, spec=spec, improved=outcome(path, state).summary.improved)


def _of_folder(folder: Path, note: Callable[[str], None]) -> list[Path]:
    """The newest run of each kernel, by its name, and of each of its sizes, where that helps."""
    newest: dict[Hashable, _Run] = {}
    for run in _runs_in([folder]):
        newest.setdefault((run.spec.name, run.places), run)
    runs = list(newest.values())
    if not runs:
        raise UsageError(
            f"there are no runs in {folder}, and no {INDEX_FILE}",
            "name a run, a folder of runs, or the folder of tuner record -o",
        )
    if not any(run.improved for run in runs):
        raise UsageError(
            f"no kernel's newest run in {folder} claims a gain", "tune again, or name an older run"
        )
    for name in dict.fromkeys(run.spec.name for run in runs):
        own = [run for run in runs if run.spec.name == name]
        if not any(run.improved for run in own):
            note(f"{name} stays as it is: its newest run, {own[0].path}, claims no gain")
    return [run.path for run in runs if run.helps(runs)]


def _of_wisdom(path: Path, note: Callable[[str], None]) -> list[Path]:
    """The runs that a wisdom file's configurations come from: the file holds no code."""
    wisdom = Wisdom.load(path)
    gaining = {entry.run for entry in wisdom.entries if entry.run and entry.speedup[0] > 1}
    if not gaining:
        raise UsageError(
            f"{path} holds no code, and its configurations are all the default's",
            "there is nothing to put in place",
        )
    # Beside the file, above it, which is where it was exported from, and here.
    homes = (Path(), path.parent, path.parent.parent)
    places = list(dict.fromkeys(place for home in homes for place in (home / _FOLDER, home)))
    found = []
    for name in sorted({entry.run for entry in wisdom.entries if entry.run}):
        there = next((place / name for place in places if (place / name).is_file()), None)
        if there is None and name not in gaining:
            note(f"{name} is not there, so nothing says where the kernel had better stay as it is")
            continue
        if there is None:
            raise UsageError(
                f"{path} holds no code, and the run that it comes from, {name}, is not in "
                + " or ".join(str(place) for place in places),
                "name the run itself",
            )
        found.append(there)
    return found


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
    # The source of a recorded kernel is named as its spec is.
    runs = [r for r in _runs_in(places) if Path(r.spec.task.kernel.variant.files[0].name).stem == spec.stem]
    # One kernel may have been recorded into several folders, each at a size of its own.
    beside = [run for run in runs if Path(run.spec.path).parent.resolve() == spec.parent.resolve()]
    for run in beside or runs:
        return (run.path, "") if run.improved else (None, f"its newest run, {run.path}, claims no gain")
    return None, f"no run of {spec.name} in " + " or ".join(str(place) for place in places)


def _runs_in(places: Sequence[Path]) -> Iterator[_Run]:
    """Runs, the newest first."""
    runs = [path for place in places for path in place.glob(f"*{SUFFIX}")]
    for path in sorted(runs, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        try:
            yield _run(path)
        except RecordError:
            # One that is damaged or still without a trial is no run of anything.
            continue
