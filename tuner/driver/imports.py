"""``tuner import``: others' files and run records as specs; ``--t4``: a run in the community's format.

Writes new files only; may not run anything.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core.canonical import canonical_json
from tuner.core.errors import SpecError, UsageError
from tuner.core.files import write_atomically
from tuner.core.types import Status, Value
from tuner.driver.opening import open_state
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState
from tuner.evaluators.recorded.formats import read_file
from tuner.evaluators.recorded.spaces import RecordedSpace, Row, key_of, values_seen
from tuner.recorders.record import RunRecord
from tuner.spec.imports import Imported, import_t1, spec_of_space
from tuner.spec.yaml_places import MAX_BYTES

__all__ = ["Import", "import_file", "read_sources", "t4_of_run", "write_t4"]

_SQLITE = b"SQLite format 3\x00"
_SILENT = (Status.LOST, Status.ABANDONED, Status.PRUNED)
_PASSES, _PIPELINE = "passes", "pipeline"
_INVALIDITY = {
    Status.OK: "correct",
    Status.BUILD_ERROR: "compile",
    Status.OUT_OF_RESOURCES: "compile",
    Status.TIMED_OUT: "timeout",
    Status.WRONG_RESULT: "correctness",
    Status.REFUSED: "constraints",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """What was written."""

    spec: Path
    files: tuple[Path, ...]
    notes: tuple[str, ...]


def import_file(path: Path, folder: Path) -> Import:
    """Writes the spec of a T1 description, or a recorded space with its spec, into a folder.

    Args:
        path: T1 JSON, T4 results, a Kernel Tuner cache, a recorded space (gzip or not) or a run record.
        folder: where to; made when missing.

    Raises:
        SpecError: the file is none of these.
        UsageError: a file of that name exists.
    """
    if not is_run(path):
        described = _t1(path)
        if described is not None:
            imported = import_t1(described, beside=os.path.relpath(path.resolve().parent, folder.resolve()))
            return _write(imported, folder, {})
        space = read_file(path)
    else:
        space = space_of_run(path)
    name = f"{_stem(path)}.space.json"
    return _write(spec_of_space(space, name), folder, {name: space.to_text()}, _stem(path))


def is_run(path: Path) -> bool:
    """Whether a file is a run record rather than one of others' formats.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "check the path") from None


def read_sources(paths: Sequence[Path]) -> list[str]:
    """Each source as JSON text: configurations with the logarithm of their time.

    Args:
        paths: run records, or files of measurements that ``tuner import`` reads.

    Raises:
        UsageError: a file holds nothing that worked.
    """
    texts = []
    for path in paths:
        found = _observed(path) if is_run(path) else _measured(path)
        if not found:
            raise UsageError(f"{path} holds no trial that worked", "name a run that got further")
        texts.append(canonical_json([[dict(c), score] for c, score in found]))
    return texts


def _measured(path: Path) -> list[tuple[Mapping[str, Value], float]]:
    rows = read_file(path).configurations()
    return [(c, math.log(sum(r.times_s) / len(r.times_s))) for c, r in rows if r.times_s]


def _observed(path: Path) -> list[tuple[Mapping[str, Value], float]]:
    with RunRecord.read(path) as record:
        state, _, _ = open_state(record)
    return [(t.proposal.configuration, t.score) for t in _original(state) if t.score is not None]


def _t1(path: Path) -> Mapping[str, Any] | None:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) and "ConfigurationSpace" in data else None


def _write(imported: Imported, folder: Path, beside: Mapping[str, str], stem: str = "") -> Import:
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder / f"{stem or re.sub(r'[^A-Za-z0-9_.-]+', '_', imported.name)}.yaml"
    texts = {spec: imported.text, **{folder / name: text for name, text in beside.items()}}
    size = len(imported.text.encode())
    if size > MAX_BYTES:
        raise UsageError(
            f"{spec.name} would have {size // 1024:,} KiB, and a spec may have {MAX_BYTES // 1024}",
            "it lists every value seen; import a run with fewer pipelines",
        )
    for target in texts:
        if target.exists():
            raise UsageError(f"{target} exists already", "remove it, or name another folder with -o")
    for target, text in texts.items():
        write_atomically(target, text.encode())
    return Import(spec=spec, files=tuple(texts), notes=imported.notes)


def _stem(path: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", path.name.split(".")[0]) or "space"


def space_of_run(path: Path) -> RecordedSpace:
    """The trials of a run record as a recorded space; the pipeline becomes the parameter ``pipeline``.

    Raises:
        SpecError: the run has several problems, or no trial that says anything.
    """
    with RunRecord.read(path) as record:
        state, spec, _ = open_state(record)
    if len(state.settings.weights) != 1:
        raise SpecError(f"{path} is a run over several problems", "a recorded space is of one problem")
    said = [(t, _source(state, t)) for t in _original(state) if t.status not in (None, *_SILENT)]
    if not said:
        raise SpecError(f"{path} holds no finished trial", "let the run get further")
    configurations = [_renamed(t.proposal.configuration) for t, _ in said]
    parameters = values_seen(configurations)
    rows = {}
    for configuration, (_, source) in zip(configurations, said, strict=True):
        status = source.status if source.status is not None else Status.REFUSED
        times = tuple(source.times_s(0)) if status is Status.OK else ()
        rows[key_of(configuration[name] for name in parameters)] = Row(
            status=status,
            times_s=times,
            compile_s=_compile_s(source),
            run_s=sum(times),
        )
    return RecordedSpace(
        kernel=spec.name,
        device=state.device,
        parameters=parameters,
        rows=rows,
        source={"format": "run"},
    )


def t4_of_run(path: Path) -> dict[str, Any]:
    """A run in the T4 results format, schema 1.0.0, times in milliseconds."""
    with RunRecord.read(path) as record:
        state, spec, _ = open_state(record)
    results = []
    for trial in _original(state):
        if trial.status is None or trial.status in _SILENT:
            continue
        source = _source(state, trial)
        status = source.status if source.status is not None else Status.CRASHED
        times = source.times_s(0) if status is Status.OK else []
        value: Any = 1e3 * sorted(times)[len(times) // 2] if times else status.value
        results.append(
            {
                "configuration": dict(trial.proposal.configuration),
                "objectives": ["time"],
                "times": {
                    "compilation_time": 1e3 * _compile_s(source),
                    "runtimes": [1e3 * t for t in times],
                    "framework": 0.0,
                    "search_algorithm": 0.0,
                    "validation": 1e3 * float((source.verify or {}).get("wall_s", 0.0)),
                },
                "invalidity": _INVALIDITY.get(status, "runtime"),
                "correctness": 1 if status is Status.OK else 0,
                "measurements": [{"name": "time", "value": value, "unit": "ms"}],
            }
        )
    return {
        "schema_version": "1.0.0",
        "metadata": {"timeunit": "milliseconds", "kernel": spec.name, "device": state.device},
        "results": results,
    }


def write_t4(run: Path, target: Path) -> None:
    """Writes :func:`t4_of_run` to a file, replacing one that is there."""
    write_atomically(target, (json.dumps(t4_of_run(run), indent=1) + "\n").encode())


def _original(state: RunState) -> list[TrialState]:
    """The trials of the source as given: a configuration means something else for another variant."""
    return [t for t in state.trials.values() if t.variant == ORIGINAL]


def _source(state: RunState, trial: TrialState) -> TrialState:
    """The trial whose measurements count: of a duplicate the one it repeats."""
    return state.trials[trial.of] if trial.of is not None else trial


def _renamed(configuration: Mapping[str, Value]) -> dict[str, Value]:
    return {_PIPELINE if name == _PASSES else name: value for name, value in configuration.items()}


def _compile_s(trial: TrialState) -> float:
    return float(sum((trial.build or {}).get("seconds", {}).values()))
