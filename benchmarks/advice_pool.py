"""What of the variants that earlier runs may advise is tried first: every variant of each pool, timed once.

For each kernel the library holds one run of every other one. The pool is made as a run makes it, each variant of it is
built and timed with the configuration that it would begin with, and each order is asked how near the best that is known
of the kernel its first one, two, three and four come. Times are shared with ``advice.py``, which makes the runs.

    python benchmarks/advice.py --folder DIR --arm earlier
    python benchmarks/advice_pool.py --folder DIR [--kernel gemm]… [--seeds 2] [--json]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import _one_thread  # noqa: F401
import numpy as np
from _common import emit, machine, note, parser, table
from _shared_times import SharedTimes, Table
from _timing import Timing
from advice import EARLIER, EARLIER_SEED, read_entries, read_runs

from tuner.core.types import Status
from tuner.cost_models.library import Entry
from tuner.driver.opening import open_lineup
from tuner.driver.work.advising import Pool
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.record import RunRecord

FIRST = 4
DRAWS = 200


def main() -> int:
    given = _arguments()
    entries = read_entries(given.folder)
    if not entries:
        print(f"no finished run in {given.folder / EARLIER}; make them with advice.py", file=sys.stderr)
        return 2
    best = _best(given.folder)
    backend = SharedTimes(HostBackend(), Table(given.folder / "times.sqlite"))
    rows = []
    try:
        for kernel in given.kernel or sorted(entries):
            for seed in range(given.seeds):
                rows.append(_one(given.folder, backend, entries, kernel, seed, best[kernel]))
                note(f"{kernel} {seed}: {rows[-1]}")
    finally:
        backend.close()
    orders = [name for name, value in rows[0].items() if isinstance(value, list)]
    means = {name: [fmean(row[name][n] for row in rows) for n in range(FIRST)] for name in orders}
    shown = [[name, *(f"{v:.2f}" for v in values)] for name, values in means.items()]
    found = {"machine": machine(), "rows": rows, "log time over the best after": means}
    emit(given.json, found, table(["order", "1", "2", "3", "4"], shown))
    return 0


def _arguments() -> Any:
    made = parser(__doc__)
    made.add_argument("--folder", type=Path, required=True, help="of advice.py")
    made.add_argument("--kernel", action="append", help="only this one; may be repeated")
    made.add_argument("--seeds", type=int, default=2, help="pools of each kernel")
    return made.parse_args()


def _best(folder: Path) -> dict[str, float]:
    """The best score of each kernel in any finished run."""
    found: dict[str, float] = {}
    for path in folder.glob(f"{EARLIER}/*.run"):
        with RunRecord.read(path) as record:
            state, _, _ = open_lineup(record)
        scores = [t.score for t in state.trials.values() if t.status is Status.OK and t.score is not None]
        found[path.stem.removesuffix(f"-{EARLIER_SEED}")] = min(scores)
    for run in read_runs(folder, ""):
        found[run.kernel] = min(found.get(run.kernel, 0.0), run.scores[-1])
    return found


def _one(
    folder: Path, backend: SharedTimes, entries: Mapping[str, Entry], kernel: str, seed: int, best: float
) -> dict[str, Any]:
    """How near the best each order's first few come."""
    with RunRecord.read(folder / EARLIER / f"{kernel}-{EARLIER_SEED}.run") as record:
        _, spec, lineup = open_lineup(record)
    others = [entry for name, entry in entries.items() if name != kernel]
    pool = Pool.of(spec.task, lineup.space(0), entries[kernel], others, seed)
    timed = Timing(backend, spec, lineup)
    scores = [timed.first(made, pool.configuration) for made in pool.made]
    reached = [0.0 if score is None else min(score, 0.0) for score in scores]
    by_code = pool.by_code(timed.examine, most=FIRST)
    rng = np.random.default_rng(seed)
    drawn = [_nearest(rng.permutation(len(reached)).tolist(), reached, best) for _ in range(DRAWS)]
    return {
        "kernel": kernel,
        "seed": seed,
        "variants": len(scores),
        "by code": _nearest(by_code or [], reached, best),
        "by source": _nearest(pool.by_source(), reached, best),
        "chance": [fmean(one[n] for one in drawn) for n in range(FIRST)],
        "the best first": _nearest(np.argsort(reached, kind="stable").tolist(), reached, best),
    }


def _nearest(order: Sequence[int], reached: Sequence[float], best: float) -> list[float]:
    """Log time over the best after one, two, … of an order; the source as given is there from the start."""
    return [min((reached[at] for at in order[:n]), default=0.0) - best for n in range(1, FIRST + 1)]


if __name__ == "__main__":
    sys.exit(main())
