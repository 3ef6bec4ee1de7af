"""The best of a whole space, cheaply: every configuration timed a few times once, the nearest few again.

Each configuration is one line of a file, so that a screening that was ended goes on where it was. The times are for
choosing only: what is chosen is compared by others in fresh processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from _common import note

from tuner.core import statistics
from tuner.core.protocols import Evaluation
from tuner.core.streams import stream
from tuner.core.types import Build, BuildRequest, Resolved, Status
from tuner.evaluators import registry as backends
from tuner.spaces.space import Space
from tuner.spec.load import LoadedSpec

__all__ = ["best_of_all"]

BATCH = 8
CALLS = 3
AGAIN = 6
PROCESSES = 4
SHOWN_EVERY = 100
AGAIN_FROM = 40_000

Candidate = tuple[Build, Resolved]


def best_of_all(spec: LoadedSpec, path: Path, *, seed: int) -> dict[str, Any]:
    """The configuration of a space without passes that is fastest, as far as a short look tells.

    Args:
        spec: whose space is small enough to be listed.
        path: the file of what is timed already; made where it is not there.
        seed: of inputs and orders.

    Raises:
        RuntimeError: nothing in the space runs.
    """
    space = spec.space(None)
    listing = space.listing()
    assert listing is not None
    configurations = [{**space.default(), **listing.configuration(row)} for row in range(len(listing))]
    known = _read(path)
    evaluation = _ready(spec, space, seed)
    try:
        with path.open("a", encoding="utf-8") as file:
            todo = [row for row in range(len(configurations)) if row not in known]
            for row, seconds in _timed(spec, space, evaluation, configurations, todo):
                known[row] = seconds
                file.write(json.dumps([row, seconds]) + "\n")
                file.flush()
                if len(known) % SHOWN_EVERY == 0:
                    note(f"{spec.name}: {len(known)} of {len(configurations)} looked at")
        ranked = sorted((s, row) for row, s in known.items() if s is not None)
        if not ranked:
            raise RuntimeError(f"no configuration of {spec.name} runs")
        nearest = [row for _, row in ranked[:AGAIN]]
        return configurations[_again(spec, space, evaluation, configurations, nearest, seed)]
    finally:
        evaluation.close()


def _ready(spec: LoadedSpec, space: Space, seed: int) -> Evaluation:
    # One size verified is enough here: who compares verifies them all.
    task = spec.task_with(seed=seed)
    task = replace(task, verify=replace(task.verify, problems=(), assume=()))
    evaluation = backends.create(task.backend).prepare(task, workers=2)
    build, resolved = _build(spec, space, evaluation, [space.default()])[0]
    report = evaluation.set_baseline(build, resolved)
    if report.status is not Status.OK:
        evaluation.close()
        raise RuntimeError(f"the baseline of {spec.name} fails: {report.message}")
    return evaluation


def _build(
    spec: LoadedSpec, space: Space, evaluation: Evaluation, chosen: Sequence[dict[str, Any]]
) -> list[Candidate]:
    resolved = [space.resolve(configuration) for configuration in chosen]
    variant = spec.task.kernel.variant
    requests = [BuildRequest(trial=i, variant=variant, resolved=r) for i, r in enumerate(resolved)]
    return list(zip(evaluation.build(requests), resolved, strict=True))


def _timed(
    spec: LoadedSpec,
    space: Space,
    evaluation: Evaluation,
    configurations: Sequence[dict[str, Any]],
    rows: Sequence[int],
) -> Iterator[tuple[int, float | None]]:
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        candidates = _build(spec, space, evaluation, [configurations[row] for row in part])
        for row, candidate in zip(part, candidates, strict=True):
            times = _times(evaluation, candidate, purpose="search", number=0)
            yield row, min(times) if times else None


def _times(evaluation: Evaluation, candidate: Candidate, *, purpose: str, number: int) -> Sequence[float]:
    build, resolved = candidate
    if build.status is not Status.OK:
        return ()
    session = evaluation.open(build, resolved, purpose=purpose, number=number)
    try:
        if session.verify().status is not Status.OK:
            return ()
        measured = session.measure(problem=0, calls=CALLS)
        return measured.times_s if measured.status is Status.OK else ()
    finally:
        session.close()


def _again(
    spec: LoadedSpec,
    space: Space,
    evaluation: Evaluation,
    configurations: Sequence[dict[str, Any]],
    rows: Sequence[int],
    seed: int,
) -> int:
    """The fastest of a few over several fresh processes each, in random order."""
    candidates = dict(
        zip(rows, _build(spec, space, evaluation, [configurations[r] for r in rows]), strict=True)
    )
    medians: dict[int, list[float]] = {row: [] for row in rows}
    for process in range(PROCESSES):
        for i in stream(seed, "order/again", process).permutation(len(rows)):
            row = rows[i]
            times = _times(evaluation, candidates[row], purpose="confirm", number=AGAIN_FROM + process)
            if times:
                medians[row].append(statistics.median(times))
    return min((row for row in rows if medians[row]), key=lambda row: statistics.median(medians[row]))


def _read(path: Path) -> dict[int, float | None]:
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8").split("\n")
    # What stands behind the last line's end was being written when the screening was ended.
    path.write_text("".join(f"{line}\n" for line in lines[:-1]), encoding="utf-8")
    return dict(map(json.loads, lines[:-1]))
