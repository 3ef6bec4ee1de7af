"""The cost model on kernels of the host: which features say how fast a pass sequence is, and what whole runs gain.

Both parts keep their run records, and a rerun goes on from those that are finished.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _common import host_specs, note
from _cost_runs import recorded_runs

from tuner.core.protocols import Known
from tuner.core.streams import stream
from tuner.core.types import BASELINE, Status
from tuner.cost_models.screen import Screen
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.recorders.record import RunRecord
from tuner.search.history import FAILURES
from tuner.spec.load import load_spec

__all__ = ["KEPT", "compare_features", "compare_runs", "compare_walls", "make_runs"]

KEPT = 0.3
LEAST = 48
WITHIN = 0.02
QUICK = {"finalists": 1, "choose_processes": 1, "confirm_processes": 4}
"""Only the search matters here."""

KINDS: dict[str, Callable[[str], bool] | None] = {
    "configuration": lambda name: not name.startswith("build_"),
    "code": lambda name: name.startswith("build_"),
    "both": lambda name: True,
    "random": None,
}


def make_runs(folder: Path, evaluations: int, match: str = "") -> None:
    """Random pass sequences, flags and parameters of every host example, without the model, as run records."""
    for path in _examples(match):
        _run(path, folder / f"{path.stem}.run", evaluations, seed=0, strategy="random", model="off")


def _examples(match: str) -> list[Path]:
    """The host examples; those of builds are no kernels to be searched."""
    return [p for p in host_specs(None) if "builds" not in p.parts and match in p.stem]


def compare_features(paths: Sequence[Path], seeds: int) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Two thirds of a run's trials are learnt from, the rest screened: by configuration, by code, by both.

    Returns:
        by kind, then ``good`` (whether what is within 2% of the best is among the 30% kept) and ``place`` (of the
        best in the ranking, from 0), then by run, one number for each split.
    """
    found: dict[str, dict[str, dict[str, list[float]]]] = {k: {"good": {}, "place": {}} for k in KINDS}
    for path in paths:
        ones = [known for known in recorded_runs(path) if known.score is not None]
        if len(ones) < LEAST:
            note(f"{path.stem}: {len(ones)} timed trials are too few")
            continue
        for kind, keep in KINDS.items():
            for seed in range(seeds):
                truth, places = _screened_third(ones, keep, stream(seed, f"host/{path.stem}"))
                order = np.argsort(places, kind="stable")
                best = order[: max(1, int(KEPT * len(order)))]
                found[kind]["good"].setdefault(path.stem, []).append(
                    float(truth[best].min() - truth.min() <= WITHIN)
                )
                found[kind]["place"].setdefault(path.stem, []).append(
                    float(np.argmax(order == truth.argmin()) / len(order))
                )
    return found


def _screened_third(
    ones: list[Known], keep: Callable[[str], bool] | None, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Scores of the trials that were not learnt from, and their places; random ones without features."""
    order = rng.permutation(len(ones))
    learnt, rest = order[: 2 * len(ones) // 3], order[2 * len(ones) // 3 :]
    truth = np.array([ones[i].score for i in rest], dtype=float)
    if keep is None:
        return truth, rng.random(len(rest))
    shown = [{name: value for name, value in one.features.items() if keep(name)} for one in ones]
    known = [
        Known(trial=int(i), features=shown[i], tried=True, score=ones[i].score, raced=ones[i].raced)
        for i in learnt
    ]
    guesses = Screen().screen(known, [shown[i] for i in rest], []).guesses
    return truth, np.array([guess.place for guess in guesses])


def compare_runs(
    folder: Path, strategy: str, seeds: int, evaluations: int, match: str = ""
) -> dict[str, dict[str, Any]]:
    """Whole runs of every host example with the model and without it, the same seed and as many evaluations.

    Returns:
        by example: ``evaluations`` and ``seconds`` (compiling, the model and searching included) to within 2% of the
        better best of the two, without the model and with it, one for each seed.
    """
    found: dict[str, dict[str, Any]] = {}
    for path in _examples(match):
        for seed in range(seeds):
            runs = []
            for model in ("off", "auto"):
                record = folder / f"{path.stem}-{strategy}-{model}-{seed}.run"
                _run(path, record, evaluations, seed=seed, strategy=strategy, model=model)
                runs.append(_progress(record))
            goal = min(score for run in runs for score, _ in run) + WITHIN
            counts, seconds = [], []
            for run in runs:
                reached = next((i for i, (score, _) in enumerate(run) if score <= goal), len(run) - 1)
                counts.append(reached + 1)
                seconds.append(round(run[reached][1], 2))
            mine = found.setdefault(path.stem, {"evaluations": [], "seconds": []})
            mine["evaluations"].append(counts)
            mine["seconds"].append(seconds)
            note(f"{path.stem}, seed {seed}: without, with the model {counts}, {seconds} s")
    return found


def compare_walls(
    folder: Path, strategy: str, seeds: int, evaluations: int, match: str = ""
) -> dict[str, list[dict[str, Any]]]:
    """Seconds of whole runs of every host example without the model and with it, in turn, which goes first as well.

    Returns:
        by example one object for each seed: ``seconds``, ``builds`` and ``pruned`` (trials the model left out), each
        without the model and with it. Finished runs are read.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in range(seeds):
        for path in _examples(match):
            ones = {}
            for model in ("off", "auto") if seed % 2 == 0 else ("auto", "off"):
                ones[model] = _timed(path, folder, evaluations, seed=seed, strategy=strategy, model=model)
            both = (ones["off"], ones["auto"])
            found.setdefault(path.stem, []).append(
                {name: [one[name] for one in both] for name in ones["off"]}
            )
            note(f"{path.stem}, seed {seed}: {found[path.stem][-1]}")
    return found


def _timed(
    path: Path, folder: Path, evaluations: int, *, seed: int, strategy: str, model: str
) -> dict[str, float]:
    told = folder / f"{path.stem}-{strategy}-{model}-{seed}-wall.json"
    if not told.exists():
        record = told.with_suffix(".run")
        for old in folder.glob(f"{told.stem}*.run*"):
            # The time of a run that was cut short is not known.
            old.unlink()
        # What every run imports is no cost of the first one.
        _run(path, folder / f"{told.stem}-first.run", 2, seed=seed, strategy=strategy, model="off")
        started = time.monotonic()
        _run(path, record, evaluations, seed=seed, strategy=strategy, model=model)
        seconds = time.monotonic() - started
        with RunRecord.read(record) as opened:
            state, _, _ = open_state(opened)
        trials = [state.trials[n] for n in state.finished]
        made = {
            "seconds": round(seconds, 2),
            "builds": sum(trial.build is not None for trial in trials),
            "pruned": sum(trial.status is Status.PRUNED for trial in trials),
        }
        told.write_text(json.dumps(made))
    read: dict[str, float] = json.loads(told.read_text())
    return read


def _progress(record: Path) -> list[tuple[float, float]]:
    """The best score so far and the active seconds after each evaluation."""
    with RunRecord.read(record) as opened:
        state, _, _ = open_state(opened)
        clocks = _clocks(opened)
    best, made = 0.0, []
    for number in state.finished:
        trial = state.trials[number]
        if number == BASELINE or (trial.status is not Status.OK and trial.status not in FAILURES):
            continue
        if trial.score is not None and not trial.raced:
            best = min(best, trial.score)
        made.append((best, clocks[number]))
    return made


def _clocks(record: RunRecord) -> dict[int, float]:
    """Active seconds at which each trial ended."""
    now_s, found = 0.0, {}
    for event in record.events():
        now_s = max(now_s, float(event.body.get("clock_s", now_s)))
        if event.kind == "trial" and event.trial is not None:
            found[event.trial] = now_s
    return found


def _run(path: Path, record: Path, evaluations: int, *, seed: int, strategy: str, model: str) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    (spec,) = load_spec(path)
    spec = replace(spec, search=replace(spec.search, cost_model=model, ablate="off"))
    options = Options(
        evaluations=evaluations, minutes=60, seed=seed, strategy=strategy, workers=1, settings=QUICK
    )
    if record.exists():
        resume(record)
    else:
        begin(spec, record, options)
