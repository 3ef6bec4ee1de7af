"""A few pipelines worth trying first, chosen over many kernels; and what they are worth for kernels that had no say.

    python benchmarks/portfolio.py --folder DIR --runs RUNS [--rounds 4]   times of a growing pool on every kernel
    python benchmarks/portfolio.py --folder DIR [--json]                    what that says, each kernel left out in turn
    python benchmarks/portfolio.py --folder DIR --runs RUNS --write FILE    the portfolio that is shipped
    python benchmarks/portfolio.py --folder DIR --runs RUNS --compare [--seeds 3] [--evaluations 60]

RUNS holds finished runs over sources, for example those that ``advice.py --arm earlier`` makes. ``--compare`` makes
whole runs over pipelines alone: with the portfolio of all kernels that are no near copies of the one that is searched,
and with the two pipelines that came first before there was a portfolio. All that is finished is read, not made again.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import _one_thread  # noqa: F401
import numpy as np
from _advice_figures import Tried, figures
from _common import ROOT, altered, emit, machine, note, parser, table
from _cost_edits import ALIKE, QUICK
from _portfolio_pool import first_pool, grown
from _portfolio_times import BASE, Times, read_times, samples_of, time_pipelines
from _shared_times import SharedTimes, Table
from advice import progress_of

from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.record import RunRecord
from tuner.search import portfolio
from tuner.spaces.passes import PassSpace
from tuner.spec.load import load_spec

KERNELS = ROOT / "benchmarks" / "kernels"
SIZE = 8
GROWTH = 140
TWO = (f"default<O1>,{BASE}", f"{BASE},{BASE}")
"""What came first before there was a portfolio."""
SHOWN = (1, 2, 3, 4, 6, 8, 12, 16, 24)
DRAWS = 50


def main() -> int:
    given = _arguments()
    backend = HostBackend()
    file = given.folder / "pipelines.jsonl"
    if given.rounds:
        _collect(backend, given, file)
        return 0
    times = read_times(file)
    if given.write:
        _write(given, times)
        return 0
    if given.compare:
        found = _compared(backend, given, times)
        emit(given.json, {"machine": machine(), **found}, _compared_text(found))
        return 0
    found = left_out(times)
    emit(given.json, {"machine": machine(), **found}, _text(found))
    return 0


def _arguments() -> Any:
    made = parser(__doc__)
    made.add_argument("--folder", type=Path, required=True, help="of the times and the runs")
    made.add_argument("--runs", type=Path, help="folder of finished runs over sources")
    made.add_argument("--rounds", type=int, default=0, help="of growing the pool and timing it")
    made.add_argument("--write", type=Path, help="where the portfolio goes")
    made.add_argument("--compare", action="store_true", help="whole runs with and without")
    made.add_argument("--kernel", action="append", help="of those runs, only this one; may be repeated")
    made.add_argument("--seeds", type=int, default=3, help="runs of each kernel")
    made.add_argument("--evaluations", type=int, default=60, help="of each of those runs")
    return made.parse_args()


def _collect(backend: HostBackend, given: Any, file: Path) -> None:
    samples = samples_of(given.runs)
    passes = _space(samples[0].record)
    given.folder.mkdir(parents=True, exist_ok=True)
    for number in range(given.rounds):
        known = read_times(file) if file.exists() else None
        rng = np.random.default_rng([0, 0 if known is None else len(known.pipelines)])
        pool = first_pool(passes, rng) if known is None else grown(passes, known, GROWTH, rng)
        note(f"round {number + 1}: {len(pool)} pipelines on {len(samples)} samples")
        time_pipelines(backend, samples, pool, file)


def _space(record: Path) -> PassSpace:
    with RunRecord.read(record) as opened:
        _, _, space = open_state(opened)
    assert space.passes is not None
    return space.passes


def choose(times: Times, rows: Sequence[int], size: int) -> list[int]:
    """Columns: each time the one that adds most to the mean gain of the best so far, by short ones only."""
    gains = times.gains[list(rows)]
    best = np.zeros(len(gains))
    # The share of what adds nothing here decides among equals: what is good in the mean.
    alone = 1e-3 * gains.mean(axis=0)
    spelt = np.array([len(p) > 700 for p in times.pipelines])
    chosen: list[int] = []
    for _ in range(size):
        worth = np.minimum(best[:, None], gains).mean(axis=0) + alone
        worth[[*chosen, *np.flatnonzero(spelt)]] = np.inf
        chosen.append(int(worth.argmin()))
        best = np.minimum(best, gains[:, chosen[-1]])
    return chosen


def kin(kernel: str) -> set[str]:
    """A kernel with its near copies."""
    return next((set(k) for k in ALIKE if kernel in k), {kernel})


def left_out(times: Times) -> dict[str, Any]:
    """Mean best gain after so many pipelines on kernels that had no say, by how they are chosen; and in what order."""
    rng = np.random.default_rng(0)
    curves: dict[str, list[list[float]]] = {"portfolio": [], "two": [], "chance": []}
    chance = [rng.permutation(len(times.pipelines)) for _ in range(DRAWS)]
    two = [times.pipelines.index(p) for p in TWO]
    for kernel in sorted({s.partition("/")[0] for s in times.samples}):
        chosen = choose(times, times.of(sorted(kin(kernel)), without=True), max(SHOWN))
        for row in times.of([kernel]):
            gains = times.gains[row]
            curves["portfolio"].append([float(gains[chosen[:n]].min()) for n in SHOWN])
            curves["two"].append([float(gains[two[:n]].min()) for n in SHOWN])
            drawn = [[gains[order[:n]].min() for n in SHOWN] for order in chance]
            curves["chance"].append([float(v) for v in np.mean(drawn, axis=0)])
    every = choose(times, range(len(times.samples)), SIZE)
    return {
        "samples": len(times.samples),
        "pipelines": len(times.pipelines),
        "best of all": round(float(times.gains.min(axis=1).mean()), 4),
        "after": list(SHOWN),
        "mean gain": {k: [round(float(v), 4) for v in np.mean(c, axis=0)] for k, c in curves.items()},
        "chosen": [
            {
                "pipeline": times.pipelines[i],
                "mean": round(float(times.gains[:, i].mean()), 4),
                "better by 5%": int((times.gains[:, i] < -0.05).sum()),
            }
            for i in every
        ],
    }


def _write(given: Any, times: Times) -> None:
    passes = _space(samples_of(given.runs)[0].record)
    chosen = [times.pipelines[i] for i in choose(times, range(len(times.samples)), SIZE)]
    found = {"llvm": passes.catalogue.version, "pipelines": chosen}
    given.write.write_text(json.dumps(found, indent=2) + "\n")


def _compared(backend: HostBackend, given: Any, times: Times) -> dict[str, Any]:
    shared = SharedTimes(backend, Table(given.folder / "times.sqlite"))
    kernels = given.kernel or sorted({s.partition("/")[0] for s in times.samples})
    runs = []
    try:
        for kernel in kernels:
            columns = choose(times, times.of(sorted(kin(kernel)), without=True), SIZE)
            arms = {"two": TWO, "portfolio": tuple(times.pipelines[i] for i in columns)}
            for seed in range(given.seeds):
                for arm, first in arms.items():
                    runs.append(_run(shared, given, kernel, arm, seed, first))
    finally:
        shared.close()
    best = {kernel: min(r.scores[-1] for r in runs if r.kernel == kernel) for kernel in kernels}
    open_ones = [run for run in runs if best[run.kernel] < -0.05]
    return {
        "kernels": {k: round(v, 3) for k, v in best.items()},
        "within 5%": figures(open_ones, given.evaluations, 0.05, base="two")["arms"],
        "within 2%": figures(open_ones, given.evaluations, 0.02, base="two")["arms"],
    }


def _run(shared: SharedTimes, given: Any, kernel: str, arm: str, seed: int, first: Sequence[str]) -> Tried:
    """One run over pipelines alone, unless it is there."""
    place = given.folder / arm
    told = place / f"{kernel}-{seed}.json"
    if told.exists():
        return Tried(kernel=kernel, arm=arm, seed=seed, scores=json.loads(told.read_text()))
    folder, record = place / f"{kernel}-{seed}.spec", place / f"{kernel}-{seed}.run"
    shutil.rmtree(folder, ignore_errors=True)
    for old in place.glob(f"{record.name}*"):
        old.unlink()
    folder.mkdir(parents=True)
    changes = {"space": {"source": {"evolve": False}}, "search": {"ablate": "off"}}
    (loaded,) = load_spec(altered(KERNELS / f"{kernel}.yaml", folder, changes))
    options = Options(evaluations=given.evaluations, seed=seed, settings=QUICK, library=None, workers=1)
    with patch.object(portfolio, "shipped", lambda: tuple(first)):
        begin(loaded, record, options, backend=shared)
    with RunRecord.read(record) as opened:
        state, _, _ = open_state(opened)
    scores, _ = progress_of(state)
    told.write_text(json.dumps(scores))
    note(f"{kernel} {arm} {seed}: {scores[-1]:.3f}")
    return Tried(kernel=kernel, arm=arm, seed=seed, scores=scores)


def _text(found: dict[str, Any]) -> str:
    rows = [[name, *(f"{v:.3f}" for v in curve)] for name, curve in found["mean gain"].items()]
    chosen = [[f"{c['mean']:.3f}", c["better by 5%"], c["pipeline"]] for c in found["chosen"]]
    parts = [
        f"{found['pipelines']} pipelines on {found['samples']} samples; best of all {found['best of all']:.3f}",
        table(["chosen by", *(f"after {n}" for n in found["after"])], rows),
        table(["mean", "better by 5%", "pipeline"], chosen),
    ]
    return "\n\n".join(parts)


def _compared_text(found: dict[str, Any]) -> str:
    def shown(value: list[float]) -> str:
        return f"{value[0]:.2f} [{value[1]:.2f}, {value[2]:.2f}]" if value else "-"

    rows = [
        [near, arm, f"{v['reached']} of {v['runs']}", shown(v["mean of ratios"]), shown(v["ratio of means"])]
        for near in ("within 5%", "within 2%")
        for arm, v in found[near].items()
    ]
    return table(["near", "arm", "reached", "mean of ratios", "ratio of means"], rows)


if __name__ == "__main__":
    sys.exit(main())
