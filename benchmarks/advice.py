"""Advice of other kernels' runs, over seeds: evaluations to within 5% of the best that is known of each kernel.

For each of the kernels first one run without advice, which the library of the others holds. Then, with other seeds,
``alone``, ``control`` (alone with further seeds: what chance does), ``helped`` (the library holds the runs of all other
kernels), ``strangers`` (of all that are no near copies) and ``misled`` (of all others, their worst variants for their
best). All runs of a kernel share one table of builds and times, kept in a file: the same code has the same time in
every run, and only new code is timed. Finished runs are read, so a benchmark that was cut short goes on.

    python benchmarks/advice.py --folder DIR [--kernel gemm]… [--arm misled]… [--seeds 4] [--evaluations 36]
                                [--minutes 8] [--rule NAME] [--beside NAME] [--within 0.05] [--figures] [--json]

With ``--rule`` the runs with advice are kept under that name beside those of other versions of the tuner.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import _one_thread  # noqa: F401
from _advice_figures import Tried, figures
from _common import ROOT, altered, emit, machine, note, parser, table
from _cost_edits import ALIKE, QUICK, library_without, misleading
from _shared_times import SharedTimes, Table

from tuner.core.types import Status
from tuner.cost_models.library import Entry
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.driver.state.run import RunState
from tuner.driver.work.remembering import Memory
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec

KERNELS = ROOT / "benchmarks" / "kernels"
ARMS = ("alone", "control", "helped", "misled")
ADVISED = ("helped", "strangers", "misled")
EARLIER, EARLIER_SEED, EARLIER_EVALUATIONS = "earlier", 1000, 100
CONTROL_SEEDS = 100
"""Added to the seeds of runs alone that runs alone are compared with."""


def main() -> int:
    given = _arguments()
    if not given.figures:
        deadline = time.monotonic() + 60.0 * given.minutes
        if not _make(given, deadline):
            print(f"{given.minutes:g} minutes are over; start it again to go on", file=sys.stderr)
            return 1
        return 0
    runs = read_runs(given.folder, given.rule)
    if not runs:
        print(f"no finished run in {given.folder}; leave out --figures to make them", file=sys.stderr)
        return 2
    others = [run for rule in given.beside for run in read_runs(given.folder, rule)]
    found = figures(runs, given.evaluations, given.within, best_of=others)
    emit(given.json, {"machine": machine(), **found}, _text(found))
    return 0


def _arguments() -> Any:
    made = parser(__doc__)
    made.add_argument("--folder", type=Path, required=True, help="of the table, the runs and the libraries")
    made.add_argument("--kernel", action="append", help="only this one; may be repeated")
    made.add_argument("--arm", action="append", choices=(*ARMS, "strangers", EARLIER), help="may be repeated")
    made.add_argument("--seeds", type=int, default=4, help="runs of each kernel in each arm")
    made.add_argument("--evaluations", type=int, default=36, help="of each run")
    made.add_argument(
        "--earlier-evaluations", type=int, default=EARLIER_EVALUATIONS, help="of each run of the library"
    )
    made.add_argument("--minutes", type=float, default=1e6, help="after which no further run is begun")
    made.add_argument("--rule", default="", help="name under which runs with advice are kept")
    made.add_argument("--within", type=float, default=0.05, help="how near the best is near enough")
    made.add_argument(
        "--beside", action="append", default=[], help="another rule whose runs may hold a kernel's best"
    )
    made.add_argument("--figures", action="store_true", help="what the finished runs say")
    return made.parse_args()


def _make(given: Any, deadline: float) -> bool:
    """Makes the runs that are not there; false where there was no time for all."""
    names = sorted(p.stem for p in KERNELS.glob("*.yaml"))
    arms = given.arm or ARMS
    backend = SharedTimes(HostBackend(), Table(given.folder / "times.sqlite"))
    try:
        for kernel in given.kernel or names:
            for arm in arms:
                seeds = [EARLIER_SEED] if arm == EARLIER else range(given.seeds)
                for seed in seeds:
                    if time.monotonic() > deadline:
                        return False
                    _one(given, backend, kernel, arm, seed)
    finally:
        backend.close()
    return True


def _place(folder: Path, arm: str, rule: str) -> Path:
    return folder / (f"{arm}-{rule}" if rule and arm in ADVISED else arm)


def _one(given: Any, backend: SharedTimes, kernel: str, arm: str, seed: int) -> None:
    """One run, unless it is there."""
    place = _place(given.folder, arm, given.rule)
    told = place / f"{kernel}-{seed}.json"
    if told.exists():
        return
    library = None
    if arm in ADVISED:
        entries = read_entries(given.folder)
        near = next((kin for kin in ALIKE if kernel in kin), {kernel})
        library = place / f"{kernel}-{seed}-library"
        shutil.rmtree(library, ignore_errors=True)
        library_without(
            library,
            misleading(entries) if arm == "misled" else entries,
            near if arm == "strangers" else {kernel},
        )
    started = time.monotonic()
    record = place / f"{kernel}-{seed}.run"
    evaluations = given.earlier_evaluations if arm == EARLIER else given.evaluations
    own = seed + CONTROL_SEEDS if arm == "control" else seed
    row = run_once(backend, KERNELS / f"{kernel}.yaml", record, own, evaluations, library)
    row |= {"kernel": kernel, "arm": arm, "seed": seed, "wall_s": round(time.monotonic() - started, 1)}
    told.write_text(json.dumps(row))
    note(f"{kernel} {arm} {seed}: {row['scores'][-1]:.3f} advised {row['advised']} in {row['wall_s']} s")


def run_once(
    backend: SharedTimes,
    spec: Path,
    record: Path,
    seed: int,
    evaluations: int,
    library: Path | None,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """A run from its start: its best score after each evaluation, and how many trials were advised."""
    folder = record.with_suffix(".spec")
    shutil.rmtree(folder, ignore_errors=True)
    for old in record.parent.glob(f"{record.name}*"):
        old.unlink()
    folder.mkdir(parents=True)
    changes: Mapping[str, Mapping[str, Any]] = {
        "space": {"source": {"evolve": True}},
        "verify": {"numerics": "exact"},
        "search": {"ablate": "off"},
    }
    (loaded,) = load_spec(altered(spec, folder, changes))
    # Only the search matters here.
    steered = {**QUICK, **settings}
    options = Options(evaluations=evaluations, seed=seed, settings=steered, library=library, workers=1)
    begin(loaded, record, options, backend=backend)
    with RunRecord.read(record) as opened:
        state, _, _ = open_state(opened)
    scores, advised = progress_of(state)
    return {"scores": scores, "advised": advised}


def progress_of(state: RunState) -> tuple[list[float], int]:
    """The best score after each evaluation, and how many were of advised variants; duplicates do not count."""
    best, scores, advised = 0.0, list[float](), 0
    for number in state.finished:
        trial = state.trials[number]
        if trial.status in (Status.DUPLICATE, Status.PRUNED, Status.LOST):
            continue
        if trial.status is Status.OK and not trial.raced and trial.score is not None:
            best = min(best, trial.score)
        advised += state.variant_of(number).origin == "library"
        scores.append(round(best, 5))
    return scores, advised


def read_entries(folder: Path) -> dict[str, Entry]:
    """What the library would hold of each finished run that it is made of."""
    found = {}
    for path in sorted((folder / EARLIER).glob("*.run")):
        with RunRecord.read(path) as record:
            state, spec, space = open_state(record)
        if state.end is not None and (state.verdict or {}).get("claim") == "improved":
            found[path.stem.removesuffix(f"-{EARLIER_SEED}")] = Memory(None, spec.task, space).entry(state)
    return found


def read_runs(folder: Path, rule: str) -> list[Tried]:
    """All finished runs of the arms, those with advice by the rule of that name."""
    found = []
    for arm in (*ARMS, "strangers"):
        for path in sorted(_place(folder, arm, rule).glob("*.json")):
            row = json.loads(path.read_text())
            found.append(Tried(**{k: row[k] for k in ("kernel", "arm", "seed", "scores", "advised")}))
    return found


def _text(found: Mapping[str, Any]) -> str:
    """A row for each arm, then one for each kernel."""
    arms = found["arms"]

    def shown(value: list[float]) -> str:
        return f"{value[0]:.2f} [{value[1]:.2f}, {value[2]:.2f}]" if value else "-"

    rows = [
        [
            name,
            f"{arm['reached']} of {arm['runs']}",
            shown(arm["mean of ratios"]),
            shown(arm["ratio of means"]),
        ]
        for name, arm in arms.items()
    ]
    kernels = list(found["goal"])
    each = [[k, *(arm["by kernel"].get(k, ["-"])[0] for arm in arms.values())] for k in kernels]
    return "\n\n".join(
        [
            table(["arm", "reached", "mean of ratios", "ratio of means"], rows),
            table(["kernel", *arms], each),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
