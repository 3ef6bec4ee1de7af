"""Advice on edits: runs over the source with a library of other kernels' runs, and the same runs without one.

The library is made of finished runs of ``remix.py``; a kernel's own run never is in the library that it is given.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from _common import ROOT, altered, note

from tuner.core.types import Status
from tuner.cost_models.library import Entry, Library
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.driver.work.remembering import Memory
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec

__all__ = ["compare_libraries", "entries_of", "library_without", "misleading", "progress", "tune_one"]

KERNELS = ROOT / "benchmarks" / "kernels"
ALIKE = ({"2mm", "gemm", "syrk", "trmm"}, {"atax", "bicg", "mvt"}, {"jacobi-2d", "heat-3d"})
"""Kernels that are nearly one another's copies."""

WITHIN = 0.05

QUICK = {"finalists": 1, "choose_processes": 1, "confirm_processes": 4}
"""Only the search matters here."""


def tune_one(
    kernel: str, record: Path, *, numerics: str, seed: int, evaluations: int, library: Path | None
) -> list[float]:
    """The best score after each evaluation of a run, made or read.

    Args:
        kernel: of the folder of kernels.
        record: is read where it is there and finished.
        numerics: ``exact`` or ``reassociate``.
        seed: of the run.
        evaluations: of the run.
        library: folder; ``None`` turns advice off.
    """
    if record.exists():
        resume(record)
        return progress(record)
    folder = record.with_suffix(".spec")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    changes: Mapping[str, Mapping[str, Any]] = {
        "space": {"source": {"evolve": True}},
        "verify": {"numerics": numerics},
    }
    (spec,) = load_spec(altered(KERNELS / f"{kernel}.yaml", folder, changes))
    settings = dict(QUICK)
    begin(spec, record, Options(evaluations=evaluations, seed=seed, settings=settings, library=library))
    made = progress(record)
    note(f"{record.stem}: {made[-1]:.3f} after {len(made)}")
    return made


def progress(record: Path) -> list[float]:
    """The best score (log time over the baseline's) after each evaluation of a run record; duplicates do not count."""
    with RunRecord.read(record) as opened:
        state, _, _ = open_state(opened)
    best, made = 0.0, []
    for number in state.finished:
        trial = state.trials[number]
        if trial.status in (Status.DUPLICATE, Status.PRUNED, Status.LOST):
            continue
        if trial.status is Status.OK and not trial.raced and trial.score is not None:
            best = min(best, trial.score)
        made.append(best)
    return made


def entries_of(runs: Path, numerics: str) -> dict[str, Entry]:
    """What the library would hold of each finished run of ``remix.py`` with these numerics, by kernel."""
    found = {}
    for path in sorted(runs.glob(f"*-{numerics}-*.run")):
        with RunRecord.read(path) as opened:
            state, spec, space = open_state(opened)
        if state.end is not None and (state.verdict or {}).get("claim") == "improved":
            found[path.stem.split(f"-{numerics}-")[0]] = Memory(None, spec.task, space).entry(state)
    return found


def misleading(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """The same runs with their worst variants for their best."""
    return {
        kernel: replace(
            entry,
            variants=tuple((shape, 1.0 - max(value, 0.0)) for shape, value in entry.variants),
            paid={move: 1.0 - max(value, 0.0) for move, value in entry.paid.items()},
            codes=tuple((numbers, 1.0 - max(value, 0.0)) for numbers, value in entry.codes),
            steps=(),
            moves=(),
        )
        for kernel, entry in entries.items()
    }


def library_without(folder: Path, entries: Mapping[str, Entry], left_out: Collection[str]) -> Path:
    """A library of all runs but some kernels'."""
    made = Library(folder)
    for kernel, entry in entries.items():
        if kernel not in left_out:
            made.add(entry)
    return folder


def compare_libraries(
    earlier: Path, folder: Path, *, numerics: str, seeds: int, evaluations: int, match: str = ""
) -> dict[str, dict[str, Any]]:
    """Every kernel without a library, and with one of the others, of those that are no near copies, of misleading runs.

    Args:
        earlier: folder of finished runs of ``remix.py``.
        folder: for libraries and run records; finished ones are read.
        numerics: of all of them.
        seeds: runs of each kind.
        evaluations: of each run.
        match: only kernels whose name contains it.

    Returns:
        by kernel: evaluations to within 5% of the best of all its runs with that seed, by kind, one for each seed; as
        many as were allowed where that was not reached. And ``best``: the best score, likewise.
    """
    entries = entries_of(earlier, numerics)
    worst = misleading(entries)
    found: dict[str, dict[str, Any]] = {}
    for kernel in (k for k in entries if match in k):
        near = next((kin for kin in ALIKE if kernel in kin), {kernel})
        kinds: dict[str, tuple[Mapping[str, Entry], Collection[str]] | None] = {
            "alone": None,
            "others": (entries, {kernel}),
            "strangers": (entries, near),
            "misled": (worst, {kernel}),
        }
        counts: dict[str, list[int]] = {kind: [] for kind in kinds}
        best: dict[str, list[float]] = {kind: [] for kind in kinds}
        for seed in range(seeds):
            runs = {}
            for kind, source in kinds.items():
                place = folder / kind / f"{kernel}-{numerics}-{seed}"
                record = place.with_suffix(".run")
                library = None
                if source is not None and not record.exists():
                    # Made anew: a run adds itself to it.
                    shutil.rmtree(place, ignore_errors=True)
                    library = library_without(place, *source)
                record.parent.mkdir(parents=True, exist_ok=True)
                runs[kind] = tune_one(
                    kernel, record, numerics=numerics, seed=seed, evaluations=evaluations, library=library
                )
            goal = min(scores[-1] for scores in runs.values()) + WITHIN
            for kind, scores in runs.items():
                counts[kind].append(next((i for i, s in enumerate(scores, 1) if s <= goal), evaluations))
                best[kind].append(scores[-1])
        found[kernel] = {**counts, "best": best}
    return found
