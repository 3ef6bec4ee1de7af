"""A run in the shape of what Kernel Tuner returns and caches; times in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.api import Result
from tuner.core.errors import UsageError
from tuner.core.statistics import median
from tuner.core.types import Status
from tuner.driver.opening import open_state
from tuner.driver.state.run import RunState
from tuner.driver.state.trials import TrialState
from tuner.recorders.record import RunRecord

__all__ = [
    "CompilationFailedConfig",
    "ErrorConfig",
    "InvalidConfig",
    "RuntimeFailedConfig",
    "as_results",
    "cache_of",
]

_SILENT = (Status.LOST, Status.ABANDONED, Status.PRUNED)


class ErrorConfig(str):
    """In the place of a time: the candidate failed. The text says why."""

    __slots__ = ()

    def __str__(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        return type(self).__name__


class InvalidConfig(ErrorConfig):
    """Against the limits of the device."""

    __slots__ = ()


class CompilationFailedConfig(ErrorConfig):
    """It does not build."""

    __slots__ = ()


class RuntimeFailedConfig(ErrorConfig):
    """It crashed, hung, or gave a wrong result."""

    __slots__ = ()


_ERRORS = {
    Status.BUILD_ERROR: CompilationFailedConfig,
    Status.REFUSED: InvalidConfig,
    Status.OUT_OF_RESOURCES: InvalidConfig,
}


def as_results(
    result: Result, names: Sequence[str], metrics: Mapping[str, Callable[[dict[str, Any]], Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The trials of a run as results, in their order, and the environment.

    Args:
        result: of the run.
        names: the tunables.
        metrics: functions of a result that worked.

    Raises:
        UsageError: a metric raises an exception.
    """
    with RunRecord.read(result.path) as record:
        state, _, _ = open_state(record)
    rows = {}
    for number, trial in state.trials.items():
        if trial.status is None or trial.status in _SILENT:
            continue
        row = _row(state, trial, names)
        if not isinstance(row["time"], ErrorConfig):
            for name, function in metrics.items():
                row[name] = _metric(name, function, row, result.path)
        rows[number] = row
    summary = result.outcome.summary
    value, low, high = summary.speedup
    env = {
        "device_name": result.outcome.device,
        "best_config": rows[summary.best.number if summary.improved else 0],
        "speedup": value,
        "speedup_ci95": (low, high),
        "improved": summary.improved,
        "run": str(result.path),
        "total_time": 1e3 * summary.wall_s,
    }
    return list(rows.values()), env


def _metric(name: str, function: Callable[[dict[str, Any]], Any], row: dict[str, Any], run: Path) -> Any:
    try:
        return function(row)
    except Exception as error:
        # The run has ended and is whole: only what was to be added to it failed.
        raise UsageError(
            f"the metric {name!r} raised {type(error).__name__}: {error}",
            f"mend it; the run is in {run}, for tuner.load",
        ) from error


def _row(state: RunState, trial: TrialState, names: Sequence[str]) -> dict[str, Any]:
    # Equal code is measured once, and both have its times.
    source = state.trials[trial.of] if trial.of is not None else trial
    configuration = trial.proposal.configuration
    row: dict[str, Any] = {name: configuration[name] for name in names}
    times = [1e3 * t for t in source.times_s(0)] if source.status is Status.OK else []
    if times:
        row["time"] = median(times)
    else:
        kind = _ERRORS.get(source.status or Status.CRASHED, RuntimeFailedConfig)
        row["time"] = kind(source.message or str(source.status))
    row["times"] = times
    row["compile_time"] = 1e3 * float(sum((source.build or {}).get("seconds", {}).values()))
    row["verification_time"] = 1e3 * float((source.verify or {}).get("wall_s", 0.0))
    row["benchmark_time"] = sum(times)
    return row


def cache_of(
    results: Sequence[Mapping[str, Any]],
    env: Mapping[str, Any],
    kernel_name: str,
    problem_size: Any,
    tune_params: Mapping[str, Sequence[Any]],
) -> dict[str, Any]:
    """The results in the format of Kernel Tuner's cache files."""
    cached = {}
    for row in results:
        plain = {k: str(v) if isinstance(v, ErrorConfig) else v for k, v in row.items()}
        cached[",".join(str(row[name]) for name in tune_params)] = plain
    sizes = [problem_size] if isinstance(problem_size, int | str) else list(problem_size)
    return {
        "schema_version": "1.0.0",
        "device_name": env["device_name"],
        "kernel_name": kernel_name,
        "problem_size": [int(s) if not isinstance(s, str) else s for s in sizes],
        "tune_params_keys": list(tune_params),
        "tune_params": {
            name: [v.item() if hasattr(v, "item") else v for v in values]
            for name, values in tune_params.items()
        },
        "objective": "time",
        "cache": cached,
    }
