"""How a search over variants of the source spends its trials: a few of each variant at first, or one.

Each way of halving runs with the same seeds on the same kernels over one table of builds and times (see
``_shared_times.py``): the same code has the same time in every run. Finished runs are read, so a benchmark that was cut
short goes on.

    python benchmarks/rungs.py --folder DIR [--way 1x2] [--kernel gemm]… [--seeds 2] [--first-seed 0]
                               [--evaluations 100] [--figures] [--base 4x3] [--json]

A way is ``FIRSTxGROWTH``: trials of a new variant, and how many times as many the better ones of so many have next;
with ``-LEAST`` none goes on before so many are known.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import _one_thread  # noqa: F401
import numpy as np
from _advice_figures import Tried, figures
from _common import ROOT, emit, machine, note, parser, table
from _shared_times import SharedTimes, Table
from advice import run_once

from tuner.driver.state.settings import Evolution
from tuner.evaluators.host.backend import HostBackend

KERNELS = ROOT / "benchmarks" / "kernels"
WAYS = {
    "4x3": (3, 0),
    "2x3": (3, 0),
    "1x3": (4, 0),
    "1x4": (4, 0),
    "1x2": (6, 0),
    "1x2-4": (6, 4),
    "1x2-6": (6, 6),
    "1x2-10": (6, 10),
    "1x2-12": (6, 12),
}
"""With the rungs that give the best a few dozen trials, and how many variants are known before any goes on."""
MOMENTS = (6, 12, 24, 36, 50, 75, 100)


def main() -> int:
    given = _arguments()
    if not given.figures:
        _make(given)
        return 0
    runs = _read(given.folder)
    if not runs:
        print(f"no finished run in {given.folder}; leave out --figures to make them", file=sys.stderr)
        return 2
    found = {
        "machine": machine(),
        "gaps": _gaps(runs),
        "within 5%": figures(runs, given.evaluations, 0.05, base=given.base)["arms"],
        "within 25%": figures(runs, given.evaluations, 0.25, base=given.base)["arms"],
    }
    emit(given.json, found, _text(found, given.base))
    return 0


def _arguments() -> Any:
    made = parser(__doc__)
    made.add_argument("--folder", type=Path, required=True, help="of the table and the runs")
    made.add_argument("--way", action="append", choices=tuple(WAYS), help="only this one; may be repeated")
    made.add_argument("--kernel", action="append", help="only this one; may be repeated")
    made.add_argument("--seeds", type=int, default=2, help="runs of each kernel in each way")
    made.add_argument("--first-seed", type=int, default=0, help="of those")
    made.add_argument("--evaluations", type=int, default=100, help="of each run")
    made.add_argument("--base", default="4x3", choices=tuple(WAYS), help="what the others are compared with")
    made.add_argument("--figures", action="store_true", help="what the finished runs say")
    return made.parse_args()


def _evolution(way: str) -> Evolution:
    first, growth = map(int, way.split("-")[0].split("x"))
    rungs, least = WAYS[way]
    return Evolution(first=first, growth=growth, rungs=rungs, least=least)


def _make(given: Any) -> None:
    backend = SharedTimes(HostBackend(), Table(given.folder / "times.sqlite"))
    try:
        for way in given.way or WAYS:
            for kernel in given.kernel or sorted(p.stem for p in KERNELS.glob("*.yaml")):
                for seed in range(given.first_seed, given.first_seed + given.seeds):
                    _one(backend, given.folder / way, way, kernel, seed, given.evaluations)
    finally:
        backend.close()


def _one(backend: SharedTimes, folder: Path, way: str, kernel: str, seed: int, evaluations: int) -> None:
    """One run, unless it is there."""
    told = folder / f"{kernel}-{seed}.json"
    if told.exists():
        return
    started = time.monotonic()
    record = folder / f"{kernel}-{seed}.run"
    settings = {"evolution": _evolution(way)}
    row = run_once(backend, KERNELS / f"{kernel}.yaml", record, seed, evaluations, None, settings)
    row |= {"kernel": kernel, "arm": way, "seed": seed}
    told.write_text(json.dumps(row))
    note(f"{way} {kernel} {seed}: {row['scores'][-1]:.3f} in {time.monotonic() - started:.0f} s")


def _read(folder: Path) -> list[Tried]:
    """Runs that all ways have made."""
    found = []
    for path in sorted(folder.glob("*/*.json")):
        row = json.loads(path.read_text())
        names = ("kernel", "seed", "scores")
        found.append(Tried(arm=path.parent.name, **{k: row[k] for k in names}))
    made = [{(r.kernel, r.seed) for r in found if r.arm == way} for way in {r.arm for r in found}]
    common = set.intersection(*made) if made else set()
    return [run for run in found if (run.kernel, run.seed) in common]


def _gaps(runs: Sequence[Tried]) -> dict[str, list[float]]:
    """Log time over the best of all runs of a kernel after so many evaluations, the mean over runs."""
    best: dict[str, float] = {}
    for run in runs:
        best[run.kernel] = min(best.get(run.kernel, 0.0), run.scores[-1])
    found: dict[str, list[list[float]]] = {}
    for run in runs:
        at = [run.scores[min(moment, len(run.scores)) - 1] - best[run.kernel] for moment in MOMENTS]
        found.setdefault(run.arm, []).append(at)
    return {way: [round(float(v), 3) for v in np.mean(gaps, axis=0)] for way, gaps in sorted(found.items())}


def _text(found: Mapping[str, Any], base: str) -> str:
    """A row for each way."""

    def shown(value: list[float]) -> str:
        return f"{value[0]:.2f} [{value[1]:.2f}, {value[2]:.2f}]" if value else "-"

    rows = []
    for way, gaps in found["gaps"].items():
        near, roughly = found["within 5%"][way], found["within 25%"][way]
        rows.append(
            [
                way,
                *(f"{gap:.2f}" for gap in gaps),
                f"{near['reached']} of {near['runs']}",
                shown(near["ratio of means"]),
                f"{roughly['reached']} of {roughly['runs']}",
                shown(roughly["ratio of means"]),
            ]
        )
    head = ["way", *(f"after {m}" for m in MOMENTS), "5%", f"over {base}", "25%", f"over {base}"]
    return table(head, rows)


if __name__ == "__main__":
    sys.exit(main())
