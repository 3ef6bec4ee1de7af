"""Trials as rows, as a pandas DataFrame, as CSV and as a Parquet file: units stand in the columns' names."""

from __future__ import annotations

import csv
import io
import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.errors import MachineError, UsageError
from tuner.core.files import settle, write_atomically
from tuner.core.types import Status, Value
from tuner.driver.outcome.export import check_writable
from tuner.driver.outcome.result import search_times_s
from tuner.driver.state.fold import apply
from tuner.driver.state.run import RunState
from tuner.driver.state.strangers import holding_together
from tuner.driver.state.trials import TrialState
from tuner.recorders.record import RunRecord

if TYPE_CHECKING:
    import pandas

__all__ = ["read_rows", "trials_frame", "write_csv", "write_parquet"]

INSTALL = "pip install 'remix-tuner[frames]'"


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Every trial as a plain row, in order of their numbers.

    Each holds ``trial``, ``status``, ``stage``, ``raced``, ``score`` (log of the time over the baseline's),
    ``time_s`` (all timed calls), ``interval_s`` (median of one call with 95% interval within its process; over
    several problems the weighted geometric mean), ``clock_s`` (active seconds of the run when it was done),
    ``compile_s``, ``verify_s``, ``variant``, ``origin``, ``configuration``, ``features`` and ``message``.
    """
    clocks: dict[int, float] = {}
    with RunRecord.read(path) as record:
        state = RunState(record.blob)
        for event in record.events():
            with holding_together(f"event {event.seq} ({event.kind})"):
                apply(state, event)
            if event.kind == "trial" and event.trial is not None:
                clocks[event.trial] = state.clock_s
    with holding_together(str(path)):
        return [_row(state, trial, clocks.get(trial.number)) for trial in state.trials.values()]


def _row(state: RunState, trial: TrialState, clock_s: float | None) -> dict[str, Any]:
    build = trial.build or {}
    interval = search_times_s(state, trial) if trial.status is Status.OK else (math.nan,)
    return {
        "trial": trial.number,
        "status": None if trial.status is None else trial.status.value,
        "stage": trial.stage.value,
        "raced": trial.raced,
        "score": trial.score,
        "time_s": [x for r in trial.rounds for m in r for x in m["times_s"]],
        "interval_s": None if math.isnan(interval[0]) else list(interval),
        "clock_s": clock_s,
        "compile_s": sum(build.get("seconds", {}).values()) if build else None,
        "verify_s": None if trial.verify is None else trial.verify["wall_s"],
        "variant": trial.variant,
        "origin": trial.proposal.origin,
        "configuration": dict(trial.proposal.configuration),
        "features": dict(build.get("features", {})),
        "message": trial.message,
    }


def trials_frame(rows: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """Rows as a DataFrame: a line for each trial.

    ``speedup`` is a ratio to the baseline as the search saw it; ``time_s`` the median of one call, between
    ``time_low_s`` and ``time_high_s`` (95%, within one process; over several problems the weighted geometric mean).
    Tunables stand in columns ``parameter.NAME``, static features of the code in ``feature.NAME``.

    Raises:
        MachineError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise MachineError("DataFrames need pandas", f"{INSTALL}, or use result.rows") from error
    return pandas.DataFrame(
        {name: pandas.array(values, dtype=type_) for name, (type_, values) in _columns(rows).items()}
    )


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, list[Any]]]:
    """Each column's type and values, by name."""
    columns = {name: [row[name] for row in rows] for name in _FIRST}
    columns["speedup"] = [None if row["score"] is None else math.exp(-row["score"]) for row in rows]
    columns["timed_calls"] = [len(row["time_s"]) for row in rows]
    for i, name in enumerate(("time_s", "time_low_s", "time_high_s")):
        columns[name] = [None if row["interval_s"] is None else row["interval_s"][i] for row in rows]
    for name in _LAST:
        columns[name] = [row[name] for row in rows]
    types = dict(_TYPES)
    for prefix, key in (("parameter", "configuration"), ("feature", "features")):
        for name in dict.fromkeys(n for row in rows for n in row[key]):
            column = [row[key].get(name) for row in rows]
            type_ = "Float64" if prefix == "feature" else _type_of(column)
            types[f"{prefix}.{name}"] = type_
            columns[f"{prefix}.{name}"] = [
                str(v) if type_ == "string" and v is not None else v for v in column
            ]
    return {name: (types[name], values) for name, values in columns.items()}


_FIRST = ("trial", "status", "stage", "raced")
_LAST = ("clock_s", "compile_s", "verify_s", "variant", "origin", "message")
_TYPES = {
    **dict.fromkeys(("trial", "timed_calls", "variant"), "Int64"),
    **dict.fromkeys(("status", "stage", "origin", "message"), "string"),
    **dict.fromkeys(("speedup", "time_s", "time_low_s", "time_high_s"), "Float64"),
    **dict.fromkeys(("clock_s", "compile_s", "verify_s"), "Float64"),
    "raced": "boolean",
}


def _type_of(values: Sequence[Value | None]) -> str:
    """One column, one type: a choice between 8 and "auto" is a choice between texts."""
    kinds = {type(v) for v in values if v is not None}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int}:
        return "Int64"
    return "Float64" if kinds <= {int, float} else "string"


def write_csv(run: Path, output: Path) -> int:
    """Writes the trials of a run as CSV, in the columns of :func:`trials_frame`; returns how many.

    Raises:
        UsageError: the file cannot be written.
    """
    check_writable(output)
    columns = _columns(read_rows(run))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    lines = list(zip(*(values for _, values in columns.values()), strict=True))
    writer.writerows(lines)
    write_atomically(output, text.getvalue().encode())
    return len(lines)


def write_parquet(run: Path, output: Path) -> int:
    """Writes the trials of a run as Parquet; returns how many.

    Raises:
        UsageError: the file cannot be written.
        MachineError: pandas or pyarrow is not installed.
    """
    check_writable(output)
    frame = trials_frame(read_rows(run))
    try:
        # In the same folder, so that it is replaced whole or not at all.
        with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as folder:
            draft = Path(folder) / "trials.parquet"
            frame.to_parquet(draft, index=False, engine="pyarrow")
            settle(draft, output)
    except ImportError as error:
        raise MachineError("Parquet needs pyarrow", INSTALL) from error
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}", "name another file") from error
    return len(frame)
