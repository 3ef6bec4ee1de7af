"""Times of many pipelines on many kernels: a file of lines, made once for each kernel and pipeline.

A kernel is looked at twice: as it is given, and as the winner of a finished run over its source left it (its source,
sizes and flags). Every pipeline is built, verified and timed for real; equal code is timed once.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _common import note
from numpy.typing import NDArray

from tuner.core.protocols import Backend, Evaluation
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Status, Variant
from tuner.driver.opening import open_lineup
from tuner.driver.state.lineage import ORIGINAL
from tuner.recorders.record import RunRecord

__all__ = ["BASE", "Sample", "Times", "opened", "read_times", "samples_of", "time_pipelines"]

BASE = "default<O3>"
_BATCH = 8
_ROUNDS = 4
_CALLS = 5
_HOPELESS = 1.3
"""A first round this much slower than the base is enough."""
_BETTER = 0.97
"""What is this much faster than the base is timed again in another process, and the slower of the two counts."""
_LOOKS = 3
"""Processes in which the base is timed; the fastest counts. Where things come to lie makes processes differ."""
SAME = 0.02
"""Log time below which a gain counts as none."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Something to be compiled: ``kernel/won`` or ``kernel/given``."""

    name: str
    record: Path

    @property
    def kernel(self) -> str:
        """What is left out together."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, kw_only=True)
class Times:
    """What is known of the samples on which every pipeline was tried.

    Attributes:
        gains: log time over the base's, 0 where it is not clearly below it, ``[samples, pipelines]``.
        codes: which code each gave, ``[samples, pipelines]``.
    """

    samples: tuple[str, ...]
    pipelines: tuple[str, ...]
    gains: NDArray[np.float64]
    codes: NDArray[Any]

    def of(self, kernels: Sequence[str], *, without: bool = False) -> NDArray[np.intp]:
        """Rows of some kernels, or of all others."""
        inside = [s.partition("/")[0] in kernels for s in self.samples]
        return np.flatnonzero(np.array(inside) != without)


def samples_of(runs: Path) -> list[Sample]:
    """Of every record in a folder."""
    records = sorted(runs.glob("*.run"))
    names = [(r, r.stem.rpartition("-")[0] or r.stem) for r in records]
    return [Sample(name=f"{name}/{kind}", record=r) for kind in ("won", "given") for r, name in names]


def time_pipelines(backend: Backend, samples: Sequence[Sample], pipelines: Sequence[str], file: Path) -> None:
    """Adds what is not there yet, sample by sample."""
    done = {(row["sample"], row["pipeline"]) for row in _rows(file)}
    for sample in samples:
        left = [p for p in pipelines if (sample.name, p) not in done]
        if not left:
            continue
        with opened(backend, sample) as (evaluation, variant, resolved):
            found = _each(evaluation, variant, resolved, left)
        with file.open("a") as out:
            out.writelines(json.dumps({"sample": sample.name, **row}) + "\n" for row in found)
        times = [row["time_s"] for row in found if row["time_s"]]
        note(f"{sample.name}: {len(left)} pipelines, the best of them {min(times, default=0.0) * 1e6:.1f} us")


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    if file.exists():
        for line in file.read_text().splitlines():
            yield json.loads(line)


@contextmanager
def opened(backend: Backend, sample: Sample) -> Iterator[tuple[Evaluation, Variant, Resolved]]:
    """Where a sample can be built and timed, with its source and all but its pipeline."""
    with RunRecord.read(sample.record) as record:
        state, spec, lineup = open_lineup(record)
    space = lineup.space(ORIGINAL)
    given = (spec.task.kernel.variant, space.resolve(space.default()))
    assert state.best is not None
    variant, resolved = lineup.of_trial(state.best) if sample.name.endswith("/won") else given
    evaluation = backend.prepare(spec.task_with(seed=state.settings.seed), workers=1)
    try:
        (baseline,) = evaluation.build([BuildRequest(trial=BASELINE, variant=given[0], resolved=given[1])])
        evaluation.set_baseline(baseline, given[1])
        yield evaluation, variant, resolved
    finally:
        evaluation.close()


def _each(
    evaluation: Evaluation, variant: Variant, resolved: Resolved, pipelines: Sequence[str]
) -> list[dict[str, Any]]:
    """A row for each pipeline, with the base's time in the same sitting."""
    (build,) = evaluation.build([_request(0, variant, resolved, BASE)])
    looks = [_time(evaluation, build, resolved, None)[1] for _ in range(_LOOKS)]
    base_s = min(time_s for time_s in looks if time_s is not None)
    known: dict[str, tuple[str, float | None]] = {build.key: (str(Status.OK), base_s)}
    rows: list[dict[str, Any]] = []
    for at in range(0, len(pipelines), _BATCH):
        batch = pipelines[at : at + _BATCH]
        requests = [_request(1 + at + i, variant, resolved, text) for i, text in enumerate(batch)]
        for text, build in zip(batch, evaluation.build(requests), strict=True):
            status, time_s = str(build.status), None
            if build.status is Status.OK:
                if build.key not in known:
                    known[build.key] = _surely(evaluation, build, resolved, base_s)
                status, time_s = known[build.key]
            row = {"pipeline": text, "status": status, "code": build.key[:16], "time_s": time_s}
            rows.append({**row, "base_s": base_s})
    return rows


def _request(trial: int, variant: Variant, resolved: Resolved, pipeline: str) -> BuildRequest:
    return BuildRequest(trial=trial, variant=variant, resolved=replace(resolved, pipeline=pipeline))


def _surely(
    evaluation: Evaluation, build: Build, resolved: Resolved, base_s: float
) -> tuple[str, float | None]:
    status, time_s = _time(evaluation, build, resolved, base_s)
    if time_s is None or time_s > _BETTER * base_s:
        return status, time_s
    again, other_s = _time(evaluation, build, resolved, base_s)
    return again, None if other_s is None else max(time_s, other_s)


def _time(
    evaluation: Evaluation, build: Build, resolved: Resolved, base_s: float | None
) -> tuple[str, float | None]:
    session = evaluation.open(build, resolved, purpose="search", number=1)
    try:
        verdict = session.verify()
        times_s: list[float] = []
        while verdict.status is Status.OK and len(times_s) < _ROUNDS:
            made = session.measure(problem=0, calls=_CALLS)
            if made.status is not Status.OK:
                return str(made.status), None
            times_s.append(min(made.times_s))
            if base_s is not None and times_s[-1] > _HOPELESS * base_s:
                break
        return str(verdict.status), statistics.median(times_s) if times_s else None
    finally:
        session.close()


def read_times(file: Path) -> Times:
    """Of all pipelines that were tried on every sample; what failed has no gain."""
    rows = {(row["sample"], row["pipeline"]): row for row in _rows(file)}
    samples = sorted({sample for sample, _ in rows})
    tried = dict.fromkeys(pipeline for _, pipeline in rows)
    pipelines = tuple(p for p in tried if all((s, p) in rows for s in samples))
    gains = np.zeros((len(samples), len(pipelines)))
    codes = np.empty(gains.shape, dtype=object)
    for i, sample in enumerate(samples):
        for j, pipeline in enumerate(pipelines):
            row = rows[sample, pipeline]
            codes[i, j] = row["code"] or pipeline
            if row["time_s"]:
                gains[i, j] = min(0.0, np.log(row["time_s"] / row["base_s"]))
    gains[gains > -SAME] = 0.0
    return Times(samples=tuple(samples), pipelines=pipelines, gains=gains, codes=codes)
