"""Reads recorded spaces in the community's formats: T4 results and Kernel Tuner cache files.

T4 is the output format of the FAIR autotuning schemas (https://github.com/odgaard/TuningSchema); Kernel Tuner's cache
is what its ``cache`` option writes. May not write files.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuner.core.errors import SpecError
from tuner.core.types import Status, Value
from tuner.evaluators.recorded.spaces import ENERGY, FORMAT, RecordedSpace, Row, key_of, positive, values_seen

__all__ = ["first_working", "read_file", "read_space"]

_T4 = {
    "correct": Status.OK,
    "timeout": Status.TIMED_OUT,
    "compile": Status.BUILD_ERROR,
    "runtime": Status.CRASHED,
    "correctness": Status.WRONG_RESULT,
    "constraints": Status.REFUSED,
}
_ERRORS = {
    "CompilationFailedConfig": Status.BUILD_ERROR,
    "RuntimeFailedConfig": Status.CRASHED,
    "InvalidConfig": Status.REFUSED,
    "ErrorConfig": Status.CRASHED,
}
_UNITS = {"s": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_MAGIC = b"\x1f\x8b"


def read_file(path: Path) -> RecordedSpace:
    """A space from a file, gzip or not.

    Raises:
        SpecError: it cannot be read, or is in none of the formats.
    """
    try:
        raw = path.read_bytes()
        if raw.startswith(_MAGIC):
            raw = gzip.decompress(raw)
        text = raw.decode()
    except FileNotFoundError:
        raise SpecError(f"there is no file {path}", "check the path") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise SpecError(
            f"{path} cannot be read ({error})", "name a T4, Kernel Tuner cache or recorded space file"
        ) from None
    try:
        return read_space(text, name=path.name.split(".")[0])
    except SpecError as error:
        raise SpecError(f"{path}: {error.message}", error.hint) from None


@lru_cache(maxsize=2)
def read_space(text: str, *, name: str = "kernel") -> RecordedSpace:
    """A space from the text of a file in any of the formats; a run needs it more than once.

    Args:
        text: the JSON; a Kernel Tuner cache may lack its closing brackets, as it does while it is written.
        name: of the kernel, where the format does not say it.

    Raises:
        SpecError: it is in none of the formats.
    """
    data = _parse(text)
    if isinstance(data, dict):
        if data.get("format") == FORMAT:
            return RecordedSpace.from_json(data)
        try:
            if isinstance(data.get("cache"), dict):
                return _kernel_tuner(data, name)
            if isinstance(data.get("results"), list):
                return _t4(data, name)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SpecError(
                f"the recorded results do not hold together ({type(error).__name__}: {error})",
                "give a complete T4 or Kernel Tuner cache file",
            ) from None
    raise SpecError(
        "the file is no recorded space",
        f"it has to be {FORMAT}, T4 results (`results`) or a Kernel Tuner cache (`cache`)",
    )


def _parse(text: str) -> Any:
    for ending in ("", "}\n}", "}}"):
        try:
            return json.loads(text.rstrip().rstrip(",") + ending)
        except ValueError:
            continue
    raise SpecError("the file is not JSON", "give a T4, Kernel Tuner cache or recorded space file")


def _kernel_tuner(data: Mapping[str, Any], name: str) -> RecordedSpace:
    parameters = {k: tuple(v) for k, v in data["tune_params"].items()}
    rows = {}
    for entry in data["cache"].values():
        time = entry["time"]
        if isinstance(time, int | float):
            status, repeats = Status.OK, entry.get("times") or [time]
        else:
            status, repeats = _ERRORS.get(str(time), Status.CRASHED), []
        rows[key_of(entry[k] for k in parameters)] = Row(
            status=status,
            times_s=tuple(1e-3 * float(t) for t in repeats),
            compile_s=1e-3 * _number(entry, "compile_time"),
            run_s=1e-3 * (_number(entry, "verification_time") + _number(entry, "benchmark_time")),
            energy_j=_energy(entry) if status is Status.OK else None,
        )
    return RecordedSpace(
        kernel=str(data.get("kernel_name") or name),
        device=str(data.get("device_name") or ""),
        parameters=parameters,
        rows=rows,
        source={"format": "kernel-tuner-cache"},
    )


def _t4(data: Mapping[str, Any], name: str) -> RecordedSpace:
    metadata = data.get("metadata") or {}
    unit = _unit(str(metadata.get("timeunit") or "ms"))
    results = data["results"]
    parameters = values_seen([r["configuration"] for r in results])
    rows = {}
    for result in results:
        status = _T4[result["invalidity"]]
        if status is Status.OK and not result.get("correctness", 1):
            status = Status.WRONG_RESULT
        times = result["times"]
        repeats = times.get("runtimes") or _measured(result)
        if status is Status.OK and not repeats:
            raise ValueError(f"no times for {result['configuration']}")
        rows[key_of(result["configuration"][k] for k in parameters)] = Row(
            status=status,
            times_s=tuple(unit * float(t) for t in repeats) if status is Status.OK else (),
            compile_s=unit * max(_number(times, "compilation_time"), _number(times, "compilation")),
            run_s=unit * (_number(times, "validation") + sum(map(float, repeats))),
            energy_j=_energy({m["name"]: m["value"] for m in result.get("measurements", ())}),
        )
    return RecordedSpace(
        kernel=str(metadata.get("kernel") or name),
        device=str(metadata.get("device") or ""),
        parameters=parameters,
        rows=rows,
        source={"format": "T4"},
    )


def _measured(result: Mapping[str, Any]) -> list[float]:
    """The objective's value where single repeats are not given."""
    return [
        float(m["value"])
        for m in result.get("measurements", ())
        if m["name"] == "time" and isinstance(m["value"], int | float)
    ]


def _energy(values: Mapping[str, Any]) -> float | None:
    """Joules of one run, where there are any."""
    return next((found for name in ENERGY if (found := positive(values.get(name))) is not None), None)


def _unit(text: str) -> float:
    first = text.strip().lower()[:1]
    if first not in _UNITS:
        raise ValueError(f"unknown time unit {text!r}")
    return _UNITS[first]


def _number(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def first_working(space: RecordedSpace) -> Mapping[str, Value] | None:
    """The first configuration of the file that worked, or ``None``."""
    found: Iterable[Mapping[str, Value]] = (c for c, row in space.configurations() if row.status is Status.OK)
    return next(iter(found), None)
